"""Brokers whose administrative answers stay away: the worker keeps polling, computing and committing."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, TypeVar

import pytest

from stream_app.backends.base import Answer, Ends, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.questions import KeptRecords, Question
from stream_app.errors import TopicError, UnknownOutcomeError
from stream_app.lost_markers.open_transactions import LOOK_INTERVAL_S, OpenTransactions
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.support.kafka.waiting import wait_until
from tests.support.world import World, all_at, make_config, started, take_turns, undisturbed_outputs

Found = TypeVar("Found")

MINUTE_S = 60.0

AT_ONCE_S = 10.0


class _Slow(EmbeddedCluster):
    """A cluster that answers no question while `is_silent`, and then allows nobody to wait."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker)
        self.is_silent = False
        self.open = 0  # questions without an answer

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Ask; the answer is that of the moment at which it is taken."""
        self.open += 1

        def answer() -> Answer | None:
            if self.is_silent:
                return None
            self.open -= 1
            return question(self)

        return answer

    def _waited(self, answer: Found) -> Found:
        assert not self.is_silent, "the loop waits for a broker"
        return answer

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        return self._waited(super().topics(names))

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        return self._waited(super().watermarks(partition))

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        return self._waited(super().ends(partitions))

    def kept(self, partitions: Sequence[TopicPartition]) -> KeptRecords:
        return self._waited(super().kept(partitions))

    def members(self, group_id: str) -> Sequence[str]:
        return self._waited(super().members(group_id))

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        return self._waited(super().delete_records(partition, before))


def test_a_worker_commits_while_no_broker_answers_a_question() -> None:
    """Each of these calls stopped all tasks of a worker for up to 17 s, while other brokers served its partitions."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    cluster = _Slow(world.broker)
    world.send(20)
    member = started(world.worker(cluster=cluster))
    take_turns(member, until=all_at(member, 20))
    for number in range(2):  # trimming has something to do
        world.broker.delete_before(TopicPartition(world.config.topics.examples, number), 10)
    cluster.is_silent = True
    for minute in range(1, 6):
        world.clock.advance(MINUTE_S)
        world.send(10, first=10 + 10 * minute)
        take_turns(member, until=all_at(member, 20 + 10 * minute))
    assert cluster.open < 10, "questions do not pile up"
    assert any(task.is_saving for task in member.tasks), "a snapshot waits until it can be named"
    cluster.is_silent = False
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    assert world.outputs() == undisturbed_outputs(20, 10, 10, 10, 10, 10)


def _is_at(member: Worker, number: int, offset: int) -> bool:
    return any(task.number == number and task.offsets == (offset, offset) for task in member.tasks)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_task_that_waits_for_an_answer_holds_up_no_other(*, is_first: bool) -> None:
    """A worker restores the task of a worker that has left; if the answers stay away, its own task continues.

    After a rebalance it needs one answer first: it must know that nobody has written to its progress.
    """
    world = World()
    cluster = _Slow(world.broker)
    world.send(20)
    heir = started(world.worker(cluster=cluster))
    take_turns(heir, until=all_at(heir, 20))
    other = started(world.worker(make_config(application={"instance": "other"}), joins=True))
    take_turns(heir, other, until=lambda: len(heir.tasks) == 1 and [task.offsets for task in other.tasks] == [(20, 20)])
    mine, theirs = heir.tasks[0].number, other.tasks[0].number
    other._close()
    if not is_first:
        take_turns(heir, until=lambda: any(task.state.is_restoring for task in heir.tasks))
        take_turns(heir, until=lambda: _is_at(heir, mine, 20))
    cluster.is_silent = True
    for first in (20, 30, 40):
        world.send(10, first=first)
        if is_first:
            heir.turn()
        else:
            take_turns(heir, until=lambda end=first + 10: _is_at(heir, mine, end))  # type: ignore[misc]
    assert not [task for task in heir.tasks if task.number == theirs and task.state is TaskState.LIVE]
    cluster.is_silent = False
    take_turns(heir, until=all_at(heir, 50))
    for number, portions in ((mine, (30,) if is_first else (10, 10, 10)), (theirs, (30,))):
        expected = undisturbed_outputs(20, *portions)
        assert {place: rows for place, rows in world.outputs().items() if place[1] == number} == {
            place: rows for place, rows in expected.items() if place[1] == number
        }


ONE, TWO = TopicPartition("predictions", 0), TopicPartition("predictions", 1)


class _Late(EmbeddedCluster):
    """A cluster whose answers are those of the moment at which they were asked for, and come when the test says so."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker)
        self.found: dict[TopicPartition, Ends] = {ONE: Ends(5, 5), TWO: Ends(5, 5)}
        self.is_silent = True

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Ask."""
        answer = question(self)
        return lambda: None if self.is_silent else answer

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        return {partition: self.found[partition] for partition in partitions}


def test_an_answer_says_nothing_about_what_was_opened_later() -> None:
    """A transaction that was opened meanwhile would be overlooked, and its records would be read by nobody."""
    world = World()
    cluster = _Late(world.broker)
    waiting = OpenTransactions(cluster, world.clock)
    waiting.add([ONE])
    waiting.look()
    cluster.found[ONE] = Ends(5, 9)
    waiting.add([ONE])
    cluster.is_silent = False
    waiting.look()
    assert waiting.holds(0)
    cluster.found[ONE] = Ends(10, 10)
    world.clock.advance(LOOK_INTERVAL_S)
    waiting.look()
    assert not waiting.places


def test_an_answer_says_nothing_about_a_topic_that_was_created_again() -> None:
    """The end of the old topic lies after everything that was written to the new one."""
    world = World()
    cluster = _Late(world.broker)
    waiting = OpenTransactions(cluster, world.clock)
    waiting.wrote(ONE, 5)
    waiting.look()
    waiting.forget(0)
    waiting.wrote(ONE, 3)
    cluster.found[ONE] = Ends(0, 3)
    cluster.is_silent = False
    world.clock.advance(LOOK_INTERVAL_S)
    waiting.look()
    assert waiting.places == (ONE,)


def test_a_question_to_kafka_waits_in_a_thread_of_its_own() -> None:
    """A request that times out leaves a client behind that may never reach a broker again: the next one is new."""
    cluster = KafkaCluster("127.0.0.1:1")
    is_over, first = threading.Event(), cluster._admin
    asked: list[object] = []

    def question(one: KafkaCluster) -> str:
        asked.append(one._admin)
        assert is_over.wait(AT_ONCE_S)
        if len(asked) == 1:
            raise UnknownOutcomeError("no answer")
        return "an answer"

    waiting = Question(cluster, question)
    assert waiting.answer() is None
    is_over.set()
    wait_until(lambda: waiting.answer() == "an answer", "it was asked again")
    assert asked[0] is first
    assert asked[1] is not first

    def refused(_: KafkaCluster) -> str:
        raise TopicError("no")

    refusal = Question(cluster, refused)
    with pytest.raises(TopicError):
        wait_until(lambda: refusal.answer() is not None, "the refusal")
