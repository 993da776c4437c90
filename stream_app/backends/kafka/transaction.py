"""Outputs and offsets, written in transactions."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, NoReturn

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from stream_app import log_lines
from stream_app.arrays import Longs
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.blocking_calls import BlockingCallThread
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.errors import (
    DENIED_CODES,
    FENCED_CODES,
    GROUP_CHANGED_CODES,
    REFUSED_CODES,
    TIMED_OUT,
    error_text,
    kafka_error,
    refusal_text,
)
from stream_app.backends.kafka.librdkafka.group_metadata import group_id_of
from stream_app.backends.kafka.librdkafka.producer import ColumnProducer
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.settings import (
    TRANSACTION_GUARANTEES,
    TRANSACTION_TUNING,
    callbacks,
    create_client,
    merged_settings,
)
from stream_app.errors import (
    ConfigurationError,
    FencedError,
    RecordTooLargeError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from stream_app.record_columns import OutputRecords

LOGGER = logging.getLogger("areba.kafka")

MAX_BLOCKED_CLIENTS = 4
"""Clients that were replaced while one of their calls blocks. Each has threads and memory; with more of them the
process restarts."""


class _Written(NamedTuple):
    """Offsets of delivered records: as `ColumnProducer.produce` fills them, and the caller's list."""

    found: Longs
    offsets: list[int]


def _destroy(producer: ColumnProducer, written: list[_Written]) -> None:
    """Release a client, and only then the memory that it may write to."""
    producer.destroy()
    written.clear()


class KafkaTransaction:
    """`base.Transaction` as a transactional producer.

    A client that fails, or does not return in time, is replaced by a new one. Where the old client would wait for its
    timeouts, or forever, `init_transactions` of the new client ends the transaction (KIP-98: the coordinator aborts
    it, or completes the commit that it had begun) and fences everything that the old client still has in flight. The
    logs say whether the transaction was committed.

    librdkafka has no new epoch for each transaction (KIP-890, part 2), so a request that is late could take part in the
    next transaction: the client sends it again if its connection broke, and the first request may still come. So after
    a transaction during which a connection ended, the next transaction has a new client, and with it a higher epoch:
    the broker then refuses what is late. Otherwise the client stays: `init_transactions` would fence a newer process.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        settings: Mapping[str, str] | None = None,
        outages: Outages | None = None,
        timeout_s: float = timeouts.TRANSACTION_S,
    ) -> None:
        """Create the client.

        Args:
            bootstrap_servers: Addresses of brokers, separated by commas.
            transactional_id: Stays the same over restarts of this instance; no other instance uses it.
            settings: Further settings of librdkafka.
            outages: Is informed about lost brokers; clients of one worker share it.
            timeout_s: How long a call may wait for a broker before the transaction is given up.
        """
        self._id = transactional_id
        self._outages = outages or Outages()
        self._timeout_s = timeout_s
        names = {"transactional.id": transactional_id}
        layers = (TRANSACTION_TUNING, settings or {}, TRANSACTION_GUARANTEES, names)
        merged = merged_settings(bootstrap_servers, *layers)
        self._create_producer: Callable[[], ColumnProducer] = lambda: create_client(
            lambda settings: ColumnProducer(settings, callbacks(self._outages)), merged
        )
        self._producer = self._create_producer()
        self._thread = BlockingCallThread()
        self._work_thread: BlockingCallThread | None = None  # created when `start` is called first
        self._work: Future[bool] | None = None  # what was started last
        self._blocked_threads: list[BlockingCallThread] = []  # of clients that were replaced
        self._create_cluster: Callable[[], KafkaCluster] = lambda: KafkaCluster(bootstrap_servers, settings)
        self._cluster: KafkaCluster | None = None  # asked whether a broker answers; created when first needed
        self._is_initialised = False
        self._is_retired = False  # the next transaction needs a new client
        self._is_open = False
        self._is_closed = False
        self._written: list[_Written] = []  # by this transaction; the client has the addresses of the arrays
        self._begun_s = 0.0
        self._closed_connections = 0  # of the client, when this transaction began
        self._late: KafkaException | None = None  # a fatal error that came while no transaction was open
        self._group_id = ""  # whose offsets were sent last
        self._fenced_text = ""  # not empty once a newer producer has our id; nothing reverses that

    def initialise(self) -> None:
        """Fence older producers of this id and end what they left open; see `base.Transaction.initialise`."""
        if self._is_retired:
            self._renew_client("the client was retired")
        if self._is_initialised:
            return
        self._call("init_transactions", self._producer.init_transactions, timeouts.INITIALISE_S)
        self._is_initialised = True

    def begin(self) -> None:
        """Open a transaction; initialise the client first if that is not done. Raises as `commit` does."""
        self.initialise()
        self._begun_s = time.monotonic()
        self._closed_connections = self._producer.closed_connections
        try:
            self.serve()
            late, self._late = self._late, None
            if late is not None:
                raise late
            self._producer.begin_transaction()
        except KafkaException as problem:
            self._raise_for("begin", kafka_error(problem))
        self._is_open = True

    def serve(self) -> None:
        """Hand over what the client reports; a fatal error is kept for the next transaction, see `_call`."""
        try:
            self._producer.poll(0)
        except KafkaException as fatal:
            self._late = fatal

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Queue the records; see `base.Transaction.produce`. `offsets` is filled until `commit` returns."""
        written = None
        if offsets is not None:
            written = np.zeros(1 + len(records), np.int64)
            self._written.append(_Written(written, offsets))
        row = 0
        try:
            while (row := self._producer.produce(partition, records, row, written)) < len(records):
                self._wait_for_queue_room()
        except KafkaException as problem:
            self._raise_for(f"produce to {partition.topic}[{partition.partition}]", kafka_error(problem))

    def _wait_for_queue_room(self) -> None:
        deadline = time.monotonic() + timeouts.QUEUE_ROOM_S
        before = len(self._producer)
        while len(self._producer) >= before:
            self._producer.poll(timeouts.RETRY_PAUSE_S)
            if time.monotonic() > deadline:
                self._replace_client(f"the send queue stayed full for {timeouts.QUEUE_ROOM_S:.0f} s")

    def flush(self) -> None:
        """Wait until the broker has all records. Raises as `commit` does."""
        self._call("flush", self._flush)
        for written, offsets in self._written:  # delivery reports of one partition come in the order of its records
            offsets.extend(written[1 : 1 + written[0]].tolist())
        self._written = []

    def _flush(self, timeout_s: float) -> None:
        if self._producer.flush(timeout_s):
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "records are in flight", retriable=True))

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: object) -> None:
        """Make the group's offsets part of the transaction. Raises as `commit` does."""
        if not isinstance(group, bytes):
            raise TypeError("group metadata must come from a KafkaSource or a KafkaCluster")
        self._group_id = group_id_of(group)
        self._call(
            "send offsets",
            lambda timeout_s: self._run_in_thread(
                lambda: self._producer.send_offsets(offsets, group, timeout_s), timeout_s
            ),
        )

    def commit(self) -> None:
        """Commit once all records are written; see `base.Transaction.commit`."""
        if self._written:
            self.flush()
        self._call("commit", self._producer.commit_transaction)
        self._is_open = False
        self._outages.end()
        self._retire_if_disconnected()

    def _retire_if_disconnected(self) -> None:
        """Let the next transaction have a new client if a connection ended during this transaction."""
        self._is_retired = self._producer.closed_connections != self._closed_connections

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        """Start work in a thread; see `base.Transaction.start`. Its calls are bounded, as all calls of this class."""
        self._work_thread = self._work_thread or BlockingCallThread()
        self._work = self._work_thread.start(work)
        return self._work.result

    def abort(self) -> None:
        """Abort the transaction if one is open; see `base.Transaction.abort`."""
        if self._is_open:
            with contextlib.suppress(TransactionAbortedError):  # replacing the client aborts the transaction as well
                self._call("abort", self._producer.abort_transaction)
                self._retire_if_disconnected()
            self._is_open = False
        self._written = []

    def close(self) -> None:
        """Release the client; abort an open transaction if the broker answers in time. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._work is not None and self._work_thread is not None:
            self._work.exception()  # waits for the end
            self._work_thread.close()
        try:
            if self._is_open:
                self._is_open = False
                self._producer.abort_transaction(timeouts.CLOSE_S)
        except KafkaException as problem:
            log_lines.TRANSACTION_LEFT_OPEN.log(LOGGER, transactional_id=self._id, problem=error_text(problem))
        released = self._release()
        with contextlib.suppress(TimeoutError):  # a call of the thread blocks; the end of the process ends it
            released.result(timeout=timeouts.CLOSE_S)

    def _release(self) -> Future[None]:
        """Release the client in its thread, once no call of that thread uses the client any more."""
        producer, written, self._written = self._producer, self._written, []
        released = self._thread.start(lambda: _destroy(producer, written))
        self._thread.close()
        return released

    def _run_in_thread(self, call: Callable[[], None], timeout_s: float) -> None:
        """Make a call that ignores its timeout, and stop waiting for it after the timeout, or once the call is lost.

        A call is lost where the coordinator of the group was away when the client asked for it: the client asks three
        times within 5 ms (`retry.backoff.ms`), and again only when a connection breaks (`coord_req_handle_...` in
        rdkafka_coord.c). Another client then reaches the brokers, while this call waits.

        Raises:
            KafkaException: What the call raised, or (code `_TIMED_OUT`) the call did not return in time.
        """
        future = self._thread.start(call)
        begun_s = answered_s = time.monotonic()
        while True:
            try:
                future.result(timeout=timeouts.PROBE_INTERVAL_S)
            except TimeoutError:
                self._producer.poll(0)  # the client delivers pending errors now
                now_s = time.monotonic()
                if now_s - begun_s < timeouts.LOST_CALL_S or not self._reaches_broker():
                    answered_s = now_s
                if now_s - answered_s > timeouts.LOST_CALL_S or now_s - begun_s > max(timeout_s, self._timeout_s):
                    raise KafkaException(KafkaError(TIMED_OUT, "the client does not return")) from None
            else:
                return

    def _call(self, what: str, request: Callable[[float], Any], timeout_s: float | None = None) -> None:
        """Repeat a request while its error is retriable and the timeout has not passed; raise the last error."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                request(min(timeouts.TRANSACTION_ATTEMPT_S, timeout_s))
            except KafkaException as problem:
                error = kafka_error(problem)
                if not error.retriable() or time.monotonic() > deadline:
                    self._raise_for(what, error)
                LOGGER.debug("%s: %s; trying again", what, error.str())
                try:
                    self._producer.poll(timeouts.RETRY_PAUSE_S)  # the client delivers pending errors now
                except KafkaException as fatal:  # a fatal error is raised by `poll`, and not passed to `error_cb`
                    self._raise_for(what, kafka_error(fatal))
            else:
                return

    def _raise_for(self, what: str, error: KafkaError) -> NoReturn:
        """Raise what follows from this error; replace the client first where the client may be the cause.

        The broker gives the same answer to a transaction that was open for too long and to a producer that a newer one
        has fenced. So fencing is not assumed where the transaction was open for at least `timeout_s`.
        """
        text = f"transaction of {self._id}: {what}: {error.str()} ({error.name()})"
        is_refused = error.code() in (DENIED_CODES if self._is_open else REFUSED_CODES)
        if is_refused:
            resources = {
                KafkaError.TOPIC_AUTHORIZATION_FAILED: what,
                KafkaError.GROUP_AUTHORIZATION_FAILED: f"group {self._group_id}",
            }
            resource = resources.get(error.code(), f"transactional id {self._id}")
            raise ConfigurationError(refusal_text(error, f"transaction of {self._id}: {what}", resource))
        took_too_long = self._is_open and time.monotonic() - self._begun_s >= self._timeout_s
        if self._fenced_text or (error.code() in FENCED_CODES and not took_too_long):
            self._fenced_text = self._fenced_text or text
            raise FencedError(self._fenced_text)
        if not self._is_initialised:
            self._check_for_outage(text)
            raise UnknownOutcomeError(text)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self.abort()
            raise RecordTooLargeError(text)
        if error.code() in GROUP_CHANGED_CODES:  # the group was rebalanced; the client itself is in order
            self.abort()
            raise TransactionAbortedError(text)
        self._replace_client(text)

    def _replace_client(self, reason: str) -> NoReturn:
        """Replace the client by a new one.

        Raises:
            TransactionAbortedError: The client was replaced; initialising the new one ends the transaction.
            UnknownOutcomeError: Calls of too many replaced clients still block.
        """
        self._check_for_outage(reason)
        self._renew_client(reason)
        raise TransactionAbortedError(reason)

    def _renew_client(self, reason: str) -> None:
        """Put a new client in the place of the present client; `initialise` gives it a higher epoch.

        Raises:
            UnknownOutcomeError: Calls of too many replaced clients still block.
        """
        self._release()
        self._blocked_threads = [thread for thread in (*self._blocked_threads, self._thread) if thread.is_running]
        self._is_open = self._is_initialised = self._is_retired = False
        if len(self._blocked_threads) > MAX_BLOCKED_CLIENTS:
            raise UnknownOutcomeError(
                f"{reason}; {len(self._blocked_threads)} Kafka clients that were replaced still block"
            )
        self._producer, self._thread, self._late = self._create_producer(), BlockingCallThread(), None

    def _check_for_outage(self, reason: str) -> None:
        """Report an outage if no broker answers."""
        if not self._reaches_broker():
            self._outages.suspect(reason)
            self._outages.confirm()

    def _reaches_broker(self) -> bool:
        """Say whether a broker answers another client."""
        self._cluster = self._cluster or self._create_cluster()
        return self._cluster.broker_count(timeouts.PROBE_INTERVAL_S) > 0
