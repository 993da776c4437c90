"""No transaction exceeds the brokers' limits: a batch is cut by what it can close."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.config import MAX_HELD, MAX_PENDING, Config, JoinSettings
from stream_app.join.constants import MAX_EVICTIONS
from stream_app.pipeline.outputs import bytes_of
from stream_app.pipeline.task import Task
from stream_app.pipeline.transaction_bounds import METRIC_BYTES, TRANSACTION, WINDOW_BYTES, Room
from stream_app.progress_records import CONFIGURATION, RESET, SNAPSHOT, Act
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.records import DEAD_LETTER_BYTES, Label, Mark, MarkKind, Metric, MetricWindow, Outcome
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples
from stream_app.serialization.erased_ids import id_digest
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.world import PARTITIONS, World

DAY_MS = 86_400_000
LATER_MS = 30 * DAY_MS + 3_600_000 + 10_000
"""After the lifetime of everything old."""

STREAMS = tuple(f"s{number}" for number in range(10))


def _config(**sections: Any) -> Config:  # noqa: ANN401  (sections of a file)
    data: dict[str, Any] = {
        "application": {"id": "app", "instance": "w"},
        "learners": {"baseline": {"method": "baseline"}},
        "streams": {name: {"features": 1} for name in STREAMS},
        "worker": {"commit_interval_ms": 0},
    }
    return Config.model_validate({**data, **sections}, context={})


def _examples(stream: str, count: int, time_ms: int, first: int = 0, offset: int = 0) -> RawRecords:
    """Return this many examples of one time; ids begin at `first`."""
    features = np.zeros((count, 1), np.float32)
    values = encode_examples(stream, [f"{stream}-{number}" for number in range(first, first + count)], features)
    return RawRecords.of(np.arange(offset, offset + count), np.full(count, time_ms), [stream.encode()] * count, values)


def _together(parts: Sequence[RawRecords]) -> RawRecords:
    rows = sum(map(len, parts))
    return RawRecords.of(
        np.arange(rows),
        np.concatenate([part.timestamps for part in parts]) if parts else np.zeros(0, np.int64),
        [key for part in parts for key in part.keys],
        [value for part in parts for value in part.values],
    )


NONE = _together(())


def _outputs_of(task: Task, examples: RawRecords, labels: RawRecords, room: Room) -> list[tuple[int, int]]:
    """Return records and bytes of each transaction that these inputs become."""
    found = []
    while len(examples) or len(labels):
        rows = task.fitting(task.open(examples, labels), room)
        assert sum(rows), "none of these records closes more than the room has"
        outputs = task.step(_first(examples, rows[0]), _first(labels, rows[1]))
        found.append((outputs.records, outputs.bytes))
        examples, labels = _rest(examples, rows[0]), _rest(labels, rows[1])
    return found


def _first(records: RawRecords, rows: int) -> RawRecords:
    return _some(records, slice(0, rows))


def _rest(records: RawRecords, rows: int) -> RawRecords:
    return _some(records, slice(rows, None))


def _some(records: RawRecords, rows: slice) -> RawRecords:
    return RawRecords.of(records.offsets[rows], records.timestamps[rows], records.keys[rows], records.values[rows])


@pytest.mark.slow(11)
def test_ten_full_streams_a_day_later() -> None:
    """The first records after a quiet day close a million examples; a single transaction would take ten seconds."""
    task = Task(0, _config(join={"max_table_bytes_per_task": 1 << 30}).task_settings(), ("examples", "labels"))
    each, batch = 100_000, 50_000
    for name in STREAMS:
        for first in range(0, each, batch):
            task.step(_examples(name, batch, 1_000, first), NONE)
    later = _together([_examples(name, 1, LATER_MS, each) for name in STREAMS])
    sizes = _outputs_of(task, later, NONE, TRANSACTION)
    assert len(sizes) == len(STREAMS), "two streams of 100,000 and their own records are more than 200,000"
    assert all(records <= TRANSACTION.records and size <= TRANSACTION.bytes for records, size in sizes)
    assert sum(records for records, _ in sizes) == len(STREAMS) * (each + 1)


def test_records_that_a_reset_closes_have_their_room() -> None:
    """The batch after a reset begins with all open records of the stream; its own records get the remaining room."""
    task = Task(0, _config().task_settings(), ("examples", "labels"))
    task.step(_examples("s0", 100, 1_000), NONE)
    task.apply(Act(1, RESET, "0", "s0"))
    room = Room(150, 1 << 20)
    sizes = _outputs_of(task, _examples("s1", 100, 2_000), NONE, room)
    assert len(sizes) > 1
    assert all(records <= room.records for records, _ in sizes)
    assert sum(records for records, _ in sizes) == 200


@pytest.mark.parametrize("ends", ["advance", "expiry"])
def test_records_that_a_mark_closes_have_their_room(ends: str) -> None:
    """Marks close what a later record would close; if both are in one batch, it is cut before what has no room."""
    task = Task(0, _config().task_settings(), ("examples", "labels"))
    for name in STREAMS:
        task.step(_examples(name, 100, 1_000), NONE)
    room = Room(250, 100_000)
    if ends == "advance":
        marks = [codec.encode(Mark(name, MarkKind.ADVANCE, time_ms=1_000)) for name in STREAMS]
        keys = [name.encode() for name in STREAMS]
        later = RawRecords.of(np.arange(len(marks)), np.full(len(marks), 2_000), keys, marks)
        sizes = _outputs_of(task, later, later, room)
    else:
        sizes = _outputs_of(task, _together([_examples(name, 1, LATER_MS, 100) for name in STREAMS]), NONE, room)
    assert all(records <= room.records and size <= room.bytes for records, size in sizes)
    assert len(sizes) >= len(STREAMS) // 2
    assert sum(records for records, _ in sizes) >= len(STREAMS) * 100


@pytest.mark.slow
def test_ordinary_batches_are_not_cut() -> None:
    """For a thousand streams with many pending examples, of which a few expire, the bound must cost nothing."""
    names = [f"n{number}" for number in range(1_000)]
    config = _config(
        streams={name: {"features": 1} for name in names},
        limits={"max_streams_per_task": 1_000},
        join={"ttl_ms": 1_000, "max_clock_lead_ms": 0},
    )
    task = Task(0, config.task_settings(), ("examples", "labels"))
    each = 300
    for first in range(0, each, 50):
        task.step(_together([_examples(name, 50, 1_000 + first, first) for name in names]), NONE)
    batch = _together([_examples(name, 10, 2_060, each) for name in names])
    opened = task.open(batch, NONE)
    assert task.fitting(opened, TRANSACTION) == (10_000, 0)
    assert task.run(opened).records == 1_000 * (10 + 100), "300,000 wait, and a hundred of each stream expire"


# Waiting labels -------------------------------------------------------------------------------------------------------


def _label(stream: str, number: int, time_ms: int, header: int) -> RawRecords:
    value = codec.encode(Label(stream, str(number), 1))
    headers = {0: [("h", b"x" * header)]}
    return RawRecords.of(np.array([number]), np.array([time_ms]), [stream.encode()], [value], headers)


def test_waiting_labels_are_bounded_in_bytes() -> None:
    """2,000 labels with a header of a megabyte took 2 GB; now the oldest become dead letters as new ones come."""
    one = 1_000 + DEAD_LETTER_BYTES + len(b"s0") + len(codec.encode(Label("s0", "0", 1))) + len("h")
    settings = _config(join={"max_waiting_bytes_per_stream": 3 * one}).task_settings()
    task = Task(0, settings, ("examples", "labels"))
    dead = []
    for number in range(5):
        outputs = task.step(NONE, _label("s0", number, 1_000 + number, 1_000)).topics["dead-letters"]
        dead.append([codec.decode_one(value or b"").id for value in outputs.values])  # type: ignore[union-attr]
    assert dead == [[], [], [], ["0"], ["1"]]
    larger = task.step(NONE, _label("s0", 5, 1_010, 2_000)).topics["dead-letters"]
    assert len(larger) == 2, "a label that is twice as large takes the place of two"
    too_large = task.step(NONE, _label("s0", 6, 1_011, 4_000)).topics["dead-letters"]
    assert list(too_large.values) == [codec.encode(Label("s0", "6", 1))], "it alone has no room"


def test_bytes_of_waiting_labels_cut_a_batch() -> None:
    """Few records can be many bytes."""
    task = Task(0, _config().task_settings(), ("examples", "labels"))
    for name in STREAMS:
        for number in range(4):
            task.step(NONE, _label(name, number, 1_000, 10_000))
    room = Room(10_000, 100_000)
    sizes = _outputs_of(task, _together([_examples(name, 1, LATER_MS) for name in STREAMS]), NONE, room)
    assert all(size <= room.bytes for _, size in sizes)
    assert len(sizes) == 5, "two streams of 40,000 bytes each fit"


# Bounds of settings ---------------------------------------------------------------------------------------------------


def test_what_one_record_closes_has_room_in_a_transaction() -> None:
    """A stream may hold more than a transaction takes: a single record may close some of it, and all waiting labels."""
    assert MAX_HELD == TRANSACTION.records == 200_000
    assert JoinSettings(max_pending_per_stream=MAX_PENDING).max_closings_per_record <= MAX_HELD // 2
    for name in ("max_waiting_per_stream", "max_closings_per_record"):
        assert getattr(JoinSettings.model_validate({name: MAX_HELD}), name) == MAX_HELD
        with pytest.raises(ValidationError, match="less than or equal"):
            JoinSettings.model_validate({name: MAX_HELD + 1})
    with pytest.raises(ValidationError, match="less than or equal"):
        JoinSettings(max_pending_per_stream=MAX_PENDING + 1)


@pytest.mark.parametrize("ends", ["advance", "expiry"])
def test_more_than_a_transaction_is_closed_in_several(ends: str) -> None:
    """After a change of the time to live, five million examples of one stream would be one transaction of minutes."""
    task = Task(0, _config(join={"max_closings_per_record": 100}).task_settings(), ("examples", "labels"))
    task.step(_examples("s0", 1_000, 1_000), NONE)
    room, sizes, time_ms = Room(250, 100_000), [], LATER_MS if ends == "expiry" else 2_000
    if ends == "advance":
        mark = codec.encode(Mark("s0", MarkKind.ADVANCE, time_ms=1_000))
        marks = RawRecords.of(np.array([0]), np.array([1_000]), [b"s0"], [mark])
        sizes = _outputs_of(task, marks, marks, room)
    sizes += _outputs_of(task, _examples("s0", 11, time_ms, 1_000), NONE, room)
    assert all(records <= room.records and size <= room.bytes for records, size in sizes)
    assert len(sizes) > 4, "two records close two hundred"
    assert sum(records for records, _ in sizes) == 1_000 + 11 + (ends == "advance"), "a report of the marks"


def test_marks_whose_examples_are_closed_close_nothing_that_comes_later() -> None:
    """The record that closes the last of them closes as many as it may; an example that comes with it is not theirs."""
    task = Task(0, _config(join={"max_closings_per_record": 10}).task_settings(), ("examples", "labels"))
    task.step(_examples("s0", 20, 1_000), NONE)
    mark = codec.encode(Mark("s0", MarkKind.ADVANCE, time_ms=1_500))
    marks = RawRecords.of(np.array([20]), np.array([1_000]), [b"s0"], [mark])
    assert len(task.step(marks, marks).topics["outcomes"]) == 10
    later = [task.step(_examples("s0", 1, 1_200, first, first), NONE) for first in (21, 22)]
    assert [len(outputs.topics["outcomes"]) for outputs in later] == [10, 0]


def test_a_mark_of_the_largest_time_closes_everything() -> None:
    """It is how a producer says "all of it"; the time after it is no int64, and nothing was closed."""
    task = Task(0, _config().task_settings(), ("examples", "labels"))
    task.step(_examples("s0", 10, 1_000), NONE)
    mark = codec.encode(Mark("s0", MarkKind.ADVANCE, time_ms=2**63 - 1))
    marks = RawRecords.of(np.array([0]), np.array([1_000]), [b"s0"], [mark])
    assert len(task.step(marks, marks).topics["outcomes"]) == 10


def test_an_erase_mark_needs_room_for_what_it_names() -> None:
    """It was taken for a mark that closes all of the stream, which has no room beside the other tasks."""
    task = Task(0, _config().task_settings(), ("examples", "labels"))
    task.step(_examples("s0", 1_000, 1_000), NONE)
    digests = "".join(id_digest("s0", f"s0-{number}") for number in range(40))
    mark = codec.encode(Mark("s0", MarkKind.ERASE, digests=digests))
    erase = RawRecords.of(np.array([0]), np.array([1_000]), [b"s0"], [mark])
    assert task.fitting(task.open(erase, NONE), Room(30, 1 << 20)) == (0, 0)
    ((records, _),) = _outputs_of(task, erase, NONE, Room(100, 1 << 20))
    assert records == 40


def test_examples_above_a_lowered_bound_go_in_parts() -> None:
    """Eight hundred thousand evictions by one record would be the transaction that the bound prevents."""
    task = Task(0, _config(join={"max_pending_per_stream": 15_000}).task_settings(), ("examples", "labels"))
    task.step(_examples("s0", 15_000, 1_000), NONE)
    task.apply_settings(_config(join={"max_pending_per_stream": 10}).task_settings())
    evicted = []
    for number in range(3):
        outputs = task.step(_examples("s0", 1, 1_000, 15_000 + number), NONE)
        evicted.append(len(outputs.topics["outcomes"]))
    assert evicted == [MAX_EVICTIONS, 15_002 - MAX_EVICTIONS - 10, 1]


# The worker -----------------------------------------------------------------------------------------------------------


@dataclass
class Recording:
    """The records and bytes of each transaction; the last one may still be open."""

    sizes: list[tuple[int, int]] = field(default_factory=list)


class RecordingTransaction(EmbeddedTransaction):
    """A transaction that counts its outputs."""

    def __init__(self, world: World, recording: Recording) -> None:
        super().__init__(world.broker, world.config.transactional_id)
        self._recording = recording
        topics = world.config.topics
        self._outputs = {topics.predictions, topics.outcomes, topics.metrics, topics.dead_letters}

    def begin(self) -> None:
        """Start a count."""
        self._recording.sizes.append((0, 0))
        super().begin()

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Count."""
        if partition.topic in self._outputs:
            count, size = self._recording.sizes[-1]
            self._recording.sizes[-1] = (count + len(records), size + bytes_of(records))
        super().produce(partition, records, offsets)


def _worker(world: World, recording: Recording, room: Room) -> Worker:
    member = world.worker(transaction=RecordingTransaction(world, recording), room=room)
    member.start()
    return member


def _fill(world: World, each: int) -> None:
    for number, name in enumerate(STREAMS):
        for value in _examples(name, each, 1_000).values:
            world.put("examples", number % PARTITIONS, name.encode(), value, 1_000)


def _turn_until(member: Worker, ends: tuple[int, ...], turns: int = 500) -> None:
    for _ in range(turns):
        member.turn()
        if tuple(task.offsets[0] for task in sorted(member.tasks, key=lambda task: task.number)) == ends:
            return
    raise AssertionError(f"not at {ends} after {turns} turns")


def test_all_is_accounted_for_when_a_worker_dies_in_the_middle() -> None:
    """Tasks share one transaction, so they share its room; what a dead worker had committed is not closed again."""
    world = World(_config())
    recording, room, each = Recording(), Room(1_200, 1 << 20), 400
    _fill(world, each)
    half = len(STREAMS) // PARTITIONS
    member = _worker(world, recording, room)
    _turn_until(member, (half * each,) * PARTITIONS)
    for number, name in enumerate(STREAMS):
        world.put("examples", number % PARTITIONS, name.encode(), _examples(name, 1, 0, each).values[0], LATER_MS)
    begun = len(recording.sizes)
    while sum(len(world.rows("outcomes", number)) for number in range(PARTITIONS)) < 4 * each:
        member.turn()  # and not one more turn: as if killed
    assert member.cuts
    _turn_until(_worker(world, recording, room), (half * (each + 1),) * PARTITIONS)
    assert len(recording.sizes) - begun >= len(STREAMS) // 2, "two streams are more than the room, with their own"
    assert all(records <= room.records and size <= room.bytes for records, size in recording.sizes)
    settled = []
    for number in range(PARTITIONS):
        outcomes = [codec.decode_one(value) for _, value, _, _ in world.rows("outcomes", number)]
        settled += [(record.id, record.outcome) for record in outcomes if isinstance(record, Outcome)]
        assert len(world.rows("predictions", number)) == half * (each + 1)
    assert sorted(settled) == sorted((f"{name}-{k}", "unlabelled") for name in STREAMS for k in range(each))


def test_a_configuration_that_is_not_recorded_yet_is_in_no_snapshot() -> None:
    """A task that has no room in a transaction must not take over a configuration without its act.

    The next owner would load the snapshot without recording it, and the outputs could not be computed again.
    """
    world = World(_config(worker={"snapshot_after_ms": 0, "commit_interval_ms": 0}))
    recording, room = Recording(), Room(60, 1 << 20)
    _fill(world, 10)
    half = len(STREAMS) // PARTITIONS
    _turn_until(_worker(world, recording, room), (10 * half,) * PARTITIONS)
    other = {"baseline": {"method": "baseline"}, "new": {"method": "areba", "budget": 2}}
    world.config = _config(learners=other, predictions="all", worker={"snapshot_after_ms": 0})
    for number, name in enumerate(STREAMS):
        for value in _examples(name, 10, 1_000, 10).values:
            world.put("examples", number % PARTITIONS, name.encode(), value, 1_000)
    narrow = world.worker(transaction=RecordingTransaction(world, recording), room=Room(3, 1 << 20))
    narrow.run(lambda: any(task.offsets[0] > 10 * half for task in narrow.tasks))  # and a snapshot of each task
    member = _worker(world, recording, room)
    _turn_until(member, (20 * half,) * PARTITIONS)
    for number in range(PARTITIONS):
        kinds = [record.kind for record in world.progress(number) if isinstance(record, Act)]
        assert [kind for kind in kinds if kind != SNAPSHOT] == [CONFIGURATION] * 2
    assert verify(world.cluster, world.config, rerun=True).ok


def test_every_task_has_its_turn() -> None:
    """A task that always has more to write than there is room for must not block the others."""
    world = World(_config())
    recording, room = Recording(), Room(40, 1 << 20)
    _fill(world, 200)
    member = _worker(world, recording, room)
    for _ in range(40):
        member.turn()
    ahead = [task.offsets[0] for task in member.tasks]
    assert min(ahead) > 0.3 * max(ahead) > 0, ahead


def _widest(kind: str) -> Any:  # noqa: ANN401  (a value of any field)
    """Return a number of this type that takes the most bytes."""
    return -(2**63) if "int" in kind else True if kind == "bool" else 0.5


def test_no_record_of_metrics_is_larger_than_its_bound() -> None:
    """A new figure that is not in the bound could make a transaction larger than the broker takes."""
    window = MetricWindow(*(_widest(str(one.type)) for one in fields(MetricWindow)))
    queues = ("positive_queue", "negative_queue", "positive_capacity", "negative_capacity")
    counts = (*queues, "largest_feature", "features_drifted")
    numbers: dict[str, Any] = {one.name: _widest(str(one.type)) for one in fields(Metric)}
    numbers |= dict.fromkeys(counts, -(2**31)) | {"stream": "s", "learner": "l"}
    one, eight = (len(codec.encode(Metric(**numbers | {"windows": (window,) * count}))) for count in (1, 8))
    assert one <= METRIC_BYTES + WINDOW_BYTES
    assert (eight - one) / 7 <= WINDOW_BYTES
