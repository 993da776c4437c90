"""Outputs and offsets, written in transactions."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.broker import TRANSACTION_TIMEOUT_S, EmbeddedBroker
from stream_app.backends.memory.groups import GroupMetadata
from stream_app.backends.memory.log import LogTransaction, TransactionState
from stream_app.errors import FencedError, TransactionAbortedError
from stream_app.record_columns import OutputRecords


class EmbeddedTransaction:
    """`base.Transaction` over an `EmbeddedBroker`.

    The broker aborts a transaction that is open for longer than `timeout_s`.
    """

    def __init__(self, broker: EmbeddedBroker, transactional_id: str, timeout_s: float = TRANSACTION_TIMEOUT_S) -> None:
        self._broker = broker
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._epoch = -1
        self._open: LogTransaction | None = None

    def initialise(self) -> None:
        """Fence older producers of this id and abort what they left open; the second call does nothing."""
        if self._epoch < 0:
            self._epoch = self._broker.initialise(self._id)

    def begin(self) -> None:
        """Open a transaction.

        Raises:
            FencedError: A newer producer has our id.
        """
        self._broker.check_epoch(self._id, self._epoch)
        self._open = self._broker.begin(self._id, self._timeout_s)

    @contextmanager
    def _current(self) -> Iterator[LogTransaction]:
        """Yield the open transaction, while holding the broker's lock.

        Raises:
            FencedError: A newer producer has our id.
        """
        with self._broker.changed:
            self._broker.check_epoch(self._id, self._epoch)
            if self._open is None:
                raise AssertionError("no transaction is open")
            yield self._open

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Write the records; see `base.Transaction.produce`. `offsets` is filled at once.

        Raises:
            TransactionAbortedError: A record is too large or too old for its topic; the transaction is aborted.
        """
        with self._current() as transaction:
            headers = records.headers
            rows = enumerate(zip(records.keys, records.values, records.timestamps.tolist(), strict=True))
            named = ((key, value, timestamp, headers.get(row, ())) for row, (key, value, timestamp) in rows)
            try:
                written = self._broker.append(partition, named, transaction)
            except TransactionAbortedError:
                self.abort()
                raise
            if offsets is not None:
                offsets.extend(written)

    def serve(self) -> None:
        """Do nothing: this client reports nothing."""

    def flush(self) -> None:
        """Do nothing: `produce` writes at once."""

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: object) -> None:
        """Make the group's offsets part of the transaction.

        Raises:
            TransactionAbortedError: The group has another generation by now; the transaction is aborted.
            FencedError: A newer producer has our id.
        """
        if not isinstance(group, GroupMetadata):
            raise TypeError("group metadata must come from an EmbeddedSource or an EmbeddedCluster")
        with self._current() as transaction:
            problem = self._broker.add_offsets(transaction, offsets, group)
            if problem:
                self.abort()
                raise TransactionAbortedError(f"transaction of {self._id}: {problem}")

    def commit(self) -> None:
        """Commit.

        Raises:
            FencedError: A newer producer has our id.
        """
        with self._current():
            self._broker.end(self._id, TransactionState.COMMITTED)
            self._open = None

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        """Do the work at once; see `base.Transaction.start`."""
        done: Future[bool] = Future()
        try:
            done.set_result(work())
        except Exception as problem:  # noqa: BLE001  (raised where the caller asks for the result)
            done.set_exception(problem)
        return done.result

    def abort(self) -> None:
        """Abort the transaction if one is open.

        Raises:
            FencedError: A newer producer has our id.
        """
        if self._open is not None:
            with self._current():
                self._broker.end(self._id, TransactionState.ABORTED)
                self._open = None

    def close(self) -> None:
        """Abort an open transaction, unless a newer producer has fenced this one."""
        try:
            self.abort()
        except FencedError:
            self._open = None
