"""Measure how long the first commit takes after an outage: `python -m tests.kafka.brokers.outages [--kind ...]`.

An outage ends when a new transactional producer next to the worker can commit to all partitions. The time from then to
the first commit of every task is what the worker itself adds.
"""

import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

import click
from confluent_kafka import KafkaException, Producer

from ops.keeper import temporary_folder
from ops.local_kafka.cluster import LocalKafka, start
from stream_app.backends.base import TopicInfo
from tests.chaos.commits import Watch
from tests.support.kafka.application import App, Load, Section
from tests.support.kafka.processes import WorkerProcess, workers
from tests.support.kafka.records import StreamOf
from tests.support.kafka.waiting import wait_until

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 2), StreamOf("gamma", 2, 2))

SECTIONS: Mapping[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100},
}

PROBE_TOPIC = "probe"

ATTEMPT_S = 2.0
"""Duration of an attempt of the new producer; while a broker is down, it ends without an answer."""

CALM_S = 180.0
"""The longest wait for a commit."""

KINDS = ("kill", "freeze", "stop")
"""Ways to stop a broker: SIGKILL and a start; SIGSTOP and SIGCONT; SIGTERM and a start."""


class Outage(NamedTuple):
    """An outage, in seconds: its duration, then the time to the new producer's commit, then to the worker's commit."""

    kind: str
    brokers: int
    of: int
    lasted_s: float
    fresh_s: float
    first_s: float
    restarts: int


class Probe(threading.Thread):
    """Commits with one new transactional producer after the other, and records when each has committed."""

    def __init__(self, servers: str, partitions: int) -> None:
        super().__init__(name="probe", daemon=True)
        self._servers = servers
        self._partitions = partitions
        self._over = threading.Event()
        self._wanted = threading.Event()
        self.commits: list[tuple[float, float]] = []  # start and end of each successful attempt, in seconds

    def run(self) -> None:
        """Try as long as it is wanted."""
        while not self._over.is_set():
            if not self._wanted.wait(0.1):
                continue
            begin = time.time()
            if self._attempt():
                self.commits.append((begin, time.time()))
            self._over.wait(0.2)

    def _attempt(self) -> bool:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"probe-{uuid.uuid4().hex}",
                "transaction.timeout.ms": 10_000,
                "retry.backoff.ms": 10,
            },
            logger=logging.getLogger("areba.outages.probe"),
        )
        try:
            producer.init_transactions(ATTEMPT_S)
            producer.begin_transaction()
            for number in range(self._partitions):
                producer.produce(PROBE_TOPIC, b"probe", partition=number)
            producer.commit_transaction(ATTEMPT_S)
        except KafkaException:
            return False
        return True

    def first_after(self, moment_s: float) -> float | None:
        """Return the end of the first commit that began after this moment; None before it."""
        return next((end for begin, end in self.commits if begin >= moment_s), None)

    def want(self, *, wanted: bool) -> None:
        """Say whether to try."""
        (self._wanted.set if wanted else self._wanted.clear)()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(4 * ATTEMPT_S)


def strike(kafka: LocalKafka, kind: str, nodes: list[int], seconds: float) -> float:
    """Cause an outage; return the moment at which its end began."""
    for node in nodes:
        if kind == "kill":
            kafka.kill(node)
        else:
            os.kill(kafka.pid(node), signal.SIGSTOP if kind == "freeze" else signal.SIGTERM)
    time.sleep(seconds)
    back_s = time.time()
    if kind == "freeze":
        for node in nodes:
            os.kill(kafka.pid(node), signal.SIGCONT)
        return back_s
    if kind == "stop":
        for node in nodes:
            kafka.kill(node)  # the broker was already asked to stop; three together may wait for each other
    back_s = time.time()
    kafka.restart(*nodes)
    return back_s


def measure(
    kafka: LocalKafka, watch: Watch, probe: Probe, worker: WorkerProcess, kind: str, nodes: list[int], seconds: float
) -> Outage:
    """Measure one outage, from steady work to steady work."""
    calm_s = time.time()
    tasks = range(len(STREAMS))
    wait_until(lambda: watch.first_after_ms(tasks, calm_s) is not None, "calm", CALM_S)
    restarts = worker.log().count("restarting the process")
    probe.want(wanted=True)
    begin_s = time.time()
    back_s = strike(kafka, kind, nodes, seconds)
    since_s = back_s if len(nodes) == len(kafka.plan.brokers) else begin_s
    wait_until(lambda: probe.first_after(since_s) is not None, "a commit of the fresh producer", CALM_S)
    probe.want(wanted=False)
    fresh_s = probe.first_after(since_s) or 0.0
    wait_until(lambda: watch.first_after_ms(tasks, fresh_s) is not None, "a commit", CALM_S)
    first_ms = watch.first_after_ms(tasks, fresh_s)
    assert first_ms is not None
    return Outage(
        kind=kind,
        brokers=len(nodes),
        of=len(kafka.plan.brokers),
        lasted_s=seconds,
        fresh_s=fresh_s - since_s,
        first_s=first_ms / 1000 - fresh_s,
        restarts=worker.log().count("restarting the process") - restarts,
    )


@contextmanager
def scene(brokers: int, folder: Path) -> Iterator[Callable[[str, list[int], float], Outage]]:
    """Start a cluster and a worker; yield a function that measures an outage."""
    with start(brokers) as kafka:
        app = App(kafka.bootstrap_servers, f"o{brokers}-", folder, SECTIONS, len(STREAMS), replication=brokers)
        app.create_topics()
        app.cluster.create([TopicInfo(PROBE_TOPIC, len(STREAMS), {})], brokers)
        with (
            workers(app, "w") as [worker],
            Watch(app) as watch,
            Probe(kafka.bootstrap_servers, len(STREAMS)) as probe,
            Load(app, STREAMS, seed=brokers),
        ):
            worker.start()
            worker.wait_for("restored task=2")
            try:
                yield lambda kind, nodes, seconds: measure(kafka, watch, probe, worker, kind, nodes, seconds)
            finally:
                click.echo(worker.log_file.read_text(), err=True)


@click.command()
@click.option("--brokers", type=click.Choice(["1", "3"]), multiple=True, default=("1", "3"))
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, default=KINDS)
@click.option("--seconds", multiple=True, type=float, default=(8.0, 30.0))
@click.option("--rounds", type=int, default=1)
def main(brokers: tuple[str, ...], kinds: tuple[str, ...], seconds: tuple[float, ...], rounds: int) -> None:
    """Print a line for each outage, and the median and the maximum of what the worker adds."""
    logging.basicConfig(level=logging.CRITICAL)  # clients report every broker that is down
    found: list[Outage] = []
    with temporary_folder("areba-outages-") as folder:
        for count in map(int, brokers):
            with scene(count, folder) as carry_out:
                for _ in range(rounds):
                    for kind in kinds:
                        for length in seconds:
                            for nodes in [[1]] if count == 1 else [[1], [1, 2, 3]]:
                                found.append(carry_out(kind, nodes, length))
                                click.echo(found[-1])
    times = [outage.first_s for outage in found]
    click.echo(f"{len(times)} outages: median {median(times):.1f} s, worst {max(times):.1f} s after a fresh producer")
    sys.exit(0)


if __name__ == "__main__":
    main()
