"""The checks at the end of a world, and the run of one seed from beginning to end."""

import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stream_app.backends.base import TopicPartition
from stream_app.config import BreakerSettings, TaskSettings
from stream_app.pipeline.leftovers import leftovers_of
from stream_app.pipeline.outputs import GENESIS, OUTPUT_TOPICS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import CONFIGURATION, RESET, RESUME, SKIP, Act, Commit, Outcome, Prediction
from stream_app.recovery.breaker import Breaker
from stream_app.serialization import codec
from stream_app.serialization.left_out import read_left_out
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import Gap, read_gap
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from stream_app.worker import progress_trimmer
from tests.oracle_checks import DiffersError
from tests.simulation.faults import Event, Fault
from tests.simulation.opinion import Opinion
from tests.simulation.schedule import StuckError
from tests.simulation.worlds.shape import draw_shape
from tests.simulation.worlds.world import World, WrongError
from tests.support.formats.wire_formats import CONFLUENT
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
            world.run()
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
    _check_offsets(world)
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


def _check_offsets(world: World) -> None:
    """Check that everything was read."""
    ends = world.input_ends()
    committed = world.broker.committed(world.config("w1").group_id, list(ends))
    for number in range(world.shape.partitions):
        places = world.input_places(number)
        found = tuple(known.offset if (known := committed[place]) else 0 for place in places)
        wanted = tuple(ends[place] for place in places)
        if found != wanted:
            raise WrongError(f"task {number}: committed are {found}, the inputs end at {wanted}")


def _check_grown(world: World) -> None:
    """Check that no worker has used a partition beyond the recorded number of partitions."""
    config, first, unread = world.config("w1"), world.shape.partitions, world.unread_places()
    for name in config.topics:
        for number in range(first, world.broker.topic(name).partitions):
            place = TopicPartition(name, number)
            if (
                len(world.read(place)) != (place in unread)
                or world.broker.offsets(config.group_id, [place])[place] is not None
            ):
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
    is_stopped: bool = False

    def step(self, examples: RawRecords, labels: RawRecords, ranges: tuple[int, int, int, int]) -> str | None:
        """Process one batch; return the reason if the breaker trips."""
        outputs = self.task.step(examples, labels)
        if self.opinion is not None:
            self.opinion.check(examples, labels, outputs)
        self.digest = chain_digest(self.digest, ranges, outputs)
        for topic, records in outputs.topics.items():
            for row, cells in enumerate(zip(records.timestamps.tolist(), records.keys, records.values, strict=True)):
                self.outputs[topic].append((*cells, tuple(records.headers.get(row, ()))))
        return self.breaker.count(outputs.unreadable)

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
    changed = world.version or events[Event.SKIPPED] or events[Event.RESET] or world.faults.hits[Fault.SHRUNK]
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
        found = [(row.time_ms, row.key, row.value, row.headers) for row in world.read(place)]
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
        if isinstance(record, Act) and record.kind != CONFIGURATION and record.sequence == sequence:
            if record.kind == RESUME and fresh is not None:
                _redo_act(world, number, fresh, record)  # written twice, or at the same time as a repair
            continue
        if record.sequence != sequence + 1:
            raise WrongError(f"progress[{number}] offset {row.offset}: {record.sequence} follows {sequence}")
        sequence = record.sequence
        if isinstance(record, Commit):
            _check_room(world, number, record, inputs)
        whole = acts.add(record) if isinstance(record, Act) else record
        if whole is not None:
            fresh = _process(world, number, fresh, whole, inputs, story)
            story.append(whole)
    if fresh is not None:
        _count(world, fresh)
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
        return _after_gap(world, number, fresh, read_gap(record.text), inputs, story)
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
    again.outputs, again.at, again.digest, again.is_stopped = fresh.outputs, gap.end, gap.digest, False
    return again


def _redo_act(world: World, number: int, fresh: Fresh | None, act: Act) -> Fresh | None:
    """Apply a configuration, or continue after the breaker stopped."""
    topics = world.config("w1").topics
    if act.kind == CONFIGURATION:
        settings = TaskSettings.from_json(act.text)
        if fresh is None:
            names = (topics.examples, topics.labels)
            opinion = Opinion(settings, names, number)
            fresh = Fresh(Task(number, settings, names), opinion, breaker=Breaker(world.config("w1").breaker))
        else:
            world.faults.events[Event.CONFIGURED] += 1
        fresh.task.apply(act)
        if fresh.opinion is not None:
            fresh.opinion.reconfigure(settings)
    elif act.kind == RESET and fresh is not None and act.text in fresh.task.stream_names:
        left = leftovers_of(fresh.task.stream(act.text))
        world.faults.events[Event.CLOSED_BY_RESET] += len(left.offsets) + len(left.labels)
        fresh.task.apply(act)
        if fresh.opinion is not None:
            fresh.opinion.reset(act.text)
    elif fresh is not None and act.kind == RESUME:
        fresh.breaker.reset()
        fresh.is_stopped = False
    return fresh


def _redo(fresh: Fresh, record: Commit, number: int, inputs: Sequence[RawRecords]) -> None:
    ranges = (record.examples_start, record.examples_end, record.labels_start, record.labels_end)
    if (ranges[0], ranges[2]) != fresh.at:
        raise WrongError(f"progress[{number}]: sequence {record.sequence} does not start at {fresh.at}")
    if fresh.is_stopped:
        raise WrongError(
            f"progress[{number}]: sequence {record.sequence} follows a stop of the breaker, without a resume"
        )
    tripped = fresh.step(range_of(inputs[0], *ranges[:2]), range_of(inputs[1], *ranges[2:]), ranges)
    if record.tripped != tripped:
        raise WrongError(f"progress[{number}]: sequence {record.sequence} says {record.tripped}, not {tripped}")
    fresh.is_stopped = tripped is not None
    fresh.at = (ranges[1], ranges[3])
    if fresh.digest != record.digest:
        raise WrongError(f"progress[{number}]: the digest of sequence {record.sequence} is another one")


def _count(world: World, fresh: Fresh) -> None:
    """Count the events that the records reached."""
    events, configured = world.faults.events, world.config("w1").streams
    letters = fresh.outputs["dead-letters"]
    events[Event.DEAD_LETTER] += len(letters)
    events[Event.LEFT_OUT] += sum(bool(read_left_out(headers)[1]) for *_, headers in letters)
    kinds = {
        "unlabelled": Event.EXPIRED,
        "evicted": Event.EVICTED,
        "duplicate": Event.DUPLICATE,
        "correction": Event.CORRECTED,
    }
    methods = {kind.rpartition(" ")[2]: kind for kind in Event if kind.startswith("learned by ")}
    for _, _, value, _ in fresh.outputs["outcomes"]:
        record = codec.decode_one(value, CONFLUENT)  # reads both formats
        if isinstance(record, Outcome) and record.outcome in kinds:
            events[kinds[record.outcome]] += 1
    for _, _, value, _ in fresh.outputs["predictions"]:
        record = codec.decode_one(value, CONFLUENT)  # reads both formats
        if isinstance(record, Prediction):
            events[Event.PROMOTED] += record.champion and record.learner != "areba"
            events[Event.UNCONFIGURED] += record.stream not in configured
            if record.model_version and record.learner in methods:
                events[methods[record.learner]] += 1
