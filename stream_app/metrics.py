"""`/metrics`: every metric's name and meaning in one place, in the text format of Prometheus.

Only a worker with `worker.http_port` imports this. The registry is the worker's own; nothing is counted here: what the
observer remembers is told at each scrape, so a task that the group took back is gone with all its labels. Counters of a
task begin at 0 when the group gives it to us.
"""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_app.health import HealthObserver, Page, TaskHealth, TaskState


class _Described(NamedTuple):
    """A metric: its name, what it says, its labels."""

    name: str
    text: str
    labels: tuple[str, ...] = ("task",)


TASK_STATE = _Described(
    "areba_task_state",
    "1 for the state that a task of this worker is in: restoring, live, tripped (stopped by the breaker, see areba "
    "resume) or parked (cannot be restored); 0 for the others.",
    ("task", "state"),
)
COMMITTED_OFFSET = _Described(
    "areba_committed_offset",
    "Committed offset of an input of a task: behind the last record that was processed.",
    ("task", "topic"),
)
OUTPUT_RECORDS = _Described(
    "areba_output_records_total", "Records of predictions, outcomes, metrics and dead letters that were committed."
)
SNAPSHOTS = _Described("areba_snapshots_total", "Snapshots that were written whole.")
SNAPSHOT_BYTES = _Described("areba_snapshot_bytes_total", "Bytes that these snapshots wrote.")
ABORTED_TRANSACTIONS = _Described(
    "areba_aborted_transactions_total", "Transactions that were given up; their tasks were restored.", ()
)

COUNTED: tuple[tuple[_Described, Callable[[TaskHealth], int]], ...] = (
    (OUTPUT_RECORDS, lambda task: task.outputs),
    (SNAPSHOTS, lambda task: task.snapshots),
    (SNAPSHOT_BYTES, lambda task: task.snapshot_bytes),
)
"""What is counted by task."""


class _Worker(Collector):
    def __init__(self, observer: HealthObserver, topics: tuple[str, str]) -> None:
        self._observer = observer
        self._topics = topics

    def collect(self) -> Iterator[Metric]:
        """All metrics, of one moment."""
        health = self._observer.health()
        tasks = sorted(health.tasks.items())
        states, offsets = _gauge(TASK_STATE), _gauge(COMMITTED_OFFSET)
        for number, task in tasks:
            for state in TaskState:
                states.add_metric([str(number), state.value], float(task.state is state))
            for topic, offset in zip(self._topics, task.committed or (), strict=False):
                offsets.add_metric([str(number), topic], offset)
        yield states
        yield offsets
        for described, count in COUNTED:
            counter = _counter(described)
            for number, task in tasks:
                counter.add_metric([str(number)], count(task))
            yield counter
        aborted = _counter(ABORTED_TRANSACTIONS)
        aborted.add_metric([], health.aborts)
        yield aborted


def _gauge(described: _Described) -> GaugeMetricFamily:
    return GaugeMetricFamily(described.name, described.text, labels=described.labels)


def _counter(described: _Described) -> CounterMetricFamily:
    return CounterMetricFamily(described.name, described.text, labels=described.labels)


def metrics_page(observer: HealthObserver, topics: tuple[str, str]) -> Callable[[], Page]:
    """`/metrics`.

    Args:
        observer: What it remembers is told.
        topics: Names of examples and labels.
    """
    registry = CollectorRegistry()
    registry.register(_Worker(observer, topics))
    return lambda: Page(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
