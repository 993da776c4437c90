"""How far scores and calibrated probabilities are from the shares of class 1: `python -m study.calibration`.

It prints the table of docs/operations.md, in seconds. The expected calibration error (Naeini, Cooper and Hauskrecht,
AAAI 2015) is here the mean of |share of class 1 - mean prediction| over groups of equal size in the order of the
predictions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import DataSet
from stream_app.producers.synthetic import Drift, SyntheticSpec, synthetic
from stream_app.terminal import say
from study.field.methods import HALF_SUFFIX, LEARNERS, run_learner

LENGTH, FIRST = 20_000, 10_000
"""Examples of a stream, and the first whose prediction counts."""

GROUPS = 15
SEEDS = 5
SHOWN = {"AREBA": "areba_20", "RELAY": "relay"}


class Stream(NamedTuple):
    """A stream without drift.

    Attributes:
        concept: The name of the generator.
        percent: The percentage of class 1.
        noise: The share of labels that are wrong.
    """

    concept: str
    percent: float
    noise: float = 0.0

    @property
    def title(self) -> str:
        """What the table calls the stream."""
        return f"{self.concept}, {self.percent:g} %{', wrong labels' if self.noise else ''}"

    def data(self, seed: int) -> DataSet:
        """Return the stream of a seed."""
        return synthetic(SyntheticSpec(self.concept, LENGTH, self.percent, Drift.NONE, None, self.noise, seed))


STREAMS = (
    *(Stream(concept, percent) for concept in ("sine", "circle", "sea") for percent in (1, 10)),
    Stream("sea", 10, 0.1),
    Stream("sine", 10, 0.1),
)


def calibration_error(predictions: NDArray[np.float32], labels: NDArray[np.int8]) -> float:
    """Return the expected calibration error.

    Args:
        predictions: float32 `[n]`, of class 1.
        labels: int8 `[n]`.
    """
    order = np.argsort(predictions, kind="stable")
    gaps = [
        abs(float(labels[part].mean()) - float(predictions[part].mean())) * len(part)
        for part in np.array_split(order, GROUPS)
    ]
    return sum(gaps) / len(predictions)


def errors(stream: Stream, learner: str) -> tuple[float, float]:
    """Return the errors of the scores and of the probabilities of a learner, means over the seeds."""
    found = []
    for seed in range(SEEDS):
        data = stream.data(seed)
        rows = run_learner(learner, LEARNERS[learner], data, bytes([seed] * 32))
        predictions = [rows[name].scores for name in (learner, learner + HALF_SUFFIX)]
        found.append([calibration_error(own[FIRST:], data.labels[FIRST:]) for own in predictions if own is not None])
    score, probability = np.mean(found, axis=0)
    return float(score), float(probability)


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| stream | {' | '.join(f'{name}, score | {name}, probability' for name in SHOWN)} |"
    yield f"| --- |{' ---: | ---: |' * len(SHOWN)}"
    for stream in STREAMS:
        cells = [f"{error:.3f}" for learner in SHOWN.values() for error in errors(stream, learner)]
        yield f"| {stream.title} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table():
        say(line)
