"""Estimate from a task's newest records how the labels of each stream arrive, and how full its tables are.

A worker has the whole state, and reports missing labels exactly and earlier. The estimates err on the side of no alarm.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_app.admin.recent.tails import TAIL_RECORDS, Tail, tail_of
from stream_app.backends.base import Cluster, TopicPartition
from stream_app.config.task_settings import JoinSettings
from stream_app.pipeline.watched.label_flow import ENOUGH, SKEW_MS, WINDOW, LabelFlow
from stream_app.pipeline.watched.table_use import TableUse
from stream_app.records import Metric, Outcome, OutcomeKind, Prediction, stream_of_key
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.wire_format import WireFormat

_METRICS_RECORDS = 20_000
"""Records that are read at the end of the metrics if a stream has no record among the newest.

Its labels may have stopped long ago.
"""

JOINED, UNLABELLED, EVICTED = (
    kind.name.lower() for kind in (OutcomeKind.JOINED, OutcomeKind.UNLABELLED, OutcomeKind.EVICTED)
)
CLOSED = (JOINED, UNLABELLED, EVICTED)
"""The outcomes of examples that were closed."""


class Tails(NamedTuple):
    """The newest records of a task: its labels up to the last commit, and its outputs."""

    labels: Tail
    predictions: Tail
    outcomes: Tail
    dead_letters: Tail


class _Ended(NamedTuple):
    """The outcome of an example that was closed, and the event time at which it was closed."""

    outcome: str
    time_ms: int


class _Met(NamedTuple):
    """Labels among the newest that wait for an example, and those that have an outcome."""

    unmatched: int = 0
    matched: int = 0


@dataclass(frozen=True, slots=True)
class StreamRecords:
    """What the newest records of a task say about one stream.

    Attributes:
        times: Event times of its newest examples; not empty.
        metrics: The two newest metrics of its champion, newest first.
        flow: How its labels arrive.
    """

    times: Sequence[int]
    metrics: Sequence[Metric]
    flow: LabelFlow

    def use(self, join: JoinSettings) -> TableUse | None:
        """Estimate how full its tables are; None if that is not known."""
        if not self.metrics or len(self.times) < ENOUGH:
            return None
        metric = self.metrics[0]
        gap_ms = (max(self.times) - min(self.times)) / (len(self.times) - 1)
        closed = min(join.max_closed_per_stream, metric.labelled + metric.unlabelled + metric.evicted)
        usual_ms = metric.delay_ms_p99 if metric.labelled >= ENOUGH else None
        pending_ms, closed_ms = int(metric.pending * gap_ms), int(closed * gap_ms)
        return TableUse(metric.pending, metric.waiting, 0, closed, metric.labelled, pending_ms, closed_ms, usual_ms)


def streams_of(cluster: Cluster, metrics: TopicPartition, tails: Tails) -> dict[str, StreamRecords]:
    """Return what is known about each stream with a recent example.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
        TopicError: The broker does not allow us to read.
    """
    examples, ended, met = _examples(tails.predictions), _ended(tails.outcomes), _met(tails)
    known = _metrics(cluster, metrics, tails.outcomes.wire_format, examples)
    found = {}
    for name, times in examples.items():
        flow = _flow(times, ended.get(name, []), known.get(name, []), are_all=tails.predictions.is_whole)
        flow = flow._replace(**met.get(name, _Met())._asdict())
        found[name] = StreamRecords(times, known.get(name, []), flow)
    return found


def _examples(tail: Tail) -> dict[str, list[int]]:
    """Return the event times of the predicted examples, by stream."""
    found: dict[str, list[int]] = {}
    for row in tail.rows:
        content = tail.content(row)
        if isinstance(content, Prediction) and content.champion:
            found.setdefault(content.stream, []).append(content.event_time_ms)
    return found


def _ended(tail: Tail) -> dict[str, list[_Ended]]:
    """Return the examples that were closed, by stream."""
    found: dict[str, list[_Ended]] = {}
    for row in tail.rows:
        content = tail.content(row)
        if isinstance(content, Outcome) and content.outcome in CLOSED:
            found.setdefault(content.stream, []).append(_Ended(content.outcome, content.event_time_ms))
    return found


def _met(tails: Tails) -> dict[str, _Met]:
    """Compare the newest labels of each stream with the outcomes and dead letters that answer them.

    Where the tails do not reach back to the beginning, as many labels are compared as they answer.
    """
    answered = {*_answered(tails)}
    is_whole = tails.outcomes.is_whole and tails.dead_letters.is_whole
    rows = tails.labels.rows if is_whole or not answered else tails.labels.rows[-len(answered) :]
    newest_ms: dict[str, int] = {}
    for row in rows:
        stream = stream_of_key(row.key)
        newest_ms[stream] = max(row.timestamp_ms, newest_ms.get(stream, row.timestamp_ms))
    found: dict[str, _Met] = {}
    for row in rows:
        stream = stream_of_key(row.key)
        before = found.setdefault(stream, _Met())
        if row.offset in answered:
            found[stream] = before._replace(matched=before.matched + 1)
        elif row.timestamp_ms <= newest_ms[stream] - SKEW_MS:
            found[stream] = before._replace(unmatched=before.unmatched + 1)
    return found


def _answered(tails: Tails) -> Iterator[int]:
    """Yield the offset of each label that an outcome or a dead letter answers."""
    for row in tails.outcomes.rows:
        content = tails.outcomes.content(row)
        if isinstance(content, Outcome) and content.label_offset is not None:
            yield content.label_offset
    for row in tails.dead_letters.rows:
        letter = DeadLetterRecord.read(row.key, row.value, row.headers)
        if letter is not None and letter.topic == tails.labels.topic:
            yield letter.input_offset


def _metrics(
    cluster: Cluster, place: TopicPartition, wire_format: WireFormat, wanted: Mapping[str, object]
) -> dict[str, list[Metric]]:
    """Return the two newest metrics of each stream's champion, newest first."""
    records = TAIL_RECORDS
    while True:
        tail = tail_of(cluster, place, wire_format, records)
        found: dict[str, list[Metric]] = {}
        for row in reversed(tail.rows):
            known = found.setdefault((row.key or b"").decode(errors="replace"), [])
            content = tail.content(row) if len(known) < 2 else None
            if isinstance(content, Metric) and content.champion:
                known.append(content)
        if tail.is_whole or records >= _METRICS_RECORDS or all(found.get(name) for name in wanted):
            return found
        records = _METRICS_RECORDS


def _flow(times: Sequence[int], ended: Sequence[_Ended], known: Sequence[Metric], *, are_all: bool) -> LabelFlow:
    """Estimate how the labels of a stream arrive, in the terms of `label_flow.flow_of`.

    `known` are its newest metrics, newest first; `are_all`: there are no older examples.
    """
    newest = ended[-WINDOW:]
    unlabelled = sum(one.outcome == UNLABELLED for one in newest) / len(newest) if len(newest) >= ENOUGH else None
    metric = known[0] if known else None
    if metric is None or metric.labelled < ENOUGH or metric.delay_ms_p99 is None:
        return LabelFlow(None, None, 0.0, 0, unlabelled)
    share = metric.labelled / (metric.labelled + metric.unlabelled + metric.evicted)
    now_ms = max(*times, *(one.time_ms for one in ended), metric.event_time_ms)
    # If no join is among the newest outcomes, the last label arrived before the next metric was due. Metrics follow a
    # fixed number of labels, so the time to the next metric is estimated as the time between the last two.
    metric_ms = metric.event_time_ms
    expected_ms = 2 * metric_ms - known[1].event_time_ms if len(known) > 1 else metric_ms
    joined_ms = min(now_ms, max((one.time_ms for one in ended if one.outcome == JOINED), default=expected_ms))
    due_ms = now_ms - max(metric.delay_ms_p99, SKEW_MS)
    waiting = [time_ms for time_ms in times if time_ms > joined_ms]
    is_cut = not are_all and min(times) > due_ms  # the tail covers less time than the usual delay
    overdue = len(waiting) if is_cut else sum(time_ms <= due_ms for time_ms in waiting)
    return LabelFlow(now_ms - joined_ms, metric.delay_ms_p99, share, overdue, unlabelled)
