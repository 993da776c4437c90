"""`areba state skip`: let a task continue if inputs that it needs were deleted before it had processed them.

Nothing is processed here. An act in progress says from which state and at which offsets the task continues. The next
worker that restores the task applies the act, and so does every later restore (`restore.Restore`). No worker may run,
see `progress.writer`.
"""

from collections.abc import Iterable, Iterator

from stream_app import __version__
from stream_app.admin.models import Application
from stream_app.admin.progress.reading import chosen_tasks, last_commit, named_snapshots, progress_of, progress_tail
from stream_app.admin.progress.writer import progress_writer
from stream_app.backends.base import TopicPartition
from stream_app.backends.reading import finish
from stream_app.errors import ErrorCode, StateError
from stream_app.progress_records import SKIP, Act, Commit
from stream_app.recovery.changelog import Loaded, load
from stream_app.recovery.progress_script import SCRIPT_RECORDS
from stream_app.snapshot.skipped_inputs import Gap, Offsets


def skip(application: Application, tasks: Iterable[int], *, dry_run: bool = False) -> Iterator[str]:
    """Let tasks continue without the inputs that were deleted; yield a line for each task.

    Without `tasks`, all tasks are looked at; those that can be restored are not changed. A dry run only says what would
    be lost.

    Raises:
        ConfigurationError: There is no such task.
        StateError: Workers run, another command has started, or no state is left from which a task can continue.
        UnknownOutcomeError: The broker did not answer in time.
    """
    with progress_writer(application, dry_run=dry_run) as writer:
        for task in chosen_tasks(application.cluster, application.config, tasks):
            writer.begin(task)
            act = look(application, task)
            if act is None:
                yield f"task {task}: no input that it needs was deleted"
                continue
            writer.write(task, [act])
            yield f"task {task}: {'would continue' if dry_run else 'continues'} {Gap.from_text(act.text).words()}"


def look(application: Application, task: int) -> Act | None:
    """Return the act that lets a task skip deleted inputs; None if no input that it needs was deleted.

    The task continues from the newest snapshot that is whole, which a restore finds in the same way.

    Raises:
        StateError: No state is left from which the task can continue, or too many records follow it.
        UnknownOutcomeError: The broker did not answer in time.
    """
    topics = application.config.topics
    inputs = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    changelog, progress = TopicPartition(topics.changelog, task), TopicPartition(topics.progress, task)
    if last_commit(progress_tail(application.cluster, progress)) is None:
        return None
    named = named_snapshots(application.cluster, progress)
    names = topics.inputs
    loaded = finish(application.cluster, changelog, lambda reader: load(reader, named, task, names))
    recorded = _recorded(application, task, loaded)
    commit = last_commit(recorded)
    if commit is None:
        raise AssertionError("the records from a snapshot on include its commit record")
    lows = (application.cluster.watermarks(inputs[0]).low, application.cluster.watermarks(inputs[1]).low)
    state_sequence, processed, begin = _begin(recorded, loaded)
    if begin[0] >= lows[0] and begin[1] >= lows[1]:
        return None
    start = (max(commit.examples_end, begin[0]), max(commit.labels_end, begin[1]))
    end = (max(start[0], lows[0]), max(start[1], lows[1]))
    gap = Gap(state_sequence, commit.digest, processed, start, end)
    return Act(recorded[-1].sequence + 1, SKIP, __version__, gap.text())


def _recorded(application: Application, task: int, loaded: Loaded) -> list[Commit | Act]:
    """Return the records of progress from the commit record of the loaded snapshot on.

    Raises:
        StateError: Progress begins later, so there is no state to continue from; or it has too many records.
    """
    progress = TopicPartition(application.config.topics.progress, task)
    recorded = list(
        progress_of(application.cluster, progress, loaded.snapshot.progress_offset if loaded.snapshot else 0)
    )
    wanted = loaded.manifest.sequence if loaded.manifest else 0
    if not recorded or recorded[0].sequence != wanted:
        found = f"sequence {recorded[0].sequence}" if recorded else "nothing"
        damage = "".join(f"; {line}" for line in loaded.damage)
        raise StateError(
            f"task {task}: progress begins with {found}, but sequence {wanted} is needed{damage}: no state is left to "
            "continue from. Use another application.id to start from the beginning",
            ErrorCode.PROGRESS_LOST,
        )
    if len(recorded) > SCRIPT_RECORDS:
        raise StateError(
            f"task {task}: progress has {len(recorded):,} records after the task's snapshot, and at most "
            f"{SCRIPT_RECORDS:,} can be skipped. Use another application.id to start from the beginning",
            ErrorCode.SKIP_MISFIT,
        )
    return recorded


def _begin(recorded: list[Commit | Act], loaded: Loaded) -> tuple[int, Offsets, Offsets]:
    """Return where a restore begins.

    Returns:
        The sequence of the state that is loaded (-1: none), the offsets after the last records that this state has
        processed, and the offsets at which the restore reads the inputs.
    """
    first = next(record for record in recorded if isinstance(record, Commit))
    state_sequence, processed = -1, (first.examples_start, first.labels_start)
    if loaded.manifest:
        state_sequence, processed = loaded.manifest.sequence, loaded.manifest.offsets
    accepted = [Gap.from_text(act.text) for act in recorded if isinstance(act, Act) and act.kind == SKIP]
    ends = [gap.end for gap in accepted if gap.state_sequence == state_sequence]
    return state_sequence, processed, ends[-1] if ends else processed
