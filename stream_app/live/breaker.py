"""Decide when a stream is stopped: after too many malformed records. A single bad record stops nothing.

The breaker counts each stream by itself, and each input by itself: a sound label says nothing about the producer of
examples. Counting begins with the first malformed record of a stream. The breaker only decides; what stops the stream
is an act in progress, so no result depends on the breaker.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import BreakerSettings
from stream_app.pipeline.steps.routed import Judged
from stream_app.records import Side
from stream_app.snapshot.format import BreakerCounts


class Count(NamedTuple):
    """Malformed records in a row, now and at most; all records and malformed records since the first malformed one."""

    in_a_row: int = 0
    longest: int = 0
    records: int = 0
    malformed: int = 0

    def and_then(self, malformed: NDArray[np.bool_]) -> "Count":
        """Return the count after these records, bool `[n]`: whether each is malformed."""
        good = np.flatnonzero(~malformed)
        edges = np.concatenate(([-1 - self.in_a_row], good, [len(malformed)]))
        runs = np.diff(edges) - 1
        return Count(
            int(runs[-1]),
            max(self.longest, int(runs.max())),
            self.records + len(malformed),
            self.malformed + len(malformed) - len(good),
        )


class Breaker:
    """The counts of one task, which has a bounded number of streams.

    Attributes:
        due: The streams that are to be stopped, with the reasons.
    """

    def __init__(self, settings: BreakerSettings) -> None:
        self.due: dict[str, str] = {}
        self._settings = settings
        self._counts: tuple[dict[str, Count], dict[str, Count]] = ({}, {})

    @property
    def counts(self) -> BreakerCounts:
        """The counts by `Side` and stream."""
        examples, labels = self._counts
        return dict(examples), dict(labels)

    def load(self, counts: BreakerCounts) -> None:
        """Continue from the counts of a snapshot."""
        for side in Side:
            for stream, numbers in counts[side].items():
                self._set(side, stream, Count(*numbers))

    def forget(self, stream: str) -> None:
        """Forget a stream, because it was stopped."""
        for counts in self._counts:
            counts.pop(stream, None)
        self.due.pop(stream, None)

    def take_due(self) -> Mapping[str, str]:
        """Return the streams that are to be stopped now, with the reasons, and forget their counts."""
        due = dict(self.due)
        for stream in due:
            self.forget(stream)
        return due

    def count(self, judged: Sequence[Judged], names: Sequence[str]) -> None:
        """Count one batch.

        Args:
            judged: Its records, by `Side`.
            names: The streams of the task.
        """
        for side in Side:
            rows, counts = judged[side], self._counts[side]
            if not len(rows) or (not counts and not (rows.malformed & (rows.streams >= 0)).any()):
                continue
            order = np.argsort(rows.streams, kind="stable")
            numbers, starts = np.unique(rows.streams[order], return_index=True)
            for number, group in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
                if number >= 0:
                    self._count(side, rows.name_of(number, names), rows.malformed[group])

    def _count(self, side: Side, stream: str, malformed: NDArray[np.bool_]) -> None:
        before = self._counts[side].get(stream)
        if before is None:
            if not malformed.any():
                return
            before, malformed = Count(), malformed[malformed.argmax() :]
        self._set(side, stream, before.and_then(malformed))

    def _set(self, side: Side, stream: str, count: Count) -> None:
        self._counts[side][stream] = count
        reason = self._reason(side, count)
        if reason is not None:
            self.due.setdefault(stream, reason)

    def _reason(self, side: Side, count: Count) -> str | None:
        """Return why a stream with this count is to be stopped; None if it is not."""
        limits, name = self._settings, side.name.lower()
        if count.longest >= limits.in_a_row:
            return f"{count.longest} malformed {name} in a row (limit {limits.in_a_row})"
        share = count.malformed / max(1, count.records)
        if count.records >= limits.share_after_records and share > limits.share:
            return f"{share:.1%} of {count.records} {name} malformed (limit {limits.share:.1%})"
        return None
