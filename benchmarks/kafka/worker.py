"""Measure a worker on a real Kafka: its CPU time, against loops that only consume and produce, and its latency.

Each side runs in a separate process (`python -m benchmarks.kafka.worker ours|native|confluent SERVERS PREFIX COUNT`),
whose CPU time is measured from the moment when the member has joined the group and its code is compiled.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from types import MappingProxyType

from confluent_kafka import Consumer, Producer

from benchmarks.kafka.own_process import last_line_of
from benchmarks.peers import programs as peer
from benchmarks.peers.inputs import tiled
from benchmarks.peers.latency import RATE, latency, median_of, predictions_of
from benchmarks.rows import Row, at_most, below
from benchmarks.way import DELAY_EXAMPLES, Inputs
from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.record_columns import OutputRecords, repeated
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
LIMIT_S = 120.0
"""The longest time that a run may take."""

P50_MS, P99_MS, WORKER_CORES, BROKER_CORES = 12.0, 35.0, 0.2, 0.45
"""Goals of the latency runs."""


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


def _latency(kafka: LocalKafka) -> list[Row]:
    """Measure new applications on the broker at a steady rate."""
    runs = []
    with temporary_folder("areba-bench-") as folder:
        for number in range(LATENCY_RUNS):
            name = f"latency{number}"
            config = peer.configuration(kafka.bootstrap_servers, name, f"{name}.")
            create_topics(config, 1, 1)
            (folder / name).mkdir()
            command = peer.areba(config, folder / name).command
            runs.append(latency(kafka, KeptProcess([*command], stderr=subprocess.DEVNULL), predictions_of(config)))
    found = median_of(runs)
    what = f"{RATE:,} examples and labels a second, median of {LATENCY_RUNS} runs"
    sent = f"{what}: example sent to prediction readable (read_committed)"
    return [
        below(f"{sent}, p50", 30, found.p50_ms, "ms", P50_MS),
        below(f"{sent}, p99", 30, found.p99_ms, "ms", P99_MS),
        below(f"{what}: CPU of the worker", 30, found.program_cores, "cores", WORKER_CORES),
        below(f"{what}: CPU of the broker", 30, found.broker_cores, "cores", BROKER_CORES),
    ]


def rows() -> list[Row]:
    """Measure throughput and latency on a local broker."""
    with start_kafka(1, jvm=KAFKA_JVM) as kafka:
        return [*_throughput(kafka.bootstrap_servers), *_latency(kafka)]


if __name__ == "__main__":
    chosen = SIDES[sys.argv[1]]
    print(json.dumps({"cpu_s": chosen(sys.argv[2], sys.argv[3], int(sys.argv[4]))}))
