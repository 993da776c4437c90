"""RELAY in plain Python: lists and floats, one number after the other.

Written from the description in `stream_app/learners/methods/relay/relay.py`; it shares no code with stream_app. Random
words are those of NumPy's Philox.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import product
from statistics import fmean

import numpy as np

from tests.learner_oracle import Kept, Network

DRAWN, LIMIT, JITTER_LIMIT = 4, 5.0, 144


class Standardisation:
    """Fading moments of each feature."""

    def __init__(self, features: int) -> None:
        self.counts, self.means, self.variances = [0.0] * features, [0.0] * features, [0.0] * features
        self.trends = [1.0] * features

    def add(self, features: Sequence[float]) -> None:
        """Take an example in."""
        for i, x in enumerate(features):
            distance, deviation = x - self.means[i], math.sqrt(self.variances[i])
            self.counts[i] = min(self.counts[i] + 1, 1000)
            if deviation > 0:
                self.trends[i] += (min((distance / deviation) ** 2, 4) - self.trends[i]) / 16
                if not 0.1 <= self.trends[i] <= 3.3:
                    self.counts[i] = min(self.counts[i], 4)
                distance = min(max(distance, -LIMIT * deviation), LIMIT * deviation)
            share = 1 / self.counts[i]
            self.means[i] += share * distance
            self.variances[i] = (1 - share) * (self.variances[i] + share * distance**2)
            if self.variances[i] > 0:
                self.variances[i] = max(self.variances[i], (1e-7 * self.means[i]) ** 2 + 1e-60)

    def of(self, features: Sequence[float]) -> list[float]:
        """Return the example in deviations from the mean, at most `LIMIT`."""
        scaled = []
        for x, mean, variance in zip(features, self.means, self.variances, strict=True):
            value = (x - mean) / math.sqrt(variance) if variance > 0 else 0.0
            scaled.append(min(max(value, -LIMIT), LIMIT))
        return scaled


def gates_of(negatives: Sequence[Sequence[float]], positives: Sequence[Sequence[float]]) -> list[float]:
    """Return what each standardised feature is multiplied by, given the standardised examples of both classes."""
    features = len(negatives[0] if negatives else positives[0])
    if min(len(negatives), len(positives)) < 4:
        return [1.0] * features
    chance = 2 * sum(1 / k for k in range(1, features + 1))
    gates = []
    for i in range(features):
        largest = 0.0
        for most, power in product((len(negatives) + len(positives), 100), (1, 2)):
            ours, theirs = ([example[i] ** power for example in own[-most:]] for own in (negatives, positives))
            errors = sum((x - fmean(own)) ** 2 for own in (ours, theirs) for x in own)
            variance = max(errors / (len(ours) + len(theirs)), 1e-9)
            difference = fmean(theirs) - fmean(ours)
            largest = max(largest, difference**2 / (variance * (1 / len(ours) + 1 / len(theirs))))
        floor = min(1.0, max(0.03, 4 / features**2))
        gates.append(max(floor, (largest / (largest + chance)) ** 2))
    factor = math.sqrt(features / sum(gate**2 for gate in gates))
    return [gate * factor for gate in gates]


def trends_of(kept: Sequence[Sequence[Kept]], arrivals: Mapping[str, int]) -> list[float]:
    """Return how much each feature grows from one example to the next, as far as that is certain."""
    features = len(next(own for own in kept if own)[0].features)
    large = [own for own in kept if len(own) > 1]
    if not large:
        return [0.0] * features
    times = [[arrivals[example.id] for example in own] for own in large]
    distances = [[time - fmean(own) for time in own] for own in times]
    spread = sum(x * x for own in distances for x in own)
    largest = max(x * x for own in distances for x in own)
    slopes = []
    for i in range(features):
        values = [[float(example.features[i]) for example in own] for own in large]
        rests = [[x - fmean(own) for x in own] for own in values]
        variance = sum(x * x for own in rests for x in own)
        product = sum(x * t for own, when in zip(rests, distances, strict=True) for x, t in zip(own, when, strict=True))
        if variance == 0 or spread == 0:
            slopes.append(0.0)
            continue
        explained = product**2 / spread
        unexplained = max(variance - explained, 1e-12 * variance)
        share = 1 - 30 * unexplained * largest / (explained * spread) if explained else 0.0
        slopes.append(product / spread * max(share, 0.0))
    return slopes


class Errors:
    """Running means of each class, with a least rate."""

    def __init__(self, rate: float) -> None:
        self.values, self.counts = [0.0, 0.0], [0, 0]
        self._rate = rate

    def add(self, label: int, value: float) -> None:
        """Take a value of a class in."""
        self.counts[label] += 1
        share = max(self._rate, 1.0 / self.counts[label])
        self.values[label] += share * (value - self.values[label])


class Challenger:
    """A network that is tried after an alarm."""

    def __init__(self, first: Network, recent: list[int]) -> None:
        self.network, self.average = deepcopy(first), deepcopy(first)
        self.recent = recent
        self.losses, self.own_losses = Errors(0.04), Errors(0.04)


class ShortMemory:
    """A network that always learns from the newest examples alone, and predicts while it is better."""

    def __init__(self, first: Network) -> None:
        self.network, self.predicts = deepcopy(first), False
        self._gains, self._squares = Errors(0.05), Errors(0.05)

    def compare(self, label: int, score: float, own_score: float) -> None:
        """Take a label that both memories have predicted into the gains."""
        gain = abs(label - score) - abs(label - own_score)
        self._gains.add(label, gain)
        self._squares.add(label, gain * gain)
        if min(self._gains.counts) < 3:
            return
        variance = sum(
            (max(square - mean * mean, 0.0) + 0.02) / min(count, 20)
            for square, mean, count in zip(self._squares.values, self._gains.values, self._gains.counts, strict=True)
        )
        total = sum(self._gains.values)
        if total > 2 * math.sqrt(variance):
            self.predicts = True
        elif total < 0:
            self.predicts = False


class Relay:
    """A learner.

    Args:
        first: Its network before the first step.
        replay: Examples of each class that are kept.
        features: Numbers in an example.
        seed: 32 bytes.

    Attributes:
        kept: The examples of each class, oldest first.
        network: Takes steps.
        average: Predicts, unless the short memory does.
        challenger: None without one.
        short: The short memory.
        steps: Steps taken in all.
        gates: What each standardised feature is multiplied by.
        trends: How much each feature grows from one example to the next.
    """

    def __init__(self, first: Network, replay: int, features: int, seed: bytes) -> None:
        self.kept: tuple[list[Kept], list[Kept]] = ([], [])
        self.network, self.average, self.challenger = deepcopy(first), deepcopy(first), None
        self.short = ShortMemory(first)
        self.steps = 0
        self._first, self._replay, self._features = first, replay, features
        self._standardisation = Standardisation(features)
        self.gates, self.trends = [1.0] * features, [0.0] * features
        self._arrivals: dict[str, int] = {}
        self._fast, self._slow = Errors(0.05), Errors(0.005)
        self._labels = self._waiting = self._since_alarm = 0
        key, start = np.frombuffer(seed[:16], "<u8"), np.frombuffer(seed[16:], "<u8")
        words = [int(word) for word in (0, 1, *start)]
        counter = sum(word << (64 * place) for place, word in enumerate(words))
        self._philox = np.random.Philox(key=sum(int(word) << (64 * k) for k, word in enumerate(key)), counter=counter)

    challenger: Challenger | None

    def predict(self, id_: str, features: Sequence[float]) -> float:
        """Return P(class 1)."""
        self._standardisation.add(features)
        self._arrivals[id_] = len(self._arrivals)
        self._waiting += 1
        inputs = self._standardisation.of(features)
        return (
            self.short.network.score(_small(inputs)) if self.short.predicts else self.average.score(self._gated(inputs))
        )

    def learn(self, example: Kept, label: int) -> None:
        """Learn a label."""
        inputs = self._standardisation.of(example.features)
        short_score, inputs = self.short.network.score(_small(inputs)), self._gated(inputs)
        score, had_challenger = self.average.score(inputs), self.challenger is not None
        alarm = self._is_alarm(score, label)
        self.short.compare(label, score, short_score)
        if self.challenger is not None:
            self._judge(self.challenger, score, self.challenger.average.score(inputs), label)
        self.kept[label].append(example)
        del self.kept[label][: -self._replay]
        if self.challenger is not None:
            self.challenger.recent[label] = min(self.challenger.recent[label] + 1, len(self.kept[label]))
        if alarm and not had_challenger:
            self._since_alarm = 0
            recent = [min(10, len(self.kept[k])) if k == label else 0 for k in range(2)]
            self.challenger = Challenger(self._first, recent)
        self._labels += 1
        period = 1
        while 16 * period <= len(self.kept[0]) + len(self.kept[1]):
            period *= 2
        if self._labels % period == 0:
            self.trends = trends_of(self.kept, self._arrivals)
            scaled = [[self._today(kept) for kept in own] for own in self.kept]
            self.gates = gates_of(*scaled)
        steps = min(max(self._waiting, 1), 8) * (4 if self._features < 8 else 1)
        self._waiting = 0
        for step in range(steps):
            newest = label if step == 0 else None
            self.network.train(self._batch([len(own) for own in self.kept], newest))
            self.short.network.train(self._batch([min(len(own), 15) for own in self.kept], None, for_short=True))
            if self.challenger is not None:
                self.challenger.network.train(self._batch(self.challenger.recent, None))
        self.steps += steps * (2 if self.challenger is None else 3)
        _approach(self.average, self.network, self._labels)
        if self.challenger is not None:
            _approach(self.challenger.average, self.challenger.network, sum(self.challenger.losses.counts))

    def correct(self, id_: str, label: int) -> None:
        """Move an example to the end of the other class's queue."""
        queue = self.kept[1 - label]
        for place in range(len(queue) - 1, -1, -1):
            if queue[place].id == id_:
                if self.challenger is not None and len(queue) - place <= self.challenger.recent[1 - label]:
                    self.challenger.recent[1 - label] -= 1
                self.kept[label].append(queue.pop(place))
                del self.kept[label][: -self._replay]
                if self.challenger is not None:
                    self.challenger.recent[label] = min(self.challenger.recent[label] + 1, len(self.kept[label]))
                return

    def _is_alarm(self, score: float, label: int) -> bool:
        expected = self._slow.values[label]
        error = float((score > 0.5) != (label == 1))
        self._fast.add(label, error)
        self._slow.add(label, error)
        self._since_alarm += 1
        counts = self._slow.counts
        if counts[label] <= 40 or counts[1 - label] < 10 or self._since_alarm < 200:
            return False
        deviation = math.sqrt((expected * (1 - expected) + 0.01) / 39)
        return self._fast.values[label] > expected + 6 * deviation

    def _judge(self, challenger: Challenger, score: float, own_score: float, label: int) -> None:
        challenger.losses.add(label, abs(label - score))
        challenger.own_losses.add(label, abs(label - own_score))
        fewest = min(challenger.losses.counts)
        if fewest < 3:
            return
        lead = sum(a - b for a, b in zip(challenger.losses.values, challenger.own_losses.values, strict=True)) / 2
        if lead > 0.2:
            self.network, self.average = challenger.network, challenger.average
            self._labels, self._since_alarm, self.challenger = sum(challenger.losses.counts), 0, None
            for own, recent in zip(self.kept, challenger.recent, strict=True):
                del own[: max(0, len(own) - max(recent, 1))]
            self._fast, self._slow = Errors(0.05), Errors(0.005)
        elif fewest >= 30:
            self.challenger = None

    def _batch(
        self, recent: Sequence[int], newest: int | None, *, for_short: bool = False
    ) -> list[tuple[list[float], int]]:
        batch = []
        for k in range(2):
            if recent[k] == 0:
                continue
            words = [int(word) for word in self._philox.random_raw(4)]
            halves = [part for word in words[:2] for part in (word >> 32, word & 0xFFFFFFFF)]
            for draw, half in enumerate(halves):
                among = min(recent[k], 50) if draw == 3 else recent[k]
                back = 0 if k == newest and draw == 0 else half * among >> 32
                inputs = self._today(self.kept[k][-1 - back])
                if recent[k] < JITTER_LIMIT and not for_short:
                    inputs = [x + noise for x, noise in zip(inputs, self._noise(recent[k]), strict=True)]
                batch.append((_small(inputs) if for_short else self._gated(inputs), k))
        return batch

    def _today(self, example: Kept) -> list[float]:
        """Return a kept example as it would be today, standardised."""
        age = len(self._arrivals) - self._arrivals[example.id]
        moved = [x + slope * age for x, slope in zip(example.features, self.trends, strict=True)]
        return self._standardisation.of(moved)

    def _gated(self, inputs: Sequence[float]) -> list[float]:
        return [x * gate for x, gate in zip(inputs, self.gates, strict=True)]

    def _noise(self, kept: int) -> list[float]:
        noise: list[float] = []
        while len(noise) < self._features:
            for word in self._philox.random_raw(4).tolist():
                noise += [((word >> shift & 0xFFFF) / 32767.5 - 1) / math.sqrt(kept) for shift in (0, 16, 32, 48)]
        return noise[: self._features]


def _small(inputs: Sequence[float]) -> list[float]:
    return [0.4 * x for x in inputs]


def _approach(average: Network, network: Network, labels: int) -> None:
    """Move an average towards the weights of its network."""
    window = min(50.0, 1 + labels / 40)
    for k, weight in enumerate(network.parameters):
        average.parameters[k] += (weight - average.parameters[k]) / window
