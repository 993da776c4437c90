"""Every metric in one place: its name, kind, unit, labels and meaning.

The names follow Prometheus' conventions: base units, the unit last, `_total` for counters. `docs/reference.md` is
written from these declarations. `figures.py` keeps the values; `http.py` publishes exactly what is declared.
"""

from stream_app.task_state import REPORTED
from stream_app.worker.reports.metric_declaration import MetricDeclaration, MetricKind, Unit

INPUTS = ("examples", "labels")
"""The values of the label `input`, by `Side`."""

DROPPED_KINDS = ("trace", "passed")
"""The values of the label `kind` of dropped headers."""

PUBLISHED_STREAMS = 200
"""Streams of a worker that have their own figures: with five learners, 5,000 series and half a megabyte per scrape."""


def _ratio_of_learner(name: str, text: str) -> MetricDeclaration:
    return MetricDeclaration(name, MetricKind.GAUGE, Unit.RATIO, text, ("task", "stream", "learner"))


# The process ----------------------------------------------------------------------------------------------------------

BUILD_INFO = MetricDeclaration(
    "areba_build_info", MetricKind.GAUGE, Unit.FLAG, "1; the labels have the versions.", ("version", "python")
)
RECENT_RESTARTS = MetricDeclaration(
    "areba_recent_restarts",
    MetricKind.GAUGE,
    Unit.COUNT,
    "How often the worker restarted itself in the hour before this start, after an error or an outage of the brokers.",
    ("cause",),
)
FENCED = MetricDeclaration(
    "areba_fenced",
    MetricKind.GAUGE,
    Unit.FLAG,
    "1 if the process restarted itself because it was fenced, by a worker with its name or after a timeout; else 0.",
    (),
)
MEMORY_LIMIT = MetricDeclaration(
    "areba_memory_limit_bytes", MetricKind.GAUGE, Unit.BYTES, "Memory of the machine or of the container.", ()
)
MEMORY_BOUND = MetricDeclaration(
    "areba_memory_bound_bytes",
    MetricKind.GAUGE,
    Unit.BYTES,
    "Memory of a worker that has all tasks, with all tables, buffers and queues full at the configured limits.",
    (),
)

# The loop -------------------------------------------------------------------------------------------------------------

STEP_SECONDS = MetricDeclaration(
    "areba_step_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Time that the main loop has spent in the current step; 0 between steps.",
    (),
)
ROUND_AGE = MetricDeclaration(
    "areba_round_age_seconds", MetricKind.GAUGE, Unit.SECONDS, "Time since the end of the last round, idle or not.", ()
)
COMMIT_AGE = MetricDeclaration(
    "areba_commit_age_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Time since the last committed transaction, or since the start. A worker without new records commits nothing.",
    (),
)
BROKER_AGE = MetricDeclaration(
    "areba_broker_answer_age_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Time since the last answer of a Kafka broker.",
    (),
)
COMMIT_SECONDS = MetricDeclaration(
    "areba_commit_seconds",
    MetricKind.HISTOGRAM,
    Unit.SECONDS,
    "Duration of the committed transactions, from begin to commit.",
    (),
)
ABORTED_TRANSACTIONS = MetricDeclaration(
    "areba_aborted_transactions_total",
    MetricKind.COUNTER,
    Unit.COUNT,
    "Transactions that were aborted; their tasks were restored.",
    (),
)

# Tasks ----------------------------------------------------------------------------------------------------------------

PARTITIONS = MetricDeclaration(
    "areba_partitions",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Partitions of each input that the application reads: the number of its tasks, over all workers.",
    (),
)
TASK_STATE = MetricDeclaration(
    "areba_task_state",
    MetricKind.GAUGE,
    Unit.FLAG,
    f"1 for the state of a task of this worker, 0 for the others: {', '.join(REPORTED)}.",
    ("task", "state"),
)
COMMITTED_OFFSET = MetricDeclaration(
    "areba_committed_offset",
    MetricKind.GAUGE,
    Unit.RECORDS,
    "Committed offset of an input (examples, labels): after the last record that was processed.",
    ("task", "input"),
)
LAG_RECORDS = MetricDeclaration(
    "areba_lag_records",
    MetricKind.GAUGE,
    Unit.RECORDS,
    "Offsets of an input after the committed one, up to the end of the partition (the high watermark) as far as the "
    "Kafka client knows it. What an open transaction holds back counts.",
    ("task", "input"),
)
LAG_SECONDS = MetricDeclaration(
    "areba_lag_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Lower bound of the time for which this worker has known the oldest of these records; 0: there is no lag.",
    ("task", "input"),
)
INPUT_RECORDS = MetricDeclaration(
    "areba_input_records_total",
    MetricKind.COUNTER,
    Unit.RECORDS,
    "Records of an input (examples, labels) that were processed and committed.",
    ("task", "input"),
)
TOMBSTONES = MetricDeclaration(
    "areba_tombstones_total",
    MetricKind.COUNTER,
    Unit.RECORDS,
    "Records of an input that have no value. They are counted, and do nothing else.",
    ("task", "input"),
)
DROPPED_HEADERS = MetricDeclaration(
    "areba_dropped_headers_total",
    MetricKind.COUNTER,
    Unit.RECORDS,
    "Records of which a header was not carried: a `traceparent` (`trace`), or one of `pass_headers` (`passed`).",
    ("task", "kind"),
)
OUTPUT_RECORDS = MetricDeclaration(
    "areba_output_records_total",
    MetricKind.COUNTER,
    Unit.RECORDS,
    "Records of an output (predictions, outcomes, metrics, dead-letters) that were committed.",
    ("task", "output"),
)
DEAD_LETTERS = MetricDeclaration(
    "areba_dead_letters_total",
    MetricKind.COUNTER,
    Unit.RECORDS,
    "Dead letters that were committed, see areba dlq.",
    ("task", "reason"),
)
MISPLACED_RECORDS = MetricDeclaration(
    "areba_misplaced_records_total",
    MetricKind.COUNTER,
    Unit.RECORDS,
    "Records in a wrong partition: the partitioner of their producer is not murmur2_random.",
)
MISPLACED_STREAMS = MetricDeclaration(
    "areba_misplaced_streams",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Streams of the task that belong to another partition: they may have records in both.",
)
RESTORE_SECONDS = MetricDeclaration(
    "areba_restore_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Duration of the last restore of a task, until it was live.",
)
SNAPSHOT_AGE = MetricDeclaration(
    "areba_snapshot_age_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Time since the last snapshot of the task was complete, or since the task was restored from an older snapshot.",
)
UNSAVED_WORK = MetricDeclaration(
    "areba_unsaved_work_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Processing time since the newest snapshot: about the time that a restore would repeat.",
)
OLD_STREAMS = MetricDeclaration(
    "areba_old_event_time_streams",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Streams of the task whose newest records have event times older than three quarters of the inputs' retention.",
)
RETENTION_USED = MetricDeclaration(
    "areba_snapshot_retention_used_ratio",
    MetricKind.GAUGE,
    Unit.RATIO,
    "Share of its topic's retention, by time or size, that the oldest record that a restore needs has used. A snapshot "
    "is taken at 0.25; from 1 on, the broker may delete the record, and the task could not be restored.",
)
SNAPSHOTS = MetricDeclaration("areba_snapshots_total", MetricKind.COUNTER, Unit.COUNT, "Complete snapshots.")
SNAPSHOT_BYTES = MetricDeclaration(
    "areba_snapshot_bytes_total", MetricKind.COUNTER, Unit.BYTES, "Bytes that these snapshots wrote."
)
MEMORY_ALLOCATED = MetricDeclaration(
    "areba_memory_allocated_bytes",
    MetricKind.GAUGE,
    Unit.BYTES,
    "Memory that the state, buffers and snapshot of a task have allocated, sampled once a minute.",
)
TABLE_ENTRIES = MetricDeclaration(
    "areba_table_entries",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Entries of a table, over all streams of a task: pending and closed examples, waiting labels, streams.",
    ("task", "table"),
)
TABLE_USED = MetricDeclaration(
    "areba_table_used_ratio",
    MetricKind.GAUGE,
    Unit.RATIO,
    "Share of its bound that a table uses: streams and pool (join.max_table_bytes_per_task) over the whole task, all "
    "other tables (those of areba_table_entries and waiting-bytes) in the stream that uses the most. In a long run, "
    "closed is full, or pool is: it drops the oldest ids.",
    ("task", "table"),
)

# Streams --------------------------------------------------------------------------------------------------------------

STREAMS_WITHOUT_LABELS = MetricDeclaration(
    "areba_streams_without_labels",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Streams of the task whose labels have stopped coming, of whose examples too many end without a label, or of whose "
    "newest labels most meet no example.",
)
CROWDED_STREAMS = MetricDeclaration(
    "areba_crowded_streams",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Streams of the task with a table near its bound that will lose what is needed: examples before their labels come, "
    "labels before their examples come, or ids of closed examples within five minutes.",
)
STOPPED_STREAMS = MetricDeclaration(
    "areba_stopped_streams",
    MetricKind.GAUGE,
    Unit.FLAG,
    "1 while the breaker has stopped this stream of the task; streams that were never stopped have no value.",
    ("task", "stream"),
)
STREAMS_LEFT_OUT = MetricDeclaration(
    "areba_streams_left_out",
    MetricKind.GAUGE,
    Unit.COUNT,
    f"Streams of the task without their own figures: a worker publishes the figures of {PUBLISHED_STREAMS} streams.",
)
LABEL_SILENCE = MetricDeclaration(
    "areba_label_silence_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "Event time of a stream since its last label was joined.",
    ("task", "stream"),
)
LABEL_DELAY = MetricDeclaration(
    "areba_label_delay_p99_seconds",
    MetricKind.GAUGE,
    Unit.SECONDS,
    "99th percentile of the delay of a stream's joined labels, in event time.",
    ("task", "stream"),
)
UNLABELLED_SHARE = MetricDeclaration(
    "areba_unlabelled_ratio",
    MetricKind.GAUGE,
    Unit.RATIO,
    "Share of a stream's newest closed examples that ended without a label (unlabelled).",
    ("task", "stream"),
)
LABELS_MISSING = MetricDeclaration(
    "areba_labels_missing",
    MetricKind.GAUGE,
    Unit.FLAG,
    "1 while the labels of a stream are missing, see areba_streams_without_labels; else 0.",
    ("task", "stream"),
)
CHAMPION = MetricDeclaration(
    "areba_champion",
    MetricKind.GAUGE,
    Unit.FLAG,
    "1 for the learner that is the champion of a stream; else 0.",
    ("task", "stream", "learner"),
)
GMEAN = _ratio_of_learner(
    "areba_gmean_ratio",
    "G-mean of a learner in the main window, the first of metrics.fading_factors; none until both classes had a label.",
)
RECALL = _ratio_of_learner(
    "areba_recall_ratio",
    "Recall of a learner: its accuracy on class 1, in the main window.",
)
SPECIFICITY = _ratio_of_learner(
    "areba_specificity_ratio",
    "Specificity of a learner: its accuracy on class 0, in the main window.",
)
PRECISION = _ratio_of_learner(
    "areba_precision_ratio",
    "Precision of a learner: the share of class 1 among its predictions of class 1, in the main window.",
)
ROC_AUC = _ratio_of_learner(
    "areba_roc_auc_ratio",
    "Area below the ROC curve of a learner's score, in the main window.",
)
COST_PER_EXAMPLE = MetricDeclaration(
    "areba_cost_per_example",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Mean cost of a learner's decisions among the labels, in the unit of the costs of the stream; none without costs.",
    ("task", "stream", "learner"),
)
SCORE_PSI = MetricDeclaration(
    "areba_score_psi",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Population stability index of the champion's scores in the last window that was compared; none without drift "
    "of the stream, and until the scores have a reference.",
    ("task", "stream"),
)
LARGEST_FEATURE_PSI = MetricDeclaration(
    "areba_largest_feature_psi",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Population stability index of the feature that is farthest from its reference, in the last window that was "
    "compared; none without drift of the stream.",
    ("task", "stream"),
)
FEATURES_DRIFTED = MetricDeclaration(
    "areba_features_drifted",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Features whose population stability index is above drift.threshold of the stream, in the last window that was "
    "compared; none without drift of the stream.",
    ("task", "stream"),
)
CALIBRATION_ERROR = _ratio_of_learner(
    "areba_calibration_error_ratio",
    "Expected calibration error of a learner's probabilities; none until the first label.",
)
LIMITED_EXAMPLES = MetricDeclaration(
    "areba_limited_examples",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Examples, since the task was restored, with a feature beyond 1e6: without a scaler, a network takes it as 1e6.",
    ("task", "stream", "learner"),
)
REFUSED_STEPS = MetricDeclaration(
    "areba_refused_steps",
    MetricKind.GAUGE,
    Unit.COUNT,
    "Steps of a network of your own, since the task was restored, that were not taken: a gradient was not finite.",
    ("task", "stream", "learner"),
)
CHANGES = MetricDeclaration(
    "areba_changes",
    MetricKind.GAUGE,
    Unit.COUNT,
    "How often a learner began to recognise a class worse than before, since the stream began. It is a gauge, because "
    "a restore after an aborted transaction can undo the newest change.",
    ("task", "stream", "learner"),
)

METRICS = tuple(value for value in [*globals().values()] if isinstance(value, MetricDeclaration))
"""All metrics of ours, in the order of their declarations."""

PROCESS_METRICS = (
    MetricDeclaration("process_cpu_seconds_total", MetricKind.COUNTER, Unit.SECONDS, "CPU time of the process.", ()),
    MetricDeclaration(
        "process_resident_memory_bytes", MetricKind.GAUGE, Unit.BYTES, "Physical memory of the process.", ()
    ),
    MetricDeclaration(
        "process_virtual_memory_bytes", MetricKind.GAUGE, Unit.BYTES, "Address space of the process.", ()
    ),
    MetricDeclaration("process_start_time_seconds", MetricKind.GAUGE, Unit.TIMESTAMP, "When the process started.", ()),
    MetricDeclaration("process_open_fds", MetricKind.GAUGE, Unit.COUNT, "Open files and sockets of the process.", ()),
    MetricDeclaration(
        "process_max_fds", MetricKind.GAUGE, Unit.COUNT, "The most files and sockets that it may open.", ()
    ),
)
"""Metrics that Prometheus' client measures."""
