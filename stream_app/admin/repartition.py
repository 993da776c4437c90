"""`areba repartition`: move an application to a larger number of partitions, with the whole state of its streams.

The new number is a multiple of the old one, so that a stream of task p stays there or moves to a new task p + k * old:
no task that exists receives a stream. No worker may run, see `progress.writer`, and the tasks must have processed all
of their inputs. The steps, each of which is repeated or left out when the command is run again:

    topics    all topics but the inputs get the new partitions
    leave     an act `repartition` in the progress of each old task: the streams that belong to another task leave it
              with the record before, and from then on their records are dead letters `moved-stream`
    arrive    in the progress of each new task: the configuration, an act `arrival` for each of its streams with the
              state that the old task had before its act, and at the end an act `repartition`
    inputs    the inputs get the new partitions, where producers cannot have written anything before

From the first act on, workers refuse to start until each task has its act `repartition` (`backends.progress.tasks_of`),
so no task continues between the steps, and what an old task had before its act can be computed again at any time.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import TYPE_CHECKING, NamedTuple

from stream_app import __version__
from stream_app.admin.models import Application, committed, with_acts
from stream_app.admin.progress.reading import last_commit, progress_of, since_last_commit
from stream_app.admin.progress.writer import ProgressWriter, progress_writer
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.partitioner import partition_of
from stream_app.backends.progress import absent_text, recorded_number, unmoved_tasks
from stream_app.errors import ConfigurationError, ErrorCode, StateError, TopicError
from stream_app.pipeline.task import Task
from stream_app.progress_records import ARRIVAL, CONFIGURATION, REPARTITION, STOP, Act, Commit
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.moved_stream import MovedStream, Repartition
from stream_app.snapshot.parts import MAX_CHARACTERS, in_parts, whole_acts
from stream_app.snapshot.stops import Stop

if TYPE_CHECKING:
    from stream_app.admin.history import Rebuilt

_TRANSACTION_CHARACTERS = 8_000_000
"""Text of the acts that one transaction writes; a stream with more has a transaction of its own."""

_SURELY_FITS_BYTES = 20_000_000
"""The state of a stream that has allocated less surely fits into an act, waiting labels included."""


def repartition(application: Application, partitions: int, *, dry_run: bool = False) -> Iterator[str]:
    """Move an application to a larger number of partitions; yield a line for each step.

    Raises:
        ConfigurationError: The number is not a larger multiple of the present one.
        StateError: Workers run, inputs wait, or a task cannot be moved exactly; the message says what was written.
        TopicError: A topic is missing, or the broker refuses to let it grow.
        UnknownOutcomeError: The broker did not answer in time.
    """
    with progress_writer(application, dry_run=dry_run) as writer:
        move = _move_of(application, partitions)
        if move is None:
            yield f"{application.config.application.id} has {partitions} partitions already"
            return
        mover = _Mover(application, writer, move)
        olds = [number for number in range(move.before) if not mover.has_left(number)]
        if len(olds) == move.before:
            mover.check(olds)
        if dry_run:
            yield from (mover.plan(number) for number in range(move.before))
            return
        topics = application.config.topics
        inputs = set(topics.inputs)
        application.cluster.grow([name for name in topics if name not in inputs], move.after)
        for number in olds:
            mover.leave(number)
        for number in range(move.before):
            yield from mover.arrive(number)
        application.cluster.grow(topics.inputs, move.after)
    yield f"{application.config.application.id} has {move.after} partitions: start the workers, then the producers"


def _move_of(application: Application, partitions: int) -> Repartition | None:
    """Return the move: a new one, or one that was begun and has not ended; None: the number is the present one.

    Raises:
        ConfigurationError: The application has never begun, or the number does not fit.
        TopicError: A topic is missing.
    """
    topics = application.config.topics
    found = application.cluster.topics(topics)
    if missing := [name for name in topics if name not in found]:
        raise TopicError([absent_text(name) for name in missing])
    record = recorded_number(application.cluster, found[topics.progress])
    if record is None:
        raise ConfigurationError(
            f"{application.config.application.id} has not begun: create its topics with {partitions} partitions"
        )
    begun = _begun(application, found[topics.progress], record)
    if begun is not None and partitions == begun.after:
        return begun
    before = record.partitions
    if begun is not None:
        raise ConfigurationError(f"--to {partitions}: a move to {before} partitions has begun; end it first")
    if partitions == before:
        return None
    if partitions <= before or partitions % before:
        raise ConfigurationError(
            f"--to {partitions}: the application has {before} partitions; the new number must be a multiple of it, "
            f"such as {2 * before}"
        )
    return Repartition(before, partitions)


def _begun(application: Application, progress: TopicInfo, record: Commit | Act) -> Repartition | None:
    """Return the move that has begun and has not ended; also the last one, if nothing was processed since."""
    if not isinstance(record, Act) or record.kind != REPARTITION:
        return None
    move = Repartition.from_text(record.text)
    names = [progress.name, *application.config.topics.inputs]
    is_grown = all(topic.partitions >= move.after for topic in application.cluster.topics(names).values())
    is_whole = is_grown and not unmoved_tasks(application.cluster, progress, move.after)
    return None if is_whole else move


class _Before(NamedTuple):
    """An old task as it was before its act `repartition`, and the last sequence then; None: it never began."""

    task: Task | None
    sequence: int


class _Mover:
    """The steps of one move."""

    def __init__(self, application: Application, writer: ProgressWriter, move: Repartition) -> None:
        self._application = application
        self._writer = writer
        self._move = move

    def _progress(self, number: int) -> TopicPartition:
        return TopicPartition(self._application.config.topics.progress, number)

    def has_left(self, number: int) -> bool:
        """Say whether the streams that belong elsewhere have left an old task."""
        recorded = since_last_commit(self._application.cluster, self._progress(number))
        return any(self._is_mine(record) for record in recorded)

    def _is_mine(self, record: Commit | Act) -> bool:
        return isinstance(record, Act) and record.kind == REPARTITION and record.partitions == self._move.after

    def _before(self, number: int) -> _Before:
        """Return an old task as it was before its act."""
        recorded = since_last_commit(self._application.cluster, self._progress(number))
        before = list(takewhile(lambda record: not self._is_mine(record), recorded))
        if not before:
            return _Before(None, -1)
        rebuilt: Rebuilt | None = None
        if isinstance(before[0], Commit):
            rebuilt = committed(self._application, number)
        rebuilt = with_acts(self._application, number, rebuilt, before)
        return _Before(None if rebuilt is None else rebuilt.task, before[-1].sequence)

    # What is checked before anything is written -----------------------------------------------------------------------

    def check(self, numbers: Iterable[int]) -> None:
        """Refuse to move tasks that cannot be moved exactly.

        Raises:
            StateError: Inputs wait, a stream is not where its key belongs or too large, or a reset waits for the next
                batch.
        """
        lines = list(chain.from_iterable(map(self._problems, numbers)))
        if lines:
            raise StateError("; ".join(lines), ErrorCode.MOVE_REFUSED)

    def _problems(self, number: int) -> Iterator[str]:
        """Yield why a task cannot be moved."""
        recorded = since_last_commit(self._application.cluster, self._progress(number))
        last = last_commit(recorded)
        ends = (0, 0) if last is None else (last.examples_end, last.labels_end)
        for name, end in zip(self._application.config.topics.inputs, ends, strict=True):
            high = self._application.cluster.watermarks(TopicPartition(name, number)).high
            if high > end:
                yield f"{name}[{number}]: {high - end:,} offsets wait; let the workers process them, then stop them"
        task = self._before(number).task
        if task is None:
            return
        strangers = task.leaving(self._move.before)
        if strangers:
            yield (
                f"task {number}: {len(strangers):,} streams belong to other partitions by their keys, such as "
                f"{strangers[0]!r}: their producers use another partitioner, so nobody knows where they would move"
            )
        if task.reset_records:
            yield f"task {number}: its next batch closes what a reset has left; start a worker and send a record first"
        for name in task.leaving(self._move.after):
            if task.stream(name).allocated_bytes < _SURELY_FITS_BYTES:
                continue
            if (characters := len(task.moved(name).text())) > MAX_CHARACTERS:
                sizes = task.stream(name).join.sizes
                yield (
                    f"task {number}: stream {name!r} is too large to move: with {sizes.pending:,} pending examples and "
                    f"{sizes.closed:,} closed ids, its state has {characters:,} characters, and an act has at most "
                    f"{MAX_CHARACTERS:,}"
                )

    def plan(self, number: int) -> str:
        """Return the line of a dry run about an old task."""
        task = self._before(number).task
        names = [] if task is None else list(task.stream_names)
        leaving = [] if task is None else task.leaving(self._move.after)
        return f"task {number}: {len(leaving):,} of {len(names):,} streams would move"

    # Steps ------------------------------------------------------------------------------------------------------------

    def leave(self, number: int) -> None:
        """Let the streams that belong elsewhere leave an old task."""
        self._writer.begin(number)
        recorded = since_last_commit(self._application.cluster, self._progress(number))
        sequence = recorded[-1].sequence if recorded else -1
        acts: tuple[Act, ...] = ()
        if sequence < 0:  # it never began
            settings = self._application.config.task_settings().to_json()
            acts = in_parts(Act(0, CONFIGURATION, __version__, settings))
            sequence = acts[-1].sequence
        end = Act(sequence + 1, REPARTITION, __version__, self._move.text(), RULES, self._move.after)
        self._writer.write(number, [*acts, end])

    def arrive(self, number: int) -> Iterator[str]:
        """Write what left an old task to the progress of the new tasks; yield a line for each."""
        targets = [
            target
            for target in range(number + self._move.before, self._move.after, self._move.before)
            if not any(map(self._is_mine, self._tail(target)))
        ]
        before = self._before(number) if targets else _Before(None, -1)
        leaving = before.task.leaving(self._move.after) if before.task is not None else []
        by_target: dict[int, list[str]] = {target: [] for target in targets}
        for name in leaving:
            home = partition_of(name.encode(), self._move.after)
            if home in by_target:
                by_target[home].append(name)
        for target, names in by_target.items():
            self._fill(target, before.task, names)
            yield f"task {target}: {len(names):,} streams came from task {number}"

    def _tail(self, number: int) -> Sequence[Commit | Act]:
        return since_last_commit(self._application.cluster, self._progress(number))

    def _fill(self, number: int, source: Task | None, names: Sequence[str]) -> None:
        """Write the progress of a new task, from where an earlier run has ended."""
        self._writer.begin(number)
        recorded = list(progress_of(self._application.cluster, self._progress(number)))
        whole = [act for act in whole_acts(recorded) if isinstance(act, Act)]
        there = {MovedStream.from_text(act.text).stream for act in whole if act.kind == ARRIVAL}
        stopped = {Stop.from_text(act.text).stream for act in whole if act.kind == STOP}
        sequence = recorded[-1].sequence if recorded else -1
        acts: list[Act] = []
        for kind, text in self._contents(source, names, number, there, stopped, has_begun=bool(whole)):
            in_force = (RULES, self._move.after) if kind == REPARTITION else ()
            acts += in_parts(Act(sequence + 1, kind, __version__, text, *in_force))
            sequence = acts[-1].sequence
            if sum(len(act.text) for act in acts) >= _TRANSACTION_CHARACTERS:
                self._writer.write(number, acts)
                self._writer.begin(number)
                acts = []
        self._writer.write(number, acts)

    def _contents(
        self,
        source: Task | None,
        names: Sequence[str],
        number: int,
        there: Collection[str],
        stopped: Collection[str],
        *,
        has_begun: bool,
    ) -> Iterator[tuple[str, str]]:
        """Yield kind and text of the acts of a new task that are still missing."""
        if not has_begun:
            settings = self._application.config.task_settings() if source is None else source.settings
            yield CONFIGURATION, settings.to_json()
        if source is not None:
            for name in names:
                if name not in there:
                    yield ARRIVAL, source.moved(name).text()
            for name, reason in source.stopped.items():
                if name not in stopped and partition_of(name.encode(), self._move.after) == number:
                    yield STOP, Stop(name, reason).text
        yield REPARTITION, self._move.text()
