"""Find out from a task's newest outputs which records became dead letters, and which streams no longer get labels.

Only the tails of the output partitions are read, so the cost does not grow with the age of an application. The report
about labels is therefore an estimate, which errs on the side of no alarm: a worker has the whole state, and reports
missing labels exactly and earlier.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.reading import Row, read_rows
from stream_app.config import Config
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.pipeline.label_flow import ENOUGH, SKEW_MS, WINDOW, LabelFlow
from stream_app.records import REASONS, Metric, Outcome, OutcomeKind, Prediction, Reason
from stream_app.serialization.codec import decode_one
from stream_app.serialization.dead_letter import read_dead_letter, read_sent_back
from stream_app.serialization.wire_format import WireFormat, format_of

TAIL_RECORDS = 2_000
"""Records that are read at the end of each output partition, which takes some 50 ms."""

METRICS_RECORDS = 20_000
"""Records that are read at the end of the metrics if a stream has no record among the newest.

Its labels may have stopped long ago.
"""

WINDOW_MS = 3_600_000
"""Dead letters and streams in two tasks are reported for an hour of event time: by then someone has seen them, or there
are more."""

QUIET = frozenset(
    reason.text
    for reason in (
        Reason.LATE_LABEL,
        Reason.ORPHAN_LABEL,
        Reason.CONFLICTING_LABEL,
        Reason.CONFLICTING_EXAMPLE,
        Reason.UNDECODABLE,
        Reason.WRONG_SCHEMA,
        Reason.TOO_LARGE,
    )
)
"""Reasons that are counted, but are not problems in themselves.

Late labels and repeated records are normal in such data, and the breaker judges values that cannot be read.
"""

CLOSED = tuple(kind.name.lower() for kind in (OutcomeKind.JOINED, OutcomeKind.UNLABELLED, OutcomeKind.EVICTED))


class Buried(NamedTuple):
    """Number of recent dead letters with one reason that were not sent back, and offset and stream of the last one."""

    reason: str
    records: int
    offset: int
    stream: str


class Recent(NamedTuple):
    """Recent dead letters of a task, and the arrival of its labels, from its newest outputs.

    Attributes:
        task: Number of the task.
        dead: The dead letters of the last hour, by reason.
        is_all: Whether all dead letters of the last hour were read.
        labels: How the labels of each stream with a recent example arrive.
        max_unlabelled_share: The configured limit, see `LabelFlow.problem`.
        predicted_ms: Event time of the newest prediction of each stream among the newest outputs.
    """

    task: int
    dead: tuple[Buried, ...] = ()
    is_all: bool = True
    labels: Mapping[str, LabelFlow] = {}
    max_unlabelled_share: float = 1.0
    predicted_ms: Mapping[str, int] = {}

    @property
    def dead_records(self) -> int:
        """Number of dead letters of the last hour."""
        return sum(one.records for one in self.dead)

    def missing(self) -> Mapping[str, str]:
        """Return the problem of each stream whose labels are missing, by the name of the stream."""
        found = {name: flow.problem(self.max_unlabelled_share) for name, flow in self.labels.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def problems(self) -> Iterator[str]:
        """Yield a line for each problem."""
        for one in self.dead:
            if one.reason not in QUIET:
                count = (
                    f"{'' if self.is_all else 'at least '}{one.records} dead letter{'' if one.records == 1 else 's'}"
                )
                yield (
                    f"task {self.task}: {count} {one.reason} in the last hour of event time, the last of stream "
                    f"{one.stream!r}; look: areba dlq show {self.task}:{one.offset}"
                )
        for name, problem in self.missing().items():
            yield f"task {self.task}: stream {name!r}: {problem}; look: areba watch"

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        missing = self.missing()
        return {
            "dead_letters": [one._asdict() for one in self.dead],
            "dead_letters_are_all": self.is_all,
            "label_flow": [
                {"stream": name, **flow._asdict(), "problem": missing.get(name)} for name, flow in self.labels.items()
            ],
        }


class _Tail(NamedTuple):
    """The newest records of a partition, in this format; `is_whole` says whether there are no older ones."""

    rows: Sequence[Row]
    wire_format: WireFormat
    is_whole: bool

    @property
    def newest_ms(self) -> int:
        return max((row.timestamp_ms for row in self.rows), default=0)


def recent(cluster: Cluster, config: Config, task: int) -> Recent:
    """Read the newest outputs of a task.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
        TopicError: The broker does not allow us to read.
    """
    topics, wire_format = config.topics, format_of(config.serialization)
    predictions = _tail(cluster, TopicPartition(topics.predictions, task), wire_format)
    outcomes = _tail(cluster, TopicPartition(topics.outcomes, task), wire_format)
    letters = _tail(cluster, TopicPartition(topics.dead_letters, task), wire_format)
    dead, is_all = _buried(letters, max(predictions.newest_ms, outcomes.newest_ms))
    examples = _examples(predictions)
    known = _metrics(cluster, TopicPartition(topics.metrics, task), wire_format, examples)
    ended = _ended(outcomes)
    labels = {
        name: _flow(times, ended.get(name, []), known.get(name, []), are_all=predictions.is_whole)
        for name, times in examples.items()
    }
    predicted_ms = {name: max(times) for name, times in examples.items()}
    return Recent(task, dead, is_all, labels, config.worker.max_unlabelled_share, predicted_ms)


def _tail(cluster: Cluster, place: TopicPartition, wire_format: WireFormat, records: int = TAIL_RECORDS) -> _Tail:
    low, high = cluster.watermarks(place)
    if low == high:
        return _Tail((), wire_format, is_whole=True)
    with closing(cluster.reader(place)) as reader:
        reader.seek(max(low, high - records))
        rows = list(read_rows(reader, f"{place.topic}[{place.partition}]"))
        return _Tail(rows, wire_format, is_whole=high - records <= low)


# Dead letters ---------------------------------------------------------------------------------------------------------


def _buried(tail: _Tail, newest_ms: int) -> tuple[tuple[Buried, ...], bool]:
    """Count the dead letters of the last hour of event time by reason; say whether all of them were read.

    A dead letter counts as no older than those before it, since it may have no timestamp. The records that a replay
    writes are ignored, since they have wall-clock times.

    Args:
        tail: The newest records of the dead-letters partition.
        newest_ms: The latest event time of the other outputs.
    """
    found: dict[int, tuple[int, Buried]] = {}
    time_ms = 0
    for row in tail.rows:
        back = read_sent_back(row.headers)
        if back is not None:
            found.pop(back, None)
        letter = read_dead_letter(row.key, row.value, row.headers)
        if letter is not None:
            time_ms = max(time_ms, row.timestamp_ms)
            reason = letter.reason if letter.reason in REASONS else "of another program"
            found[row.offset] = time_ms, Buried(reason, 1, row.offset, _stream_of(row, tail.wire_format))
    since_ms = max(newest_ms, time_ms) - WINDOW_MS
    recent_ones = [one for at_ms, one in found.values() if at_ms >= since_ms]
    is_all = tail.is_whole or len(recent_ones) < len(found)
    by_reason: dict[str, Buried] = {}
    for one in recent_ones:
        before = by_reason.get(one.reason)
        by_reason[one.reason] = one if before is None else one._replace(records=before.records + 1)
    return tuple(by_reason.values()), is_all


def _stream_of(row: Row, wire_format: WireFormat) -> str:
    """Return the name of the stream, from the value if it can be decoded, otherwise from the key."""
    content = _decoded(row, wire_format)
    stream: str = getattr(content, "stream", None) or (row.key or b"").decode(errors="replace")
    return stream


def _decoded(row: Row, wire_format: WireFormat) -> object:
    try:
        return decode_one(row.value or b"", wire_format)
    except (UndecodableError, WrongSchemaError) as error:
        return error


# Labels ---------------------------------------------------------------------------------------------------------------


class _Ended(NamedTuple):
    """The outcome of an example that was closed, and the event time at which it was closed."""

    outcome: str
    time_ms: int


class _Known(NamedTuple):
    """A metric, and its event time."""

    metric: Metric
    time_ms: int


def _examples(tail: _Tail) -> dict[str, list[int]]:
    """Return the event times of the predicted examples, by stream."""
    found: dict[str, list[int]] = {}
    for row in tail.rows:
        content = _decoded(row, tail.wire_format)
        if isinstance(content, Prediction) and content.champion:
            found.setdefault(content.stream, []).append(row.timestamp_ms)
    return found


def _ended(tail: _Tail) -> dict[str, list[_Ended]]:
    """Return the examples that were closed, by stream."""
    found: dict[str, list[_Ended]] = {}
    for row in tail.rows:
        content = _decoded(row, tail.wire_format)
        if isinstance(content, Outcome) and content.outcome in CLOSED:
            found.setdefault(content.stream, []).append(_Ended(content.outcome, row.timestamp_ms))
    return found


def _metrics(
    cluster: Cluster, place: TopicPartition, wire_format: WireFormat, wanted: Mapping[str, object]
) -> dict[str, list[_Known]]:
    """Return the two newest metrics of each stream's champion, newest first."""
    records = TAIL_RECORDS
    while True:
        tail = _tail(cluster, place, wire_format, records)
        found: dict[str, list[_Known]] = {}
        for row in reversed(tail.rows):
            known = found.setdefault((row.key or b"").decode(errors="replace"), [])
            content = _decoded(row, wire_format) if len(known) < 2 else None
            if isinstance(content, Metric) and content.champion:
                known.append(_Known(content, row.timestamp_ms))
        if tail.is_whole or records >= METRICS_RECORDS or all(found.get(name) for name in wanted):
            return found
        records = METRICS_RECORDS


def _flow(times: Sequence[int], ended: Sequence[_Ended], known: Sequence[_Known], *, are_all: bool) -> LabelFlow:
    """Estimate how the labels of a stream arrive, in the terms of `label_flow.flow_of`.

    Args:
        times: Event times of the stream's newest examples.
        ended: Its newest examples that were closed.
        known: Its newest metrics, newest first.
        are_all: Whether there are no older examples.
    """
    newest = ended[-WINDOW:]
    unlabelled = sum(one.outcome == "unlabelled" for one in newest) / len(newest) if len(newest) >= ENOUGH else None
    metric, metric_ms = known[0] if known else (None, 0)
    if metric is None or metric.labelled < ENOUGH or metric.delay_ms_p99 is None:
        return LabelFlow(None, None, 0.0, 0, unlabelled)
    share = metric.labelled / (metric.labelled + metric.unlabelled + metric.evicted)
    now_ms = max(*times, *(one.time_ms for one in ended), metric_ms)
    # If no join is among the newest outcomes, the last label arrived before the next metric was due. Metrics follow a
    # fixed number of labels, so the time to the next metric is estimated as the time between the last two.
    expected_ms = 2 * metric_ms - known[1].time_ms if len(known) > 1 else metric_ms
    joined_ms = min(now_ms, max((one.time_ms for one in ended if one.outcome == "joined"), default=expected_ms))
    due_ms = now_ms - max(metric.delay_ms_p99, SKEW_MS)
    waiting = [time_ms for time_ms in times if time_ms > joined_ms]
    is_cut = not are_all and min(times) > due_ms  # the tail covers less time than the usual delay
    overdue = len(waiting) if is_cut else sum(time_ms <= due_ms for time_ms in waiting)
    return LabelFlow(now_ms - joined_ms, metric.delay_ms_p99, share, overdue, unlabelled)
