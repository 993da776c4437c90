"""How much of a batch fits into one transaction: an upper bound of the outputs of its first records.

The number of input records is no bound: a record that advances the time of its stream can close up to
`join.max_closings_per_record` open ids of the stream. The bound for the first n records of a merged sequence is the sum
of

1. the outputs of each of these records itself: its predictions, and one outcome or dead letter; for each stream, the
   metrics that this many labels can cause, and the metrics of `advance` marks;
2. for each stream of these records, the outputs of open ids that expire by the largest of their times or are closed by
   an `advance` mark (which is taken for the second of its pair), no more than so many records and marks may close;
   those that an `erase` mark names; and those that must make room for the records;
3. what all streams give up where the pool of the task may be levelled (`pipeline.table_pool`).

The bound grows with n, so the longest sequence that fits is found by bisection. Where a batch is cut changes no result,
so the bound may be too large; it is never too small. It reads the counters of each stream, and its heaps only if what
these could close together would not fit.
"""

from typing import NamedTuple

import numpy as np

from stream_app.arrays import NO_LONG, Integers, Longs
from stream_app.config import MAX_HELD, MAX_HELD_BYTES, TaskSettings
from stream_app.jit.compiler import compiled, compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, longs_at
from stream_app.join.constants import COUNTERS, MAX_EVICTIONS, Counter, Setting
from stream_app.join.input import JoinInput
from stream_app.join.layout import JoinArrays, JoinField, view_of
from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.bound_columns import BatchColumns, columns_of
from stream_app.pipeline.pool_closings import Closings
from stream_app.records import DEAD_LETTER_BYTES, Kind

NUMBERS_BYTES = 160
"""The most bytes of the value of a prediction or outcome, without its names: an id, numbers, the schema id."""

METRIC_BYTES, WINDOW_BYTES = 340, 134
"""The most bytes of the value of a record of metrics, without its names and windows, and of each of its windows."""

JSON_NUMBERS_BYTES, JSON_METRIC_BYTES, JSON_WINDOW_BYTES = 740, 1_450, 630
"""The same of values that are JSON, which have the names of all fields."""

_JSON_BYTES_OF_BYTE = 6
"""A control character takes six bytes in JSON."""

_LETTER_BYTES = 640
"""The most bytes of the headers of a dead letter, without the name of the input topic, which they have twice."""

_LEARNER_BYTES = 64
"""The most bytes of the name of a learner."""

_DATA, _MARK = int(Kind.DATA), int(Kind.MARK)


class Room(NamedTuple):
    """The room of a transaction: output records, and bytes of their keys, values and headers."""

    records: int
    bytes: int

    def less(self, records: int, size: int) -> "Room":
        """Return the room that remains after these."""
        return Room(self.records - records, self.bytes - size)


TRANSACTION = Room(MAX_HELD, MAX_HELD_BYTES)
"""The room of a transaction of all tasks: a million small records took 7.8 s on two busy cores, of the ten seconds that
a transaction may take. The outputs of a single record are not cut: its stream's `join.max_closings_per_record` and
`MAX_EVICTIONS` examples and labels, besides its own."""


class Costs(NamedTuple):
    """The most bytes of one output record; `letter` is what a dead letter has beyond `DEAD_LETTER_BYTES`."""

    prediction: int
    outcome: int
    metric: int
    letter: int


class _Settings(NamedTuple):
    """Settings: the most learners of a new stream, labels between two reports, whether all predictions are written.

    `every_examples` is the least number of examples between two reports of a new stream; 0: only labels cause reports.
    """

    learners: int
    every_labels: int
    every_examples: int
    every: bool


class _StreamTable(NamedTuple):
    """The streams of a task: the address of each join's descriptor, and the number of its learners; int64 `[s]`."""

    joins: Longs
    learners: Longs


class _Touched(NamedTuple):
    """The first records of a batch by stream; int64 `[s]`: their numbers and times, and the marks' times and ids."""

    examples: Longs
    labels: Longs
    label_bytes: Longs
    marks: Longs
    first: Longs
    last: Longs
    below: Longs
    erased: Longs


@inlined_without_refcounts
def _expired(state: JoinArrays, heap: Integers, length: Number, limit: Number, most: Number) -> tuple[int, int]:
    """Return how many slots of a heap have times below the limit, and the bytes of labels; stop above `most`.

    The walk is in preorder: below a slot that has not expired, no slot has.
    """
    count, size, at = 0, np.int64(0), 0
    while count <= most:
        if at < length and state.times[heap[at]] < limit:
            count += 1
            size += np.int64(state.fingerprints[heap[at]])
            at = 2 * at + 1
            continue
        while at > 0 and at % 2 == 0:
            at = (at - 1) // 2
        if at == 0:
            break
        at += 1
    return count, int(size)


@inlined_without_refcounts
def _largest(state: JoinArrays, length: Number) -> int:
    """Return the bytes of the largest waiting label."""
    largest = np.int64(0)
    for at in range(length):
        largest = max(largest, np.int64(state.fingerprints[state.waiting_heap[at]]))
    return int(largest)


@compiled_without_refcounts
def _touch(
    batch: JoinInput,
    count: int,
    columns: BatchColumns,
    table: _StreamTable,
    settings: _Settings,
    costs: Costs,
    touched: _Touched,
) -> tuple[int, int]:
    """Bound the outputs of the first records themselves, in records and bytes; fill `touched`."""
    records, size, fresh = 0, 0, 0
    for position in range(count):
        row, example = batch.rows[position], batch.sides[position] == 0
        kind = columns.kinds[0][row] if example else columns.kinds[1][row]
        stream = columns.streams[0][row] if example else columns.streams[1][row]
        own = columns.sizes[0][row] if example else columns.sizes[1][row]
        learners = table.learners[stream] if stream >= 0 else settings.learners
        records += 1
        size += max(costs.outcome, own + costs.letter)
        if kind == _MARK:
            below = columns.closes[0][row] if example else columns.closes[1][row]
            if stream >= 0:
                touched.below[stream] = max(touched.below[stream], below)
                touched.marks[stream] += 1
                touched.erased[stream] += columns.erased[0][row] if example else columns.erased[1][row]
            records += learners
            size += learners * costs.metric
            continue
        if kind != _DATA:
            continue
        if example:
            predictions = learners if settings.every else 1
            records += predictions
            size += predictions * costs.prediction
        if stream < 0:
            fresh += 1
            continue
        time = batch.example_times[row] if example else batch.label_times[row]
        touched.last[stream] = max(touched.last[stream], time)
        if example:
            touched.first[stream] = min(touched.first[stream], time)
            touched.examples[stream] += 1
        else:
            touched.labels[stream] += 1
            touched.label_bytes[stream] += own
    reports = fresh // settings.every_labels * settings.learners
    if settings.every_examples > 0:
        reports += fresh // settings.every_examples * settings.learners
    return records + reports, size + reports * costs.metric


@compiled_without_refcounts
def _closed(
    table: _StreamTable, settings: _Settings, costs: Costs, touched: _Touched, left: int, looks: bool
) -> tuple[int, int]:
    """Bound the outputs of open ids that these records close, and the metrics, in records and bytes.

    Without `looks`, all open ids of a stream count that so many records could close; with it, those that the heaps say
    can close. Beyond `left` records the count stops, and is too small.
    """
    records, size = 0, 0
    for stream in range(len(table.joins)):
        examples, labels = touched.examples[stream], touched.labels[stream]
        if examples + labels + touched.marks[stream] == 0:
            continue
        descriptor = longs_at(table.joins[stream])
        counters = longs_at(descriptor[JoinField.FIXED])
        reports = (counters[Counter.LABELLED] % settings.every_labels + examples + labels) // settings.every_labels
        every = counters[COUNTERS + Setting.EVERY_EXAMPLES]
        if every > 0:
            reports += (counters[Counter.EXAMPLES] % every + examples) // every
        records += reports * table.learners[stream]
        size += reports * table.learners[stream] * costs.metric
        pending, waiting = counters[Counter.PENDING], counters[Counter.WAITING]
        due = (examples + labels + touched.marks[stream]) * counters[COUNTERS + Setting.MAX_CLOSINGS]
        if not looks:
            most = due + MAX_EVICTIONS * (examples + labels) + touched.erased[stream]
            records += min(pending + waiting, most)
            size += min(pending, most) * costs.outcome + min(waiting, most) * costs.letter
            size += counters[Counter.WAITING_BYTES]
            continue
        state = view_of(descriptor)
        limit = max(touched.last[stream], counters[Counter.STREAM_TIME]) - counters[COUNTERS + Setting.LIFE_MS]
        below = max(limit, touched.below[stream], counters[Counter.ADVANCED_BELOW])
        gone, _ = _expired(state, state.pending_heap, pending, below, left)
        room = counters[COUNTERS + Setting.MAX_PENDING] - pending
        evicted = min(max(0, examples - room), MAX_EVICTIONS * examples)
        gone = min(pending, min(gone, due) + evicted + touched.erased[stream])
        records += gone
        size += gone * costs.outcome
        if waiting:
            late = examples if touched.first[stream] < limit else 0
            gone, gone_bytes = _expired(state, state.waiting_heap, waiting, below, left)
            if gone > due:  # the oldest of them, whose bytes are not known
                gone, gone_bytes = due, counters[Counter.WAITING_BYTES]
            crowd = max(0, waiting + labels - counters[COUNTERS + Setting.MAX_WAITING])
            forced = late + touched.erased[stream] + min(crowd, MAX_EVICTIONS * labels)
            excess = (
                counters[Counter.WAITING_BYTES]
                + touched.label_bytes[stream]
                - counters[COUNTERS + Setting.MAX_WAITING_BYTES]
            )
            if forced > 0 or excess > 0:
                largest = _largest(state, waiting)
                gone_bytes += forced * largest
                if excess > 0:  # the last label that makes room may be much larger than the missing room
                    gone_bytes += excess + largest
                    forced += excess // DEAD_LETTER_BYTES + 1
            gone = min(waiting, gone + forced)
            records += gone
            size += min(counters[Counter.WAITING_BYTES], gone_bytes) + gone * costs.letter
        if records > left:
            break
    return int(records), int(size)


@compiled
def _bound(
    batch: JoinInput,
    count: int,
    columns: BatchColumns,
    table: _StreamTable,
    settings: _Settings,
    costs: Costs,
    room: Room,
) -> tuple[int, int]:
    streams = len(table.joins)
    touched = _Touched(
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.full(streams, np.iinfo(np.int64).max),
        np.full(streams, NO_LONG),
        np.full(streams, NO_LONG),
        np.zeros(streams, np.int64),
    )
    records, size = _touch(batch, count, columns, table, settings, costs, touched)
    left = room.records - records
    more, more_bytes = _closed(table, settings, costs, touched, left, False)
    if more > left or size + more_bytes > room.bytes:
        more, more_bytes = _closed(table, settings, costs, touched, left, True)
    return records + more, size + more_bytes


def costs_of(
    batch: InputBatch,
    longest_stream: int,
    topics: tuple[str, str],
    windows: int,
    *,
    is_json: bool = False,
    passed_bytes: int = 0,
) -> Costs:
    """Return the most bytes of output records.

    Args:
        batch: The batch.
        longest_stream: Bytes of the longest name of a stream, of the task or the batch.
        topics: Full names of the input topics.
        windows: The number of windows of a record of metrics.
        is_json: Whether values are JSON.
        passed_bytes: Bytes of the largest headers that earlier examples pass on to their outcomes.
    """
    written = (longest_stream + _LEARNER_BYTES) * (_JSON_BYTES_OF_BYTE if is_json else 1)
    names = longest_stream + written + batch.carried.trace_bytes()
    own = batch.carried.passed_bytes()
    numbers = JSON_NUMBERS_BYTES if is_json else NUMBERS_BYTES
    letter = _LETTER_BYTES + 2 * max(len(topic.encode()) for topic in topics) - DEAD_LETTER_BYTES
    metric = JSON_METRIC_BYTES + windows * JSON_WINDOW_BYTES if is_json else METRIC_BYTES + windows * WINDOW_BYTES
    answer = numbers + names
    return Costs(answer + own, answer + max(own, passed_bytes), metric + names, max(0, letter))


def fitting(
    batch: InputBatch,
    numbers: tuple[Integers, Integers],
    streams: tuple[Longs, Longs],
    settings: TaskSettings,
    costs: Costs,
    room: Room,
    pool: Closings,
) -> tuple[int, int]:
    """Return how many examples and labels of a batch, in merge order, surely fit into the room; 0 if none do.

    Args:
        batch: The batch.
        numbers: By `Side`, int32, the task's numbers of the streams that the decoder did not know; -1: new.
        streams: Of each stream of the task, int64 `[s]`: the address of its join, and how many learners it has.
        settings: The settings of the task.
        costs: The most bytes of the output records.
        room: The room.
        pool: What may be closed to make room in the tables of the task.
    """
    new = {name for side in batch.decoded for name in side.stream_names}
    most_learners = max((len(settings.of_stream(name).learners) for name in new), default=0)
    every_examples = min(
        (drift.window_examples for name in new if (drift := settings.of_stream(name).drift) is not None), default=0
    )
    every_labels, every = settings.metrics.every_labels, settings.predictions == "all"
    bounds = _Settings(most_learners, every_labels, every_examples, every)
    columns, table = columns_of(batch, numbers), _StreamTable(*streams)
    label_sizes = [0, *np.cumsum(batch.sizes[1]).tolist()]

    def fits(count: int) -> bool:
        closings, label_bytes = pool.of(count, label_sizes[int(batch.merged.sides[:count].sum())])
        left = room.less(closings, label_bytes + closings * max(costs.outcome, costs.letter))
        if min(left) < 0:
            return False
        records, size = _bound(batch.merged, count, columns, table, bounds, costs, left)
        return records <= left.records and size <= left.bytes

    count = len(batch.times)
    if not fits(count):
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        count = low
    labels = int(batch.merged.sides[:count].sum())
    return count - labels, labels
