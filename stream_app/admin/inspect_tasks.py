"""`areba inspect`: what an application and each of its tasks are at, from its topics and its group; no worker is asked.

Nothing is re-processed, so a task may look well whose digests would differ: `areba verify` finds that. What is read
grows with the number of tasks alone: the tails of progress and of the outputs, and the manifests that the committed
offsets name.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from stream_app.admin.history import finish, last_commit, progress_of, progress_tail, tripped_by
from stream_app.admin.recent_outputs import Recent, recent
from stream_app.admin.recommit import chosen_tasks
from stream_app.backends.base import Cluster, Committed, TopicPartition
from stream_app.backends.partition_count import grown, partitions_of
from stream_app.backends.partitioner import split_text
from stream_app.backends.topics import largest_batch_bytes
from stream_app.config import Config
from stream_app.config.memory_bound import bound_of
from stream_app.errors import StateError
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
from stream_app.worker.observer import resume_hint

COLUMNS = ("task", "state", "examples", "lag", "labels", "lag", "dead", "silent", "sequence", "snapshot", "engine")
"""Of the table: `dead` are dead letters of the last hour, `silent` streams whose labels are missing; see `recent`."""


class State(StrEnum):
    """Of a task, as its topics tell."""

    NEW = "new"
    """Nothing was ever committed."""
    RUNNING = "running"
    """The group has workers."""
    IDLE = "idle"
    """The group has none; the next one goes on."""
    TRIPPED = "tripped"
    """The breaker stopped it."""
    BROKEN = "broken"
    """It cannot be restored."""


class Input(NamedTuple):
    """One input of a task: the committed offset (None: none), the first one there is, and the one behind the last."""

    topic: str
    committed: int | None
    low: int
    high: int

    @property
    def lag(self) -> int:
        """Offsets that are not processed yet."""
        return max(0, self.high - (self.low if self.committed is None else self.committed))


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task.

    Attributes:
        task: Its number.
        state: See `State`.
        problem: Why it is tripped or broken.
        command: What goes on from there.
        inputs: Examples and labels.
        sequence: Of the last commit; -1: none.
        snapshots: How many of those that are named can be read.
        snapshot_sequence: Of the newest of these; -1: none.
        snapshot_bytes: What the newest of these lists: the state without room to grow. A worker's `/metrics` has what
            is allocated.
        engine: The version of areba that wrote the newest configuration or snapshot.
        recent: What its newest outputs show.
        streams: Those of the newest snapshot.
    """

    task: int
    state: State
    problem: str | None
    command: str | None
    inputs: tuple[Input, Input]
    recent: Recent
    sequence: int = -1
    snapshots: int = 0
    snapshot_sequence: int = -1
    snapshot_bytes: int = 0
    engine: str | None = None
    streams: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return next(self.problems(), None) is None

    def problems(self) -> Iterator[str]:
        """A line for each thing that is wrong."""
        if self.state is State.TRIPPED:
            yield f"task {self.task}: stopped by the breaker: {self.problem}; {resume_hint(self.task)}"
        if self.state is State.BROKEN:
            yield f"task {self.task}: cannot be restored: {self.problem}"
        yield from self.recent.problems()

    def to_plain(self) -> dict[str, Any]:
        """For JSON; null where there is none."""
        examples, labels = (
            {"topic": one.topic, "committed": one.committed, "end": one.high, "lag": one.lag} for one in self.inputs
        )
        return {
            "task": self.task,
            "state": self.state.value,
            "problem": self.problem,
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
    """An application: how many workers its group has, its tasks, what is wrong with it, the most memory of a worker."""

    application: str
    workers: int
    tasks: tuple[TaskView, ...]
    grown: tuple[str, ...] = ()
    memory_bound_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether no task is stopped, no stream has something to look after, and no topic has grown."""
        return not self.grown and all(view.ok for view in self.tasks) and not self.split_streams()

    def split_streams(self) -> dict[str, list[int]]:
        """The tasks of each stream that lives in several, as their newest snapshots have it."""
        homes: dict[str, list[int]] = {}
        for view in self.tasks:
            for stream in view.streams:
                homes.setdefault(stream, []).append(view.task)
        return {stream: tasks for stream, tasks in sorted(homes.items()) if len(tasks) > 1}

    def to_json(self) -> str:
        """One document."""
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
        """For people; `problems` says what is wrong."""
        title = f"{self.application}: {self.workers} worker{'' if self.workers == 1 else 's'}"
        held = sum(view.snapshot_bytes for view in self.tasks)
        caption = f"memory: at most {self.memory_bound_bytes >> 20:,} MB; snapshots hold {held / (1 << 20):,.1f} MB"
        result = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=0)
        for column in COLUMNS:
            result.add_column(column, justify="left" if column in {"state", "engine"} else "right", overflow="fold")
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

    def problems(self) -> Iterator[str]:
        """A line for each thing that somebody has to look after."""
        yield from self.grown
        yield from (line for view in self.tasks for line in view.problems())
        yield from (split_text(stream, tasks) for stream, tasks in self.split_streams().items())


def inspect(
    cluster: Cluster,
    config: Config,
    tasks: Iterable[int] = (),
    watched: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> Inspection:
    """Look at these tasks; at all, where none is named.

    Args:
        cluster: Where the topics are.
        config: The application.
        tasks: Their numbers.
        watched: Goes through them, and may show how far it is.

    Raises:
        ConfigurationError: There is no such task.
        TopicError: A topic is missing, or the broker refuses to tell.
        UnknownOutcomeError: The broker fell silent.
    """
    chosen = chosen_tasks(cluster, config, tasks)
    workers = len(cluster.members(config.group_id))
    found = cluster.topics(config.topics)
    examples, labels = (found[name].topic_id for name in (config.topics.examples, config.topics.labels))
    views = tuple(_look(cluster, config, task, workers, (examples, labels)) for task in watched(chosen))
    lines = grown(found, config.topics, partitions_of(cluster, config.topics))
    bound = bound_of(config, config.task_settings(), largest_batch_bytes(found[config.topics.labels]))
    return Inspection(config.application.id, workers, views, lines, bound.total(len(chosen)))


def _look(cluster: Cluster, config: Config, task: int, workers: int, topic_ids: tuple[str, str]) -> TaskView:
    """One task. Committed offsets are asked for before and behind the reading: a worker may go on meanwhile."""
    topics = config.topics
    pair = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    before = cluster.committed(config.group_id, pair)
    progress = TopicPartition(topics.progress, task)
    problem: str | None = None
    tail: list[Commit | Act] = []
    facts = _Facts()
    try:
        tail = progress_tail(cluster, progress)
    except StateError as error:
        problem = str(error)
    after = cluster.committed(config.group_id, pair)
    inputs = (_input(cluster, after, pair[0]), _input(cluster, after, pair[1]))
    try:
        if problem is None:
            target = _checked_target(pair, (before, after), tail, topic_ids)
            facts = _Facts() if target is None else _gathered(cluster, config, task, target, tail)
            _check_rules(tail, facts)
            _check_inputs(task, inputs, _needed(cluster, progress, facts, inputs))
    except StateError as error:
        problem = str(error)
    state, problem, command = _verdict(task, problem, tail, workers)
    last = last_commit(tail)
    return TaskView(
        task=task,
        state=state,
        problem=problem,
        command=command,
        inputs=inputs,
        recent=recent(cluster, config, task),
        sequence=last.sequence if last else -1,
        snapshots=facts.snapshots,
        snapshot_sequence=facts.snapshot_sequence,
        snapshot_bytes=facts.snapshot_bytes,
        engine=facts.engine,
        streams=facts.streams,
    )


class _Facts(NamedTuple):
    """What is known of a task that committed something.

    `needed` are the offsets behind its snapshot, which has its record at `progress_offset`.
    """

    snapshots: int = 0
    snapshot_sequence: int = -1
    engine: str | None = None
    needed: tuple[int, int] | None = None
    progress_offset: int = 0
    streams: frozenset[str] = frozenset()
    snapshot_bytes: int = 0


def _verdict(
    task: int, problem: str | None, tail: Sequence[Commit | Act], workers: int
) -> tuple[State, str | None, str | None]:
    """State, problem, and the command that goes on."""
    if problem is not None:
        named = (command for command in ("areba state recommit", "areba state skip") if f"`{command}`" in problem)
        return State.BROKEN, problem, next(named, None)
    tripped = tripped_by(tail)
    if tripped is not None:
        return State.TRIPPED, tripped, f"areba resume --task {task}"
    if last_commit(tail) is None:
        return State.NEW, None, None
    return State.RUNNING if workers else State.IDLE, None, None


def _input(cluster: Cluster, committed: Mapping[TopicPartition, Committed | None], place: TopicPartition) -> Input:
    known = committed.get(place)
    return Input(place.topic, known.offset if known else None, *cluster.watermarks(place))


def _checked_target(
    pair: tuple[TopicPartition, TopicPartition],
    committed: tuple[Mapping[TopicPartition, Committed | None], Mapping[TopicPartition, Committed | None]],
    tail: Sequence[Commit | Act],
    topic_ids: tuple[str, str],
) -> RestoreTarget | None:
    """What the group committed, held against progress, which was read in between; None where nothing ever was.

    Raises:
        StateError: They do not belong together, or an input was deleted and created again.
    """
    earlier, now = (committed_target(pair, known, topic_ids) for known in committed)
    last = last_commit(tail)
    if last is not None:
        check_topic_ids(pair, (last.examples_topic_id, last.labels_topic_id), topic_ids)
    if now is None:
        if last is not None:
            raise StateError(offsets_lost(last.sequence))
        return None
    if last is not None and last.sequence > now.point.sequence:
        raise StateError(offsets_reset(last.sequence, now.point.sequence))
    if earlier is not None and (last is None or earlier.point.sequence > last.sequence):
        raise StateError(
            f"progress ends with sequence {last.sequence if last else 'none'}, {earlier.point.sequence} is committed: "
            f"the offsets are not those of this progress. {HINT_RECOMMIT}"
        )
    for target, known in zip((earlier, now), committed, strict=True):
        for record in tail:
            if target is not None and isinstance(record, Commit) and record.sequence == target.point.sequence:
                _check_commit(record, target, tuple(known[place] for place in pair))
    return now


def _check_commit(record: Commit, target: RestoreTarget, committed: Sequence[Committed | None]) -> None:
    """The commit record that the committed offsets name."""
    found, wanted = record.digest.hex()[:16], target.point.digest.hex()[:16]
    if found != wanted:
        raise StateError(
            f"digest {found} of sequence {record.sequence} is recorded, the committed offsets name {wanted}. "
            f"{HINT_RECOMMIT}"
        )
    ends, offsets = [record.examples_end, record.labels_end], [known.offset for known in committed if known]
    if ends != offsets:
        raise StateError(
            f"sequence {record.sequence} ends at offsets {'/'.join(map(str, ends))}, committed are "
            f"{'/'.join(map(str, offsets))}: the group's offsets were changed. {HINT_RECOMMIT}"
        )


def _gathered(
    cluster: Cluster, config: Config, task: int, target: RestoreTarget, tail: Sequence[Commit | Act]
) -> _Facts:
    """What the newest snapshot tells, and the beginning of progress where there is none.

    Raises:
        StateError: Progress was trimmed, and there is no snapshot behind which it goes on.
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
            frozenset(entry.stream for entry in newest.entries),
            sum(entry.length for entry in newest.entries),
        )
    first = _head(cluster, TopicPartition(config.topics.progress, task))
    if first and first[0].sequence > 0:
        what = "none of its snapshots can be read" if target.snapshots else "the committed offsets name no snapshot"
        raise StateError(
            f"progress begins with sequence {first[0].sequence}, and {what}. `areba state recommit` looks for one; "
            "another application.id starts afresh"
        )
    engine = engine or next((act.engine for act in reversed(first) if isinstance(act, Act)), None)
    begin = next((record for record in first if isinstance(record, Commit)), None)
    return _Facts(engine=engine, needed=(begin.examples_start, begin.labels_start) if begin else None)


def _check_rules(tail: Sequence[Commit | Act], facts: "_Facts") -> None:
    """Whether what restoring would re-process was processed under the rules of this version.

    Raises:
        StateError: It was not.
    """
    last = last_commit(tail)
    if last is not None and last.sequence > facts.snapshot_sequence:
        problem = other_rules(last.rules, last.sequence, facts.engine or "0.x")
        if problem is not None:
            raise StateError(problem)


def _head(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """Read progress up to its first commit record: parts of a configuration, and of models that were given before."""
    first: list[Commit | Act] = []
    for record in progress_of(cluster, progress):
        first.append(record)
        if isinstance(record, Commit):
            break
    return first


def _needed(
    cluster: Cluster, progress: TopicPartition, facts: _Facts, inputs: tuple[Input, Input]
) -> tuple[int, int] | None:
    """The offsets from which it would be restored: behind the last gap that an operator accepted, if there is one."""
    needed = facts.needed
    if needed is None or all(known.low <= offset for known, offset in zip(inputs, needed, strict=True)):
        return needed  # nothing is gone: no gap has to be looked for
    for record in progress_of(cluster, progress, facts.progress_offset):
        if isinstance(record, Act) and record.kind == SKIP:
            gap = read_gap(record.text)
            needed = gap.end if gap.behind == facts.snapshot_sequence else needed
    return needed


def _check_inputs(task: int, inputs: tuple[Input, Input], needed: tuple[int, int] | None) -> None:
    """Whether what restoring would read is still there.

    Raises:
        StateError: It is not.
    """
    for known, offset in zip(inputs, needed or (None, None), strict=True):
        place = f"{known.topic}[{task}]"
        if offset is not None and offset < known.low:
            raise StateError(
                f"{place} starts at offset {known.low}, offset {offset} is needed to restore the task; it was deleted "
                f"(retention). {HINT_SKIP}"
            )
        if known.committed is not None and known.committed > known.high:
            raise StateError(
                f"{place} ends at offset {known.high}, offset {known.committed} is committed: the topic is not the one "
                "that was read"
            )
