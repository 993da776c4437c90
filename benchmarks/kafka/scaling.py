"""How a worker's CPU time and rate depend on partitions, learners, features and streams, one at a time.

Each run has a separate process (`python -m benchmarks.kafka.scaling CASE SERVERS PREFIX`), which compiles first.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from benchmarks.kafka.own_process import last_line_of
from benchmarks.peers.inputs import tiled
from benchmarks.rows import Row
from benchmarks.way import DELAY_EXAMPLES
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.arrays import Floats
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.backends.partitioner import partition_of
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

LIMIT_S = 180.0

METHODS = ("areba", "baseline", "oob_single", "qbr", "sliding", "adaptive_cs")
"""The methods of one network."""


@dataclass(frozen=True)
class Case:
    """What a worker is given: one partition, stream and learner of 30 features, unless a case says otherwise."""

    partitions: int = 1
    streams: int = 1
    learners: int = 1
    features: int = 30
    examples: int = 200_000


BASE = Case()
CASES: Mapping[str, Case] = MappingProxyType(
    {
        "1 partition, 1 stream, 1 learner": BASE,
        **{
            f"{count} partitions, a stream each": replace(BASE, partitions=count, streams=count, examples=examples)
            for count, examples in ((4, 200_000), (16, 200_000), (64, 2_000_000), (256, 2_000_000))
        },
        **{f"{count:,} streams in 1 partition": replace(BASE, streams=count) for count in (100, 1_000)},
        **{f"{count} learners": replace(BASE, learners=count) for count in (4, 8)},
        "2 features": replace(BASE, features=2),
        "784 features": replace(BASE, features=784, examples=30_000),
    }
)


class Figures(NamedTuple):
    """Of the second half of the examples: CPU in microseconds, and thousands a second.

    With many partitions, tasks are still being restored meanwhile.
    """

    cpu_us: float
    thousands_per_s: float


def stream_names(case: Case) -> list[str]:
    """Return names of streams that are spread evenly over the partitions."""
    names: list[str] = []
    number = 0
    while len(names) < case.streams:
        name = f"stream-{number}"
        if partition_of(name.encode(), case.partitions) == len(names) % case.partitions:
            names.append(name)
        number += 1
    return names


def configuration(case: Case, servers: str, prefix: str) -> Config:
    """Return the configuration of a case."""
    methods = [METHODS[number % len(METHODS)] for number in range(case.learners)]
    return Config.model_validate(
        {
            "application": {"id": "bench", "instance": "worker-1"},
            "kafka": {"bootstrap_servers": servers, "topic_prefix": prefix},
            "learners": {f"{method}-{number}": {"method": method} for number, method in enumerate(methods)},
            "limits": {"max_streams_per_task": max(100, case.streams)},
            "streams": {
                name: {"features": case.features, "learning_rate": 0.0001, "champion": f"{methods[0]}-0"}
                for name in stream_names(case)
            },
        }
    )


def _features(case: Case) -> Floats:
    """Return the Fraud set's features, cut or repeated to the width of the case, divided so that sums stay small."""
    examples = tiled(case.examples).examples
    repeats = -(-case.features // examples.shape[1])
    wide: Floats = np.tile(examples, repeats)[:, : case.features] / np.float32(repeats)
    return np.ascontiguousarray(wide)


def send(case: Case, config: Config) -> None:
    """Send the examples to the streams in turns, each label a hundred examples of the case late."""
    names, labels = stream_names(case), tiled(case.examples).labels
    examples = _features(case)
    ids = [f"e{number:08d}" for number in range(case.examples)]
    values: list[bytes] = [b""] * case.examples
    for place, name in enumerate(names):
        part = slice(place, None, len(names))
        values[part] = encode_examples(name, ids[part], examples[part])
    sender = KafkaSender(config.kafka.bootstrap_servers)
    begin_ms = int(time.time() * 1000) - 2 * case.examples
    for number, value in enumerate(values):
        name = names[number % len(names)]
        label = codec.encode(Label(name, ids[number], int(labels[number])))
        sent_ms = begin_ms + 2 * number
        sender.send(config.topics.examples, name.encode(), value, sent_ms)
        sender.send(config.topics.labels, name.encode(), label, sent_ms + 2 * DELAY_EXAMPLES + 1)
    sender.flush(LIMIT_S)
    sender.close()


def run_worker(case: Case, servers: str, prefix: str) -> Figures:
    """Run a worker in this process until it has committed everything."""
    config = configuration(case, servers, prefix)
    warm_up(config.task_settings())
    clock = SystemClock()
    ports = Ports(
        KafkaSource(servers, config.group_id),
        KafkaTransaction(servers, config.transactional_id),
        KafkaCluster(servers),
        clock,
        partial(KafkaTransaction, servers),
    )
    worker = Worker(config, ports, Observer(clock))
    goals, marks = [case.examples, 2 * case.examples], list[tuple[float, float]]()
    end_s = time.monotonic() + LIMIT_S

    def is_done() -> bool:
        records = sum(sum(task.offsets) for task in worker.tasks)
        while len(marks) < len(goals) and records >= goals[len(marks)]:
            marks.append((time.process_time(), time.monotonic()))
        if time.monotonic() > end_s:
            raise TimeoutError(f"{records} of {goals[-1]} records after {LIMIT_S:g} s")
        return len(marks) == len(goals)

    worker.run(is_done)
    ((cpu_s, passed_s),) = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(marks)]
    half = case.examples / 2
    return Figures(cpu_s / half * 1e6, half / passed_s / 1_000)


def _measured(name: str, servers: str, prefix: str) -> Figures:
    """Run a case in a new process."""
    return Figures(*json.loads(last_line_of("benchmarks.kafka.scaling", name, servers, prefix, timeout_s=2 * LIMIT_S)))


def rows() -> list[Row]:
    """Return two rows for each case; CPU times have the ratio to the first case."""
    table: list[Row] = []
    base_us = 0.0
    with start_kafka(1, jvm=KAFKA_JVM) as kafka:
        for number, (name, case) in enumerate(CASES.items()):
            prefix = f"scaling{number}."
            config = configuration(case, kafka.bootstrap_servers, prefix)
            create_topics(config, case.partitions, 1)
            send(case, config)
            found = _measured(name, kafka.bootstrap_servers, prefix)
            base_us = base_us or found.cpu_us
            what = f"a worker with {name}"
            ratio = found.cpu_us / base_us
            table += [
                Row(f"{what}: CPU a labelled example", case.features, found.cpu_us, base_us, ratio, "printed", None),
                Row(f"{what}: rate", case.features, found.thousands_per_s, None, None, "printed", None, "thousand/s"),
            ]
    return table


if __name__ == "__main__":
    print(json.dumps(run_worker(CASES[sys.argv[1]], *sys.argv[2:])))
