"""A world: the broker, the worker processes and their supervisor, the producers, the operator, and a subscriber."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from stream_app.admin.marks import erase, resume
from stream_app.admin.models import Application
from stream_app.admin.reset import reset
from stream_app.admin.skip import skip
from stream_app.backends.base import Fetched, TopicInfo, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.retention import TIMES_BEFORE
from stream_app.cli.restart import RESTART_WINDOW_S
from stream_app.config import Config
from stream_app.errors import (
    ArebaError,
    ConfigurationError,
    ErrorCode,
    FencedAgainError,
    FencedError,
    RestartNeededError,
    StateError,
    TransactionAbortedError,
)
from stream_app.errors import TopicError as WrongTopicError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import OutputRecords
from stream_app.records import Side
from stream_app.serialization import codec
from stream_app.snapshot.format import SNAPSHOT_KEY, Manifest, parse_snapshots
from stream_app.task_state import TaskState
from tests.simulation.faults import Event, Fault, Faults
from tests.simulation.ports import (
    TRANSACTION_TIMEOUT_S,
)
from tests.simulation.schedule import Scheduler, SimulatedBroker, VirtualClock
from tests.simulation.worlds.commands import run_at_once
from tests.simulation.worlds.processes import Process, Say
from tests.simulation.worlds.shape import SMALLEST_BYTES, Shape, make_configuration
from tests.simulation.worlds.year import Year
from tests.support.rows import Read, Sent

MAX_PROCESSES = 4
"""Processes that may be alive together: three workers, and a twin."""

START_S = 1.0
"""Time for most processes to start: without work to disturb, faults would be wasted."""

PRODUCER = "producer-"
"""Prefix of the transactional ids of producers that write inputs."""

FORGOTTEN_S = TRANSACTION_TIMEOUT_S + 5.0
"""Time until everything that a dead process left open is aborted, and every late commit has come."""


SETTLE_S = 0.5
"""Interval of the checks whether everything is processed."""


class WrongError(Exception):
    """A check of the world failed."""


# The shape of a world -------------------------------------------------------------------------------------------------


# Processes ------------------------------------------------------------------------------------------------------------


def rows(fetched: Fetched) -> list[Read]:
    """Return the records one by one."""
    records = fetched.records
    cells = zip(records.offsets.tolist(), records.timestamps.tolist(), records.keys, records.values, strict=True)
    return [Read(*cell, tuple(records.headers.get(row, ()))) for row, cell in enumerate(cells)]


# The world ------------------------------------------------------------------------------------------------------------


class World:
    """All actors of a world, and `run`.

    Attributes:
        wrong: Messages about failed checks.
        models: Digest of each task's models in the live process that had processed everything.
        seen: The records that the subscriber has read, by partition, in the order of reading.
        year: What passes of an ordinary year.
        processes: The processes that are alive.
        is_closed: Whether no process may be started.
        without: A learner that processes that start now do not have; empty: they have all.
        is_busy: Whether an operator is at work.
    """

    def __init__(self, shape: Shape, sections: Mapping[str, Any], say: Say | None) -> None:
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
        self.stopped: set[str] = set()
        self.is_worked_off = False
        self._left_work = False
        self.lost: set[int] = set()
        self.resets: list[str] = []  # streams that an operator is about to reset
        self.started = 0
        self.version = 0
        self.without = ""
        self.is_over = False
        self._sections = sections
        self._configs: dict[tuple[str, int, str], Config] = {}
        self._say = say
        self.processes: list[Process] = []
        self.year = Year(self)
        self.is_busy = False
        self._will_run_commands = False
        self._will_erase: tuple[str, Sequence[str]] | None = None
        self._wanted: set[str] = set()
        self.is_closed = False
        self._all_sent = False
        self._open_inputs = 0
        self._input_producers = 0
        topics = self.config("w1").topics
        own = (topics.predictions, topics.outcomes, topics.metrics, topics.dead_letters, topics.progress)
        for name in topics:
            settings = {"message.timestamp.type": "LogAppendTime"} if name in own else {}
            if name == topics.changelog:
                settings["cleanup.policy"] = "compact"
            if name == topics.progress:
                settings["retention.ms"] = "-1"
            if name in (topics.examples, topics.labels):
                settings[TIMES_BEFORE] = str(shape.oldest_ms)
            if name == topics.dead_letters:
                settings["max.message.bytes"] = str(shape.dead_letter_bytes)
            self.broker.create_topic(TopicInfo(name, shape.partitions, settings))
        self.seen: dict[TopicPartition, list[Read]] = {place: [] for place in self.output_places()}

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

    def input_places(self, number: int) -> tuple[TopicPartition, TopicPartition]:
        """Return both inputs of a task."""
        topics = self.config("w1").topics
        return TopicPartition(topics.examples, number), TopicPartition(topics.labels, number)

    def read(self, place: TopicPartition) -> list[Read]:
        """Return all committed records of a partition, including those that were deleted."""
        with self.broker.whole(place):
            records, position, at_end = self.broker.read(place, 0, 10**6)
        return rows(Fetched(place, records, at_end, position))

    def run(self) -> None:
        """Run from the first record to the clean stop of the last worker."""
        self._send(self.shape.records[: self.shape.before])
        for number in range(self.shape.instances):
            self._wanted.add(f"w{number + 1}")
        for main in (self._supervise, self._produce, self._disasters, self._operate, self._subscribe, self._conduct):
            self.scheduler.spawn(main)
        try:
            self.scheduler.run(lambda: self.is_over or bool(self.wrong))
        finally:
            for process in self.processes:
                process.gate.is_dead = True
            self.scheduler.close()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Run an act after this time."""
        self.scheduler.spawn(act, seconds)

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

    # Processes ------------------------------------------------------------------------------------------------------

    def _start(self, instance: str, restarted_at: Sequence[float] = (), *, was_fenced: bool = False) -> None:
        self.processes.append(Process(self, instance, restarted_at, was_fenced))

    def _alive(self, instance: str) -> list[Process]:
        return [process for process in self.processes if process.instance == instance]

    def ended(self, process: Process, error: ArebaError | None) -> None:
        """Handle the end of a process: do what `areba run` itself does then, and leave the rest to the supervisor."""
        self.processes.remove(process)
        self.faults.events[Event.CUT] += process.worker.cuts if process.worker is not None else 0
        if error is None:
            process.say("is gone")
            return
        process.say(f"ends with status {error.exit_code}: {type(error).__name__}: {error}")
        self._left_work |= self.is_worked_off
        if isinstance(error, RestartNeededError):
            self._restart(process, error)
        elif isinstance(error, FencedAgainError):
            self.faults.events[Event.FENCED_AGAIN] += 1
        elif isinstance(error, ConfigurationError) and not isinstance(error, WrongTopicError):
            self.faults.events[Event.REFUSED_OLD_CONFIGURATION] += 1
            is_refused_removal = process.without  # of the champion, or of a learner whose examples wait for labels
            if process.version == self.version and not is_refused_removal:
                self.wrong.append(f"{process.name}: {error}")
        elif not (isinstance(error, StateError) and (self.lost or error.code is ErrorCode.RECORD_TOO_LARGE)):
            self.wrong.append(f"{process.name} ended with {type(error).__name__}: {error}")

    def _restart(self, process: Process, error: RestartNeededError) -> None:
        """Restart a process as `stream_app.cli.restart` does."""
        now_s = self.scheduler.now_s
        recent = [moment for moment in process.restarted_at if now_s - moment < RESTART_WINDOW_S]
        if process.is_asked_to_stop or self.is_closed or len(recent) >= process.config.worker.max_restarts:
            return
        self.faults.events[Event.RESTARTED] += 1
        self._start(process.instance, (*recent, now_s), was_fenced=isinstance(error, FencedError))

    def _supervise(self) -> None:
        """Start each configured process that is not alive, as an init system does."""
        while True:
            for instance in sorted(self._wanted):
                if not self._alive(instance) and not self.is_closed:
                    self.faults.events[Event.STARTED] += 1
                    self._start(instance)
            self.scheduler.pause(self.draw.choice((0.1, 1.0, 8.0)) * self.draw.random())

    # Disasters ------------------------------------------------------------------------------------------------------

    def _disasters(self) -> None:
        """Cause faults that may come at any time."""
        acts: Mapping[Fault, Callable[[], Callable[[], None] | None]] = {
            Fault.JOIN: self._join,
            Fault.LEAVE: self._leave,
            Fault.EVICT: self._evict,
            Fault.TWIN: self._twin,
            Fault.FENCE: self._fence,
            Fault.DEPLOY: self._deploy,
            Fault.COMPACT: self._compact,
            Fault.RETENTION: self._delete_inputs,
            Fault.LOSS: self._lose_inputs,
            Fault.RESET: self._want_reset,
            Fault.SHRUNK: self._shrink,
            Fault.GROUP_OFFSETS: self._change_offsets,
            Fault.GROWN: self._grow,
            Fault.COMMANDS: self._want_commands,
            Fault.ERASE: self._want_erasure,
        }
        while not self.faults.is_calm:
            self.scheduler.pause(self.draw.choice((0.05, 0.5, 3.0)) * self.draw.random())
            for fault, prepare in acts.items():
                act = prepare()
                if act is not None and self.faults.hit(fault):
                    act()

    def _join(self) -> Callable[[], None] | None:
        free = [name for name in ("w1", "w2", "w3") if name not in self._wanted]
        if not free or len(self.processes) >= MAX_PROCESSES:
            return None

        def act() -> None:
            self.say(f"{free[0]} is wanted")
            self._wanted.add(free[0])

        return act

    def _leave(self) -> Callable[[], None] | None:
        able = [process for process in self.processes if not process.is_asked_to_stop]
        if len(self._wanted) < 2 or not able:
            return None

        def act() -> None:
            process = self.draw.choice(able)
            self.say(f"{process.name} is asked to stop")
            process.is_asked_to_stop = True
            self._wanted.discard(process.instance)

        return act

    def _evict(self) -> Callable[[], None] | None:
        members = [process for process in self.processes if process.source.member]
        if not members:
            return None

        def act() -> None:
            process = self.draw.choice(members)
            self.say(f"{process.name} is thrown out of the group")
            process.leave_group()

        return act

    def _twin(self) -> Callable[[], None] | None:
        if not self.processes or self.is_closed or len(self.processes) >= MAX_PROCESSES:
            return None

        def act() -> None:
            instance = self.draw.choice(self.processes).instance
            self.say(f"a second {instance} is started")
            self._start(instance)

        return act

    def _fence(self) -> Callable[[], None] | None:
        if not self.processes:
            return None

        def act() -> None:
            process = self.draw.choice(self.processes)
            self.say(f"the epoch of {process.instance} is raised")
            self.broker.initialise(process.config.transactional_id)

        return act

    def _compact(self) -> Callable[[], None] | None:
        topic = self.config("w1").topics.changelog
        places = [TopicPartition(topic, number) for number in range(self.shape.partitions)]
        if not any(self.broker.watermarks(place).high for place in places):
            return None

        def act() -> None:
            self.say("the changelog is compacted")
            for place in places:
                self.broker.compact(place)

        return act

    def _delete_inputs(self) -> Callable[[], None] | None:
        """Return an act that deletes inputs as far as permitted; processes with older snapshots will notice it."""
        lows = {number: low for number in range(self.shape.partitions) if (low := self._snapshot_offsets(number))}
        if not lows:
            return None

        def act() -> None:
            self.say(f"inputs are deleted below {lows}")
            for number, offsets in lows.items():
                for place, offset in zip(self.input_places(number), offsets, strict=True):
                    self.broker.delete_before(place, offset)

        return act

    def _lose_inputs(self) -> Callable[[], None] | None:
        """Return an act of retention that is faster than a task, or than its snapshots; the last records are left."""
        number = self.draw.randrange(self.shape.partitions)
        last = {place: rows[-1].offset for place in self.input_places(number) if (rows := self.read(place))}
        if not any(last.values()) or number in self.lost or not self._has_committed(number):
            return None

        def act() -> None:
            self.lost.add(number)
            for place, offset in last.items():
                before = self.draw.randint(0, offset)
                self.say(f"{place.topic}[{number}] is deleted below {before}")
                self.broker.delete_before(place, before)

        return act

    def _has_committed(self, number: int) -> bool:
        """Say whether a task has committed offsets; until then, it starts at the first record that exists."""
        progress = self.read(TopicPartition(self.config("w1").topics.progress, number))
        return any(isinstance(codec.decode_one(row.value or b""), Commit) for row in progress)

    def _want_reset(self) -> Callable[[], None] | None:
        """Return an act that asks for the reset of a stream, as if its model had learned nonsense."""
        if self.resets or not any(self.input_ends().values()):
            return None

        def act() -> None:
            self.resets.append(f"s{self.draw.randrange(self.shape.partitions)}")  # configured or not

        return act

    def _want_erasure(self) -> Callable[[], None] | None:
        """Return an act that asks an operator to erase some examples of a stream, most of them known."""
        if self._will_erase is not None or not any(self.input_ends().values()):
            return None

        def act() -> None:
            stream = f"s{self.draw.randrange(self.shape.partitions)}"
            numbers = [self.draw.randrange(16) for _ in range(self.draw.choice((1, 1, 3, 12)))]
            self._will_erase = stream, [f"{stream}-{number}" for number in numbers]

        return act

    def _want_commands(self) -> Callable[[], None] | None:
        """Return an act that asks for two commands at once, a few times."""
        if self._will_run_commands or self.faults.hits[Fault.COMMANDS] >= 2 or not any(self.input_ends().values()):
            return None

        def act() -> None:
            self._will_run_commands = True

        return act

    def _shrink(self) -> Callable[[], None] | None:
        name = self.config("w1").topics.dead_letters
        if int(self.broker.topic(name).settings["max.message.bytes"]) == SMALLEST_BYTES:
            return None

        def act() -> None:
            self.say(f"{name} takes {SMALLEST_BYTES} bytes from now on")
            self.broker.alter_topic(name, {"max.message.bytes": str(SMALLEST_BYTES)})

        return act

    def raise_limit(self) -> None:
        """Give the topic of dead letters its limit back, and start the workers again, as a parked task asks for."""
        name = self.config("w1").topics.dead_letters
        self.say(f"the operator: {name} takes {self.shape.dead_letter_bytes} bytes again")
        self.broker.alter_topic(name, {"max.message.bytes": str(self.shape.dead_letter_bytes)})
        for process in self.processes:
            process.is_asked_to_stop = True

    def _change_offsets(self) -> Callable[[], None]:
        """Return an act that deletes or changes the group's offsets, which no worker reads."""
        offsets = self.broker.groups.group(self.config("w1").group_id).offsets

        def act() -> None:
            self.faults.events[Event.OFFSETS_CHANGED] += 1
            for number in range(self.shape.partitions):
                changed = self.draw.choice((None, 0, 3, 10**6))
                self.say(f"the group's offsets of task {number} are {changed}")
                for place in self.draw.choice((self.input_places(number)[:1], self.input_places(number))):
                    if changed is None:
                        offsets.pop(place, None)
                    else:
                        offsets[place] = changed

        return act

    def _grow(self) -> Callable[[], None] | None:
        """Return an act that gives topics more partitions, once the application has recorded its number of tasks."""
        topics = self.config("w1").topics
        able = [name for name in topics if self.broker.topic(name).partitions == self.shape.partitions]
        places = [TopicPartition(topics.progress, number) for number in range(self.shape.partitions)]
        if not able or not any(self.broker.ends(place).stable and self.read(place) for place in places):
            return None

        def act() -> None:
            chosen = self.draw.sample(able, self.draw.randint(1, len(able)))
            self.say(f"more partitions: {', '.join(chosen)}")
            for name in chosen:
                self.broker.grow_topic(name, self.shape.partitions + self.draw.choice((1, 2)))
                if name in (topics.examples, topics.labels):
                    side = Side.LABELS if name == topics.labels else Side.EXAMPLES
                    sent = next((sent for sent in self.shape.records if sent.side == side), None)
                    now_ms = self.clock.now_ms()
                    record = (sent.key, sent.value, now_ms, sent.headers) if sent else (b"s", b"", now_ms, ())
                    self.broker.append(TopicPartition(name, self.shape.partitions), [record])

        return act

    def unread_places(self) -> list[TopicPartition]:
        """List the added partitions of inputs, each of which has a record that no worker reads."""
        names, first = self.config("w1").topics[:2], self.shape.partitions
        return [TopicPartition(name, first) for name in names if self.broker.topic(name).partitions > first]

    def _snapshot_offsets(self, number: int) -> tuple[int, int] | None:
        """Return the offsets of a snapshot that progress names."""
        topics = self.config("w1").topics
        acts = [read.value for read in self.read(TopicPartition(topics.progress, number)) if read.key == SNAPSHOT_KEY]
        if not acts:
            return None
        act, changelog = codec.decode_one(acts[-1] or b""), TopicPartition(topics.changelog, number)
        if not isinstance(act, Act):
            raise WrongError(f"{act}: has the key of an act")
        offset = self.draw.choice(parse_snapshots(act.text)).manifest.offset
        records, *_ = self.broker.read(changelog, offset, 1)
        if records.offsets.tolist() != [offset]:
            return None  # the act that names the next snapshot has lost its marker
        return Manifest.from_bytes(records.values[0] or b"", str(changelog)).offsets

    def _deploy(self) -> Callable[[], None] | None:
        if self.version:
            return None

        def act() -> None:
            self.say("a new configuration is deployed")
            self.version = 1
            for process in self.processes:
                if self.draw.random() < 0.5:
                    process.is_asked_to_stop = True

        return act

    # Inputs ---------------------------------------------------------------------------------------------------------

    def _send(self, records: Sequence[Sent]) -> None:
        for sent in map(self.year.shifted, records):
            place = self.input_places(sent.partition)[sent.side]
            try:
                self.broker.append(place, [(sent.key, sent.value, sent.time_ms, sent.headers)])
            except TransactionAbortedError as refused:
                self.say(f"a producer: {refused}")
                self.faults.events[Event.REFUSED_TIME] += 1

    def _produce(self) -> None:
        """Send the remaining inputs, in bursts."""
        left = list(self.shape.records[self.shape.before :])
        while left:
            burst = 1 + int(5 * self.draw.random())
            now, left = left[:burst], left[burst:]
            if self.faults.hit(Fault.QUIET):
                self.year.pass_weeks()
            if self.faults.hit(Fault.SLOW):
                left = [*now, *left]
                now, left = [], left[self.year.send_slowly(left, self._send) :]
            if self.faults.hit(Fault.ABORTED_INPUT):
                self._send_in_transaction([sent._replace(headers=(("ghost", b""),)) for sent in now], commits=False)
            if self.faults.hit(Fault.OPEN_INPUT):
                self._send_in_transaction(now, commits=True)
            else:
                self._send(now)
            if not self.faults.is_calm:
                self.scheduler.pause(self.shape.gap_s * self.draw.random())
        if self.faults.hit(Fault.QUIET):
            self.year.pass_weeks()
        self._all_sent = True

    def _send_in_transaction(self, records: Sequence[Sent], *, commits: bool) -> None:
        self._input_producers += 1
        transaction = EmbeddedTransaction(self.broker, f"{PRODUCER}{self._input_producers}", 60.0)
        transaction.initialise()
        transaction.begin()
        now_ms = self.clock.now_ms()
        shifted = map(self.year.shifted, records)
        for sent in [one for one in shifted if one.time_ms >= now_ms - self.shape.oldest_ms]:
            headers = {0: sent.headers} if sent.headers else {}
            one = OutputRecords.of([sent.key], [sent.value], [sent.time_ms], headers)
            transaction.produce(self.input_places(sent.partition)[sent.side], one)
        self._open_inputs += 1

        def end() -> None:
            self._open_inputs -= 1
            (transaction.commit if commits else transaction.abort)()

        self.later(3.0 * self.draw.random() ** 2, end)

    # People ---------------------------------------------------------------------------------------------------------

    def _operate(self) -> None:
        """Resume streams that the breaker stopped, and tasks that have lost inputs."""
        while True:
            self.is_busy = False
            self.scheduler.pause(self.draw.choice((0.3, 4.0)) * self.draw.random() + 0.05)
            if self.year.is_quiet or self.is_worked_off:  # what is sent now would stay unread
                continue
            self.is_busy = True
            if self._will_run_commands:
                run_at_once(self)
                self._will_run_commands = False
            for stream in sorted(self.stopped):
                self._resume(stream)
            if self._will_erase is not None:
                self._erase(*self._will_erase)
                self._will_erase = None
            if self.lost or self.resets:
                self.scheduler.pause(10.0 * self.draw.random())
                self._maintain()

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

    def application(self) -> Application:
        """Return the application as the operator's commands see it."""
        return Application(self.config("w1"), self.cluster, self.clock, partial(EmbeddedTransaction, self.broker))

    def _maintain(self) -> None:
        """Stop all workers, accept lost inputs, reset streams, and start the workers again."""
        self.stop_all()
        lost, application = sorted(self.lost), self.application()
        for line in self._insist(lambda: skip(application, lost)) if lost else ():
            self.faults.events[Event.SKIPPED] += ": continues " in line
            self.say(f"the operator: {line}")
        for stream in self.resets:
            self._reset(application, stream)
        self.lost.clear()
        self.resets.clear()
        self.is_closed = False

    def _insist(self, command: Callable[[], Iterator[str]]) -> list[str]:
        """Run a command and return its lines; where its own transaction hangs, end it and run the command again."""
        while True:
            try:
                return list(command())
            except StateError as problem:
                if problem.code is not ErrorCode.HELD_BACK or not self.broker.hanging:
                    raise
                self.settle_transactions()

    def _reset(self, place: Application, stream: str) -> None:
        """Reset a stream in each task that has it."""
        for number in range(self.shape.partitions):
            try:
                for line in self._insist(partial(reset, place, stream, number)):
                    self.say(f"the operator: {line}")
            except (
                ConfigurationError,
                StateError,
            ) as problem:  # the task does not have the stream, or never committed anything
                self.say(f"the operator: {problem}")
            else:
                self.faults.events[Event.RESET] += 1

    def _resume(self, stream: str) -> None:
        """Resume a stream as `areba resume` does."""
        for _ in range(2 if self.faults.hit(Fault.RESUMED_TWICE) else 1):
            try:
                found = resume(self.application(), EmbeddedSender(self.broker), stream)
            except StateError:  # the stop cannot be read yet, or a frozen worker has reported it after its end
                if not self._is_stopped(stream):
                    self.stopped.discard(stream)
                return
            for place, _, offset, _ in found:
                self.say(f"the operator resumes stream {stream}: {place.topic}[{place.partition}] offset {offset}")
        self.stopped.discard(stream)

    def _is_stopped(self, stream: str) -> bool:
        workers = [process.worker for process in self.processes if process.worker is not None]
        live = [task.live for worker in workers for task in worker.tasks if task.state is TaskState.LIVE]
        return any(stream in one.task.stopped for one in live)

    def _erase(self, stream: str, ids: Sequence[str]) -> None:
        """Erase examples as `areba erase` does."""
        try:
            place, offsets = erase(self.application(), EmbeddedSender(self.broker), stream, ids, int(stream[1:]))
        except (StateError, ConfigurationError) as problem:  # stopped, never sent, or not configured
            self.say(f"an operator: {problem}")
            return
        self.say(f"the operator erases {', '.join(ids)}: {place.topic}[{place.partition}] offset {offsets[-1]}")

    def _subscribe(self) -> None:
        """Read all outputs as they come; what was read must not change."""
        readers = {place: self.cluster.reader(place) for place in self.seen}
        while True:
            for place, reader in readers.items():
                fetched = reader.poll(1000, 0.0)
                if fetched is not None:
                    self.seen[place] += rows(fetched)
            self.scheduler.pause(5.0 * self.draw.random())

    # The end --------------------------------------------------------------------------------------------------------

    def _conduct(self) -> None:
        """Cause faults for a while; then let everything be processed, and stop all workers."""
        while not self._all_sent:
            self.scheduler.pause(SETTLE_S)
        self.scheduler.pause(START_S + self.shape.horizon_s * self.draw.random())
        self.say("no more faults")
        self.faults.is_calm = True
        self._work_off()
        while self._left_work:  # a worker that ended with an error may leave a repair to the next worker
            self._left_work = False
            self._work_off()
        self.scheduler.pause(FORGOTTEN_S)
        self.broker.expire()
        self.is_over = True

    def _work_off(self) -> None:
        """Let everything be processed, and stop all workers."""
        self._wanted |= {"w1"} if not self._wanted else set()
        while self._is_awaited() or self.is_closed or not self.is_settled():
            self.scheduler.pause(SETTLE_S)
        self.is_worked_off = True
        self.say("all is worked off")
        self._wanted.clear()
        for process in self.processes:
            process.is_asked_to_stop = True
            for task in process.worker.tasks if process.worker is not None else ():
                self.models[task.number] = task.live.model_digest()
        while self.processes:
            self.scheduler.pause(SETTLE_S)

    def _is_awaited(self) -> bool:
        """Say whether an operator has something to do."""
        return bool(self.lost or self.resets or self.stopped or self._will_run_commands)

    def input_ends(self) -> dict[TopicPartition, int]:
        """Return the end of each input: after the last record, and the markers of transactions that follow it."""
        places = [place for number in range(self.shape.partitions) for place in self.input_places(number)]
        return {place: self.broker.ends(place).stable for place in places}

    def is_settled(self) -> bool:
        """Say whether every task is live in one process, at the end of its inputs, and no process is frozen."""
        inputs = [place for number in range(self.shape.partitions) for place in self.input_places(number)]
        if self._open_inputs or any(ends.stable < ends.high for ends in map(self.broker.ends, inputs)):
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
