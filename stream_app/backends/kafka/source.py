"""Inputs, read as a member of a consumer group."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream_app.backends.base import Fetched, TopicPartition, given_partitions
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.errors import (
    AUTO_OFFSET_RESET,
    NO_COORDINATOR_CODES,
    WRONG_STATE,
    kafka_error,
)
from stream_app.backends.kafka.librdkafka.consumer import ColumnConsumer
from stream_app.backends.kafka.librdkafka.messages import Fetch, FetchError
from stream_app.backends.kafka.messages import raise_read_error
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.requests import reaches_broker
from stream_app.backends.kafka.settings import (
    CONSUMER_GUARANTEES,
    CONSUMER_TUNING,
    admin_settings,
    callbacks,
    client_settings,
    create_client,
    merged_settings,
)
from stream_app.errors import FencedError, OffsetGoneError, OutageError

_SEEK_ATTEMPTS = 20
"""A partition accepts a seek once its fetcher has started, some milliseconds after the partition was assigned."""

_NO_PARTITION = 2**31 - 1
"""A partition of which no transaction has ever sent an offset. The client waits for the end of a transaction that holds
the offset it asks for, and a transaction that an outage has left hanging ends only when the worker works again."""


class KafkaSource:
    """`base.Source` as a member of a consumer group.

    Records that the client fetched before `start_at` are never returned: `seek` makes the client discard them, and a
    batch during which the group was rebalanced is discarded as a whole and read again. `outages` is informed about lost
    brokers; the clients of one worker share it.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        settings: Mapping[str, str] | None = None,
        outages: Outages | None = None,
    ) -> None:
        self._outages = outages or Outages()
        self._group_id = group_id
        layers = (CONSUMER_TUNING, settings or {}, CONSUMER_GUARANTEES, {"group.id": group_id})
        merged = merged_settings(bootstrap_servers, *layers)
        self._create_consumer: Callable[[], ColumnConsumer] = lambda: create_client(
            lambda chosen: ColumnConsumer(chosen, callbacks(self._outages)), merged
        )
        self._consumer = self._create_consumer()
        for_admin = client_settings(bootstrap_servers, self._outages, admin_settings(settings or {}))
        self._create_admin: Callable[[], AdminClient] = lambda: create_client(AdminClient, for_admin)
        self._topics: Sequence[str] = ()
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._next: dict[TopicPartition, int] = {}  # of each partition that is read: where the next `poll` continues
        self._paused: set[TopicPartition] = set()
        self._was_rebalanced = False  # since the last `poll` returned
        self._is_assigning = False
        self._probed_s = self._compared_s = 0.0
        self._rejoined_s = -timeouts.REJOIN_INTERVAL_S
        self._join: Callable[[], None] = lambda: None

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group; see `base.Source.subscribe`."""

        def assigned(found: list[TopicPartition]) -> None:
            self._start_assignment(given_partitions(found, topics, partitions))
            self._is_assigning = True  # `start_at` only stores the offsets; the `_assign` below passes them on
            try:
                on_assign(sorted(self._assigned))
            finally:
                self._is_assigning = False
                self._assign()

        def revoked(_: list[TopicPartition]) -> None:
            try:
                on_revoke(sorted(self._assigned))
            finally:
                self._start_assignment(())
                self._consumer.unassign()

        self._topics = topics
        self._join = lambda: self._consumer.subscribe(topics, assigned, revoked)
        self._join()

    def _start_assignment(self, assigned: Iterable[TopicPartition]) -> None:
        self._assigned = frozenset(assigned)
        self._next = {}
        self._paused = set()
        self._was_rebalanced = True

    def _assign(self) -> None:
        """Tell the client which partitions are assigned, where each is read, and which are not read for now."""
        self._consumer.assign({p: self._next.get(p, 0) for p in self._assigned})
        active = set(self._active())
        self._consumer.pause(self._assigned - active)
        self._consumer.resume(active)  # the client keeps a pause across assignments

    def _active(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that is read and not paused."""
        return {p: offset for p, offset in self._next.items() if p not in self._paused}

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these assigned partitions from these offsets; see `base.Source.start_at`.

        Raises:
            ValueError: A partition is not assigned.
        """
        strangers = sorted(set(offsets) - self._assigned)
        if strangers:
            raise ValueError(f"not assigned: {strangers}")
        self._next.update(offsets)
        self._paused.difference_update(offsets)
        if not self._is_assigning:
            self._seek(offsets)

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            self._seek_patiently(offsets)
        except KafkaException:
            self._assign()  # a fetcher that stopped at an error accepts no seek, but an assignment restarts it
        else:
            self._consumer.resume([p for p in offsets if p not in self._paused])

    def _seek_patiently(self, offsets: Mapping[TopicPartition, int]) -> None:
        for attempt in range(_SEEK_ATTEMPTS):
            try:
                self._consumer.seek(offsets)
            except KafkaException as problem:
                if kafka_error(problem).code() != WRONG_STATE or attempt == _SEEK_ATTEMPTS - 1:
                    raise
                time.sleep(timeouts.RETRY_PAUSE_S)
            else:
                return

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions until `start_at` is called for them."""
        stopped = [p for p in partitions if self._next.pop(p, None) is not None]
        self._paused.difference_update(stopped)
        if not self._is_assigning:
            self._consumer.pause(stopped)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more of these partitions for now; records not yet returned are fetched again after `resume`."""
        chosen = [p for p in partitions if p in self._next]
        self._paused.update(chosen)
        if not self._is_assigning:
            self._consumer.pause(chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue after the last record that `poll` returned of these partitions."""
        chosen = [p for p in partitions if p in self._paused]
        self._paused.difference_update(chosen)
        if chosen and not self._is_assigning:
            self._seek({p: self._next[p] for p in chosen})

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return at most `max_records` records; see `base.Source.poll`."""
        try:
            fetched, errors = self._consumer.consume(max_records, timeout_s)
            fatal = self._consumer.fatal_error()
        except KafkaException as problem:
            fatal = self._consumer.fatal_error() or kafka_error(problem)
        if fatal is not None:
            self._join_again(fatal)
            return ()
        if self._outages.is_suspected or self._outages.since_answer_s() > timeouts.SILENCE_S:
            self._probe()
        if self._was_rebalanced:  # the batch may mix messages from before and after the rebalance: read it again
            self._was_rebalanced = False
            if fetched or errors:
                self._seek(self._active())
            return ()
        try:
            again = self._raise_read_errors(errors)
        except OffsetGoneError as error:  # records of other partitions came in the same batch: read them again
            self._seek({p: offset for p, offset in self._active().items() if p != error.partition})
            raise
        read = self._next.keys() - again  # others: from before `stop_reading`, or what the next poll returns again
        return [self._advance(one) for one in fetched if one.partition in read]

    def _join_again(self, problem: KafkaError) -> None:
        """Join the group with a new client, since the former one has ended with a fatal error.

        A broker refuses a member whose instance has a newer member. librdkafka 2.16 also causes this itself: once its
        session has timed out, it may send one more heartbeat, without its member id. A rival of the same name, which
        fences our transactions, too, causes it again at once.

        Raises:
            FencedError: This happened before within `timeouts.REJOIN_INTERVAL_S`, or the error is another one.
        """
        now_s = time.monotonic()
        if problem.code() != KafkaError.FENCED_INSTANCE_ID or now_s < self._rejoined_s + timeouts.REJOIN_INTERVAL_S:
            raise FencedError(f"consumer: {problem.str()} ({problem.name()})")
        self._rejoined_s = now_s
        with contextlib.suppress(KafkaException):  # the same error once more
            self._consumer.close()
        self._consumer = self._create_consumer()
        self._join()

    def _advance(self, fetch: Fetch) -> Fetched:
        """Note how far a partition was read."""
        after_records = int(fetch.records.offsets[-1]) + 1 if len(fetch.records) else fetch.end
        position = self._next[fetch.partition] = max(after_records, fetch.end)
        return Fetched(fetch.partition, fetch.records, at_end=fetch.end >= after_records, position=position)

    def _raise_read_errors(self, errors: Sequence[FetchError]) -> set[TopicPartition]:
        """Raise or log each error, except that an offset is gone where nobody reads any more.

        Returns:
            The partitions that are read again from where the last poll ended.
        """
        again = set()
        for partition, offset, error in errors:
            if error.code() == AUTO_OFFSET_RESET and offset < self._next.get(partition, offset + 1):
                # The answer came after a seek, which it has undone: the client does not read this partition any more.
                self._seek({p: next_ for p, next_ in self._active().items() if p == partition})
                again.add(partition)
                continue
            raise_read_error(partition, error, self._next.get(partition, offset), self._group_id)
        return again

    def _probe(self) -> None:
        """Find out whether a broker answers, at most every `timeouts.PROBE_INTERVAL_S`.

        An outage lasts until the group's coordinator answers, too: a transaction cannot send its offsets before that.

        Raises:
            OutageError: A new client reaches a broker, and the client of this member does not find it again.
        """
        now_s = time.monotonic()
        if now_s - self._probed_s < timeouts.PROBE_INTERVAL_S:
            return
        self._probed_s = now_s
        is_lost = False
        if min(self._outages.down_s(), now_s - self._compared_s) > timeouts.LOST_CLIENT_S:
            self._compared_s = now_s
            is_lost = reaches_broker(self._create_admin())
        if self._consumer.reaches_broker(timeouts.PROBE_S):
            if not self._outages.is_suspected or not self._topics or self._finds_own_group():
                self._outages.end()
            return
        self._outages.confirm()
        if is_lost:
            raise OutageError("this worker's Kafka client cannot reconnect to a broker that a new client reaches")

    def _finds_own_group(self) -> bool:
        place = min(self._assigned, default=TopicPartition(self._topics[0], 0))
        return self.finds_group(place, timeouts.PROBE_S)

    def finds_group(self, partition: TopicPartition, timeout_s: float) -> bool:
        """Wait until the coordinator of the group answers; see `base.Source.finds_group`."""
        deadline = time.monotonic() + timeout_s
        never_committed = partition._replace(partition=_NO_PARTITION)
        while True:
            try:
                self._consumer.committed([never_committed], timeouts.COORDINATOR_ATTEMPT_S)
            except KafkaException as problem:
                code = kafka_error(problem).code()  # below 0: of the client itself
                if code >= 0 and code not in NO_COORDINATOR_CODES:
                    return True  # the coordinator has answered, although not with an offset
            else:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(10 * timeouts.RETRY_PAUSE_S)

    def known_end(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as the last fetch saw it, without a request; None: there was no fetch yet."""
        end = self._consumer.known_end(partition)
        return end if end >= 0 else None

    def group_metadata(self) -> object:
        """Return the group's generation and our member id, as the client encodes them."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        """Leave the group; `on_revoke` is called first."""
        self._consumer.close()
