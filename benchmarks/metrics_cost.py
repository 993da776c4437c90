"""What `/metrics` costs a worker: CPU time with a page that is scraped, against the same worker without pages.

Both sides process the same records over an in-process log, in rounds of `ROUND_RECORDS`, and the process's CPU time
counts, that of the page's thread included. They take turns every few rounds. Their clock moves by `ROUND_S` a round, so
each run does the same work in the same turn, and of each turn the fastest of `PAIRS` runs counts: other processes can
only make it slower. The garbage collector runs between the runs. Without Kafka's client a round is several
times cheaper than in production, so the share of the metrics is larger here.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row
from benchmarks.way import DELAY_EXAMPLES, Inputs, fraud
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.config import Config
from stream_app.worker.observer import Observer
from stream_app.worker.pages.health import HealthObserver
from stream_app.worker.pages.http import PageServer, pages_of
from stream_app.worker.ports import Ports
from stream_app.worker.worker import Worker

RECORDS = 100_000
"""Records of one run: half of them examples, half of them labels."""

ROUND_RECORDS = 100
ROUND_S = 0.01
"""10,000 records a second with the default of `worker.commit_interval_ms`."""

SCRAPE_RECORDS = 50_000
"""One scrape for so many records: every five seconds."""

CHUNK_RECORDS = 500
"""The sides take turns after so many records, some 7 ms: short enough to be undisturbed in one of the runs."""

PAIRS = 10
MOST = 1.02
LIMIT_S = 120.0


def _configuration() -> Config:
    return Config.model_validate(
        {
            "application": {"id": "bench", "instance": "worker-1"},
            "learners": {"areba": {"method": "areba"}, "baseline": {"method": "baseline"}},
            "streams": {"fraud": {"features": 30, "learning_rate": 0.0001}},
            "worker": {"commit_interval_ms": 0, "max_batch_records": ROUND_RECORDS, "snapshot_after_ms": 60_000},
        }
    )


@contextmanager
def _observed(clock: ManualClock, *, publishes: bool) -> Iterator[tuple[Observer, int]]:
    """Yield an observer and, if it publishes, the port of its pages; else 0."""
    if not publishes:
        yield Observer(clock), 0
        return
    observer = HealthObserver(clock)
    with closing(PageServer("127.0.0.1", 0, pages_of(observer))) as server:
        yield observer, server.port


class _Log:
    """A log with the records of one run, for one worker."""

    def __init__(self, config: Config, examples: Sequence[bytes], labels: Sequence[bytes]) -> None:
        self.clock = ManualClock()
        self.config = config
        self.broker = EmbeddedBroker(self.clock)
        self.cluster = EmbeddedCluster(self.broker)
        self.cluster.create(topic_plan.plan(config.topics, 1, max_clock_lead_ms=0, max_record_bytes=1 << 20), 1)
        begin = self.clock.now_ms() - 20 * len(examples)
        for topic, values, late in (
            (config.topics.examples, examples, 0),
            (config.topics.labels, labels, 10 * DELAY_EXAMPLES + 5),
        ):
            rows = [(b"fraud", value, begin + 10 * number + late, ()) for number, value in enumerate(values)]
            self.broker.append(TopicPartition(topic, 0), rows)

    def worker(self, observer: Observer) -> Worker:
        ports = Ports(
            EmbeddedSource(self.broker, self.config.group_id),
            EmbeddedTransaction(self.broker, self.config.transactional_id),
            self.cluster,
            self.clock,
            partial(EmbeddedTransaction, self.broker),
        )
        return Worker(self.config, ports, observer)


class _Side:
    """A worker that takes turns.

    Args:
        log: Its records.
        observer: What it reports to.
        port: Of its pages; 0: it has none.
    """

    def __init__(self, log: _Log, observer: Observer, port: int) -> None:
        self._clock = log.clock
        self._worker = log.worker(observer)
        self._worker.start()
        self._port = port
        self._done = self._scraped = 0

    def run(self, until: int) -> float:
        """Process records until so many are committed; scrape the page when it is due; return the CPU seconds.

        Raises:
            TimeoutError: They are not committed in time.
        """
        end_s = time.monotonic() + LIMIT_S
        start = time.process_time()
        while self._done < until:
            self._clock.advance(ROUND_S)
            self._worker.turn()
            self._done = sum(sum(task.offsets) for task in self._worker.tasks)
            if time.monotonic() > end_s:
                raise TimeoutError(f"{self._done} of {until} records after {LIMIT_S:g} s")
        if self._port and self._done >= self._scraped + SCRAPE_RECORDS:
            with closing(HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)) as connection:
                connection.request("GET", "/metrics")
                connection.getresponse().read()
            self._scraped += SCRAPE_RECORDS
        return time.process_time() - start


def _pair(config: Config, inputs: Inputs, first: int) -> NDArray[np.float64]:
    """Return the CPU seconds of each turn of a run with pages and of one without: float64 `[turns, 2]`.

    Args:
        config: The configuration of both.
        inputs: The records of both.
        first: Which of two equal logs the side with pages gets: the place in memory alone makes a difference.
    """
    logs = [_Log(config, inputs.examples, inputs.labels) for _ in range(2)]
    one, two = logs[first], logs[1 - first]
    with _observed(one.clock, publishes=True) as shown, _observed(two.clock, publishes=False) as hidden:
        on, off = _Side(one, *shown), _Side(two, *hidden)
        turns = []
        for number, until in enumerate(range(CHUNK_RECORDS, RECORDS + 1, CHUNK_RECORDS)):
            seconds = {side: side.run(until) for side in ((on, off) if (number + first) % 2 else (off, on))}
            turns.append((seconds[on], seconds[off]))
        return np.array(turns)


def rows() -> list[Row]:
    """Measure pairs of runs."""
    inputs, config = Inputs(fraud(RECORDS // 2)), _configuration()
    _pair(config, inputs, 0)  # compiles, and fills caches
    pairs = []
    for number in range(PAIRS):
        gc.collect()
        gc.disable()
        try:
            pairs.append(_pair(config, inputs, number % 2))
        finally:
            gc.enable()
    on_us, off_us = (float(us) for us in np.min(pairs, axis=0).sum(axis=0) / RECORDS * 1e6)
    ratio = on_us / off_us
    name = "a worker with /metrics, scraped, against one without pages: CPU a record"
    return [Row(name, 30, on_us, off_us, ratio, f"<= {MOST:g}x its time", ratio <= MOST)]
