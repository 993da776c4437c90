"""More workers than there should be, fewer than there were, and state that does not fit: never a wrong record."""

import bisect
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from ops.broker import Broker
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka import KafkaSender, KafkaTransaction
from stream_app.config import Config
from stream_app.errors import ConfigurationError, StateError
from stream_app.records import Act, Commit, Prediction, RawRecords
from stream_app.recovery.commit_point import CommitPoint, RestoreTarget, parse_metadata
from stream_app.recovery.restore import Stage
from stream_app.serialization import codec
from stream_app.snapshot.identity import RULES
from stream_app.worker.worker import Worker
from tests.kafka.support import (
    DEADLINE_S,
    App,
    Load,
    Progress,
    Section,
    StreamOf,
    WorkerProcess,
    all_records,
    areba,
    check_exactly_once,
    read_inputs,
    read_raw,
    run_to,
    run_until,
    wait_until,
    worker_of,
    workers,
)

pytestmark = pytest.mark.kafka

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 2))

SECTIONS: Mapping[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100},
    "worker": {"max_batch_records": 5},  # more commits than may have lost the markers of their offsets
}


@pytest.fixture
def app(kafka: Broker, prefix: str, tmp_path: Path) -> App:
    """An application with two partitions, its topics created."""
    assert kafka.bootstrap_servers is not None
    made = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2)
    made.create_topics()
    return made


@pytest.fixture
def done(app: App) -> App:
    """The same, with inputs that a worker has processed."""
    app.send(all_records(STREAMS, 200, int(time.time() * 1000) - 60_000, seed=5))
    run_to(app.config, app.input_ends())
    return app


@pytest.mark.slow
def test_two_workers_of_one_name(app: App) -> None:
    """A copied configuration: one of the two ends with status 5 and says what to change; every record counts once."""
    twin_file = app.folder / "twin.yaml"
    shutil.copy(app.file("w"), twin_file)
    with workers(app, "w") as (first,), Load(app, STREAMS, seed=6), Progress(app) as progress:
        second = WorkerProcess(twin_file)
        try:
            first.start()
            first.wait_for("restored task=1")
            progress.wait_for_more(5)
            second.start()
            wait_until(lambda: first.has_ended or second.has_ended, "one of them ends", 3 * DEADLINE_S)
            loser, winner = (first, second) if first.has_ended else (second, first)
            assert loser.wait() == 5, loser.log()
            assert "another worker runs as 'w'; give each its own application.instance" in loser.log().splitlines()[-1]
            progress.wait_for_more(5)
            assert winner.stop() == 0
        finally:
            second.end()
    run_to(app.config, app.input_ends())
    check_exactly_once(app)


@pytest.mark.slow
def test_a_stopped_worker_that_wakes_up_is_not_heard(app: App) -> None:
    """Frozen (a paused machine, a long swap) while others took its tasks: what it still sends is never read."""
    with workers(app, "one", "two") as (one, two), Progress(app) as progress:
        with Load(app, STREAMS, seed=7):
            one.start()
            one.wait_for("restored task=1")
            two.start()
            two.wait_for("restored task")
            one.wait_for("revoked")
            progress.wait_for_more(20)
            one.signal(signal.SIGSTOP)
            two.wait_for("assigned tasks=0,1")
            progress.wait_for_more(20)
            one.signal(signal.SIGCONT)
            two.wait_for("assigned", times=3)
            progress.wait_for_more(20)
        progress.wait_for_ends(app.input_ends())
        assert [worker.stop() for worker in (one, two)] == [0, 0]
    check_exactly_once(app)


class _Stalling(KafkaTransaction):
    """Stands still before its tenth transaction, until it is let go."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.kafka.bootstrap_servers, config.transactional_id)
        self.stalled, self.let_go = threading.Event(), threading.Event()
        self._begun = 0

    def begin(self) -> None:
        """Open a transaction, in its time."""
        self._begun += 1
        if self._begun == 10:
            self.stalled.set()
            assert self.let_go.wait(2 * DEADLINE_S)
        super().begin()


class _InThread(threading.Thread):
    """A worker in a thread of this process."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker
        self.enough = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Run."""
        try:
            self.worker.run(self.enough.is_set)
        except BaseException as error:  # noqa: BLE001  (the test's own thread raises it)
            self.failure = error

    def end(self) -> None:
        """Stop it, and raise what went wrong."""
        self.enough.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


@pytest.mark.slow
def test_a_batch_of_an_old_generation_is_fenced(app: App) -> None:
    """A worker computes a batch, loses its place in the group, and only then begins its transaction.

    Its transaction is young and its producer is the newest of its name, so only the group's generation can tell.
    """
    # Without polls for so long a member is thrown out.
    impatient = {"consumer": {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000}}
    app.send(all_records(STREAMS, 200, int(time.time() * 1000) - 60_000, seed=8))
    small = {"max_batch_records": 5, "commit_interval_ms": 10}
    slow_config = app.config_of("slow", worker=small, kafka=impatient)
    stalling = _Stalling(slow_config)
    slow = _InThread(worker_of(slow_config, stalling))
    quick = _InThread(worker_of(app.config_of("quick", worker=small)))
    with Progress(app) as progress:
        slow.start()
        try:
            assert stalling.stalled.wait(DEADLINE_S)
            quick.start()
            progress.wait_for_ends(app.input_ends())
        finally:
            stalling.let_go.set()
        wait_until(lambda: slow.worker.aborts > 0 or not slow.is_alive(), "the late transaction is refused")
        slow.end()
        quick.end()
    check_exactly_once(app)


def test_a_new_stream_is_taken_over_on_restart(done: App) -> None:
    """Adding a stream needs no new application: the old ones go on, bit by bit, and the act is recorded."""
    more = (StreamOf("gamma", 1, 4),)
    done.send(all_records(more, 50, int(time.time() * 1000) - 30_000, seed=9))
    run_to(done.config_of("w", streams={"gamma": {"features": 4}}), done.input_ends())
    check_exactly_once(done)
    predictions = [codec.decode_one(read.value or b"") for read in done.outputs(1)["predictions"]]
    assert sum(isinstance(p, Prediction) and p.stream == "gamma" for p in predictions) == 50
    place = TopicPartition(done.config.topics.progress, 1)
    acts = [record for value in read_raw(done.cluster, place).values if isinstance(record := _record(value), Act)]
    assert [act.kind for act in acts] == ["configuration"] * 2


def test_a_changed_budget_starts_that_learner_afresh(done: App) -> None:
    """The act is in progress, so whoever comes later goes through it at the same place; the others' bits go on."""
    learners = {"areba": {"method": "areba", "budget": 10}, "baseline": {"method": "baseline"}}
    changed = done.config_of("w", learners=learners, metrics={"every_labels": 10})
    done.send(all_records(STREAMS, 100, int(time.time() * 1000) - 30_000, seed=19))
    models = run_to(changed, done.input_ends())
    expected = check_exactly_once(done)
    assert models == {number: result.models for number, result in expected.items()}
    assert run_to(changed, done.input_ends()) == models


def test_a_saved_model_goes_on_in_another_application(done: App, tmp_path: Path) -> None:
    """The command that operators use, on both sides; the second application's outputs are those of a fresh process."""
    model, first = tmp_path / "model.safetensors", done.file("w")
    saved = areba(first, "state", "export", "alpha", "areba", str(model), "--task", "0")
    assert saved.returncode == 0, saved.stderr
    second = App(done.servers, f"{done.prefix}2-", tmp_path / "second", SECTIONS, partitions=2)
    second.folder.mkdir()
    second.create_topics()
    told = areba(second.file("w"), "state", "import", str(model), "alpha", "areba", "--task", "0")
    assert told.returncode == 0, told.stderr
    assert told.stdout.split()[-1] == saved.stdout.split()[-1], "the same digest"
    second.send(all_records(STREAMS, 100, int(time.time() * 1000) - 30_000, seed=29))
    models = run_to(second.config, second.input_ends())
    expected = check_exactly_once(second)
    assert models == {number: result.models for number, result in expected.items()}
    first_prediction = codec.decode_one(second.outputs(0)["predictions"][0].value or b"")
    assert isinstance(first_prediction, Prediction)
    assert first_prediction.model_version > 0


def test_what_cannot_be_taken_over_is_refused(done: App) -> None:
    """Examples that wait would expire by another clock: status 2, and the line names the setting."""
    with pytest.raises(ConfigurationError) as caught:
        run_until(worker_of(done.config_of("w", join={"ttl_ms": 5})), lambda _: False)
    assert caught.value.exit_code == 2
    assert any(line.startswith("join.ttl_ms: 1500 -> 5") for line in caught.value.lines)


def _record(value: bytes | None) -> Commit | Act:
    record = codec.decode_one(value or b"")
    assert isinstance(record, Commit | Act)
    return record


@pytest.fixture
def admin(app: App) -> AdminClient:
    """For what only an operator does."""
    return AdminClient({"bootstrap.servers": app.servers})


def _parked(app: App) -> Iterator[str]:
    """What a worker says that can restore none of its tasks."""
    with pytest.raises(StateError) as caught:
        run_until(worker_of(app.config), lambda _: False)
    assert caught.value.exit_code == 3
    yield str(caught.value)


def test_lost_offsets_are_noticed(done: App, admin: AdminClient) -> None:
    """Offsets of a group expire or are deleted. Starting at the first record again would double every output."""
    before = [done.outputs(number) for number in range(done.partitions)]
    for future in admin.delete_consumer_groups([done.config.group_id]).values():
        future.result(DEADLINE_S)
    [problem] = _parked(done)
    assert "the group has no committed offsets" in problem
    assert "application.id" in problem
    assert [done.outputs(number) for number in range(done.partitions)] == before, "nothing was written"


def _forge(app: App, admin: AdminClient, change: Callable[[RestoreTarget], RestoreTarget]) -> None:
    """Commit other metadata for the group, as a tool or another version might."""
    for number in range(app.partitions):
        pair = [TopicPartition(name, number) for name in app.input_topics]
        committed = app.cluster.committed(app.config.group_id, pair)
        forged = []
        for place in pair:
            known = committed[place]
            assert known is not None
            point, snapshots, ids = change(parse_metadata(known.metadata, str(place)))
            forged.append(ClientPartition(*place, known.offset, point.metadata(snapshots, ids)))
        request = ConsumerGroupTopicPartitions(app.config.group_id, forged)
        for future in admin.alter_consumer_group_offsets([request]).values():
            future.result(DEADLINE_S)


def _delete_inputs(app: App, admin: AdminClient, to_offset: int, *topics: str) -> None:
    names = topics or (app.config.topics.examples,)
    places = [ClientPartition(name, number, to_offset) for name in names for number in range(app.partitions)]
    for future in admin.delete_records(places).values():
        future.result(DEADLINE_S)


def _progress(app: App) -> dict[int, RawRecords]:
    """Read the progress of each task."""
    return {n: read_raw(app.cluster, TopicPartition(app.config.topics.progress, n)) for n in range(app.partitions)}


def _whole(before: Mapping[int, RawRecords], left: Mapping[int, RawRecords]) -> dict[int, list[bytes | None]]:
    """Return each task's progress from its first record on, though its worker has deleted a part since `before`."""
    result = {}
    for number, old in before.items():
        new = bisect.bisect_right(left[number].offsets, old.offsets[-1])
        result[number] = [*old.values, *left[number].values[new:]]
    return result


def test_inputs_older_than_a_snapshot_are_not_needed(done: App, admin: AdminClient) -> None:
    """Retention may take what was processed: the next worker begins at the snapshot and goes on to the same bits."""
    done.send(all_records(STREAMS, 100, int(time.time() * 1000) - 20_000, seed=15))
    inputs, before = {number: read_inputs(done, number) for number in range(done.partitions)}, _progress(done)
    ends = done.input_ends()
    _delete_inputs(done, admin, 50)
    models = run_to(done.config, ends)
    expected = check_exactly_once(done, inputs, _whole(before, _progress(done)))
    assert models == {number: result.models for number, result in expected.items()}


def test_progress_behind_retention_is_deleted(app: App, admin: AdminClient) -> None:
    """Progress has no time limit: its owner deletes what nobody can use, and the next one restores the same bits."""
    small = {"max_batch_records": 20, "commit_interval_ms": 1, "snapshot_after_ms": 0}
    config = app.config_of("w", worker=small)
    app.send(all_records(STREAMS, 200, int(time.time() * 1000) - 60_000, seed=25))
    run_to(config, app.input_ends())
    places = {number: TopicPartition(app.config.topics.progress, number) for number in range(app.partitions)}
    before = _progress(app)
    app.send(all_records(STREAMS, 100, int(time.time() * 1000) - 20_000, seed=26))
    inputs, ends = {number: read_inputs(app, number) for number in range(app.partitions)}, app.input_ends()
    _delete_inputs(app, admin, 100, *app.input_topics)

    def is_trimmed(worker: Worker) -> bool:
        there = {task.number: task.offsets for task in worker.tasks if task.stage is Stage.LIVE}
        return there == ends and all(app.cluster.watermarks(place).low > 0 for place in places.values())

    run_until(worker_of(config), is_trimmed)
    left = _progress(app)
    for records in left.values():
        first = _record(records.values[0])
        assert first.sequence > 5
        assert isinstance(first, Commit)
        assert max(first.examples_end, first.labels_end) > 100, "not a record too many was deleted"
    expected = check_exactly_once(app, inputs, _whole(before, left))
    again = run_to(config, ends)
    assert again == {number: result.models for number, result in expected.items()}


@pytest.mark.parametrize("lost", ["deleted", "reset"])
def test_lost_offsets_are_committed_again(done: App, admin: AdminClient, lost: str) -> None:
    """Refused unless asked for: the worker names the command, and after it goes on to the same bits."""
    group, file = done.config.group_id, done.file("w")
    if lost == "deleted":
        futures = admin.delete_consumer_groups([group])
    else:
        first = [ClientPartition(name, number, 0) for name in done.input_topics for number in range(done.partitions)]
        futures = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, first)])
    for future in futures.values():
        future.result(DEADLINE_S)
    [problem] = _parked(done)
    assert "`areba state recommit` commits them again" in problem
    wait_until(lambda: _has_no_members(admin, group), "the group hears that the worker is gone")
    command = areba(file, "state", "recommit")
    assert command.returncode == 0, command.stderr
    assert [line.split(":")[0] for line in command.stdout.splitlines()] == ["task 0", "task 1"]
    assert all(", now " in line for line in command.stdout.splitlines())
    again = areba(file, "state", "recommit")
    assert all(line.endswith("as it should be") for line in again.stdout.splitlines())
    done.send(all_records(STREAMS, 50, int(time.time() * 1000) - 10_000, seed=27))
    models = run_to(done.config, done.input_ends())
    assert models == {number: result.models for number, result in check_exactly_once(done).items()}


def _has_no_members(admin: AdminClient, group: str) -> bool:
    (future,) = admin.describe_consumer_groups([group]).values()
    return not future.result(DEADLINE_S).members


def test_deleted_inputs_are_noticed(done: App, admin: AdminClient) -> None:
    """Without a snapshot a restore needs all of them: the line has the first that is there, and the one needed."""
    _forge(done, admin, lambda target: RestoreTarget(target.point))
    _delete_inputs(done, admin, 50)
    with workers(done, "w") as (worker,):
        worker.start()
        assert worker.wait() == 3
        last = worker.log().splitlines()[-1]
    assert last.startswith(done.config.topics.examples)
    assert "starts at offset 50, offset 0 is needed" in last


def test_deleted_inputs_are_skipped_when_that_is_asked_for(done: App, admin: AdminClient) -> None:
    """A worker was down for longer than its topics keep: the models are as they were, what is left is processed."""
    before = {number: done.outputs(number) for number in range(done.partitions)}
    done.send(all_records(STREAMS, 400, int(time.time() * 1000) - 30_000, seed=28))
    ends, file = done.input_ends(), done.file("w")
    _delete_inputs(done, admin, min(map(min, ends.values())) - 30, *done.input_topics)
    [problem] = _parked(done)
    assert "`areba state skip` continues without what is gone" in problem
    wait_until(lambda: _has_no_members(admin, done.config.group_id), "the group hears that the worker is gone")
    command = areba(file, "state", "skip")
    assert command.returncode == 0, command.stderr
    for number, line in enumerate(command.stdout.splitlines()):
        assert line.startswith(f"task {number}: goes on from the snapshot behind sequence ")
        assert "forgets 0 offsets of examples and 0 of labels" in line
    again = areba(file, "state", "skip")
    assert [line.partition(": ")[2] for line in again.stdout.splitlines()] == ["all that it needs is there"] * 2
    with workers(done, "w") as (worker,):
        worker.start()
        worker.wait_for("restored task=", times=2)
        worker.kill()
    models = run_to(done.config, ends)
    for number, earlier in before.items():
        now = done.outputs(number)
        assert all(now[topic][: len(reads)] == reads for topic, reads in earlier.items())
        found = [codec.decode_one(read.value or b"") for read in now["predictions"]]
        ids = [record.id for record in found if isinstance(record, Prediction)]
        assert len(ids) == len(set(ids)) > len(earlier["predictions"])
    assert run_to(done.config, ends) == models


def test_another_digest_is_noticed(done: App, admin: AdminClient) -> None:
    """Offsets and progress that do not belong together (a restored backup, a mirrored cluster) are never mixed."""
    _forge(done, admin, lambda target: target._replace(point=CommitPoint(target.point.sequence, bytes(32))))
    [problem] = _parked(done)
    assert "the committed offsets name 0000000000000000" in problem


def test_another_sequence_is_noticed(done: App, admin: AdminClient) -> None:
    """Metadata of an older point with today's offsets: one of the two is wrong, so nothing is written."""
    _forge(
        done, admin, lambda target: target._replace(point=CommitPoint(target.point.sequence - 1, target.point.digest))
    )
    [problem] = _parked(done)
    assert "is recorded" in problem
    assert "is committed: the group's offsets were reset" in problem


def test_a_forged_commit_is_noticed(done: App, admin: AdminClient) -> None:
    """Progress that tells another story than the inputs: both digests are named, and nothing is written."""
    topics = done.config.topics
    sender = KafkaSender(done.servers)
    for number in range(done.partitions):
        last = _record(read_raw(done.cluster, TopicPartition(topics.progress, number)).values[-1])
        assert isinstance(last, Commit)
        ends = (last.examples_end, last.examples_end, last.labels_end, last.labels_end)
        forged = Commit(last.sequence + 1, *ends, digest=b"\1" * 32, records=0, tripped=None, rules=RULES)
        sender.send(topics.progress, None, codec.encode(forged), 0, partition=number)
    sender.flush(DEADLINE_S)
    sender.close()
    _forge(done, admin, lambda target: target._replace(point=CommitPoint(target.point.sequence + 1, b"\1" * 32)))
    [problem] = _parked(done)
    assert "committed was 0101010101010101" in problem
