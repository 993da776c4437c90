"""The topics of an application with dead letters, and the operations of `areba dlq` on them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from stream_app.admin.dead_letters.resend import resend
from stream_app.admin.dead_letters.resend_result import ResendResult
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.models import Application
from stream_app.backends import topics
from stream_app.backends.base import TopicPartition, Transaction
from stream_app.backends.clock import SystemClock
from stream_app.backends.following import FollowableCluster
from stream_app.backends.reading import Row, read_rows
from stream_app.backends.retention import FOREVER, TIMES_BEFORE, UNLIMITED_MS
from stream_app.config import Config
from stream_app.record_columns import OutputRecords
from stream_app.records import Example, Header
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import DEAD_LETTER_HEADERS, SENT_BACK
from stream_app.serialization.left_out import Fields, fitted
from tests.contract.backends import START_MS, Backend, wait_for_markers

EVERYTHING = Selection()

TRACE: Header = ("traceparent", b"00-1")


class Died(Exception):  # noqa: N818  (it simulates SIGKILL)
    """The tool was killed."""


class Dying:
    """A transaction whose owner dies at its n-th commit, before or after it."""

    def __init__(self, transaction: Transaction, commits: int, *, dies_after: bool) -> None:
        self._transaction = transaction
        self._left = commits
        self._dies_after = dies_after
        self.initialise, self.begin = transaction.initialise, transaction.begin
        self.produce, self.send_offsets = transaction.produce, transaction.send_offsets
        self.flush, self.abort, self.start = transaction.flush, transaction.abort, transaction.start
        self.serve = transaction.serve

    def commit(self) -> None:
        """Commit; the last commit kills the owner."""
        self._left -= 1
        if not self._left and not self._dies_after:
            raise Died
        self._transaction.commit()
        if not self._left:
            raise Died

    def close(self) -> None:
        """Do nothing: a killed process closes nothing."""


class Letter(NamedTuple):
    """A dead letter to be written: its reason, and the original record."""

    reason: str
    value: bytes | None
    offset: int = 0
    topic: str = "examples"
    event_time_ms: int = START_MS
    key: bytes | None = b"pumps"
    headers: Sequence[Header] = ()
    partition: int = 0
    most_bytes: int = 2**31 - 1


class DeadLetterTopics:
    """An application's topics, and the operations of the tool on them."""

    def __init__(
        self, backend: Backend, prefix: str, partitions: int, retention_ms: int = -1, before_max_ms: int = UNLIMITED_MS
    ) -> None:
        self.backend = backend
        self.config = Config.model_validate(
            {
                "application": {"id": f"{prefix}app"},
                "kafka": {"topic_prefix": prefix},
                "streams": {"pumps": {"features": 2}},
            }
        )
        self.names = self.config.topics
        plan = topics.plan(self.names, partitions, retention_ms=FOREVER)
        # the records of these tests are old, and retention would delete them
        kept = {"retention.ms": str(retention_ms)}
        self.cluster.create([replace(topic, settings={**topic.settings, **kept}) for topic in plan[2:]], 1)
        kept |= {TIMES_BEFORE: str(before_max_ms)}
        self.cluster.create([replace(topic, settings={**topic.settings, **kept}) for topic in plan[:2]], 1)

    @property
    def cluster(self) -> FollowableCluster:
        """The client for administration."""
        return self.backend.cluster()

    def write(self, letters: Sequence[Letter], transaction: Transaction | None = None, partition: int = 0) -> None:
        """Write dead letters as a worker does; in a transaction that stays open, if one is given."""
        written = [
            fitted(Fields(letter.key, letter.value, letter.headers), self._headers(letter), letter.most_bytes)
            for letter in letters
        ]
        records = OutputRecords.of(
            [letter.key for letter in written],
            [letter.value for letter in written],
            [0] * len(letters),
            {row: letter.headers for row, letter in enumerate(written)},
        )
        place = TopicPartition(self.names.dead_letters, partition)
        if transaction is not None:
            transaction.begin()
            transaction.produce(place, records)
            return
        transaction = self.backend.transaction(f"{self.config.application.id}-w")
        transaction.begin()
        transaction.produce(place, records)
        transaction.commit()
        transaction.close()
        wait_for_markers(self.cluster, place)

    def _headers(self, letter: Letter) -> list[Header]:
        topic = getattr(self.names, letter.topic, letter.topic)
        texts = (
            topic,
            str(letter.partition),
            str(letter.offset),
            "areba.x",
            "the detail",
            letter.reason,
            str(letter.event_time_ms),
        )
        return [(name, text.encode()) for name, text in zip(DEAD_LETTER_HEADERS, texts, strict=True)]

    def resend(
        self,
        selection: Selection = EVERYTHING,
        dies: Callable[[Transaction], Transaction] = lambda transaction: transaction,
        *,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ResendResult:
        """Send dead letters back, as `areba dlq resend` does."""

        def open_transaction(transactional_id: str) -> Transaction:
            assert transactional_id == self.config.resend_transactional_id
            return dies(self.backend.transaction(transactional_id))

        application = Application(self.config, self.cluster, SystemClock(), open_transaction)
        return resend(application, selection, limit=limit, dry_run=dry_run)

    def rows(self, topic: str, partition: int = 0) -> list[Row]:
        """Return all committed records of a partition."""
        wait_for_markers(self.cluster, TopicPartition(topic, partition))
        reader = self.cluster.reader(TopicPartition(topic, partition))
        try:
            return list(read_rows(reader, topic))
        finally:
            reader.close()

    def marks(self) -> list[int]:
        """Return the offsets of the dead letters that are marked as sent back."""
        rows = self.rows(self.names.dead_letters)
        return [int(row.headers[-1][1] or b"") for row in rows if row.headers and row.headers[-1][0] == SENT_BACK]


def encoded(count: int) -> list[bytes | None]:
    """Return the values of this number of examples."""
    return [codec.encode(Example("pumps", str(number), [0.5, number])) for number in range(count)]


def make_letters(count: int) -> list[Letter]:
    """Return a dead letter for each of this number of examples."""
    return [
        Letter("unknown-stream", value, offset, event_time_ms=START_MS + offset)
        for offset, value in enumerate(encoded(count))
    ]
