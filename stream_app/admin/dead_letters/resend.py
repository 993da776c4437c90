"""`areba dlq resend`: send dead letters back to the inputs that they came from, each dead letter once.

A record is sent back with its key, value and headers, to its partition (one of a stream that has moved since, to the
partition where the stream is now). Three things are decided here:

    headers     `dead_letter.RESEND_HEADERS` say which dead letter the record was; they replace those of an earlier
                resend
    timestamp   the record keeps its event time, since that says when something happened, however long the record was
                held up. With the current time a label would have a wrong delay, and in a stream that lags behind the
                wall clock the record would expire all pending examples. As a consequence, an example that is older
                than `join.ttl_ms` is predicted, but no longer learned from. A header of the dead letter has the event
                time, also after retention deleted the input record; a record without a usable event time
                (`bad-time`) is not sent
    once        the transaction that writes the record to its input also writes to the dead letter's partition that it
                was sent back. Either both are written or neither, whenever the tool is killed; the next run reads the
                note, and does not send the dead letter again

The next run has to be sure that it reads all notes. Initialising its transactional id aborts the transaction that an
earlier run left open, and fences a run that still works. Then it writes a record that says that it starts, and reads
until it finds this record: a worker's open transaction can hide later records from readers of committed data, but once
the start record was read, no note before it is hidden.

Cost: partitions with something to send are read twice, and take a byte of memory for each record; each dead letter that
is sent takes two small records. Readers of the inputs wait while a transaction is open: for `BATCH_RECORDS`, some
milliseconds.
"""

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from stream_app.admin.dead_letters.origins import NEAR_RECORDS, InputRecords
from stream_app.admin.dead_letters.record import StoredDeadLetter, read_record
from stream_app.admin.dead_letters.resend_result import ResendResult
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.dead_letters.topic import DeadLettersTopic, UnsentLetters
from stream_app.admin.models import Application
from stream_app.backends.base import TopicPartition, Transaction
from stream_app.backends.held_back import held_back, open_ends
from stream_app.backends.partitioner import partition_of
from stream_app.backends.progress import partitions_of
from stream_app.backends.reading import Row
from stream_app.backends.retention import FOREVER, RETENTION, TIMES_BEFORE, before_max_of, retention_of
from stream_app.errors import ConfigurationError, ErrorCode, StateError, TopicError
from stream_app.lost_markers.sweeps import sweep
from stream_app.record_columns import OutputRecords
from stream_app.records import UNREADABLE_HEADERS, Header, Reason
from stream_app.serialization.dead_letter import (
    SENT_BACK,
    START,
    Resend,
    read_sent_back,
    read_start,
    without_resend,
)
from stream_app.serialization.left_out import batch_bytes
from stream_app.terminal import printable

BATCH_RECORDS = 500
"""Dead letters sent back in one transaction: readers of the inputs wait for its end, and a kill loses no more work."""

_BATCH_BYTES = 8_000_000
"""Size of one transaction: a tenth of a second at 100 MB/s."""

END = object()
"""What `next` returns after the last dead letter."""


class _Sending(NamedTuple):
    """One record, ready to be sent back.

    `key` is the key that the dead letter has, which may have left out a long key; the note that it was sent back gets
    the same key. `partition` is that of the dead letter, unless its stream has moved.
    """

    record: StoredDeadLetter
    key: bytes | None
    event_time_ms: int
    headers: Sequence[Header]
    size: int
    partition: int


class _Resend:
    """One run of `areba dlq resend`."""

    def __init__(self, application: Application, selection: Selection, *, rehearsal: bool) -> None:
        config, cluster, clock, _ = application
        self.topic = DeadLettersTopic(cluster, config)
        self.result = ResendResult(is_rehearsal=rehearsal)
        self._config = config
        self._clock = clock
        self._selection = selection
        self._cluster = cluster
        inputs = config.topics.inputs
        found = cluster.topics(inputs)
        missing = [f"{name}: there is no such topic" for name in inputs if name not in found]
        if missing:
            raise TopicError(missing)
        self._max_bytes = {name: int(topic.settings["max.message.bytes"]) for name, topic in found.items()}
        now_ms = clock.now_ms()
        self._oldest_ms = {
            name: 0 if (kept := retention_of(topic)) == FOREVER else now_ms - kept for name, topic in found.items()
        }
        self._accepted_ms = {name: now_ms - before_max_of(topic) for name, topic in found.items()}

    # Selecting --------------------------------------------------------------------------------------------------------

    def select(self, partition: int) -> UnsentLetters:
        """Return the selected dead letters of a partition that, by what can be read now, were not sent back.

        Raises:
            ConfigurationError: A selected record is not a dead letter.
        """
        unsent = UnsentLetters(self.topic.watermarks(partition)[0])
        named = {known.offset for known in self._selection.record_ids if known.partition == partition}
        for row in self.topic.rows(partition):
            unsent.read_to = row.offset + 1
            if self._note_sent_back(unsent, row):
                continue
            record = read_record(partition, row, self.topic.wire_format)
            if record is not None:
                named.discard(row.offset)
                if self._selection.matches(record):
                    unsent.add(row.offset, record.dead_letter.reason)
        if named:
            where = f"{self.topic.name}[{partition}]"
            raise ConfigurationError([f"{where} offset {offset}: no dead letter here" for offset in sorted(named)])
        return unsent

    def _note_sent_back(self, unsent: UnsentLetters, row: Row) -> bool:
        """Remove the dead letter that a record says was sent back; say whether the record is such a note."""
        offset = read_sent_back(row.headers)
        if offset is None:
            return False
        self.result.before += unsent.remove(offset) is not None
        return True

    def catch_up(self, partition: int, unsent: UnsentLetters, name: str) -> None:
        """Read up to the start record of this run: no open transaction can hide a note before it any more."""
        for row in self.topic.rows(partition, unsent.read_to, to_end=False):
            if read_start(row.headers) == name:
                return
            self._note_sent_back(unsent, row)

    def sendings(self, partition: int, unsent: UnsentLetters) -> Generator[_Sending | None]:
        """Yield the unsent dead letters, oldest first: ready to be sent, or None if one cannot be sent."""
        left = len(unsent)
        with InputRecords(self._cluster, self.topic) as inputs:
            for row in self.topic.rows(partition, unsent.first):
                record = read_record(partition, row, self.topic.wire_format) if row.offset in unsent else None
                if record is not None:
                    yield self._sending(record, inputs)
                    left -= 1
                    if not left:
                        return

    def _sending(self, record: StoredDeadLetter, inputs: InputRecords) -> _Sending | None:
        found = self._prepare(record, inputs)
        if isinstance(found, str):
            self.result.refuse(record, found)
            return None
        topic = record.dead_letter.topic
        self.result.old.update([topic] if found.event_time_ms < self._oldest_ms[topic] else [])
        return found

    def _prepare(self, record: StoredDeadLetter, inputs: InputRecords) -> _Sending | str:
        """Return the record to be sent back, or what prevents it."""
        problem = self._problem(record)
        if problem:
            return problem
        key = record.dead_letter.original.key
        record, problem = inputs.completed(record)
        if problem:
            return problem
        dead_letter = record.dead_letter
        if tuple(dead_letter.original.headers) == UNREADABLE_HEADERS:
            return (
                "the name of one of its headers is not UTF-8, and no client can read the other headers: its producer "
                "has to send it again"
            )
        headers = self._headers(record)
        size = batch_bytes(dead_letter.original._replace(headers=headers))
        refusal = self._refusal(dead_letter.topic, dead_letter.event_time_ms, size)
        if refusal:
            return refusal
        return _Sending(record, key, dead_letter.event_time_ms, headers, size, self._home(record))

    def _home(self, record: StoredDeadLetter) -> int:
        """Return the partition to which a record is sent."""
        if record.dead_letter.reason != Reason.MOVED_STREAM.text:
            return record.record_id.partition
        return partition_of(record.stream.encode(), partitions_of(self._cluster, self._config.topics))

    def _problem(self, record: StoredDeadLetter) -> str | None:
        """Return what prevents a dead letter from being sent back, by its reason and origin; None if nothing does."""
        dead_letter, config = record.dead_letter, self._config
        if dead_letter.topic not in self._max_bytes or dead_letter.partition != record.record_id.partition:
            return "it does not come from an input of this application"
        if dead_letter.event_time_ms <= 0:
            return "it has no event time: its producer has to send it again, with a timestamp in milliseconds"
        if dead_letter.reason == Reason.WRONG_KEY.text:
            return "its key is not its stream's name (wrong-key): its producer has to send it again"
        if (
            dead_letter.reason == Reason.UNKNOWN_STREAM.text
            and config.unknown_streams != "model"
            and record.stream not in config.record_streams
        ):
            return f"stream {printable(record.stream)} is still not configured"
        return None

    def _refusal(self, topic: str, event_time_ms: int, size: int) -> str | None:
        """Return why the broker would not accept a record; None if it does."""
        if size > self._max_bytes[topic]:
            return f"with the headers of a resend it is larger than max.message.bytes of {topic}"
        if event_time_ms < self._accepted_ms[topic]:
            return (
                f"its event time is older than {TIMES_BEFORE} of {topic} accepts: raise that setting, and {RETENTION} "
                "with it"
            )
        return None

    def _headers(self, record: StoredDeadLetter) -> Sequence[Header]:
        """Return the headers of the original, and after them those that say which dead letter it was."""
        dead_letter, (partition, offset) = record.dead_letter, record.record_id
        attempt = record.resend.attempt + 1 if record.resend is not None else 1
        origin = (dead_letter.topic, dead_letter.partition, dead_letter.input_offset)
        resent = Resend(self.topic.name, partition, offset, *origin, attempt, self._clock.now_ms())
        return [*without_resend(dead_letter.original.headers), *resent.headers()]

    # Sending ----------------------------------------------------------------------------------------------------------

    def end_open_transactions(self, transaction: Transaction, partitions: Sequence[int]) -> None:
        """Abort transactions that an earlier run may have left open in the partitions that this run writes to.

        This is needed if the broker has forgotten the transactional id: then initialising the id aborts nothing.
        """
        names = (self.topic.name, *self._max_bytes)
        places = [TopicPartition(name, number) for number in partitions for name in names]
        found = open_ends(self._cluster, places)
        if found:
            sweep(transaction, self._config.resend_transactional_id, found)

    def check_readable(self, partitions: Sequence[int]) -> None:
        """Check that no open transaction of another producer hides the end of the dead letters.

        Raises:
            StateError: A transaction does.
        """
        held = held_back(self._cluster, [TopicPartition(self.topic.name, number) for number in partitions], self._clock)
        if held is not None:
            raise StateError(held, ErrorCode.HELD_BACK)

    def begin(self, transaction: Transaction, partitions: Sequence[int]) -> str:
        """Write a start record to each partition; return the name of this run."""
        name = uuid.uuid4().hex
        transaction.begin()
        headers: dict[int, Sequence[Header]] = {0: [(START, name.encode())]}
        for partition in partitions:
            records = OutputRecords.of([None], [None], [0], headers)
            transaction.produce(TopicPartition(self.topic.name, partition), records)
        transaction.commit()
        return name

    def send(self, transaction: Transaction, partition: int, batch: Sequence[_Sending]) -> None:
        """Write the records to their inputs, and notes that they were sent back, in one transaction."""
        transaction.begin()
        places = [TopicPartition(row.record.dead_letter.topic, row.partition) for row in batch]
        for place in dict.fromkeys(places):
            rows = [row for row, its in zip(batch, places, strict=True) if its == place]
            records = OutputRecords.of(
                [row.record.dead_letter.original.key for row in rows],
                [row.record.dead_letter.original.value for row in rows],
                [row.event_time_ms for row in rows],
                {number: row.headers for number, row in enumerate(rows)},
            )
            transaction.produce(place, records)
        offsets = [sending.record.record_id.offset for sending in batch]
        notes: dict[int, Sequence[Header]] = {
            number: [(SENT_BACK, str(offset).encode())] for number, offset in enumerate(offsets)
        }
        keys = [sending.key for sending in batch]
        records = OutputRecords.of(keys, [None] * len(batch), [0] * len(batch), notes)
        transaction.produce(TopicPartition(self.topic.name, partition), records)
        transaction.commit()


def resend(
    application: Application,
    selection: Selection,
    *,
    limit: int | None = None,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> ResendResult:
    """Send dead letters back to the inputs that they came from, each dead letter once.

    Args:
        application: The application; a transaction is only opened if there is something to send.
        selection: Which dead letters; those that were sent back before are not sent again.
        limit: How many to send at most, oldest first in each partition; None sends all.
        dry_run: Whether to only report what would be sent.
        on_progress: Called with the number of dead letters that are done, and the number in all.

    Raises:
        ConfigurationError: The topic, a selected reason, partition or dead letter does not exist.
        FencedError: Another resend of this application has begun.
        StateError: An open transaction of another producer hides dead letters.
        TransactionAbortedError: A transaction was aborted; those before it are committed.
        UnknownOutcomeError: The broker did not answer in time; the next run finds out what was sent.
    """
    run = _Resend(application, selection, rehearsal=dry_run)
    partitions = selection.partitions_of(run.topic.partitions, run.topic.name)
    unsent = {number: found for number in partitions if len(found := run.select(number))}
    if not unsent:
        return run.result
    with ExitStack() as stack:
        transaction: Transaction | None = None
        if not dry_run:
            transactional_id = application.config.resend_transactional_id
            transaction = stack.enter_context(closing(application.open_transaction(transactional_id)))
            transaction.initialise()  # aborts what an earlier run has left open
            run.end_open_transactions(transaction, list(unsent))
            name = run.begin(transaction, list(unsent))
            run.check_readable(list(unsent))
            for partition, remaining in unsent.items():
                run.catch_up(partition, remaining, name)
        total, done = sum(map(len, unsent.values())), 0
        for partition, remaining in unsent.items():
            room = None if limit is None else limit - run.result.sent.total()
            for batch, examined in _batches(run.sendings(partition, remaining), room):
                if transaction is not None and batch:
                    run.send(transaction, partition, batch)
                letters = (sending.record.dead_letter for sending in batch)
                run.result.sent.update((letter.reason, letter.topic) for letter in letters)
                done += examined
                on_progress(done, total)
        run.result.left = total - done
    return run.result


def _batches(sendings: Generator[_Sending | None], limit: int | None) -> Iterator[tuple[Sequence[_Sending], int]]:
    """Yield the records of each transaction, and the number of dead letters that were examined to find them.

    All transactions together have at most `limit` of them.
    """
    batch: list[_Sending] = []
    size = examined = sent = 0
    with closing(sendings):
        while limit is None or sent < limit:
            sending = next(sendings, END)
            if isinstance(sending, _Sending):
                batch.append(sending)
                size += sending.size
                sent += 1
            examined += sending is not END
            is_full = len(batch) == BATCH_RECORDS or size >= _BATCH_BYTES or examined == NEAR_RECORDS
            if is_full or sending is END or sent == limit:
                yield batch, examined
                batch, size, examined = [], 0, 0
            if sending is END:
                return
