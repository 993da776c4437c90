"""`areba dlq`: what could not be processed is looked at and, once the cause was mended, sent back, each record once.

Sent back is what came: key, value and headers, to the partition it came from, with three things decided here.

    headers     say which dead letter the record was (`letters.REPLAY_HEADERS`); those of an earlier replay are replaced
    timestamp   the original one. Event time says when something happened, and that it was held up does not change that:
                with the time of now, a label would tell a wrong delay, and in a stream that is behind the clock it
                would expire all else. So what is older than `join.ttl_ms` is predicted, but no longer learned. A dead
                letter has its record's timestamp, but for those that another record or no time at all put there
                (`TIMES_OF_OTHERS`): theirs is read from the input, and if retention took it, they are not sent
    once        the transaction that writes the record also writes to the dead letter's own partition that it was sent
                back. Both are there or neither, whenever the tool is killed; a next one reads it and leaves it alone

A next one has to be sure that it reads all of that. Its transactional id ends what one before it left open, and fences
one that still runs; then it writes a record that says that it starts, and reads until it meets it: a transaction of a
worker that is open may hide what lies behind it, but not when this has been read.

Cost: the partitions that have something to send are read twice, a byte of memory for each record; two small records
for each one sent. Readers of the inputs wait for an open transaction: that of `BATCH_RECORDS`, some milliseconds.
"""

import heapq
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, Self

from stream_app.backends.base import Clock, Cluster, LogReader, TopicPartition, Transaction
from stream_app.backends.reading import Row, read_rows
from stream_app.config import Config, or_nearest
from stream_app.errors import BooksError, ConfigurationError, TopicError, UndecodableError, WrongSchemaError
from stream_app.records import (
    REASONS,
    UNREADABLE_HEADERS,
    Example,
    Header,
    Label,
    Mark,
    OutputRecords,
    Reason,
    stream_of_key,
)
from stream_app.recovery.hanging_transactions import OpenTransactions, sweep
from stream_app.serialization.codec import decode_one
from stream_app.serialization.dead_letter import (
    SENT_BACK,
    START,
    DeadLetterRecord,
    Replay,
    read_dead_letter,
    read_replay,
    read_sent_back,
    read_start,
    without_replay,
)
from stream_app.serialization.left_out import VALUE, Fields, batch_bytes
from stream_app.terminal import printable

BATCH_RECORDS = 500
"""Sent back in one transaction: readers of the inputs wait for its end, and a kill wastes no more than these."""

BATCH_BYTES = 8_000_000
"""The same in bytes: a tenth of a second at 100 MB/s."""

NEAR_RECORDS = 5_000
"""An input record so near behind the last one is read on to, one farther away is sought."""

NAMED = 10
"""Dead letters that cannot be sent are named up to so many for each reason; the rest is counted."""

SHOWN_BYTES = 4_096
"""Of a value, in hexadecimal (with `--full` the whole value), and of a key or a header."""

TIMES_OF_OTHERS = frozenset({Reason.ORPHAN_LABEL.text, Reason.LATE_LABEL.text})
"""A waiting label that is given up becomes a dead letter with the timestamp of the record that closed it."""

IS_GONE = "the dead letter had no room for the whole record, and the input record is gone"
IS_ANOTHER = "the dead letter had no room for the whole record, and the input has another record at its offset"
"""Why a dead letter cannot be made whole."""

AGO_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

END = object()
"""Behind the last one."""

OTHER_REASON = 255
"""Of a dead letter whose reason is none of ours, in the tables below; 0 is none that was chosen."""


# What is chosen -------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Partition and offset of a dead letter."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters; an empty set is no limit. Times are event times: `since_ms` belongs to it, `until_ms` not."""

    reasons: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    places: frozenset[Place] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == Selection()

    def takes(self, letter: "Letter") -> bool:
        """Whether this one is chosen."""
        return (
            (not self.reasons or letter.dead.reason in self.reasons)
            and (not self.streams or letter.stream in self.streams)
            and (not self.places or letter.place in self.places)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
        )

    def of(self, partitions: int, topic: str) -> list[int]:
        """The partitions to be read.

        Raises:
            ConfigurationError: A reason or a partition that is chosen does not exist.
        """
        lines = [
            f"there is no reason {reason!r}{or_nearest(reason, REASONS)}" for reason in self.reasons - set(REASONS)
        ]
        wanted = self.partitions | {place.partition for place in self.places}
        lines += [
            f"{topic} has {partitions} partitions: there is no partition {number}"
            for number in sorted(wanted)
            if number >= partitions
        ]
        if lines:
            raise ConfigurationError(lines)
        chosen = self.partitions or set(range(partitions))
        return sorted(chosen & {place.partition for place in self.places} if self.places else chosen)


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter.

    Attributes:
        place: Where it is.
        timestamp_ms: Its event time.
        dead: What it says and carries.
        stream: Of its value, or else its key.
        id: Of its value; empty where that cannot be read.
        content: The record that the value is, or why it is none.
        replay: Which dead letter it was before, if it had been sent back.
    """

    place: Place
    timestamp_ms: int
    dead: DeadLetterRecord
    stream: str
    id: str
    content: object
    replay: Replay | None


def letter_of(partition: int, row: Row) -> Letter | None:
    """The dead letter in this record; None when it is none."""
    dead = read_dead_letter(row.key, row.value, row.headers)
    return None if dead is None else _letter(Place(partition, row.offset), row.timestamp_ms, dead)


def _letter(place: Place, timestamp_ms: int, dead: DeadLetterRecord) -> Letter:
    key, value, headers = dead.original
    stream, id_ = stream_of_key(key), ""
    content: object
    try:
        content = decode_one(value or b"")
    except (UndecodableError, WrongSchemaError) as error:
        content = error
    if isinstance(content, Example | Label):
        stream, id_ = content.stream, content.id
    elif isinstance(content, Mark):
        stream = content.stream
    return Letter(place, timestamp_ms, dead, stream, id_, content, read_replay(headers))


class _Topic:
    """The dead-letters topic."""

    def __init__(self, cluster: Cluster, config: Config) -> None:
        self.name = config.topics.dead_letters
        found = cluster.topics([self.name]).get(self.name)
        if found is None:
            raise TopicError(f"{self.name}: there is no such topic")
        self.partitions = found.partitions
        self._cluster = cluster

    def open(self, partition: int) -> LogReader:
        return self._cluster.reader(TopicPartition(self.name, partition))

    def rows(self, reader: LogReader, partition: int, *, to_end: bool = True) -> Iterator[Row]:
        return read_rows(reader, f"{self.name}[{partition}]", to_end=to_end)

    def watermarks(self, partition: int) -> tuple[int, int]:
        return self._cluster.watermarks(TopicPartition(self.name, partition))


class _Chosen:
    """The chosen dead letters of one partition, until one is found to have been sent back: a byte each, the reason."""

    def __init__(self, low: int) -> None:
        self.read_to = low
        self._low = low
        self._reasons = bytearray()

    @property
    def first(self) -> int:
        """The offset of the first one."""
        return self._low + len(self._reasons) - len(self._reasons.lstrip(b"\0"))

    def add(self, offset: int, reason: str) -> None:
        index = offset - self._low
        if index >= len(self._reasons):
            self._reasons.extend(bytes(max(index + 1 - len(self._reasons), len(self._reasons))))
        self._reasons[index] = REASONS.get(reason, OTHER_REASON)

    def remove(self, offset: int) -> str | None:
        """It was sent back; its reason if it was chosen."""
        if offset not in self:
            return None
        index = offset - self._low
        code, self._reasons[index] = self._reasons[index], 0
        return _reason_text(code)

    def __contains__(self, offset: int) -> bool:
        index = offset - self._low
        return 0 <= index < len(self._reasons) and self._reasons[index] != 0

    def __len__(self) -> int:
        return len(self._reasons) - self._reasons.count(0)


def _reason_text(code: int) -> str:
    return "of another program" if code == OTHER_REASON else Reason(code).text


# list -----------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Line:
    """One dead letter in a list: all but its bytes."""

    place: Place
    timestamp_ms: int
    cells: tuple[str, ...]
    is_sent_back: bool = False

    def __lt__(self, other: "Line") -> bool:
        return (self.timestamp_ms, self.place) < (other.timestamp_ms, other.place)


@dataclass(slots=True)
class Listing:
    """Dead letters: the newest of those chosen, in order of event time, and counts of all of them by reason."""

    lines: list[Line] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    sent_back: Counter[str] = field(default_factory=Counter)

    def texts(self) -> Iterator[str]:
        """A table, and a line for each reason."""
        heads = ("place", "event time (UTC)", "reason", "stream", "id", "from", "bytes", "sent back")
        rows = [heads, *((*line.cells, "yes" if line.is_sent_back else "no") for line in self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if self.lines:
            for row in rows:
                yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        total = self.counts.total()
        if total > len(self.lines):
            yield f"the newest {len(self.lines):,} of {total:,}; --limit shows more"
        yield f"{total:,} dead letters, {self.sent_back.total():,} of them sent back"
        for reason, count in self.counts.most_common():
            yield f"{count:>9,} {reason}" + (f", {back:,} sent back" if (back := self.sent_back[reason]) else "")


def list_letters(cluster: Cluster, config: Config, selection: Selection, limit: int) -> Listing:
    """Read the dead letters up to their end.

    Args:
        cluster: Where they are.
        config: The application's configuration.
        selection: Which to count.
        limit: The most to show; all are counted.

    Raises:
        ConfigurationError: There is no such topic, reason or partition.
        UnknownOutcomeError: The broker fell silent.
    """
    topic, listing = _Topic(cluster, config), Listing()
    newest: list[Line] = []
    for partition in selection.of(topic.partitions, topic.name):
        chosen, lines = _Chosen(topic.watermarks(partition)[0]), dict[int, Line]()
        with closing(topic.open(partition)) as reader:
            for row in topic.rows(reader, partition):
                offset = read_sent_back(row.headers)
                if offset is not None:
                    reason = chosen.remove(offset)
                    listing.sent_back.update([reason] if reason is not None else [])
                    if offset in lines:
                        lines[offset].is_sent_back = True
                    continue
                letter = letter_of(partition, row)
                if letter is None or not selection.takes(letter):
                    continue
                chosen.add(row.offset, letter.dead.reason)
                listing.counts[_reason_text(REASONS.get(letter.dead.reason, OTHER_REASON))] += 1
                _keep(newest, lines, _line_of(letter), limit)
    listing.lines = sorted(newest)
    return listing


def _keep(newest: list[Line], lines: dict[int, Line], line: Line, limit: int) -> None:
    """Keep it if it is among the newest; forget the one that is not any more."""
    if not limit:
        return
    lines[line.place.offset] = line
    if len(newest) < limit:
        heapq.heappush(newest, line)
    else:
        gone = heapq.heappushpop(newest, line)
        if lines.get(gone.place.offset) is gone:
            del lines[gone.place.offset]


def _line_of(letter: Letter) -> Line:
    dead = letter.dead
    value, left_out = dead.original.value, dead.left_out.get(VALUE)
    size = f"{left_out.length:,}" if left_out else f"{len(value):,}" if value is not None else "null"
    origin = f"{dead.topic}[{dead.partition}]:{dead.input_offset}"
    cells = (str(letter.place), time_text(letter.timestamp_ms), dead.reason, letter.stream, letter.id, origin, size)
    return Line(letter.place, letter.timestamp_ms, tuple(printable(cell) for cell in cells))


def time_text(time_ms: int) -> str:
    """An event time as people read it, in UTC."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


# show -----------------------------------------------------------------------------------------------------------------


def show_letter(cluster: Cluster, config: Config, place: Place, *, full: bool = False) -> Iterator[str]:
    """Everything about one dead letter, line by line; the rest of its partition is read to tell if it was sent back.

    What it left out is read from its input.

    Raises:
        BooksError: The input does not have what was left out; all other lines come before.
        ConfigurationError: There is no such topic or partition, or no dead letter at this offset.
        UnknownOutcomeError: The broker fell silent.
    """
    topic = _Topic(cluster, config)
    Selection(partitions=frozenset({place.partition})).of(topic.partitions, topic.name)
    low, high = topic.watermarks(place.partition)
    where = f"{topic.name}[{place.partition}]"
    if not low <= place.offset < high:
        held = f"it has offsets {low} to {high - 1}" if high > low else "it is empty"
        raise ConfigurationError(f"{where} has no offset {place.offset}: {held}")
    with closing(topic.open(place.partition)) as reader:
        reader.seek(place.offset)
        rows = topic.rows(reader, place.partition)
        row = next(rows, None)
        letter = letter_of(place.partition, row) if row is not None and row.offset == place.offset else None
        if letter is None:
            raise ConfigurationError(f"{where} offset {place.offset} is no dead letter: {_what_else(row, place)}")
        back = next((other for other in rows if read_sent_back(other.headers) == place.offset), None)
    with _Origins(cluster) as origins:
        letter, why = origins.whole(letter)
    return _shown(letter, where, back, why, full=full)


def _what_else(row: Row | None, place: Place) -> str:
    if row is None or row.offset != place.offset:
        return "it is a control record of a transaction, or part of one that was aborted"
    offset = read_sent_back(row.headers)
    if offset is not None:
        return f"it says that offset {offset} was sent back"
    return "a replay began here" if read_start(row.headers) is not None else "another program wrote it"


def _shown(letter: Letter, where: str, back: Row | None, why: str, *, full: bool) -> Iterator[str]:
    dead, replay = letter.dead, letter.replay
    key, value, headers = dead.original
    yield f"dead letter  {where} offset {letter.place.offset}"
    yield f"from         {dead.origin}"
    yield f"reason       {printable(dead.reason)}"
    yield f"detail       {_detail(letter)}"
    yield f"event time   {time_text(letter.timestamp_ms)} UTC ({letter.timestamp_ms} ms){_whose(letter)}"
    yield "sent back    " + (f"at {time_text(back.timestamp_ms)} UTC (offset {back.offset})" if back else "no")
    if replay is not None:
        yield (
            f"before       it was {printable(replay.topic)}[{replay.partition}] offset {replay.offset}, "
            f"sent back {time_text(replay.time_ms)} UTC (attempt {replay.attempt})"
        )
    yield f"stream, id   {printable(letter.stream)}, {printable(letter.id) or 'unknown'}"
    yield f"key          {_bytes_text(key)}"
    for name, cell in headers:
        yield f"header       {printable(name)}: {_bytes_text(cell)}"
    yield f"value        {_size_text(value)}"
    for name, part in dead.left_out.items():
        yield f"left out     {name}: {part.length:,} bytes, SHA-256 {printable(part.sha256)}"
    if why:
        raise BooksError([f"{dead.origin}: {why}"])
    yield f"decoded      {_content_text(letter.content)}"
    yield from _hexadecimal(value or b"", None if full else SHOWN_BYTES)


def _detail(letter: Letter) -> str:
    """The worker's message, and what a decoder says of the value if that is not well."""
    reason = REASONS.get(letter.dead.reason)
    detail = letter.dead.message
    if reason is not None and reason.malformed and isinstance(letter.content, Exception):
        detail += f"; {letter.content}"
    return printable(detail)


def _whose(letter: Letter) -> str:
    return ": that of the record that closed it" if letter.dead.reason in TIMES_OF_OTHERS else ""


def _content_text(content: object) -> str:
    return f"no: {content}" if isinstance(content, Exception) else printable(repr(content)[: 4 * SHOWN_BYTES])


def _size_text(value: bytes | None) -> str:
    return "null" if value is None else f"{len(value):,} bytes"


def _bytes_text(value: bytes | None) -> str:
    if value is None:
        return "null"
    if len(value) > SHOWN_BYTES:
        return f"{_bytes_text(value[:SHOWN_BYTES])} and {len(value) - SHOWN_BYTES:,} bytes more"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")
    return text if text.isprintable() and text else repr(value)


def _hexadecimal(value: bytes, most: int | None) -> Iterator[str]:
    """Sixteen bytes a line, as hexdump has them."""
    shown = value[:most]
    for start in range(0, len(shown), 16):
        part = shown[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # printable ASCII
        yield f"  {start:08x}  {part.hex(' '):<47}  {text}"
    if len(value) > len(shown):
        yield f"  and {len(value) - len(shown):,} bytes more; --full shows them"


# replay ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Replayed:
    """What a replay did, or would do.

    Attributes:
        sent: Dead letters by reason and topic that were sent back.
        refused: Those that cannot be, by the reason why: how many, and the first ones.
        before: Chosen ones that were sent back before.
        left: Chosen ones beyond `limit`.
        old: Of those sent, how many are older than their topic keeps records, by topic.
        is_rehearsal: Whether nothing was sent.
    """

    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: dict[str, list[str]] = field(default_factory=dict)
    refused_counts: Counter[str] = field(default_factory=Counter)
    before: int = 0
    left: int = 0
    old: Counter[str] = field(default_factory=Counter)
    is_rehearsal: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not self.refused_counts

    def refuse(self, letter: Letter, why: str) -> None:
        """Count and name it."""
        self.refused_counts[why] += 1
        named = self.refused.setdefault(why, [])
        if len(named) < NAMED:
            named.append(str(letter.place))

    def texts(self) -> Iterator[str]:
        """What was sent where, what was not and why."""
        verb = "would be sent back" if self.is_rehearsal else "sent back"
        for (reason, topic), count in sorted(self.sent.items()):
            yield f"{count:>9,} {reason} {verb} to {topic}"
        for why, count in self.refused_counts.most_common():
            more = f" and {count - NAMED:,} more" if count > NAMED else ""
            yield f"{count:>9,} not sent: {why} ({', '.join(self.refused[why])}{more})"
        for topic, count in sorted(self.old.items()):
            yield f"{count:>9,} are older than retention.ms of {topic}: they may be deleted before a worker reads them"
        if self.left:
            yield f"{self.left:>9,} more are left (--limit)"
        parts = f"{self.sent.total():,} dead letters {verb}, {self.before:,} of those chosen were before"
        yield parts + (": nothing was written (--dry-run)" if self.is_rehearsal else "")


class _Origins:
    """Input records, read again where a dead letter does not have their timestamp, or left out a part of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stack = ExitStack()
        self._readers: dict[TopicPartition, LogReader] = {}
        self._rows: dict[TopicPartition, tuple[int, Iterator[Row]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def time_ms(self, dead: DeadLetterRecord) -> int | None:
        """The timestamp of the record that this was; None when it is gone."""
        row = self._row(dead)
        return row.timestamp_ms if row is not None and not _others(dead, row) else None

    def whole(self, letter: Letter) -> tuple[Letter, str]:
        """The same with what it left out; why that cannot be had, or nothing."""
        dead = letter.dead
        if not dead.left_out:
            return letter, ""
        row = self._row(dead)
        if row is None:
            return letter, IS_GONE
        if _others(dead, row):
            return letter, IS_ANOTHER
        original = Fields(row.key, row.value, row.headers)
        return _letter(letter.place, letter.timestamp_ms, replace(dead, original=original, left_out={})), ""

    def _row(self, dead: DeadLetterRecord) -> Row | None:
        place, wanted = TopicPartition(dead.topic, dead.partition), dead.input_offset
        low, high = self._cluster.watermarks(place)
        if not low <= wanted < high:
            return None
        row = next((row for row in self._from(place, wanted) if row.offset >= wanted), None)
        if row is None:
            return None
        self._rows[place] = row.offset, self._rows[place][1]
        return row if row.offset == wanted else None

    def _from(self, place: TopicPartition, wanted: int) -> Iterator[Row]:
        """Records up to this one and on: those behind the last one asked for, if it is near."""
        if place in self._rows and self._rows[place][0] < wanted <= self._rows[place][0] + NEAR_RECORDS:
            return self._rows[place][1]
        if place not in self._readers:
            self._readers[place] = self._stack.enter_context(closing(self._cluster.reader(place)))
        self._readers[place].seek(wanted)
        rows = read_rows(self._readers[place], f"{place.topic}[{place.partition}]")
        self._rows[place] = wanted - 1, rows
        return rows


def _others(dead: DeadLetterRecord, row: Row) -> list[str]:
    return list(dead.differences(Fields(row.key, row.value, row.headers)))


class _Sending(NamedTuple):
    """One record on its way back."""

    letter: Letter
    key: bytes | None  # of the dead letter, which had no room for one that is very long
    timestamp_ms: int
    headers: Sequence[Header]
    size: int


class _Replay:
    """One run of `areba dlq replay`."""

    def __init__(
        self, cluster: Cluster, config: Config, clock: Clock, selection: Selection, *, rehearsal: bool
    ) -> None:
        self.topic = _Topic(cluster, config)
        self.result = Replayed(is_rehearsal=rehearsal)
        self._config = config
        self._clock = clock
        self._selection = selection
        self._cluster = cluster
        inputs = (config.topics.examples, config.topics.labels)
        found = cluster.topics(inputs)
        missing = [f"{name}: there is no such topic" for name in inputs if name not in found]
        if missing:
            raise TopicError(missing)
        self._largest = {name: int(topic.settings["max.message.bytes"]) for name, topic in found.items()}
        kept_ms = {name: int(topic.settings.get("retention.ms", -1)) for name, topic in found.items()}
        now_ms = clock.now_ms()
        self._oldest_ms = {name: now_ms - kept if kept >= 0 else 0 for name, kept in kept_ms.items()}

    # What there is to send --------------------------------------------------------------------------------------------

    def choose(self, partition: int) -> _Chosen:
        """Chosen dead letters of a partition that were not sent back, as far as can be seen now.

        Raises:
            ConfigurationError: There is no dead letter at a place that is chosen.
        """
        chosen = _Chosen(self.topic.watermarks(partition)[0])
        named = {place.offset for place in self._selection.places if place.partition == partition}
        with closing(self.topic.open(partition)) as reader:
            for row in self.topic.rows(reader, partition):
                chosen.read_to = row.offset + 1
                if self._is_sent_back(chosen, row):
                    continue
                letter = letter_of(partition, row)
                if letter is not None:
                    named.discard(row.offset)
                    if self._selection.takes(letter):
                        chosen.add(row.offset, letter.dead.reason)
        if named:
            where = f"{self.topic.name}[{partition}]"
            raise ConfigurationError([f"{where} offset {offset}: there is no dead letter" for offset in sorted(named)])
        return chosen

    def _is_sent_back(self, chosen: _Chosen, row: Row) -> bool:
        offset = read_sent_back(row.headers)
        if offset is None:
            return False
        self.result.before += chosen.remove(offset) is not None
        return True

    def catch_up(self, partition: int, chosen: _Chosen, name: str) -> None:
        """Read on to the record that this replay has written: no transaction hides anything before it."""
        with closing(self.topic.open(partition)) as reader:
            reader.seek(chosen.read_to)
            for row in self.topic.rows(reader, partition, to_end=False):
                if read_start(row.headers) == name:
                    return
                self._is_sent_back(chosen, row)

    def sendings(self, partition: int, chosen: _Chosen) -> Generator[_Sending | None]:
        """The chosen ones, oldest first, each ready to be sent, or None where it is refused."""
        left = len(chosen)
        with closing(self.topic.open(partition)) as reader, _Origins(self._cluster) as origins:
            reader.seek(chosen.first)
            for row in self.topic.rows(reader, partition):
                letter = letter_of(partition, row) if row.offset in chosen else None
                if letter is not None:
                    yield self._sending(letter, origins)
                    left -= 1
                    if not left:
                        return

    def _sending(self, letter: Letter, origins: _Origins) -> _Sending | None:
        why = self._refusal(letter)
        if why:
            self.result.refuse(letter, why)
            return None
        key = letter.dead.original.key
        letter, why = origins.whole(letter)
        if why:
            self.result.refuse(letter, why)
            return None
        dead = letter.dead
        if tuple(dead.original.headers) == UNREADABLE_HEADERS:
            why = (
                "a name of its headers is not UTF-8, and no client reads the others: its producer has to send it again"
            )
            self.result.refuse(letter, why)
            return None
        time_ms: int | None = letter.timestamp_ms
        if dead.reason in TIMES_OF_OTHERS:
            time_ms = origins.time_ms(dead)
            if time_ms is None:
                self.result.refuse(letter, "its time of event was in the input record, which is gone")
                return None
        headers = self._headers(letter)
        size = batch_bytes(dead.original._replace(headers=headers))
        if size > self._largest[dead.topic]:
            why = f"with the headers of a replay it is larger than max.message.bytes of {dead.topic}"
            self.result.refuse(letter, why)
            return None
        self.result.old.update([dead.topic] if (time_ms or 0) < self._oldest_ms[dead.topic] else [])
        return _Sending(letter, key, time_ms or 0, headers, size)

    def _refusal(self, letter: Letter) -> str | None:
        dead, config = letter.dead, self._config
        if dead.topic not in self._largest or dead.partition != letter.place.partition:
            return "it does not come from an input of this application"
        if dead.reason == Reason.BAD_TIME.text:
            return "it has no time of event (bad-time): its producer has to send it again"
        if dead.reason == Reason.WRONG_KEY.text:
            return "its key is not its stream's name (wrong-key): its producer has to send it again"
        if (
            dead.reason == Reason.UNKNOWN_STREAM.text
            and config.unknown_streams != "model"
            and letter.stream not in config.streams
        ):
            return f"stream {printable(letter.stream)} is still not among the configured ones"
        return None

    def _headers(self, letter: Letter) -> Sequence[Header]:
        dead, place = letter.dead, letter.place
        attempt = letter.replay.attempt + 1 if letter.replay is not None else 1
        origin = (dead.topic, dead.partition, dead.input_offset)
        replay = Replay(self.topic.name, place.partition, place.offset, *origin, attempt, self._clock.now_ms())
        return [*without_replay(dead.original.headers), *replay.headers()]

    # Sending ----------------------------------------------------------------------------------------------------------

    def sweep(self, transaction: Transaction, partitions: Sequence[int]) -> None:
        """End what is open where it writes to: of one before it, perhaps, that no broker ends any more."""
        names = (self.topic.name, *self._largest)
        still_open = OpenTransactions(self._cluster, self._clock)
        still_open.add(TopicPartition(name, number) for number in partitions for name in names)
        still_open.look()
        if still_open.places:
            sweep(transaction, self._config.replay_transactional_id, still_open.places)

    def begin(self, transaction: Transaction, partitions: Sequence[int]) -> str:
        """Say in each partition that this run begins."""
        name = uuid.uuid4().hex
        transaction.begin()
        headers: dict[int, Sequence[Header]] = {0: [(START, name.encode())]}
        for partition in partitions:
            records = OutputRecords([None], [None], [self._clock.now_ms()], headers)
            transaction.produce(TopicPartition(self.topic.name, partition), records)
        transaction.commit()
        return name

    def send(self, transaction: Transaction, partition: int, batch: Sequence[_Sending]) -> None:
        """One transaction: the records to their inputs, and that they were sent back."""
        transaction.begin()
        for topic in dict.fromkeys(sending.letter.dead.topic for sending in batch):
            rows = [sending for sending in batch if sending.letter.dead.topic == topic]
            records = OutputRecords(
                [row.letter.dead.original.key for row in rows],
                [row.letter.dead.original.value for row in rows],
                [row.timestamp_ms for row in rows],
                {number: row.headers for number, row in enumerate(rows)},
            )
            transaction.produce(TopicPartition(topic, partition), records)
        now_ms, offsets = self._clock.now_ms(), [sending.letter.place.offset for sending in batch]
        marks: dict[int, Sequence[Header]] = {
            number: [(SENT_BACK, str(offset).encode())] for number, offset in enumerate(offsets)
        }
        keys = [sending.key for sending in batch]
        records = OutputRecords(keys, [None] * len(batch), [now_ms] * len(batch), marks)
        transaction.produce(TopicPartition(self.topic.name, partition), records)
        transaction.commit()


def _nothing(done: int, total: int) -> None:
    del done, total


def replay(
    cluster: Cluster,
    config: Config,
    clock: Clock,
    selection: Selection,
    open_transaction: Callable[[str], Transaction],
    *,
    limit: int | None = None,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] = _nothing,
) -> Replayed:
    """Send dead letters back to where they came from, each once.

    Args:
        cluster: Where the topics are.
        config: The application's configuration.
        clock: For the headers.
        selection: Which; those that were sent back before are left out.
        open_transaction: Makes a transactional producer with this id, initialised, so that what another one had left
            open is ended; not asked when there is nothing to send.
        limit: The most to send, oldest first in each partition; None: all.
        dry_run: Only say what would be sent.
        on_progress: Told how many are done, of how many.

    Raises:
        ConfigurationError: There is no such topic, reason or partition.
        FencedError: Another replay of this application has begun.
        TransactionAbortedError: A transaction was given up; those before it stand.
        UnknownOutcomeError: The broker fell silent; a next run knows what was sent.
    """
    run = _Replay(cluster, config, clock, selection, rehearsal=dry_run)
    tables = {number: run.choose(number) for number in selection.of(run.topic.partitions, run.topic.name)}
    chosen = {number: table for number, table in tables.items() if len(table)}
    if not chosen:
        return run.result
    with ExitStack() as stack:
        transaction: Transaction | None = None
        if not dry_run:
            transaction = stack.enter_context(closing(open_transaction(config.replay_transactional_id)))
            run.sweep(transaction, list(chosen))
            name = run.begin(transaction, list(chosen))
            for partition, table in chosen.items():
                run.catch_up(partition, table, name)
        total, done = sum(map(len, chosen.values())), 0
        for partition, table in chosen.items():
            room = None if limit is None else limit - run.result.sent.total()
            for batch, looked_at in _batches(run.sendings(partition, table), room):
                if transaction is not None and batch:
                    run.send(transaction, partition, batch)
                run.result.sent.update((each.letter.dead.reason, each.letter.dead.topic) for each in batch)
                done += looked_at
                on_progress(done, total)
        run.result.left = total - done
    return run.result


def _batches(sendings: Generator[_Sending | None], most: int | None) -> Iterator[tuple[Sequence[_Sending], int]]:
    """What goes into one transaction, and how many were looked at for it; at most so many are sent in all."""
    batch: list[_Sending] = []
    size = looked_at = sent = 0
    with closing(sendings):
        while most is None or sent < most:
            sending = next(sendings, END)
            if isinstance(sending, _Sending):
                batch.append(sending)
                size += sending.size
                sent += 1
            looked_at += sending is not END
            full = len(batch) == BATCH_RECORDS or size >= BATCH_BYTES or looked_at == NEAR_RECORDS
            if full or sending is END or sent == most:
                yield batch, looked_at
                batch, size, looked_at = [], 0, 0
            if sending is END:
                return


def places_of(texts: Sequence[str]) -> frozenset[Place]:
    """Places as `show` and `list` write them: `3:17`.

    Raises:
        ConfigurationError: One is not written so.
    """
    lines, places = [], set()
    for text in texts:
        partition, _, offset = text.partition(":")
        if partition.isdecimal() and offset.isdecimal():
            places.add(Place(int(partition), int(offset)))
        else:
            lines.append(f"{text!r} is no dead letter: write partition:offset, as `areba dlq list` does")
    if lines:
        raise ConfigurationError(lines)
    return frozenset(places)


def time_of(text: str, now_ms: int) -> int:
    """An event time in milliseconds: `2026-01-31`, `2026-01-31T10:00` (UTC where no zone is given), or `90m` ago.

    Raises:
        ConfigurationError: It is none.
    """
    if text and text[-1] in AGO_MS and text[:-1].isdecimal():
        return now_ms - int(text[:-1]) * AGO_MS[text[-1]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        line = f"{text!r} is no time: write 2026-01-31, 2026-01-31T10:00, or 90s, 30m, 2h, 7d for so long ago"
        raise ConfigurationError(line) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
