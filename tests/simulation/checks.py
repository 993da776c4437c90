"""The checks at the end of a world, and the run of one seed from beginning to end."""

import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.progress.reading import last_commit, progress_tail
from stream_app.backends.base import TopicPartition
from stream_app.config import BreakerSettings, TaskSettings
from stream_app.live.breaker import Breaker
from stream_app.pipeline.leftovers import Leftovers
from stream_app.pipeline.outputs import DEAD_LETTERS, GENESIS, OUTPUT_TOPICS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.progress_records import CONFIGURATION, IMPORT, RESET, SKIP, STOP, Act, Commit
from stream_app.record_columns import RawRecords
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import is_of_a_resend
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import Gap
from stream_app.snapshot.stops import Stop, stopped_text
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from stream_app.worker.retention import progress_trimmer
from tests.oracle_checks import DiffersError
from tests.simulation.counts import count
from tests.simulation.faults import Event, Fault
from tests.simulation.opinion import Opinion
from tests.simulation.schedule import StuckError
from tests.simulation.worlds.inputs import is_odd
from tests.simulation.worlds.run import run
from tests.simulation.worlds.shape import draw_shape
from tests.simulation.worlds.world import World, WrongError
from tests.support.rows import columns, range_of


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one seed; `wrong` is empty if every check passed."""

    seed: int
    hits: Counter[Fault]
    events: Counter[Event]
    wrong: str
    seconds: float
    switches: int


def simulate(seed: int, sections: Mapping[str, Any] | None = None, say: Callable[[str], None] | None = None) -> Result:
    """Run one seed and check it.

    Args:
        seed: The seed, which decides everything.
        sections: Settings that override all workers' settings, by section.
        say: Receives the lines of the trace.
    """
    world = World(draw_shape(seed), sections or {}, say)
    wrong = ""
    try:
        with _quiet(), _trimming_often():
            run(world)
        check(world)
    except (WrongError, StuckError, DiffersError) as error:
        wrong = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  (any error must be reported with its seed)
        wrong = traceback.format_exc()
    faults, scheduler = world.faults, world.scheduler
    return Result(seed, faults.hits, faults.events, wrong, scheduler.now_s, scheduler.switches)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the workers' logs, which report expected faults; the trace has what matters."""
    loggers = logging.getLogger("areba")
    before = loggers.level
    loggers.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        loggers.setLevel(before)


@contextmanager
def _trimming_often() -> Iterator[None]:
    """Trim progress often, because few worlds last a minute."""
    before, progress_trimmer.TRIM_INTERVAL_S = progress_trimmer.TRIM_INTERVAL_S, 2.0
    try:
        yield
    finally:
        progress_trimmer.TRIM_INTERVAL_S = before


def check(world: World) -> None:
    """Run all checks.

    Raises:
        WrongError: A check failed.
    """
    if world.wrong:
        raise WrongError("; ".join(world.wrong))
    if world.faults.events[Event.QUIET_DAYS]:
        _check_kept(world)
    world.broker.put_back()
    world.faults.events[Event.ODD_TIME] += sum(map(is_odd, world.shape.records))
    _check_ends(world)
    _check_grown(world)
    for number in range(world.shape.partitions):
        _check_task(world, number)
    _check_subscriber(world)
    report = verify(world.cluster, world.config("w1"))
    expected = {(Code.UNREAD_PARTITION, place.topic, place.partition) for place in world.unread_places()}
    allowed = {Code.DELETED_RECORDS} if world.faults.events[Event.SKIPPED] else set()
    findings = [one for one in report.findings if one.code not in allowed]
    if {(one.code, one.topic, one.partition) for one in findings} != expected or len(findings) != len(expected):
        raise WrongError(f"areba verify: {'; '.join(map(str, findings[:5]))}")


def _check_kept(world: World) -> None:
    """Check what retention has left: `verify` says at most that records were deleted, and `inspect` has no problem."""
    config = world.config("w1")
    places = {(place.topic, place.partition) for place in world.unread_places()}
    for found in verify(world.cluster, config).findings:
        is_unread = found.code is Code.UNREAD_PARTITION and (found.topic, found.partition) in places
        if found.code is not Code.DELETED_RECORDS and not is_unread:
            raise WrongError(f"areba verify, after retention: {found}")
    for view in inspect(world.cluster, config, clock=world.clock).tasks:
        if view.problem is not None:
            raise WrongError(f"areba inspect: {view.problem}")
    world.faults.events[Event.KEPT_CHECKED] += 1


def _check_ends(world: World) -> None:
    """Check that everything was read."""
    ends, progress = world.input_ends(), world.config("w1").topics.progress
    for number in range(world.shape.partitions):
        commit = last_commit(progress_tail(world.cluster, TopicPartition(progress, number)))
        found = (commit.examples_end, commit.labels_end) if commit else (0, 0)
        wanted = tuple(ends[place] for place in world.input_places(number))
        if found != wanted:
            raise WrongError(f"task {number}: progress ends at {found}, the inputs end at {wanted}")


def _check_grown(world: World) -> None:
    """Check that no worker has used a partition beyond the recorded number of partitions."""
    config, first, unread = world.config("w1"), world.shape.partitions, world.unread_places()
    for name in config.topics:
        for number in range(first, world.broker.topic(name).partitions):
            place = TopicPartition(name, number)
            if len(world.read(place)) != (place in unread):
                raise WrongError(f"{place}: was read or written, the application has {first} partitions")


def _check_subscriber(world: World) -> None:
    """Check that committed records never changed after the subscriber had read them."""
    for place, seen in world.seen.items():
        final = world.read(place)
        if (
            place.topic == world.config("w1").topics.progress
        ):  # records that were deleted before they were read are not missed
            known = {row.offset for row in seen}
            final = [row for row in final if row.offset in known]
        if seen != final[: len(seen)]:
            raise WrongError(f"{place}: a subscriber saw {len(seen)} records, which are others now")


# The second opinion ---------------------------------------------------------------------------------------------------


@dataclass
class Fresh:
    """The outputs of a new process for the same inputs: (key, value, time, headers) by topic, checked by the oracle."""

    task: Task
    opinion: Opinion | None = None
    outputs: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {name: [] for name in OUTPUT_TOPICS})
    breaker: Breaker = field(default_factory=lambda: Breaker(BreakerSettings()))
    digest: bytes = GENESIS
    at: tuple[int, int] = (0, 0)

    def step(self, examples: RawRecords, labels: RawRecords, ranges: tuple[int, int, int, int]) -> None:
        """Process one batch."""
        outputs = self.task.step(examples, labels)
        if self.opinion is not None:
            self.opinion.check(examples, labels, outputs)
        self.digest = chain_digest(self.digest, ranges, outputs)
        for topic, records in outputs.topics.items():
            for row, cells in enumerate(zip(records.keys, records.values, strict=True)):
                self.outputs[topic].append((*cells, tuple(records.headers.get(row, ()))))
        self.breaker.count(outputs.judged, outputs.stream_names)

    def stop(self, act: Act) -> None:
        """Stop a stream."""
        stop = Stop.from_text(act.text)
        self.breaker.forget(stop.stream)
        self.task.apply(act)
        if self.opinion is not None:
            self.opinion.stop(*stop)

    @property
    def models(self) -> str:
        """The digest of the models, as a worker reports it at its stop."""
        return hashlib.sha256(repr(sorted(self.task.model_digests().items())).encode()).hexdigest()


def _check_task(world: World, number: int) -> None:
    """Check that outputs, models and progress of one task equal a new process's."""
    topics = world.config("w1").topics
    inputs = [columns(world.read(place)) for place in world.input_places(number)]
    fresh = _along_progress(world, number, inputs)
    if fresh is None:
        if any(len(side) for side in inputs):
            raise WrongError(f"task {number}: it has inputs, but nothing was recorded")
        return
    _compare(world, number, fresh, "a fresh process along the recorded ranges")
    events = world.faults.events
    upkeep = (Event.PROMOTED_BY_COMMAND, Event.SENT_BACK, Event.TAKEN_OUT, Event.COMMAND_KILLED)
    acts = world.faults.hits[Fault.COMMANDS] + sum(
        events[event] for event in (Event.SKIPPED, Event.STREAM_STOPPED, Event.RESET, *upkeep)
    )
    changed = world.version or acts or world.faults.hits[Fault.SHRUNK] or world.faults.hits[Fault.ERASE]
    if world.shape.all_before and not changed:
        names = (topics.examples, topics.labels)
        settings = world.config("w1").task_settings()
        limited = settings.model_copy(update={"dead_letter_bytes": world.shape.dead_letter_bytes})
        undisturbed = Fresh(Task(number, limited, names))
        ends = tuple(int(side.offsets[-1]) + 1 if len(side) else 0 for side in inputs)
        undisturbed.step(inputs[0], inputs[1], (0, ends[0], 0, ends[1]))
        _compare(world, number, undisturbed, "an undisturbed run")


def _compare(world: World, number: int, fresh: Fresh, what: str) -> None:
    topics = world.config("w1").topics
    for topic, expected in fresh.outputs.items():
        place = TopicPartition(getattr(topics, topic.replace("-", "_")), number)
        rows = [row for row in world.read(place) if topic != DEAD_LETTERS or not is_of_a_resend(row.headers)]
        found = [(row.key, row.value, row.headers) for row in rows]
        if found != expected:
            same = next((i for i, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]), None)
            at = f"record {same} differs" if same is not None else f"{len(found)} records, {len(expected)} expected"
            raise WrongError(f"{topic}[{number}] is not that of {what}: {at}")
    if world.models.get(number) != fresh.models:
        raise WrongError(f"task {number}: the models are not those of {what}")


def _check_room(world: World, number: int, commit: Commit, inputs: Sequence[RawRecords]) -> None:
    """Check the size of a transaction; the results of a single record are not cut, and offsets may have gaps."""
    examples = range_of(inputs[0], commit.examples_start, commit.examples_end)
    labels = range_of(inputs[1], commit.labels_start, commit.labels_end)
    if len(examples) + len(labels) > 1 and commit.records > world.shape.room.records:
        raise WrongError(f"task {number}, sequence {commit.sequence}: {commit.records} records in one transaction")


def _along_progress(world: World, number: int, inputs: Sequence[RawRecords]) -> Fresh | None:
    """Process the recorded ranges, and check the chain of digests."""
    fresh: Fresh | None = None
    sequence = -1
    story: list[Commit | Act] = []
    acts = WholeActs()
    for row in world.read(TopicPartition(world.config("w1").topics.progress, number)):
        record = codec.decode_one(row.value or b"")
        if not isinstance(record, Commit | Act):
            raise WrongError(f"progress[{number}] offset {row.offset}: {type(record).__name__}")
        if record.sequence != sequence + 1:
            raise WrongError(f"progress[{number}] offset {row.offset}: {record.sequence} follows {sequence}")
        sequence = record.sequence
        if isinstance(record, Commit):
            _check_room(world, number, record, inputs)
        whole = acts.add(record) if isinstance(record, Act) else record
        if whole is not None:
            if fresh is not None:
                _check_stops(number, fresh, whole)
            fresh = _process(world, number, fresh, whole, inputs, story)
            story.append(whole)
    if fresh is not None:
        count(world, fresh.opinion, fresh.outputs)
    return fresh


def _process(
    world: World,
    number: int,
    fresh: Fresh | None,
    record: Commit | Act,
    inputs: Sequence[RawRecords],
    story: Sequence[Commit | Act],
) -> Fresh | None:
    """Process one record of progress; `story` has the records before it."""
    if isinstance(record, Act) and record.kind == SKIP:
        return _after_gap(world, number, fresh, Gap.from_text(record.text), inputs, story)
    if isinstance(record, Act):
        return _redo_act(world, number, fresh, record)
    if fresh is None:
        raise WrongError(f"progress[{number}] does not begin with a configuration")
    _redo(fresh, record, number, inputs)
    return fresh


def _after_gap(
    world: World,
    number: int,
    fresh: Fresh | None,
    gap: Gap,
    inputs: Sequence[RawRecords],
    story: Sequence[Commit | Act],
) -> Fresh | None:
    """Return the older state at the place where it continues; everything that was published stays."""
    again: Fresh | None = None
    for place, record in enumerate(story):
        if record.sequence <= gap.state_sequence or (isinstance(record, Act) and record.kind != SKIP):
            again = _process(world, number, again, record, inputs, story[:place])
    if fresh is None or again is None:
        raise WrongError(f"progress[{number}] begins with a gap")
    if gap.start != fresh.at:
        raise WrongError(f"progress[{number}]: a gap begins at {gap.start}, {fresh.at} is next")
    again.outputs, again.at, again.digest = fresh.outputs, gap.end, gap.digest
    return again


def _redo_act(world: World, number: int, fresh: Fresh | None, act: Act) -> Fresh | None:
    """Apply a configuration, a reset or a stop."""
    topics = world.config("w1").topics
    if act.kind == CONFIGURATION:
        settings = TaskSettings.from_json(act.text)
        if fresh is None:
            names = (topics.examples, topics.labels)
            opinion = Opinion(settings, names, number)
            fresh = Fresh(Task(number, settings, names), opinion, breaker=Breaker(world.config("w1").breaker))
        else:
            world.faults.events[Event.CONFIGURED] += 1
            _count_learners(world, fresh.task.settings, settings)
        fresh.task.apply(act)
        if fresh.opinion is not None:
            fresh.opinion.reconfigure(settings)
    elif act.kind == RESET and fresh is not None and act.text in fresh.task.stream_names:
        left = Leftovers.of(fresh.task.stream(act.text))
        world.faults.events[Event.CLOSED_BY_RESET] += len(left.offsets) + len(left.labels)
        fresh.task.apply(act)
        if fresh.opinion is not None:
            fresh.opinion.reset(act.text)
    elif act.kind == IMPORT and fresh is not None:
        world.faults.events[Event.IMPORTED] += 1
        fresh.task.apply(act)
        if fresh.opinion is not None:
            fresh.opinion.import_state(ImportedModel.from_text(act.text))
    elif fresh is not None and act.kind == STOP:
        fresh.stop(act)
    return fresh


def _count_learners(world: World, before: TaskSettings, after: TaskSettings) -> None:
    """Count whether the change takes the last learner out, or puts it in again."""
    old, new = before.default_stream.learners.keys(), after.default_stream.learners.keys()
    world.faults.events[Event.TAKEN_OUT] += new < old
    world.faults.events[Event.PUT_IN_AGAIN] += old < new and not world.version


def _redo(fresh: Fresh, record: Commit, number: int, inputs: Sequence[RawRecords]) -> None:
    ranges = (record.examples_start, record.examples_end, record.labels_start, record.labels_end)
    if (ranges[0], ranges[2]) != fresh.at:
        raise WrongError(f"progress[{number}]: sequence {record.sequence} does not start at {fresh.at}")
    fresh.step(range_of(inputs[0], *ranges[:2]), range_of(inputs[1], *ranges[2:]), ranges)
    wanted = stopped_text(fresh.task.stopped)
    if record.stopped != wanted:
        raise WrongError(f"progress[{number}]: sequence {record.sequence} has {record.stopped}, not {wanted}")
    fresh.at = (ranges[1], ranges[3])
    if fresh.digest != record.digest:
        raise WrongError(f"progress[{number}]: the digest of sequence {record.sequence} is another one")


def _check_stops(number: int, fresh: Fresh, record: Commit | Act) -> None:
    """Check that a stop is due when it is recorded, and that it is recorded before the next commit."""
    due = fresh.breaker.due
    if isinstance(record, Commit) and due:
        raise WrongError(f"progress[{number}]: sequence {record.sequence} follows stops that are not recorded: {due}")
    if isinstance(record, Act) and record.kind == STOP:
        stop = Stop.from_text(record.text)
        if due.get(stop.stream) != stop.reason:
            raise WrongError(f"progress[{number}]: sequence {record.sequence} stops {stop}, but due is {due}")
