"""How far scores and calibrated probabilities are from the shares of class 1: `python -m study.calibration`.

It prints the tables of docs/operations.md, in half a minute. The expected calibration error (Naeini, Cooper and
Hauskrecht, AAAI 2015) is here the mean of |share of class 1 - mean prediction| over groups of equal size in the order
of the predictions.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import DataSet
from stream_app.producers.synthetic import Drift, SyntheticSpec, synthetic
from stream_app.terminal import say
from study.cli import run_without_options
from study.field.methods import HALF_SUFFIX, LEARNERS, run_learner

LENGTH, DRIFT_STEP = 20_000, 10_000
"""Examples of a stream, of which the last 10,000 predictions count; with a drift, 20,000 examples follow it."""

SETTLED = (slice(DRIFT_STEP, LENGTH),)
AFTER_DRIFT = {
    "0 to 2,000": slice(DRIFT_STEP, DRIFT_STEP + 2_000),
    "10,000 to 20,000": slice(DRIFT_STEP + 10_000, DRIFT_STEP + 20_000),
}
"""The predictions that count, without a drift and with one."""

GROUPS = 15
SEEDS = 5
SHOWN = {"AREBA": "areba_20", "RELAY": "relay"}


class Stream(NamedTuple):
    """A stream.

    Attributes:
        concept: The name of the generator.
        percent: The percentage of class 1.
        noise: The share of labels that are wrong.
        drift: What changes at `DRIFT_STEP`.
    """

    concept: str
    percent: float
    noise: float = 0.0
    drift: Drift = Drift.NONE

    @property
    def title(self) -> str:
        """What the table calls the stream."""
        return f"{self.concept}, {self.percent:g} %{', wrong labels' if self.noise else ''}"

    def data(self, seed: int) -> DataSet:
        """Return the stream of a seed."""
        has_drift = self.drift != Drift.NONE
        step, length = (DRIFT_STEP, DRIFT_STEP + LENGTH) if has_drift else (None, LENGTH)
        return synthetic(SyntheticSpec(self.concept, length, self.percent, self.drift, step, self.noise, seed))


STREAMS = (
    *(Stream(concept, percent) for concept in ("sine", "circle", "sea") for percent in (1, 10)),
    Stream("sea", 10, 0.1),
    Stream("sine", 10, 0.1),
)

DRIFTING = tuple(
    Stream(concept, percent, drift=Drift.POSTERIOR) for concept in ("sine", "circle", "sea") for percent in (1, 10)
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


def errors(stream: Stream, learner: str, spans: Sequence[slice] = SETTLED) -> NDArray[np.float64]:
    """Return the errors of the scores and of the probabilities of a learner, means over the seeds.

    Returns:
        float64 `[spans, 2]`.
    """
    found = []
    for seed in range(SEEDS):
        data = stream.data(seed)
        rows = run_learner(learner, LEARNERS[learner], data, bytes([seed] * 32))
        predictions = [rows[name].scores for name in (learner, learner + HALF_SUFFIX)]
        found.append(
            [
                [calibration_error(own[span], data.labels[span]) for own in predictions if own is not None]
                for span in spans
            ]
        )
    means: NDArray[np.float64] = np.mean(found, axis=0)
    return means


def _table(first: str, rows: Iterable[tuple[str, Sequence[NDArray[np.float64]]]]) -> Iterator[str]:
    """Yield the lines of a table: a heading, and a row of titles and of the errors of each learner."""
    yield f"| {first} | {' | '.join(f'{name}, score | {name}, probability' for name in SHOWN)} |"
    yield f"| --- |{' ---: | ---: |' * len(SHOWN)}"
    for title, found in rows:
        yield f"| {title} | {' | '.join(f'{error:.3f}' for error in np.ravel(found))} |"


def settled() -> Iterator[str]:
    """Yield the table of streams without a drift."""
    return _table("stream", ((one.title, [errors(one, learner)[0] for learner in SHOWN.values()]) for one in STREAMS))


def after_drift() -> Iterator[str]:
    """Yield the table of what comes after a sudden drift, means over the streams."""
    spans = tuple(AFTER_DRIFT.values())
    found = [np.mean([errors(one, learner, spans) for one in DRIFTING], axis=0) for learner in SHOWN.values()]
    rows = ((title, [own[number] for own in found]) for number, title in enumerate(AFTER_DRIFT))
    return _table("predictions after the drift", rows)


def main() -> None:
    """Print the lines."""
    for line in (*settled(), "", *after_drift()):
        say(line)


if __name__ == "__main__":
    sys.exit(run_without_options(__doc__, main))
