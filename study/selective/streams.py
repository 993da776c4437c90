"""The streams of the benchmark: 40,000 examples each, whose concept changes at once in the middle.

Six streams of the comparison of the field, of 200,000 examples, have a table of their own.
"""

from collections.abc import Callable, Mapping
from functools import partial

from stream_app.producers.datasets.base import DataSet
from stream_app.producers.synthetic import Drift, SyntheticSpec, synthetic
from study import generators
from study.field.streams import SLOW_STREAMS, all_streams

LENGTH, DRIFT_STEP = 40_000, 20_000

MakeStream = Callable[[int], DataSet]
"""Makes the stream of a seed."""


def _exchanged(concept: str, percent: float, seed: int) -> DataSet:
    """Return a stream of the paper whose two classes exchange their regions in the middle."""
    return synthetic(SyntheticSpec(concept, LENGTH, percent, Drift.POSTERIOR, DRIFT_STEP, 0.0, seed))


def _hyperplane(percent: float, seed: int) -> DataSet:
    """Return points in ten dimensions, with 5 % noise in the labels; another plane divides the second half."""
    return generators.hyperplane(LENGTH, percent / 100.0, seed, {"concepts": (1, 2)})


STREAMS: Mapping[str, MakeStream] = {
    **{
        f"{concept}-{percent}": partial(_exchanged, concept, float(percent))
        for concept in ("sine", "circle", "sea")
        for percent in (1, 10)
    },
    "hyperplane-1": partial(_hyperplane, 1.0),
}
"""By name, which ends with the percentage of positive examples."""


def _of_field(name: str, seed: int) -> DataSet:
    return all_streams()[name](seed)


FIELD_STREAMS: Mapping[str, MakeStream] = {name: partial(_of_field, name) for name in SLOW_STREAMS}
"""The named subset of the comparison of the field."""

ALL_STREAMS: Mapping[str, MakeStream] = {**STREAMS, **FIELD_STREAMS}

SEEDS, FIELD_SEEDS = 5, 2
"""Repetitions of a stream, and of one of the field: seed s gives both the data and the first weights."""


def seeds_of(stream: str) -> int:
    """Return how many seeds the page has of a stream."""
    return FIELD_SEEDS if stream in FIELD_STREAMS else SEEDS


def resets_of(stream: str) -> tuple[int, ...]:
    """Return where the sums of G-mean restart: at the known drift; the streams of the field have none that is known."""
    return () if stream in FIELD_STREAMS else (DRIFT_STEP,)
