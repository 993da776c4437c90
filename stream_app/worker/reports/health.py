"""What a worker is at, as a supervisor asks for it: is it alive, is it ready, and why not.

alive   the main loop has not been inside one step for more than `STEP_LIMIT_S`. A step is a piece of work of our own:
        a batch of a task, a slice of restoring. A call of the Kafka client is no step, so a broker that is away never
        makes a worker look dead; nor does a long restore, which is many steps. Each function that is compiled at the
        start is a step with its own limit.
ready   the group was joined, every task that it gave us is live and can commit, and within the last `READY_LIMIT_S` a
        broker answered and a round ended, whether or not it had anything to commit

`Health` is the state at one moment, with the verdicts; `HealthWatch` follows the events in the worker's thread, and is
asked by the server's (`http.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from threading import Lock
from typing import NamedTuple

from stream_app.backends.base import Clock, pair
from stream_app.snapshot.stops import MAX_NAMED_STOPS, resume_hint
from stream_app.task_state import TaskState
from stream_app.worker.reports import events
from stream_app.worker.reports.events import Handlers, on

READY_LIMIT_S = 15.0
"""A round takes less than a second; an idle worker asks a broker every five seconds."""


@dataclass(frozen=True, slots=True)
class TaskHealth:
    """A task of this worker.

    Attributes:
        state: Where it is.
        committed: Offsets (examples, labels); None: not known yet.
        restored: The offsets that its restore has reached; None: it has not begun, or has ended.
        problem: Why it is parked.
        stopped: The reasons of the streams that the breaker has stopped, by stream.
        hanging: Where a transaction does not end for which it waits; "" for nowhere.
        saved_s: When its newest snapshot was complete, or when it became live (monotonic); None: not yet.
    """

    state: TaskState
    committed: tuple[int, int] | None = None
    restored: tuple[int, int] | None = None
    problem: str | None = None
    stopped: Mapping[str, str] = field(default_factory=dict)
    hanging: str = ""
    saved_s: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it is live and can commit."""
        return self.state is TaskState.LIVE and not self.hanging

    def text(self, task: int) -> str:
        """Return the verdict as text for operators."""
        if self.hanging:
            return f"task {task}: waits for a transaction in {self.hanging} that does not end"
        text = f"task {task}: {self.state}"
        if self.state is TaskState.PARKED:
            return f"{text}: {self.problem}"
        if self.restored is not None and self.committed is not None:
            return f"{text}: offsets {pair(self.restored)} of {pair(self.committed)}"
        stops = islice(self.stopped.items(), MAX_NAMED_STOPS)
        return "\n".join([text, *(_stop_text(task, stream, reason) for stream, reason in stops)])


class _Step(NamedTuple):
    """What the main loop does, since when (monotonic), and for how long at most."""

    what: str
    since_s: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class Health:
    """A worker at one moment. Times are monotonic; None: never yet.

    Attributes:
        now_s: The moment.
        is_joined: Whether the group has answered, with tasks for this worker or without any.
        tasks: By number.
        step: What the main loop is inside of; None: nothing of our own.
        round_s: When the last round ended.
        heard_s: When a broker answered last.
        outage_cause: Why no broker can be reached, as far as the clients say, after a colon.
        committed_s: When a transaction was committed last; before the first one, when the worker started.
    """

    now_s: float
    is_joined: bool = False
    tasks: Mapping[int, TaskHealth] = field(default_factory=dict)
    step: _Step | None = None
    round_s: float | None = None
    heard_s: float | None = None
    outage_cause: str = ""
    committed_s: float = 0.0

    @property
    def step_seconds(self) -> float:
        """How long the main loop has been inside the current step; 0 outside of any step."""
        return self.now_s - self.step.since_s if self.step else 0.0

    @property
    def is_alive(self) -> bool:
        """Whether the main loop makes progress."""
        return self.step is None or self.step_seconds <= self.step.limit_s

    @property
    def is_ready(self) -> bool:
        """Whether work may be sent here."""
        happened = self.is_joined and self.round_s is not None
        return happened and not any(self._standstill()) and all(one.is_ready for _, one in self._numbered())

    def alive_text(self) -> str:
        """Return the verdict as text for operators."""
        if self.step is None or self.is_alive:
            return "alive\n"
        return f"one step takes {self.step_seconds:.0f} s: {self.step.what}\n"

    def ready_text(self) -> str:
        """Return the verdict as text for operators."""
        tasks = [one.text(number) for number, one in self._numbered()] or ["the group gave this worker no task"]
        lines = tasks if self.is_joined else ["the group was not joined yet"]
        return "".join(f"{line}\n" for line in (*self._standstill(), *lines))

    def _numbered(self) -> Sequence[tuple[int, TaskHealth]]:
        return sorted(self.tasks.items())

    def _standstill(self) -> Iterator[str]:
        """Yield what has not happened for too long, if it has ever happened.

        A worker inside a step receives no broker's answer, so the age of the last one means nothing then.
        """
        if self.round_s is not None and self.now_s - self.round_s > READY_LIMIT_S:
            step = f"; at work: {self.step.what}" if self.step else ""
            yield f"no round has ended for {self.now_s - self.round_s:.0f} s{step}"
        if self.heard_s is not None and self.now_s - self.heard_s > READY_LIMIT_S and not self.step:
            yield f"no Kafka broker has answered for {self.now_s - self.heard_s:.0f} s{self.outage_cause}"


class HealthWatch:
    """Keeps the state for the pages; the worker's thread writes it, the server's threads read it.

    A group of fields that belong together changes under the lock. What changes in each round takes no lock: each change
    is one assignment, and no reader relies on two of them.

    Args:
        clock: Measures ages.

    Attributes:
        handlers: What to do with each event.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._is_joined = False
        self._step: _Step | None = None
        self._round_s: float | None = None
        self._heard_s: float | None = None
        self._outage_cause = ""
        self._committed_s = clock.monotonic_s()
        self._tasks: dict[int, TaskHealth] = {}
        self._committed: dict[int, tuple[int, int]] = {}  # apart from `_tasks`, since it changes in each round
        self.handlers: Handlers = dict(
            (
                on(events.StepBegan, self._step_began),
                on(events.StepProgressed, self._step_progressed),
                on(events.StepEnded, self._step_ended),
                on(events.RoundEnded, self._round_ended),
                on(events.CutOff, self._cut_off),
                on(events.Assigned, self._assigned),
                on(events.Revoked, self._revoked),
                on(events.TaskContinued, self._became_live),
                on(events.RestoreBegan, self._restore_began),
                on(events.Restoring, self._restoring),
                on(events.TaskRestored, self._became_live),
                on(events.TaskParked, self._parked),
                on(events.Hanging, self._hanging),
                on(events.Unblocked, self._unblocked),
                on(events.TransactionCommitted, self._transaction_committed),
                on(events.BatchCommitted, self._batch_committed),
                on(events.SnapshotComplete, self._snapshot_complete),
                on(events.StreamsStopped, self._streams_stopped),
                on(events.StreamsResumed, self._streams_resumed),
            )
        )

    def now(self) -> Health:
        """Return the current state."""
        with self._lock:
            tasks = {task: replace(one, committed=self._committed.get(task)) for task, one in self._tasks.items()}
            return Health(
                self._clock.monotonic_s(),
                self._is_joined,
                tasks,
                self._step,
                self._round_s,
                self._heard_s,
                self._outage_cause,
                self._committed_s,
            )

    def _update(self, task: int, changed: Callable[[TaskHealth], TaskHealth]) -> None:
        """Change the state of a task, unless the task is not assigned to this worker."""
        with self._lock:
            if task in self._tasks:
                self._tasks[task] = changed(self._tasks[task])

    # The loop ---------------------------------------------------------------------------------------------------------

    def _step_began(self, event: events.StepBegan) -> None:
        self._step = _Step(event.what, self._clock.monotonic_s(), event.limit_s)

    def _step_progressed(self, _: events.StepProgressed) -> None:
        if self._step is not None:
            self._step = self._step._replace(since_s=self._clock.monotonic_s())

    def _step_ended(self, _: events.StepEnded) -> None:
        self._step = None

    def _round_ended(self, event: events.RoundEnded) -> None:
        now_s = self._clock.monotonic_s()
        self._round_s, self._heard_s, self._outage_cause = now_s, now_s - event.silence_s, ""

    def _cut_off(self, event: events.CutOff) -> None:
        self._outage_cause = event.cause

    def _transaction_committed(self, _: events.TransactionCommitted) -> None:
        self._committed_s = self._clock.monotonic_s()

    def _batch_committed(self, event: events.BatchCommitted) -> None:
        self._committed[event.task] = event.offsets

    # Tasks ------------------------------------------------------------------------------------------------------------

    def _assigned(self, event: events.Assigned) -> None:
        with self._lock:
            self._tasks.update(dict.fromkeys(event.tasks, TaskHealth(TaskState.ASSIGNED)))
            self._is_joined = True

    def _revoked(self, event: events.Revoked) -> None:
        with self._lock:
            for task in event.tasks:
                self._tasks.pop(task, None)
                self._committed.pop(task, None)
            self._is_joined = False

    def _restore_began(self, event: events.RestoreBegan) -> None:
        state = TaskState.ASSIGNED
        self._update(event.task, lambda known: replace(known, state=state, restored=None, problem=None, stopped={}))

    def _restoring(self, event: events.Restoring) -> None:
        if event.state is TaskState.REPROCESSING:  # progress has been read
            self._committed[event.task] = event.goal
        self._update(event.task, lambda known: replace(known, state=event.state, restored=event.offsets))

    def _became_live(self, event: events.TaskContinued | events.TaskRestored) -> None:
        self._committed[event.task] = event.committed
        saved_s = self._clock.monotonic_s()
        self._update(event.task, lambda known: replace(known, state=TaskState.LIVE, restored=None, saved_s=saved_s))

    def _parked(self, event: events.TaskParked) -> None:
        problem = str(event.problem)
        self._update(event.task, lambda known: replace(known, state=TaskState.PARKED, restored=None, problem=problem))

    def _hanging(self, event: events.Hanging) -> None:
        for topic, task in event.partitions:
            self._update(task, partial(replace, hanging=f"{topic}[{task}]"))

    def _unblocked(self, event: events.Unblocked) -> None:
        for task in event.tasks:
            self._update(task, lambda known: replace(known, hanging=""))

    def _snapshot_complete(self, event: events.SnapshotComplete) -> None:
        saved_s = self._clock.monotonic_s()
        self._update(event.task, lambda known: replace(known, saved_s=saved_s))

    def _streams_stopped(self, event: events.StreamsStopped) -> None:
        self._update(event.task, lambda known: replace(known, stopped={**known.stopped, **event.stops}))

    def _streams_resumed(self, event: events.StreamsResumed) -> None:
        def without(stopped: Mapping[str, str]) -> Mapping[str, str]:
            resumed = {*event.streams}
            return {stream: reason for stream, reason in stopped.items() if stream not in resumed}

        self._update(event.task, lambda known: replace(known, stopped=without(known.stopped)))


def _stop_text(task: int, stream: str, reason: str) -> str:
    """Return the line about a stream that the breaker stopped."""
    return f"task {task}: stream {stream!r} is stopped: {reason}; {resume_hint(stream)}"
