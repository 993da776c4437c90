"""A world: the broker, and the state that the actors share: processes, supervisor, producer, operator, subscriber."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from stream_app.admin.models import Application
from stream_app.backends.base import Fetched, TopicInfo, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.retention import TIMES_BEFORE
from stream_app.config import Config
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.task_state import TaskState
from tests.simulation.faults import Event, Fault, Faults
from tests.simulation.ports import TRANSACTION_TIMEOUT_S
from tests.simulation.schedule import Scheduler, SimulatedBroker, VirtualClock
from tests.simulation.worlds.shape import Shape, make_configuration
from tests.simulation.worlds.year import Year
from tests.support.rows import Read

if TYPE_CHECKING:
    from tests.simulation.worlds.processes import Process, Say

PRODUCER = "producer-"
"""Prefix of the transactional ids of producers that write inputs."""

FORGOTTEN_S = TRANSACTION_TIMEOUT_S + 5.0
"""Time until everything that a dead process left open is aborted, and every late commit has come."""

SETTLE_S = 0.5
"""Interval of the checks whether everything is processed."""


class WrongError(Exception):
    """A check of the world failed."""


def rows(fetched: Fetched) -> list[Read]:
    """Return the records one by one."""
    records = fetched.records
    cells = zip(records.offsets.tolist(), records.timestamps.tolist(), records.keys, records.values, strict=True)
    return [Read(*cell, tuple(records.headers.get(row, ()))) for row, cell in enumerate(cells)]


@dataclass
class Duties:
    """What waits for the operator.

    Attributes:
        stopped: Streams that the breaker stopped, to be resumed.
        lost: Tasks that have lost inputs, to be continued without these.
        resets: Streams to be reset.
        erasure: A stream, and the ids of its examples to be erased.
        will_run_commands: Whether two commands are to be run at once.
    """

    stopped: set[str] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    resets: list[str] = field(default_factory=list)
    erasure: tuple[str, Sequence[str]] | None = None
    will_run_commands: bool = False


class World:
    """The broker, the state that all actors share, and what they ask about it.

    Args:
        shape: What the seed decides in advance.
        sections: Settings that override all workers' settings, by section.
        say: Receives the lines of the trace, if there is one.

    Attributes:
        wrong: Messages about failed checks.
        models: Digest of each task's models in the live process that had processed everything.
        seen: The records that the subscriber has read, by partition, in the order of reading.
        year: What passes of an ordinary year.
        duties: What waits for the operator.
        processes: The processes that are alive.
        started: How many processes have been started.
        wanted: The workers that the supervisor keeps alive.
        version: 1 after a new configuration was deployed, before that 0.
        without: A learner that processes that start now do not have; empty: they have all.
        open_inputs: How many transactions with inputs are open.
        is_all_sent: Whether all inputs are sent.
        is_closed: Whether no process may be started.
        is_busy: Whether an operator is at work.
        is_worked_off: Whether everything was processed after the last fault.
        left_work: Whether a process has ended with an error since then: the next process may have to repair something.
        is_over: Whether the world has ended.
    """

    def __init__(self, shape: Shape, sections: Mapping[str, Any], say: "Say | None") -> None:
        self.shape = shape
        self.draw = Random(f"{shape.seed}/world")
        self.scheduler = Scheduler(Random(f"{shape.seed}/schedule"))
        self.faults = Faults(shape.swarm, Random(f"{shape.seed}/faults"))
        self.clock = VirtualClock(self.scheduler)
        self.broker = SimulatedBroker(self.clock, self.scheduler, shape.session_timeout_s)
        self.broker.loses_markers = self._loses_markers
        self.broker.loses_commit_markers = self._loses_commit_markers
        self.broker.swept = self._count_swept
        self.cluster = EmbeddedCluster(self.broker)
        self.wrong: list[str] = []
        self.models: dict[int, str] = {}
        self.year = Year(self)
        self.duties = Duties()
        self.processes: list[Process] = []
        self.started = 0
        self.wanted: set[str] = set()
        self.version = 0
        self.without = ""
        self.open_inputs = 0
        self.is_all_sent = False
        self.is_closed = False
        self.is_busy = False
        self.is_worked_off = False
        self.left_work = False
        self.is_over = False
        self._sections = sections
        self._configs: dict[tuple[str, int, str], Config] = {}
        self._say = say
        self._create_topics()
        self.seen: dict[TopicPartition, list[Read]] = {place: [] for place in self.output_places()}

    def _create_topics(self) -> None:
        topics = self.config("w1").topics
        own = (topics.predictions, topics.outcomes, topics.metrics, topics.dead_letters, topics.progress)
        for name in topics:
            settings = {"message.timestamp.type": "LogAppendTime"} if name in own else {}
            if name == topics.changelog:
                settings["cleanup.policy"] = "compact"
            if name == topics.progress:
                settings["retention.ms"] = "-1"
            if name in (topics.examples, topics.labels):
                settings[TIMES_BEFORE] = str(self.shape.oldest_ms)
            if name == topics.dead_letters:
                settings["max.message.bytes"] = str(self.shape.dead_letter_bytes)
            self.broker.create_topic(TopicInfo(name, self.shape.partitions, settings))

    @property
    def is_traced(self) -> bool:
        """Whether a trace is written."""
        return self._say is not None

    def say(self, what: str) -> None:
        """Add a line to the trace."""
        if self._say is not None:
            self._say(f"{self.scheduler.now_s:9.3f}  {what}")

    def config(self, instance: str) -> Config:
        """Return the configuration of a process that starts now."""
        key = instance, self.version, self.without
        if key not in self._configs:
            self._configs[key] = self._new_config(instance)
        return self._configs[key]

    def _new_config(self, instance: str) -> Config:
        made = make_configuration(self.shape.choice, self.version > 0)
        application = made.application.model_copy(update={"instance": instance})
        changed = made.model_copy(update={"application": application})
        if self.without:
            kept = {name: learner for name, learner in changed.learners.items() if name != self.without}
            changed = changed.model_copy(update={"learners": kept})
        if not self._sections:
            return changed
        data = changed.model_dump()
        for name, settings in self._sections.items():
            data[name] = {**data[name], **settings} if isinstance(data.get(name), dict) else settings
        return Config.model_validate(data, context={})

    def output_places(self) -> list[TopicPartition]:
        """Return all partitions that a subscriber may read."""
        topics = self.config("w1").topics
        names = [getattr(topics, name.replace("-", "_")) for name in OUTPUT_TOPICS]
        return [
            TopicPartition(name, number)
            for name in (*names, topics.progress)
            for number in range(self.shape.partitions)
        ]

    def unread_places(self) -> list[TopicPartition]:
        """List the added partitions of inputs, each of which has a record that no worker reads."""
        names, first = self.config("w1").topics[:2], self.shape.partitions
        return [TopicPartition(name, first) for name in names if self.broker.topic(name).partitions > first]

    def input_places(self, number: int) -> tuple[TopicPartition, TopicPartition]:
        """Return both inputs of a task."""
        topics = self.config("w1").topics
        return TopicPartition(topics.examples, number), TopicPartition(topics.labels, number)

    def read(self, place: TopicPartition) -> list[Read]:
        """Return all committed records of a partition, including those that were deleted."""
        with self.broker.whole(place):
            records, position, at_end = self.broker.read(place, 0, 10**6)
        return rows(Fetched(place, records, at_end, position))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Run an act after this time."""
        self.scheduler.spawn(act, seconds)

    def application(self) -> Application:
        """Return the application as the operator's commands see it."""
        return Application(self.config("w1"), self.cluster, self.clock, partial(EmbeddedTransaction, self.broker))

    def stop_all(self) -> None:
        """Stop all workers, start none, and wait until none of their transactions is open."""
        self.is_closed = True
        while self.processes or self.broker.groups.members(self.config("w1").group_id):
            for process in self.processes:
                process.is_asked_to_stop = True
            self.scheduler.pause(SETTLE_S)
        self.settle_transactions()

    def settle_transactions(self) -> None:
        """Wait until no transaction of a process is open, and end those that hang."""
        self.scheduler.pause(FORGOTTEN_S)
        for transactional_id in self.broker.hanging:
            self.say(f"the operator ends what hangs of {transactional_id}")
            self.broker.end_by_hand(transactional_id)

    def input_ends(self) -> dict[TopicPartition, int]:
        """Return the end of each input: after the last record, and the markers of transactions that follow it."""
        places = [place for number in range(self.shape.partitions) for place in self.input_places(number)]
        return {place: self.broker.ends(place).stable for place in places}

    def is_settled(self) -> bool:
        """Say whether every task is live in one process, at the end of its inputs, and no process is frozen."""
        inputs = [place for number in range(self.shape.partitions) for place in self.input_places(number)]
        if self.open_inputs or any(ends.stable < ends.high for ends in map(self.broker.ends, inputs)):
            return False
        if any(process.gate.is_busy or process.worker is None for process in self.processes):
            return False
        ends = self.input_ends()
        if self.broker.hangs():
            return False
        places: dict[int, tuple[int, int]] = {}
        for process in self.processes:
            for task in process.worker.tasks if process.worker is not None else ():
                if task.state is not TaskState.LIVE or task.number in places:
                    return False
                places[task.number] = task.offsets
        return places == {
            number: (ends[one], ends[two])
            for number in range(self.shape.partitions)
            for one, two in [self.input_places(number)]
        }

    def _writes_inputs(self, transactional_id: str) -> bool:
        return transactional_id.startswith(PRODUCER) or transactional_id == self.config("w1").resend_transactional_id

    def _loses_markers(self, transactional_id: str) -> bool:
        """Say whether the markers of a worker's transaction are lost; hanging inputs would never end."""
        lost = not self._writes_inputs(transactional_id) and self.faults.hit(Fault.MARKERS)
        if lost:
            self.say(f"the markers of {transactional_id} are lost")
        return lost

    def _loses_commit_markers(self, transactional_id: str, places: Sequence[Hashable]) -> set[Hashable]:
        """Return the partitions whose COMMIT markers are lost, and the groups: any part of them."""
        if self._writes_inputs(transactional_id) or not self.faults.hit(Fault.COMMIT_MARKERS):
            return set()
        lost = {place for place in places if self.faults.draw.random() < 0.5} or {places[0]}
        self.say(f"COMMIT markers of {transactional_id} are lost: {sorted(map(str, lost))}")
        return lost

    def _count_swept(self) -> None:
        self.faults.events[Event.SWEPT] += 1
