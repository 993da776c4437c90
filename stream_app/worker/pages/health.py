"""What a worker is at, as a supervisor asks for it: is it alive, is it ready, and why not.

alive   the main loop has not been inside one step for more than `STEP_LIMIT_S`. A step is a piece of work of our own:
        a batch of a task, a slice of restoring. A call of the Kafka client is no step, so a broker that is away never
        makes a worker look dead; nor does a long restore, which is many steps. Each function that is compiled at the
        start is a step with its own limit.
ready   the group was joined, every task that it gave us is live and can commit, and within the last `READY_LIMIT_S` a
        broker answered and a round ended, whether or not it had anything to commit

`Health` is the state at one moment, with the verdicts; `HealthObserver` records the changes in the worker's thread
and is asked by the server's (`http.py`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple

from stream_app.backends.base import Clock, TopicPartition, pair
from stream_app.errors import StateError
from stream_app.live.live_task import BatchCounts
from stream_app.snapshot.stops import MAX_NAMED_STOPS, stop_text
from stream_app.task_state import TaskState
from stream_app.worker.observer import STEP_LIMIT_S, Observer
from stream_app.worker.pages import metrics

READY_LIMIT_S = 15.0
"""A round takes less than a second; an idle worker asks a broker every five seconds."""


@dataclass(frozen=True, slots=True)
class TaskHealth:
    """A task of this worker.

    Attributes:
        state: Where it is.
        committed: Offsets (examples, labels); None: not known yet.
        restored: The offsets that its replay has reached; None: its replay has not begun, or has ended.
        problem: Why it is parked.
        stopped: The reasons of the streams that the breaker has stopped, by stream.
        hanging: Where a transaction does not end for which it waits; "" for nowhere.
        assigned_s: When its restore began (monotonic).
        saved_s: When its newest snapshot was complete, or when it became live (monotonic); None: not yet.
    """

    state: TaskState
    committed: tuple[int, int] | None = None
    restored: tuple[int, int] | None = None
    problem: str | None = None
    stopped: Mapping[str, str] = field(default_factory=dict)
    hanging: str = ""
    assigned_s: float = 0.0
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
        return "\n".join([text, *(stop_text(task, stream, reason) for stream, reason in stops)])


class Step(NamedTuple):
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
    step: Step | None = None
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


class _TimedStep(AbstractContextManager[None]):
    """Notes a step while it lasts. A round has several, so it takes no lock: each change is one assignment."""

    __slots__ = ("_facts", "_step")

    def __init__(self, facts: dict[str, Any], step: Step) -> None:
        self._facts = facts
        self._step = step

    def __enter__(self) -> None:
        self._facts["step"] = self._step

    def __exit__(self, *_: object) -> None:
        self._facts["step"] = None


class HealthObserver(Observer):
    """Logs events and keeps the state for the pages; the worker's thread writes it, the server's threads read it.

    What changes in each round is one assignment to a key that is there already, and takes no lock.
    """

    publishes = True

    def __init__(self, clock: Clock, logger: logging.Logger | None = None) -> None:
        super().__init__(clock, logger)
        self._lock = Lock()
        now_s = clock.monotonic_s()
        self._facts: dict[str, Any] = dict.fromkeys(("step", "round_s", "heard_s"))  # fields of Health
        self._facts["committed_s"] = now_s
        self._facts["outage_cause"] = ""
        self._tasks: dict[int, TaskHealth] = {}
        self._committed: dict[int, tuple[int, int]] = {}  # apart from `_tasks`, since it changes in each round

    def health(self) -> Health:
        """Return the current state."""
        with self._lock:
            tasks = {task: replace(one, committed=self._committed.get(task)) for task, one in self._tasks.items()}
            return Health(self._clock.monotonic_s(), tasks=tasks, **self._facts)

    def _note(self, **changed: Any) -> None:  # noqa: ANN401  (fields of Health)
        with self._lock:
            self._facts.update(changed)

    def _update(self, task: int, changed: Callable[[TaskHealth], TaskHealth]) -> None:
        """Change the state of a task, unless the task is not assigned to this worker."""
        with self._lock:
            if task in self._tasks:
                self._tasks[task] = changed(self._tasks[task])

    def _change(self, task: int, **changed: Any) -> None:  # noqa: ANN401  (fields of TaskHealth)
        self._update(task, lambda known: replace(known, **changed))

    def step(self, what: str, limit_s: float = STEP_LIMIT_S) -> AbstractContextManager[None]:
        """Time a piece of work, so that `is_alive` can compare it with its limit."""
        return _TimedStep(self._facts, Step(what, self._clock.monotonic_s(), limit_s))

    def progressed(self) -> None:
        """Restart the timer of the current step."""
        super().progressed()
        step: Step | None = self._facts.get("step")
        if step is not None:
            self._note(step=step._replace(since_s=self._clock.monotonic_s()))

    def cut_off(self, cause: str) -> None:
        """Record why no broker can be reached."""
        super().cut_off(cause)
        self._facts["outage_cause"] = cause

    def round_ended(self, silence_s: float) -> None:
        """Record the end of a round, with or without a commit."""
        super().round_ended(silence_s)
        now_s = self._clock.monotonic_s()
        self._facts["round_s"], self._facts["heard_s"] = now_s, now_s - silence_s
        self._facts["outage_cause"] = ""

    def assigned(self, tasks: Sequence[int]) -> None:
        """Record that the group gave these tasks to this worker."""
        super().assigned(tasks)
        with self._lock:
            self._tasks.update(dict.fromkeys(tasks, TaskHealth(TaskState.ASSIGNED)))
        self._note(is_joined=True)

    def revoked(self, tasks: Sequence[int]) -> None:
        """Record that the group revoked these tasks."""
        super().revoked(tasks)
        with self._lock:
            for task in tasks:
                self._tasks.pop(task, None)
                self._committed.pop(task, None)
        self._note(is_joined=False)

    def owned(self, task: int) -> None:
        """Record that a task must be restored."""
        super().owned(task)
        now_s = self._clock.monotonic_s()
        self._change(task, state=TaskState.ASSIGNED, restored=None, problem=None, assigned_s=now_s, stopped={})

    def continued(self, task: int, sequence: int, committed: tuple[int, int]) -> None:
        """Record that a task came back as it was."""
        super().continued(task, sequence, committed)
        self._committed[task] = committed
        self._change(task, state=TaskState.LIVE, saved_s=self._clock.monotonic_s())

    def restoring(self, task: int, state: TaskState, offsets: tuple[int, int] | None, goal: tuple[int, int]) -> None:
        """Record the progress of a task's restore."""
        super().restoring(task, state, offsets, goal)
        if state is TaskState.REPLAYING:  # progress has been read
            self._committed[task] = goal
        self._change(task, state=state, restored=offsets)

    def restored(self, task: int, sequence: int, committed: tuple[int, int], snapshot: int, records: int) -> None:
        """Record that a task is live."""
        super().restored(task, sequence, committed, snapshot, records)
        self._committed[task] = committed
        now_s = self._clock.monotonic_s()
        self._update(task, lambda known: self._became_live(task, known, now_s))

    def _became_live(self, task: int, known: TaskHealth, now_s: float) -> TaskHealth:
        self.figures.set(metrics.RESTORE_SECONDS, now_s - known.assigned_s, task)
        return replace(known, state=TaskState.LIVE, restored=None, saved_s=now_s)

    def saved(self, task: int, sequence: int, *, has_purged: bool) -> None:
        """Record that a snapshot is complete in the changelog."""
        super().saved(task, sequence, has_purged=has_purged)
        self._change(task, saved_s=self._clock.monotonic_s())

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """Record that tasks wait for transactions that do not end."""
        super().hanging(places)
        for place in places:
            self._change(place.partition, hanging=f"{place.topic}[{place.partition}]")

    def freed(self, tasks: Sequence[int]) -> None:
        """Record that tasks no longer wait for a hanging transaction."""
        super().freed(tasks)
        for task in tasks:
            self._change(task, hanging="")

    def parked(self, task: int, problem: StateError) -> None:
        """Record that a task was parked."""
        super().parked(task, problem)
        self._change(task, state=TaskState.PARKED, restored=None, problem=str(problem))

    def stopped_streams(self, task: int, stops: Mapping[str, str]) -> None:
        """Record which streams of a task the breaker stopped."""
        super().stopped_streams(task, stops)
        if stops:
            self._update(task, lambda known: replace(known, stopped={**known.stopped, **stops}))

    def resumed_streams(self, task: int, streams: Sequence[str]) -> None:
        """Record that an operator resumed streams."""
        super().resumed_streams(task, streams)
        if streams:
            left = set(streams)
            self._update(
                task,
                lambda known: replace(
                    known, stopped={name: why for name, why in known.stopped.items() if name not in left}
                ),
            )

    def transaction_committed(self, began_s: float) -> None:
        """Record that a transaction was committed that began at this monotonic time."""
        super().transaction_committed(began_s)
        now_s = self._clock.monotonic_s()
        self.figures.observe_commit(now_s - began_s)
        self._facts["committed_s"] = now_s

    def committed(self, task: int, offsets: tuple[int, int], counts: BatchCounts) -> None:
        """Record that a batch of this task was committed."""
        super().committed(task, offsets, counts)
        self._committed[task] = offsets
