"""Find out from a task's newest records which records became dead letters, and what is wrong with its streams.

Only the tails of the partitions are read, so the cost does not grow with the age of an application.
"""

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any, NamedTuple

from stream_app.admin.problems import Problem, ProblemCode
from stream_app.admin.recent.labels import JOINED, Tails, streams_of
from stream_app.admin.recent.tails import TAIL_RECORDS, WINDOW_MS, Tail, tail_of
from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.reading import Row
from stream_app.backends.retention import CLOSE_SHARE, date, duration
from stream_app.config import Config
from stream_app.pipeline.watched.label_flow import LabelFlow
from stream_app.records import REASONS, Outcome, Prediction, Reason
from stream_app.serialization.dead_letter import DeadLetterRecord, read_sent_back
from stream_app.serialization.wire_format import format_of

ORDINARY = {
    Reason.LATE_LABEL.text: "were their examples closed before, by join.ttl_ms or join.max_pending_per_stream?",
    Reason.ORPHAN_LABEL.text: "do the labels have the ids of the examples, and come within join.ttl_ms?",
    Reason.CONFLICTING_LABEL.text: "does the producer of labels change its mind?",
    Reason.CONFLICTING_EXAMPLE.text: "does each event have an id of its own?",
}
"""Reasons that are normal in small numbers, since such data has late and repeated records, with the question to ask.
They need attention only if most records of a stream end so. The alert ArebaDeadLetters leaves out the same reasons."""

_LATE_LABELS = (Reason.LATE_LABEL.text, Reason.ORPHAN_LABEL.text)
"""The reasons whose dead letters say which setting decided."""

MANY = 20
"""Fewer dead letters of an ordinary reason say nothing."""

MAX_NAMED = 20
"""Lines about dead letters; further streams and reasons are counted."""


class Buried(NamedTuple):
    """The recent dead letters of one stream with one reason that were not sent back.

    Attributes:
        reason: The reason.
        records: Their number.
        offset: The offset of the last of them.
        stream: The stream, which the value names, or else the key.
        is_most: Whether more records of the stream and the input ended so than as they should.
    """

    reason: str
    records: int
    offset: int
    stream: str
    is_most: bool = False

    @property
    def needs_attention(self) -> bool:
        """Whether somebody has to look."""
        return self.reason not in ORDINARY or self.is_most


class Recent(NamedTuple):
    """Recent dead letters of a task, and the arrival of its labels, from its newest outputs.

    Attributes:
        task: Number of the task.
        dead: The dead letters of the hour before the newest output, by the time of the log, by stream and reason.
        is_all: Whether all dead letters of that hour were read.
        labels: How the labels of each stream with a recent example arrive.
        max_unlabelled_share: The configured limit, see `LabelFlow.problem`.
        crowded: The streams with a table that is about to lose what is needed, and which.
        old: The streams whose newest example was close to the retention of the inputs when it was predicted, and why.
    """

    task: int
    dead: tuple[Buried, ...] = ()
    is_all: bool = True
    labels: Mapping[str, LabelFlow] = {}
    max_unlabelled_share: float = 1.0
    crowded: Mapping[str, str] = {}
    old: Mapping[str, str] = {}

    @property
    def dead_records(self) -> int:
        """Number of dead letters of that hour."""
        return sum(one.records for one in self.dead)

    def missing(self) -> Mapping[str, str]:
        """Return the problem of each stream whose labels are missing, by the name of the stream."""
        found = {name: flow.problem(self.max_unlabelled_share) for name, flow in self.labels.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def problems(self) -> Iterator[Problem]:
        """Yield a line for each problem."""
        serious = sorted((one for one in self.dead if one.needs_attention), key=lambda one: -one.records)
        for one in serious[:MAX_NAMED]:
            yield self._problem(ProblemCode.DEAD_LETTERS, one.stream, self._dead_text(one))
        if len(serious) > MAX_NAMED:
            text = f"dead letters of {len(serious) - MAX_NAMED} more streams; look: areba dlq show"
            yield Problem(ProblemCode.DEAD_LETTERS, text, self.task)
        for name, problem in self.missing().items():
            late = [one.offset for one in self.dead if one.reason in _LATE_LABELS and one.stream == name]
            look = f"areba dlq show {self.task}:{late[-1]}, which names the setting" if late else "areba watch"
            yield self._problem(ProblemCode.LABELS_MISSING, name, f"{problem}; look: {look}")
        for code, found in ((ProblemCode.TABLE_NEAR_BOUND, self.crowded), (ProblemCode.OLD_EVENT_TIMES, self.old)):
            yield from (self._problem(code, name, problem) for name, problem in found.items())

    def _problem(self, code: ProblemCode, stream: str, text: str) -> Problem:
        return Problem(code, text, self.task, stream)

    def _dead_text(self, one: Buried) -> str:
        count = f"{'' if self.is_all else 'at least '}{one.records} dead letter{'' if one.records == 1 else 's'}"
        where = f"areba dlq show {self.task}:{one.offset}"
        text = f"{count} {one.reason} in the last hour of outputs"
        if one.reason in ORDINARY:
            return f"{text}, more than were accepted: {ORDINARY[one.reason]} look: {where}"
        if one.reason == Reason.STREAM_STOPPED.text:
            return f"{text}; after areba resume: areba dlq resend --reason {one.reason} --stream {quote(one.stream)}"
        return f"{text}; look: {where}"

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


def recent(cluster: Cluster, config: Config, task: int, labels_end: int, kept_ms: int) -> Recent:
    """Read the newest records of a task.

    `labels_end` is the offset of its labels after the last commit, `kept_ms` the shorter retention of both inputs
    (negative: no limit).

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
        TopicError: The broker does not allow us to read.
    """
    topics, wire_format = config.topics, format_of(config.serialization)
    names = topics.labels, topics.predictions, topics.outcomes, topics.dead_letters
    labels, *outputs = (tail_of(cluster, TopicPartition(name, task), wire_format, TAIL_RECORDS) for name in names)
    processed = labels._replace(rows=[row for row in labels.rows if row.offset < labels_end])
    tails = Tails(processed, *outputs)
    newest_ms = max(tails.predictions.newest_ms, tails.outcomes.newest_ms)
    dead, is_all = _buried(tails.dead_letters, newest_ms)
    newest_ms = max(newest_ms, tails.dead_letters.newest_ms)
    dead = tuple(_compared(one, tails.predictions, tails.outcomes, newest_ms) for one in dead)
    streams = streams_of(cluster, TopicPartition(topics.metrics, task), tails)
    uses = {name: stream.use(config.join) for name, stream in streams.items()}
    crowded = {name: use and use.crowding(config.join) for name, use in uses.items()}
    return Recent(
        task,
        dead,
        is_all,
        {name: stream.flow for name, stream in streams.items()},
        config.worker.max_unlabelled_share,
        {name: one.text for name, one in crowded.items() if one is not None and one.is_certain},
        _old(tails.predictions, newest_ms, kept_ms) if kept_ms >= 0 else {},
    )


def _old(predictions: Tail, newest_ms: int, kept_ms: int) -> dict[str, str]:
    """Return the streams whose newest recent example had used most of the inputs' retention when it was predicted."""
    found: dict[str, str] = {}
    for row in predictions.rows:
        content = predictions.content(row)
        if isinstance(content, Prediction) and row.log_time_ms >= newest_ms - WINDOW_MS:
            found.pop(content.stream, None)
            if row.log_time_ms - content.event_time_ms > CLOSE_SHARE * kept_ms:
                found[content.stream] = (
                    f"the newest example has the event time {date(content.event_time_ms)}, and the inputs are kept for "
                    f"{duration(kept_ms)}; look: areba topics check"
                )
    return found


# Dead letters ---------------------------------------------------------------------------------------------------------


def _buried(tail: Tail, newest_ms: int) -> tuple[tuple[Buried, ...], bool]:
    """Count the dead letters of the last hour of outputs by stream and reason; say whether all of them were read.

    Their age is counted by the time of the log: the record may claim any event time.

    Args:
        tail: The newest records of the dead-letters partition.
        newest_ms: When the log took the newest of the other outputs.
    """
    found: dict[int, tuple[int, Buried]] = {}
    for row in tail.rows:
        back = read_sent_back(row.headers)
        if back is not None:
            found.pop(back, None)
        letter = DeadLetterRecord.read(row.key, row.value, row.headers)
        if letter is not None:
            reason = letter.reason if letter.reason in REASONS else "of another program"
            found[row.offset] = row.log_time_ms, Buried(reason, 1, row.offset, _stream_of(row, tail))
    since_ms = max(newest_ms, tail.newest_ms) - WINDOW_MS
    recent_ones = [one for at_ms, one in found.values() if at_ms >= since_ms]
    is_all = tail.is_whole or len(recent_ones) < len(found)
    counted: dict[tuple[str, str], Buried] = {}
    for one in recent_ones:
        before = counted.get((one.stream, one.reason))
        counted[one.stream, one.reason] = one if before is None else one._replace(records=before.records + 1)
    return tuple(counted.values()), is_all


def _compared(one: Buried, examples: Tail, outcomes: Tail, newest_ms: int) -> Buried:
    """Say of dead letters with an ordinary reason whether they are more than what the stream accepted of this input.

    `newest_ms` is when the log took the newest of these outputs.
    """
    if one.reason not in ORDINARY or one.records < MANY:
        return one
    tail = examples if one.reason == Reason.CONFLICTING_EXAMPLE.text else outcomes
    recent_rows = (row for row in tail.rows if row.log_time_ms >= newest_ms - WINDOW_MS)
    accepted = sum(
        content.stream == one.stream
        for content in map(tail.content, recent_rows)
        if (isinstance(content, Prediction) and content.champion)
        or (isinstance(content, Outcome) and content.outcome == JOINED)
    )
    return one._replace(is_most=one.records > accepted)


def _stream_of(row: Row, tail: Tail) -> str:
    """Return the name of the stream, from the value if it can be decoded, otherwise from the key."""
    content = tail.content(row)
    stream: str = getattr(content, "stream", None) or (row.key or b"").decode(errors="replace")
    return stream
