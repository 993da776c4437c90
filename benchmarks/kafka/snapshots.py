"""Measure what snapshots cost a worker on a real Kafka, and how long it takes to restore them.

Each run of a worker has a separate process (`python -m benchmarks.kafka.snapshots CASE SERVERS PREFIX APPLICATION
POLICY_MS`), whose CPU time and memory are measured. It ends with a clean stop, which takes a last snapshot.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rows import Row, at_most, below
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.producers import datasets
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

LIMIT_S = 120.0
"""The longest time that a run may take."""

REPETITIONS = 3

DEFAULT_MS = Config().worker.snapshot_after_ms
NEVER_MS = 86_400_000

DELAY_EXAMPLES = 100

MEGABYTE = 1e6


@dataclass(frozen=True)
class Case:
    """A stream, the number of its copies, the number of examples of each, and the limits of the measurements."""

    dataset: str
    streams: int
    examples: int


CASES: Mapping[str, Case] = {
    "cost": Case("fraud", 8, 100_000),
    "ten": Case("fraud", 10, 4_000),
    "mnist": Case("mnist", 1, 2_000),
}


@dataclass(frozen=True)
class Life:
    """The figures of one process: CPU and wall time (in total and of the restore), snapshots, and memory."""

    cpu_s: float
    wall_s: float
    back_s: float
    snapshots: int
    saved_bytes: int
    reprocessed: int
    memory_mb: float


class _Counting:
    """Counts snapshots, and records when the task was restored."""

    def __init__(self, observer: Observer) -> None:
        self.snapshots = self.saved_bytes = self.reprocessed = 0
        self.back_s = 0.0
        observer.subscribe(events.SnapshotTaken, self._started)
        observer.subscribe(events.TaskRestored, self._restored)

    def _started(self, event: events.SnapshotTaken) -> None:
        self.snapshots += 1
        self.saved_bytes += event.size

    def _restored(self, event: events.TaskRestored) -> None:
        self.back_s = time.monotonic()
        self.reprocessed = event.records


def configuration(
    servers: str, prefix: str, case: Case, application: str = "bench", snapshot_after_ms: int = DEFAULT_MS
) -> Config:
    """Return the configuration of a case: one task with its streams, each with one learner."""
    data = datasets.load(case.dataset)
    stream: dict[str, Any] = {
        "features": data.features.shape[1],
        "hidden": list(data.hidden),
        "learning_rate": data.learning_rate,
        "l2": data.l2,
    }
    return Config.model_validate(
        {
            "application": {"id": application, "instance": "worker-1"},
            "kafka": {"bootstrap_servers": servers, "topic_prefix": prefix},
            "learners": {"areba": {"method": "areba"}},
            "streams": {f"s{number}": stream for number in range(case.streams)},
            "worker": {"snapshot_after_ms": snapshot_after_ms},
        }
    )


def send(config: Config, case: Case) -> None:
    """Send all records of a case, the streams in turns, each label a hundred examples late."""
    data = datasets.load(case.dataset).prefix(case.examples)
    sender = KafkaSender(config.kafka.bootstrap_servers)
    now = int(time.time() * 1000) - 10 * case.examples
    for number in range(case.examples + DELAY_EXAMPLES):
        for stream in config.streams:
            time_ms, late = now + 2 * number, number - DELAY_EXAMPLES
            if number < case.examples:
                example = codec.encode(Example(stream, f"{stream}-{number:08d}", data.features[number].tolist()))
                sender.send(config.topics.examples, stream.encode(), example, time_ms, partition=0)
            if late >= 0:
                label = codec.encode(Label(stream, f"{stream}-{late:08d}", int(data.labels[late])))
                sender.send(config.topics.labels, stream.encode(), label, time_ms + 1, partition=0)
    sender.flush(LIMIT_S)
    sender.close()


def live(name: str, servers: str, prefix: str, application: str, snapshot_after_ms: int) -> Life:
    """Run a worker until it has processed all records, stop it, and return its figures."""
    case = CASES[name]
    config = configuration(servers, prefix, case, application, snapshot_after_ms)
    warm_up(config.task_settings())
    clock = SystemClock()
    source = KafkaSource(servers, config.group_id)
    transaction = KafkaTransaction(servers, config.transactional_id)
    observer = Observer(clock)
    counting = _Counting(observer)
    ports = Ports(source, transaction, KafkaCluster(servers), clock, partial(KafkaTransaction, servers))
    worker = Worker(config, ports, observer)
    begun: list[tuple[float, float]] = []
    total = 2 * case.streams * case.examples
    end = time.monotonic() + LIMIT_S

    def done() -> bool:
        if worker.tasks and not begun:
            begun.append((time.process_time(), time.monotonic()))
        if time.monotonic() > end:
            raise TimeoutError(f"{prefix}: {[task.offsets for task in worker.tasks]} after {LIMIT_S:g} s")
        return any(task.state is TaskState.LIVE and sum(task.offsets) >= total for task in worker.tasks)

    worker.run(done)
    cpu_s, wall_s = begun[0]
    return Life(
        time.process_time() - cpu_s,
        time.monotonic() - wall_s,
        counting.back_s - wall_s,
        counting.snapshots,
        counting.saved_bytes,
        counting.reprocessed,
        _peak_bytes() / MEGABYTE,
    )


def _peak_bytes() -> int:
    """Return the peak memory of this process; `getrusage` would report at least the parent's peak."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def _life(name: str, servers: str, prefix: str, application: str = "bench", policy_ms: int = DEFAULT_MS) -> Life:
    command = [sys.executable, "-m", "benchmarks.kafka.snapshots", name, servers, prefix, application, str(policy_ms)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=2 * LIMIT_S, check=True)
    return Life(**json.loads(result.stdout.splitlines()[-1]))


def _cost(servers: str) -> list[Row]:
    """Measure the cost of snapshots; all runs read the same inputs, each as a separate application."""
    case, lives = CASES["cost"], {DEFAULT_MS: list[Life](), NEVER_MS: list[Life]()}
    for number in range(REPETITIONS):
        for policy_ms, found in lives.items():
            application = f"cost-{number}-{policy_ms}"
            config = configuration(servers, "cost.", case, application)
            create_topics(config, 1, 1)
            if number == 0 and not found and policy_ms == DEFAULT_MS:
                send(config, case)
            found.append(_life("cost", servers, "cost.", application, policy_ms))
    total = case.streams * case.examples
    ours, never = ([life.cpu_s / total * 1e6 for life in found] for found in lives.values())
    written = median(life.saved_bytes / life.cpu_s / MEGABYTE for life in lives[DEFAULT_MS])
    count = median(life.snapshots for life in lives[DEFAULT_MS])
    name = "the worker on Kafka, CPU a labelled example, snapshots by default, against one at its end"
    return [
        at_most(f"{name} ({count:g} snapshots)", 30, median(ours), median(never), 1.1),
        Row(
            "the worker on Kafka, bytes of snapshots a second of its CPU",
            30,
            written,
            None,
            None,
            "printed",
            None,
            "MB",
        ),
    ]


def _back(servers: str, name: str) -> list[Row]:
    """Measure the restore: a first run processes everything and stops cleanly, a second run only restores the state."""
    case, prefix = CASES[name], f"{name}."
    config = configuration(servers, prefix, case)
    create_topics(config, 1, 1)
    send(config, case)
    first = _life(name, servers, prefix)
    back = [_life(name, servers, prefix) for _ in range(REPETITIONS)]
    if any(life.reprocessed for life in back):
        raise AssertionError(f"{name}: {back[0].reprocessed} records were processed again after a clean stop")
    d, what = datasets.load(case.dataset).features.shape[1], f"{case.streams} x {case.dataset}"
    return [
        below(f"restore from a snapshot, {what}", d, median(life.back_s for life in back), "s", 3.0),
        below(f"memory of the worker, {what}", d, max(life.memory_mb for life in (first, *back)), "MB", 600.0),
    ]


def rows() -> list[Row]:
    """Measure cost, restore and memory on a local broker."""
    with start_kafka(1, jvm=KAFKA_JVM) as kafka:
        servers = kafka.bootstrap_servers
        return [*_cost(servers), *_back(servers, "ten"), *_back(servers, "mnist")]


if __name__ == "__main__":
    run: Callable[..., Life] = live
    print(json.dumps(asdict(run(*sys.argv[1:5], int(sys.argv[5])))))
