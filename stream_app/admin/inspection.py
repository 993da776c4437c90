"""The report of `areba inspect` about an application and its tasks: a table, JSON, and lines about problems."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rich.table import Table

from stream_app.admin.problems import Problem, ProblemCode
from stream_app.admin.recent.inputs import InputTails
from stream_app.admin.recent.outputs import Recent
from stream_app.backends.base import Ends, TopicPartition
from stream_app.backends.held_back import held_text
from stream_app.errors import ErrorCode
from stream_app.snapshot.stops import resume_hint
from stream_app.task_state import TaskState
from stream_app.terminal import simple_table

COLUMNS = ("task", "state", "examples", "lag", "labels", "lag", "dead", "silent", "sequence", "snapshot", "engine")
"""Columns of the table. `dead` counts the dead letters of the last hour, `silent` the streams whose labels are missing;
see `recent.outputs`."""


_LATE_SHARE = 0.5
"""A worker takes a snapshot at a quarter of the retention: at this share, something prevents it."""


DAY_MS = 86_400_000

QUIET_MS = DAY_MS
"""A partition without a newer record is noted."""


class Input(NamedTuple):
    """One input partition of a task.

    Attributes:
        topic: Name of the topic.
        committed: The offset after the last commit; None if nothing was committed.
        low: The first offset that the partition has.
        high: Its end: the offset after its last record or marker of a transaction.
        held_from: The last stable offset, if an open transaction of a producer holds the records from there back; see
            `standstill`.
    """

    topic: str
    committed: int | None
    low: int
    high: int
    held_from: int | None = None

    @property
    def lag(self) -> int:
        """Number of offsets that were not processed yet."""
        return max(0, self.high - (self.low if self.committed is None else self.committed))


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task.

    Attributes:
        task: Number of the task.
        state: One of `task_state.INSPECTED`; PARKED if a worker could not restore the task.
        problem: Why the task is parked, or what is wrong with a running task; None if nothing is.
        code: The code of that problem, if it has a code.
        command: The command that lets it continue, if there is one.
        inputs: Its partitions of examples and labels.
        recent: What its newest outputs show.
        sequence: Sequence of the last commit; -1: none.
        snapshots: How many of the snapshots that progress names can be read.
        snapshot_sequence: Sequence of the newest of these; -1: none.
        snapshot_bytes: Size of the newest of these, without spare room; a worker's `/metrics` report the memory that is
            allocated.
        engine: The version of areba that wrote the newest configuration or snapshot.
        stopped_streams: The number of streams that the breaker has stopped.
        stopped: The reasons of the first of these streams, by stream.
        retention_used: The largest share of its topic's retention that a record has used that a restore needs; None if
            it is not known.
        quiet_ms: How old the newest commit is, if records wait and nobody commits; None otherwise.
        group_offsets: The group's offsets (examples, labels), if they are not those of the last commit; None otherwise.
    """

    task: int
    state: TaskState
    problem: str | None
    code: ErrorCode | None
    command: str | None
    inputs: tuple[Input, Input]
    recent: Recent
    sequence: int = -1
    snapshots: int = 0
    snapshot_sequence: int = -1
    snapshot_bytes: int = 0
    engine: str | None = None
    stopped_streams: int = 0
    stopped: Mapping[str, str] = field(default_factory=dict)
    retention_used: float | None = None
    quiet_ms: int | None = None
    group_offsets: tuple[int | None, int | None] | None = None

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions of its inputs."""
        return [TopicPartition(one.topic, self.task) for one in self.inputs]

    @property
    def _committed(self) -> tuple[int | None, int | None]:
        return self.inputs[0].committed, self.inputs[1].committed

    def standing_still(self, held: Mapping[TopicPartition, int], quiet_ms: int | None) -> "TaskView":
        """Return the view with `Input.held_from` of the partitions that are held back, and `quiet_ms`.

        A task that waits for an input which is held back has no other reason to commit nothing.
        """
        examples, labels = (
            one._replace(held_from=held.get(place)) for one, place in zip(self.inputs, self.places, strict=True)
        )
        is_held = any(one.held_from is not None for one in (examples, labels))
        return replace(self, inputs=(examples, labels), quiet_ms=None if is_held else quiet_ms)

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return next(self.problems(), None) is None

    def problems(self) -> Iterator[Problem]:
        """Yield each problem."""
        if self.state is TaskState.PARKED and self.problem is not None:
            yield Problem(ProblemCode.PARKED, self.problem, self.task)
        elif self.problem is not None:
            yield Problem(ProblemCode.RETENTION_USED, self.problem, self.task)
        elif self.retention_used is not None and self.retention_used >= _LATE_SHARE:
            remedy = (
                "stop the workers with SIGTERM, which saves all tasks, and look for `retention-used` in their logs"
                if self.state is TaskState.RUNNING
                else "start a worker, which saves the task: areba run"
            )
            used = f"a restore needs records that have used {self.retention_used:.0%} of their topic's retention"
            yield Problem(ProblemCode.RETENTION_USED, f"{used}; {remedy}", self.task)
        for one, place in zip(self.inputs, self.places, strict=True):
            if one.held_from is not None:
                yield Problem(ProblemCode.HELD_BACK, held_text(place, Ends(one.held_from, one.high)), self.task)
        if self.quiet_ms is not None:
            records, age_s = sum(one.lag for one in self.inputs), self.quiet_ms / 1000
            text = f"{records:,} offsets wait, and the newest commit is {age_s:,.0f} s old; look: /ready of its worker"
            yield Problem(ProblemCode.NO_COMMIT, text, self.task)
        if self.group_offsets is not None:
            found, known = ("/".join(map(str, pair)) for pair in (self.group_offsets, self._committed))
            text = f"the group's offsets are {found}, those of the last commit {known}: somebody has changed them"
            yield Problem(
                ProblemCode.GROUP_OFFSETS,
                f"{text}; nobody reads them, and the next commit writes them again",
                self.task,
            )
        for stream, reason in self.stopped.items():
            yield Problem(ProblemCode.STREAM_STOPPED, f"{reason}; {resume_hint(stream)}", self.task, stream)
        if (more := self.stopped_streams - len(self.stopped)) > 0:
            yield Problem(ProblemCode.STREAM_STOPPED, f"{more} more streams are stopped", self.task)
        yield from self.recent.problems()

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document, with null for what does not exist."""
        examples, labels = (
            {
                "topic": one.topic,
                "committed": one.committed,
                "end": one.high,
                "lag": one.lag,
                "held_from": one.held_from,
            }
            for one in self.inputs
        )
        return {
            "task": self.task,
            "state": self.state.value,
            "problem": self.problem,
            "code": self.code,
            "command": self.command,
            "examples": examples,
            "labels": labels,
            "sequence": None if self.sequence < 0 else self.sequence,
            "snapshots": self.snapshots,
            "snapshot_sequence": None if self.snapshot_sequence < 0 else self.snapshot_sequence,
            "snapshot_bytes": None if self.snapshot_sequence < 0 else self.snapshot_bytes,
            "engine": self.engine,
            "stopped_streams": self.stopped_streams,
            "stopped": dict(self.stopped),
            "retention_used": None if self.retention_used is None else round(self.retention_used, 3),
            **self.recent.to_plain(),
        }


@dataclass(frozen=True, slots=True)
class Inspection:
    """An application.

    Attributes:
        application: Its id.
        workers: Number of members of its group.
        tasks: The tasks that were inspected.
        topics: A line for each problem of the topics.
        memory_bound_bytes: The most memory that a worker with all of these tasks takes.
        input_tails: What the newest records of both inputs show.
        now_ms: The time of the inspection.
    """

    application: str
    workers: int
    tasks: tuple[TaskView, ...]
    topics: tuple[str, ...] = ()
    memory_bound_bytes: int = 0
    input_tails: InputTails = field(default_factory=lambda: InputTails({}))
    now_ms: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is a worker, no task or topic has a problem, and no stream is in several tasks."""
        return next(self.problems(), None) is None

    def to_json(self) -> str:
        """Return the inspection as a JSON document."""
        plain = {
            "application": self.application,
            "workers": self.workers,
            "ok": self.ok,
            "split_streams": self.input_tails.split(),
            "newest_inputs": self.input_tails.to_plain(),
            "memory_bound_bytes": self.memory_bound_bytes,
            "problems": [problem.to_plain() for problem in self.problems()],
            "tasks": [view.to_plain() for view in self.tasks],
        }
        return json.dumps(plain, indent=2)

    def table(self) -> Table:
        """Return a table for people, without the texts of problems."""
        title = f"{self.application}: {self.workers} worker{'' if self.workers == 1 else 's'}"
        snapshot_bytes = sum(view.snapshot_bytes for view in self.tasks)
        caption = (
            f"memory: at most {self.memory_bound_bytes >> 20:,} MB; snapshots hold {snapshot_bytes / (1 << 20):,.1f} MB"
        )
        result = simple_table(title, COLUMNS, (caption, *self._legend()), names=2)
        for view in self.tasks:
            offsets = [
                text
                for one in view.inputs
                for text in ("-" if one.committed is None else str(one.committed), str(one.lag))
            ]
            sequences = ["-" if number < 0 else str(number) for number in (view.sequence, view.snapshot_sequence)]
            style = None if view.ok else "bold red"
            found = view.recent
            outputs = [f"{found.dead_records}{'' if found.is_all else '+'}", str(len(found.missing()))]
            result.add_row(
                str(view.task), view.state.value, *offsets, *outputs, *sequences, view.engine or "-", style=style
            )
        return result

    def _legend(self) -> Iterator[str]:
        """Yield a line for each word of the table that needs an explanation."""
        if any(view.recent.dead_records for view in self.tasks):
            yield "dead: all dead letters of the last hour of outputs; those that need no"
            yield "attention, such as late labels, have no line below the table"
        if any(view.state is TaskState.NEW for view in self.tasks):
            yield "new: the task has not committed anything yet"

    def notes(self) -> Iterator[str]:
        """Yield a line for each input partition that has been quiet, which is no problem."""
        for (topic, partition), newest_ms in self.input_tails.newest_ms.items():
            age_ms = self.now_ms - max(newest_ms.values(), default=self.now_ms)
            if age_ms >= QUIET_MS:
                yield f"{topic}[{partition}]: the newest record has an event time of {age_ms / DAY_MS:.1f} days ago"

    def problems(self) -> Iterator[Problem]:
        """Yield each problem."""
        yield from (Problem(ProblemCode.TOPICS, line) for line in self.topics)
        yield from (problem for view in self.tasks for problem in view.problems())
        yield from self.input_tails.problems()
        if not self.workers:
            yield Problem(ProblemCode.NO_WORKER, "no task is processed; start a worker: areba run")
