"""Every metric's name, meaning and labels in one place, and the figures that a worker keeps for them.

To add a metric: declare it here, and let a method of the observer call `Figures.add` or `Figures.set` with it. The
names follow Prometheus' conventions (base units, `_total` for counters). `http.py` publishes what is declared.
"""

from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import NamedTuple, TypeAlias

from stream_app.task_state import REPORTED

Labels: TypeAlias = tuple[str, ...]
"""The values of a metric's labels, in the order of its declaration."""


class Kind(StrEnum):
    """How a figure moves."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Metric(NamedTuple):
    """A metric: its name, what it says, its labels."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ("task",)


TASK_STATE = Metric(
    "areba_task_state",
    Kind.GAUGE,
    f"1 for the state of a task of this worker, 0 for the others: {', '.join(REPORTED)}.",
    ("task", "state"),
)
COMMITTED_OFFSET = Metric(
    "areba_committed_offset",
    Kind.GAUGE,
    "Committed offset of an input of a task: after the last record that was processed.",
    ("task", "topic"),
)
OUTPUT_RECORDS = Metric(
    "areba_output_records_total",
    Kind.COUNTER,
    "Records of predictions, outcomes, metrics and dead letters that were committed.",
)
SNAPSHOTS = Metric("areba_snapshots_total", Kind.COUNTER, "Snapshots that were written whole.")
SNAPSHOT_BYTES = Metric("areba_snapshot_bytes_total", Kind.COUNTER, "Bytes that these snapshots wrote.")
ABORTED_TRANSACTIONS = Metric(
    "areba_aborted_transactions_total",
    Kind.COUNTER,
    "Transactions that were given up; their tasks were restored.",
    (),
)
DEAD_LETTERS = Metric(
    "areba_dead_letters_total",
    Kind.COUNTER,
    "Dead letters that were committed, see areba dlq.",
    ("task", "reason"),
)
MEMORY_BOUND = Metric(
    "areba_memory_bound_bytes",
    Kind.GAUGE,
    "The most that a worker takes that has all tasks, all tables, buffers and queues full at the configured limits.",
    (),
)
MEMORY_ALLOCATED = Metric(
    "areba_memory_allocated_bytes",
    Kind.GAUGE,
    "What state, buffers and snapshot of a task have allocated, looked at once a minute.",
)
MISPLACED_RECORDS = Metric(
    "areba_misplaced_records_total",
    Kind.COUNTER,
    "Records that another partition should have: their producer's partitioner is not murmur2_random.",
)
MISPLACED_STREAMS = Metric(
    "areba_misplaced_streams",
    Kind.GAUGE,
    "Streams of the task that another partition should have: they may live in both.",
)
LABEL_SILENCE = Metric(
    "areba_label_silence_seconds",
    Kind.GAUGE,
    "Event time of a stream since a label was joined.",
    ("task", "stream"),
)
LABEL_DELAY = Metric(
    "areba_label_delay_p99_seconds",
    Kind.GAUGE,
    "Delay of labels that 99 % of a stream's joined labels do not exceed, in event time.",
    ("task", "stream"),
)
UNLABELLED_SHARE = Metric(
    "areba_unlabelled_ratio",
    Kind.GAUGE,
    "Share of a stream's newest closed examples that ended without a label (unlabelled).",
    ("task", "stream"),
)
LABELS_MISSING = Metric(
    "areba_labels_missing",
    Kind.GAUGE,
    "1 where the labels of a stream stopped coming, or too many of its examples end without a label; else 0.",
    ("task", "stream"),
)
STEP_SECONDS = Metric(
    "areba_step_seconds", Kind.GAUGE, "For how long the main loop has been inside one step; 0: in none.", ()
)
ROUND_AGE = Metric("areba_round_age_seconds", Kind.GAUGE, "Time since a round, idle or not, ended.", ())
BROKER_AGE = Metric("areba_broker_answer_age_seconds", Kind.GAUGE, "Time since a Kafka broker answered.", ())

METRICS = (
    TASK_STATE,
    COMMITTED_OFFSET,
    OUTPUT_RECORDS,
    SNAPSHOTS,
    SNAPSHOT_BYTES,
    ABORTED_TRANSACTIONS,
    DEAD_LETTERS,
    MISPLACED_RECORDS,
    MISPLACED_STREAMS,
    LABEL_SILENCE,
    LABEL_DELAY,
    UNLABELLED_SHARE,
    LABELS_MISSING,
    STEP_SECONDS,
    ROUND_AGE,
    BROKER_AGE,
    MEMORY_BOUND,
    MEMORY_ALLOCATED,
)
"""All metrics of ours; `http.py` adds `areba_build_info` and those of the process."""


class Figures:
    """The values of the metrics: written by the worker's thread, read by a server's."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in METRICS}

    def add(self, metric: Metric, amount: float, *labels: str | int) -> None:
        """Increase a counter."""
        key = _values_of(labels)
        with self._lock:
            values = self._values[metric]
            values[key] = values.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, *labels: str | int) -> None:
        """Set the value of a gauge."""
        with self._lock:
            self._values[metric][_values_of(labels)] = value

    def drop_task(self, task: int) -> None:
        """Delete all values of a task, which another worker reports from now on."""
        with self._lock:
            for metric, values in self._values.items():
                if "task" in metric.labels:
                    place = metric.labels.index("task")
                    for key in [key for key in values if key[place] == str(task)]:
                        del values[key]

    def values(self) -> Mapping[Metric, Mapping[Labels, float]]:
        """Return a consistent copy of all values."""
        with self._lock:
            return {metric: dict(values) for metric, values in self._values.items()}


def _values_of(labels: tuple[str | int, ...]) -> Labels:
    """Return label values as printable text: names of streams are unchecked and may hold control characters."""
    return tuple(text if text.isprintable() else repr(text) for text in map(str, labels))
