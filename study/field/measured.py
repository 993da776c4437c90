"""The measures by stream, averaged over the seeds that are complete."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from study.field.methods import FAST, MOA_LINES, RIVER
from study.field.results import TIME, Finished, Repetition
from study.field.run import rows_of
from study.field.streams import KINDS, PERCENTS, SLOW_STREAMS, further_streams, streams

Doubles = NDArray[np.float64]

PARTS = ("generator", "change", "share of positives")
"""How streams are grouped."""


class Measured:
    """The rows of the table.

    Args:
        finished: All repetitions that were run.

    Attributes:
        streams: Names of all streams.
        seeds: The seeds that are complete: each row of each fast method on each stream is there.
        slow: The slow methods that are complete on the named subset.
        further: The complete seeds of each further stream that has any.
    """

    def __init__(self, finished: Finished) -> None:
        self._finished = finished
        self.streams: Sequence[str] = tuple(streams())
        self.seeds = self._complete(self.streams)
        found = {name: self._complete((name,)) for name in further_streams()}
        self.further = {name: seeds for name, seeds in found.items() if seeds}
        self.slow = tuple(
            name
            for name in (*RIVER, *MOA_LINES)
            if all(Repetition(stream, name, 0) in finished for stream in SLOW_STREAMS)
        )

    def _complete(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the seeds with which each row of each fast method is there on each of these streams."""
        rows = [row for method in FAST for row in rows_of(method)]
        return tuple(
            seed
            for seed in sorted({one.seed for one in self._finished})
            if all(Repetition(stream, row, seed) in self._finished for stream in names for row in rows)
        )

    def values(self, row: str, measure: str, chosen: Sequence[str] | None = None) -> Doubles:
        """Return the means over the complete seeds, float64 `[streams]`.

        Args:
            row: The name of a row.
            measure: One of `Measures`, or `microseconds`.
            chosen: The streams; None: all.
        """
        own = [self.of(row, measure, seed, chosen) for seed in self.seeds]
        means: Doubles = np.mean(own, axis=0)
        return means

    def microseconds(self, row: str) -> float:
        """Return the CPU time for an example: the median over the complete seeds of the mean over all streams."""
        return float(np.median([self.of(row, TIME, seed).mean() for seed in self.seeds]))

    def of(self, row: str, measure: str, seed: int, chosen: Sequence[str] | None = None) -> Doubles:
        """Return the values of one seed, float64 `[streams]`; see `values`."""
        found = [self._finished[Repetition(stream, row, seed)] for stream in chosen or self.streams]
        return np.array([one.microseconds if measure == TIME else getattr(one.measures, measure) for one in found])

    def of_further(self, stream: str, row: str, measure: str) -> float:
        """Return the mean of a further stream over its complete seeds; see `values`."""
        return float(np.mean([self.of(row, measure, seed, (stream,)) for seed in self.further[stream]]))

    def matrix(self, rows: Sequence[str], measure: str) -> Doubles:
        """Return the values of several rows on all streams, float64 `[streams, rows]`."""
        return np.column_stack([self.values(row, measure) for row in rows])

    def parts(self) -> dict[tuple[str, str], Sequence[str]]:
        """Return the streams of each generator, way of changing and share of positives, by `PARTS` and its name."""
        found: dict[tuple[str, str], list[str]] = {}
        for name in self.streams:
            kind, _, rest = name.partition("-")
            generator, _, percent = rest.rpartition("-")
            for part, value in zip(PARTS, (generator, kind, f"{percent} %"), strict=True):
                found.setdefault((part, value), []).append(name)
        order = {"change": KINDS, "share of positives": tuple(f"{percent} %" for percent in PERCENTS)}
        return {
            (part, value): found[part, value]
            for part in PARTS
            for value in order.get(part, sorted({name for one, name in found if one == part}))
            if (part, value) in found
        }
