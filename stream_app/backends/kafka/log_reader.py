"""Partitions read from any offset without a group: one partition, or many that are followed."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from stream_app.backends.base import Fetched, TopicPartition, Watermarks
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.blocking_calls import start_call
from stream_app.backends.kafka.errors import AUTO_OFFSET_RESET, PARTITION_EOF, REFUSED_CODES, refusal_text
from stream_app.backends.kafka.messages import NO_RECORDS, by_partition, columns, drain, raise_read_error
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.requests import query_watermarks, reaches_broker
from stream_app.backends.kafka.settings import (
    CONSUMER_GUARANTEES,
    CONSUMER_TUNING,
    READER_GROUP,
    client_settings,
    create_client,
)
from stream_app.errors import UnknownOutcomeError

_SILENT_S = 1.0
"""Time without any answer after which a reader asks whether it may see its partition."""

_FOLLOWER_TUNING: Mapping[str, object] = MappingProxyType(
    {
        "fetch.wait.max.ms": 250,  # people look at the result: a hundred requests a second would only slow workers down
        "queued.max.messages.kbytes": 16_384,
    }
)


_MAX_IDLE = 2
"""Clients that wait for the next reader."""

_MAX_IDLE_S = 30.0
"""A client that has waited longer is closed: nobody has served it, and its credentials may have expired."""


class _Idle(NamedTuple):
    """A client that waits for the next reader since a time, by the monotonic clock."""

    client: Consumer
    committed: bool
    since_s: float


class ReadingClients:
    """The clients of a cluster's log readers, which one reader takes over from another.

    A new client asks six questions, one after the other, before it has a first record: on a network with a round trip
    of 30 ms, that takes 0.2 s.

    Args:
        bootstrap_servers: Addresses of brokers, separated by commas.
        settings: Further settings of librdkafka.
        group_id: A group that the user may describe; readers do not join it.
        outages: Is informed about the errors of the clients.
    """

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str], group_id: str, outages: Outages) -> None:
        self.group_id = group_id
        self._bootstrap_servers = bootstrap_servers
        self._settings = settings
        self._outages = outages
        self._idle: list[_Idle] = []
        self._lock = Lock()  # readers in several threads share the clients

    def take(self, *, committed: bool) -> Consumer:
        """Return a client without a partition; see `KafkaLogReader` for `committed`."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            if idle.committed == committed and time.monotonic() < idle.since_s + _MAX_IDLE_S:
                return idle.client
            idle.client.close()
        own = {"group.id": self.group_id} | ({} if committed else {"isolation.level": "read_uncommitted"})
        layers = (CONSUMER_TUNING, self._settings, CONSUMER_GUARANTEES, own)
        return create_client(Consumer, client_settings(self._bootstrap_servers, self._outages, *layers))

    def give_back(self, client: Consumer, *, committed: bool) -> None:
        """Keep a client that has just read for the next reader; the client that has waited longest makes room."""
        client.unassign()
        with self._lock:
            self._idle.append(_Idle(client, committed, time.monotonic()))
            oldest = self._idle.pop(0) if len(self._idle) > _MAX_IDLE else None
        if oldest is not None:
            oldest.client.close()


class KafkaLogReader:
    """`base.LogReader`, positioned at the first offset of its partition.

    Args:
        partition: What to read.
        admin: The client that is asked where the partition begins if the offset is refused; it stays open.
        clients: Lends the client that reads.
        committed: False: records of open and aborted transactions are read, too.
    """

    def __init__(
        self, partition: TopicPartition, admin: AdminClient, clients: ReadingClients, *, committed: bool = True
    ) -> None:
        self._partition = partition
        self._admin = admin
        self._clients = clients
        self._committed = committed
        self._consumer = clients.take(committed=committed)
        # Only an answer about the topic shows its leader: a client that has read others looks for it once a second.
        self._topic = start_call(partial(self._consumer.list_topics, partition.topic, timeouts.REQUEST_S))
        self._next = 0
        self._is_assigned = False
        self._is_closed = False
        self._refused: tuple[KafkaError, Future[Watermarks]] | None = None  # may have been deleted; where it begins
        self._is_visible = False  # the broker has answered about the partition
        self._asked: Future[Watermarks] | None = None  # whether the broker lets us see it
        self._asked_s = 0.0

    def seek(self, offset: int) -> None:
        """Continue at this offset, or at the first offset of the partition if that is larger; ask nobody.

        For a logical offset, such as the beginning, the client would ask the broker, and wait half a second for that.
        """
        self._next, self._refused, self._is_assigned = offset, None, False

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return the next records, or None if neither a record nor the end of the partition came in time.

        Raises:
            OffsetGoneError: The offset is larger than the end of the partition.
            TopicError: The broker refuses.
            UnknownOutcomeError: The broker refused the offset, and none says in time where the partition begins.
            ValueError: The reader is closed: another reader may have its client.
        """
        if not self._is_fetching(timeout_s):
            return None
        messages = [message for message in drain(self._consumer, max_records, timeout_s) if self._is_own(message)]
        if not messages:
            self._check_visible()
            return None
        self._is_visible = True
        end = -1
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == PARTITION_EOF:
                end = message.offset() or 0
            elif error.code() == AUTO_OFFSET_RESET:
                if (message.offset() or 0) < self._next:
                    continue  # the client reports a refused offset even after a seek to another one
                self._refused = error, start_call(partial(query_watermarks, self._admin, self._partition))
            else:
                raise_read_error(self._partition, error, self._next, self._clients.group_id, is_member=False)
        messages = [message for message in messages if message.error() is None]
        if not messages and end < 0:
            return None
        records = columns(messages) if messages else NO_RECORDS
        after_records = int(records.offsets[-1]) + 1 if messages else self._next
        self._next = max(after_records, end)
        return Fetched(self._partition, records, at_end=end >= after_records, position=self._next)

    def _is_fetching(self, timeout_s: float) -> bool:
        """Begin to fetch at our offset unless we do; return False if a question must be answered before."""
        if self._is_closed:
            raise ValueError(f"the reader of {self._partition.topic}[{self._partition.partition}] is closed")
        if self._refused is not None and not self._skips_deleted(*self._refused, timeout_s):
            return False
        if self._is_assigned:
            return True
        try:
            self._topic.result(timeout_s)
        except TimeoutError:
            return False
        except KafkaException:
            pass  # the client asks again itself
        self._consumer.assign([ClientPartition(*self._partition, self._next)])
        self._is_assigned, self._asked_s = True, time.monotonic()
        return True

    def _is_own(self, message: Message) -> bool:
        """Say whether a message is about our partition; another reader may have had the client before."""
        topic = message.topic()  # None: an error of the client
        return topic is None or (topic == self._partition.topic and message.partition() == self._partition.partition)

    def _skips_deleted(self, error: KafkaError, answer: Future[Watermarks], timeout_s: float) -> bool:
        """Continue at the first offset if retention has deleted ours; return False if no broker has answered yet."""
        try:
            low = answer.result(timeout_s).low
        except TimeoutError:
            return False
        if self._next >= low:
            raise_read_error(self._partition, error, self._next, self._clients.group_id, is_member=False)
        self.seek(low)
        return True

    def _check_visible(self) -> None:
        """Find out why nothing comes: the client is silent about a topic that the broker hides from us.

        Raises:
            TopicError: The broker refuses.
        """
        if self._is_visible or time.monotonic() < self._asked_s + _SILENT_S:
            return
        if self._asked is None:
            self._asked = start_call(partial(query_watermarks, self._admin, self._partition))
        elif self._asked.done():
            asked, self._asked, self._asked_s = self._asked, None, time.monotonic()
            with suppress(UnknownOutcomeError):  # an outage
                asked.result()
                self._is_visible = True

    def close(self) -> None:
        """Release the client, once; where it read well, the next reader has it."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._topic.done():
            return  # the question holds the client, and closes it at its end
        if self._is_visible and self._refused is None:
            self._clients.give_back(self._consumer, committed=self._committed)
        else:
            self._consumer.close()


class KafkaLogFollower:
    """`following.LogFollower` with one consumer for all partitions.

    It names a group that the user may read in, and does not join it.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        offsets: Mapping[TopicPartition, int],
        settings: Mapping[str, str] | None = None,
        group_id: str = READER_GROUP,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._outages = Outages(bootstrap_servers, (settings or {}).get("ssl.ca.location"))
        # if a topic was truncated or created again, its present records are read
        own = {"group.id": group_id, "auto.offset.reset": "earliest"}
        layers = (CONSUMER_TUNING, _FOLLOWER_TUNING, settings or {}, CONSUMER_GUARANTEES, own)
        self._consumer: Consumer = create_client(Consumer, client_settings(bootstrap_servers, self._outages, *layers))
        self._next: dict[TopicPartition, int] = {}
        self._refusals: dict[TopicPartition, str] = {}
        self._probed_s = 0.0
        self.start_at(offsets)

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets; see `following.LogFollower.start_at`."""
        self._next.update(offsets)
        self._consumer.assign([ClientPartition(*partition, offset) for partition, offset in self._next.items()])

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return the next records; see `following.LogFollower.poll`."""
        messages = drain(self._consumer, max_records, timeout_s)
        ends = self._handle_errors([message for message in messages if message.error() is not None])
        records = [message for message in messages if message.error() is None]
        if records or ends:
            self._outages.end()
        elif self._outages.is_suspected:
            self._probe()
        return [self._fetched(partition, chosen, ends) for partition, chosen in by_partition(records).items()] + [
            self._fetched(partition, [], {partition: end}) for partition, end in ends.items()
        ]

    def _fetched(self, partition: TopicPartition, chosen: list[Message], ends: dict[TopicPartition, int]) -> Fetched:
        """Note how far a partition was read, and return its records; an end that belongs to them is removed."""
        self._refusals.pop(partition, None)
        records = columns(chosen) if chosen else NO_RECORDS
        end = ends.pop(partition, -1)
        after_records = int(records.offsets[-1]) + 1 if chosen else end
        self._next[partition] = max(after_records, end)
        return Fetched(partition, records, at_end=end >= after_records, position=self._next[partition])

    def _handle_errors(self, messages: Sequence[Message]) -> dict[TopicPartition, int]:
        """Return the newest end of each partition, and note the partitions that cannot be read."""
        ends: dict[TopicPartition, int] = {}
        for message in messages:
            error = message.error()
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            if error is None:
                continue
            if error.code() == PARTITION_EOF:
                ends[partition] = message.offset() or 0
            elif error.code() in REFUSED_CODES:
                self._refusals[partition] = refusal_text(error, partition.topic, f"topic {partition.topic}", "Read")
        return ends

    def _probe(self) -> None:
        """Find out whether a broker answers, at most every `timeouts.PROBE_INTERVAL_S`."""
        now_s = time.monotonic()
        if now_s - self._probed_s < timeouts.PROBE_INTERVAL_S:
            return
        self._probed_s = now_s
        if reaches_broker(self._consumer):
            self._outages.end()
        else:
            self._outages.confirm()

    @property
    def problems(self) -> Sequence[str]:
        """Return a line for each problem; see `following.LogFollower.problems`."""
        if self._outages.is_confirmed:
            seconds, because = self._outages.down_s(), self._outages.because
            return (f"no Kafka broker has answered at {self._bootstrap_servers} for {seconds:.0f} s{because}",)
        return tuple(dict.fromkeys(self._refusals.values()))

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()
