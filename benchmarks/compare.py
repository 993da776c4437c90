"""Compare the speed of this checkout with another checkout: `python -m benchmarks.compare ../other --pairs 11`.

A pair is two processes that measure short slices in turns, so that a change of the machine's speed affects both; its
ratio is the median of the ratios of adjacent slices. A row has the median ratio of the pairs, and its 95 % interval
from their order statistics (Conover, Practical Nonparametric Statistics, 3.2), which assumes nothing about how times
are distributed. The worker on Kafka is measured once in each process.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from math import comb
from pathlib import Path
from statistics import median

from rich.progress import track

from ops.keeper import KeptProcess
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.terminal import Terminal

HERE = Path(__file__).parents[1]
LIMIT_S = 600.0
STOP_S = 5.0

SLICES = 60
"""Slices of one pair of processes, at most; each takes tens of milliseconds."""

LEARNERS = """
from benchmarks import learners as b
b.require_one_thread()
stream = STREAM
def slices():
    while True:
        learner = b.ours(stream)
        start = time.process_time_ns()
        b.learn(learner, stream, 0, 60_000)
        yield (time.process_time_ns() - start) / 60_000_000
"""

PROBES: Mapping[str, str] = {
    "AREBA_20, d=2": "from stream_app.producers.synthetic import SyntheticSpec"
    + LEARNERS.replace("STREAM", "b.of(b.synthetic(SyntheticSpec('sine', length=60_000)), 60_000)"),
    "AREBA_20, d=30": LEARNERS.replace("STREAM", "b.of(b.load('fraud'), 60_000)"),
    "1,000 streams": """
from benchmarks import way as b
def slices():
    warm, step = b.WARM_EXAMPLES * b.STREAMS // b.LARGE_BATCH, 3
    stream = b.fraud(60_000)
    inputs = b.Dealt(stream, b.STREAMS, (warm + step * (SLICES + 1)) * b.LARGE_BATCH)
    task = b.task_of(stream, inputs.names)
    for number in range(warm):
        task.step(*inputs.batch(number))
    while True:
        batches = [inputs.batch(number) for number in range(warm, warm + step)]
        warm += step
        start = time.process_time_ns()
        for batch in batches:
            task.step(*batch)
        yield (time.process_time_ns() - start) / 1000 / (step * b.LARGE_BATCH)
""",
}
"""What a row runs in a checkout: `slices` yields microseconds of CPU per labelled example."""

SERVE = """
answers = slices()
next(answers)
print("ready", flush=True)
for _ in sys.stdin:
    print(next(answers), flush=True)
"""

WORKER = "worker on Kafka"
WORKER_PROBE = """
try:
    from benchmarks.kafka import worker as b
except ImportError:
    from benchmarks import worker as b
config = b.configuration({servers!r}, {prefix!r})
b.create_topics(config, 1, 1)
b.send({servers!r}, config, 2 * b.COUNT)
import numpy as np
print(np.sum(b._side("ours", {servers!r}, {prefix!r}, 2 * b.COUNT)) / (2 * b.COUNT) * 1e6)
"""


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of at least 6 ratios."""
    count = len(ratios)
    outside, rank = 0.0, 0
    while outside + 2 * comb(count, rank) / 2**count <= 0.05:
        outside += 2 * comb(count, rank) / 2**count
        rank += 1
    if rank == 0:
        raise ValueError(f"{count} pairs are too few for a 95 % interval; at least 6 are needed")
    ordered = sorted(ratios)
    return ordered[rank - 1], ordered[count - rank]


class Probe:
    """A process in a checkout that measures a slice on request."""

    def __init__(self, checkout: Path, row: str) -> None:
        code = f"import sys, time\nSLICES = {SLICES}\n{PROBES[row]}{SERVE}"
        command = [sys.executable, "-c", code]
        self._process = KeptProcess(
            command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def read(self) -> str:
        """Return the next line that the process prints.

        Raises:
            RuntimeError: The process has ended.
        """
        assert self._process.stdout is not None  # noqa: S101  (given above)
        line: str = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the probe ended with status {self._process.wait()}")
        return line

    def slice_us(self) -> float:
        """Measure one slice."""
        assert self._process.stdin is not None  # noqa: S101  (given above)
        self._process.stdin.write("\n")
        return float(self.read())

    def close(self) -> None:
        """End the process."""
        self._process.end(STOP_S)


def in_turns(other: Path, row: str) -> tuple[float, float, float]:
    """Return the medians of both checkouts in microseconds, and of the ratios of slices that follow each other."""
    probes = Probe(HERE, row), Probe(other, row)
    try:
        for probe in probes:
            probe.read()
        figures = [(probes[0].slice_us(), probes[1].slice_us()) for _ in range(SLICES)]
    finally:
        for probe in probes:
            probe.close()
    ours, theirs = zip(*figures, strict=True)
    return median(ours), median(theirs), median(one / two for one, two in figures)


def on_kafka(other: Path, servers: str, number: int) -> tuple[float, float, float]:
    """Return the microseconds of a worker process of each checkout, and their ratio."""
    sides = [("this", HERE), ("other", other)]
    figures = {}
    for name, checkout in reversed(sides) if number % 2 else sides:
        code = WORKER_PROBE.format(servers=servers, prefix=f"{name}{number}.")
        command = [sys.executable, "-c", code]
        text = subprocess.run(
            command, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S
        ).stdout
        figures[name] = float(text.splitlines()[-1])
    return figures["this"], figures["other"], figures["this"] / figures["other"]


def pairs(other: Path, row: str, count: int) -> Iterator[tuple[float, float, float]]:
    """Yield this checkout's microseconds, the other's, and their ratio; the first pair compiles, and is left out."""
    if row == WORKER:
        with start_kafka(1, jvm=KAFKA_JVM) as kafka:
            on_kafka(other, kafka.bootstrap_servers, 0)
            for number in range(1, count + 1):
                yield on_kafka(other, kafka.bootstrap_servers, number)
    else:
        in_turns(other, row)
        for _ in range(count):
            yield in_turns(other, row)


def main() -> None:
    """Print a line for each row."""
    rows = [*PROBES, WORKER]
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout of this repository")
    parser.add_argument("--pairs", type=int, default=11, help="pairs of processes for each row; at least 6")
    parser.add_argument("--rows", nargs="+", choices=rows, default=rows)
    arguments = parser.parse_args()
    progress, console = Terminal(stderr=True), Terminal(width=100)
    console.print("microseconds of CPU per labelled example: this checkout, the other, their ratio, its 95 % interval")
    for row in arguments.rows:
        runs = pairs(arguments.other.resolve(), row, arguments.pairs)
        figures = list(track(runs, description=row, total=arguments.pairs, console=progress))
        ours, theirs, ratios = (list(column) for column in zip(*figures, strict=True))
        low, high = interval(ratios)
        console.print(
            f"{row:<16} {median(ours):>8.2f} {median(theirs):>8.2f} {median(ratios):>7.3f}   {low:.3f} to {high:.3f}"
        )


if __name__ == "__main__":
    main()
