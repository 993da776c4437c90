"""The cores of many streams as the files of a snapshot, copied to or from the streams' memory by one compiled call.

A stream has some forty small arrays, and each step on one of them takes a microsecond in Python. Here, the place of
each array in the memory of a stream and in its file is a number that NumPy computes for many streams at once. The files
are those that `format.pack` makes of the arrays, byte for byte. Streams with anything that Python keeps (waiting
labels, open marks, passed headers, columns, drift, networks that are not compiled) are packed and loaded alone.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.jit.columns import copy_spans
from stream_app.jit.memory import address_of
from stream_app.join.constants import COUNTERS, Counter
from stream_app.join.delays import DELAY_BUCKETS
from stream_app.join.layout import BLOCKS, JoinField
from stream_app.learners.online import SEEN, OnlineLearner
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_state import KEPT_COUNTERS
from stream_app.snapshot import segments
from stream_app.snapshot.file_form import FileForm
from stream_app.snapshot.format import Columns

if TYPE_CHECKING:
    from stream_app.learners.stored_state import StoredState

ONE, PENDING, CLOSED, DELAYS, QUEUES = range(5)
"""The tables whose rows the arrays have: one row, pending examples, closed ids, delays, and a table of each queue."""

_DESCRIPTOR, _FIXED, _SLOTS, _RING, _LEARNERS = range(5)
"""The addresses of a stream: of the descriptor and three blocks of its join, then `_OF_A_LEARNER` of each learner."""

_BLOCK, _BY_SLOT, _SUMS, _CHANGES, _CALIBRATION, _ALERTS = range(6)
_OF_A_LEARNER = 6

_ONCE, _PER_SLOT, _PER_RING_ROW = range(3)
"""What the beginning of a column is multiplied by: the columns of a block begin after the rows of those before."""
_LONG = 8
"""Bytes of an int64."""

_FLOAT = 4
"""Bytes of a float32."""

_SLOT = 4
"""Bytes of the number of a slot."""


class _Piece(NamedTuple):
    """What is copied for each row of a table.

    Attributes:
        table: The table.
        array: The number of the array in the file.
        base: The address of the stream from which its place is counted.
        factor: What `begin` is multiplied by.
        begin: Where the first row begins.
        stride: Bytes from row to row in memory.
        size: Bytes of the piece.
        shift: Where it begins in a row of the file.
    """

    table: int
    array: int
    base: int
    factor: int
    begin: int
    stride: int
    size: int
    shift: int = 0


class TableRows(NamedTuple):
    """TableRows of a table: of each row its stream, its place in memory, and its number in the file."""

    streams: Longs
    places: Longs
    numbers: Longs

    def runs(self) -> Longs:
        """Return where rows begin that follow one another in memory."""
        begins = np.ones(len(self.streams), np.bool_)
        begins[1:] = (np.diff(self.streams) != 0) | (np.diff(self.places) != 1)
        return begins.nonzero()[0]


def numbered(counts: Longs) -> tuple[Longs, Longs]:
    """Return the stream of each row, and its number there, given how many rows each stream has."""
    streams = np.repeat(np.arange(len(counts)), counts)
    return streams, np.arange(len(streams)) - (np.cumsum(counts) - counts)[streams]


class Memory(NamedTuple):
    """Where n streams are in memory: int64 `[n, addresses]`, and `[n, 3]`, what columns begin at a multiple of."""

    bases: Longs
    factors: Longs

    @classmethod
    def of(cls, streams: Sequence[Stream]) -> Self:
        """Return the addresses of streams whose learners are all compiled."""
        joins = np.array([stream.join.descriptor for stream in streams])
        learners = [
            [
                (*learner.addresses, sums.address, changes.address, calibration.address, alerts.address)
                for learner, (sums, changes, calibration, alerts) in zip(stream.learners, stream.figures(), strict=True)
                if isinstance(learner, OnlineLearner)
            ]
            for stream in streams
        ]
        blocks = joins[:, [JoinField.FIXED, JoinField.SLOT_BLOCK, JoinField.RING_BLOCK]]
        own = [[stream.join.address] for stream in streams]
        bases = np.concatenate([own, blocks, np.reshape(learners, (len(streams), -1))], 1)
        ones = np.ones(len(streams), np.int64)
        return cls(bases, np.column_stack([ones, joins[:, JoinField.SLOTS], joins[:, JoinField.RING]]))

    def read(self, base: int, begin: int, count: int) -> Longs:
        """Return int64 `[n, count]`, numbers that begin so many bytes after an address of each stream."""
        numbers = np.empty((len(self.bases), count), np.int64)
        copy_all(self.bases[:, base] + begin, address_of(numbers) + 8 * count * np.arange(len(numbers)), 8 * count)
        return numbers


def copy_all(sources: Longs, targets: Longs, sizes: Longs | int) -> None:
    """Copy bytes from addresses to others, which are arrays of the same shape."""
    sizes = np.broadcast_to(sizes, sources.shape)
    copy_spans(*(np.ascontiguousarray(part).reshape(-1) for part in (sources, targets, sizes)))


def kind_of(stream: Stream) -> tuple[int, ...] | None:
    """Return the kind of a stream; None: not all of its state is in memory that compiled code knows."""
    if stream.waiting or stream.open_marks() or len(stream.passed) or stream.drift or stream.preparation:
        return None
    stored = [learner.stored if isinstance(learner, OnlineLearner) else None for learner in stream.learners]
    if not stored or None in stored:
        return None
    return (*map(id, stored), *stream.join.descriptor[JoinField.FEATURES :].tolist())


class CoreForm:
    """The form of the cores of streams of one kind, and where their arrays are in memory.

    Args:
        stream: One of these streams.
        core: Its core.

    Attributes:
        settings: The settings of the stream.
        features: Its number of features.
        stored: The places of its learners' arrays.
        arrays: Of each array of the file the name, the table whose rows it has, the type, and the shape if it is `ONE`.
    """

    def __init__(self, stream: Stream, core: Columns) -> None:
        self.settings, self.features = stream.settings, stream.features
        self._file = FileForm(core)
        names = self._file.names
        learners = [learner for learner in stream.learners if isinstance(learner, OnlineLearner)]
        self.stored: Sequence[StoredState] = [learner.stored for learner in learners if learner.stored is not None]
        self._queues = list(accumulate((stored.queues for stored in self.stored), initial=QUEUES))
        self._columns, self._figures = _columns_of(stream), _figures_of(stream)
        self._tables = np.array([self._table(name) for name in names])
        self._row_bytes = np.array(self._file.row_bytes)
        self._fixed_rows = np.array([len(core[name]) for name in names])
        self.arrays = [
            (name, table, core[name].dtype, core[name].shape)
            for name, table in zip(names, self._tables.tolist(), strict=True)
        ]
        self._counted = [int(np.flatnonzero(self._tables == table)[0]) for table in range(1, self._queues[-1])]
        pieces = [piece for number in range(len(names)) for piece in self._pieces(number, core[names[number]])]
        self._by_table = [
            np.array([piece[1:] for piece in pieces if piece.table == table]).T for table in range(self._queues[-1])
        ]

    def _table(self, name: str) -> int:
        """Return the table whose rows an array has."""
        part, _, rest = name.partition(".")
        tables = {"pending": PENDING, "pending_arrivals": PENDING, "closed": CLOSED}
        tables |= {"delays": DELAYS, "delay_counts": DELAYS}
        if part == "learner":
            number, _, array = rest.partition(".")
            queued = self.stored[int(number)].queued.get(array)
            return ONE if queued is None else self._queues[int(number)] + queued.queue
        return tables.get(part, ONE)

    def _pieces(self, number: int, array: NDArray[Any]) -> Iterator[_Piece]:
        """Yield where an array of the file is in memory; the buckets of delays are nowhere, they are computed."""
        name, row = self._file.names[number], self._file.row_bytes[number]
        part, _, rest = name.partition(".")
        table = int(self._tables[number])
        if part in ("learner", "sums"):
            yield from self._of_learner(number, part, rest, array)
        elif table == ONE:
            yield from self._numbers(number)
        elif name == "delay_counts":
            yield _Piece(table, number, _FIXED, _ONCE, self._columns["delays"], row, row)
        elif rest.startswith("seen."):
            base = _LEARNERS + _OF_A_LEARNER * int(rest.partition(".")[2]) + _BY_SLOT
            yield _Piece(table, number, base, _ONCE, 0, row, row)
        elif rest in ("scores", "probabilities", "classes"):  # a row of the file is a column of memory
            size = array.dtype.itemsize
            for place in range(array.shape[1]):
                begin = self._columns[rest] + size * place
                yield _Piece(table, number, _SLOTS, _PER_SLOT, begin, size, size, size * place)
        elif table == PENDING:
            yield _Piece(table, number, _SLOTS, _PER_SLOT, self._columns[rest or "arrivals"], row, row)
        elif table == CLOSED:
            yield _Piece(table, number, _RING, _PER_RING_ROW, self._columns[rest], row, row)

    def _numbers(self, number: int) -> Iterator[_Piece]:
        """Yield the places of an array of numbers that the descriptor and the counters of a join have."""
        name = self._file.names[number]
        if name == "features_count":
            yield _Piece(ONE, number, _DESCRIPTOR, _ONCE, _LONG * JoinField.FEATURES, 0, _LONG)
            return
        counters = KEPT_COUNTERS if name == "counters" else (Counter.CLOSED_FIRST,)
        for place, counter in enumerate(counters):
            yield _Piece(ONE, number, _FIXED, _ONCE, _LONG * counter, 0, _LONG, _LONG * place)

    def _of_learner(self, number: int, part: str, rest: str, array: NDArray[Any]) -> Iterator[_Piece]:
        learner, _, name = rest.partition(".")
        stored, base = self.stored[int(learner)], _LEARNERS + _OF_A_LEARNER * int(learner)
        table, row = int(self._tables[number]), self._file.row_bytes[number]
        if part == "sums":
            which, begin = self._figures[name]
            yield _Piece(table, number, base + which, _ONCE, begin, 0, array.nbytes)
        elif name in stored.queued:
            yield _Piece(table, number, base + _BLOCK, _ONCE, stored.queued[name].start, row, row)
        else:
            yield _Piece(table, number, base + _BLOCK, _ONCE, stored.fixed[name], 0, array.nbytes)

    def sizes(self, counts: Longs) -> Longs:
        """Return int64 `[n, arrays]`, the bytes of each array, given the rows of each table, `[n, tables]`."""
        return np.asarray(self._numbers_of_rows(counts) * self._row_bytes)

    def _numbers_of_rows(self, counts: Longs) -> Longs:
        return np.where(self._tables == ONE, self._fixed_rows, counts[:, self._tables])

    def queue_tables(self, learner: int) -> slice:
        """Return the tables of a learner's queues."""
        return slice(self._queues[learner], self._queues[learner + 1])

    def counts_in(self, content: bytes) -> Sequence[int] | None:
        """Return how many rows each table has in a file; None: it is not a file of this form."""
        begin = 8 + int.from_bytes(content[:8], "little")
        header = content[:begin]
        counts = [1, *(self._file.rows_in(number, header) for number in self._counted)]
        rows = [
            fixed if table == ONE else counts[table]
            for fixed, table in zip(self._fixed_rows.tolist(), self._tables.tolist(), strict=True)
        ]
        size = begin + sum(map(operator.mul, rows, self._file.row_bytes))
        return (
            counts if min(counts) >= 0 and len(content) == size and self._file.header(tuple(rows)) == header else None
        )

    # From memory to files --------------------------------------------------------------------------------------------

    def pack(self, streams: Sequence[Stream]) -> list[bytes | None]:
        """Return the cores of streams of this kind; None: a part of the stream is, or becomes, a blob of its own."""
        memory = Memory.of(streams)
        counters = memory.read(_FIXED, 0, COUNTERS)
        rows = [TableRows(np.arange(len(streams)), np.zeros(len(streams), np.int64), np.zeros(len(streams), np.int64))]
        rows += [self._pending(memory, counters), _closed(memory, counters), self._delays(memory)]
        rows += [table for number in range(len(self.stored)) for table in self._queue_rows(memory, number)]
        counts = np.array([np.bincount(table.streams, minlength=len(streams)) for table in rows]).T
        numbers, sizes = self._numbers_of_rows(counts), self.sizes(counts)
        ends = np.cumsum(sizes).reshape(sizes.shape)
        contents = np.empty(int(sizes.sum()), np.uint8)
        self.transfer(memory, rows, address_of(contents) + ends - sizes, to_file=True)
        self._fill_delays(contents, rows[DELAYS], (ends - sizes)[:, self._file.names.index("delays")])
        fits = self._fits(counters, counts, sizes)
        whole, bounds = contents.tobytes(), [0, *ends[:, -1].tolist()]
        return [
            self._file.header(tuple(numbers[k].tolist())) + whole[bounds[k] : bounds[k + 1]] if fits[k] else None
            for k in range(len(streams))
        ]

    def transfer(self, memory: Memory, rows: Sequence[TableRows], starts: Longs, *, to_file: bool) -> None:
        """Copy the rows of each table to files, or from there.

        Args:
            memory: Where the streams are.
            rows: The rows of each table.
            starts: int64 `[n, arrays]`, the addresses of the arrays in the files.
            to_file: The direction.
        """
        inner, outer, sizes = [], [], []
        for pieces, table in zip(self._by_table, rows, strict=True):
            if not len(pieces) or not len(table.streams):
                continue
            array, base, factor, begin, stride, size, shift = pieces
            is_dense = ((size == stride) & (size == self._row_bytes[array])).all()
            first = table.runs() if is_dense else np.arange(len(table.streams))
            lengths = np.diff(first, append=len(table.streams))
            of, places, numbers = (column[first, None] for column in table)
            inside = memory.bases[of, base] + memory.factors[of, factor] * begin + places * stride
            inner.append(inside.reshape(-1))
            outer.append((starts[of, array] + numbers * self._row_bytes[array] + shift).reshape(-1))
            sizes.append((lengths[:, None] * size).reshape(-1))
        ends = (inner, outer) if to_file else (outer, inner)
        copy_all(*map(np.concatenate, (*ends, sizes)))

    def complete(self, memory: Memory, counts: Longs) -> None:
        """Fill in what the rows of loaded tables, int64 `[n, tables]`, say of the learners."""
        for number, stored in enumerate(self.stored):
            block = memory.bases[:, _LEARNERS + _OF_A_LEARNER * number + _BLOCK]
            held = np.ascontiguousarray(counts[:, self.queue_tables(number)])
            places = np.arange(len(held))
            if stored.queues and not stored.keeps_places:
                size = _LONG * stored.queues
                copy_all(address_of(held) + size * places, block + stored.lengths, size)
            for queue in range(stored.queues):
                classes, size = np.full(stored.rows, queue, np.float32), _FLOAT * stored.rows
                targets = block + stored.classes + size * queue
                copy_all(np.broadcast_to(address_of(classes), targets.shape), targets, _FLOAT * held[:, queue])
            if f"pending.{SEEN}.{number}" in self._file.names:
                slots = counts[:, PENDING].copy()
                copy_all(address_of(slots) + _LONG * places, block + stored.slots, _LONG)

    def _pending(self, memory: Memory, counters: Longs) -> TableRows:
        """Return the slots of the pending examples, by arrival; the heap has them in another order."""
        counts = counters[:, Counter.PENDING]
        streams, numbers = numbered(counts)
        slots, arrivals = np.empty(len(streams), np.int32), np.empty(len(streams), np.int64)
        begin, count = memory.bases[streams, _SLOTS], memory.factors[streams, _PER_SLOT]
        if len(streams):
            heap = begin + count * self._columns["pending_heap"] + _SLOT * numbers
            copy_all(heap, address_of(slots) + _SLOT * np.arange(len(slots)), _SLOT)
            arrived = begin + count * self._columns["arrivals"] + _LONG * slots.astype(np.int64)
            copy_all(arrived, address_of(arrivals) + _LONG * np.arange(len(slots)), _LONG)
        return TableRows(streams, slots[np.lexsort((arrivals, streams))].astype(np.int64), numbers)

    def _delays(self, memory: Memory) -> TableRows:
        delays = memory.read(_FIXED, self._columns["delays"], DELAY_BUCKETS)
        streams, buckets = np.divmod(np.flatnonzero(delays != 0), DELAY_BUCKETS)
        return TableRows(streams, buckets, numbered(np.bincount(streams, minlength=len(memory.bases)))[1])

    def _fill_delays(self, contents: NDArray[np.uint8], delays: TableRows, starts: Longs) -> None:
        at = starts[delays.streams] + 8 * delays.numbers
        contents[at[:, None] + np.arange(8)] = delays.places.view(np.uint8).reshape(-1, 8)

    def _queue_rows(self, memory: Memory, number: int) -> Iterator[TableRows]:
        """Yield the rows of each queue of a learner."""
        stored, base = self.stored[number], _LEARNERS + _OF_A_LEARNER * number + _BLOCK
        lengths = memory.read(base, stored.lengths, stored.queues)
        firsts = memory.read(base, stored.firsts, stored.queues)
        for queue in range(stored.queues):
            if stored.keeps_places:
                streams, numbers = numbered(np.minimum(firsts[:, queue] + lengths[:, queue], stored.rows))
                yield TableRows(streams, numbers, numbers)
            else:
                streams, numbers = numbered(lengths[:, queue])
                yield TableRows(streams, (firsts[streams, queue] + numbers) % stored.rows, numbers)

    def _fits(self, counters: Longs, counts: Longs, sizes: Longs) -> NDArray[np.bool_]:
        """Say of which streams the core has all: no segment of pending examples, no block of a ring, no label waits."""
        names = self._file.names
        pending = [number for number, name in enumerate(names) if name.startswith("pending.")]
        fits = np.array(sizes[:, pending].sum(1) < segments.SEGMENT_BYTES)
        for stored, first in zip(self.stored, self._queues, strict=False):
            if stored.keeps_places:
                fits &= (counts[:, first : first + stored.queues] < segments.RING_ROWS).all(1)
        fits &= counters[:, Counter.WAITING] == 0
        return fits


def _closed(memory: Memory, counters: Longs) -> TableRows:
    """Return the rows of the closed ids that are in no segment, by number."""
    first, end = counters[:, Counter.CLOSED_FIRST], counters[:, Counter.CLOSED_NEXT]
    first = np.maximum(first, end // segments.CLOSED_ROWS * segments.CLOSED_ROWS)
    streams, numbers = numbered(end - first)
    return TableRows(streams, (first[streams] + numbers) % memory.factors[streams, _PER_RING_ROW], numbers)


def _columns_of(stream: Stream) -> Mapping[str, int]:
    """Return where each column of a join begins in its block, for each row of the block if there are several."""
    descriptor = stream.join.descriptor.tolist()
    descriptor[JoinField.SLOTS] = descriptor[JoinField.RING] = descriptor[JoinField.TABLE] = 1
    return {name: span.start for block in BLOCKS for name, span in block.spans(descriptor)}


def _figures_of(stream: Stream) -> Mapping[str, tuple[int, int]]:
    """Return the address of a learner's figures from which the place of each array is counted, and its place."""
    places: dict[str, tuple[int, int]] = {}
    sums, changes, calibration, alerts = next(stream.figures())
    states = {_SUMS: sums.arrays(), _CHANGES: changes.arrays(), _CALIBRATION: calibration.arrays()}
    for base, arrays in {**states, _ALERTS: alerts.arrays()}.items():
        begin = 0
        for name, array in arrays.items():
            places[name] = base, begin
            begin += array.nbytes
    return places
