"""An application as the tools see it, and its tasks, which they rebuild."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from rich.progress import Progress

from stream_app.admin.history import History, Rebuilt, Reporter
from stream_app.admin.progress.reading import since_last_commit
from stream_app.backends.base import Clock, TopicPartition, Transaction
from stream_app.backends.following import FollowableCluster
from stream_app.backends.partitioner import partition_of
from stream_app.backends.progress import absent_text, partitions_of
from stream_app.config import Config, TaskSettings
from stream_app.errors import ErrorCode, StateError, TopicError
from stream_app.pipeline.task import Task
from stream_app.progress_records import Act, Commit
from stream_app.serialization.wire_format import WireFormat, format_of
from stream_app.snapshot.parts import whole_acts
from stream_app.terminal import Terminal


class Application(NamedTuple):
    """An application as a command sees it.

    Attributes:
        config: Its configuration.
        cluster: Its cluster.
        clock: For deadlines.
        open_transaction: Makes a producer of a transactional id.
    """

    config: Config
    cluster: FollowableCluster
    clock: Clock
    open_transaction: Callable[[str], Transaction]

    @property
    def wire_format(self) -> WireFormat:
        """The format of the values in the input and output topics."""
        return format_of(self.config.serialization)

    def partitions(self) -> int:
        """Return the number of tasks.

        Raises:
            TopicError: The application has no topics.
        """
        topic = self.config.topics.progress
        if topic not in self.cluster.topics([topic]):
            raise TopicError(absent_text(topic))
        return partitions_of(self.cluster, self.config.topics)

    def task_of(self, stream: str, task: int | None) -> int:
        """Return `task`, or the task that processes a stream if `task` is None."""
        return partition_of(stream.encode(), self.partitions()) if task is None else task


@contextmanager
def waiting_for(task: int) -> Iterator[Reporter]:
    """Show a progress bar while a task is rebuilt."""
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_interactive) as progress:
        bar = progress.add_task(f"task {task}", total=None)

        def report(reached: tuple[int, int], wanted: tuple[int, int]) -> None:
            progress.update(bar, completed=sum(reached), total=sum(wanted))

        yield report


def rebuild(application: Application, task: int, at: tuple[int, int] | None) -> Rebuilt:
    """Rebuild a task as it was at a committed point, with a progress bar.

    Args:
        application: The application.
        task: Number of the task.
        at: Offsets (examples, labels) at which a commit ended; None for the newest commit and the acts after it, or for
            the acts alone if nothing was processed yet.

    Raises:
        StateError: There is no such commit, or the state cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """
    if at is not None:
        return committed(application, task, at)
    recorded = since_last_commit(application.cluster, TopicPartition(application.config.topics.progress, task))
    rebuilt: Rebuilt | None = None
    if not recorded or isinstance(recorded[0], Commit):
        rebuilt = committed(application, task, None)
        if not recorded or recorded[0].sequence != rebuilt.sequence:
            return rebuilt  # a worker has committed meanwhile, and applied the acts
    rebuilt = with_acts(application, task, rebuilt, recorded)
    if rebuilt is None:
        raise StateError(f"task {task}: its progress has no whole configuration", ErrorCode.NOT_FOUND)
    return rebuilt


def with_acts(
    application: Application, task: int, rebuilt: Rebuilt | None, recorded: Sequence[Commit | Act]
) -> Rebuilt | None:
    """Return a task after these acts; without a commit, the first of them is the configuration with which it begins.

    Raises:
        StateError: An act does not fit.
    """
    for act in whole_acts(recorded):
        if isinstance(act, Act) and rebuilt is None:
            first = Task(task, TaskSettings.from_json(act.text), application.config.topics.inputs)
            rebuilt = Rebuilt(first, act.sequence, (0, 0))
        elif isinstance(act, Act) and rebuilt is not None:
            rebuilt.task.apply(act)
            rebuilt = replace(rebuilt, sequence=act.sequence)
    return rebuilt


def committed(application: Application, task: int, at: tuple[int, int] | None = None) -> Rebuilt:
    """Rebuild a task as it was after a commit record, without the acts after it; None: after the newest.

    Raises:
        StateError: There is no such commit, or the state cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """
    history = History(application.config, application.cluster, task)
    with waiting_for(task) as report:
        return history.rebuild(history.at(at), application.clock, report)


# Explaining -----------------------------------------------------------------------------------------------------------
