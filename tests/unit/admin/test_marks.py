"""`areba promote` writes its mark to the right partition, with the right timestamp, or refuses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from stream_app.admin.marks import FIRST_LOOK_RECORDS, MARK_BYTES, MAX_DIGESTS, decide, erase, promote, resume
from stream_app.admin.models import Application
from stream_app.backends import reading
from stream_app.backends.base import LogReader, TopicInfo, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.partitioner import partition_of as java_partition_of
from stream_app.config import Config, LimitSettings, threshold_of
from stream_app.errors import ConfigurationError, StateError, UnknownOutcomeError
from stream_app.pipeline import merge
from stream_app.progress_records import CONFIGURATION, SKIP, STOP, Act, Commit
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.records import Mark, MarkKind
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import DIGEST_CHARACTERS, cut_digests, id_digest
from stream_app.snapshot.stops import Stop

PARTITIONS = 5
YEAR_MS = 365 * 86_400_000
CONFIG = Config.model_validate({"streams": {"sine": {"features": 2}, "sea": {"features": 2}}})
WITH_COSTS = Config.model_validate(
    {"streams": {"sine": {"features": 2, "costs": {"false_positive": 1, "false_negative": 2}}, "sea": {"features": 2}}}
)
EXAMPLES = CONFIG.topics.examples


@dataclass
class PromotedLog:
    """A log with its clock, on which the command runs."""

    clock: ManualClock = field(default_factory=ManualClock)
    broker: EmbeddedBroker = field(init=False)

    def __post_init__(self) -> None:
        self.broker = EmbeddedBroker(self.clock)
        for name in (CONFIG.topics.examples, CONFIG.topics.labels, CONFIG.topics.progress):
            self.broker.create_topic(TopicInfo(name, PARTITIONS, {"retention.ms": "-1"}))

    def fill(self, times: Sequence[int], partition: int, topic: str = EXAMPLES) -> None:
        """Write records with these timestamps."""
        sender = EmbeddedSender(self.broker)
        for time_ms in times:
            sender.send(topic, b"any", b"any", time_ms, partition=partition)
        sender.flush(1)

    def promote(
        self, stream: str = "sine", learner: str = "baseline", partition: int | None = None, config: Config = CONFIG
    ) -> tuple[TopicPartition, int]:
        """Run the command."""
        return promote(self.application(config), EmbeddedSender(self.broker), stream, learner, partition)

    def application(self, config: Config = CONFIG) -> Application:
        """Return the application as a command sees it."""
        cluster = EmbeddedCluster(self.broker)
        return Application(config, cluster, self.clock, partial(EmbeddedTransaction, self.broker))

    def read(self, place: TopicPartition) -> RawRecords:
        """Return all records of a partition."""
        return self.broker.read(place, self.broker.watermarks(place).low, 10_000)[0]


PLACE = TopicPartition(EXAMPLES, java_partition_of(b"sine", PARTITIONS))


def test_the_mark_goes_where_the_stream_is() -> None:
    """In another partition the mark would silently change the champion of a model without records."""
    world = PromotedLog()
    now_ms = world.clock.now_ms()
    for partition in range(PARTITIONS):
        world.fill([now_ms - 9, now_ms - 5], partition)
    assert world.promote() == (PLACE, 2)
    records = world.read(PLACE)
    assert records.keys[2] == b"sine"
    assert codec.decode_one(records.values[2] or b"") == Mark("sine", MarkKind.PROMOTE, learner="baseline")
    assert world.promote(partition=(PLACE.partition + 1) % PARTITIONS) == (
        TopicPartition(EXAMPLES, (PLACE.partition + 1) % PARTITIONS),
        2,
    ), "a stream that is spread by another key has a model there"


def test_the_mark_has_the_time_of_the_last_record() -> None:
    """When old records are replayed, a mark with the present time would let all labels go before the next example."""
    world = PromotedLog()
    then_ms = world.clock.now_ms() - YEAR_MS
    world.fill([then_ms + 7, then_ms + 3], PLACE.partition)
    world.promote()
    assert world.read(PLACE).timestamps.tolist()[2:] == [then_ms + 3]


def test_the_merge_takes_the_mark_at_once() -> None:
    """Only those labels go before the mark that would go before an example of the same time."""
    world = PromotedLog()
    then_ms = world.clock.now_ms() - YEAR_MS
    world.fill([then_ms, then_ms + 10], PLACE.partition)
    world.promote()
    world.fill([then_ms + 20], PLACE.partition)
    times = world.read(PLACE).timestamps
    labels = np.array([then_ms + 5, then_ms + 15, then_ms + 25], np.int64)
    sides, rows = merge.merge(times, labels)
    assert list(zip(sides.tolist(), rows.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (0, 1),
        (0, 2),
        (1, 1),
        (0, 3),
        (1, 2),
    ]


def test_a_clock_that_runs_ahead_is_not_followed() -> None:
    """The timestamp of a mark is never in the future, even if the last record's is."""
    world = PromotedLog()
    world.fill([world.clock.now_ms() + 1_000_000], PLACE.partition)
    world.promote()
    assert world.read(PLACE).timestamps.tolist()[1:] == [world.clock.now_ms()]


def test_control_records_at_the_end_are_passed_over() -> None:
    """A transactional producer that aborts often leaves many offsets without readable records."""
    world = PromotedLog()
    then_ms = world.clock.now_ms() - YEAR_MS
    world.fill([then_ms], PLACE.partition)
    transaction = EmbeddedTransaction(world.broker, "other")
    transaction.initialise()
    count = 3 * FIRST_LOOK_RECORDS
    transaction.begin()
    transaction.produce(PLACE, OutputRecords.of([b"k"] * count, [b"v"] * count, [then_ms + 9] * count))
    transaction.abort()
    place, offset = world.promote()
    assert offset > count
    assert world.read(place).timestamps.tolist() == [then_ms, then_ms]


def test_without_records_the_mark_has_the_present_time() -> None:
    """After a quiet month all records are deleted, and the next ones will have the present time."""
    world = PromotedLog()
    world.fill([world.clock.now_ms() - YEAR_MS], PLACE.partition)
    world.broker.delete_before(PLACE, 1)
    world.promote()
    assert world.read(PLACE).timestamps.tolist() == [world.clock.now_ms()]


@pytest.mark.parametrize(
    ("stream", "learner", "partition", "line"),
    [
        ("sime", "baseline", None, "no stream 'sime'; did you mean sine"),
        ("sine", "baselime", None, "no learner 'baselime'; did you mean baseline"),
        ("sine", "qbr", None, r"no learner 'qbr' \(there are: areba, baseline\)"),
        ("sine", "baseline", PARTITIONS, f"there is no partition {PARTITIONS}"),
        ("sine", "baseline", None, r"never had a record.*streams\.sine\.champion"),
    ],
)
def test_a_mark_without_meaning_is_refused(stream: str, learner: str, partition: int | None, line: str) -> None:
    """A mark without meaning would at best become a dead letter that its sender does not see."""
    world = PromotedLog()
    with pytest.raises(ConfigurationError, match=line):
        world.promote(stream, learner, partition)
    assert all(not len(world.read(TopicPartition(EXAMPLES, number))) for number in range(PARTITIONS))


def test_streams_that_no_file_names() -> None:
    """If unknown streams get models, the command accepts any valid stream name."""
    world = PromotedLog()
    open_config = CONFIG.model_copy(update={"unknown_streams": "model"})
    place = TopicPartition(EXAMPLES, java_partition_of(b"new", PARTITIONS))
    world.fill([world.clock.now_ms()], place.partition)
    assert world.promote("new", config=open_config) == (place, 1)
    for name in ("", "x" * 250):
        with pytest.raises(ConfigurationError, match="1 to 249 bytes"):
            world.promote(name, config=open_config)


class _Silent(EmbeddedCluster):
    """A cluster whose readers never return anything."""

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Open a reader whose polls return nothing."""
        reader = super().reader(partition, committed=committed)
        reader.poll = lambda *_: None  # type: ignore[method-assign]
        return reader


def test_a_silent_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no broker answers, the command ends with an error and does not wait forever."""
    monkeypatch.setattr(reading, "READ_TIMEOUT_S", 0.01)
    world = PromotedLog()
    world.fill([world.clock.now_ms()], PLACE.partition)
    sender = EmbeddedSender(world.broker)
    with pytest.raises(UnknownOutcomeError, match="did not answer"):
        promote(world.application()._replace(cluster=_Silent(world.broker)), sender, "sine", "baseline")


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("majority", "majority", None),
        ("score: 0.8", "score", 0.8),
        ("{probability: 0.3}", "probability", 0.3),
        ("alerts: 0.01", "alerts", 0.01),
        ("costs", "costs", None),
        ("costs: true", "costs", None),
    ],
)
def test_each_form_of_a_threshold_becomes_a_mark(text: str, kind: str, number: float | None) -> None:
    """What the file may have, the command takes, to the last bit of the number."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    place, offset, threshold = decide(world.application(WITH_COSTS), EmbeddedSender(world.broker), "sine", text)
    assert (place, offset) == (PLACE, 1)
    mark = codec.decode_one(world.read(PLACE).values[1] or b"")
    assert mark == Mark("sine", MarkKind.DECIDE, threshold_kind=kind, threshold=number)
    assert threshold == threshold_of(kind, number)


@pytest.mark.parametrize(
    ("stream", "text", "line"),
    [
        ("sime", "majority", "no stream 'sime'; did you mean sine"),
        ("sine", "score: 1.5", "^threshold.score: must be at most 1, is 1.5$"),
        ("sine", "probability: 30 %", "^threshold.probability: must be a number, is '30 %'$"),
        ("sine", "alerts: 0", "^threshold.alerts: must be more than 0, is 0$"),
        ("sine", "score: 0.1\nalerts: 0.1", "^threshold: must be `majority`, `costs`, or a section .*, not several$"),
        ("sine", "probability 0.3", "^threshold: must be `majority`, .* is 'probability 0.3'$"),
        ("sine", "probabilty: 0.3", "^threshold.probabilty: unknown setting; did you mean"),
        ("sine", "costs: 5", "^threshold.costs: must be True, is 5$"),
        ("sine", "[0.3]", "^threshold: must be a section"),
        ("sine", "", "^threshold: is empty"),
        ("sine", "score:", "^threshold: is empty"),
        ("sine", "{score", "^threshold: not YAML: "),
        ("sea", "costs", "^threshold: `costs` needs the costs of the stream"),
    ],
)
def test_a_threshold_that_the_file_could_not_have_is_refused(stream: str, text: str, line: str) -> None:
    """Its mark would become a dead letter, or an empty variable of a script would decide by the majority."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    with pytest.raises(ConfigurationError, match=line):
        decide(world.application(WITH_COSTS), EmbeddedSender(world.broker), stream, text, PLACE.partition)
    assert len(world.read(PLACE)) == 1


def test_streams_that_no_file_names_have_no_costs() -> None:
    """They have the settings of all learners, and nothing else."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    application = world.application(WITH_COSTS.model_copy(update={"unknown_streams": "model"}))
    _, _, threshold = decide(application, EmbeddedSender(world.broker), "new", "alerts: 0.1", PLACE.partition)
    assert str(threshold) == "alerts 0.1"
    with pytest.raises(ConfigurationError, match="needs the costs"):
        decide(application, EmbeddedSender(world.broker), "new", "costs", PLACE.partition)


# areba erase ----------------------------------------------------------------------------------------------------------


def erase_in(world: PromotedLog, *ids: str, stream: str = "sine", config: Config = CONFIG) -> range:
    """Run `areba erase`, and return the offsets of its marks."""
    place, offsets = erase(world.application(config), EmbeddedSender(world.broker), stream, ids)
    assert place == PLACE
    return offsets


def test_many_ids_are_erased_by_few_marks_of_bounded_size() -> None:
    """A mark is a record like any other: a larger one than the inputs accept would be a dead letter."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    ids = [f"id-{number}" for number in range(10_000)]
    assert erase_in(world, *ids, *ids) == range(1, 4)
    values = [value or b"" for value in world.read(PLACE).values][1:]
    assert max(map(len, values)) <= MAX_DIGESTS * DIGEST_CHARACTERS + len("sine") + MARK_BYTES
    marks = [mark for mark in map(codec.decode_one, values) if isinstance(mark, Mark)]
    digests = [digest for mark in marks for digest in cut_digests(mark.digests or "")]
    assert sorted(digests) == sorted(id_digest("sine", id_) for id_ in ids)
    small = CONFIG.model_copy(update={"limits": LimitSettings(max_record_bytes=200)})
    offsets = erase_in(world, *ids[:5], config=small)
    assert len(offsets) == 3
    assert all(len(value or b"") <= 200 for value in world.read(PLACE).values[offsets[0] :])


@pytest.mark.parametrize("ids", [(), ("",), ("x" * 65,)])
def test_ids_that_no_example_can_have_are_refused(ids: tuple[str, ...]) -> None:
    """A mistake in a file of ids must not look like a success."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    with pytest.raises(ConfigurationError, match="erase: "):
        erase_in(world, *ids)
    with pytest.raises(ConfigurationError, match="too small for an erase mark"):
        erase_in(world, "a", config=CONFIG.model_copy(update={"limits": LimitSettings(max_record_bytes=100)}))
    assert len(world.read(PLACE)) == 1


def test_a_stopped_stream_is_resumed_first() -> None:
    """Its marks would become dead letters, and nothing would be erased."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    commit = Commit(0, 0, 1, 0, 0, bytes(32), 0, stopped_streams=1, stopped='{"sine": "bad"}')
    sender = EmbeddedSender(world.broker)
    sender.send(CONFIG.topics.progress, b"0", codec.encode(commit), 5, partition=PLACE.partition)
    with pytest.raises(StateError, match=r"has stopped it.*\[stream-state"):
        erase_in(world, "a")


COMMIT = Commit(7, 0, 1, 0, 0, bytes(32), 0)
STOPPED = Act(8, STOP, "1", Stop("sine", "bad").text)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([COMMIT, Act(8, SKIP, "1", "{}")], id="continues from an older state"),
        pytest.param([Act(0, CONFIGURATION, "1", "{}"), STOPPED], id="moved to more partitions"),
    ],
)
def test_a_stream_is_resumed_before_the_next_batch(records: Sequence[Commit | Act]) -> None:
    """The worker has the stream stopped; without new records, no commit record says so, and none comes."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    sender = EmbeddedSender(world.broker)
    for record in records:
        sender.send(CONFIG.topics.progress, b"0", codec.encode(record), 5, partition=PLACE.partition)
    assert [(found.place, found.stream) for found in resume(world.application(), sender, "sine")] == [(PLACE, "sine")]
    assert codec.decode_one(world.read(PLACE).values[-1] or b"") == Mark("sine", MarkKind.RESUME)


def test_a_stream_that_is_not_stopped_is_not_resumed() -> None:
    """A typing error would look like a success."""
    world = PromotedLog()
    world.fill([5], PLACE.partition)
    sender = EmbeddedSender(world.broker)
    for record in (COMMIT, STOPPED):
        sender.send(CONFIG.topics.progress, b"0", codec.encode(record), 5, partition=PLACE.partition)
    with pytest.raises(StateError, match=r"\[stream-state"):
        resume(world.application(), sender, "sea")
