"""What the newest outputs of a task show: records that became dead letters, and streams whose labels stopped coming.

Only tails of the output partitions are read, so this costs the same after an hour and after a year. What it says of
labels is therefore an estimate, on the cautious side: a worker, which has the whole state, says it exactly and sooner.
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

TAIL_RECORDS = 2_000
"""Of each output partition: read within some 50 ms."""

METRICS_RECORDS = 20_000
"""The longest tail of metrics, for a stream without a record among the newest: its labels may have stopped long ago."""

WINDOW_MS = 3_600_000
"""Dead letters count for an hour of the task's event time: by then they were looked at, or more came."""

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
"""Reasons that are counted and need nobody's attention by themselves: labels that come late, and repeats, are in the
nature of the data; values that tell no stream are for the breaker to judge."""

CLOSED = tuple(kind.name.lower() for kind in (OutcomeKind.JOINED, OutcomeKind.UNLABELLED, OutcomeKind.EVICTED))


class Buried(NamedTuple):
    """Dead letters of one reason that were not sent back: how many, the last offset, and the stream of that."""

    reason: str
    records: int
    offset: int
    stream: str


class Recent(NamedTuple):
    """What the newest outputs of a task show.

    Attributes:
        task: Its number.
        dead: By reason.
        is_all: Whether there cannot be more of them in the window.
        labels: By stream that had an example lately.
        max_unlabelled_share: As it is configured.
    """

    task: int
    dead: tuple[Buried, ...] = ()
    is_all: bool = True
    labels: Mapping[str, LabelFlow] = {}
    max_unlabelled_share: float = 1.0

    @property
    def dead_records(self) -> int:
        """All of them."""
        return sum(one.records for one in self.dead)

    def missing(self) -> Mapping[str, str]:
        """The streams whose labels are missing, and why somebody should look after them."""
        found = {name: flow.problem(self.max_unlabelled_share) for name, flow in self.labels.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def problems(self) -> Iterator[str]:
        """A line for each thing that somebody has to look after."""
        for one in self.dead:
            if one.reason not in QUIET:
                yield (
                    f"task {self.task}: {'' if self.is_all else 'at least '}{one.records} dead letters {one.reason} in "
                    f"the last hour of event time, the last of stream {one.stream!r}; look: areba dlq show "
                    f"{self.task}:{one.offset}"
                )
        for name, problem in self.missing().items():
            yield f"task {self.task}: stream {name!r}: {problem}"

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        missing = self.missing()
        return {
            "dead_letters": [one._asdict() for one in self.dead],
            "dead_letters_are_all": self.is_all,
            "label_flow": [
                {"stream": name, **flow._asdict(), "problem": missing.get(name)} for name, flow in self.labels.items()
            ],
        }


class _Tail(NamedTuple):
    """The newest records of a partition; `is_whole`: there are no older ones."""

    rows: Sequence[Row]
    is_whole: bool

    @property
    def newest_ms(self) -> int:
        return max((row.timestamp_ms for row in self.rows), default=0)


def recent(cluster: Cluster, config: Config, task: int) -> Recent:
    """Look at the newest outputs of a task.

    Raises:
        UnknownOutcomeError: The broker fell silent.
        TopicError: The broker refuses.
    """
    topics = config.topics
    predictions = _tail(cluster, TopicPartition(topics.predictions, task))
    outcomes = _tail(cluster, TopicPartition(topics.outcomes, task))
    letters = _tail(cluster, TopicPartition(topics.dead_letters, task))
    dead, is_all = _buried(letters, max(predictions.newest_ms, outcomes.newest_ms))
    examples = _examples(predictions)
    known = _metrics(cluster, TopicPartition(topics.metrics, task), examples)
    ended = _ended(outcomes)
    labels = {
        name: _flow(times, ended.get(name, []), known.get(name, []), are_all=predictions.is_whole)
        for name, times in examples.items()
    }
    return Recent(task, dead, is_all, labels, config.worker.max_unlabelled_share)


def _tail(cluster: Cluster, place: TopicPartition, records: int = TAIL_RECORDS) -> _Tail:
    low, high = cluster.watermarks(place)
    if low == high:
        return _Tail((), is_whole=True)
    with closing(cluster.reader(place)) as reader:
        reader.seek(max(low, high - records))
        return _Tail(list(read_rows(reader, f"{place.topic}[{place.partition}]")), is_whole=high - records <= low)


# Dead letters ---------------------------------------------------------------------------------------------------------


def _buried(tail: _Tail, newest_ms: int) -> tuple[tuple[Buried, ...], bool]:
    """Those of the last hour, by reason; whether there cannot be more of them.

    A dead letter without a time of its own has that of the one before it. What a replay wrote has the wall clock's.

    Args:
        tail: Of the partition.
        newest_ms: The largest event time of the other outputs.
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
            found[row.offset] = time_ms, Buried(reason, 1, row.offset, _stream_of(row))
    since_ms = max(newest_ms, time_ms) - WINDOW_MS
    recent_ones = [one for at_ms, one in found.values() if at_ms >= since_ms]
    is_all = tail.is_whole or len(recent_ones) < len(found)
    by_reason: dict[str, Buried] = {}
    for one in recent_ones:
        before = by_reason.get(one.reason)
        by_reason[one.reason] = one if before is None else one._replace(records=before.records + 1)
    return tuple(by_reason.values()), is_all


def _stream_of(row: Row) -> str:
    """Of its value, or else its key."""
    content = _decoded(row)
    stream: str = getattr(content, "stream", None) or (row.key or b"").decode(errors="replace")
    return stream


def _decoded(row: Row) -> object:
    try:
        return decode_one(row.value or b"")
    except (UndecodableError, WrongSchemaError) as error:
        return error


# Labels ---------------------------------------------------------------------------------------------------------------


class _Ended(NamedTuple):
    """An example that was closed: how, and at which event time."""

    outcome: str
    time_ms: int


class _Known(NamedTuple):
    """A record of metrics, and its event time."""

    metric: Metric
    time_ms: int


def _examples(tail: _Tail) -> dict[str, list[int]]:
    """Event times of the examples that were predicted, by stream."""
    found: dict[str, list[int]] = {}
    for row in tail.rows:
        content = _decoded(row)
        if isinstance(content, Prediction) and content.champion:
            found.setdefault(content.stream, []).append(row.timestamp_ms)
    return found


def _ended(tail: _Tail) -> dict[str, list[_Ended]]:
    """The examples that were closed, by stream."""
    found: dict[str, list[_Ended]] = {}
    for row in tail.rows:
        content = _decoded(row)
        if isinstance(content, Outcome) and content.outcome in CLOSED:
            found.setdefault(content.stream, []).append(_Ended(content.outcome, row.timestamp_ms))
    return found


def _metrics(cluster: Cluster, place: TopicPartition, wanted: Mapping[str, object]) -> dict[str, list[_Known]]:
    """The two newest records of the champion of each stream, newest first."""
    records = TAIL_RECORDS
    while True:
        tail = _tail(cluster, place, records)
        found: dict[str, list[_Known]] = {}
        for row in reversed(tail.rows):
            known = found.setdefault((row.key or b"").decode(errors="replace"), [])
            content = _decoded(row) if len(known) < 2 else None
            if isinstance(content, Metric) and content.champion:
                known.append(_Known(content, row.timestamp_ms))
        if tail.is_whole or records >= METRICS_RECORDS or all(found.get(name) for name in wanted):
            return found
        records = METRICS_RECORDS


def _flow(times: Sequence[int], ended: Sequence[_Ended], known: Sequence[_Known], *, are_all: bool) -> LabelFlow:
    """How the labels of a stream come, as `label_flow.flow_of` has it, from what is known of it.

    Args:
        times: Of its newest examples.
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
    # Without a join among the newest outcomes: the next record of metrics would have come as long after the last as
    # that came after the one before.
    expected_ms = 2 * metric_ms - known[1].time_ms if len(known) > 1 else metric_ms
    joined_ms = min(now_ms, max((one.time_ms for one in ended if one.outcome == "joined"), default=expected_ms))
    due_ms = now_ms - max(metric.delay_ms_p99, SKEW_MS)
    waiting = [time_ms for time_ms in times if time_ms > joined_ms]
    is_cut = not are_all and min(times) > due_ms  # so many examples that the tail is shorter than the usual delay
    overdue = len(waiting) if is_cut else sum(time_ms <= due_ms for time_ms in waiting)
    return LabelFlow(now_ms - joined_ms, metric.delay_ms_p99, share, overdue, unlabelled)
