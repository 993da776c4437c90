"""`areba inspect`: what an application and each of its tasks are at, from its topics and its group; no worker is asked.

Nothing is re-processed, so a task may look well whose digests would differ: `areba verify` finds that. What is read
grows with the number of tasks alone: the tail of progress, and the manifests that the committed offsets name.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from stream_app.changelog import manifests_of
from stream_app.config import Config
from stream_app.errors import StateError
from stream_app.gap import read_gap
from stream_app.observe import way_on
from stream_app.ports import Cluster, Committed, TopicPartition
from stream_app.rebuild import finish, last_commit, progress_of, progress_tail, tripped_by
from stream_app.recommit import chosen_tasks
from stream_app.records import CONFIGURATION, SKIP, Act, Commit
from stream_app.restore import WAY_BACK, WAY_ON, Target, committed_target, offsets_lost, offsets_reset

HEAD_RECORDS = 100
"""Of progress: its first configuration and commit, behind the parts of models that were given beforehand."""


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
        engine: The version of areba that wrote the newest configuration or snapshot.
    """

    task: int
    state: State
    problem: str | None
    command: str | None
    inputs: tuple[Input, Input]
    sequence: int = -1
    snapshots: int = 0
    snapshot_sequence: int = -1
    engine: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return self.state not in (State.TRIPPED, State.BROKEN)

    def text(self) -> str:
        """What is wrong, in a line."""
        if self.state is State.TRIPPED:
            return f"task {self.task}: stopped by the breaker: {self.problem}; {way_on(self.task)}"
        return f"task {self.task}: cannot be restored: {self.problem}"

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
            "engine": self.engine,
        }


@dataclass(frozen=True, slots=True)
class Inspection:
    """An application: how many workers its group has, and its tasks."""

    application: str
    workers: int
    tasks: tuple[TaskView, ...]

    @property
    def ok(self) -> bool:
        """Whether no task is stopped by the breaker or cannot be restored."""
        return all(view.ok for view in self.tasks)

    def to_json(self) -> str:
        """One document."""
        plain = {
            "application": self.application,
            "workers": self.workers,
            "ok": self.ok,
            "tasks": [view.to_plain() for view in self.tasks],
        }
        return json.dumps(plain, indent=2)

    def table(self) -> Table:
        """For people; what is wrong is told in `problems`."""
        title = f"{self.application}: {self.workers} worker{'' if self.workers == 1 else 's'}"
        result = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in ("task", "state", "examples", "lag", "labels", "lag", "sequence", "snapshot", "engine"):
            result.add_column(column, justify="left" if column in {"state", "engine"} else "right", overflow="fold")
        for view in self.tasks:
            offsets = [
                text
                for one in view.inputs
                for text in ("-" if one.committed is None else str(one.committed), str(one.lag))
            ]
            sequences = ["-" if number < 0 else str(number) for number in (view.sequence, view.snapshot_sequence)]
            style = None if view.ok else "bold red"
            result.add_row(str(view.task), view.state.value, *offsets, *sequences, view.engine or "-", style=style)
        return result

    def problems(self) -> Iterator[str]:
        """A line for each task that somebody has to look after."""
        return (view.text() for view in self.tasks if not view.ok)


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
    workers = cluster.members(config.group_id)
    views = tuple(_look(cluster, config, task, workers) for task in watched(chosen))
    return Inspection(config.application.id, workers, views)


def _look(cluster: Cluster, config: Config, task: int, workers: int) -> TaskView:
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
            target = _checked_target(pair, (before, after), tail)
            facts = _Facts() if target is None else _gathered(cluster, config, task, target, tail)
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
        sequence=last.sequence if last else -1,
        snapshots=facts.snapshots,
        snapshot_sequence=facts.snapshot_sequence,
        engine=facts.engine,
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
) -> Target | None:
    """What the group committed, held against progress, which was read in between; None where nothing ever was.

    Raises:
        StateError: They do not belong together.
    """
    earlier, now = (committed_target(pair, known) for known in committed)
    last = last_commit(tail)
    if now is None:
        if last is not None:
            raise StateError(offsets_lost(last.sequence))
        return None
    if last is not None and last.sequence > now.point.sequence:
        raise StateError(offsets_reset(last.sequence, now.point.sequence))
    if earlier is not None and (last is None or earlier.point.sequence > last.sequence):
        raise StateError(
            f"progress ends with sequence {last.sequence if last else 'none'}, {earlier.point.sequence} is committed: "
            f"the offsets are not those of this progress. {WAY_BACK}"
        )
    for target, known in zip((earlier, now), committed, strict=True):
        for record in tail:
            if target is not None and isinstance(record, Commit) and record.sequence == target.point.sequence:
                _check_commit(record, target, tuple(known[place] for place in pair))
    return now


def _check_commit(record: Commit, target: Target, committed: Sequence[Committed | None]) -> None:
    """The commit record that the committed offsets name."""
    found, wanted = record.digest.hex()[:16], target.point.digest.hex()[:16]
    if found != wanted:
        raise StateError(
            f"digest {found} of sequence {record.sequence} is recorded, the committed offsets name {wanted}. {WAY_BACK}"
        )
    ends, offsets = [record.examples_end, record.labels_end], [known.offset for known in committed if known]
    if ends != offsets:
        raise StateError(
            f"sequence {record.sequence} ends at offsets {'/'.join(map(str, ends))}, committed are "
            f"{'/'.join(map(str, offsets))}: the group's offsets were changed. {WAY_BACK}"
        )


def _gathered(cluster: Cluster, config: Config, task: int, target: Target, tail: Sequence[Commit | Act]) -> _Facts:
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
        return _Facts(len(found), newest.sequence, engine or newest.engine, newest.offsets, snapshot.progress_offset)
    first = list(islice(progress_of(cluster, TopicPartition(config.topics.progress, task), 0), HEAD_RECORDS))
    if first and first[0].sequence > 0:
        what = "none of its snapshots can be read" if target.snapshots else "the committed offsets name no snapshot"
        raise StateError(
            f"progress begins with sequence {first[0].sequence}, and {what}. `areba state recommit` looks for one; "
            "another application.id starts afresh"
        )
    engine = engine or next((act.engine for act in reversed(first) if isinstance(act, Act)), None)
    begin = next((record for record in first if isinstance(record, Commit)), None)
    return _Facts(engine=engine, needed=(begin.examples_start, begin.labels_start) if begin else None)


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
                f"(retention). {WAY_ON}"
            )
        if known.committed is not None and known.committed > known.high:
            raise StateError(
                f"{place} ends at offset {known.high}, offset {known.committed} is committed: the topic is not the one "
                "that was read"
            )
