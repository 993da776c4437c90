"""`areba state skip`: a task whose inputs were deleted before it had done with them goes on without them.

Nothing is processed here. An act in progress says from which state and at which offsets the task goes on; the next
worker that restores it finds the act, and so does every restore after that (`restore.Restore`). All workers must be
stopped: a running one reads progress at its start only.
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
    """Let these tasks go on without the inputs that are gone; a line for each.

    Args:
        place: The application.
        sender: To its brokers.
        tasks: Their numbers; all, where none is named: those that can be restored are left as they are.
        dry_run: Whether to only say what would be lost.

    Raises:
        ConfigurationError: There is no such task.
        StateError: Workers run, or offsets and progress do not belong together.
        UnknownOutcomeError: The broker fell silent.
    """
    if not dry_run:
        place.check_nobody_works()
    for task in chosen_tasks(place.cluster, place.config, tasks):
        act = look(place, task)
        if act is None:
            yield f"task {task}: all that it needs is there"
            continue
        if not dry_run:
            now_ms = place.clock.now_ms()
            sender.send(place.config.topics.progress, None, codec.encode(act), now_ms, partition=task)
            sender.flush(READ_TIMEOUT_S)
            place.check_nobody_works()
        yield f"task {task}: {'would go' if dry_run else 'goes'} on {read_gap(act.text).words()}"


def look(place: Place, task: int) -> Act | None:
    """What has to be written of a task; None: it can be restored as it is.

    Raises:
        StateError: Offsets and progress do not belong together, or the breaker stopped it.
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
    behind, processed, begin = _begin(recorded, loaded)
    if begin[0] >= lows[0] and begin[1] >= lows[1]:
        return None
    start = (max(commit.examples_end, begin[0]), max(commit.labels_end, begin[1]))
    end = (max(start[0], lows[0]), max(start[1], lows[1]))
    gap = Gap(behind, commit.digest, processed, start, end)
    return Act(recorded[-1].sequence + 1, SKIP, __version__, gap.text())


def _recorded(place: Place, task: int, loaded: Loaded) -> list[Commit | Act]:
    """Progress from the record of the snapshot on.

    Raises:
        StateError: It begins later: the snapshot cannot be used, or there is none.
    """
    progress = TopicPartition(place.config.topics.progress, task)
    recorded = list(progress_of(place.cluster, progress, loaded.snapshot.progress_offset if loaded.snapshot else 0))
    wanted = loaded.manifest.sequence if loaded.manifest else 0
    if not recorded or recorded[0].sequence != wanted:
        found = f"sequence {recorded[0].sequence}" if recorded else "nothing"
        damage = "".join(f"; {line}" for line in loaded.damage)
        raise StateError(
            f"task {task}: progress begins with {found}, sequence {wanted} is needed{damage}: there is no state to go "
            "on from; another application.id starts from the beginning",
            ErrorCode.SNAPSHOT_MISSING,
        )
    if len(recorded) > SCRIPT_RECORDS:
        raise StateError(
            f"task {task}: {len(recorded):,} records of progress lie behind its snapshot; at most {SCRIPT_RECORDS:,} "
            "can be left out",
            ErrorCode.SKIP_TOO_LONG,
        )
    return recorded


def _committed(recorded: list[Commit | Act], target: RestoreTarget, task: int) -> Commit:
    """The last commit record, which must be the committed one, and not have stopped the task."""
    last = last_commit(recorded)
    if last is None or (last.sequence, last.digest) != target.point:
        sequence = last.sequence if last else "none"
        raise StateError(
            f"task {task}: progress ends with the commit of sequence {sequence}, {target.point.sequence} is "
            f"committed: the group's offsets were reset. {HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        )
    if tripped_by(recorded) is not None:
        raise StateError(
            f"task {task} is stopped by the breaker: `areba resume --task {task}` first", ErrorCode.TASK_TRIPPED
        )
    return last


def _begin(recorded: list[Commit | Act], loaded: Loaded) -> tuple[int, Offsets, Offsets]:
    """The sequence of the state that a restore begins with, the offsets that it has seen, and where it would read."""
    first = next(record for record in recorded if isinstance(record, Commit))
    behind, processed = -1, (first.examples_start, first.labels_start)
    if loaded.manifest:
        behind, processed = loaded.manifest.sequence, loaded.manifest.offsets
    accepted = [read_gap(act.text) for act in recorded if isinstance(act, Act) and act.kind == SKIP]
    ends = [gap.end for gap in accepted if gap.behind == behind]
    return behind, processed, ends[-1] if ends else processed
