"""`areba verify` must find and name whatever is off: each test breaks one thing that would cost a user his trust."""

import io
import itertools
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.faults import Faults
from producers.label_delay import parse_label_delay
from producers.replay import Plan, StreamPlan, replay
from producers.sources import parse_source
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Committed, Ends, Fetched, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.memory import EmbeddedBroker, EmbeddedCluster, EmbeddedSender, ManualClock
from stream_app.config import Config, LearnerSettings
from stream_app.errors import ConfigurationError, TopicError
from stream_app.learners.api import LEARN, PREDICT, REPORT, REPORT_WIDTH, Answers, Operations
from stream_app.pipeline import merge
from stream_app.pipeline import stream as stream_module
from stream_app.pipeline.outputs import GENESIS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.records import (
    Act,
    Commit,
    Example,
    Floats,
    Header,
    Label,
    Mark,
    MarkKind,
    Metric,
    Outcome,
    Prediction,
    RawRecords,
    Reason,
    Side,
    Words,
)
from stream_app.recovery.commit_point import CommitPoint
from stream_app.serialization import codec
from stream_app.serialization.left_out import Fields, fitted
from stream_app.snapshot.format import Place, Snapshot
from stream_app.snapshot.identity import RULES
from stream_app.terminal import Terminal
from stream_app.verify import verify
from stream_app.verify.audit import MAX_FINDINGS, Output
from stream_app.verify.metrics_check import Recount

CONFIG = Config.model_validate(
    {
        "application": {"id": "books"},
        "join": {
            "ttl_ms": 400,
            "max_clock_lead_ms": 100,
            "max_pending_per_stream": 40,
            "max_waiting_per_stream": 20,
            "max_closed_per_stream": 60,
            "closed_ttl_ms": 3_000,
        },
        "metrics": {"every_labels": 20},
        "predictions": "all",
        "streams": {"sine": {"features": 2}, "sea": {}, "slow": {"features": 2}},
    }
)
CORRECTING = Config.model_validate(
    CONFIG.model_dump() | {"join": CONFIG.join.model_dump() | {"corrections": "correct"}}
)
SHORT_LIVED = {"ttl_ms": 40, "max_clock_lead_ms": 10, "closed_ttl_ms": 60}
TOPICS = CONFIG.topics
GROUP = CONFIG.group_id

SNAPSHOT = Snapshot(Place(7, 1, 400, "ab" * 32), 3)
"""A task that runs for long has one; the books do without."""


@dataclass(frozen=True)
class Stored:
    """One record of the log."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    offset: int = -1


@dataclass
class Log:
    """Topics with one partition, as lists; what `verify` needs of a cluster."""

    records: dict[str, list[Stored]] = field(default_factory=lambda: {name: [] for name in TOPICS})
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    after_read: Callable[[], None] | None = None

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Those that exist."""
        return {name: TopicInfo(name, 1, {}) for name in names if name in self.records}

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Not for a reader."""
        raise NotImplementedError

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> "ListReader":  # noqa: ARG002  (the port's)
        """From the first record on."""
        return ListReader(partition, self.records[partition.topic])

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """From the first record on, as far as there are any."""
        stored = self.records[partition.topic]
        low = max(stored[0].offset, 0) if stored else 0
        return Watermarks(low, low + len(stored))

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Nobody asks."""
        raise NotImplementedError

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed | None]:
        """What was stored; then the group may move on."""
        assert group_id == GROUP
        found = {partition: self.offsets.get(partition) for partition in partitions}
        if self.after_read is not None:
            self.after_read()
        return found

    def members(self, group_id: str) -> Sequence[str]:
        """Nobody asks."""
        raise NotImplementedError

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Not for a reader."""
        raise NotImplementedError

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Not for a reader."""
        raise NotImplementedError


class ListReader:
    """A `LogReader` over a list; two polls, so that reading on is tried."""

    def __init__(self, partition: TopicPartition, records: Sequence[Stored]) -> None:
        self._partition = partition
        self._rows = [(stored.offset if stored.offset >= 0 else place, stored) for place, stored in enumerate(records)]
        self._next = 0

    def seek(self, offset: int) -> None:
        """Go on from there."""
        self._next = offset

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Half of the records at a time."""
        del timeout_s
        size = min(max_records, len(self._rows) // 2 + 1)
        rows = [row for row in self._rows if row[0] >= self._next][:size]
        if rows:
            self._next = rows[-1][0] + 1
        at_end = not self._rows or self._next > self._rows[-1][0]
        return Fetched(self._partition, raw([stored for _, stored in rows], [offset for offset, _ in rows]), at_end)

    def close(self) -> None:
        """Nothing to release."""


def raw(records: Sequence[Stored], offsets: Sequence[int]) -> RawRecords:
    """In columns."""
    return RawRecords(
        np.array(offsets, np.int64),
        np.array([stored.timestamp_ms for stored in records], np.int64),
        [stored.key for stored in records],
        [stored.value for stored in records],
        {row: stored.headers for row, stored in enumerate(records) if stored.headers},
    )


class Oracle:
    """A learner whose scores come from the features alone: the books look at scores, not at how they were learned."""

    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._updates = 0

    def run(self, operations: Operations, features: Floats, ids: Words) -> Answers:
        """Answer each operation."""
        del ids
        rows = len(operations)
        scores, labels = np.full(rows, np.nan, np.float32), np.full(rows, -1, np.int8)
        versions, reports = np.zeros(rows, np.int64), []
        for row, (code, slot) in enumerate(zip(operations.codes, operations.slots, strict=True)):
            versions[row] = self._updates
            if code == PREDICT:
                scores[row] = abs(float(features[slot].sum()) * self._salt) % 1
                labels[row] = scores[row] > 0.5
            elif code == LEARN:
                self._updates += 1
            elif code == REPORT:
                reports.append([self._updates, 0, 0, 0, 0, 0, 0])
        return Answers(scores, labels, versions, np.array(reports, np.float64).reshape(-1, REPORT_WIDTH))

    def arrays(self) -> Mapping[str, np.ndarray]:
        """It has none."""
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """It has none."""
        raise NotImplementedError


def oracle(name: str, settings: LearnerSettings, features: int, seed: bytes, scratch: object) -> Oracle:
    """In place of `learners.build`."""
    del settings, features, seed, scratch
    return Oracle(salt=len(name))


# A history with everything in it --------------------------------------------------------------------------------------


def encoded(record: Example | Label | Mark, timestamp_ms: int) -> Stored:
    """As a producer writes it, some with a trace."""
    headers = (("traceparent", b"00-%032x-%016x-01" % (timestamp_ms, timestamp_ms)),) if timestamp_ms % 7 == 0 else ()
    return Stored(timestamp_ms, record.stream.encode(), codec.encode(record), headers)


def inputs(seed: int) -> tuple[list[Stored], list[Stored]]:  # noqa: C901  (a list of faults)
    """Examples and labels of three streams with every fault there is, each side in order of time but for a few."""
    draw = random.Random(seed)
    examples: list[tuple[float, Stored]] = []
    labels: list[tuple[float, Stored]] = []
    for stream, features, gap_ms in (("sine", 2, 20), ("sea", 3, 30), ("slow", 2, 5)):
        for number in range(150):
            time_ms = 1_000 + number * gap_ms
            name = f"{stream}-{number}"
            example = Example(stream, name, [draw.random() for _ in range(features)])
            label = Label(stream, name, number % 3 == 0)
            label_ms = time_ms + draw.choice([10, 30, 60, 200] if stream != "slow" else [350])
            dropped = number % 29 == 3
            if not dropped:
                examples.append((time_ms, encoded(example, time_ms)))
            if number % 23 == 5:  # comes before its example
                label_ms = time_ms - 8
            if number % 31 == 7:  # too late
                label_ms = time_ms + 700
            if number % 17 != 9:
                labels.append((label_ms, encoded(label, label_ms)))
            if number % 13 == 1 and not dropped:
                examples.append((time_ms + 50, encoded(example, time_ms + 50)))
                labels.append((label_ms + 60, encoded(label, label_ms + 60)))
            if number % 37 == 2:
                other = replace(example, features=[value + 1 for value in example.features])
                examples.append((time_ms + 55, encoded(other, time_ms + 55)))
                labels.append((label_ms + 65, encoded(replace(label, label=1 - label.label), label_ms + 65)))
            if number % 11 == 6:  # corrected, often before its example comes; then an older revision
                changed = replace(label, label=1 - label.label, revision=2)
                labels.append((label_ms + 4, encoded(changed, label_ms + 4)))
                labels.append((label_ms + 5, encoded(replace(label, revision=1), label_ms + 5)))
                labels.append((label_ms + 90, encoded(replace(changed, revision=3), label_ms + 90)))
            if number % 41 == 4:  # again beyond the horizon
                examples.append((time_ms + 4_000, encoded(example, time_ms + 4_000)))
    examples += bad_examples()
    labels += [
        (1_700, Stored(1_700, b"sine", b"nothing")),
        (1_710, encoded(Label("sine", "sine-x", 2), 1_710)),
        (1_720, encoded(Label("nobody", "1", 1), 1_720)),
        (1_730, encoded(Mark("sine", MarkKind.PROMOTE, learner="nobody"), 1_730)),
    ]
    for stream in ("sine", "sea"):
        mark = encoded(Mark(stream, MarkKind.ADVANCE, time_ms=3_500), 3_500)
        examples.append((3_500, mark))
        labels.append((3_500, mark))
    labels.append((2_500, encoded(Mark("sine", MarkKind.PROMOTE, learner="baseline"), 2_500)))
    return [stored for _, stored in sorted(examples, key=_when)], [stored for _, stored in sorted(labels, key=_when)]


def _when(pair: tuple[float, Stored]) -> float:
    return pair[0]


def bad_examples() -> list[tuple[float, Stored]]:
    """One of each kind that is refused whatever the state."""
    good = codec.encode(Example("sine", "x", [0.5, 0.5]))
    return [
        (1_501, Stored(1_501, b"sine", good[:-2])),
        (1_502, Stored(1_502, b"sine", None)),
        (1_503, Stored(1_503, b"\xff", b"garbage")),
        (1_504, encoded(Example("sine", "wide", [1.0, 2.0, 3.0]), 1_504)),
        (1_505, encoded(Example("sine", "nan", [float("nan"), 2.0]), 1_505)),
        (1_506, encoded(Example("sine", "", [1.0, 2.0]), 1_506)),
        (1_507, encoded(Example("nobody", "x", [1.0]), 1_507)),
        (1_508, Stored(1_508, b"sine", codec.encode(Label("sine", "x", 1)))),
        (1_509, Stored(1_509, b"sine", codec.encode(Mark("sine", MarkKind.ADVANCE)))),
    ]


def history(seed: int = 1, batch: int = 97, kept: float = 1.0, config: Config = CONFIG) -> Log:
    """What a real task makes of it, in batches of about this size; `kept` is the share that was processed."""
    log = Log()
    log.records[TOPICS.examples], log.records[TOPICS.labels] = inputs(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_module, "build", oracle)
        return processed(log, batch, kept, config)


def processed(log: Log, batch: int, kept: float, config: Config = CONFIG) -> Log:
    """What a task makes of this share of the inputs, written to the log in batches of about this size."""
    task = Task(0, config.task_settings(), (TOPICS.examples, TOPICS.labels))
    digest, at = GENESIS, (0, 0)
    log.records[TOPICS.progress].append(
        Stored(0, None, codec.encode(Act(0, "configuration", "0", config.task_settings().to_json())))
    )
    examples, labels = log.records[TOPICS.examples], log.records[TOPICS.labels]
    last = (int(len(examples) * kept), int(len(labels) * kept))
    for sequence in itertools.count():
        if at == last:
            break
        one, two = examples[at[0] : last[0]], labels[at[1] : last[1]]
        times = [np.array([stored.timestamp_ms for stored in side], np.int64) for side in (one, two)]
        taken = merge.cut(*times, examples_at_end=True, labels_at_end=True, limit=batch + sequence % 5)
        end = (at[0] + taken[0], at[1] + taken[1])
        outputs = task.step(raw(one[: taken[0]], range(at[0], end[0])), raw(two[: taken[1]], range(at[1], end[1])))
        ranges = (at[0], end[0], at[1], end[1])
        digest = chain_digest(digest, ranges, outputs)
        for name, records in outputs.topics.items():
            cells = zip(records.timestamps, records.keys, records.values, strict=True)
            log.records[getattr(TOPICS, name.replace("-", "_"))] += [
                Stored(*cell, tuple(records.headers.get(row, ()))) for row, cell in enumerate(cells)
            ]
        commit = Commit(sequence + 1, *ranges, digest, outputs.records, None, rules=RULES)
        log.records[TOPICS.progress].append(Stored(0, None, codec.encode(commit)))
        at = end
        for side, topic in enumerate((TOPICS.examples, TOPICS.labels)):
            log.offsets[TopicPartition(topic, 0)] = Committed(
                end[side], CommitPoint(sequence + 1, digest).metadata((SNAPSHOT,))
            )
    return log


@pytest.fixture(scope="module")
def true_log() -> Log:
    """A history in which nothing is off; not to be changed."""
    return history()


@pytest.fixture
def log(true_log: Log) -> Log:
    """A copy, to break something in it."""
    return Log({name: list(records) for name, records in true_log.records.items()}, dict(true_log.offsets))


def findings(log: Log, config: Config = CONFIG) -> str:
    """Everything off, in one text."""
    return "\n".join(verify.verify(log, config).findings)


def where(log: Log, topic: str, test: Callable[..., bool]) -> tuple[int, Prediction | Outcome | Metric | Commit]:
    """The first record of a topic that passes, with its offset."""
    for offset, stored in enumerate(log.records[topic]):
        record = codec.decode_one(stored.value or b"")
        if test(record):
            return offset, record  # type: ignore[return-value]
    raise AssertionError(f"the history has no such record in {topic}")


def put(log: Log, topic: str, offset: int, record: Prediction | Outcome | Metric | Commit | None) -> None:
    """Write another record in its place; None takes it out."""
    records = log.records[topic]
    if record is None:
        del records[offset]
    else:
        records[offset] = replace(records[offset], value=codec.encode(record))


# What is right is called right ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "batch", "kept"), [(1, 97, 1.0), (2, 7, 1.0), (3, 100_000, 1.0), (4, 50, 0.6)])
def test_a_true_history_balances(seed: int, batch: int, kept: float) -> None:
    """A checker that cries wolf is not looked at any more: all faults, all cuts, and a group that is behind."""
    report = verify.verify(history(seed, batch, kept), CONFIG)
    assert list(report.findings) == []
    assert report.ok
    sine = report.figures["sine"]
    assert sine.predictions["areba"] == sine.predictions["baseline"] == sine.champion_predictions > 60
    assert min(sine.joined, sine.example_duplicates, sine.label_duplicates) > 0
    assert sine.example_marks == (kept == 1.0)
    assert sine.example_dead_letters["wrong-dimension"] == sine.example_dead_letters["not-finite"] == 1
    assert sine.label_dead_letters["bad-label"] == sine.label_dead_letters["unknown-learner"] == 1
    assert report.figures["nobody"].example_dead_letters == {"unknown-stream": 1}
    if kept == 1.0:
        assert min(report.figures["slow"].evicted, report.figures["sea"].unlabelled, sine.unlabelled) > 0
        both = sine.label_dead_letters + report.figures["sea"].label_dead_letters
        assert {"late-label", "orphan-label", "conflicting-label"} <= both.keys()


def test_the_books_are_shown(log: Log) -> None:
    """The operator reads this: the verdict, each stream, each reason."""
    out = io.StringIO()
    verify.verify(log, CONFIG).show(Terminal(file=out, width=120))
    text = out.getvalue()
    assert "the books balance (1 partitions" in text
    assert "dead letters of sine from examples: bad-id 1" in text
    put(log, TOPICS.predictions, 4, None)
    out = io.StringIO()
    verify.verify(log, CONFIG).show(Terminal(file=out, width=120))
    assert "the books are off" in out.getvalue()
    assert f"{TOPICS.predictions}[0] offset" in out.getvalue()


# Each breakage is found and named -------------------------------------------------------------------------------------


def test_a_lost_prediction(log: Log) -> None:
    """A customer got no answer."""
    offset, found = where(log, TOPICS.predictions, lambda record: record.champion and record.id == "sine-40")
    assert isinstance(found, Prediction)
    del log.records[TOPICS.predictions][offset : offset + 2]  # the challenger's too
    text = findings(log)
    assert f"{TOPICS.examples}[0] offset" in text
    assert "has no prediction (stream sine, id sine-40)" in text
    assert "the books of stream sine are off by +1: examples" in text


def test_a_lost_challenger_prediction(log: Log) -> None:
    """A comparison of learners would be of different examples."""
    offset, _ = where(log, TOPICS.predictions, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, None)
    assert "other learners than are configured: baseline (stream sea, id sea-50" in findings(log)


def test_a_doubled_prediction(log: Log) -> None:
    """A customer was answered twice: the promise is exactly once."""
    offset, _ = where(log, TOPICS.predictions, lambda record: record.champion and record.id == "sea-50")
    records = log.records[TOPICS.predictions]
    records[offset + 2 : offset + 2] = records[offset : offset + 2]
    text = findings(log)
    assert f"{TOPICS.predictions}[0] offset {offset + 2}: belongs to no example, or to one that has its" in text
    assert "(stream sea, id sea-50, learner areba)" in text


def test_an_invented_prediction(log: Log) -> None:
    """An answer to a question that nobody asked."""
    records = log.records[TOPICS.predictions]
    record = codec.decode_one(records[10].value or b"")
    assert isinstance(record, Prediction)
    records.append(replace(records[10], value=codec.encode(replace(record, id="ghost"))))
    assert f"offset {len(records) - 1}: belongs to no example" in findings(log)


def test_swapped_predictions(log: Log) -> None:
    """Order within a stream is what a subscriber builds on."""
    records = log.records[TOPICS.predictions]
    place = next(
        place
        for place in range(20, 200, 2)
        if records[place].key == records[place + 2].key == b"slow" and records[place].value != records[place + 2].value
    )
    records[place : place + 4] = [*records[place + 2 : place + 4], *records[place : place + 2]]
    text = findings(log)
    assert f"{TOPICS.predictions}[0] offset {place}: is out of order" in text
    assert "are off by" not in text


def test_a_prediction_at_another_time(log: Log) -> None:
    """Event time is the only clock."""
    records = log.records[TOPICS.predictions]
    records[8] = replace(records[8], timestamp_ms=records[8].timestamp_ms + 1)
    assert f"{TOPICS.predictions}[0] offset 8: timestamp {records[8].timestamp_ms} is not that of" in findings(log)


def test_a_doubled_outcome(log: Log) -> None:
    """A label that counts twice."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined")
    assert isinstance(outcome, Outcome)
    records = log.records[TOPICS.outcomes]
    records.insert(offset + 1, records[offset])
    text = findings(log)
    assert (
        f"{TOPICS.outcomes}[0] offset {offset + 1}: settles {TOPICS.examples}[0] offset {outcome.example_offset}"
        in text
    )
    assert "which was settled before" in text
    assert outcome.id in text


def test_a_lost_outcome(log: Log) -> None:
    """An example whose end nobody was told, though its label is there."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.stream == "sea")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    text = findings(log)
    assert f"{TOPICS.examples}[0] offset {outcome.example_offset}: is pending, and its label" in text
    assert f"id {outcome.id})" in text


def test_a_lost_closing(log: Log) -> None:
    """An example that should have been given up is pending for ever."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "unlabelled")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    expected = f"{TOPICS.examples}[0] offset {outcome.example_offset}: is still pending, but stream time"
    assert expected in findings(log)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"label": 1}, "class 1, but"),
        ({"delay_ms": -77}, "delay_ms -77, but the records' timestamps say"),
        ({"score": 0.125}, "learner and score are not those of"),
        ({"learner": "nobody"}, "learner and score are not those of"),
        ({"id": "sine-1"}, "which has another stream or id (stream sine, id sine-4"),
        ({"label_offset": None}, "joined settles the wrong sides"),
    ],
)
def test_a_changed_outcome(log: Log, change: dict[str, object], expected: str) -> None:
    """Whoever scores the learners by outcomes would score something that did not happen."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.id == "sine-40")
    assert isinstance(outcome, Outcome)
    assert outcome.label == 0
    put(log, TOPICS.outcomes, offset, replace(outcome, **change))  # type: ignore[arg-type]
    text = findings(log)
    assert f"{TOPICS.outcomes}[0] offset {offset}: " in text
    assert expected in text


def test_a_duplicate_that_is_none(log: Log) -> None:
    """Calling a new example a duplicate would hide that it was lost."""
    offset, prediction = where(log, TOPICS.predictions, lambda record: record.id == "sine-9")
    del log.records[TOPICS.predictions][offset : offset + 2]
    assert isinstance(prediction, Prediction)
    offset, outcome = where(
        log, TOPICS.outcomes, lambda record: record.id == "sine-9" and record.outcome == "unlabelled"
    )
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="duplicate", learner=None, score=None))
    assert f"{TOPICS.examples}[0] offset {outcome.example_offset}: " in findings(log)


def test_a_repeat_that_was_taken_as_new(log: Log) -> None:
    """A retry of a producer must not train the model twice."""
    offset, outcome = where(
        log,
        TOPICS.outcomes,
        lambda record: record.outcome == "duplicate" and record.example_offset and record.stream == "sea",
    )
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="evicted"))
    text = findings(log)
    assert (
        f"{TOPICS.examples}[0] offset {outcome.example_offset}: was taken as new, but repeats {TOPICS.examples}" in text
    )


@pytest.mark.parametrize("batch", [1, 2, 5_000])
def test_a_label_that_waited_for_an_example_that_came_too_late(batch: int) -> None:
    """An id that was forgotten and is used again is no damage: a false alarm makes people deaf to true ones."""
    short = Config.model_validate({**CONFIG.model_dump(), "join": SHORT_LIVED})
    log = Log()
    log.records[TOPICS.examples] = [
        encoded(Example("sine", name, [0.5, 0.5]), time_ms)
        for name, time_ms in (("a", 1_000), ("b", 1_400), ("a", 1_300))
    ]
    log.records[TOPICS.labels] = [encoded(Label("sine", "a", 1), time_ms) for time_ms in (1_010, 1_390)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_module, "build", oracle)
        processed(log, batch, 1.0, short)
    reasons = [dict(stored.headers)["areba.reason"] for stored in log.records[TOPICS.dead_letters]]
    assert reasons == [b"late-label"]
    assert verify.verify(log, short).findings == ()


@pytest.fixture(scope="module")
def corrected() -> Log:
    """A history with corrections; not to be changed."""
    return history(config=CORRECTING)


@pytest.mark.parametrize("batch", [1, 7, 97, 5_000])
def test_corrections_balance(batch: int) -> None:
    """Of labels that wait and of joined examples, told by revisions, wherever a batch was cut."""
    log = history(3, batch, config=CORRECTING)
    report = verify.verify(log, CORRECTING)
    assert report.findings == ()
    assert not [note for note in report.notes if "not counted again" in note], "the metrics were"
    assert sum(figures.corrections for figures in report.figures.values()) > 20
    kinds = [outcome.outcome for outcome in map(_decoded, log.records[TOPICS.outcomes]) if isinstance(outcome, Outcome)]
    assert kinds.count("correction") == sum(figures.corrections for figures in report.figures.values())


def _decoded(stored: Stored) -> object:
    return codec.decode_one(stored.value or b"")


@pytest.mark.parametrize(
    ("negatives", "positive", "right"),
    [(1.99, 0.0, True), (1.0, 1.0, True), (2.0, 0.0, False), (1.99, 1.0, False)],
)
def test_metrics_before_or_after_a_correction(negatives: float, positive: float, right: bool) -> None:
    """A mark publishes metrics without a label, and nothing says which corrections came before it."""
    outcomes = [
        Outcome("s", "a", "joined", 1, "one", 0.25, 0, 0, 0),
        Outcome("s", "b", "joined", 0, "one", 0.25, 0, 1, 1),
        Outcome("s", "a", "correction", 0, None, None, None, None, 2),
    ]
    predictions = [Prediction("s", name, "one", True, 0.25, 0, 0) for name in "ab"]
    asked = [Output(offset, 0, b"s", prediction) for offset, prediction in enumerate(predictions)]
    settled = [Output(offset, 0, b"s", outcome) for offset, outcome in enumerate(outcomes)]
    metric = replace(
        _changed(0),
        stream="s",
        learner="one",
        labelled=2,
        positive_correct=0.0,
        positive_total=positive,
        negative_correct=negatives,
        negative_total=negatives,
        recall=0.0 if positive else None,
        specificity=1.0 if positive else None,
        gmean=0.0 if positive else None,
    )
    recount = Recount(0.99, asked, settled, max_closed=10, closed_ttl_ms=10**9)
    assert (recount.fault(metric) is None) == right
    assert recount.unknown == 0


def test_corrections_that_are_none(corrected: Log) -> None:
    """A lower revision must not take back a class, and without the policy nothing may."""
    assert "is called a correction, but the settings know none" in findings(corrected)
    assert "is called a conflicting-label, but its revision" in findings(history(), CORRECTING)
    log = Log({name: list(records) for name, records in corrected.records.items()}, dict(corrected.offsets))
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "correction")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, label=1 - (outcome.label or 0)))
    assert re.search(rf"outcomes\[0\] offset {offset}: class ., but", findings(log, CORRECTING))
    assert outcome.label_offset is not None
    label = _decoded(log.records[TOPICS.labels][outcome.label_offset])
    assert isinstance(label, Label)
    put(log, TOPICS.outcomes, offset, outcome)
    stored = log.records[TOPICS.labels][outcome.label_offset]
    low = replace(stored, value=codec.encode(replace(label, revision=0)))
    log.records[TOPICS.labels][outcome.label_offset] = low
    assert "is called a correction, but its revision 0 is not a higher one" in findings(log, CORRECTING)


def test_an_eviction_without_need() -> None:
    """A bound that is not reached must not cost an example its label."""
    log = history(5, batch=7)
    offset, outcome = where(
        log, TOPICS.outcomes, lambda record: record.outcome == "unlabelled" and record.stream == "sine"
    )
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="evicted"))
    expected = (
        f"offset {offset}: {TOPICS.examples}[0] offset {outcome.example_offset} is evicted, but the stream's bound"
    )
    assert expected in findings(log)


def test_a_closing_before_its_time(log: Log) -> None:
    """A label that is on time must not find its example gone."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.id == "sea-149")
    assert isinstance(outcome, Outcome)
    early = replace(outcome, outcome="unlabelled", label=None, label_offset=None, delay_ms=None)
    put(log, TOPICS.outcomes, offset, early)
    expected = (
        f"offset {offset}: {TOPICS.examples}[0] offset {outcome.example_offset} is unlabelled, but it had not expired"
    )
    assert expected in findings(log)


def test_an_example_of_the_very_time_of_a_mark_that_was_left_open() -> None:
    """A pair of marks closes up to its time, and that time too: such an example must have its outcome."""
    mark = encoded(Mark("sine", MarkKind.ADVANCE, time_ms=1_020), 1_030)
    examples = [encoded(Example("sine", str(number), [0.5, 0.5]), 1_000 + 10 * number) for number in range(3)]
    log = Log()
    log.records[TOPICS.examples], log.records[TOPICS.labels] = [*examples, mark], [mark]
    processed(log, 97, 1.0)
    assert findings(log) == ""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.id == "2")
    assert isinstance(outcome, Outcome)
    assert outcome.outcome == "unlabelled"
    put(log, TOPICS.outcomes, offset, None)
    assert f"{TOPICS.examples}[0] offset 2: is still pending, but " in findings(log)


def test_a_missing_dead_letter(log: Log) -> None:
    """Nothing is lost silently, above all not what could not be read."""
    offset = next(
        offset
        for offset, stored in enumerate(log.records[TOPICS.dead_letters])
        if dict(stored.headers)["areba.reason"] == b"undecodable"
    )
    where_from = dict(log.records[TOPICS.dead_letters][offset].headers)["__connect.errors.offset"]
    del log.records[TOPICS.dead_letters][offset]
    expected = (
        f"{TOPICS.examples}[0] offset {(where_from or b'').decode()}: has no dead letter: its value is undecodable"
    )
    assert expected in findings(log)


def test_a_changed_dead_letter(log: Log) -> None:
    """A dead letter is sent again after the mend: its bytes must be those that came."""
    records = log.records[TOPICS.dead_letters]
    records[0] = replace(records[0], value=b"other")
    records[1] = replace(records[1], headers=(("mine", b"1"), *records[1].headers))
    text = findings(log)
    assert f"{TOPICS.dead_letters}[0] offset 0: has not the value of" in text
    assert f"{TOPICS.dead_letters}[0] offset 1: has not the headers of" in text


def test_a_dead_letter_that_left_its_value_out(log: Log) -> None:
    """What it says of the value must be true of the input record; then the books balance."""
    records, limit = log.records[TOPICS.dead_letters], 10
    one, two = (
        fitted(Fields(stored.key, stored.value, stored.headers[:-6]), stored.headers[-6:], limit)
        for stored in records[:2]
    )
    records[0] = replace(records[0], key=one.key, value=one.value, headers=tuple(one.headers))
    assert verify.verify(log, CONFIG).ok
    wrong = tuple((name, b"00" if name == "areba.value.sha256" else value) for name, value in two.headers)
    records[1] = replace(records[1], key=two.key, value=two.value, headers=wrong)
    assert f"{TOPICS.dead_letters}[0] offset 1: has not the value of" in findings(log)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("areba.reason", b"bad-time", "cannot be 'bad-time'"),
        ("areba.reason", b"whatever", "cannot be 'whatever'"),
        ("__connect.errors.offset", b"99999", "which is not committed"),
        ("__connect.errors.topic", b"elsewhere", "names elsewhere[0], which is no input of this task"),
        ("__connect.errors.offset", b"x", "lacks the headers of a dead letter"),
    ],
)
def test_a_dead_letter_that_points_elsewhere(log: Log, name: str, value: bytes, expected: str) -> None:
    """Its headers are how an operator finds the cause."""
    records = log.records[TOPICS.dead_letters]
    headers = tuple((key, value if key == name else text) for key, text in records[3].headers)
    records[3] = replace(records[3], headers=headers)
    text = findings(log)
    assert f"{TOPICS.dead_letters}[0] offset 3: " in text
    assert expected in text


def test_a_doubled_dead_letter(log: Log) -> None:
    """Sent again after the mend, it would be there twice."""
    log.records[TOPICS.dead_letters].insert(4, log.records[TOPICS.dead_letters][3])
    text = findings(log)
    assert f"{TOPICS.dead_letters}[0] offset 4: names " in text
    assert "which does not exist, or was settled or taken before" in text


def test_a_well_formed_example_that_was_refused(log: Log) -> None:
    """The breaker and the operator would blame the producer."""
    offset, prediction = where(log, TOPICS.predictions, lambda record: record.id == "sine-9")
    assert isinstance(prediction, Prediction)
    del log.records[TOPICS.predictions][offset : offset + 2]
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.id == "sine-9")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    original = log.records[TOPICS.examples][outcome.example_offset or 0]
    fields = {
        "__connect.errors.topic": TOPICS.examples,
        "__connect.errors.partition": "0",
        "__connect.errors.offset": str(outcome.example_offset),
        "__connect.errors.exception.class.name": "x",
        "__connect.errors.exception.message": "x",
        "areba.reason": "conflicting-example",
    }
    headers = (*original.headers, *((key, text.encode()) for key, text in fields.items()))
    place = next(
        place
        for place, stored in enumerate(log.records[TOPICS.dead_letters])
        if stored.timestamp_ms > original.timestamp_ms
    )
    log.records[TOPICS.dead_letters].insert(place, replace(original, headers=headers))
    assert "is called a conflicting-example, but no other features of this id are known" in findings(log)


@pytest.mark.parametrize("topic", [TOPICS.predictions, TOPICS.outcomes, TOPICS.metrics, TOPICS.dead_letters])
def test_a_truncated_output(log: Log, topic: str) -> None:
    """Records that a broker lost at the tail."""
    del log.records[topic][-2:]
    text = findings(log)
    assert "the commit records tell of" in text
    assert f"{topic} {len(log.records[topic])}" in text


def test_truncated_inputs(log: Log) -> None:
    """A producer that deleted what the group had committed: re-processing is impossible from now on."""
    del log.records[TOPICS.examples][-5:]
    end = len(log.records[TOPICS.examples])
    assert f"{TOPICS.examples}[0]: ends at offset {end}, but the records below {end + 5} were there once" in findings(
        log
    )
    log.records[TOPICS.labels] = [
        replace(stored, offset=offset) for offset, stored in enumerate(log.records[TOPICS.labels])
    ][3:]
    assert f"{TOPICS.labels}[0]: starts at offset 3" in findings(log)


def test_a_gap_in_the_commit_records(log: Log) -> None:
    """Without one link nobody can re-process along the recorded ranges."""
    del log.records[TOPICS.progress][2]
    text = findings(log)
    assert f"{TOPICS.progress}[0] offset 2: sequence 3 follows 1" in text
    assert "sequence 3 starts at" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"records": 1}, "the commit records tell of"),
        ({"examples_start": 1}, f"starts at 1 of {TOPICS.examples}, the commit before it ended at"),
        ({"digest": b"x" * 32}, "its digest is not that of the committed offsets"),
    ],
)
def test_a_changed_commit_record(log: Log, change: dict[str, object], expected: str) -> None:
    """The chain is what recovery is checked against."""
    last = len(log.records[TOPICS.progress]) - 1
    commit = codec.decode_one(log.records[TOPICS.progress][last].value or b"")
    assert isinstance(commit, Commit)
    put(log, TOPICS.progress, last, replace(commit, **change))  # type: ignore[arg-type]
    assert expected in findings(log)


def test_a_lost_configuration(log: Log) -> None:
    """Without it nobody knows under which settings the first records were processed."""
    del log.records[TOPICS.progress][0]
    text = findings(log)
    assert f"{TOPICS.progress}[0] offset 0: sequence 1 follows -1" in text
    assert "the first record is no configuration" in text


def test_resumed_tasks_balance(log: Log) -> None:
    """An operator who resumes twice has done no harm."""
    last = len(log.records[TOPICS.progress])
    acts = [Act(last - 1, "resume", "0", ""), Act(last, "resume", "0", "")]
    log.records[TOPICS.progress] += [Stored(0, None, codec.encode(act)) for act in acts]
    assert findings(log) == ""


def test_a_lost_last_commit_record(log: Log) -> None:
    """Offsets without their commit record are half a transaction."""
    last = len(log.records[TOPICS.progress]) - 1
    del log.records[TOPICS.progress][last]
    assert f"{TOPICS.progress}[0]: ends at sequence {last - 1}; {last} is committed" in findings(log)


def test_metrics_that_count_too_much(log: Log) -> None:
    """A dashboard that tells of labels which never came."""
    last = len(log.records[TOPICS.metrics]) - 1
    metric = codec.decode_one(log.records[TOPICS.metrics][last].value or b"")
    assert isinstance(metric, Metric)
    put(log, TOPICS.metrics, last, replace(metric, labelled=10_000))
    assert f"{TOPICS.metrics}[0] offset {last}: labelled of {metric.stream}/{metric.learner} is 10,000" in findings(log)


def _changed(at: int, **figures: float | None) -> Metric:
    """The metric after `at` labels of a learner that became worse at label 40, which was flagged at label 60."""
    change = {"change_flagged": 60, "change_began": 40, "gmean_before": 0.5, "labels_to_recover": 25, "changes": 1}
    sums = dict.fromkeys(("positive_correct", "positive_total", "negative_correct", "negative_total"), 1.0)
    names = [each.name for each in fields(Metric) if each.name not in {*change, *sums}]
    values = dict.fromkeys(names, 0) | {"stream": "s", "learner": "l", "labelled": at} | sums | change | figures
    return Metric(**values)  # type: ignore[arg-type]


NO_CHANGE: dict[str, float | None] = {
    **dict.fromkeys(("change_flagged", "change_began", "gmean_before", "labels_to_recover")),
    "changes": 0,
}


@pytest.mark.parametrize(
    ("metric", "before", "fault"),
    [
        (_changed(100), None, None),
        (_changed(100), _changed(80, labels_to_recover=None), None),
        (_changed(100), _changed(50, **NO_CHANGE), None),
        (_changed(100, changes=2, change_flagged=95, change_began=90, labels_to_recover=5), _changed(80), None),
        (_changed(100, **NO_CHANGE), None, None),
        (_changed(100, changes=0), None, "is described"),
        (_changed(50), None, "flagged at 60, begun at 40, of 50 labels"),
        (_changed(100, change_began=61), None, "begun at 61"),
        (_changed(100, change_flagged=None), None, "flagged at None"),
        (_changed(100, labels_to_recover=61), None, "recovered in 61 of the 60"),
        (_changed(100, **NO_CHANGE), _changed(80), "0 after 1"),
        (_changed(100, gmean_before=0.6), _changed(80), "is another"),
        (_changed(100, changes=2), _changed(80), "a new one was flagged at 60"),
        (_changed(100), _changed(70, **NO_CHANGE), "not yet there after 70"),
    ],
)
def test_changes_that_cannot_be(metric: Metric, before: Metric | None, fault: str | None) -> None:
    """Who decides by the figures on changes has to know that they hang together."""
    found = verify.change_fault(metric, before)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_a_change_out_of_nowhere(log: Log) -> None:
    """The figures on changes are looked at in every metric of the history."""
    offset, metric = where(log, TOPICS.metrics, lambda record: record.changes == 0)
    assert isinstance(metric, Metric)
    put(log, TOPICS.metrics, offset, replace(metric, change_flagged=3))
    assert f"{TOPICS.metrics}[0] offset {offset}: change of {metric.stream}/{metric.learner}: there" in findings(log)


def test_committed_offsets_that_were_reset(log: Log) -> None:
    """Somebody moved the group by hand."""
    log.offsets[TopicPartition(TOPICS.examples, 0)] = Committed(10, "")
    text = findings(log)
    assert "the committed offsets of examples and labels do not belong together" in text


def test_a_group_that_was_reset_to_an_offset(log: Log) -> None:
    """By Kafka's own tool: both offsets, without what we store beside them."""
    for topic in (TOPICS.examples, TOPICS.labels):
        log.offsets[TopicPartition(topic, 0)] = Committed(10, "")
    assert f"{TOPICS.examples}[0]: the committed offset has no metadata of areba; was the group reset?" in findings(log)


def test_a_group_whose_offsets_are_gone(log: Log) -> None:
    """They expire when no member of the group was there for a week; then nothing tells what was processed."""
    log.offsets.clear()
    assert f"{TOPICS.progress}[0] offset 1: a record of the task, but the group has committed no offsets" in findings(
        log
    )


def test_a_value_that_is_no_record(log: Log) -> None:
    """Another program writes to our topic."""
    log.records[TOPICS.outcomes].append(Stored(1, b"sine", b"hello"))
    log.records[TOPICS.predictions].append(Stored(1, b"sine", codec.encode(Label("sine", "1", 1))))
    text = findings(log)
    assert f"{TOPICS.outcomes}[0] offset {len(log.records[TOPICS.outcomes]) - 1}: cannot be decoded" in text
    assert "is a Label, which has no place here" in text


def test_a_group_at_work_is_not_blamed(log: Log) -> None:
    """Checked while it runs: outputs newer than the committed offsets that were asked for are no fault."""
    half = len(log.records[TOPICS.progress]) // 2
    commit = codec.decode_one(log.records[TOPICS.progress][half].value or b"")
    assert isinstance(commit, Commit)
    metadata = CommitPoint(commit.sequence, commit.digest).metadata()
    ends = {TOPICS.examples: commit.examples_end, TOPICS.labels: commit.labels_end}
    late = Log(log.records, {TopicPartition(topic, 0): Committed(end, metadata) for topic, end in ends.items()})

    def move_on() -> None:
        late.offsets = log.offsets

    late.after_read = move_on
    report = verify.verify(late, CONFIG)
    assert list(report.findings) == []
    assert "the group is at work" in report.notes[0]


def test_an_application_that_never_ran() -> None:
    """Empty topics are balanced books."""
    report = verify.verify(Log(), CONFIG)
    assert report.ok
    assert report.figures == {}


def test_many_findings_are_counted_not_kept(log: Log) -> None:
    """A log full of errors must not fill the memory of the tool that reads it."""
    log.records[TOPICS.predictions] = [
        replace(log.records[TOPICS.predictions][0], key=b"x") for _ in range(2 * MAX_FINDINGS)
    ]
    report = verify.verify(log, CONFIG)
    assert len(report.findings) == MAX_FINDINGS < report.finding_count


def test_missing_topics_are_named() -> None:
    """A wrong prefix in the configuration is the likeliest error."""
    log = Log()
    del log.records[TOPICS.outcomes]
    with pytest.raises(TopicError, match=f"{TOPICS.outcomes}: there is no such topic"):
        verify.verify(log, CONFIG)


# Inputs, one by one ---------------------------------------------------------------------------------------------------


def test_values_are_judged_as_the_batch_decoder_judges_them() -> None:
    """Two decoders, written apart: where they differ, one of them is wrong about a user's data."""
    draw = random.Random(3)
    good = [
        codec.encode(record)
        for record in (
            Example("sine", "a", [1.0, 2.0]),
            Example("sine", "é" * 32, [float("inf"), float("-inf")]),
            Example("sine", "é" * 33, [1.0]),
            Example("", "a", [1.0]),
            Example("sine", "a", []),
            Example("sine", "a", [1.0] * 6),
            Label("sine", "a", 1, 3),
            Label("sine", "a", 1, -1),
            Mark("sine", MarkKind.ADVANCE, time_ms=5),
            Mark("sine", MarkKind.ADVANCE, time_ms=-5),
            Mark("sine", MarkKind.PROMOTE, learner=""),
            Mark("sine", MarkKind.PROMOTE, learner="a"),
        )
    ]
    values: list[bytes | None] = [None, b"", *good]
    for value in good:
        for _ in range(30):
            changed = bytearray(value)
            changed[draw.randrange(len(changed))] = draw.randrange(256)
            values.append(bytes(changed[: draw.randrange(5, len(changed) + 1)] if draw.random() < 0.3 else changed))
    limits = codec.DecodeLimits(max_record_bytes=80, max_features=5)
    for side in Side:
        decoded = codec.decode(values, side, limits)
        for row, sent in enumerate(values):
            ours = verify.read_value(sent, side, limits.max_record_bytes, limits.max_features)
            assert (ours if isinstance(ours, Reason) else 0) == decoded.reasons[row], (side, sent)


# Manifests ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replay:
    """Streams that were sent to an in-process log, and the manifest of that."""

    broker: EmbeddedBroker
    path: Path

    def report(self) -> verify.Report:
        """What `verify` says; no worker ever ran."""
        return verify.verify(EmbeddedCluster(self.broker), CONFIG, [self.path])

    def entries(self, topic: str) -> list[Any]:
        """All entries of the topic's one partition, to break something in them."""
        return self.broker._logs[TopicPartition(topic, 0)].entries


def replayed(folder: Path, faults: Faults) -> Replay:
    """Two short streams with late labels and with these faults."""
    broker = EmbeddedBroker(ManualClock())
    for topic in topic_plan.plan(TOPICS, 1):
        broker.create_topic(topic)
    sources = [parse_source(name) for name in ("sine:length=120,imbalance=20", "sea:length=90,imbalance=20")]
    plan = Plan(
        tuple(
            StreamPlan(source.stream, source.data, parse_label_delay("uniform:1ev-30ev"), 0.1, faults)
            for source in sources
        )
    )
    manifest = replay(plan, EmbeddedSender(broker), broker.clock)
    path = folder / "manifest.json"
    manifest.save(path)
    return Replay(broker, path)


def test_what_was_sent_is_there(tmp_path: Path) -> None:
    """The replayer's word and the topics agree, whatever faults it made on purpose."""
    faults = Faults(duplicates=0.1, dropped=0.1, conflicting_labels=0.1, garbage=0.1)
    report = replayed(tmp_path, faults).report()
    assert list(report.findings) == []
    assert [note.split(": ")[1] for note in report.notes] == [
        f"{len(replayed(tmp_path, faults).entries(topic))} records of the manifests are not yet processed"
        for topic in (TOPICS.examples, TOPICS.labels)
    ]


def test_records_out_of_order_have_no_digest(tmp_path: Path) -> None:
    """The order of sending cannot be told from the topics then; all else is checked."""
    report = replayed(tmp_path, Faults(out_of_order=0.2)).report()
    assert list(report.findings) == []
    assert report.notes[-1] == "manifest.json: its digest was not checked: it sent records out of order"


def test_a_record_that_was_sent_and_is_not_there(tmp_path: Path) -> None:
    """Lost between the replayer and us, whatever the broker said."""
    sent = replayed(tmp_path, Faults())
    for topic, place in ((TOPICS.examples, 31), (TOPICS.labels, 47)):
        del sent.entries(topic)[place]
    text = "\n".join(sent.report().findings)
    assert re.search(r"manifest\.json: stream (sine|sea): examples missing: [0-9a-f]{10}-\d+$", text, re.MULTILINE)
    assert re.search(r"manifest\.json: stream (sine|sea): distinct labels: \d+ found, \d+ sent", text)


def test_a_record_that_is_there_twice(tmp_path: Path) -> None:
    """A retry of a producer that was not idempotent."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.examples)
    entries[40] = entries[39]._replace(offset=40)
    text = "\n".join(sent.report().findings)
    assert re.search(r"examples missing: [0-9a-f]{10}-\d+$", text, re.MULTILINE)
    assert re.search(r"examples too many: [0-9a-f]{10}-\d+", text)


def test_a_record_with_other_bytes(tmp_path: Path) -> None:
    """All counts are right, the features are not what was sent."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.examples)
    example = codec.decode_one(entries[5].value)
    assert isinstance(example, Example)
    entries[5] = entries[5]._replace(value=codec.encode(replace(example, features=[0.0, *example.features[1:]])))
    (finding,) = sent.report().findings
    assert re.fullmatch(r"manifest\.json: digest [0-9a-f]{64} on the topics, [0-9a-f]{64} was sent", finding)


def test_missing_marks(tmp_path: Path) -> None:
    """Without its closing marks a finite stream stays open for a day."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.labels)
    places = [place for place, entry in enumerate(entries) if isinstance(codec.decode_one(entry.value), Mark)]
    del entries[places[0]]
    assert "closing marks of labels: 0 found, 1 sent" in "\n".join(sent.report().findings)


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    """The file's name is told, not a traceback."""
    path = tmp_path / "manifest.json"
    for text in ("{}", "[]", "\0", '{"format": 1}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=r"manifest\.json: no manifest of a replay"):
            verify.verify(Log(), CONFIG, [path])
    path.write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="a manifest of format 2"):
        verify.verify(Log(), CONFIG, [path])
    with pytest.raises(ConfigurationError, match=r"nowhere\.json: No such file"):
        verify.verify(Log(), CONFIG, [tmp_path / "nowhere.json"])
