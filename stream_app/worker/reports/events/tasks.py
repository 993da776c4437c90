"""The assignment of tasks, their restore, and their end."""

from collections.abc import Mapping, Sequence

from stream_app.errors import StateError
from stream_app.task_state import TaskState
from stream_app.worker.reports.events.base import ERROR, INFO, WARNING, Event, TaskEvent, event


@event("assigned", INFO, " tasks={tasks}")
class Assigned(Event):
    """The group has given these tasks to this worker."""

    tasks: Sequence[int]


@event("revoked", INFO, " tasks={tasks}")
class Revoked(Event):
    """The group has taken these tasks back."""

    tasks: Sequence[int]


@event("continued", INFO, " task={task} sequence={sequence}")
class TaskContinued(TaskEvent):
    """The group has given a task back to its last owner.

    Nobody has committed anything for it in between, so the task continues without a restore.
    """

    sequence: int
    committed: tuple[int, int]


@event()
class RestoreBegan(TaskEvent):
    """A task must be restored, after an assignment or an aborted transaction."""


@event("restoring", INFO, " task={task} state={state} offsets={examples}/{labels} of={examples_goal}/{labels_goal}")
class Restoring(TaskEvent):
    """A task is being restored.

    The line has its state, the offsets that its restore has reached (-1: it has not begun), and those that it has to
    reach. Logged every ten seconds.
    """

    state: TaskState
    offsets: tuple[int, int] | None
    goal: tuple[int, int]


@event("damaged", ERROR, " task={task}: {problem}; continuing without it")
class Damaged(TaskEvent):
    """A snapshot or committed outputs cannot be read.

    Without a snapshot, the task is restored from an older snapshot, or from the first offset. Outputs are lost if their
    inputs are gone as well; the line names the topic and the commits.
    """

    problem: str


@event("topic-replaced", WARNING, " task={task} {problem}")
class TopicReplaced(TaskEvent):
    """A topic was deleted and created again. The task continues; the line says what is gone."""

    problem: str


@event("repaired", WARNING, " task={task} {counts}: they could not be read")
class Repaired(TaskEvent):
    """Committed outputs that no reader could see were published again.

    `progress`: only records of progress were lost.
    """

    records: Mapping[str, int]


@event("restored", INFO, " task={task} sequence={sequence} reprocessed={records} snapshot={snapshot}")
class TaskRestored(TaskEvent):
    """A task is live again.

    The line has its sequence, the number of records that were processed again, and the sequence of the snapshot (-1:
    none).
    """

    sequence: int
    committed: tuple[int, int]
    snapshot: int
    records: int


@event("changed", INFO, " task={task} {change}")
class SettingChanged(TaskEvent):
    """From now on a task uses the new value of a setting."""

    change: str


@event("parked", ERROR, " task={task}: {problem}")
class TaskParked(TaskEvent):
    """A task cannot be restored or processed; the other tasks continue. The line ends with the code of the problem."""

    problem: StateError


@event("stopped", INFO, " task={task} sequence={sequence} models={models}")
class WorkerStopped(TaskEvent):
    """A clean stop: the task's last sequence, and the digest of all its models."""

    sequence: int
    models: str
