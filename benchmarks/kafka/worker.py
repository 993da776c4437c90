"""Measure a worker on a real Kafka: its CPU time, against loops that only consume and produce, and its latency.

Each side runs in a separate process (`python -m benchmarks.kafka.worker ours|native|confluent SERVERS PREFIX COUNT`),
whose CPU time is measured from the moment when the member has joined the group and its code is compiled.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from confluent_kafka import Consumer, Producer

from benchmarks.kafka.own_process import last_line_of
from benchmarks.peers.inputs import tiled
from benchmarks.peers.measurement import cpu_s
from benchmarks.rows import Row, at_most, below
from benchmarks.way import DELAY_EXAMPLES, Inputs, fraud
from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.cluster import start as start_kafka
from stream_app.backends.base import LogReader, TopicInfo, TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.jit.compiler import prepare_environment
from stream_app.record_columns import OutputRecords, repeated
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

COUNT = 50_000
"""Half of the labelled examples of a run of `benchmarks.compare`."""

EXAMPLES = 500_000
"""Labelled examples of a run against the loops."""

LOOP_RECORDS, LOOP_WAIT_S, OUTPUT = 10_000, 0.1, bytes(75)
LOOP_CONSUMER = MappingProxyType(
    {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": 65_536,
    }
)
LOOP_PRODUCER = MappingProxyType({"queue.buffering.max.messages": 1_000_000, "linger.ms": 5, "batch.size": 1_000_000})

REPETITIONS = 3
LATENCY_RUNS = 5
RATE = 2_000
LATENCY_S = 20.0
WARM_S = 8.0
"""The first seconds of a latency run do not count: the broker and the worker have just started."""

LIMIT_S = 120.0
"""The longest time that a run may take."""

STOP_S = 30.0
"""Time for a worker to stop: it ends its round and leaves the group."""

P50_MS, P99_MS, WORKER_CORES, BROKER_CORES = 12.0, 35.0, 0.2, 0.45
"""Goals of the latency runs."""

POLL_S = 0.02


def configuration(servers: str, prefix: str, instance: str = "worker-1") -> Config:
    """Return a configuration with one stream of 30 features and one learner."""
    return Config.model_validate(
        {
            "application": {"id": "bench", "instance": instance},
            "kafka": {"bootstrap_servers": servers, "topic_prefix": prefix},
            "learners": {"areba": {"method": "areba"}},
            "streams": {"fraud": {"features": 30, "learning_rate": 0.0001}},
        }
    )


def loop_topic(prefix: str) -> str:
    """Return the output topic of the loops: a worker refuses topics with records of others."""
    return f"{prefix}loop"


def send(servers: str, config: Config, count: int) -> None:
    """Send the stream to the topics, each label a hundred examples late."""
    inputs = Inputs(tiled(count))
    sender = KafkaSender(servers)
    now = int(time.time() * 1000) - 2 * count
    key = b"fraud"
    for number in range(count):
        sender.send(config.topics.examples, key, inputs.examples[number], now + 2 * number)
        sender.send(config.topics.labels, key, inputs.labels[number], now + 2 * (number + DELAY_EXAMPLES) + 1)
    sender.flush(LIMIT_S)
    sender.close()


# The two sides, each in its own process --------------------------------------------------------------------------


class _Halves:
    """CPU seconds of this process over the first and the second half of the records."""

    def __init__(self, records: int) -> None:
        self._goals = [0, records // 2, records]
        self._marks: list[float] = []
        self._end_s = time.monotonic() + LIMIT_S

    def are_done(self, records: int) -> bool:
        """Say whether this many records are all; note the CPU time if they are a half."""
        while len(self._marks) < len(self._goals) and records >= self._goals[len(self._marks)]:
            self._marks.append(time.process_time())
        if time.monotonic() > self._end_s:
            raise TimeoutError(f"{records} of {self._goals[-1]} records after {LIMIT_S:g} s")
        return len(self._marks) == len(self._goals)

    def cpu_s(self) -> list[float]:
        """Return the seconds of both halves."""
        return [later - earlier for earlier, later in pairwise(self._marks)]


def run_ours(servers: str, prefix: str, count: int) -> list[float]:
    """Return the CPU seconds of a worker from the assignment to the last commit, for both halves."""
    config = configuration(servers, prefix)
    warm_up(config.task_settings())
    clock = SystemClock()
    source = KafkaSource(servers, config.group_id)
    transaction = KafkaTransaction(servers, config.transactional_id)
    worker = Worker(
        config,
        Ports(source, transaction, KafkaCluster(servers), clock, partial(KafkaTransaction, servers)),
        Observer(clock),
    )
    halves = _Halves(2 * count)
    worker.run(lambda: bool(worker.tasks) and halves.are_done(sum(sum(task.offsets) for task in worker.tasks)))
    return halves.cpu_s()


def run_native(servers: str, prefix: str, count: int) -> list[float]:
    """Return the same of a loop over areba's own clients, which copies columns: outputs of the same size as ours."""
    topics = configuration(servers, prefix).topics
    source, transaction = KafkaSource(servers, "bench-native"), KafkaTransaction(servers, "bench-native")
    transaction.initialise()
    halves, done, is_assigned = _Halves(2 * count), 0, False

    def on_assign(partitions: Sequence[TopicPartition]) -> None:
        nonlocal is_assigned
        source.start_at(dict.fromkeys(partitions, 0))
        is_assigned = True

    source.subscribe((topics.examples, topics.labels), on_assign, lambda _: None, 100)
    while not (is_assigned and halves.are_done(done)):
        fetched = [part for part in source.poll(LOOP_RECORDS, LOOP_WAIT_S) if len(part.records)]
        if not fetched:
            continue
        transaction.begin()
        group = source.group_metadata()
        ends = {part.partition: int(part.records.offsets[-1]) + 1 for part in fetched}
        transaction.send_offsets(ends, group)
        for part in fetched:
            values = repeated(OUTPUT, len(part.records))
            outputs = OutputRecords(part.records.keys, values, part.records.timestamps, {})
            transaction.produce(TopicPartition(loop_topic(prefix), 0), outputs)
            done += len(outputs)
        transaction.flush()
        transaction.commit()
    source.close()
    transaction.close()
    return halves.cpu_s()


def run_confluent(servers: str, prefix: str, count: int) -> list[float]:
    """Return the same of a loop on confluent-kafka with its fastest calls, `consume` and `produce_batch`."""
    topics = configuration(servers, prefix).topics
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench-confluent", **LOOP_CONSUMER})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "bench-confluent", **LOOP_PRODUCER})
    producer.init_transactions()
    consumer.subscribe([topics.examples, topics.labels])
    halves, done = _Halves(2 * count), 0
    while not (consumer.assignment() and halves.are_done(done)):
        messages = [message for message in consumer.consume(LOOP_RECORDS, LOOP_WAIT_S) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        producer.produce_batch(loop_topic(prefix), [{"key": one.key(), "value": OUTPUT} for one in messages])
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()
        done += len(messages)
    consumer.close()
    return halves.cpu_s()


SIDES = MappingProxyType({"ours": run_ours, "native": run_native, "confluent": run_confluent})


def _side(side: str, servers: str, prefix: str, count: int) -> list[float]:
    """Return the CPU seconds of one side in a new process, for both halves."""
    text = last_line_of("benchmarks.kafka.worker", side, servers, prefix, str(count), timeout_s=2 * LIMIT_S)
    halves: list[float] = json.loads(text)["cpu_s"]
    return halves


def _throughput(servers: str) -> list[Row]:
    figures: dict[str, list[list[float]]] = {side: [] for side in SIDES}
    for number in range(REPETITIONS):
        prefix = f"bench{number}."
        config = configuration(servers, prefix)
        create_topics(config, 1, 1)
        KafkaCluster(servers).create([TopicInfo(loop_topic(prefix), 1, {})], 1)
        send(servers, config, EXAMPLES)
        for side in SIDES:
            figures[side].append(_side(side, servers, prefix, EXAMPLES))
    rows = []
    for half, name in enumerate(("first", "second")):
        us = {side: median(run[half] for run in runs) / (EXAMPLES / 2) * 1e6 for side, runs in figures.items()}
        what = f"the worker on Kafka, CPU a labelled example, {name} half of {EXAMPLES:,}"
        rows.append(at_most(f"{what}, against a loop on confluent-kafka", 30, us["ours"], us["confluent"], 2.0))
        rows.append(at_most(f"{what}, against a loop on the C API", 30, us["ours"], us["native"], 4.0))
    return rows


# Latency --------------------------------------------------------------------------------------------------------------


@contextmanager
def _worker(config: Config) -> Iterator[KeptProcess]:
    """Run a worker process during the block, as users run it."""
    with temporary_folder("areba-bench-") as folder:
        file = folder / "bench.json"
        file.write_text(
            json.dumps(
                config.model_dump(mode="json", exclude={"learners"}) | {"learners": {"areba": {"method": "areba"}}}
            )
        )  # JSON is YAML
        command = [sys.executable, "-m", "stream_app.cli", "run", "-c", str(file)]
        process = KeptProcess(command, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.end(STOP_S)


class _Run(NamedTuple):
    """Figures of one run: latencies in milliseconds, CPU seconds in a second of the worker and of the broker."""

    p50_ms: float
    p99_ms: float
    worker_cores: float
    broker_cores: float


def _latency(kafka: LocalKafka) -> list[Row]:
    runs = [_latency_run(kafka, f"latency{number}.") for number in range(LATENCY_RUNS)]
    found = _Run(*(median(figures) for figures in zip(*runs, strict=True)))
    what = f"{RATE:,} examples and labels a second, median of {LATENCY_RUNS} runs"
    sent = f"{what}: example sent to prediction readable (read_committed)"
    return [
        below(f"{sent}, p50", 30, found.p50_ms, "ms", P50_MS),
        below(f"{sent}, p99", 30, found.p99_ms, "ms", P99_MS),
        below(f"{what}: CPU of the worker", 30, found.worker_cores, "cores", WORKER_CORES),
        below(f"{what}: CPU of the broker", 30, found.broker_cores, "cores", BROKER_CORES),
    ]


def _latency_run(kafka: LocalKafka, prefix: str) -> _Run:
    """Run a new application on the broker at a steady rate."""
    servers = kafka.bootstrap_servers
    config = configuration(servers, prefix)
    create_topics(config, 1, 1)
    seen: dict[str, float] = {}
    stop = threading.Event()
    reader = KafkaCluster(servers).reader(TopicPartition(config.topics.predictions, 0))
    thread = threading.Thread(target=_read, args=(reader, seen, stop))
    thread.start()
    try:
        with _worker(config) as process:
            meter = _CpuMeter(process.pid, kafka.pid(1))
            sent = _send_at_rate(servers, config, seen, meter)
            deadline = time.monotonic() + LIMIT_S
            while len(seen) < len(sent) + 1 and time.monotonic() < deadline:
                time.sleep(POLL_S)
    finally:
        stop.set()
        thread.join()
        reader.close()
    first = min(sent.values()) + WARM_S
    delays = [seen[name] - when for name, when in sent.items() if when >= first and name in seen]
    p50, p99 = (float(value) * 1000 for value in np.percentile(delays, (50, 99)))
    return _Run(p50, p99, *meter.cores())


class _CpuMeter:
    """Measures the CPU time of the worker and of the broker while records are sent."""

    def __init__(self, *processes: int) -> None:
        self._processes = processes
        self._marks: list[tuple[float, ...]] = []

    def mark(self) -> None:
        """Begin or end the measurement."""
        self._marks.append((time.monotonic(), *map(cpu_s, self._processes)))

    def cores(self) -> tuple[float, ...]:
        """Return the CPU seconds in a second, of each process, from the first mark to the last."""
        seconds, *used = (last - first for first, last in zip(self._marks[0], self._marks[-1], strict=True))
        return tuple(value / seconds for value in used)


def _send_at_rate(servers: str, config: Config, seen: dict[str, float], meter: _CpuMeter) -> dict[str, float]:
    """Send examples at a steady rate, and labels a tenth of a second later; return when each was sent, by id."""
    sender = KafkaSender(servers, {"linger.ms": "2"})
    stream = fraud(int(RATE * LATENCY_S))
    values = encode_examples("fraud", [f"e{number}" for number in range(len(stream.labels))], stream.examples)
    probe = encode_examples("fraud", ["probe"], stream.examples[:1])[0]
    sender.send(config.topics.examples, b"fraud", probe, int(time.time() * 1000))
    sender.flush(LIMIT_S)
    deadline = time.monotonic() + LIMIT_S
    while "probe" not in seen:  # the worker is running
        if time.monotonic() > deadline:
            raise TimeoutError("the worker did not predict the probe")
        time.sleep(POLL_S)
    sent: dict[str, float] = {}
    begin = time.monotonic()
    late = int(RATE * 0.1)
    for number, value in enumerate(values):
        if number == RATE * WARM_S:
            meter.mark()
        due = begin + number / RATE
        while (wait := due - time.monotonic()) > 0:
            time.sleep(min(wait, 0.001))
        sent[f"e{number}"] = time.monotonic()
        now = int(time.time() * 1000)
        sender.send(config.topics.examples, b"fraud", value, now)
        if number >= late:
            label = Label("fraud", f"e{number - late}", int(stream.labels[number - late]))
            sender.send(config.topics.labels, b"fraud", codec.encode(label), now)
    meter.mark()
    sender.flush(LIMIT_S)
    sender.close()
    return sent


def _read(reader: LogReader, seen: dict[str, float], stop: threading.Event) -> None:
    """Record when each prediction could be read."""
    while not stop.is_set():
        fetched = reader.poll(1000, POLL_S)
        if fetched is not None:
            now = time.monotonic()
            for record in codec.decode_many([value or b"" for value in fetched.records.values]):
                seen[record.id] = now  # type: ignore[union-attr]  # predictions


def rows() -> list[Row]:
    """Measure throughput and latency on a local broker."""
    with start_kafka(1) as kafka:
        return [*_throughput(kafka.bootstrap_servers), *_latency(kafka)]


if __name__ == "__main__":
    prepare_environment()
    chosen = SIDES[sys.argv[1]]
    print(json.dumps({"cpu_s": chosen(sys.argv[2], sys.argv[3], int(sys.argv[4]))}))
