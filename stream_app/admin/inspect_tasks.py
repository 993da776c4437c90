"""`areba inspect`: find out the state of an application and its tasks from its topics and its group.

No worker is asked, and nothing is processed again: only `areba verify` finds tasks whose digests would differ. The
cost grows only with the number of tasks: only the tails of progress and of the outputs are read, and the manifests that
the committed offsets name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from stream_app.admin.history import finish, last_commit, progress_of, progress_tail, tripped_by
from stream_app.admin.inspection import Input, Inspection, TaskView
from stream_app.admin.recent_outputs import recent
from stream_app.admin.recommit import chosen_tasks
from stream_app.backends.base import Cluster, Committed, TopicPartition
from stream_app.backends.partition_count import grown, partitions_of
from stream_app.backends.reading import read_rows
from stream_app.backends.topics import largest_batch_bytes
from stream_app.config import Config
from stream_app.config.memory_bound import bound_of
from stream_app.errors import ErrorCode, StateError
from stream_app.records import CONFIGURATION, SKIP, Act, Commit
from stream_app.recovery.changelog import manifests_of
from stream_app.recovery.commit_point import (
    HINT_RECOMMIT,
    HINT_SKIP,
    RestoreTarget,
    check_topic_ids,
    committed_target,
    offsets_lost,
    offsets_reset,
)
from stream_app.snapshot.identity import other_rules
from stream_app.snapshot.skipped_inputs import read_gap
from stream_app.task_state import TaskState

COMMANDS = {
    ErrorCode.OFFSETS_LOST: "areba state recommit",
    ErrorCode.OFFSETS_RESET: "areba state recommit",
    ErrorCode.SNAPSHOT_MISSING: "areba state recommit",
    ErrorCode.INPUTS_DELETED: "areba state skip",
}
"""The command that lets a parked task continue."""

MAX_MARKERS = 100
"""Offsets after the committed one in which a record is looked for; if there are more, there surely is one."""


def inspect(
    cluster: Cluster,
    config: Config,
    tasks: Iterable[int] = (),
    watched: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> Inspection:
    """Inspect tasks of an application.

    Args:
        cluster: Where the topics are.
        config: The application's configuration.
        tasks: Numbers of the tasks; empty for all tasks.
        watched: Iterates over the numbers, and may show the progress.

    Raises:
        ConfigurationError: There is no such task.
        TopicError: A topic is missing, or the broker does not allow us to read it.
        UnknownOutcomeError: The broker did not answer in time.
    """
    chosen = chosen_tasks(cluster, config, tasks)
    workers = len(cluster.members(config.group_id))
    found = cluster.topics(config.topics)
    examples, labels = (found[name].topic_id for name in (config.topics.examples, config.topics.labels))
    views = tuple(_inspect_task(cluster, config, task, workers, (examples, labels)) for task in watched(chosen))
    lines = grown(found, config.topics, partitions_of(cluster, config.topics))
    bound = bound_of(config, config.task_settings(), largest_batch_bytes(found[config.topics.labels]))
    return Inspection(config.application.id, workers, views, lines, bound.total(len(chosen)))


def _inspect_task(cluster: Cluster, config: Config, task: int, workers: int, topic_ids: tuple[str, str]) -> TaskView:
    """Inspect one task.

    Committed offsets are fetched before and after progress is read, since a worker may commit in the meantime.
    """
    topics = config.topics
    inputs = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    before = cluster.committed(config.group_id, inputs)
    progress = TopicPartition(topics.progress, task)
    error: StateError | None = None
    tail: list[Commit | Act] = []
    facts = _Facts()
    try:
        tail = progress_tail(cluster, progress)
    except StateError as caught:
        error = caught
    after = cluster.committed(config.group_id, inputs)
    views = (_input(cluster, after, inputs[0]), _input(cluster, after, inputs[1]))
    try:
        if error is None:
            target = _checked_target(inputs, (before, after), tail, topic_ids)
            facts = _Facts() if target is None else _gathered(cluster, config, task, target, tail)
            _check_rules(tail, facts)
            _check_inputs(task, views, _needed_offsets(cluster, progress, facts, views))
    except StateError as caught:
        error = caught
    state, problem, command = _state(task, error, tail, workers)
    last = last_commit(tail)
    return TaskView(
        task=task,
        state=state,
        problem=problem,
        code=error.code if error else None,
        command=command,
        inputs=views,
        recent=recent(cluster, config, task),
        sequence=last.sequence if last else -1,
        snapshots=facts.snapshots,
        snapshot_sequence=facts.snapshot_sequence,
        snapshot_bytes=facts.snapshot_bytes,
        engine=facts.engine,
    )


class _Facts(NamedTuple):
    """Known facts about a task that has committed something; see also `TaskView`.

    Attributes:
        snapshots: Number of the named snapshots that can be read.
        snapshot_sequence: Sequence of the newest of these; -1: none.
        engine: The version of areba that wrote the newest configuration or snapshot.
        needed: The offsets (examples, labels) from which a restore reads the inputs, unless inputs were skipped.
        progress_offset: Offset of the newest snapshot's commit record in progress.
        snapshot_bytes: Size of the newest snapshot.
    """

    snapshots: int = 0
    snapshot_sequence: int = -1
    engine: str | None = None
    needed: tuple[int, int] | None = None
    progress_offset: int = 0
    snapshot_bytes: int = 0


def _state(
    task: int, error: StateError | None, tail: Sequence[Commit | Act], workers: int
) -> tuple[TaskState, str | None, str | None]:
    """Return the state of a task, the problem, and the command that lets the task continue."""
    if error is not None:
        return TaskState.PARKED, str(error), COMMANDS.get(error.code)
    tripped = tripped_by(tail)
    if tripped is not None:
        return TaskState.TRIPPED, tripped, f"areba resume --task {task}"
    if last_commit(tail) is None:
        return TaskState.NEW, None, None
    return TaskState.RUNNING if workers else TaskState.IDLE, None, None


def _input(cluster: Cluster, committed: Mapping[TopicPartition, Committed | None], partition: TopicPartition) -> Input:
    known = committed.get(partition)
    result = Input(partition.topic, known.offset if known else None, *cluster.watermarks(partition))
    return result._replace(is_read=_is_read(cluster, partition, result))


def _is_read(cluster: Cluster, partition: TopicPartition, known: Input) -> bool:
    """Say whether only markers follow the committed offset: each transaction of a producer ends with such an offset.

    `areba dlq replay` writes transactions, and the committed offset never moves beyond the last record.
    """
    if known.committed is None or not 0 < known.high - known.committed <= MAX_MARKERS:
        return False
    if cluster.ends([partition])[partition].stable < known.high:
        return False  # an open transaction may have records
    with closing(cluster.reader(partition)) as reader:
        reader.seek(known.committed)
        return next(read_rows(reader, f"{partition.topic}[{partition.partition}]"), None) is None


def _checked_target(
    inputs: tuple[TopicPartition, TopicPartition],
    committed: tuple[Mapping[TopicPartition, Committed | None], Mapping[TopicPartition, Committed | None]],
    tail: Sequence[Commit | Act],
    topic_ids: tuple[str, str],
) -> RestoreTarget | None:
    """Compare what the group has committed with progress, and return it; None if nothing was ever committed.

    Args:
        inputs: The task's partitions of examples and labels.
        committed: Committed offsets before and after progress was read.
        tail: The last records of progress.
        topic_ids: Ids of the input topics.

    Raises:
        StateError: Offsets and progress do not fit each other, or an input was deleted and created again.
    """
    earlier, now = (committed_target(inputs, known, topic_ids) for known in committed)
    last = last_commit(tail)
    if last is not None:
        check_topic_ids(inputs, (last.examples_topic_id, last.labels_topic_id), topic_ids)
    if now is None:
        if last is not None:
            raise offsets_lost(last.sequence)
        return None
    if last is not None and last.sequence > now.point.sequence:
        raise offsets_reset(last.sequence, now.point.sequence)
    if earlier is not None and (last is None or earlier.point.sequence > last.sequence):
        raise StateError(
            f"progress ends with sequence {last.sequence if last else 'none'}, but the committed offsets name "
            f"{earlier.point.sequence}: they do not belong to this progress. {HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        )
    for target, known in zip((earlier, now), committed, strict=True):
        for record in tail:
            if target is not None and isinstance(record, Commit) and record.sequence == target.point.sequence:
                _check_commit(record, target, tuple(known[partition] for partition in inputs))
    return now


def _check_commit(record: Commit, target: RestoreTarget, committed: Sequence[Committed | None]) -> None:
    """Check that a commit record fits the committed offsets that name it.

    Raises:
        StateError: The digests or the offsets differ.
    """
    found, wanted = record.digest.hex()[:16], target.point.digest.hex()[:16]
    if found != wanted:
        raise StateError(
            f"sequence {record.sequence} has digest {found}, but the committed offsets name {wanted}. {HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        )
    ends, offsets = [record.examples_end, record.labels_end], [known.offset for known in committed if known]
    if ends != offsets:
        raise StateError(
            f"sequence {record.sequence} ends at offsets {'/'.join(map(str, ends))}, but "
            f"{'/'.join(map(str, offsets))} are committed: the group's offsets were changed. {HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        )


def _gathered(
    cluster: Cluster, config: Config, task: int, target: RestoreTarget, tail: Sequence[Commit | Act]
) -> _Facts:
    """Return what the newest snapshot says, or the beginning of progress if no snapshot can be read.

    Raises:
        StateError: The beginning of progress was deleted, and no snapshot can be read.
    """
    changelog = TopicPartition(config.topics.changelog, task)
    found = finish(cluster, changelog, lambda reader: manifests_of(reader, target.snapshots, task))
    found.sort(key=lambda one: one[1].sequence)
    engine = next((act.engine for act in reversed(tail) if isinstance(act, Act) and act.kind == CONFIGURATION), None)
    if found:
        snapshot, newest = found[-1]
        return _Facts(
            len(found),
            newest.sequence,
            engine or newest.engine,
            newest.offsets,
            snapshot.progress_offset,
            sum(entry.length for entry in newest.entries),
        )
    first = _beginning(cluster, TopicPartition(config.topics.progress, task))
    if first and first[0].sequence > 0:
        reason = "none of its snapshots can be read" if target.snapshots else "the committed offsets name no snapshot"
        raise StateError(
            f"progress begins with sequence {first[0].sequence}, and {reason}. `areba state recommit` looks for a "
            "snapshot; another application.id starts from the beginning",
            ErrorCode.SNAPSHOT_MISSING,
        )
    engine = engine or next((act.engine for act in reversed(first) if isinstance(act, Act)), None)
    begin = next((record for record in first if isinstance(record, Commit)), None)
    return _Facts(engine=engine, needed=(begin.examples_start, begin.labels_start) if begin else None)


def _check_rules(tail: Sequence[Commit | Act], facts: _Facts) -> None:
    """Check that this version has the rules of the commits that a restore processes again.

    Raises:
        StateError: They were processed under other rules.
    """
    last = last_commit(tail)
    if last is not None and last.sequence > facts.snapshot_sequence:
        problem = other_rules(last.rules, last.sequence, facts.engine or "0.x")
        if problem is not None:
            raise StateError(problem, ErrorCode.OTHER_RULES)


def _beginning(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """Read progress up to its first commit record, before which are a configuration and imported states."""
    first: list[Commit | Act] = []
    for record in progress_of(cluster, progress):
        first.append(record)
        if isinstance(record, Commit):
            break
    return first


def _needed_offsets(
    cluster: Cluster, progress: TopicPartition, facts: _Facts, inputs: tuple[Input, Input]
) -> tuple[int, int] | None:
    """Return the offsets from which a restore reads the inputs: after the last skip, if inputs were skipped."""
    needed = facts.needed
    if needed is None or all(known.low <= offset for known, offset in zip(inputs, needed, strict=True)):
        return needed  # no input that is needed was deleted, so it does not matter whether some were skipped
    for record in progress_of(cluster, progress, facts.progress_offset):
        if isinstance(record, Act) and record.kind == SKIP:
            skipped = read_gap(record.text)
            needed = skipped.end if skipped.state_sequence == facts.snapshot_sequence else needed
    return needed


def _check_inputs(task: int, inputs: tuple[Input, Input], needed: tuple[int, int] | None) -> None:
    """Check that the inputs still have what a restore reads.

    Raises:
        StateError: They do not.
    """
    for known, offset in zip(inputs, needed or (None, None), strict=True):
        where = f"{known.topic}[{task}]"
        if offset is not None and offset < known.low:
            raise StateError(
                f"{where} starts at offset {known.low}, but offset {offset} is needed to restore the task; it was "
                f"deleted (retention). {HINT_SKIP}",
                ErrorCode.INPUTS_DELETED,
            )
        if known.committed is not None and known.committed > known.high:
            raise StateError(
                f"{where} ends at offset {known.high}, but offset {known.committed} is committed: this is not the "
                "topic that the task has read",
                ErrorCode.INPUTS_REPLACED,
            )
