"""The report of `areba inspect` about an application and its tasks: a table, JSON, and lines about problems."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.table import Table

from stream_app.admin.recent_outputs import WINDOW_MS, Recent
from stream_app.backends.partitioner import split_text
from stream_app.errors import ErrorCode
from stream_app.task_state import TaskState
from stream_app.terminal import simple_table
from stream_app.worker.observer import resume_hint

COLUMNS = ("task", "state", "examples", "lag", "labels", "lag", "dead", "silent", "sequence", "snapshot", "engine")
"""Columns of the table. `dead` counts the dead letters of the last hour, `silent` the streams whose labels are missing;
see `recent_outputs`."""


class Input(NamedTuple):
    """One input partition of a task.

    Attributes:
        topic: Name of the topic.
        committed: The committed offset; None if nothing was committed.
        low: The first offset that the partition has.
        high: Its end: the offset after its last record or marker of a transaction.
        is_read: Whether only markers of transactions follow the committed offset.
    """

    topic: str
    committed: int | None
    low: int
    high: int
    is_read: bool = False

    @property
    def lag(self) -> int:
        """Number of offsets that were not processed yet; 0 if no record is among them."""
        if self.is_read:
            return 0
        return max(0, self.high - (self.low if self.committed is None else self.committed))


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task.

    Attributes:
        task: Number of the task.
        state: One of `task_state.INSPECTED`; PARKED if a worker could not restore the task.
        problem: Why the task is tripped or parked; None if it is neither.
        code: The code of that problem; None for a task that is not parked.
        command: The command that lets it continue, if there is one.
        inputs: Its partitions of examples and labels.
        recent: What its newest outputs show.
        sequence: Sequence of the last commit; -1: none.
        snapshots: How many of the snapshots that the committed offsets name can be read.
        snapshot_sequence: Sequence of the newest of these; -1: none.
        snapshot_bytes: Size of the newest of these, without spare room; a worker's `/metrics` report the memory that is
            allocated.
        engine: The version of areba that wrote the newest configuration or snapshot.
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

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return next(self.problems(), None) is None

    def problems(self) -> Iterator[str]:
        """Yield a line for each problem."""
        if self.state is TaskState.TRIPPED:
            yield f"task {self.task}: {self.state}: {self.problem}; {resume_hint(self.task)}"
        if self.state is TaskState.PARKED:
            yield f"task {self.task}: {self.state}: {self.problem}"
        yield from self.recent.problems()

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document, with null for what does not exist."""
        examples, labels = (
            {"topic": one.topic, "committed": one.committed, "end": one.high, "lag": one.lag} for one in self.inputs
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
            **self.recent.to_plain(),
        }


@dataclass(frozen=True, slots=True)
class Inspection:
    """An application.

    Attributes:
        application: Its id.
        workers: Number of members of its group.
        tasks: The tasks that were inspected.
        grown: A line for each topic to which partitions were added.
        memory_bound_bytes: The most memory that a worker with all of these tasks takes.
    """

    application: str
    workers: int
    tasks: tuple[TaskView, ...]
    grown: tuple[str, ...] = ()
    memory_bound_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is a worker, no task has a problem, no stream is in several tasks, and no topic has grown."""
        return next(self.problems(), None) is None

    def split_streams(self) -> dict[str, list[int]]:
        """Return the streams with predictions of the last hour of event time in several tasks, with these tasks.

        The model in the wrong task remains, but once no record comes to it, nobody has to act.
        """
        newest_ms = max((time_ms for view in self.tasks for time_ms in view.recent.predicted_ms.values()), default=0)
        tasks_of: dict[str, list[int]] = {}
        for view in self.tasks:
            for stream, time_ms in view.recent.predicted_ms.items():
                if time_ms >= newest_ms - WINDOW_MS:
                    tasks_of.setdefault(stream, []).append(view.task)
        return {stream: tasks for stream, tasks in sorted(tasks_of.items()) if len(tasks) > 1}

    def to_json(self) -> str:
        """Return the inspection as a JSON document."""
        plain = {
            "application": self.application,
            "workers": self.workers,
            "ok": self.ok,
            "split_streams": self.split_streams(),
            "grown": list(self.grown),
            "memory_bound_bytes": self.memory_bound_bytes,
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
            yield "dead: all dead letters of the last hour of event time; those that need no"
            yield "attention, such as late labels, have no line below the table"
        if any(view.state is TaskState.NEW for view in self.tasks):
            yield "new: the task has not committed anything yet"

    def problems(self) -> Iterator[str]:
        """Yield a line for each problem."""
        yield from self.grown
        yield from (line for view in self.tasks for line in view.problems())
        yield from (split_text(stream, tasks) for stream, tasks in self.split_streams().items())
        if not self.workers:
            yield "no worker is running, so no task is processed; start one: areba run"
