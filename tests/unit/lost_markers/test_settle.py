"""Foreign records in the output topics: a worker that finds them ends, and no transaction is counted twice."""

import pytest

from stream_app.backends.base import Fetched, LogReader, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.log_reader import EmbeddedLogReader
from stream_app.config import Config
from stream_app.errors import ForeignRecordsError, UnknownOutcomeError
from stream_app.lost_markers.settle import find_attempts
from stream_app.progress_records import ADOPT, CONFIGURATION, RESET, Act, Commit
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import SENT_BACK, START
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.support.world import PARTITIONS, World, all_at, all_beyond, make_config, started, take_turns

KAFKA = {"output_prefix": "out."}


def _another(world: World) -> Config:
    """Another application with its own topics, except for inputs and outputs."""
    config = make_config(application={"id": "other"}, kafka=KAFKA)
    for name in set(config.topics) - set(world.config.topics):
        world.add_topic(name)
    return config


def _live(member: Worker) -> bool:
    return len(member.tasks) == PARTITIONS and all(task.state is TaskState.LIVE for task in member.tasks)


def _adopted(world: World) -> list[Act]:
    records = [record for number in range(PARTITIONS) for record in world.progress(number)]
    return [record for record in records if isinstance(record, Act) and record.kind == ADOPT]


def test_the_second_of_two_writers_ends() -> None:
    """If two applications write to the same topics, the second to commit aborts and names the foreign record."""
    world = World(make_config(kafka=KAFKA))
    one, two = started(world.worker()), started(world.worker(_another(world), joins=True))
    take_turns(one, two, until=lambda: _live(one) and _live(two))
    world.send(10)
    take_turns(one, until=all_at(one, 10))
    outputs = world.outputs()
    with pytest.raises(ForeignRecordsError) as raised:
        take_turns(two, until=all_at(two, 10))
    assert raised.value.exit_code == 2
    assert world.outputs() == outputs, "the second published nothing"


class _SilentOnceReader(EmbeddedLogReader):
    """A reader whose first poll has no answer."""

    is_silent = True

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return nothing, then what is there."""
        if self.is_silent:
            self.is_silent = False
            return None
        return super().poll(max_records, timeout_s)


class _SilentOnceCluster(EmbeddedCluster):
    """A cluster whose readers of output topics do not answer at first, once `is_silent` is set."""

    is_silent = False

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Open a reader."""
        if self.is_silent:
            return _SilentOnceReader(self._broker, partition, committed=committed)
        return super().reader(partition, committed=committed)


def test_no_batch_is_committed_over_records_that_were_not_read() -> None:
    """Until a broker has returned the records between two of its own, a worker commits nothing after them."""
    world = World(make_config(kafka=KAFKA))
    cluster = _SilentOnceCluster(world.broker)
    one, two = started(world.worker()), started(world.worker(_another(world), joins=True, cluster=cluster))
    take_turns(one, two, until=lambda: _live(one) and _live(two))
    world.send(10)
    take_turns(one, until=all_at(one, 10))
    outputs = world.outputs()
    cluster.is_silent = True
    with pytest.raises((ForeignRecordsError, UnknownOutcomeError)):
        take_turns(two, until=all_at(two, 10))
    assert world.outputs() == outputs, "the second published nothing"


def test_the_first_of_two_writers_ends_too() -> None:
    """Neither application continues as if it were alone."""
    world = World(make_config(kafka=KAFKA))
    one = started(world.worker())
    world.send(10)
    take_turns(one, until=all_at(one, 10))
    two = started(world.worker(_another(world), joins=True, adopts=True))
    take_turns(two, until=all_at(two, 10))
    world.send(10, first=10)
    with pytest.raises(ForeignRecordsError):
        take_turns(one, until=all_at(one, 20))


@pytest.mark.parametrize("topic", ["predictions", "outcomes"])
@pytest.mark.parametrize("is_first", [True, False])
def test_one_foreign_record_is_enough(topic: str, *, is_first: bool) -> None:
    """A single record of another program, where there is room for a marker, made `verify` red for ever."""
    world = World()
    member = started(world.worker())
    world.send(0 if is_first else 5)
    take_turns(member, until=all_at(member, 0 if is_first else 5))
    if not is_first:
        member = started(world.worker())  # the end of the log is known, and no marker of ours follows
        take_turns(member, until=all_at(member, 5))
    world.put(topic, 0, b"s0", b"foreign")
    outputs = world.rows(topic, 0)
    world.send(5, first=5)
    with pytest.raises(ForeignRecordsError, match=rf"^{topic}\[0\] offset {len(outputs) - 1 if is_first else ''}"):
        take_turns(member, until=all_beyond(member, 10 if not is_first else 5))
    assert world.rows(topic, 0) == outputs
    with pytest.raises(ForeignRecordsError):
        take_turns(again := started(world.worker()), until=all_beyond(again, 10 if not is_first else 5))
    take_turns(again := started(world.worker(adopts=True)), until=all_beyond(again, 10 if not is_first else 5))


@pytest.mark.parametrize("topic", ["predictions", "dead-letters"])
def test_one_foreign_record_after_a_clean_stop(topic: str) -> None:
    """After a clean stop, the offsets alone show who wrote; one record fits between two markers, too."""
    world = World()
    world.send(3)
    member = world.worker()
    member.run(all_at(member, 3))
    world.put(topic.replace("-", "_"), 0, b"s0", b"foreign")
    with pytest.raises(ForeignRecordsError):
        take_turns(again := started(world.worker()), until=all_at(again, 3))


def _after_another() -> World:
    """Return an application whose output topics contain another application's records."""
    world = World(make_config(kafka=KAFKA))
    one = started(world.worker())
    world.send(10)
    take_turns(one, until=all_at(one, 10))
    world.config = _another(world)
    return world


def test_a_first_start_on_outputs_of_somebody_else_is_refused() -> None:
    """A worker whose prefix was copied from another application publishes and records nothing."""
    world = _after_another()
    theirs, two = world.outputs(), started(world.worker())
    with pytest.raises(ForeignRecordsError, match=r"^out\.predictions\[\d\] offset 0: "):
        take_turns(two, until=all_at(two, 10))
    assert world.outputs() == theirs
    assert [world.progress(number) for number in range(PARTITIONS)] == [[]] * PARTITIONS


def test_a_worker_that_adopts_continues_after_outputs_of_somebody_else() -> None:
    """The worker accepts and records existing outputs once; the next worker finds no foreign records."""
    world = _after_another()
    theirs, two = world.outputs(), started(world.worker(adopts=True))
    take_turns(two, until=all_at(two, 10))
    found = world.outputs()
    assert {place: rows[: len(theirs[place])] for place, rows in found.items()} == theirs
    assert {place: len(rows) for place, rows in found.items()} == {p: 2 * len(rows) for p, rows in theirs.items()}
    assert len(_adopted(world)) == PARTITIONS
    world.send(10, first=10)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 20))
    assert len(_adopted(world)) == PARTITIONS


@pytest.mark.parametrize("name", [SENT_BACK, START])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another"])
def test_a_header_of_a_producer_does_not_hide_a_dead_letter(name: str, others: int) -> None:
    """A header of `areba dlq resend` in an input must not make a dead letter seem lost after a kill.

    It would be published twice, or park the task.
    """
    world = World()
    records = [(b"s", b"no record", 1, ((name, b"3"),)), (b"s", b"no record", 1, ())][: 1 + others]
    for number in range(PARTITIONS):
        world.broker.append(TopicPartition(world.config.topics.examples, number), records)
    killed = started(world.worker())
    take_turns(killed, until=lambda: [task.offsets for task in killed.tasks] == [(len(records), 0)] * PARTITIONS)
    world.send(10)
    heir = started(world.worker())
    take_turns(heir, until=lambda: [task.offsets for task in heir.tasks] == [(len(records) + 10, 10)] * PARTITIONS)
    assert [len(world.rows("dead-letters", number)) for number in range(PARTITIONS)] == [len(records)] * PARTITIONS


def test_an_act_of_an_operator_belongs_to_no_lost_transaction() -> None:
    """An operator reset a stream, and the next commit lost its markers: it begins after the reset."""
    digest = bytes(32)
    records = (
        Act(2, RESET, "0", "s"),
        Act(3, CONFIGURATION, "0", "{}"),
        Commit(4, 0, 1, 0, 1, digest=digest, records=0),
    )
    [attempt] = find_attempts([(None, codec.encode(record)) for record in records], _decoded)
    assert [record.sequence for record in attempt.records] == [3, 4]


def _decoded(value: bytes | None) -> Act | Commit:
    record = codec.decode_one(value or b"")
    assert isinstance(record, Act | Commit)
    return record
