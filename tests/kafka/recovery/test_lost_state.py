"""Topics and offsets were lost, deleted or forged: a worker notices it before it writes a record."""

import bisect
import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from stream_app.admin.problems import ProblemCode
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.errors import ErrorCode, StateError
from stream_app.progress_records import Commit
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.records import Prediction
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.kafka.recovery.applications import STREAMS
from tests.support.kafka.application import App
from tests.support.kafka.decoded import progress_record_of
from tests.support.kafka.exactly_once import check_exactly_once, read_inputs
from tests.support.kafka.processes import areba, run_to, run_until, worker_of, workers
from tests.support.kafka.records import all_records
from tests.support.kafka.topics import read_raw
from tests.support.kafka.waiting import DEADLINE_S, wait_until

OUTPUTS = ("predictions", "outcomes", "metrics", "dead_letters")

pytestmark = [pytest.mark.kafka, pytest.mark.slow(15)]


@pytest.fixture
def admin(app: App) -> AdminClient:
    """Return the client for what only an operator does."""
    return AdminClient({"bootstrap.servers": app.servers})


def _parked(app: App) -> ErrorCode:
    """Run a worker until all of its tasks are parked; return the code of the error."""
    with pytest.raises(StateError) as caught:
        run_until(worker_of(app.config), lambda _: False)
    assert caught.value.exit_code == 3
    return caught.value.code


def test_a_worker_continues_without_the_offsets_of_its_group(done: App, admin: AdminClient) -> None:
    """Offsets of a stopped group expire after a week; a start at the first record would duplicate every output."""
    for future in admin.delete_consumer_groups([done.config.group_id]).values():
        future.result(DEADLINE_S)
    done.send(all_records(STREAMS, 50, int(time.time() * 1000) - 10_000, seed=28))
    models = run_to(done.config, done.input_ends())
    assert models == {number: result.models for number, result in check_exactly_once(done).items()}


def _delete_inputs(app: App, admin: AdminClient, to_offset: int, *topics: str) -> None:
    names = topics or (app.config.topics.examples,)
    places = [ClientPartition(name, number, to_offset) for name in names for number in range(app.partitions)]
    for future in admin.delete_records(places).values():
        future.result(DEADLINE_S)


def _progress(app: App) -> dict[int, RawRecords]:
    """Read the progress of each task."""
    return {n: read_raw(app.cluster, TopicPartition(app.config.topics.progress, n)) for n in range(app.partitions)}


def _whole(before: Mapping[int, RawRecords], left: Mapping[int, RawRecords]) -> dict[int, list[bytes | None]]:
    """Return each task's progress from its first record, although its worker has deleted a part since `before`."""
    result = {}
    for number, old in before.items():
        new = bisect.bisect_right(left[number].offsets, old.offsets[-1])
        result[number] = [*old.values, *left[number].values[new:]]
    return result


def test_inputs_older_than_a_snapshot_are_not_needed(done: App, admin: AdminClient) -> None:
    """Retention may delete processed inputs: the next worker starts from the snapshot and gives the same bits."""
    done.send(all_records(STREAMS, 100, int(time.time() * 1000) - 20_000, seed=15))
    inputs, before = {number: read_inputs(done, number) for number in range(done.partitions)}, _progress(done)
    ends = done.input_ends()
    _delete_inputs(done, admin, 50)
    models = run_to(done.config, ends)
    expected = check_exactly_once(done, inputs, _whole(before, _progress(done)))
    assert models == {number: result.models for number, result in expected.items()}


def test_a_log_that_was_emptied_up_to_a_marker(app: App) -> None:
    """A producer's transaction ends with a marker: after a quiet week, nobody may take it for a lost record."""
    sent = all_records(STREAMS, 50, int(time.time() * 1000) - 20_000, seed=16)
    with contextlib.closing(KafkaTransaction(app.servers, f"{app.config.application.id}-producer")) as producer:
        producer.initialise()
        producer.begin()
        for record in sent:
            place = TopicPartition(app.input_topics[record.side], record.partition)
            headers = {0: record.headers} if record.headers else {}
            producer.produce(place, OutputRecords.of([record.key], [record.value], [record.time_ms], headers))
        producer.commit()
    ends = app.input_ends()
    models = run_to(app.config, ends)
    for place in (TopicPartition(name, number) for name in app.input_topics for number in range(app.partitions)):
        assert app.cluster.delete_records(place, app.cluster.watermarks(place).high) > 1
    assert run_to(app.config, ends) == models
    checked = areba(app.file("w"), "verify", "--partial")
    assert checked.returncode == 0, checked.stdout


def test_progress_beyond_retention_is_deleted(app: App, admin: AdminClient) -> None:
    """Progress has no time limit: its owner deletes what is not needed, and the next owner restores the same bits."""
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
        there = {task.number: task.offsets for task in worker.tasks if task.state is TaskState.LIVE}
        return there == ends and all(app.cluster.watermarks(place).low > 0 for place in places.values())

    run_until(worker_of(config), is_trimmed)
    left = _progress(app)
    for records in left.values():
        found = map(progress_record_of, records.values)
        first = next(record for record in found if isinstance(record, Commit))
        assert first.sequence > 5
        assert max(first.examples_end, first.labels_end) > 100, "not a record too many was deleted"
    expected = check_exactly_once(app, inputs, _whole(before, left))
    again = run_to(config, ends)
    assert again == {number: result.models for number, result in expected.items()}


def test_changed_offsets_have_no_effect(done: App, admin: AdminClient) -> None:
    """Whatever a tool commits for the group, the next worker continues after its last commit, and says nothing."""
    group = done.config.group_id
    first = [ClientPartition(name, number, 0) for name in done.input_topics for number in range(done.partitions)]
    futures = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, first)])
    for future in futures.values():
        future.result(DEADLINE_S)
    found = json.loads(areba(done.file("w"), "inspect", "--json").stdout)
    assert [one["task"] for one in found["problems"] if one["code"] == ProblemCode.GROUP_OFFSETS] == [0, 1]
    done.send(all_records(STREAMS, 50, int(time.time() * 1000) - 10_000, seed=27))
    models = run_to(done.config, done.input_ends())
    assert models == {number: result.models for number, result in check_exactly_once(done).items()}


def _has_no_members(admin: AdminClient, group: str) -> bool:
    (future,) = admin.describe_consumer_groups([group]).values()
    return not future.result(DEADLINE_S).members


def test_deleted_inputs_are_noticed(app: App, admin: AdminClient) -> None:
    """Without a snapshot a restore needs all inputs: the error has the first offset that exists, and the one needed."""
    app.send(all_records(STREAMS, 100, int(time.time() * 1000) - 20_000, seed=29))
    with workers(app, "w") as (worker,):
        worker.start()
        wait_until(lambda: all(len(records) > 1 for records in _progress(app).values()), "commits of both tasks")
        worker.kill()
        _delete_inputs(app, admin, 50)
        worker.start()
        assert worker.wait() == 3
        last = worker.log().splitlines()[-1]
    assert last.startswith(app.config.topics.examples)
    assert last.endswith(f"[{ErrorCode.INPUTS_DELETED}]")


def test_deleted_inputs_are_skipped_when_that_is_asked_for(done: App, admin: AdminClient) -> None:
    """After a worker was down for longer than its topics keep, its models are as before, and it processes the rest."""
    before = {number: done.outputs(number) for number in range(done.partitions)}
    done.send(all_records(STREAMS, 400, int(time.time() * 1000) - 30_000, seed=28))
    ends, file = done.input_ends(), done.file("w")
    _delete_inputs(done, admin, min(map(min, ends.values())) - 30, *done.input_topics)
    assert _parked(done) is ErrorCode.INPUTS_DELETED
    wait_until(lambda: _has_no_members(admin, done.config.group_id), "the group removes the dead worker")
    command = areba(file, "state", "skip")
    assert command.returncode == 0, command.stderr
    for number, line in enumerate(command.stdout.splitlines()):
        assert line.startswith(f"task {number}: continues from the snapshot of sequence ")
        assert "skips 0 offsets of examples and 0 of labels that were processed after this state" in line
    again = areba(file, "state", "skip")
    assert [line.partition(": ")[2] for line in again.stdout.splitlines()] == ["no input that it needs was deleted"] * 2
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


def test_a_forged_commit_is_noticed(done: App) -> None:
    """Progress disagrees with the inputs: the error names both digests, and the worker writes nothing."""
    topics = done.config.topics
    sender = KafkaSender(done.servers)
    for number in range(done.partitions):
        values = read_raw(done.cluster, TopicPartition(topics.progress, number)).values
        records = [progress_record_of(value) for value in values]
        last = next(record for record in reversed(records) if isinstance(record, Commit))
        ends = {name: TopicPartition(getattr(topics, name), number) for name in OUTPUTS}
        windows: dict[str, Any] = {f"{name}_records": 0 for name in OUTPUTS}
        windows |= {f"{name}_start": done.cluster.watermarks(place).high for name, place in ends.items()}
        forged = replace(
            last,
            sequence=records[-1].sequence + 1,
            examples_start=last.examples_end,
            labels_start=last.labels_end,
            digest=b"\1" * 32,
            records=0,
            **windows,
        )
        sender.send(topics.progress, None, codec.encode(forged), 0, partition=number)
    sender.flush(DEADLINE_S)
    sender.close()
    assert _parked(done) is ErrorCode.DIGEST_DIFFERS
