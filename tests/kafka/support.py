"""What the tests of the shell share: an application on a real Kafka, worker processes to kill, and a second opinion.

The second opinion is `reprocess`: it reads progress and inputs from the topics and carries them through the pure stages
along the recorded ranges, with nothing of worker.py or restore.py in between.
"""

import bisect
import contextlib
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import yaml

from ops.keeper import KeptProcess
from stream_app.backends.base import LogReader, TopicPartition
from stream_app.backends.kafka import KafkaCluster, KafkaSender, KafkaSource, KafkaTransaction, SystemClock
from stream_app.cli.start import create_topics, warm_up
from stream_app.config import Config, TaskSettings, load
from stream_app.pipeline.outputs import OUTPUT_TOPICS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.records import Act, Commit, Example, Label, Mark, MarkKind, RawRecords, Side
from stream_app.recovery.buffers import concatenate
from stream_app.recovery.restore import Stage
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import is_of_a_replay
from stream_app.snapshot.parts import WholeActs
from stream_app.worker.events import Observer
from stream_app.worker.worker import Ports, Worker
from tests.rows import Read, Sent, range_of

ROOT = Path(__file__).parents[2]

DEADLINE_S = 60.0
"""Everything waited for here comes within some seconds, unless the machine is very busy."""

START_DEADLINE_S = 180.0
"""A worker process may have to compile first."""

PAUSE_S = 0.01

Section: TypeAlias = Mapping[str, Any] | str
"""A section of a configuration file."""

SESSION_TIMEOUT_MS = 6_000
"""The least that a broker allows by default: how long a killed member's partitions stand still."""


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Look again and again, until the deadline."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        time.sleep(PAUSE_S)


# Records --------------------------------------------------------------------------------------------------------------


def example(stream: str, id_: str, features: Sequence[float], time_ms: int, partition: int = 0) -> Sent:
    """An example."""
    return Sent(Side.EXAMPLES, partition, time_ms, stream.encode(), codec.encode(Example(stream, id_, features)))


def label(stream: str, id_: str, label_: int, time_ms: int, partition: int = 0) -> Sent:
    """A label."""
    return Sent(Side.LABELS, partition, time_ms, stream.encode(), codec.encode(Label(stream, id_, label_)))


def advance(stream: str, side: Side, to_ms: int, time_ms: int, partition: int = 0) -> Sent:
    """Half of an `advance` pair."""
    mark = Mark(stream, MarkKind.ADVANCE, time_ms=to_ms)
    return Sent(side, partition, time_ms, stream.encode(), codec.encode(mark))


def stream_records(
    stream: str, partition: int, features: int, examples: int, start_ms: int, seed: int
) -> Iterator[tuple[Sent, ...]]:
    """A stream with everything that happens to one: late, missing, repeated, conflicting labels, garbage, disorder.

    Yields:
        What belongs to one moment, in the order of arrival; about one example and one label each.
    """
    draw = random.Random(f"{seed}/{stream}")
    due: list[Sent] = []
    for number in range(examples):
        now_ms = start_ms + 10 * number
        id_ = f"{stream}-{number}"
        positive = draw.random() < 0.1
        row = [draw.gauss(1.0 if positive else 0.0, 1.0) for _ in range(features)]
        now = _examples_of(draw, stream, id_, row, now_ms, partition)
        if draw.random() < 0.01:
            side = draw.choice((Side.EXAMPLES, Side.LABELS))
            now.append(Sent(side, partition, now_ms, stream.encode(), draw.randbytes(20), (("source", b"a scale"),)))
        due += _labels_of(draw, stream, id_, int(positive), now_ms, partition)
        due.sort(key=lambda record: record.time_ms)
        come = bisect.bisect_right(due, now_ms, key=lambda record: record.time_ms)
        yield (*now, *due[:come])
        del due[:come]
    yield tuple(due)


def _examples_of(
    draw: random.Random, stream: str, id_: str, row: list[float], now_ms: int, partition: int
) -> list[Sent]:
    """Most are on time and come once."""
    sent = example(stream, id_, row, now_ms - draw.choice((0, 0, 0, 0, 25)), partition)
    if draw.random() < 0.1:
        sent = sent._replace(headers=(("traceparent", f"00-{now_ms:032x}-{now_ms:016x}-01".encode()),))
    found = [sent]
    if draw.random() < 0.02:
        found.append(sent._replace(time_ms=now_ms))
    if draw.random() < 0.02:
        found.append(example(stream, id_, [value + 1 for value in row], now_ms, partition))
    return found


def _labels_of(draw: random.Random, stream: str, id_: str, truth: int, now_ms: int, partition: int) -> list[Sent]:
    """Most come, up to two seconds later."""
    found = []
    if draw.random() < 0.9:
        time_ms = now_ms + draw.randrange(0, 2_000)
        found.append(label(stream, id_, truth, time_ms, partition))
        if draw.random() < 0.03:
            found.append(label(stream, id_, truth ^ draw.randrange(2), time_ms + 5, partition))
    if draw.random() < 0.01:
        found.append(label(stream, f"{id_}-nobody", 0, now_ms, partition))
    return found


def closing(stream: str, partition: int, to_ms: int, time_ms: int) -> tuple[Sent, Sent]:
    """The pair of marks that ends a finite stream."""
    return (
        advance(stream, Side.EXAMPLES, to_ms, time_ms, partition),
        advance(stream, Side.LABELS, to_ms, time_ms, partition),
    )


class StreamOf(NamedTuple):
    """A stream of a test: its partition, and how many features it has."""

    name: str
    partition: int
    features: int


def all_records(streams: Sequence[StreamOf], examples: int, start_ms: int, seed: int) -> list[Sent]:
    """All streams, moment by moment, and their closing marks."""
    sources = [stream_records(*stream, examples, start_ms, seed) for stream in streams]
    records = [record for moments in zip_longest(*sources, fillvalue=()) for moment in moments for record in moment]
    end_ms = max(record.time_ms for record in records)
    for stream in streams:
        records += closing(stream.name, stream.partition, end_ms, end_ms)
    return records


# The application ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class App:
    """An application with topics of its own. `sections` are those of its file; `folder` holds files and logs.

    Its id is that of the prefix, unless it is given: models are seeded with it.
    """

    servers: str
    prefix: str
    folder: Path
    sections: Mapping[str, Section]
    partitions: int = 1
    replication: int = 1
    application: str | None = None

    @cached_property
    def config(self) -> Config:
        """That of this process."""
        return self.config_of("here")

    @property
    def cluster(self) -> KafkaCluster:
        """Administration."""
        return KafkaCluster(self.servers)

    @property
    def input_topics(self) -> tuple[str, str]:
        """Examples and labels."""
        return self.config.topics.examples, self.config.topics.labels

    def file(self, instance: str, **changed: Section) -> Path:
        """A configuration file for one instance."""
        data: dict[str, Any] = {
            "application": {"id": self.application or f"{self.prefix}app", "instance": instance},
            "worker": {"commit_interval_ms": 50},
            "join": {"ttl_ms": 60_000, "max_clock_lead_ms": 3_600_000},
            "metrics": {"every_labels": 50},
        }
        for name, section in (*self.sections.items(), *changed.items()):
            data[name] = {**data.get(name, {}), **section} if isinstance(section, Mapping) else section
        data["kafka"] = {
            "bootstrap_servers": self.servers,
            "topic_prefix": self.prefix,
            "consumer": {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 1_000},
            **data.get("kafka", {}),
        }
        path = self.folder / f"{self.prefix}{instance}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    def config_of(self, instance: str, **changed: Section) -> Config:
        """The configuration of one instance."""
        return load(self.file(instance, **changed), {})

    def create_topics(self) -> None:
        """As `areba topics create` does."""
        create_topics(self.config, self.partitions, self.replication)

    def send(self, records: Sequence[Sent]) -> None:
        """Send them in this order, without transactions: offsets have no gaps."""
        with contextlib.closing(KafkaSender(self.servers)) as sender:
            self.send_by(sender, records)
            sender.flush(DEADLINE_S)

    def send_by(self, sender: KafkaSender, records: Sequence[Sent]) -> None:
        """Hand them to a sender that stays open."""
        topics = self.config.topics
        for record in records:
            topic = topics.examples if record.side is Side.EXAMPLES else topics.labels
            sender.send(topic, record.key, record.value, record.time_ms, record.headers, record.partition)

    def input_ends(self) -> dict[int, tuple[int, int]]:
        """Behind the last example and label, by partition."""
        topics, cluster = self.config.topics, self.cluster
        return {
            number: (
                len(read_topic(cluster, TopicPartition(topics.examples, number))),
                len(read_topic(cluster, TopicPartition(topics.labels, number))),
            )
            for number in range(self.partitions)
        }

    def outputs(self, number: int) -> dict[str, list[Read]]:
        """All committed outputs of one partition, by unprefixed topic; without the marks of `areba dlq replay`."""
        topics, cluster = self.config.topics, self.cluster
        return {
            name: [
                read
                for read in read_topic(cluster, TopicPartition(getattr(topics, name.replace("-", "_")), number))
                if not is_of_a_replay(read.headers)
            ]
            for name in OUTPUT_TOPICS
        }


class Load(threading.Thread):
    """Sends some moments of each stream a second until it is asked to stop; then the closing marks.

    Timestamps begin `BEHIND_MS` behind the clock and fall back from there: none lies in the future.
    """

    BEHIND_MS = 5_000
    INTERVAL_S = 0.025

    def __init__(self, app: App, streams: Sequence[StreamOf], seed: int) -> None:
        super().__init__(name="load")
        self._app = app
        self._streams = streams
        self._seed = seed
        self._enough = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Send."""
        try:
            with contextlib.closing(KafkaSender(self._app.servers)) as sender:
                self._send(sender)
        except BaseException as error:  # noqa: BLE001  (the test's own thread raises it)
            self._failure = error

    def _send(self, sender: KafkaSender) -> None:
        start_ms = int(time.time() * 1000) - self.BEHIND_MS
        sources = [stream_records(*stream, 10**6, start_ms, self._seed) for stream in self._streams]
        last_ms, begin_s = start_ms, time.monotonic()
        for number, moments in enumerate(zip(*sources, strict=True)):
            records = [record for moment in moments for record in moment]
            last_ms = max(last_ms, *(record.time_ms for record in records))
            self._app.send_by(sender, records)
            due_s = begin_s + self.INTERVAL_S * number
            if self._enough.wait(max(0.0, due_s - time.monotonic())):
                break
        for stream in self._streams:
            self._app.send_by(sender, closing(stream.name, stream.partition, last_ms, last_ms))
        sender.flush(DEADLINE_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop, and raise what went wrong."""
        self._enough.set()
        self.join(2 * DEADLINE_S)
        assert not self.is_alive()
        if self._failure is not None:
            raise self._failure


@contextlib.contextmanager
def reading(cluster: KafkaCluster, place: TopicPartition) -> Iterator[LogReader]:
    """A reader that is closed in the end."""
    reader = cluster.reader(place)
    try:
        yield reader
    finally:
        reader.close()


def read_raw(cluster: KafkaCluster, place: TopicPartition) -> RawRecords:
    """Every committed record of a partition."""
    chunks: list[RawRecords] = []
    deadline = time.monotonic() + DEADLINE_S
    with reading(cluster, place) as reader:
        at_end = False
        while not at_end:
            assert time.monotonic() < deadline, f"{place}: no end within {DEADLINE_S:g} s"
            fetched = reader.poll(10_000, 0.1)
            if fetched is not None:
                chunks.append(fetched.records)
                at_end = fetched.at_end
    return concatenate(chunks)


def read_topic(cluster: KafkaCluster, place: TopicPartition) -> list[Read]:
    """Every committed record of a partition, one by one."""
    raw = read_raw(cluster, place)
    rows = zip(raw.offsets.tolist(), raw.timestamps.tolist(), raw.keys, raw.values, strict=True)
    return [Read(*row, tuple(raw.headers.get(number, ()))) for number, row in enumerate(rows)]


class Progress:
    """What is committed, as the progress topic tells it: of one application, while its workers run."""

    def __init__(self, app: App) -> None:
        self._stack = contextlib.ExitStack()
        cluster, topic = app.cluster, app.config.topics.progress
        self._readers = {
            number: self._stack.enter_context(reading(cluster, TopicPartition(topic, number)))
            for number in range(app.partitions)
        }
        self.records: dict[int, list[Commit | Act]] = {number: [] for number in self._readers}
        self.offsets: dict[int, tuple[int, int]] = dict.fromkeys(self._readers, (0, 0))
        self.commits = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def poll(self) -> int:
        """Take in what is new; the number of commits so far."""
        for number, reader in self._readers.items():
            fetched = reader.poll(10_000, 0.0)
            for value in fetched.records.values if fetched else ():
                record = codec.decode_one(value or b"")
                assert isinstance(record, Commit | Act)
                self.records[number].append(record)
                if isinstance(record, Commit):
                    self.commits += 1
                    self.offsets[number] = (record.examples_end, record.labels_end)
        return self.commits

    def wait_for_more(self, commits: int, deadline_s: float = DEADLINE_S) -> None:
        """Until so many more were made."""
        wanted = self.poll() + commits
        wait_until(lambda: self.poll() >= wanted, f"{commits} more commits ({self.offsets})", deadline_s)

    def wait_for_ends(self, ends: Mapping[int, tuple[int, int]], deadline_s: float = DEADLINE_S) -> None:
        """Until these offsets are committed."""

        def reached() -> bool:
            self.poll()
            return all(self.offsets[number] == end for number, end in ends.items())

        try:
            wait_until(reached, "", deadline_s)
        except AssertionError:
            raise AssertionError(f"committed {self.offsets} of {ends} within {deadline_s:g} s") from None


# The second opinion ---------------------------------------------------------------------------------------------------


@dataclass
class Reprocessed:
    """What the pure stages make of one task's inputs along its recorded ranges."""

    outputs: dict[str, list[Read]] = field(default_factory=lambda: {name: [] for name in OUTPUT_TOPICS})
    offsets: tuple[int, int] = (0, 0)
    models: str = ""
    commits: int = 0


def read_inputs(app: App, number: int) -> list[RawRecords]:
    """The examples and the labels of one partition."""
    return [read_raw(app.cluster, TopicPartition(name, number)) for name in app.input_topics]


def reprocess(
    app: App,
    number: int,
    inputs: Sequence[RawRecords] | None = None,
    progress: Sequence[bytes | None] | None = None,
) -> Reprocessed:
    """Carry the inputs of one partition through a fresh task along its progress, and check the chain on the way.

    `inputs` are those of `read_inputs`, from before some were deleted; `progress` likewise.
    """
    topics, cluster, names = app.config.topics, app.cluster, app.input_topics
    inputs = inputs or read_inputs(app, number)
    result = Reprocessed()
    task: Task | None = None
    acts, digest = WholeActs(), bytes(32)
    progress = progress or read_raw(cluster, TopicPartition(topics.progress, number)).values
    for sequence, value in enumerate(progress):
        record = codec.decode_one(value or b"")
        assert isinstance(record, Commit | Act)
        assert record.sequence == sequence, f"sequence {record.sequence} at place {sequence}"
        if isinstance(record, Act):
            act = acts.add(record)
            if act is not None:
                task = task or Task(number, TaskSettings.from_json(act.text), names)
                task.apply(act)
            continue
        assert task is not None
        ranges = (record.examples_start, record.examples_end, record.labels_start, record.labels_end)
        assert (ranges[0], ranges[2]) == result.offsets, "every range starts where the one before ended"
        outputs = task.step(range_of(inputs[0], *ranges[:2]), range_of(inputs[1], *ranges[2:]))
        digest = chain_digest(digest, ranges, outputs)
        assert record.digest == digest, f"task {number}: the digest of sequence {sequence} is another one"
        for topic, records in outputs.topics.items():
            for row, cells in enumerate(zip(records.timestamps, records.keys, records.values, strict=True)):
                result.outputs[topic].append(Read(-1, *cells, tuple(records.headers.get(row, ()))))
        result.offsets = (record.examples_end, record.labels_end)
        result.commits += 1
    if task is not None:
        result.models = hashlib.sha256(repr(sorted(task.model_digests().items())).encode()).hexdigest()
    return result


def same(found: Sequence[Read], expected: Sequence[Read], what: str) -> None:
    """Equal in all but offsets (control records take some): key, value, headers, timestamp, order."""
    assert len(found) == len(expected), f"{what}: {len(found)} records, expected {len(expected)}"
    for number, (one, two) in enumerate(zip(found, expected, strict=True)):
        assert one[1:] == two[1:], f"{what}: record {number} differs"


def check_exactly_once(
    app: App,
    inputs: Mapping[int, Sequence[RawRecords]] | None = None,
    progress: Mapping[int, Sequence[bytes | None]] | None = None,
) -> dict[int, Reprocessed]:
    """Every output equals what the pure stages make of the recorded ranges, and the offsets are where progress ends."""
    result = {}
    inputs, progress = inputs or {}, progress or {}
    places = {number: [TopicPartition(name, number) for name in app.input_topics] for number in range(app.partitions)}
    committed = app.cluster.committed(app.config.group_id, [place for pair in places.values() for place in pair])
    for number, pair in places.items():
        expected = reprocess(app, number, inputs.get(number), progress.get(number))
        for topic, records in app.outputs(number).items():
            same(records, expected.outputs[topic], f"{topic}[{number}]")
        offsets = tuple(known.offset if (known := committed[place]) else 0 for place in pair)
        assert offsets == expected.offsets
        result[number] = expected
    return result


# Workers --------------------------------------------------------------------------------------------------------------


def worker_of(config: Config, transaction: KafkaTransaction | None = None) -> Worker:
    """A worker of this process."""
    clock = SystemClock()
    settings = {**config.kafka.all, **config.kafka.consumer}
    source = KafkaSource(config.kafka.bootstrap_servers, config.group_id, settings)
    transaction = transaction or KafkaTransaction(config.kafka.bootstrap_servers, config.transactional_id)
    cluster = KafkaCluster(config.kafka.bootstrap_servers)

    def open_transaction(transactional_id: str) -> KafkaTransaction:
        return KafkaTransaction(config.kafka.bootstrap_servers, transactional_id)

    return Worker(config, Ports(source, transaction, cluster, clock, open_transaction), Observer(clock))


def run_until(worker: Worker, condition: Callable[[Worker], bool], deadline_s: float = DEADLINE_S) -> None:
    """Run in this process until the condition holds."""
    deadline = time.monotonic() + deadline_s

    def should_stop() -> bool:
        assert time.monotonic() < deadline, f"the condition did not hold within {deadline_s:g} s"
        return condition(worker)

    worker.run(should_stop)


def run_to(config: Config, ends: Mapping[int, tuple[int, int]], deadline_s: float = DEADLINE_S) -> dict[int, str]:
    """Run in this process until these offsets are committed; the digest of each task's models then."""
    warm_up(config.task_settings())
    models: dict[int, str] = {}

    def done(worker: Worker) -> bool:
        live = {task.number: task for task in worker.tasks if task.stage is Stage.LIVE}
        if not all(number in live and live[number].offsets == end for number, end in ends.items()):
            return False
        models.update({number: live[number].live.model_digest() for number in ends})
        return True

    run_until(worker_of(config), done, deadline_s)
    return models


class Process(Protocol):
    """What is needed of `subprocess.Popen`."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """The exit status, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Until it ends."""

    def kill(self) -> None:
        """SIGKILL."""


def spawn(arguments: Sequence[str], log_file: Path) -> Process:
    """`areba` with these arguments, in an interpreter of its own."""
    with log_file.open("ab") as log:
        return KeptProcess(
            [sys.executable, "-m", "stream_app.cli", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


class WorkerProcess:
    """`areba run` as a process of its own; its log goes to a file."""

    def __init__(self, file: Path, spawn: Callable[[Sequence[str], Path], Process] = spawn) -> None:
        self._file = file
        self._spawn = spawn
        self.log_file = file.with_suffix(".log")
        self._process: Process | None = None
        self._from = 0  # where in the log the present life of the process begins

    def start(self) -> None:
        """Start it (again)."""
        assert self._process is None
        self._from = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = self._spawn(["run", "-c", str(self._file)], self.log_file)

    def log(self) -> str:
        """What it has said since its start."""
        with self.log_file.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    def wait_for(self, text: str, times: int = 1, deadline_s: float = START_DEADLINE_S) -> None:
        """Until its log has this text so often."""
        process = self._running()

        def said() -> bool:
            there = self.log().count(text) >= times
            assert there or process.poll() is None, f"ended with {process.returncode}:\n{self.log()}"
            return there

        wait_until(said, f"{text!r} in the log of {self._file.name}", deadline_s)

    def _running(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._running().poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        os.kill(self._running().pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        process = self._running()
        assert process.poll() is None, f"it had ended with {process.returncode} before:\n{self.log()}"
        process.kill()
        process.wait()
        self._process = None

    def wait(self, deadline_s: float = START_DEADLINE_S) -> int:
        """Until it ends by itself; its exit status."""
        status = self._running().wait(deadline_s)
        self._process = None
        return status

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self.signal(signal.SIGTERM)

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.ask_to_stop()
        return self.wait(DEADLINE_S)

    def models(self) -> dict[int, str]:
        """The digests that it logged at its clean stop, by task."""
        return {int(task): digest for task, digest in re.findall(r"stopped task=(\d+) .*models=(\w+)", self.log())}

    def end(self) -> None:
        """Whatever its state."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def workers(app: App, *instances: str, **changed: Section) -> Iterator[list[WorkerProcess]]:
    """Worker processes, not started yet, that do not outlive the block."""
    made = [WorkerProcess(app.file(instance, **changed)) for instance in instances]
    try:
        yield made
    finally:
        for worker in made:
            worker.end()


def areba(file: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """One command of `areba`, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "stream_app.cli", *arguments, "-c", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=START_DEADLINE_S,
        check=False,
    )
