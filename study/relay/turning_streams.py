"""Streams whose concepts turn, move or return, for `study.relay.turning`: six kinds with published generators.

The class of an example is drawn first; then the generator makes candidates of the concept at this step, until one is of
that class. So the share of positives is the same whatever the concept does. A stream has 20,000 examples.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from study.generators import rules
from study.generators.rules import one_hot
from study.generators.stream import Booleans, Doubles
from study.relay.unseen_streams import Made

LENGTH = 20_000

Steps = NDArray[np.int64]

Concept = Callable[[np.random.Generator, Steps], tuple[Doubles, Booleans]]
"""Returns a candidate for each of these steps: features float64 `[n, d]` and classes `[n]`."""


def hyperplane(random: np.random.Generator) -> Concept:
    """Return a plane through the middle of a cube of ten dimensions, which turns by half a circle at a constant speed.

    Hulten, Spencer and Domingos (2001), without false labels; their weights move one by one.
    """
    width = 10
    plane, _ = np.linalg.qr(random.normal(size=(width, 2)))

    def concept(draws: np.random.Generator, steps: Steps) -> tuple[Doubles, Booleans]:
        features = draws.random((len(steps), width))
        angle = np.pi * steps / LENGTH
        ways = (features - 0.5) @ plane
        return features, ways[:, 0] * np.cos(angle) + ways[:, 1] * np.sin(angle) > 0.0

    return concept


def moving_centres(random: np.random.Generator) -> Concept:
    """Return 50 centres in ten dimensions, each of one class, which move by 0.0001 in each example (MOA)."""
    width, count, speed = 10, 50, 0.0001
    starts, classes = random.random((count, width)), random.random(count) < 0.5
    classes[:2] = False, True
    deviations, shares = random.random(count), np.cumsum(random.random(count))
    directions = random.normal(size=(count, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)

    def concept(draws: np.random.Generator, steps: Steps) -> tuple[Doubles, Booleans]:
        chosen = np.searchsorted(shares / shares[-1], draws.random(len(steps)), side="right").clip(max=count - 1)
        travelled = np.abs(starts[chosen] + speed * steps[:, None] * directions[chosen]) % 2.0
        centres = 1.0 - np.abs(1.0 - travelled)  # a centre turns back at the sides of the cube
        ways = draws.normal(size=(len(steps), width))
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        return centres + ways * (draws.normal(size=len(steps)) * deviations[chosen])[:, None], classes[chosen]

    return concept


def stagger(_random: np.random.Generator) -> Concept:
    """Return three features of three values, and three concepts that take turns, each for 2,500 examples.

    Schlimmer and Granger (1986): small and red; green or round; medium or large.
    """

    def concept(draws: np.random.Generator, steps: Steps) -> tuple[Doubles, Booleans]:
        values = draws.integers(0, 3, (len(steps), 3))
        size, colour, shape = values.T
        labels = np.choose(
            steps // 2_500 % 3, [(size == 0) & (colour == 0), (colour == 1) | (shape == 0), (size == 1) | (size == 2)]
        )
        return np.hstack([one_hot(values[:, k], 3) for k in range(3)]), labels.astype(bool)

    return concept


SEGMENTS = np.array([[int(bit) for bit in digit] for digit in (
    "1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"
)])  # fmt: skip
"""The seven segments of each digit."""


def led(random: np.random.Generator) -> Concept:
    """Return the segments of a digit, of which 10 % are wrong, among 17 features without meaning (Breiman et al. 1984).

    Digits from five on are positive. The segments get other places after every 5,000 examples.
    """
    width = 24
    places = np.array([random.permutation(width)[:7] for _ in range(LENGTH // 5_000)])

    def concept(draws: np.random.Generator, steps: Steps) -> tuple[Doubles, Booleans]:
        digits = draws.integers(0, 10, len(steps))
        features = draws.integers(0, 2, (len(steps), width)).astype(np.float64)
        wrong = draws.random((len(steps), 7)) < 0.1
        features[np.arange(len(steps))[:, None], places[steps // 5_000]] = SEGMENTS[digits] ^ wrong
        return features, digits >= 5

    return concept


def agrawal(random: np.random.Generator) -> Concept:
    """Return applications for loans (Agrawal, Imielinski and Swami 1993): functions 1 and 2 take turns of 5,000."""
    name = int(random.integers(1 << 30))

    def concept(draws: np.random.Generator, steps: Steps) -> tuple[Doubles, Booleans]:
        call = int(draws.integers(1 << 30))
        candidates = [rules.agrawal(function, ("turning", name, call), len(steps)) for function in (1, 2)]
        turn = steps // 5_000 % 2 == 1
        return candidates[0][0], np.where(turn, candidates[1][1], candidates[0][1])

    return concept


def borderline(random: np.random.Generator) -> Concept:
    """Return five small clusters of positives in three dimensions, which do not change (Napierala et al. 2010).

    Of the positives, 30 % are in a shell around a cluster and 10 % anywhere; negatives are everywhere but in a cluster.
    """
    width, count, radius = 3, 5, 0.15
    centres = 0.15 + 0.7 * random.random((count, width))

    def concept(draws: np.random.Generator, steps: Steps) -> tuple[Doubles, Booleans]:
        labels, features = draws.random(len(steps)) < 0.5, draws.random((len(steps), width))
        distances = np.linalg.norm(features[:, None] - centres, axis=2).min(axis=1)
        kind = draws.random(len(steps))
        ways = draws.normal(size=(len(steps), width))
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        length = np.where(kind < 0.6, draws.random(len(steps)) ** (1 / 3), 1.0 + 0.5 * draws.random(len(steps)))
        near = centres[draws.integers(0, count, len(steps))] + radius * length[:, None] * ways
        clustered = labels & (kind < 0.9)
        features[clustered] = near[clustered]
        features[~labels & (distances < radius)] = np.nan  # no candidate
        return features, labels

    return concept


KINDS: Mapping[str, Callable[[np.random.Generator], Concept]] = {
    "hyperplane": hyperplane,
    "moving-centres": moving_centres,
    "stagger": stagger,
    "led": led,
    "agrawal": agrawal,
    "borderline": borderline,
}


def turning_stream(kind: str, percent: int, delay: int, seed: int) -> Made:
    """Return a stream of a kind, with this percentage of positives and labels this many examples late."""
    random = np.random.default_rng([seed, percent, *kind.encode()])
    concept = KINDS[kind](random)
    labels = random.random(LENGTH) < percent / 100
    features, missing = np.empty((LENGTH, 0)), np.arange(LENGTH)
    while len(missing):
        found, classes = concept(random, missing)
        if not features.size:
            features = np.empty((LENGTH, found.shape[1]))
        good = (classes == labels[missing]) & ~np.isnan(found).any(axis=1)
        features[missing[good]] = found[good]
        missing = missing[~good]
    own = labels.astype(np.int8)
    return Made(np.ascontiguousarray(features, np.float32), own, own, (), delay)
