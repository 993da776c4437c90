"""`areba state skip`: let a task continue if inputs that it needs were deleted before it had processed them.

Nothing is processed here. An act in progress says from which state and at which offsets the task continues. The next
worker that restores the task applies the act, and so does every later restore (`restore.Restore`). A running worker
reads progress only at its start. Therefore no worker may run.
"""

from collections.abc import Iterable, Iterator

from stream_app import __version__
from stream_app.admin.history import READ_TIMEOUT_S, finish, last_commit, progress_of, tripped_by
from stream_app.admin.models import Place
from stream_app.admin.recommit import chosen_tasks
from stream_app.backends.base import Sender, TopicPartition
from stream_app.errors import ErrorCode, StateError
from stream_app.records import SKIP, Act, Commit
from stream_app.recovery.changelog import Loaded, load
from stream_app.recovery.commit_point import HINT_RECOMMIT, RestoreTarget, committed_target
from stream_app.recovery.progress_script import SCRIPT_RECORDS
from stream_app.serialization import codec
from stream_app.snapshot.skipped_inputs import Gap, Offsets, read_gap


def skip(place: Place, sender: Sender, tasks: Iterable[int], *, dry_run: bool = False) -> Iterator[str]:
    """Let tasks continue without the inputs that were deleted; yield a line for each task.

    Args:
        place: The application.
        sender: Writes to its brokers.
        tasks: Numbers of the tasks; empty for all tasks. Tasks that can be restored are not changed.
        dry_run: Whether to only say what would be lost.

    Raises:
        ConfigurationError: There is no such task.
        StateError: Workers run, or the group's offsets and progress do not fit each other.
        UnknownOutcomeError: The broker did not answer in time.
    """
    if not dry_run:
        place.check_nobody_works()
    for task in chosen_tasks(place.cluster, place.config, tasks):
        act = look(place, task)
        if act is None:
            yield f"task {task}: no input that it needs was deleted"
            continue
        if not dry_run:
            now_ms = place.clock.now_ms()
            sender.send(place.config.topics.progress, None, codec.encode(act), now_ms, partition=task)
            sender.flush(READ_TIMEOUT_S)
            place.check_nobody_works()
        yield f"task {task}: {'would continue' if dry_run else 'continues'} {read_gap(act.text).words()}"


def look(place: Place, task: int) -> Act | None:
    """Return the act that lets a task skip deleted inputs; None if no input that it needs was deleted.

    Raises:
        StateError: The group's offsets and progress do not fit each other, or the breaker has stopped the task.
        UnknownOutcomeError: The broker did not answer in time.
    """
    topics = place.config.topics
    inputs = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    found = place.cluster.topics((topics.examples, topics.labels))
    topic_ids = (found[topics.examples].topic_id, found[topics.labels].topic_id)
    target = committed_target(inputs, place.cluster.committed(place.config.group_id, inputs), topic_ids)
    if target is None:
        return None
    changelog = TopicPartition(topics.changelog, task)
    names = (topics.examples, topics.labels)
    loaded = finish(place.cluster, changelog, lambda reader: load(reader, target.snapshots, task, names))
    recorded = _recorded(place, task, loaded)
    commit = _committed(recorded, target, task)
    lows = (place.cluster.watermarks(inputs[0]).low, place.cluster.watermarks(inputs[1]).low)
    state_sequence, processed, begin = _begin(recorded, loaded)
    if begin[0] >= lows[0] and begin[1] >= lows[1]:
        return None
    start = (max(commit.examples_end, begin[0]), max(commit.labels_end, begin[1]))
    end = (max(start[0], lows[0]), max(start[1], lows[1]))
    gap = Gap(state_sequence, commit.digest, processed, start, end)
    return Act(recorded[-1].sequence + 1, SKIP, __version__, gap.text())


def _recorded(place: Place, task: int, loaded: Loaded) -> list[Commit | Act]:
    """Return the records of progress from the commit record of the loaded snapshot on.

    Raises:
        StateError: Progress begins later, so there is no state to continue from; or it has too many records.
    """
    progress = TopicPartition(place.config.topics.progress, task)
    recorded = list(progress_of(place.cluster, progress, loaded.snapshot.progress_offset if loaded.snapshot else 0))
    wanted = loaded.manifest.sequence if loaded.manifest else 0
    if not recorded or recorded[0].sequence != wanted:
        found = f"sequence {recorded[0].sequence}" if recorded else "nothing"
        damage = "".join(f"; {line}" for line in loaded.damage)
        raise StateError(
            f"task {task}: progress begins with {found}, but sequence {wanted} is needed{damage}: no state is left to "
            "continue from. Use another application.id to start from the beginning",
            ErrorCode.SNAPSHOT_MISSING,
        )
    if len(recorded) > SCRIPT_RECORDS:
        raise StateError(
            f"task {task}: progress has {len(recorded):,} records after the task's snapshot, and at most "
            f"{SCRIPT_RECORDS:,} can be skipped. Use another application.id to start from the beginning",
            ErrorCode.SKIP_TOO_LONG,
        )
    return recorded


def _committed(recorded: list[Commit | Act], target: RestoreTarget, task: int) -> Commit:
    """Return the last commit record.

    Raises:
        StateError: The group has committed another one, or the breaker has stopped the task.
    """
    last = last_commit(recorded)
    if last is None or (last.sequence, last.digest) != target.point:
        sequence = last.sequence if last else "none"
        raise StateError(
            f"task {task}: progress ends with the commit of sequence {sequence}, but the committed offsets "
            f"name {target.point.sequence}: the group's offsets were reset. {HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        )
    if tripped_by(recorded) is not None:
        raise StateError(
            f"task {task} is stopped by the breaker: run `areba resume --task {task}` first", ErrorCode.TASK_TRIPPED
        )
    return last


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
    accepted = [read_gap(act.text) for act in recorded if isinstance(act, Act) and act.kind == SKIP]
    ends = [gap.end for gap in accepted if gap.state_sequence == state_sequence]
    return state_sequence, processed, ends[-1] if ends else processed
