"""Measure the latency of a worker at a steady rate: by the number of its partitions, and of its active streams."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.peers import programs as peer
from benchmarks.peers.inputs import STREAM
from benchmarks.peers.latency import RATE, Latency, latency, median_of, predictions_of
from benchmarks.rows import Row, at_most, below
from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.backends.partitioner import partition_of
from stream_app.cli.topic_setup import create_topics
from stream_app.config import Config

RUNS = 3

MOST_TO_TEN_STREAMS = 1.5
"""A goal: p99 with 10,000 active streams, as a multiple of p99 with 10."""


class Case(NamedTuple):
    """Topics with this many partitions, and streams that get the records in turns."""

    partitions: int
    streams: int


BY_PARTITIONS = tuple(Case(count, count) for count in (1, 16, 64))
FEW, MANY = Case(1, 10), Case(1, 10_000)

GOALS_MS: Mapping[str, float] = MappingProxyType({"p50": 10.0, "p99": 25.0})


def streams_of(case: Case) -> tuple[str, ...]:
    """Return the names of the streams: of as many as partitions, each partition has one."""
    if case.partitions != case.streams:
        return tuple(f"{STREAM}-{number}" for number in range(case.streams))
    found: dict[int, str] = {}
    names = (f"{STREAM}-{number}" for number in range(1_000_000))
    while len(found) < case.partitions:
        name = next(names)
        found.setdefault(partition_of(name.encode(), case.partitions), name)
    return tuple(found.values())


def configuration(servers: str, name: str, case: Case) -> Config:
    """Return a configuration in which each stream begins with its first record."""
    own = peer.configuration(servers, name, f"{name}.")
    changed = {
        "unknown_streams": "model",
        "streams": {},
        "default_stream": own.streams[STREAM],
        "limits": own.limits.model_copy(update={"max_streams_per_task": max(100, case.streams)}),
    }
    return own.model_copy(update=changed)


def measured(kafka: LocalKafka, name: str, case: Case, folder: Path) -> Latency:
    """Run a new application until it has answered all records."""
    config = configuration(kafka.bootstrap_servers, name, case)
    create_topics(config, case.partitions, 1)
    folder.mkdir()
    process = KeptProcess([*peer.areba(config, folder).command], stderr=subprocess.DEVNULL)
    watched = predictions_of(config)._replace(streams=streams_of(case), partitions=case.partitions)
    return latency(kafka, process, watched)


def rows() -> list[Row]:
    """Measure all cases in turns, on one local broker with the options of Kafka's own scripts."""
    cases = (*BY_PARTITIONS, FEW, MANY)
    runs: dict[Case, list[Latency]] = {case: [] for case in cases}
    with temporary_folder("areba-bench-") as folder, start_kafka(1, jvm=KAFKA_JVM) as kafka:
        measured(kafka, "warm", FEW, folder / "warm")  # a broker that has just started is several times slower
        for number in range(RUNS):
            for case in cases:
                name = f"latency{number}-{case.partitions}-{case.streams}"
                runs[case].append(measured(kafka, name, case, folder / name))
    found = {case: median_of(own) for case, own in runs.items()}
    made = [row for case in BY_PARTITIONS for row in _rows_of(case, found[case])]
    what = f"{MANY.streams:,} active streams, {RATE:,} examples and labels a second, p99, against {FEW.streams}"
    return [*made, at_most(what, 30, found[MANY].p99_ms, found[FEW].p99_ms, MOST_TO_TEN_STREAMS, "ms")]


def _rows_of(case: Case, own: Latency) -> list[Row]:
    partitions = f"{case.partitions} active partition{'' if case.partitions == 1 else 's'}"
    what = f"{partitions}, {RATE:,} examples and labels a second, median of {RUNS} runs: sent to readable"
    return [
        below(f"{what}, p50", 30, own.p50_ms, "ms", GOALS_MS["p50"]),
        below(f"{what}, p99", 30, own.p99_ms, "ms", GOALS_MS["p99"]),
    ]
