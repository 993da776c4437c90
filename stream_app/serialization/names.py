"""Names of streams and learners, as the compiled code reads and writes them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Integers, Longs, Words
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.record_columns import BinaryColumn
from stream_app.serialization.avro import long_bytes


@inlined_without_refcounts
def hash_of(buffer: Bytes, start: int, end: int) -> np.uint64:
    """Return the FNV-1a hash of some bytes; its high bits are mixed into the low bits, which choose the slot."""
    value = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    return value ^ (value >> np.uint64(32))


@inlined_without_refcounts
def same_bytes(one: Bytes, first: int, two: Bytes, second: int, length: int) -> bool:
    """Say whether `length` bytes are equal: those of `one` from `first` on, and those of `two` from `second` on."""
    differ = np.uint8(0)
    for i in range(length):
        differ |= one[np.uintp(first + i)] ^ two[np.uintp(second + i)]
    return bool(differ == 0)


class NameTable(NamedTuple):
    """A hash table of k names for compiled code.

    Attributes:
        bytes: The names, one after the other.
        ends: int64 `[k + 1]`, 0 and then the end of each name.
        hashes: uint64 `[k]`, the hash of each name: one comparison distinguishes most names in neighbouring slots.
        slots: int32, a power of two above 2k; the numbers of the names, -1 where free.
    """

    bytes: Bytes
    ends: Longs
    hashes: Words
    slots: Integers


@compiled_without_refcounts
def _fill(table: NameTable, first: int) -> None:
    """Compute the hashes of the names from number `first` on, and put the names into free slots."""
    mask = np.uint64(len(table.slots) - 1)
    for number in range(first, len(table.hashes)):
        found = hash_of(table.bytes, table.ends[number], table.ends[number + 1])
        table.hashes[number] = found
        slot = found & mask
        while table.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table.slots[slot] = number


@inlined_without_refcounts
def number_of(buffer: Bytes, start: int, end: int, found: np.uint64, table: NameTable) -> int:
    """Return the number of a name, or -1 when the table does not have it; `found` is its hash."""
    return number_in(buffer, start, end, found, table, np.uint64(len(table.slots) - 1))


@inlined_without_refcounts
def number_in(buffer: Bytes, start: int, end: int, found: np.uint64, table: NameTable, mask: np.uint64) -> int:
    """Do what `number_of` does, for a table whose columns may be pointers; `mask` is the number of slots, less one."""
    slot = found & mask
    while table.slots[slot] >= 0:
        number = table.slots[slot]
        first = table.ends[number]
        if (
            table.hashes[number] == found
            and table.ends[number + 1] - first == end - start
            and same_bytes(table.bytes, first, buffer, start, end - start)
        ):
            return int(number)
        slot = (slot + np.uint64(1)) & mask
    return -1


class NewNames(NamedTuple):
    """Table of the stream names that a batch is the first to have; room for n of them.

    Attributes:
        spans: int64 `[n, 2]`, start and end of each name in the buffer.
        hashes: uint64 `[n]`, the hash of each name.
        slots: int32, a power of two above 2n; the numbers of the names, -1 where free.
    """

    spans: Longs
    hashes: Words
    slots: Integers


@inlined_without_refcounts
def intern(buffer: Bytes, start: int, end: int, found: np.uint64, table: NewNames, distinct: int) -> int:
    """Return the number of a name; a new name is added to the table, and its number is `distinct`.

    Args:
        buffer: The values of the batch.
        start: Where the name starts in the buffer.
        end: Where it ends.
        found: Its hash.
        table: The names so far.
        distinct: How many names there are so far.
    """
    mask = np.uint64(len(table.slots) - 1)
    slot = found & mask
    while table.slots[slot] >= 0:
        number = table.slots[slot]
        first = table.spans[number, 0]
        if (
            table.hashes[number] == found
            and table.spans[number, 1] - first == end - start
            and same_bytes(buffer, first, buffer, start, end - start)
        ):
            return int(number)
        slot = (slot + np.uint64(1)) & mask
    table.slots[slot] = distinct
    table.hashes[distinct] = found
    table.spans[distinct, 0] = start
    table.spans[distinct, 1] = end
    return distinct


class Texts(NamedTuple):
    """Texts one after the other for compiled code: their `bytes`, 0 and their `ends`, and the `longest` length."""

    bytes: Bytes
    ends: Longs
    longest: int


class _Joined:
    """A growing list of texts, one after the other; the room doubles, so that adding a text costs only its bytes.

    Attributes:
        count: The number of texts.
        texts: All texts so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._bytes = np.empty(0, np.uint8)
        self._ends = np.zeros(1, np.int64)
        self.texts = Texts(self._bytes, self._ends, 0)

    def extend(self, texts: Sequence[bytes]) -> None:
        """Add texts."""
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
        longest = max(self.texts.longest, *map(len, texts))
        self.count = count
        self.texts = Texts(self._bytes[: self._ends[count]], self._ends[: count + 1], longest)


class NameList(Sequence[str]):
    """A growing list of names, with their encoded forms: encoding a thousand names took longer than their rows."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._encoded: NDArray[np.object_] = np.empty(0, np.object_)
        self._encoded_count = 0
        self._plain = _Joined()
        self._written: dict[bytes, _Joined] = {}
        self._hashes = np.empty(0, np.uint64)
        self._table: NameTable | None = None

    def append(self, name: str) -> None:
        """Add a name."""
        self._names.append(name)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return the name with this number, or a list of names."""
        return self._names[index]

    @property
    def encoded(self) -> NDArray[np.object_]:
        """The names in UTF-8, as an array, from which one call takes thousands of names by their numbers."""
        known, count = self._encoded_count, len(self._names)
        if known < count:
            if count > len(self._encoded):
                self._encoded = np.empty(max(2 * known, count), np.object_)
                known = 0  # all again, next to one another in memory
            self._encoded[known:count] = [name.encode() for name in self._names[known:]]
            self._encoded_count = count
        return self._encoded[:count]

    def written(self, prefix: bytes = b"") -> Texts:
        """Return all names as Avro strings, each after the prefix."""
        joined = self._written.setdefault(prefix, _Joined())
        if joined.count < len(self._names):
            new = self.encoded[joined.count :].tolist()
            joined.extend([prefix + long_bytes(len(raw)).tobytes() + raw for raw in new])
        return joined.texts

    def table(self) -> NameTable:
        """Return a table of all names, for `decode`."""
        count, known = len(self._names), 0 if self._table is None else len(self._table.hashes)
        if self._table is None or known < count:
            self._plain.extend(self.encoded[self._plain.count :].tolist())
            if self._table is None or 2 * count >= len(self._table.slots):
                slots, known = np.full(4 << count.bit_length(), -1, np.int32), 0
                self._hashes = np.empty(len(slots) // 2, np.uint64)
            else:
                slots = self._table.slots
            plain = self._plain.texts
            self._table = NameTable(plain.bytes, plain.ends, self._hashes[:count], slots)
            _fill(self._table, known)
        return self._table

    def column(self, numbers: Integers) -> BinaryColumn:
        """Return the names with these numbers, which share the bytes of all names."""
        table = self.table()
        starts, lengths = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
        # A column of rows is contiguous if there is one row: the code would be compiled a second time, in a batch.
        _find(table.ends, np.ascontiguousarray(numbers), starts, lengths)
        return BinaryColumn(table.bytes, starts, lengths)


@compiled_without_refcounts
def _find(ends: Longs, numbers: Integers, starts: Longs, lengths: Longs) -> None:
    """Fill where the text with each number begins, and its length."""
    for row in range(len(numbers)):
        starts[row] = ends[numbers[row]]
        lengths[row] = ends[numbers[row] + 1] - starts[row]


class Names(NamedTuple):
    """The names that the numbers in columns of names stand for."""

    streams: NameList
    learners: NameList
