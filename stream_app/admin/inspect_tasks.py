"""`areba inspect`: find out the state of an application and its tasks from its topics and its group.

No worker is asked, and nothing is processed again: only `areba verify` finds tasks whose digests would differ. The
cost grows only with the number of tasks: only the tails of progress and of the outputs are read, and the manifests that
progress names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from stream_app.admin.inspection import Input, Inspection, TaskView
from stream_app.admin.progress.reading import (
    chosen_tasks,
    from_last_commit,
    last_commit,
    named_snapshots,
    progress_of,
    progress_tail,
    stops_of,
)
from stream_app.admin.recent.inputs import tails_of
from stream_app.admin.recent.outputs import recent
from stream_app.admin.standstill import standing_still
from stream_app.backends.base import Clock, Cluster, TopicInfo, TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.progress import absent_text, partitions_of
from stream_app.backends.questions import Retention
from stream_app.backends.reading import Row, columns_of, finish, rows_of
from stream_app.backends.retention import FOREVER, retention_of
from stream_app.backends.topics import largest_batch_bytes, problems_of
from stream_app.config import Config, Topics
from stream_app.config.memory_bound import bound_of
from stream_app.errors import ErrorCode, StateError, TopicError
from stream_app.progress_records import CONFIGURATION, SKIP, Act, Commit
from stream_app.recovery.changelog import load, manifests_of
from stream_app.recovery.refusals import HINT_SKIP, HINT_STOP, check_topic_ids, progress_lost
from stream_app.snapshot.identity import other_rules
from stream_app.snapshot.needed_records import NeededRecords, Now
from stream_app.snapshot.parts import whole_acts
from stream_app.snapshot.skipped_inputs import Gap
from stream_app.task_state import TaskState

COMMANDS = {ErrorCode.INPUTS_DELETED: "areba state skip"}
"""The command that lets a parked task continue."""

_SYSTEM_CLOCK: Clock = SystemClock()

_SAMPLE_RECORDS = 100
"""Records that tell the size of a record."""


def inspect(
    cluster: Cluster,
    config: Config,
    tasks: Iterable[int] = (),
    watched: Callable[[Sequence[int]], Iterable[int]] = iter,
    clock: Clock = _SYSTEM_CLOCK,
) -> Inspection:
    """Inspect tasks of an application.

    Without `tasks`, all tasks are inspected; `watched` may show the progress.

    Raises:
        ConfigurationError: There is no such task.
        TopicError: A topic is missing, or the broker does not allow us to read it.
        UnknownOutcomeError: The broker did not answer in time.
    """
    chosen = chosen_tasks(cluster, config, tasks)
    workers = len(cluster.members(config.group_id))
    found = cluster.topics(config.topics)
    if absent := [absent_text(name) for name in config.topics if name not in found]:
        raise TopicError(absent)
    look_at = partial(_inspect_again, cluster, config, found, workers, clock.now_ms())
    views = tuple(map(look_at, watched(chosen)))
    views = tuple(standing_still(cluster, config, views, clock))
    number = partitions_of(cluster, config.topics)
    lines = tuple(problems_of(found, config, number))
    tails = tails_of(cluster, config.topics.inputs, chosen, number)
    bound = bound_of(config, config.task_settings(), largest_batch_bytes(found[config.topics.labels]))
    return Inspection(config.application.id, workers, views, lines, bound.total(len(chosen)), tails, clock.now_ms())


def _inspect_again(
    cluster: Cluster, config: Config, found: Mapping[str, TopicInfo], workers: int, now_ms: int, task: int
) -> TaskView:
    """Inspect one task; if a running worker has deleted what was about to be read, inspect it again.

    A worker deletes the beginning of progress after a snapshot, which is no problem of the task.
    """
    view = _inspect_task(cluster, config, found, workers, now_ms, task)
    if workers and view.code is ErrorCode.OFFSET_GONE:
        view = _inspect_task(cluster, config, found, workers, now_ms, task)
    return view


def _inspect_task(
    cluster: Cluster, config: Config, found: Mapping[str, TopicInfo], workers: int, now_ms: int, task: int
) -> TaskView:
    """Inspect one task."""
    topics = config.topics
    inputs = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    topic_ids = found[topics.examples].topic_id, found[topics.labels].topic_id
    of_group = cluster.committed(config.group_id, inputs)
    progress = TopicPartition(topics.progress, task)
    error: StateError | None = None
    tail: list[Commit | Act] = []
    facts, used = _Facts(), None
    stopped: Mapping[str, str] = {}
    try:
        tail = progress_tail(cluster, progress)
        stopped = stops_of(tail).reasons
        _check_end(from_last_commit(tail), f"progress[{task}]")
    except StateError as caught:
        error = caught
    last = last_commit(tail)
    ends = (last.examples_end, last.labels_end) if last is not None else (None, None)
    views = (_input(cluster, ends[0], inputs[0]), _input(cluster, ends[1], inputs[1]))
    try:
        if error is None:
            if last is not None:
                check_topic_ids(inputs, (last.examples_topic_id, last.labels_topic_id), topic_ids)
                facts = _gathered(cluster, config, task, tail)
            elif not tail:
                _check_new(cluster, config, task)
            _check_rules(tail, facts)
            needed = _needed_offsets(cluster, progress, facts, views)
            _check_inputs(task, views, needed, HINT_STOP if workers else HINT_SKIP)
            reached = [known.committed or 0 for known in views]
            needs = [_Need(*one) for one in zip(inputs, needed or reached, reached, strict=True)]
            recorded = _Need(progress, facts.progress_offset, cluster.watermarks(progress).high)
            used = _retention_used(cluster, found, [*needs, recorded], now_ms)
    except StateError as caught:
        error = caught
    state, problem, command = _state(error, last, workers)
    return TaskView(
        task=task,
        state=state,
        problem=problem,
        code=error.code if error else None,
        command=command,
        inputs=views,
        recent=recent(cluster, config, task, views[1].committed or 0, _kept_ms(found, config.topics)),
        sequence=last.sequence if last else -1,
        snapshots=facts.snapshots,
        snapshot_sequence=facts.snapshot_sequence,
        snapshot_bytes=facts.snapshot_bytes,
        engine=facts.engine,
        stopped_streams=max(last.stopped_streams if last else 0, len(stopped)),
        stopped=stopped,
        retention_used=used,
        group_offsets=_changed((of_group[inputs[0]], of_group[inputs[1]]), ends, workers),
    )


_Offsets: TypeAlias = tuple[int | None, int | None]


def _changed(of_group: _Offsets, ends: _Offsets, workers: int) -> _Offsets | None:
    """Return the group's offsets if a worker has not committed them; None otherwise.

    They expire without workers. While workers run, they may be older than progress, which is read later.
    """
    pairs = [(known, end or 0) for known, end in zip(of_group, ends, strict=True) if known is not None]
    return of_group if any(known > end or (known < end and not workers) for known, end in pairs) else None


def _kept_ms(found: Mapping[str, TopicInfo], names: Topics) -> int:
    """Return the shorter retention of both inputs in milliseconds; negative: no limit."""
    return min((kept for kept in (retention_of(found[name]) for name in names[:2]) if kept >= 0), default=FOREVER)


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


def _state(error: StateError | None, last: Commit | None, workers: int) -> tuple[TaskState, str | None, str | None]:
    """Return the state of a task, the problem, and the command that lets the task continue."""
    if error is not None and error.code is ErrorCode.INPUTS_DELETED and workers:
        return TaskState.RUNNING, str(error), None  # a live task has its state in memory, and can save it
    if error is not None:
        return TaskState.PARKED, str(error), COMMANDS.get(error.code)
    if last is None:
        return TaskState.NEW, None, None
    return TaskState.RUNNING if workers else TaskState.IDLE, None, None


def _input(cluster: Cluster, committed: int | None, partition: TopicPartition) -> Input:
    return Input(partition.topic, committed, *cluster.watermarks(partition))


def _check_end(records: Sequence[Commit | Act], where: str) -> None:
    """Check the end of progress as a restore does.

    Args:
        records: The last commit record and the acts after it, or all records if none is a commit record.
        where: The partition, for the error.

    Raises:
        StateError: The records do not follow one another, or an act cannot be read.
    """
    first = records[0].sequence if records and isinstance(records[0], Commit) else 0
    for expected, record in enumerate(records, first):
        if record.sequence != expected:
            raise StateError(f"{where}: sequence {record.sequence} follows {expected - 1}")
    try:
        for whole in whole_acts(records):
            if isinstance(whole, Act) and whole.kind == SKIP:
                Gap.from_text(whole.text)
    except StateError as problem:
        raise problem.within(where) from problem


def _check_new(cluster: Cluster, config: Config, task: int) -> None:
    """Check that a task without progress has no snapshot either.

    Raises:
        StateError: Its progress was lost.
    """
    topics = config.topics
    changelog, inputs = TopicPartition(topics.changelog, task), topics.inputs
    if finish(cluster, changelog, lambda reader: load(reader, (), task, inputs)).has_unused_snapshot:
        raise progress_lost(task, "it is empty, and the changelog has a snapshot")


def _gathered(cluster: Cluster, config: Config, task: int, tail: Sequence[Commit | Act]) -> _Facts:
    """Return what the newest snapshot says, or the beginning of progress if no snapshot can be read.

    Raises:
        StateError: The beginning of progress was deleted, and no snapshot can be read.
    """
    changelog = TopicPartition(config.topics.changelog, task)
    named = named_snapshots(cluster, TopicPartition(config.topics.progress, task))
    found = finish(cluster, changelog, lambda reader: manifests_of(reader, named, task))
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
        reason = "none of its snapshots can be read" if named else "it names no snapshot"
        raise StateError(
            f"progress begins with sequence {first[0].sequence}, and {reason}. Another application.id starts from the "
            "beginning",
            ErrorCode.PROGRESS_LOST,
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
        problem = other_rules(last.rules, last.sequence, facts.engine or "of an unknown version")
        if problem is not None:
            raise StateError(problem, ErrorCode.OTHER_VERSION)


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
            skipped = Gap.from_text(record.text)
            needed = skipped.end if skipped.state_sequence == facts.snapshot_sequence else needed
    return needed


def _check_inputs(task: int, inputs: tuple[Input, Input], needed: tuple[int, int] | None, hint: str) -> None:
    """Check that the inputs still have what a restore reads; `hint` says what to do if they have not.

    Raises:
        StateError: They do not.
    """
    for known, offset in zip(inputs, needed or (None, None), strict=True):
        where = f"{known.topic}[{task}]"
        if offset is not None and offset < known.low:
            raise StateError(
                f"{where} starts at offset {known.low}, but offset {offset} is needed to restore the task; it was "
                f"deleted (retention). {hint}",
                ErrorCode.INPUTS_DELETED,
            )
        if known.committed is not None and known.committed > known.high:
            raise StateError(
                f"{where} ends at offset {known.high}, but offset {known.committed} is committed: this is not the "
                "topic that the task has read",
                ErrorCode.INPUTS_REPLACED,
            )


class _Need(NamedTuple):
    """Records that a restore reads: of a partition, from `offset` up to, but not including, `end`."""

    partition: TopicPartition
    offset: int
    end: int


def _retention_used(cluster: Cluster, topics: Mapping[str, TopicInfo], needs: Iterable[_Need], now_ms: int) -> float:
    """Return the largest share of its retention that the first of the needed records of a partition has used.

    None of the needed records was deleted.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    used = 0.0
    for need in needs:
        kept = Retention.of(topics[need.partition.topic].settings)
        if need.offset < need.end and max(kept) >= 0:
            records = NeededRecords.of(columns_of(_sample(cluster, need)), 0.0)
            used = max(used, records.used(kept, need.end, Now(now_ms, 0.0)) if records else 0.0)
    return used


def _sample(cluster: Cluster, need: _Need) -> list[Row]:
    return list(islice(rows_of(cluster, need.partition, need.offset), _SAMPLE_RECORDS))
