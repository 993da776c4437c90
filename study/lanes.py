"""What lanes cost in G-mean: a stream as one model, and as several that each learn the examples of their lane.

    python -m study.lanes               # about two minutes

The stream is Sine of the study: 200,000 examples, 1 % positive, with a drift of the classes at half of it. Each label
comes right after its example. Ids decide the lanes, as they do for a sender. G-mean has the fading factor 0.99, and
counts the predictions of all lanes in the order of the examples.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.lanes import lane_number
from stream_app.learners.api import Operations
from stream_app.learners.factory import build
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.synthetic import Drift, SyntheticSpec, synthetic
from stream_app.records import ID_WORDS, Operation
from stream_app.terminal import say
from study.cli import run_without_options
from study.report.scores import curves_of

LENGTH = 200_000
SEEDS = (1, 2, 3)
LANES = (1, 2, 8, 64)
LEARNERS = (LearnerSettings(method="areba", budget=20), LearnerSettings(method="relay"))


class Cost(NamedTuple):
    """The G-mean of a learner: over the whole stream, and where lanes cost most.

    Attributes:
        mean: Mean over the stream.
        end: At the end.
        first: Mean over the first tenth.
        after_drift: Mean over the tenth after the drift.
    """

    mean: float
    end: float
    first: float
    after_drift: float


def stream(length: int, seed: int) -> DataSet:
    """Return the stream of a seed, with its drift at half of it."""
    return synthetic(SyntheticSpec("sine", length, 1.0, Drift.POSTERIOR, length // 2, 0.0, seed))


def predicted(settings: LearnerSettings, data: DataSet, lanes: int, seed: int) -> NDArray[np.int8]:
    """Return the class of each example on its arrival, int8 `[n]`, if the stream has so many lanes."""
    classes = np.empty(len(data), np.int8)
    numbers = np.array([lane_number(f"e-{row}", lanes) for row in range(len(data))])
    for lane in range(lanes):
        rows = np.flatnonzero(numbers == lane)
        seed_of_lane = np.array([seed, lane], "<u4").tobytes().ljust(32, b"\0")
        learner = build("learner", settings, data.dimension, seed_of_lane)
        codes = np.tile(np.array([Operation.PREDICT, Operation.LEARN], np.uint8), len(rows))
        labels = np.column_stack([np.full(len(rows), -1, np.int8), data.labels[rows]]).reshape(-1)
        operations = Operations(codes, np.repeat(np.arange(len(rows), dtype=np.int32), 2), labels)
        features = np.ascontiguousarray(data.features[rows])
        answers = learner.run(operations, features, np.zeros((len(rows), ID_WORDS), np.uint64))
        classes[rows] = answers.labels[::2]
    return classes


def cost(settings: LearnerSettings, lanes: int, seed: int, length: int = LENGTH) -> Cost:
    """Return the G-mean of one seed."""
    data = stream(length, seed)
    gmean = curves_of(predicted(settings, data, lanes, seed), data.labels).gmean
    tenth, half = length // 10, length // 2
    parts = (gmean, gmean[-1:], gmean[:tenth], gmean[half : half + tenth])
    return Cost(*(float(part.mean()) for part in parts))


def table(seeds: Sequence[int] = SEEDS, length: int = LENGTH) -> Sequence[str]:
    """Return the lines of the table: the mean over the seeds."""
    lines = [
        "| learner | lanes | mean | at the end | first tenth | tenth after the drift |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for settings in LEARNERS:
        name = "RELAY" if settings.method == "relay" else f"AREBA_{settings.budget}"
        for lanes in LANES:
            mean = np.mean([cost(settings, lanes, seed, length) for seed in seeds], axis=0)
            lines.append(f"| {name} | {lanes} | {' | '.join(f'{figure:.3f}' for figure in mean)} |")
    return lines


def main() -> None:
    """Print the lines."""
    for line in table():
        say(line)


if __name__ == "__main__":
    sys.exit(run_without_options(__doc__, main))
