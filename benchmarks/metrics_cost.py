"""Measure what `/metrics` costs a worker: CPU time with a scraped page, against the same worker without pages.

Both sides process the same records over an in-process log, in rounds of `ROUND_RECORDS`, and the process's CPU time
counts, including the page's thread. They take turns of some milliseconds, so that a change of the machine's speed
affects both, and the median of the ratios of all turns counts. A scrape is rare and would vanish in a median, so
it is measured by itself and spread over the records between two scrapes. The garbage collector runs between the runs.
Without Kafka's client a round is several times cheaper than in production, so the share of the metrics is larger here.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from statistics import median
from typing import NamedTuple

from benchmarks.rows import Row, at_most
from benchmarks.way import DELAY_EXAMPLES, Inputs, fraud
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.config import Config
from stream_app.worker.ports import Ports
from stream_app.worker.reports.http import PageServer, pages_of
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

RECORDS = 100_000
"""Records of one run: half of them examples, half of them labels."""

ROUND_RECORDS = 100
ROUND_S = 0.01
"""10,000 records a second with the default of `worker.commit_interval_ms`."""

SCRAPE_RECORDS = 50_000
"""Records per scrape: one scrape every five seconds."""

TURN_RECORDS = 1_000
"""Records of one turn, some 15 ms."""

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
    """Yield an observer and the port of its pages, 0 if it publishes none."""
    if not publishes:
        yield Observer(clock), 0
        return
    observer = Observer(clock, publishes=True)
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
        port: The port of its pages; 0: it has no pages.
    """

    def __init__(self, log: _Log, observer: Observer, port: int) -> None:
        self._clock = log.clock
        self._worker = log.worker(observer)
        self._worker.start()
        self._port = port
        self._done = 0

    def run(self, until: int) -> float:
        """Process records until this number is committed; return the CPU seconds.

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
        return time.process_time() - start

    def scrape(self) -> float:
        """Read the page; return the CPU seconds of the reader and of the page's thread."""
        start = time.process_time()
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)) as connection:
            connection.request("GET", "/metrics")
            connection.getresponse().read()
        return time.process_time() - start


class _Pair(NamedTuple):
    """A run of each side: CPU seconds of each turn, with pages and without, and of each scrape."""

    turns: Sequence[tuple[float, float]]
    scrapes: Sequence[float]


def _pair(config: Config, inputs: Inputs, first: int) -> _Pair:
    """Measure a run with pages and one without, in turns.

    Args:
        config: The configuration of both.
        inputs: The records of both.
        first: Which of two equal logs the side with pages gets: even their places in memory make a difference.
    """
    logs = [_Log(config, inputs.examples, inputs.labels) for _ in range(2)]
    one, two = logs[first], logs[1 - first]
    with _observed(one.clock, publishes=True) as shown, _observed(two.clock, publishes=False) as hidden:
        on, off = _Side(one, *shown), _Side(two, *hidden)
        turns, scrapes = [], []
        for number, until in enumerate(range(TURN_RECORDS, RECORDS + 1, TURN_RECORDS)):
            seconds = {side: side.run(until) for side in ((on, off) if (number + first) % 2 else (off, on))}
            turns.append((seconds[on], seconds[off]))
            if until % SCRAPE_RECORDS == 0:
                scrapes.append(on.scrape())
        return _Pair(turns, scrapes)


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
    turns = [seconds for pair in pairs for seconds in pair.turns]
    scrape_us = median(seconds for pair in pairs for seconds in pair.scrapes) / SCRAPE_RECORDS * 1e6
    off_us = median(off for _, off in turns) / TURN_RECORDS * 1e6
    on_us = median(on / off for on, off in turns) * off_us + scrape_us
    name = "a worker with /metrics, scraped, against one without pages: CPU a record"
    return [at_most(name, 30, on_us, off_us, MOST)]
