"""The memory bound: what streams, buffers and queues take when all of them are full at the configured limits.

With d features (`limits.max_features` where a stream names none), L learners, S of them with a scaler, P, W and C for
the bounds on pending, waiting and closed, R records in a batch, B bytes of labels that wait, and Y learners RELAY:

    slot     = 4 d (1 + S) + 142 + 9 L + 8 Y               a pending example or a waiting label
    ring     = 106                                         a closed id; 146 with `corrections` = `correct`
    rows     = 2 (P + W + R) x slot                        slots double, and are free again after a batch
             + 2 (C + 1) x ring                            with room for closing what is pending
             + 64 (P + W + C + R)                          table of ids: 16 bytes, at most a quarter used
             + B + 300 W + (P + R) x (1,224 + 160 n)       n headers of `pass_headers`, if there are any
             + twice what these hold                       a snapshot: the bytes, and the records cut of them
    B        = the lesser of W x the largest record of the topic, and join.max_waiting_bytes_per_stream
    pool     = 2 (join.max_table_bytes_per_task            in each task; what rows count there is doubled,
             + (R + N) x the largest row + B)              and a snapshot is as much; N records come between levellings
    tables   = the lesser of the rows of all streams and the pools of all tasks
    stream   = 20,000 + 3 x its learners                   once more, and twice for a snapshot
    learner  = 16 x parameters x networks                  weights, two moments, gradient: float32
             + r (4 d + 108)                               r rows: 2 B for AREBA, B for QBR, W for Sliding,
                                                           2 x replay_per_class for RELAY, else 1
             + 8 (r + 16) x (units of each layer + 64)     scratch
             + 2,100 + 1,100 x windows                     calibration, sums and histograms
    drift    = 8 (d + 1) (r + 30) + snapshot               r reference examples, in a stream with `drift`
    columns  = 3 (200 k + 400 c + 8 d) + 8 d R             c columns, whose categories have k places with `most`

A configured stream is in one partition, so it counts once, regardless of the number of tasks. Memory of learners of
your own comes on top.
"""

from itertools import pairwise
from typing import NamedTuple

from stream_app.config import METHOD_FACTS, Config, LearnerSettings, StreamSettings, TaskSettings, is_own
from stream_app.config.table_bytes import (
    ARRIVAL_BYTES,
    ID_BYTES,
    LABEL_BYTES,
    TABLE_BYTES,
    RowBytes,
    closed_bytes,
    interval_of,
    passed_bytes,
    row_bytes,
    slot_bytes,
)
from stream_app.config.task_settings import MAX_PASSED_BYTES

_CALIBRATION_BYTES, _WINDOW_BYTES = 2_700, 1_100
"""One learner's calibration and scores of alerts, and its sums and histograms for each of `metrics.fading_factors`."""
_CATEGORY_BYTES = 100
"""A category that is counted: its text, hash, counts and place."""
_COLUMN_BYTES = 400
"""A column: its name, its settings, its moments and the value at hand."""
_STREAM_BYTES = 20_000
"""What every stream takes: the histogram of delays, above all."""
PROCESS_BYTES = 250 << 20
"""Python, Numba, the Kafka client: a worker without streams, measured."""
PRODUCER_KBYTES, CONSUMER_KBYTES = 262_144, 16_384
"""Of the client's queues, unless `kafka.*` has `queue.buffering.max.kbytes` or `queued.max.messages.kbytes`."""


class MemoryBound(NamedTuple):
    """Bytes, all at once. Those of tables and streams include a snapshot of each that is under way.

    Attributes:
        streams: Of the configured streams, without the rows of their tables.
        rows: Of these rows, if all tables are full.
        task: Of each task: its buffers, and with `unknown_streams` = `model` the streams that may come.
        more_rows: Of the rows of these, in each task.
        pool: The most that the rows in each task take.
        process: Of each process: itself, and the queues of its clients.
    """

    streams: int
    rows: int
    task: int
    more_rows: int
    pool: int
    process: int

    def tables(self, tasks: int) -> int:
        """Return the bound of all rows in this number of tasks."""
        return min(self.rows + tasks * self.more_rows, tasks * self.pool)

    def total(self, tasks: int) -> int:
        """Return the bound of a worker that has all configured streams and this number of tasks."""
        return self.streams + self.tables(tasks) + tasks * self.task + self.process

    def text(self, tasks: int) -> str:
        """Return the bound and its parts, for people."""
        parts = (self.total(tasks), self.tables(tasks), self.streams, self.task, self.process)
        total, tables, streams, task, process = (size >> 20 for size in parts)
        rest = f"configured streams {streams} MB, each task {task} MB, process and queues {process} MB"
        return f"{total} MB (tables {tables} MB, {rest})"


def bound_of(config: Config, settings: TaskSettings, largest_label_bytes: int) -> MemoryBound:
    """Return the bound of a worker.

    Args:
        config: The configuration, for the sizes of buffers, batches and queues.
        settings: The settings of its tasks, `config.task_settings()`.
        largest_label_bytes: `max.message.bytes` of the topic of labels.
    """
    kafka, worker, join = config.kafka, config.worker, settings.join
    producer = {**kafka.all, **kafka.producer}.get("queue.buffering.max.kbytes", PRODUCER_KBYTES)
    consumer = {**kafka.all, **kafka.consumer}.get("queued.max.messages.kbytes", CONSUMER_KBYTES)
    process = PROCESS_BYTES + (int(producer) + int(consumer)) * 1024
    batch, named, other = worker.max_batch_records, settings.streams.values(), settings.default_stream
    more = 0
    if settings.unknown_streams == "model":
        more = max(0, settings.limits.max_streams_per_task - len(named))
    largest = max((_row_bytes(stream, settings).pending for stream in (*named, *[other] * bool(more))), default=0)
    interval = interval_of(join.max_table_bytes_per_task)
    between = (batch + interval) * largest + min(interval * largest_label_bytes, join.max_waiting_bytes_per_stream)
    return MemoryBound(
        sum(_stream_bytes(stream, settings, batch) for stream in named),
        sum(_rows_bytes(stream, settings, largest_label_bytes, batch) for stream in named),
        2 * worker.buffer_bytes + more * _stream_bytes(other, settings, batch),
        more * _rows_bytes(other, settings, largest_label_bytes, batch),
        2 * (join.max_table_bytes_per_task + between),
        process,
    )


def _features_of(stream: StreamSettings, settings: TaskSettings) -> int:
    return settings.limits.max_features if stream.features is None else stream.features


def _row_bytes(stream: StreamSettings, settings: TaskSettings) -> RowBytes:
    return row_bytes(stream, settings, _features_of(stream, settings))


def _rows_bytes(stream: StreamSettings, settings: TaskSettings, largest_label_bytes: int, batch_records: int) -> int:
    """Return the bytes of the full tables of a stream."""
    join, slot, closed = settings.join, slot_bytes(stream, _features_of(stream, settings)), closed_bytes(settings)
    waiting, passed = join.max_pending_per_stream + join.max_waiting_per_stream, passed_bytes(settings)
    labels = min(join.max_waiting_per_stream * largest_label_bytes, join.max_waiting_bytes_per_stream)
    snapshot = waiting * slot + join.max_closed_per_stream * closed + labels
    snapshot += join.max_pending_per_stream * MAX_PASSED_BYTES if passed else 0
    return (
        2 * (waiting + batch_records) * slot
        + 2 * (join.max_closed_per_stream + 1) * closed
        + TABLE_BYTES * (waiting + batch_records + join.max_closed_per_stream)
        + labels
        + LABEL_BYTES * join.max_waiting_per_stream
        + passed * (join.max_pending_per_stream + batch_records)
        + 2 * snapshot
    )


def _stream_bytes(stream: StreamSettings, settings: TaskSettings, batch_records: int) -> int:
    """Return the bytes of a stream without the rows of its tables."""
    learners, feature_bytes = stream.learners.values(), 4 * _features_of(stream, settings)
    own = sum(_learner_bytes(learner, feature_bytes) for learner in learners)
    own += len(learners) * (_CALIBRATION_BYTES + _WINDOW_BYTES * len(settings.metrics.fading_factors))
    own += _drift_bytes(stream, feature_bytes)
    return _STREAM_BYTES + 3 * own + _columns_bytes(stream, feature_bytes, batch_records)


def _drift_bytes(stream: StreamSettings, row_bytes: int) -> int:
    """Return the bytes of a stream's reference: its values, edges, counts and indices."""
    return 0 if stream.drift is None else 8 * (row_bytes // 4 + 1) * (stream.drift.reference_examples + 30)


def _columns_bytes(stream: StreamSettings, row_bytes: int, batch_records: int) -> int:
    """Return the bytes of a stream's columns: what is learned of them, snapshots, and the features of a batch."""
    if not stream.columns:
        return 0
    categories = sum(0 if one.category is None else 2 * (one.category.most or 0) for one in stream.columns.values())
    learned = _CATEGORY_BYTES * categories + _COLUMN_BYTES * len(stream.columns) + 2 * row_bytes
    return 3 * learned + 2 * batch_records * row_bytes


def _learner_bytes(learner: LearnerSettings, row_bytes: int) -> int:
    if is_own(learner.method):
        return 0
    sizes = (row_bytes // 4, *learner.hidden, 1)
    parameters = sum((inputs + 1) * units for inputs, units in pairwise(sizes))
    facts = METHOD_FACTS[learner.method]
    rows, networks = facts.rows(learner), facts.networks(learner)
    scratch = 8 * (max(rows, networks) + 16) * sum(units + 64 for units in sizes[1:])
    return 16 * networks * parameters + rows * (row_bytes + ID_BYTES + 28 + ARRIVAL_BYTES) + scratch
