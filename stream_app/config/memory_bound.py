"""The memory bound: what streams, buffers and queues take when all of them are full at the configured limits.

With d features (`limits.max_features` where a stream names none), L learners, S of them with a scaler, P, W and C for
the bounds on pending, waiting and closed, R records in a batch, B bytes of labels that wait, and Y learners RELAY:

    stream   = 2 (P + W + R) x (4 d (1 + S) + 142 + 9 L + 8 Y)  slots: they double, and are free again after a batch
             + 2 (C + 1) x 106                              closed; 146 with `corrections` = `correct`
             + 64 (P + W + C + R)                           table of ids: 16 bytes, at most a quarter used
             + B + 300 W + 20,000 + its learners
             + (P + R) x (1,224 + 160 n)                    n headers of `pass_headers`, if there are any
    B        = the lesser of W x the largest record of the topic, and join.max_waiting_bytes_per_stream
    learner  = 16 x parameters x networks                   weights, two moments, gradient: float32
             + r (4 d + 108)                                r rows: 2 B for AREBA, B for QBR, W for Sliding,
                                                            2 x replay_per_class for RELAY, else 1
             + 8 (r + 16) x (units of each layer + 64)      scratch
             + 2,100 + 1,100 x windows                      calibration, sums and histograms
    drift    = 8 (d + 1) (r + 30) + snapshot           r reference examples, in a stream with `drift`
    columns  = 3 (200 k + 400 c + 8 d) + 8 d R              c columns, whose categories have k places with `most`
    snapshot = twice what a stream's rows, labels and learners take: the bytes, and the records that they are cut into

A configured stream is in one partition, so it counts once, regardless of the number of tasks. Memory of learners of
your own comes on top.
"""

from itertools import pairwise
from typing import NamedTuple

from stream_app.config import METHOD_FACTS, Config, LearnerSettings, StreamSettings, TaskSettings, is_own
from stream_app.config.task_settings import MAX_PASSED_BYTES
from stream_app.records import ID_WORDS

_ID_BYTES = 8 * ID_WORDS
_SLOT_BYTES = _ID_BYTES + 70
"""A row of the join beside its features: id, hashes, times, offset, class, and its places in the heaps."""
_CLOSED_BYTES = _ID_BYTES + 34
"""A closed example: id, hashes, class, revision, outcome, time."""
_CORRECTION_BYTES = 48
"""With `corrections` = `correct`, a closed example's place among the labels and what was predicted."""
TABLE_BYTES = 64
"""An id's share of the hash table: 16 bytes, of which at least a quarter is used after growing."""
_COST_BYTES = 8
"""The costs of an example, in a stream with `costs`."""
_SCORE_BYTES = 9
"""One learner's score, probability and class."""
_CALIBRATION_BYTES, _WINDOW_BYTES = 2_700, 1_100
"""One learner's calibration and scores of alerts, and its sums and histograms for each of `metrics.fading_factors`."""
_ARRIVAL_BYTES = 8
"""When an example came, as RELAY keeps it."""
_PASSED_OBJECT_BYTES, _HEADER_OBJECT_BYTES = 200, 160
"""The headers that an example passes on as Python objects, and each of them, beside names and values."""
_LABEL_BYTES = 300
"""A waiting label as Python objects, beside what its key, value and headers hold."""
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
    """Bytes, all at once.

    Attributes:
        streams: Of the configured streams, with a snapshot of each under way.
        task: Of each task: its buffers, and with `unknown_streams` = `model` the streams that may come.
        process: Of each process: itself, and the queues of its clients.
    """

    streams: int
    task: int
    process: int

    def total(self, tasks: int) -> int:
        """Return the bound of a worker that has all configured streams and this number of tasks."""
        return self.streams + tasks * self.task + self.process

    def text(self, tasks: int) -> str:
        """Return the bound and its parts, for people."""
        parts = (self.total(tasks), self.streams, self.task, self.process)
        total, streams, task, process = (size >> 20 for size in parts)
        return f"{total} MB (configured streams {streams} MB, each task {task} MB, process and queues {process} MB)"


def bound_of(config: Config, settings: TaskSettings, largest_label_bytes: int) -> MemoryBound:
    """Return the bound of a worker.

    Args:
        config: The configuration, for the sizes of buffers, batches and queues.
        settings: The settings of its tasks, `config.task_settings()`.
        largest_label_bytes: `max.message.bytes` of the topic of labels.
    """
    kafka, worker = config.kafka, config.worker
    producer = {**kafka.all, **kafka.producer}.get("queue.buffering.max.kbytes", PRODUCER_KBYTES)
    consumer = {**kafka.all, **kafka.consumer}.get("queued.max.messages.kbytes", CONSUMER_KBYTES)
    given = settings, largest_label_bytes, worker.max_batch_records
    streams = sum(_stream_bytes(stream, *given) for stream in settings.streams.values())
    task = 2 * worker.buffer_bytes
    if settings.unknown_streams == "model":
        room = max(0, settings.limits.max_streams_per_task - len(settings.streams))
        task += room * _stream_bytes(settings.default_stream, *given)
    return MemoryBound(streams, task, PROCESS_BYTES + (int(producer) + int(consumer)) * 1024)


def _stream_bytes(stream: StreamSettings, settings: TaskSettings, largest_label_bytes: int, batch_records: int) -> int:
    join, learners = settings.join, stream.learners.values()
    row_bytes = 4 * (settings.limits.max_features if stream.features is None else stream.features)
    copies = 1 + sum(learner.scaler != "none" for learner in learners)
    slot_bytes = row_bytes * copies + _SLOT_BYTES + _SCORE_BYTES * len(learners)
    slot_bytes += _COST_BYTES if stream.costs is not None else 0
    methods = [METHOD_FACTS[learner.method] for learner in learners if not is_own(learner.method)]
    slot_bytes += _ARRIVAL_BYTES * sum(facts.keeps_arrivals for facts in methods)
    closed_bytes = _CLOSED_BYTES + (_CORRECTION_BYTES if join.corrections == "correct" else 0)
    waiting = join.max_pending_per_stream + join.max_waiting_per_stream
    labels = min(join.max_waiting_per_stream * largest_label_bytes, join.max_waiting_bytes_per_stream)
    own = sum(_learner_bytes(learner, row_bytes) for learner in learners)
    own += len(learners) * (_CALIBRATION_BYTES + _WINDOW_BYTES * len(settings.metrics.fading_factors))
    own += _drift_bytes(stream, row_bytes)
    snapshot = waiting * slot_bytes + join.max_closed_per_stream * closed_bytes + labels + own
    passed_bytes = 0
    if settings.pass_headers:
        passed_bytes = MAX_PASSED_BYTES + _PASSED_OBJECT_BYTES + _HEADER_OBJECT_BYTES * len(settings.pass_headers)
        snapshot += join.max_pending_per_stream * MAX_PASSED_BYTES
    return (
        2 * (waiting + batch_records) * slot_bytes
        + 2 * (join.max_closed_per_stream + 1) * closed_bytes
        + TABLE_BYTES * (waiting + batch_records + join.max_closed_per_stream)
        + labels
        + _LABEL_BYTES * join.max_waiting_per_stream
        + passed_bytes * (join.max_pending_per_stream + batch_records)
        + _STREAM_BYTES
        + own
        + 2 * snapshot
        + _columns_bytes(stream, row_bytes, batch_records)
    )


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
    return 16 * networks * parameters + rows * (row_bytes + _ID_BYTES + 28 + _ARRIVAL_BYTES) + scratch
