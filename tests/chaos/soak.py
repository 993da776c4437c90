"""Hours of steady load while workers are killed, leave and join: memory must stay flat, and `verify` must find nothing.

    python -m tests.chaos.soak --minutes 120 --rate 5000

One worker is never disturbed: its memory is the figure that must stay flat. The two others are killed, frozen, or leave
for a while, in turns that the seed decides. `areba verify` runs at intervals, with a checkpoint, as a nightly job does.
The samples are written to a file, so that a run can be watched.
"""

import argparse
import csv
import logging
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from ops.keeper import KeptProcess
from ops.local_kafka import cluster as local_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.cli.warm_up import warm_up
from tests.chaos.commits import Watch
from tests.chaos.members import ChaosError, Member
from tests.chaos.plan import Fault, Kind, Moment
from tests.chaos.trial import ended
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import spawn

LOGGER = logging.getLogger("soak")

PARTITIONS = 6

STREAMS = (
    "sine:drift=posterior",
    "circle:drift=prior",
    "sea:drift=posterior",
    "sine:drift=likelihood",
    "circle:imbalance=1",
)
"""A stream has an example in each millisecond of event time, so event time passes at the speed of the clock."""

SECTIONS: Mapping[str, Section] = {
    "streams": {f"s{number}": {"features": 2} for number in range(len(STREAMS))},
    "join": {"ttl_ms": 60_000, "max_clock_lead_ms": 3_600_000},
    "kafka": {"consumer": {}},
}

DELAY = "exponential:20s"
"""Of the labels; one of twenty comes after its example was closed."""

STEADY = "steady"
DISTURBED = ("bob", "cyd")

KINDS = (Kind.KILL, Kind.KILL, Kind.LEAVE, Kind.FREEZE)
PAUSE_S = (20.0, 70.0)
LASTS_S = (0.0, 25.0)

SAMPLE_S = 10.0
END_DEADLINE_S = 1_800.0
"""Longest time from the last input to its commit."""

FIRST_COMMITS = 200
VERIFY_S = 600.0
VERIFY_DEADLINE_S = 3_600.0
"""`areba verify` runs first after this many commits: from the first record on it is ten times slower than from its
checkpoint."""

FLAT = 1.1
"""Largest ratio of the memory in the last sixth of the run to the memory in the second. The tables of the join fill for
some ten minutes, so no run of less than an hour is flat."""


class Sample(NamedTuple):
    """What is written every `SAMPLE_S` seconds.

    Attributes:
        elapsed_s: Time since the producer started.
        commits: Transactions of all tasks so far.
        lag: Input records that are not committed.
        steady_bytes: Resident memory of the worker that is never disturbed.
        others_bytes: Resident memory of the others together.
        faults: Faults so far.
    """

    elapsed_s: float
    commits: int
    lag: int
    steady_bytes: int
    others_bytes: int
    faults: int


def replay(app: App, minutes: float, rate: int, seed: int) -> KeptProcess:
    """Start the producer."""
    limit = int(minutes * 60 * rate / len(STREAMS))
    names = [f"{name},stream=s{number},length={limit},seed={seed + number}" for number, name in enumerate(STREAMS)]
    options = {
        "--bootstrap-servers": app.servers,
        "--topic-prefix": app.prefix,
        "--rate": rate,
        "--interval-ms": 1000 * len(STREAMS) // rate,
        "--label-delay": DELAY,
        "--duplicates": 0.001,
        "--out-of-order": 0.01,
        "--conflicting-labels": 0.0001,
        "--garbage": 0.0001,
        "--seed": seed,
    }
    arguments = [str(part) for option in options.items() for part in option]
    with (app.folder / "producer.log").open("wb") as log:
        return KeptProcess(
            [sys.executable, "-m", "stream_app.producers", "run", *arguments, *names], stdout=log, stderr=log
        )


def disturb(members: Sequence[Member], seed: int, is_over: threading.Event) -> None:
    """Apply one fault after the other until the run is over."""
    draw = random.Random(seed)
    while not is_over.wait(draw.uniform(*PAUSE_S)):
        fault = Fault(draw.choice(KINDS), Moment.LIVE, 0.0, draw.uniform(*LASTS_S))
        draw.choice(members).suffer(fault)


def verify(app: App) -> None:
    """Run `areba verify` from its checkpoint on.

    Raises:
        ChaosError: It found something.
    """
    arguments = ("-c", str(app.file("verifier")), "--checkpoint", str(app.folder / "verify.checkpoint"))
    run = subprocess.run(
        ["/usr/bin/nice", "-n", "5", sys.executable, "-m", "stream_app.cli", "verify", *arguments],
        capture_output=True,
        text=True,
        timeout=VERIFY_DEADLINE_S,
        check=False,
    )
    if run.returncode:
        raise ChaosError(f"areba verify ended with {run.returncode}:\n{run.stdout}\n{run.stderr}")
    LOGGER.info("verify: %s", run.stdout.splitlines()[-1])


def verify_often(app: App, is_over: threading.Event) -> None:
    """Run `areba verify` at intervals until the run is over."""
    while not is_over.is_set():
        verify(app)
        is_over.wait(VERIFY_S)


class Soak:
    """A running soak.

    Args:
        app: The application, with its topics.
        watch: The watch of its progress.
        halt: Set when a worker did not behave correctly.
    """

    def __init__(self, app: App, watch: Watch, halt: threading.Event) -> None:
        self._app = app
        self._watch = watch
        self._begin_s = time.monotonic()
        self.steady = Member(app, STEADY, halt, spawn)
        self.disturbed = [Member(app, name, halt, spawn) for name in DISTURBED]

    @property
    def members(self) -> Sequence[Member]:
        """All workers."""
        return (self.steady, *self.disturbed)

    def sample(self) -> Sample:
        """Return what the run looks like now."""
        ends = self._app.input_ends()
        lag = sum(sum(ends[task]) - sum(done) for task, done in enumerate(self._watch.ends))
        return Sample(
            round(time.monotonic() - self._begin_s, 1),
            sum(self._watch.counts),
            lag,
            self.steady.resident_bytes,
            sum(member.resident_bytes for member in self.disturbed),
            sum(len(member.done) for member in self.members),
        )

    def watch_until(self, condition: Callable[[Sample], bool], write: Callable[[Sample], None]) -> None:
        """Write a sample at each interval until one meets the condition.

        Raises:
            ChaosError: The steady worker ended, or logged an error.
        """
        while True:
            self.steady.check()
            sample = self.sample()
            write(sample)
            if condition(sample):
                return
            time.sleep(SAMPLE_S)


def run(folder: Path, minutes: float, rate: int, seed: int) -> bool:
    """Run a soak in a new folder, and say whether everything was right.

    Raises:
        ChaosError: A worker did not behave correctly.
    """
    halt, is_over = threading.Event(), threading.Event()
    with ExitStack() as stack:
        kafka = stack.enter_context(local_kafka.start(1, folder / "kafka", KAFKA_JVM))
        app = App(kafka.bootstrap_servers, "soak-", folder, SECTIONS, PARTITIONS)
        app.create_topics()
        warm_up(app.config.task_settings())
        watch = stack.enter_context(Watch(app))
        soak = Soak(app, watch, halt)
        stack.enter_context(ended(soak.members))
        for member in soak.members:
            member.start()
        soak.steady.wait_ready()
        writer = csv.writer(stack.enter_context((folder / "samples.csv").open("w", buffering=1)))
        writer.writerow(Sample._fields)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        producer = replay(app, minutes, rate, seed)
        stack.callback(producer.kill)
        stack.callback(halt.set)
        stack.callback(is_over.set)
        soak.watch_until(lambda sample: sample.commits > FIRST_COMMITS, writer.writerow)
        faults = pool.submit(disturb, soak.disturbed, seed, is_over)
        checks = pool.submit(verify_often, app, is_over)
        soak.watch_until(lambda _: producer.poll() is not None or faults.done() or checks.done(), writer.writerow)
        is_over.set()
        faults.result()
        checks.result()
        if producer.returncode:
            raise ChaosError((folder / "producer.log").read_text())
        deadline = time.monotonic() + END_DEADLINE_S
        soak.watch_until(lambda sample: sample.lag == 0 or time.monotonic() > deadline, writer.writerow)
        LOGGER.info("faults: %s", dict(Counter(str(kind) for member in soak.members for kind, _ in member.done)))
        for member in soak.members:
            member.wait_ready()
            member.stop()
        verify(app)
        return is_flat(folder / "samples.csv")


def is_flat(samples: Path) -> bool:
    """Log the memory of the steady worker by sixths of the run; flat is a last sixth within a tenth of the second."""
    with samples.open() as file:
        rows = [float(row["steady_bytes"]) for row in csv.DictReader(file)]
    means = [mean(rows[len(rows) * part // 6 : len(rows) * (part + 1) // 6]) for part in range(6)]
    LOGGER.info("memory of %s by sixths of the run, MB: %s", STEADY, [round(each / 1e6, 1) for each in means])
    return means[5] < FLAT * means[1]


def main() -> None:
    """Run a soak; the exit status is 1 if anything was wrong, and the folder remains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--rate", type=int, default=5_000, help="examples per second of all streams together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".local/soak"))
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    if not run(options.folder, options.minutes, options.rate, options.seed):
        sys.exit(1)
    shutil.rmtree(options.folder / "kafka")


if __name__ == "__main__":
    main()
