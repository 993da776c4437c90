"""One batch of a task: both ranges decoded, and their merged sequence.

A position is an index into that sequence; everything that the batch causes is told by position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_app import codec, order
from stream_app.join import JoinInput
from stream_app.native import compiled
from stream_app.records import Bytes, Decoded, Header, Integers, Longs, Mark, RawRecords, Side

TRACE_HEADER = "traceparent"
"""W3C trace context, carried from the record that caused an output."""


@dataclass(frozen=True, slots=True)
class OriginalRecord:
    """An input record as it came: what a dead letter has to hold."""

    side: Side
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


@dataclass(frozen=True, slots=True)
class Batch:
    """n records of both sides.

    Attributes:
        raw: Both sides as they came.
        decoded: Both sides in columns.
        merged: The columns that the join works on, with `sides` and `rows` of each position.
        times: int64 `[n]`, the timestamp of each position.
    """

    raw: tuple[RawRecords, RawRecords]
    decoded: tuple[Decoded, Decoded]
    merged: JoinInput
    times: Longs

    def original(self, position: int) -> OriginalRecord:
        """The record at this position, untouched."""
        side, row = Side(int(self.merged.sides[position])), int(self.merged.rows[position])
        raw = self.raw[side]
        return OriginalRecord(side, int(raw.offsets[row]), raw.keys[row], raw.values[row], raw.headers.get(row, ()))

    def traces(self, positions: Integers) -> Mapping[int, Sequence[Header]]:
        """The trace headers of the records at these positions, by row of `positions`."""
        if not (self.raw[0].headers or self.raw[1].headers):
            return {}
        found: dict[int, Sequence[Header]] = {}
        for row, position in enumerate(positions.tolist()):
            headers = self.raw[self.merged.sides[position]].headers.get(int(self.merged.rows[position]), ())
            kept = [header for header in headers if header[0] == TRACE_HEADER]
            if kept:
                found[row] = kept
        return found

    def marks(self) -> Sequence[tuple[int, Mark]]:
        """Where the control records are, ascending, with what they say."""
        found = []
        for side, decoded in enumerate(self.decoded):
            if decoded.marks:
                positions = np.flatnonzero(self.merged.sides == side)  # rows keep their order
                found += [(int(positions[row]), mark) for row, mark in decoded.marks.items()]
        return sorted(found, key=lambda mark: mark[0])

    def first_seen(self, names: set[str]) -> list[str]:
        """These new stream names in the order in which the sequence meets a well-formed record of them."""
        first: dict[str, None] = {}
        for position, time in enumerate(self.times.tolist()):
            side, row = self.decoded[self.merged.sides[position]], int(self.merged.rows[position])
            if side.streams[row] >= side.known and time > 0:
                name = side.stream_names[side.streams[row] - side.known]
                if name in names:
                    first.setdefault(name)
                    if len(first) == len(names):
                        break
        return list(first)


def open_batch(examples: RawRecords, labels: RawRecords, limits: codec.DecodeLimits, known: codec.NameList) -> Batch:
    """Decode and merge both ranges of a batch; `known` are names of streams."""
    decoded = (
        codec.decode(examples.values, Side.EXAMPLES, limits, known),
        codec.decode(labels.values, Side.LABELS, limits, known),
    )
    sides, rows = order.merge(examples.timestamps, labels.timestamps)
    merged = JoinInput(
        sides=sides,
        rows=rows,
        example_times=examples.timestamps,
        example_offsets=examples.offsets,
        example_ids=decoded[0].ids,
        features=decoded[0].features,
        feature_starts=decoded[0].feature_starts,
        label_times=labels.timestamps,
        label_offsets=labels.offsets,
        label_ids=decoded[1].ids,
        labels=decoded[1].labels,
        revisions=decoded[1].revisions,
    )
    return Batch((examples, labels), decoded, merged, _gather(sides, rows, examples.timestamps, labels.timestamps))


@compiled
def _gather(sides: Bytes, rows: Integers, examples: Longs, labels: Longs) -> Longs:
    """Values of both sides in merged order."""
    result = np.empty(len(sides), np.int64)
    for position in range(len(sides)):
        row = rows[position]
        result[position] = examples[row] if sides[position] == 0 else labels[row]
    return result
