"""The steps decode and merge: both ranges of a batch in columns, and their merged sequence.

A position is an index into the merged sequence. Every result of a batch refers to a record by its position.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_app.arrays import Bytes, Integers, Longs
from stream_app.jit.compiler import compiled, compiled_without_refcounts
from stream_app.join.input import JoinInput
from stream_app.pipeline import merge
from stream_app.pipeline.carried_headers import CarriedHeaders, headers_bytes
from stream_app.record_columns import BinaryColumn, CellArrays, Decoded, RawRecords
from stream_app.records import DEAD_LETTER_BYTES, Header, Headers, Kind, Mark, Reason, Side
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.names import NameList, NameTable

MALFORMED = int(Kind.MALFORMED)
_TOMBSTONE = int(Kind.TOMBSTONE)
WRONG_KEY = int(Reason.WRONG_KEY)

_LAST_ADVANCE_MS = np.iinfo(np.int64).max - 1
"""The largest time up to which a mark closes: compiled code closes what is below the time after it."""


def advance_ms(mark: Mark) -> int:
    """Return the time up to and including which an `advance` mark closes examples and labels, in milliseconds."""
    return min(int(mark.time_ms or 0), _LAST_ADVANCE_MS)


@dataclass(frozen=True, slots=True)
class OriginalRecord:
    """An input record as it came, which is what a dead letter contains; `timestamp_ms` as in `RawRecords`."""

    side: Side
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


@dataclass(frozen=True, slots=True)
class InputBatch:
    """A batch: n records of both sides, decoded and merged.

    Attributes:
        raw: Both sides as they came, examples first, as in all pairs below.
        decoded: Both sides in columns.
        merged: The columns that the join works on, with `sides` and `rows` of each position.
        times: int64 `[n]`, the timestamp of each position.
        known: The names of streams that the decoder knew; the task may have appended more since.
        sizes: int64, the bytes that each row would have as a dead letter.
        carried: The headers that outputs carry.
    """

    raw: tuple[RawRecords, RawRecords]
    decoded: tuple[Decoded, Decoded]
    merged: JoinInput
    times: Longs
    known: NameList
    sizes: tuple[Longs, Longs]
    carried: CarriedHeaders

    def stream_name(self, position: int) -> str | None:
        """Return the stream that the value of this record names; None: it names no stream."""
        decoded = self.decoded[self.merged.sides[position]]
        number = int(decoded.streams[self.merged.rows[position]])
        if number < 0:
            return None
        return self.known[number] if number < decoded.known else decoded.stream_names[number - decoded.known]

    def named_streams(self) -> Iterator[str]:
        """Yield the streams that the values of its records name: no other stream changes. Names may come twice."""
        for decoded in self.decoded:
            numbers = np.unique(decoded.streams)
            known = numbers[(numbers >= 0) & (numbers < decoded.known)]
            yield from map(self.known.__getitem__, known.tolist())
            yield from decoded.stream_names

    def original(self, position: int) -> OriginalRecord:
        """Return the record at this position as it came."""
        side, row = Side(int(self.merged.sides[position])), int(self.merged.rows[position])
        raw = self.raw[side]
        return OriginalRecord(
            side,
            int(raw.offsets[row]),
            int(raw.timestamps[row]),
            raw.keys[row],
            raw.values[row],
            raw.headers.get(row, ()),
        )

    def refused(self, reason: Reason) -> Iterator[bytes | None]:
        """Yield the values that were refused for a reason, those of examples first."""
        for raw, decoded in zip(self.raw, self.decoded, strict=True):
            yield from (raw.values[row] for row in np.flatnonzero(decoded.reasons == reason).tolist())

    def traces(self, positions: Integers) -> Mapping[int, Sequence[Header]]:
        """Return the trace headers of the records at these positions, by row of `positions`."""
        return self._headers(positions, self.carried.traces)

    def passed(self, positions: Integers) -> Mapping[int, Sequence[Header]]:
        """Return the headers that the examples at these positions pass on, by row of `positions`."""
        return self._headers(positions, (self.carried.passed, {}))

    def _headers(self, positions: Integers, by_side: tuple[Headers, Headers]) -> Mapping[int, Sequence[Header]]:
        if not any(by_side):
            return {}
        found: dict[int, Sequence[Header]] = {}
        for row, position in enumerate(positions.tolist()):
            headers = by_side[self.merged.sides[position]].get(int(self.merged.rows[position]))
            if headers is not None:
                found[row] = headers
        return found

    def marks(self) -> Sequence[tuple[int, Mark]]:
        """Return the control records with their positions, ascending."""
        found = []
        for side, decoded in enumerate(self.decoded):
            if decoded.marks:
                positions = np.flatnonzero(self.merged.sides == side)  # rows keep their order
                found += [(int(positions[row]), mark) for row, mark in decoded.marks.items()]
        return sorted(found, key=lambda mark: mark[0])

    def openers(self, configured: Collection[str], *, every: bool) -> Mapping[str, int]:
        """Return the position of the first record that can open each new stream.

        A stream that is not configured is opened only by an example: the invented names of a sender of labels or marks
        must not use up `max_streams_per_task`.

        Args:
            configured: The names of the configured streams.
            every: Whether streams that are not configured can be opened.
        """
        first: dict[str, int] = {}
        for side in Side:
            for name, position in self._first_seen(side, (Kind.DATA, Kind.MARK)).items():
                if name in configured:
                    first[name] = min(position, first.get(name, position))
        if every:
            for name, position in self._first_seen(Side.EXAMPLES, (Kind.DATA,)).items():
                first.setdefault(name, position)
        return first

    def _first_seen(self, side: Side, kinds: Sequence[Kind]) -> Mapping[str, int]:
        """Return, for each new stream on a side, the position of its first well-formed record of these kinds."""
        decoded, raw = self.decoded[side], self.raw[side]
        fits = (decoded.streams >= decoded.known) & np.isin(decoded.kinds, kinds) & (raw.timestamps > 0)
        rows = np.flatnonzero(fits)
        numbers, first = np.unique(decoded.streams[rows] - decoded.known, return_index=True)
        positions = np.flatnonzero(self.merged.sides == side)[rows[first]]  # rows keep their order
        names = map(decoded.stream_names.__getitem__, numbers.tolist())
        return dict(zip(names, positions.tolist(), strict=True))


def open_batch(
    examples: RawRecords,
    labels: RawRecords,
    limits: DecodeLimits,
    known: NameList,
    passed: Sequence[str] = (),
    ends: Longs | None = None,
) -> InputBatch:
    """Decode and merge both ranges of a batch.

    Args:
        examples: The range of examples.
        labels: The range of labels.
        limits: What the decoder accepts.
        known: The names of the streams that the task has.
        passed: The names of the headers that examples pass on.
        ends: Where the ranges of several batches end, see `merge.merge`.
    """
    decoded = (
        decode(examples.values, Side.EXAMPLES, limits, known),
        decode(labels.values, Side.LABELS, limits, known),
    )
    for raw, side in zip((examples, labels), decoded, strict=True):
        _refuse_wrong_keys(side, raw.keys, known)
    sides, rows = merge.merge(examples.timestamps, labels.timestamps, ends)
    sizes = _sizes_of(examples), _sizes_of(labels)
    merged = JoinInput(
        sides=sides,
        rows=rows,
        example_times=examples.timestamps,
        example_offsets=examples.offsets,
        example_ids=decoded[0].ids,
        features=decoded[0].features,
        feature_starts=decoded[0].feature_starts,
        fingerprints=np.zeros(0, np.uint64),
        costs=np.zeros((0, 2), np.float32),
        label_times=labels.timestamps,
        label_offsets=labels.offsets,
        label_ids=decoded[1].ids,
        labels=decoded[1].labels,
        revisions=decoded[1].revisions,
        label_sizes=sizes[1],
    )
    carried = CarriedHeaders.of(examples.headers, labels.headers, passed)
    times = _gather(sides, rows, examples.timestamps, labels.timestamps)
    return InputBatch((examples, labels), decoded, merged, times, known, sizes, carried)


def _refuse_wrong_keys(decoded: Decoded, keys: BinaryColumn, known: NameList) -> None:
    """Mark records whose key is not the name of their stream as malformed: the key decides the partition."""
    table = known.table()
    new = NameList(decoded.stream_names).table() if decoded.stream_names else table
    _compare_keys(keys.arrays, _Named(decoded.streams, decoded.kinds, decoded.reasons), table, new)


class _Named(NamedTuple):
    """Columns of `Decoded`: what the values name, and what the comparison of keys changes."""

    streams: Integers
    kinds: Bytes
    reasons: Bytes


@compiled_without_refcounts
def _compare_keys(keys: CellArrays, named: _Named, known: NameTable, new: NameTable) -> None:
    """Compare each key with the name of its stream, whose number counts on from the known names to the new ones."""
    for row in range(len(keys.starts)):
        if named.kinds[row] in (MALFORMED, _TOMBSTONE):
            continue
        number = named.streams[row]
        names = known if number < len(known.hashes) else new
        entry = number if number < len(known.hashes) else number - len(known.hashes)
        first = names.ends[entry]
        length = names.ends[entry + 1] - first
        differs = np.uint8(keys.lengths[row] != length)
        if differs == 0:
            for i in range(length):
                differs |= keys.buffer[np.uintp(keys.starts[row] + i)] ^ names.bytes[np.uintp(first + i)]
        if differs != 0:
            named.kinds[row] = MALFORMED
            named.reasons[row] = WRONG_KEY


def _sizes_of(records: RawRecords) -> Longs:
    """Return int64 `[n]`, the bytes of each record as a dead letter: key, value, headers, and `DEAD_LETTER_BYTES`."""
    sizes = np.empty(len(records), np.int64)
    _add_lengths(records.keys.lengths, records.values.lengths, sizes)
    for row, headers in records.headers.items():
        sizes[row] += headers_bytes(headers)
    return sizes


@compiled_without_refcounts
def _add_lengths(keys: Longs, values: Longs, sizes: Longs) -> None:
    """Fill the bytes of records without headers as dead letters."""
    for row in range(len(sizes)):
        sizes[row] = max(keys[row], 0) + max(values[row], 0) + DEAD_LETTER_BYTES


def size_of(record: OriginalRecord) -> int:
    """Return the bytes of one record as a dead letter."""
    return len(record.key or b"") + len(record.value or b"") + headers_bytes(record.headers) + DEAD_LETTER_BYTES


@compiled
def _gather(sides: Bytes, rows: Integers, examples: Longs, labels: Longs) -> Longs:
    """Return the values of both sides in merged order."""
    result = np.empty(len(sides), np.int64)
    for position in range(len(sides)):
        row = rows[position]
        result[position] = examples[row] if sides[position] == 0 else labels[row]
    return result
