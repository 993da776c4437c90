"""The topics of an application as lists of records, intact or damaged, for the tests of `areba verify`."""

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pytest

from stream_app.arrays import Floats, Words
from stream_app.backends.base import Answer, Ends, Fetched, TopicInfo, TopicPartition, Watermarks
from stream_app.config import Config, LearnerSettings
from stream_app.learners.api import REPORT_WIDTH, Answers, Operations
from stream_app.pipeline import merge
from stream_app.pipeline import stream as stream_module
from stream_app.pipeline.outputs import GENESIS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Header, Label, Mark, MarkKind, Metric, Operation, Outcome, Prediction
from stream_app.serialization import codec
from stream_app.snapshot.identity import RULES
from stream_app.verify import verify
from stream_app.verify.results import Code, Finding

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
        "metrics": {"every_labels": 20, "fading_factors": [0.99, 1.0]},
        "predictions": "all",
        "pass_headers": ["request", "tenant"],
        "streams": {"sine": {"features": 2}, "sea": {}, "slow": {"features": 2}},
    }
)


CORRECTING = Config.model_validate(
    CONFIG.model_dump() | {"join": CONFIG.join.model_dump() | {"corrections": "correct"}}
)


SHORT_LIVED = {"ttl_ms": 40, "max_clock_lead_ms": 10, "closed_ttl_ms": 60}


TOPICS = CONFIG.topics


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
    """Topics with one partition, as lists; the part of a cluster that `verify` needs."""

    records: dict[str, list[Stored]] = field(default_factory=lambda: {name: [] for name in TOPICS})
    before_read: Callable[[str], None] = lambda _: None

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Refuse: a tool waits for its answers."""
        raise NotImplementedError

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Return the named topics that exist."""
        return {name: TopicInfo(name, 1, {}) for name in names if name in self.records}

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Refuse: a reader creates nothing."""
        raise NotImplementedError

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> "ListReader":  # noqa: ARG002  (the port's)
        """Return a reader from the first record on; before that, a test may change the topic."""
        self.before_read(partition.topic)
        return ListReader(partition, self.records[partition.topic])

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return the first offset and the end."""
        stored = self.records[partition.topic]
        low = max(stored[0].offset, 0) if stored else 0
        return Watermarks(low, low + len(stored))

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Refuse: `verify` does not need it."""
        raise NotImplementedError

    def committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Refuse: progress alone says how far a task is."""
        raise NotImplementedError

    def members(self, group_id: str) -> Sequence[str]:
        """Refuse: `verify` does not need it."""
        raise NotImplementedError

    def empty_group(self, group_id: str) -> object:
        """Refuse: a reader commits nothing."""
        raise NotImplementedError

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Refuse: a reader deletes nothing."""
        raise NotImplementedError


class ListReader:
    """A `LogReader` over a list, which returns the records in two polls."""

    def __init__(self, partition: TopicPartition, records: Sequence[Stored]) -> None:
        self._partition = partition
        self._rows = [(stored.offset if stored.offset >= 0 else place, stored) for place, stored in enumerate(records)]
        self._next = 0

    def seek(self, offset: int) -> None:
        """Continue at this offset."""
        self._next = offset

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return half of the records at a time."""
        del timeout_s
        size = min(max_records, len(self._rows) // 2 + 1)
        rows = [row for row in self._rows if row[0] >= self._next][:size]
        if rows:
            self._next = rows[-1][0] + 1
        at_end = not self._rows or self._next > self._rows[-1][0]
        records = raw([stored for _, stored in rows], [offset for offset, _ in rows])
        return Fetched(self._partition, records, at_end, self._next)

    def close(self) -> None:
        """Do nothing."""


def raw(records: Sequence[Stored], offsets: Sequence[int]) -> RawRecords:
    """Return the records in columns."""
    return RawRecords.of(
        np.array(offsets, np.int64),
        np.array([stored.timestamp_ms for stored in records], np.int64),
        [stored.key for stored in records],
        [stored.value for stored in records],
        {row: stored.headers for row, stored in enumerate(records) if stored.headers},
    )


class Oracle:
    """A learner whose scores depend on the features alone: `verify` compares scores, not how they were learned."""

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
            if code == Operation.PREDICT:
                scores[row] = abs(float(features[slot].sum()) * self._salt) % 1
                labels[row] = scores[row] > 0.5
            elif code == Operation.LEARN:
                self._updates += 1
            elif code == Operation.REPORT:
                reports.append([self._updates, 0, 0, 0, 0, 0, 0])
        return Answers(scores, labels, versions, np.array(reports, np.float64).reshape(-1, REPORT_WIDTH))

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return no state."""
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Ignore the state."""
        raise NotImplementedError


def oracle(
    name: str, settings: LearnerSettings, features: int, seed: bytes, scratch: object, *, is_loaded: bool = False
) -> Oracle:
    """Create an oracle, in the place of `learners.build`."""
    del settings, features, seed, scratch, is_loaded
    return Oracle(salt=len(name))


def encoded(record: Example | Label | Mark, timestamp_ms: int) -> Stored:
    """Return a record as a producer writes it, sometimes with a trace, and of one stream with headers to pass on."""
    headers: list[Header] = []
    if timestamp_ms % 7 == 0:
        headers.append(("traceparent", b"00-%032x-%016x-01" % (timestamp_ms, timestamp_ms)))
    if record.stream == "sea":
        headers += [("tenant", b"north"), ("other", b"x"), ("request", b"%d" % timestamp_ms)]
        headers += [("tenant", b"south")] if timestamp_ms % 4 == 0 else []
        headers += [("request", b"x" * 300)] if timestamp_ms % 11 == 0 else []
    return Stored(timestamp_ms, record.stream.encode(), codec.encode_unchecked(record), tuple(headers))


def inputs(seed: int) -> tuple[list[Stored], list[Stored]]:  # noqa: C901  (a list of faults)
    """Return examples and labels of three streams with every kind of fault, each side mostly in order of time."""
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
            if number % 41 == 4:  # repeated beyond the horizon
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
    """Return one example of each kind that is refused in any state."""
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
    """Return the log of a real task that processed the share `kept` of the inputs, in batches of about this size."""
    log = Log()
    log.records[TOPICS.examples], log.records[TOPICS.labels] = inputs(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_module, "build", oracle)
        return processed(log, batch, kept, config)


def processed(log: Log, batch: int, kept: float, config: Config = CONFIG) -> Log:
    """Process this share of the inputs in batches of about this size, and write the outputs to the log."""
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
            cells = zip(records.keys, records.values, strict=True)
            log.records[getattr(TOPICS, name.replace("-", "_"))] += [
                Stored(0, *cell, tuple(records.headers.get(row, ()))) for row, cell in enumerate(cells)
            ]
        commit = Commit(sequence + 1, *ranges, digest, outputs.records, rules=RULES)
        log.records[TOPICS.progress].append(Stored(0, None, codec.encode(commit)))
        at = end
    return log


def at_work(log: Log) -> Log:
    """Return a log whose second half of commits appears once outputs are read; their outputs are there before."""
    whole = log.records[TOPICS.progress]
    late = Log({**log.records, TOPICS.progress: whole[: len(whole) // 2 + 1]})

    def commit(topic: str) -> None:
        if topic == TOPICS.predictions:
            late.records[TOPICS.progress] = whole

    late.before_read = commit
    return late


def findings(log: Log, config: Config = CONFIG) -> Sequence[Finding]:
    """Return all findings."""
    return verify.verify(log, config).findings


def places(found: Iterable[Finding]) -> set[tuple[Code, str, int | None]]:
    """Return code, topic and offset of each finding."""
    return {(finding.code, finding.topic, finding.offset) for finding in found}


def text_of(found: Iterable[Finding], code: Code) -> str:
    """Return the lines of all findings with this code."""
    return "\n".join(str(finding) for finding in found if finding.code == code)


def lines(report: verify.Report) -> str:
    """Return the lines of all findings of a report."""
    return "\n".join(map(str, report.findings))


def where(log: Log, topic: str, test: Callable[..., bool]) -> tuple[int, Prediction | Outcome | Metric | Commit]:
    """Return the first record of a topic that passes the test, and its offset."""
    for offset, stored in enumerate(log.records[topic]):
        record = codec.decode_one(stored.value or b"")
        if test(record):
            return offset, record  # type: ignore[return-value]
    raise AssertionError(f"the history has no such record in {topic}")


def put(log: Log, topic: str, offset: int, record: Prediction | Outcome | Metric | Commit | None) -> None:
    """Replace the record at an offset; None removes it."""
    records = log.records[topic]
    if record is None:
        del records[offset]
    else:
        records[offset] = replace(records[offset], value=codec.encode(record))
