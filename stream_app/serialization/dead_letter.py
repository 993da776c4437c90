"""What the records of the dead-letters topic say, and those that `areba dlq replay` writes; pure.

Three kinds of records are on the topic, told apart by their last headers:

    dead letter   the original key, value and headers, and after them `DEAD_LETTER_HEADERS`: by the worker. Where it
                  would be too large, parts are left out, and further headers say what they were (`left_out`)
    sent back     `areba.replayed`: the offset of a dead letter of this partition, which the transaction that wrote this
                  record has sent back to its input
    start         `areba.replay-start`: a replay begins; whoever reads it has read all that was written before

A record that was sent back has its own headers, and behind them `REPLAY_HEADERS`: which dead letter it was, and from
which input record that came.

Retention deletes a partition from its beginning, so what says that a dead letter was sent back outlives it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.records import Header
from stream_app.serialization.left_out import HEADERS, KEY, VALUE, Fields, LeftOut, read_left_out

DEAD_LETTER_HEADERS = (
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    "__connect.errors.exception.class.name",
    "__connect.errors.exception.message",
    "areba.reason",
)
"""Behind the original headers, in this order."""

REPLAY_HEADERS = (
    "areba.replay.topic",
    "areba.replay.partition",
    "areba.replay.offset",
    "areba.replay.origin.topic",
    "areba.replay.origin.partition",
    "areba.replay.origin.offset",
    "areba.replay.attempt",
    "areba.replay.time_ms",
)
"""Behind the headers of a record that was sent back, in this order; see `Replay`."""

SENT_BACK, START = "areba.replayed", "areba.replay-start"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter: what our headers say, and the original that it carries, as far as it does.

    `left_out` says of the parts of the original that it does not carry what they were.
    """

    topic: str
    partition: int
    input_offset: int
    reason: str
    message: str
    original: Fields
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The input record that it was."""
        return f"{self.topic}[{self.partition}] offset {self.input_offset}"

    def differences(self, record: Fields) -> Iterator[str]:
        """Names of the parts that are not those of this record."""
        mine = self.original
        equal = {
            HEADERS: list(mine.headers) == list(record.headers),
            VALUE: mine.value == record.value,
            KEY: mine.key == record.key,
        }
        for name, is_equal in equal.items():
            left_out = self.left_out.get(name)
            if not (is_equal if left_out is None else left_out.is_of(record.part(name))):
                yield name


class Replay(NamedTuple):
    """What a record that was sent back says of itself.

    `topic`, `partition` and `offset` are those of the dead letter, `origin_...` those of the input record that it was;
    `attempt` counts from 1, when a record that was sent back becomes a dead letter again; `time_ms` is the wall clock.
    """

    topic: str
    partition: int
    offset: int
    origin_topic: str
    origin_partition: int
    origin_offset: int
    attempt: int
    time_ms: int

    def headers(self) -> list[Header]:
        """As they stand on the record."""
        return [(name, str(value).encode()) for name, value in zip(REPLAY_HEADERS, self, strict=True)]


def read_dead_letter(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> DeadLetter | None:
    """The dead letter, or None when its last headers are not ours."""
    headers, left_out = read_left_out(headers)
    texts = _texts(headers, DEAD_LETTER_HEADERS)
    if texts is None:
        return None
    topic, partition, offset, _, message, reason = texts
    try:
        original = Fields(key, value, tuple(headers[: -len(DEAD_LETTER_HEADERS)]))
        return DeadLetter(topic, int(partition), int(offset), reason, message, original, left_out)
    except ValueError:
        return None


def read_replay(headers: Sequence[Header]) -> Replay | None:
    """Which dead letter a record was, if it was sent back."""
    texts = _texts(headers, REPLAY_HEADERS)
    if texts is None:
        return None
    try:
        topic, partition, offset, origin, origin_partition, origin_offset, attempt, time_ms = texts
        numbers = (int(origin_partition), int(origin_offset), int(attempt), int(time_ms))
        return Replay(topic, int(partition), int(offset), origin, *numbers)
    except ValueError:
        return None


def without_replay(headers: Sequence[Header]) -> Sequence[Header]:
    """Those of the producer."""
    return headers[: -len(REPLAY_HEADERS)] if read_replay(headers) is not None else headers


def read_sent_back(headers: Sequence[Header]) -> int | None:
    """The offset of the dead letter that was sent back, if the record says so."""
    texts = _texts(headers, (SENT_BACK,))
    return int(texts[0]) if texts is not None and texts[0].isdecimal() else None


def read_start(headers: Sequence[Header]) -> str | None:
    """The name of the replay that began here, if the record says so."""
    texts = _texts(headers, (START,))
    return texts[0] if texts is not None else None


def is_of_a_replay(headers: Sequence[Header]) -> bool:
    """Whether this record of the dead-letters topic is no dead letter, but what a replay wrote."""
    return read_sent_back(headers) is not None or read_start(headers) is not None


def _texts(headers: Sequence[Header], names: tuple[str, ...]) -> list[str] | None:
    """The values of the last headers, if these are their names."""
    last = headers[-len(names) :]
    if tuple(name for name, _ in last) != names:
        return None
    try:
        return [(value or b"").decode() for _, value in last]
    except UnicodeDecodeError:
        return None
