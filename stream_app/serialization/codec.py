"""Values in batches <-> columns (Avro). `avro` has the schemas, the checks of bytes, and the way one by one.

How a value is judged; the first thing that is wrong is the reason, and the rest of the row stays empty (but for the
stream, where only what comes after it is wrong):

    1. no value                                                                      undecodable
    2. more than `max_record_bytes`                                                  too-large
    3. does not begin with the fingerprint of a schema of its side                   wrong-schema
    4. fastavro or an `avro.Check` refuses the record, or bytes are left over        undecodable
    5. stream not of 1 to 249 bytes, then id not of 1 to 64                          bad-id
    6. example: no feature, or more than `max_features`                              wrong-dimension
       label: not 0 or 1, or a revision below 0                                      bad-label
       mark: `advance` without a time of at least 0, `promote` without a learner     undecodable: it asks for nothing
    7. example: a feature is NaN or infinite                                         not-finite

What another field of a mark says is not looked at. Timestamps, and whether a stream has this many features, are the
business of later stages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.records import (
    ID_WORDS,
    MAX_ID_BYTES,
    MAX_STREAM_BYTES,
    NO_LONG,
    Bytes,
    Decoded,
    Example,
    Floats,
    Integers,
    Kind,
    Label,
    Longs,
    Mark,
    MarkKind,
    Outcome,
    OutcomeColumns,
    Prediction,
    PredictionColumns,
    Reason,
    Side,
    Words,
)
from stream_app.serialization import avro
from stream_app.serialization.avro import (
    Int,
    decode_many,
    decode_one,
    encode,
    is_utf8,
    read_block,
    read_float_bits,
    read_index,
    read_int,
    read_long,
    read_span,
    read_text,
    read_word,
)

__all__ = [
    "DecodeLimits",
    "NameList",
    "UndecodableError",
    "WrongSchemaError",
    "decode",
    "decode_many",
    "decode_one",
    "encode",
    "encode_examples",
    "encode_labels",
    "encode_outcomes",
    "encode_predictions",
]


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What one input value may hold.

    Attributes:
        max_record_bytes: Bytes of a value. Kafka's own default for a message is 1,048,588.
        max_features: Features of an example. 100,000 is 100 times a large tabular set, and 0.4 MB.
    """

    max_record_bytes: int = 1_000_000
    max_features: int = 100_000


# Reading --------------------------------------------------------------------------------------------------------------

DATA = int(Kind.DATA)
MARK = int(Kind.MARK)
EXAMPLES = int(Side.EXAMPLES)
ADVANCE = int(MarkKind.ADVANCE)
MARK_KINDS = len(MarkKind)

UNDECODABLE = int(Reason.UNDECODABLE)
WRONG_SCHEMA = int(Reason.WRONG_SCHEMA)
WRONG_DIMENSION = int(Reason.WRONG_DIMENSION)
NOT_FINITE = int(Reason.NOT_FINITE)
BAD_ID = int(Reason.BAD_ID)
BAD_LABEL = int(Reason.BAD_LABEL)

Bits: TypeAlias = NDArray[np.uint32]
"""Float32 as their bits."""

EXPONENT = np.uint32(0x7F800000)
"""The exponent bits of a float32: all set in NaN and the infinities only."""


def decode(
    values: Sequence[bytes | None], side: Side, limits: DecodeLimits, known: "NameList | None" = None
) -> Decoded:
    """Decode the values of one input partition; never raises for what they hold.

    Args:
        values: n values.
        side: Which schemas are allowed: Example and Mark, or Label and Mark.
        limits: What is too much.
        known: Names of streams that need not be read again; their numbers come first.

    Returns:
        n rows. Memory beyond the input: 160 bytes a row, and at most the input's size twice over.
    """
    n = len(values)
    reasons = np.zeros(n, np.uint8)
    present, lengths = _bounded(values, limits.max_record_bytes, reasons)
    joined = bytearray().join(present)  # a bytearray: what `frombuffer` makes of it may be written to
    buffer = np.frombuffer(joined, np.uint8)
    kinds = np.zeros(n, np.uint8)
    streams = np.full(n, -1, np.int32)
    ids = np.zeros((n, ID_WORDS), np.uint64)
    features = np.empty(len(joined) // avro.FLOAT_BYTES if side is Side.EXAMPLES else 0, np.float32)
    feature_starts = np.zeros(n, np.int64)
    feature_counts = np.zeros(n, np.int32)
    labels = np.full(n, -1, np.int8)
    revisions = np.zeros(n, np.int64)
    names = np.empty((n, 2), np.int64)
    schemas = avro.newest()
    known = NameList() if known is None else known
    data = schemas[Example if side is Side.EXAMPLES else Label].fingerprint
    distinct, total = _decode_rows(
        buffer,
        np.cumsum(lengths),
        int(side),
        np.uint64(data),
        np.uint64(schemas[Mark].fingerprint),
        limits.max_features,
        kinds,
        reasons,
        known.table(),
        names,
        np.empty(n, np.uint64),
        np.full(2 << n.bit_length(), -1, np.int32),
        streams,
        ids,
        features.view(np.uint32),
        feature_starts,
        feature_counts,
        labels,
        revisions,
    )
    return Decoded(
        kinds=kinds,
        reasons=reasons,
        known=len(known),
        stream_names=tuple(joined[start:end].decode() for start, end in names[:distinct].tolist()),
        streams=streams,
        ids=ids,
        features=features[:total],
        feature_starts=feature_starts,
        feature_counts=feature_counts,
        labels=labels,
        revisions=revisions,
        marks=_marks(present, kinds),
    )


def _bounded(values: Sequence[bytes | None], max_record_bytes: int, reasons: Bytes) -> tuple[Sequence[bytes], Longs]:
    """The values and their lengths; those that are absent or too large are noted in `reasons` and emptied."""
    try:
        present = cast("Sequence[bytes]", values)
        lengths = np.fromiter(map(len, present), np.int64, len(present))
    except TypeError:  # a None: rare, so it is not looked for
        reasons[[row for row, value in enumerate(values) if value is None]] = Reason.UNDECODABLE
        present = [value or b"" for value in values]
        lengths = np.fromiter(map(len, present), np.int64, len(present))
    large = lengths > max_record_bytes
    if large.any():
        reasons[large] = Reason.TOO_LARGE
        present = [b"" if dropped else value for value, dropped in zip(present, large.tolist(), strict=True)]
        lengths[large] = 0
    return present, lengths


def _marks(values: Sequence[bytes], kinds: Bytes) -> MappingProxyType[int, Mark]:
    """The control records by row. There are few; each was accepted before."""
    marks = {}
    for row in np.flatnonzero(kinds == Kind.MARK).tolist():
        mark = decode_one(values[row])
        assert isinstance(mark, Mark)  # noqa: S101  (tells the type checker what `kinds` says)
        marks[row] = mark
    return MappingProxyType(marks)


@inlined_without_refcounts
def _kind(buffer: Bytes, start: int, end: int, data: np.uint64, mark: np.uint64) -> int:
    """What the header of a value says."""
    if end - start < avro.HEADER_BYTES or buffer[start] != 0xC3 or buffer[start + 1] != 0x01:
        return 0
    found = read_word(buffer, start + 2)
    if found == data:
        return DATA
    return MARK if found == mark else 0


@inlined_without_refcounts
def _read_features(
    buffer: Bytes, position: int, end: int, max_features: int, out: Bits, used: int
) -> tuple[int, int, int]:
    """Copy an array of floats to `out`, from element `used` on.

    Returns:
        The reason (0: none), how many there are, and the next position.
    """
    count, unusual = 0, False
    while True:
        more, position = read_block(buffer, position, end)
        if position < 0:
            return UNDECODABLE, 0, position
        if more == 0:
            break
        for i in range(more):
            bits = read_float_bits(buffer, position + avro.FLOAT_BYTES * i)
            out[np.uintp(used + count + i)] = bits
            unusual |= bits & EXPONENT == EXPONENT
        position += avro.FLOAT_BYTES * more
        count += more
    if count == 0 or count > max_features:
        return WRONG_DIMENSION, count, position
    return (NOT_FINITE if unusual else 0), count, position


@inlined_without_refcounts
def _read_label(buffer: Bytes, position: int, end: int) -> tuple[int, int, int, int]:
    """The reason (0: none), class, revision, and the next position."""
    label, position = read_int(buffer, position, end)
    revision = 0
    if position >= 0:
        revision, position = read_int(buffer, position, end)
    if position < 0:
        return UNDECODABLE, 0, 0, position
    if label < 0 or label > 1 or revision < 0:
        return BAD_LABEL, 0, 0, position
    return 0, label, revision, position


@inlined_without_refcounts
def _read_mark(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """The reason (0: none), and the next position."""
    time, start, behind = -1, 0, 0
    kind, position = read_index(buffer, position, end, MARK_KINDS)
    has_time = has_learner = 0
    if position >= 0:
        has_time, position = read_index(buffer, position, end, 2)
    if position >= 0 and has_time:
        time, position = read_long(buffer, position, end)
    if position >= 0:
        has_learner, position = read_index(buffer, position, end, 2)
    if position >= 0 and has_learner:
        start, position = read_text(buffer, position, end)
        behind = position
    if position < 0 or (kind == ADVANCE and time < 0) or (kind != ADVANCE and behind <= start):
        return UNDECODABLE, position
    return 0, position


@inlined_without_refcounts
def _copy_id(buffer: Bytes, start: int, end: int, ids: Words, row: int) -> None:
    """Fill the words of a row, which were zeros."""
    ids[row, 0] = np.uint64(end - start)
    for i in range(end - start):
        ids[row, 1 + i // 8] |= np.uint64(buffer[np.uintp(start + i)]) << np.uint64(8 * (i % 8))


@inlined_without_refcounts
def _same(buffer: Bytes, first: int, second: int, length: int) -> bool:
    """Whether so many bytes are equal in two places."""
    differ = np.uint8(0)
    for i in range(length):
        differ |= buffer[np.uintp(first + i)] ^ buffer[np.uintp(second + i)]
    return bool(differ == 0)


@inlined_without_refcounts
def _hash(buffer: Bytes, start: int, end: int) -> np.uint64:
    """FNV-1a, its high bits mixed into the low ones that pick the slot."""
    value = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    return value ^ (value >> np.uint64(32))


class NameTable(NamedTuple):
    """Names to be found by a kernel; k of them.

    Attributes:
        bytes: The names behind one another.
        ends: int64 `[k + 1]`, where they begin, and the end.
        hashes: uint64 `[k]`: names that share a slot are told apart by one comparison.
        slots: int32, a power of two above 2k; the numbers of the names, -1 where free.
    """

    bytes: Bytes
    ends: Longs
    hashes: Words
    slots: Integers


@compiled_without_refcounts
def _fill(table: NameTable, first: int) -> None:
    """Compute the hashes of the names from this number on, and put the names into free slots."""
    mask = np.uint64(len(table.slots) - 1)
    for number in range(first, len(table.hashes)):
        found = _hash(table.bytes, table.ends[number], table.ends[number + 1])
        table.hashes[number] = found
        slot = found & mask
        while table.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table.slots[slot] = number


@inlined_without_refcounts
def _known(buffer: Bytes, start: int, end: int, found: np.uint64, table: NameTable) -> int:
    """The number of a name with this hash, -1 where it is not in the table."""
    mask = np.uint64(len(table.slots) - 1)
    slot = found & mask
    while table.slots[slot] >= 0:
        number = table.slots[slot]
        first = table.ends[number]
        if table.hashes[number] == found and table.ends[number + 1] - first == end - start:
            differ = np.uint8(0)
            for i in range(end - start):
                differ |= table.bytes[np.uintp(first + i)] ^ buffer[np.uintp(start + i)]
            if differ == 0:
                return int(number)
        slot = (slot + np.uint64(1)) & mask
    return -1


@inlined_without_refcounts
def _intern(
    buffer: Bytes,
    start: int,
    end: int,
    found: np.uint64,
    names: Longs,
    hashes: Words,
    slots: Integers,
    distinct: int,
) -> int:
    """The number of a name; `distinct` when it is new, and then it is in the table.

    Args:
        buffer: What the names are parts of.
        start: Where the name starts.
        end: Where it ends.
        found: Its hash.
        names: int64 `[n, 2]`, start and end of each name so far.
        hashes: uint64 `[n]`, their hashes, as in a `NameTable`.
        slots: int32, likewise.
        distinct: How many names there are.
    """
    mask = np.uint64(len(slots) - 1)
    slot = found & mask
    while slots[slot] >= 0:
        number = slots[slot]
        first = names[number, 0]
        if (
            hashes[number] == found
            and names[number, 1] - first == end - start
            and _same(buffer, first, start, end - start)
        ):
            return int(number)
        slot = (slot + np.uint64(1)) & mask
    slots[slot] = distinct
    hashes[distinct] = found
    names[distinct, 0] = start
    names[distinct, 1] = end
    return distinct


@compiled_without_refcounts
def _decode_rows(  # noqa: C901, PLR0912, PLR0915  (one pass over the rows; kernels take arrays, not objects)
    buffer: Bytes,
    ends: Longs,
    side: int,
    data: np.uint64,
    mark: np.uint64,
    max_features: int,
    kinds: Bytes,
    reasons: Bytes,
    known: NameTable,
    names: Longs,
    hashes: Words,
    slots: Integers,
    streams: Integers,
    ids: Words,
    features: Bits,
    feature_starts: Longs,
    feature_counts: Integers,
    labels: NDArray[np.int8],
    revisions: Longs,
) -> tuple[int, int]:
    """Fill the columns of `Decoded`; rows that have a reason already are left alone.

    Returns:
        How many distinct streams there are, and how many features in all.
    """
    distinct, used = 0, 0
    stream, stream_start, stream_length = -1, 0, -1  # of the last row whose stream could be read
    end = 0
    for row in range(len(ends)):
        position, end = end, ends[row]
        if reasons[row] != 0:
            continue
        kind = _kind(buffer, position, end, data, mark)
        if kind == 0:
            reasons[row] = WRONG_SCHEMA
            continue
        start, position = read_span(buffer, position + avro.HEADER_BYTES, end)
        behind = position
        length = behind - start
        same = position >= 0 and length == stream_length and _same(buffer, start, stream_start, length)
        if position >= 0 and not same and not is_utf8(buffer, start, behind):
            position = avro.UTF8
        id_start, id_end = 0, 1
        if position >= 0 and kind == DATA:
            id_start, position = read_text(buffer, position, end)
            id_end = position
        reason, label, revision, count = 0, -1, 0, 0
        if position >= 0:
            if kind == MARK:
                reason, position = _read_mark(buffer, position, end)
            elif side == EXAMPLES:
                reason, count, position = _read_features(buffer, position, end, max_features, features, used)
            else:
                reason, label, revision, position = _read_label(buffer, position, end)
        if position != end:
            reasons[row] = UNDECODABLE
            continue
        if not 1 <= length <= MAX_STREAM_BYTES:
            reasons[row] = BAD_ID
            continue
        if not same:
            found = _hash(buffer, start, behind)
            stream = _known(buffer, start, behind, found, known)
            if stream < 0:
                stream = _intern(buffer, start, behind, found, names, hashes, slots, distinct)
                distinct = max(distinct, stream + 1)
                stream += len(known.hashes)
            stream_start, stream_length = start, length
        streams[row] = stream
        if not 1 <= id_end - id_start <= MAX_ID_BYTES:
            reason = BAD_ID
        if reason != 0:
            reasons[row] = reason
            continue
        kinds[row] = kind
        if kind == DATA:
            _copy_id(buffer, id_start, id_end, ids, row)
            labels[row] = label
            revisions[row] = revision
            feature_starts[row] = used
            feature_counts[row] = count
            used += count
    return distinct, used


# Writing --------------------------------------------------------------------------------------------------------------

MAX_LONG_BYTES = avro.MAX_VARINT_BYTES
MAX_INT_BYTES = 5


@inlined_without_refcounts
def _put_long(out: Bytes, position: int, value: Int) -> int:
    """Write a zig-zag varint; the next position."""
    bits = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while bits >= np.uint64(0x80):
        out[position] = np.uint8(bits & np.uint64(0x7F)) | np.uint8(0x80)
        bits >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(bits)
    return position + 1


@inlined_without_refcounts
def _put_bytes(out: Bytes, position: int, source: Bytes, start: int, end: int) -> int:
    """Copy; the next position."""
    for i in range(end - start):
        out[position + i] = source[start + i]
    return position + end - start


@inlined_without_refcounts
def _put_id(out: Bytes, position: int, ids: Bytes, row: int) -> int:
    """Write the id of a row; the next position."""
    length = int(ids[row, 0])  # 64 at most, so the lowest byte is all of it
    position = _put_long(out, position, length)
    for i in range(length):
        out[position + i] = ids[row, 8 + i]
    return position + length


@inlined_without_refcounts
def _put_float(out: Bytes, position: int, bits: np.uint32) -> int:
    """Write the bits of a float32, little-endian; the next position."""
    for i in range(avro.FLOAT_BYTES):
        out[position + i] = np.uint8((bits >> np.uint32(8 * i)) & np.uint32(0xFF))
    return position + avro.FLOAT_BYTES


@inlined_without_refcounts
def _put_nullable_long(out: Bytes, position: int, value: Int, null: int) -> int:
    """Write a union of null and a number; the next position."""
    if value == null:
        out[position] = 0
        return position + 1
    out[position] = 2
    return _put_long(out, position + 1, value)


class _Texts(NamedTuple):
    """Strings as Avro writes them, behind one another: `bytes` and the `ends` of each, for a kernel."""

    bytes: Bytes
    ends: Longs
    longest: int


class _Joined:
    """Texts side by side that only become more: room doubles, so another text costs its own bytes."""

    def __init__(self) -> None:
        self.count = self._longest = 0
        self._bytes = np.empty(0, np.uint8)
        self._ends = np.zeros(1, np.int64)

    def extend(self, texts: Sequence[bytes]) -> None:
        """Add these."""
        if not texts:
            return
        first, count = self._ends[self.count], self.count + len(texts)
        joined = np.frombuffer(bytearray().join(texts), np.uint8)
        if count >= len(self._ends):
            self._ends = np.resize(self._ends, max(2 * len(self._ends), count + 1))
        if first + len(joined) > len(self._bytes):
            self._bytes = np.resize(self._bytes, max(2 * len(self._bytes), first + len(joined)))
        self._bytes[first : first + len(joined)] = joined
        self._ends[self.count + 1 : count + 1] = first + np.cumsum([len(text) for text in texts])
        self.count, self._longest = count, max(self._longest, *map(len, texts))

    def texts(self) -> _Texts:
        """All of them, as they are now."""
        return _Texts(self._bytes[: self._ends[self.count]], self._ends[: self.count + 1], self._longest)


class NameList(Sequence[str]):
    """Names that only become more.

    It remembers how they are written: to write a thousand names anew took longer than their rows.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._encoded: NDArray[np.object_] = np.empty(0, np.object_)
        self._encoded_count = 0
        self._plain = _Joined()
        self._written: dict[bytes, _Joined] = {}
        self._hashes = np.empty(0, np.uint64)
        self._table: NameTable | None = None

    def append(self, name: str) -> None:
        """Add one."""
        self._names.append(name)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        """As a list."""
        return self._names[index]

    @property
    def encoded(self) -> NDArray[np.object_]:
        """The names in UTF-8, as an array: to pick thousands of them by number is one call."""
        known, count = self._encoded_count, len(self._names)
        if known < count:
            if count > len(self._encoded):
                self._encoded = np.empty(max(2 * known, count), np.object_)
                known = 0  # all anew, side by side in memory
            self._encoded[known:count] = [name.encode() for name in self._names[known:]]
            self._encoded_count = count
        return self._encoded[:count]

    def written(self, prefix: bytes = b"") -> _Texts:
        """All of them as Avro has them, each with the prefix before it."""
        joined = self._written.setdefault(prefix, _Joined())
        joined.extend([prefix + _long(len(raw)).tobytes() + raw for raw in self.encoded[joined.count :].tolist()])
        return joined.texts()

    def table(self) -> NameTable:
        """All of them, for `decode` to find."""
        count, known = len(self._names), 0 if self._table is None else len(self._table.hashes)
        if self._table is None or known < count:
            self._plain.extend(self.encoded[self._plain.count :].tolist())
            if self._table is None or 2 * count >= len(self._table.slots):
                slots, known = np.full(4 << count.bit_length(), -1, np.int32), 0
                self._hashes = np.empty(len(slots) // 2, np.uint64)
            else:
                slots = self._table.slots
            plain = self._plain.texts()
            self._table = NameTable(plain.bytes, plain.ends, self._hashes[:count], slots)
            _fill(self._table, known)
        return self._table


def _written(names: Sequence[str], prefix: bytes = b"") -> _Texts:
    return (names if isinstance(names, NameList) else NameList(names)).written(prefix)


def _long(value: int) -> Bytes:
    """A number as Avro writes it."""
    out = np.empty(MAX_LONG_BYTES, np.uint8)
    return out[: _put_long(out, 0, value)]


def _sliced(out: Bytes, ends: Longs) -> list[bytes]:
    """The values that a kernel wrote behind one another."""
    if not len(ends):
        return []
    written = out[: ends[-1]].tobytes()
    stops = ends.tolist()
    return [written[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def encode_predictions(columns: PredictionColumns) -> list[bytes]:
    """The values of n rows for the topic of predictions, equal to those of `encode`."""
    streams = _written(columns.stream_names, avro.newest()[Prediction].header)
    learners = _written(columns.learner_names)
    fixed = MAX_LONG_BYTES + MAX_ID_BYTES + 1 + avro.FLOAT_BYTES + MAX_INT_BYTES + MAX_LONG_BYTES
    n = len(columns.streams)
    out = np.empty(n * (streams.longest + learners.longest + fixed), np.uint8)
    ends = np.empty(n, np.int64)
    _encode_predictions(
        out,
        ends,
        streams.bytes,
        streams.ends,
        learners.bytes,
        learners.ends,
        columns.streams,
        columns.learners,
        columns.ids.view(np.uint8),
        columns.champions,
        columns.scores.view(np.uint32),
        columns.labels,
        columns.model_versions,
    )
    return _sliced(out, ends)


@compiled_without_refcounts
def _encode_predictions(
    out: Bytes,
    ends: Longs,
    stream_bytes: Bytes,
    stream_ends: Longs,
    learner_bytes: Bytes,
    learner_ends: Longs,
    streams: Integers,
    learners: Integers,
    ids: Bytes,
    champions: NDArray[np.bool_],
    score_bits: Bits,
    labels: NDArray[np.int8],
    model_versions: Longs,
) -> None:
    """Write the rows behind one another; `ends` says where each ends."""
    position = 0
    for row in range(len(streams)):
        stream, learner = streams[row], learners[row]
        position = _put_bytes(out, position, stream_bytes, stream_ends[stream], stream_ends[stream + 1])
        position = _put_id(out, position, ids, row)
        position = _put_bytes(out, position, learner_bytes, learner_ends[learner], learner_ends[learner + 1])
        out[position] = champions[row]
        position = _put_float(out, position + 1, score_bits[row])
        position = _put_long(out, position, np.int64(labels[row]))
        position = _put_long(out, position, model_versions[row])
        ends[row] = position


def encode_outcomes(columns: OutcomeColumns) -> list[bytes]:
    """The values of n rows for the topic of outcomes, equal to those of `encode`."""
    streams = _written(columns.stream_names, avro.newest()[Outcome].header)
    learners = _written(columns.learner_names, b"\x02")  # in front: the second type of the union
    nullables = 5  # their first bytes, and that of the learner when null
    fixed = MAX_LONG_BYTES + MAX_ID_BYTES + 2 * MAX_INT_BYTES + nullables + avro.FLOAT_BYTES + 3 * MAX_LONG_BYTES
    n = len(columns.streams)
    out = np.empty(n * (streams.longest + learners.longest + fixed), np.uint8)
    ends = np.empty(n, np.int64)
    _encode_outcomes(
        out,
        ends,
        streams.bytes,
        streams.ends,
        learners.bytes,
        learners.ends,
        columns.streams,
        columns.outcomes,
        columns.ids.view(np.uint8),
        columns.labels,
        columns.learners,
        columns.scores,
        columns.scores.view(np.uint32),
        columns.delays_ms,
        columns.example_offsets,
        columns.label_offsets,
    )
    return _sliced(out, ends)


@compiled_without_refcounts
def _encode_outcomes(
    out: Bytes,
    ends: Longs,
    stream_bytes: Bytes,
    stream_ends: Longs,
    learner_bytes: Bytes,
    learner_ends: Longs,
    streams: Integers,
    outcomes: Bytes,
    ids: Bytes,
    labels: NDArray[np.int8],
    learners: Integers,
    scores: Floats,
    score_bits: Bits,
    delays_ms: Longs,
    example_offsets: Longs,
    label_offsets: Longs,
) -> None:
    """Write the rows behind one another; `ends` says where each ends."""
    position = 0
    for row in range(len(streams)):
        stream, learner = streams[row], learners[row]
        position = _put_bytes(out, position, stream_bytes, stream_ends[stream], stream_ends[stream + 1])
        position = _put_id(out, position, ids, row)
        position = _put_long(out, position, np.int64(outcomes[row]))
        position = _put_nullable_long(out, position, np.int64(labels[row]), -1)
        if learner < 0:
            out[position] = 0
            position += 1
        else:
            position = _put_bytes(out, position, learner_bytes, learner_ends[learner], learner_ends[learner + 1])
        if np.isnan(scores[row]):
            out[position] = 0
            position += 1
        else:
            out[position] = 2
            position = _put_float(out, position + 1, score_bits[row])
        position = _put_nullable_long(out, position, delays_ms[row], NO_LONG)
        position = _put_nullable_long(out, position, example_offsets[row], NO_LONG)
        position = _put_nullable_long(out, position, label_offsets[row], NO_LONG)
        ends[row] = position


def encode_examples(stream: str, ids: Sequence[str], features: Floats) -> list[bytes]:
    """The values of n examples of one stream, equal to those of `encode`, for producers.

    Args:
        stream: 1 to `MAX_STREAM_BYTES` bytes in UTF-8.
        ids: n ids, each of 1 to `MAX_ID_BYTES` bytes in UTF-8.
        features: float32 `[n, d]`, d at least 1. Whether they are finite is not looked at.

    Raises:
        ValueError: An argument is outside these bounds; the message has the row.
    """
    if features.ndim != 2 or len(features) != len(ids) or features.shape[1] < 1:
        raise ValueError(f"{len(ids)} ids need features [{len(ids)}, 1 or more], not {list(features.shape)}")
    n, d = features.shape
    prefix, raw_ids, id_ends = _names(stream, ids, avro.newest()[Example].header)
    count = _long(d)
    out = np.empty(n * (len(prefix) + len(count) + avro.FLOAT_BYTES * d + 3) + len(raw_ids), np.uint8)
    ends = np.empty(n, np.int64)
    rows = np.ascontiguousarray(features, np.float32).view(np.uint8)
    _encode_examples(out, ends, prefix, raw_ids, id_ends, count, rows if rows.flags.writeable else rows.copy())
    return _sliced(out, ends)


@compiled_without_refcounts
def _encode_examples(
    out: Bytes, ends: Longs, prefix: Bytes, ids: Bytes, id_ends: Longs, count: Bytes, features: Bytes
) -> None:
    """Write the rows behind one another; `ends` says where each ends."""
    position, start = 0, 0
    for row in range(len(ends)):
        position = _put_bytes(out, position, prefix, 0, len(prefix))
        position = _put_long(out, position, id_ends[row] - start)
        position = _put_bytes(out, position, ids, start, id_ends[row])
        start = id_ends[row]
        position = _put_bytes(out, position, count, 0, len(count))
        for i in range(features.shape[1]):
            out[position + i] = features[row, i]
        position += features.shape[1]
        out[position] = 0
        position += 1
        ends[row] = position


def encode_labels(
    stream: str, ids: Sequence[str], labels: NDArray[np.int8], revisions: Longs | None = None
) -> list[bytes]:
    """The values of n labels of one stream, equal to those of `encode`, for producers.

    Args:
        stream: 1 to `MAX_STREAM_BYTES` bytes in UTF-8.
        ids: n ids, each of 1 to `MAX_ID_BYTES` bytes in UTF-8.
        labels: int8 `[n]`, classes.
        revisions: int64 `[n]`, from 0 to 2**31 - 1; all 0 when left out.

    Raises:
        ValueError: An argument is outside these bounds.
    """
    n = len(ids)
    revisions = np.zeros(n, np.int64) if revisions is None else revisions
    if not len(labels) == len(revisions) == n:
        raise ValueError(f"{n} ids, {len(labels)} labels and {len(revisions)} revisions")
    if n and not (revisions.min() >= 0 and revisions.max() < 1 << 31 and ((labels == 0) | (labels == 1)).all()):
        raise ValueError("a label is 0 or 1, a revision from 0 to 2**31 - 1")
    prefix, raw_ids, id_ends = _names(stream, ids, avro.newest()[Label].header)
    out = np.empty(n * (len(prefix) + 2 + 2 * MAX_INT_BYTES) + len(raw_ids), np.uint8)
    ends = np.empty(n, np.int64)
    _encode_labels(out, ends, prefix, raw_ids, id_ends, labels.astype(np.int64), revisions.astype(np.int64))
    return _sliced(out, ends)


@compiled_without_refcounts
def _encode_labels(
    out: Bytes, ends: Longs, prefix: Bytes, ids: Bytes, id_ends: Longs, labels: Longs, revisions: Longs
) -> None:
    """Write the rows behind one another; `ends` says where each ends."""
    position, start = 0, 0
    for row in range(len(ends)):
        position = _put_bytes(out, position, prefix, 0, len(prefix))
        position = _put_long(out, position, id_ends[row] - start)
        position = _put_bytes(out, position, ids, start, id_ends[row])
        start = id_ends[row]
        position = _put_long(out, position, labels[row])
        position = _put_long(out, position, revisions[row])
        ends[row] = position


def _names(stream: str, ids: Sequence[str], header: bytes) -> tuple[Bytes, Bytes, Longs]:
    """For a kernel: header and stream as written, the ids behind one another, and where each ends."""
    raw_stream = stream.encode()
    if not 1 <= len(raw_stream) <= MAX_STREAM_BYTES:
        raise ValueError(f"stream {stream!r}: a name has 1 to {MAX_STREAM_BYTES} bytes, not {len(raw_stream)}")
    raw_ids = [text.encode() for text in ids]
    lengths = np.fromiter(map(len, raw_ids), np.int64, len(raw_ids))
    wrong = np.flatnonzero((lengths < 1) | (lengths > MAX_ID_BYTES))
    if len(wrong):
        raise ValueError(f"row {wrong[0]}: an id has 1 to {MAX_ID_BYTES} bytes, not {lengths[wrong[0]]}")
    prefix = np.frombuffer(bytearray(header + _long(len(raw_stream)).tobytes() + raw_stream), np.uint8)
    return prefix, np.frombuffer(bytearray().join(raw_ids), np.uint8), np.cumsum(lengths)
