"""RELAY and AREBA_20 on kinds of streams that had no part in RELAY's development: `python -m study.relay_unseen`.

Four synthetic kinds are made here, with 10,000 examples each unless a line says otherwise; Phishing and Bananas come
with River, which publishes no order in time for either, so each repetition shuffles them. The learners run without the
worker; labels come directly after their examples, or `delay` examples later. A repetition's seed is its number.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.synthetic import Drift
from stream_app.config import LearnerSettings
from stream_app.learners.api import Operations
from stream_app.learners.registry import build
from stream_app.records import ID_WORDS, Floats, Operation
from stream_app.terminal import say
from study.relay import Score, table, write_results
from study.report.scores import curves_of
from study.run.experiment import StreamChoice
from study.run.streams import made

REPETITIONS = 20

RESULTS = Path(__file__).with_name("results") / "relay_unseen.csv"

SETTINGS: Mapping[str, LearnerSettings] = {
    "areba_20": LearnerSettings(method="areba", budget=20),
    "relay": LearnerSettings(method="relay"),
    "relay_alone": LearnerSettings(method="relay"),
}
"""The learners; the last is RELAY without a challenger."""

PAUSE, QUIET_OPERATIONS = 7, 300
"""The place of the labels since an alarm in RELAY's tallies, and operations that keep it below 200."""


class Made(NamedTuple):
    """A stream: features, the labels that are sent, the clean labels, and known drifts."""

    features: Floats
    labels: NDArray[np.int8]
    clean: NDArray[np.int8]
    resets: tuple[int, ...] = ()
    delay: int = 0


def _made(
    features: NDArray[np.float64], positive: NDArray[np.bool_], random: np.random.Generator, noise: float = 0.0
) -> Made:
    """Return a stream; a share of the labels that are sent is false."""
    clean = positive.astype(np.int8)
    flipped = np.where(random.random(len(clean)) < noise, 1 - clean, clean).astype(np.int8)
    return Made(np.ascontiguousarray(features, np.float32), flipped, clean)


def moving_blobs(random: np.random.Generator) -> Made:
    """Return two clouds for each class in ten dimensions, 5 % positive, whose centres move steadily."""
    count, width = 10_000, 10
    positive = random.random(count) < 0.05
    centres, speeds = random.normal(size=(2, 2, width)), random.normal(size=(2, 2, width)) * 1.5
    which = random.integers(0, 2, count)
    at = np.arange(count)[:, None] / count
    middles = centres[positive.astype(int), which] + at * speeds[positive.astype(int), which]
    return _made(middles + 0.7 * random.normal(size=(count, width)), positive, random)


def gradual_change(random: np.random.Generator) -> Made:
    """Return 3 % positives in four dimensions, whose concept gives way to another over 4,000 examples, by chance."""
    count, width = 10_000, 4
    features = random.random((count, width))
    new = random.random(count) < np.clip((np.arange(count) - 3_000) / 4_000, 0.0, 1.0)
    heights = np.where(new, features[:, 0] + features[:, 1], features[:, 2] - features[:, 3])
    levels = [np.quantile(heights[new == k], 0.97) for k in (False, True)]
    return _made(features, heights > np.where(new, levels[1], levels[0]), random)


def checkerboard(random: np.random.Generator) -> Made:
    """Return four by four fields, of which one class has every second one; 10 % positive, and 5 % of labels false."""
    count = 10_000
    positive = random.random(count) < 0.1
    row, column = random.integers(0, 4, count), random.integers(0, 2, count)
    column = 2 * column + (row + positive) % 2
    fields = np.column_stack([row, column]) + random.random((count, 2))
    return _made(fields, positive, random, 0.05)


def late_recurring(random: np.random.Generator) -> Made:
    """Return Sine, 1 % positive, 60,000 examples; a drift every 15,000, labels 2,000 events late."""
    choice = StreamChoice(source="sine", imbalance=1.0, length=60_000, drift=Drift.POSTERIOR, drift_every=15_000)
    data = made(choice, int(random.integers(1 << 30)))
    return Made(data.features, data.labels, data.labels, choice.resets(60_000), 2_000)


def of_river(name: str) -> Callable[[np.random.Generator], Made]:
    """Return the maker of one of River's data sets, in shuffled order."""

    def maker(random: np.random.Generator) -> Made:
        from river import datasets  # noqa: PLC0415  (an optional extra)

        rows = list(getattr(datasets, name)())
        features = np.array([list(x.values()) for x, _ in rows], np.float64)
        positive = np.array([bool(y == 1) for _, y in rows])
        order = random.permutation(len(rows))
        return _made(features[order], positive[order], random)

    return maker


UNSEEN: Mapping[str, Callable[[np.random.Generator], Made]] = {
    "moving-blobs": moving_blobs,
    "gradual-change": gradual_change,
    "checkerboard": checkerboard,
    "late-recurring": late_recurring,
    "phishing": of_river("Phishing"),
    "bananas": of_river("Bananas"),
}


def operations_of(stream: Made) -> Operations:
    """Return the operations: each example is predicted, each label learned `delay` examples later."""

    def entries() -> Iterator[tuple[int, int, int]]:
        for slot in range(len(stream.labels)):
            yield int(Operation.PREDICT), slot, -1
            if slot >= stream.delay:
                yield int(Operation.LEARN), slot - stream.delay, int(stream.labels[slot - stream.delay])

    codes, slots, labels = zip(*entries(), strict=True)
    return Operations(np.array(codes, np.uint8), np.array(slots, np.int32), np.array(labels, np.int8))


def predicted_by(name: str, stream: Made, steps: Operations, seed: bytes) -> NDArray[np.int8]:
    """Return the classes that a learner predicts; without a challenger, an alarm always seems to be recent."""
    learner = build(name, SETTINGS[name], stream.features.shape[1], seed)
    ids = np.zeros((len(stream.labels), ID_WORDS), np.uint64)
    classes, cut = [], QUIET_OPERATIONS if name == "relay_alone" else len(steps)
    for start in range(0, len(steps), cut):
        part = slice(start, start + cut)
        asked = Operations(steps.codes[part], steps.slots[part], steps.labels[part])
        classes.append(learner.run(asked, stream.features, ids).labels)
        if name == "relay_alone":
            arrays = dict(learner.arrays())
            arrays["tallies"][PAUSE] = 0
            learner.load(arrays)
    predicted: NDArray[np.int8] = np.concatenate(classes)[steps.codes == Operation.PREDICT]
    return predicted


def score(name: str, repetitions: int) -> Score:
    """Return the figures of one kind, float64 `[repetitions, 3]`."""
    rows = []
    for number in range(repetitions):
        stream = UNSEEN[name](np.random.default_rng([number, *name.encode()]))
        steps = operations_of(stream)
        seed = hashlib.sha256(f"{name} {number}".encode()).digest()
        row = []
        for learner in SETTINGS:
            curve = curves_of(predicted_by(learner, stream, steps, seed), stream.clean, stream.resets).gmean
            row.append((curve[-1], curve.mean()))
        rows.append(row)
    figures = np.array(rows)
    return Score(figures[:, :, 0], figures[:, :, 1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all kinds, write the figures and print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m study.relay_unseen", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    given = parser.parse_args(arguments)
    scores = {name: score(name, given.repetitions) for name in UNSEEN}
    write_results(scores, RESULTS, list(SETTINGS))
    for others, other in (([0, 1], "AREBA_20"), ([2, 1], "RELAY without a challenger")):
        pairs = {name: Score(own.final[:, others], own.average[:, others]) for name, own in scores.items()}
        for line in (*table(pairs, other).splitlines(), ""):
            say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
