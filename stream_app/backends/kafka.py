"""The ports over Apache Kafka. The only module that imports confluent_kafka.

Settings come in three layers: our tuned values, over them the user's, over them those that carry the guarantees.

    read_committed, auto.offset.reset=error,     nothing aborted is read, nothing is skipped or read again unnoticed
    no auto-commit, enable.partition.eof
    partition.assignment.strategy=range          partitions are given out eagerly; the labels follow their examples
    enable.idempotence, acks=all                 a retry neither doubles nor reorders
    partitioner=murmur2_random                   a key goes where a Java producer sends it

Errors of a transaction are sorted by what may be done next: try again (until a bound), abort it, or start the process
again. Nothing else in the application needs to know librdkafka's codes.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from stream_app.backends.base import (
    CLIENT_NAME,
    MAX_BATCH_BYTES,
    Committed,
    Ends,
    Fetched,
    LogReader,
    TopicInfo,
    TopicPartition,
    Watermarks,
    given_partitions,
)
from stream_app.backends.certificate import certificate_problem
from stream_app.backends.partitioner import partition_of
from stream_app.errors import (
    ConfigurationError,
    DeliveryError,
    FencedError,
    OffsetGoneError,
    RecordTooLargeError,
    StateError,
    TopicError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UnstableOffsetsError,
)
from stream_app.records import UNREADABLE_HEADERS, Header, OutputRecords, RawRecords

LOGGER = logging.getLogger("stream_app.backends.kafka")

REQUEST_TIMEOUT_S = 15.0
"""For a question that any live broker answers in milliseconds: long enough for a change of leader (6-9 s)."""

LOOK_TIMEOUT_S = 2.0
"""One attempt inside `REQUEST_TIMEOUT_S` where the client asks a leader that has died until the attempt is over."""

STABLE_TIMEOUT_S = 30.0
"""Committed offsets are unstable while a dead instance's transaction is open: transaction.timeout.ms, the broker's
check for it (every 10 s), and as much again."""

TRANSACTION_TIMEOUT_S = 10.0
"""`transaction.timeout.ms`: what is open for longer, the broker aborts, so nobody needs to ask on."""

INITIALISE_TIMEOUT_S = 30.0
"""A coordinator that has just come up reads its log first; a transaction that is about to end takes its time, too."""

ATTEMPT_TIMEOUT_S = 5.0
"""One attempt inside the two above; the next one goes on where it stopped."""

RETRY_PAUSE_S = 0.01
"""Between two attempts, lest an error that comes at once is asked for in a busy loop."""

ROOM_TIMEOUT_S = 30.0
"""A full queue empties at the broker's speed (256 MB at 10 MB a second); without any progress records expire before."""

MAX_LOST_CLIENTS = 4
"""Clients that were replaced and have not ended yet, each with threads of its own: more than these, and the process
starts again."""

CLOSE_TIMEOUT_S = 5.0
"""A clean stop is a courtesy: what is left open, the next start or the broker's timeout ends."""

SEEK_ATTEMPTS = 20
"""A partition takes a seek once its fetcher has started, some milliseconds after its assignment."""

OUTAGE_EFFECTS_S = 60.0
"""What fails so soon after an outage may have failed by it: twice `STABLE_TIMEOUT_S`."""

PROBE_INTERVAL_S = 1.0
"""How often a member that has lost all brokers asks whether they are back."""

PROBE_TIMEOUT_S = 0.5
"""Long enough for a broker on a busy machine; there is nothing else to do meanwhile."""

SILENCE_S = 5.0
"""Without an answer for so long an idle member asks whether there is a broker: `/ready` wants an answer in 15 s."""

CONSUMER_TUNING: Mapping[str, object] = MappingProxyType(
    {
        "session.timeout.ms": 6_000,  # a killed member's partitions stand still for so long; a broker's least
        "heartbeat.interval.ms": 1_500,
        "fetch.queue.backoff.ms": 1,  # the default of 1 s stalls a fast consumer whose queue was full for a moment
        "fetch.wait.max.ms": 10,  # "at its end" is never older than this
        "fetch.error.backoff.ms": 50,
        "queued.max.messages.kbytes": 65_536,  # memory of what is fetched ahead
        "retry.backoff.ms": 10,
    }
)

CONSUMER_GUARANTEES: Mapping[str, object] = MappingProxyType(
    {
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "partition.assignment.strategy": "range",
        "group.protocol": "classic",
        "allow.auto.create.topics": False,
    }
)

TRANSACTION_TUNING: Mapping[str, object] = MappingProxyType(
    {
        "transaction.timeout.ms": 10_000,  # how long a killed member's transaction holds readers up
        "retry.backoff.ms": 1,  # a small transaction takes 100 ms at the default: the coordinator asks for one retry
        "retry.backoff.max.ms": 100,
        "reconnect.backoff.max.ms": 1_000,
        "linger.ms": 5,  # a commit flushes at once, whatever this is
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 262_144,
    }
)

PRODUCER_GUARANTEES: Mapping[str, object] = MappingProxyType(
    {"enable.idempotence": True, "acks": "all", "partitioner": "murmur2_random"}
)

TRANSACTION_GUARANTEES: Mapping[str, object] = MappingProxyType(
    {
        **PRODUCER_GUARANTEES,
        "message.max.bytes": 1_000_000_000,  # the client's largest: topics have limits of their own, which we check
        "batch.size": MAX_BATCH_BYTES,
    }
)

SENDER_TUNING: Mapping[str, object] = MappingProxyType(
    {
        "message.max.bytes": 1_048_588,  # the broker's default
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 262_144,
    }
)

_FENCED_CODES = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  (the client's public names of its own errors begin with an underscore)
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)

_REFUSED_CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)
"""Errors that no retry cures: somebody has to change a setting or a permission."""

_SSL = KafkaError._SSL  # noqa: SLF001

_DENIED_CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""A permission is lacking."""

_TELLING_CODES = frozenset(
    {
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        _SSL,
        KafkaError._RESOLVE,  # noqa: SLF001
    }
)
"""Why no broker can be reached, from the client; the broken connection of which it tells as well is only the effect."""

_OCCUPIED_CODES = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,  # what a broker says to an offset from outside of a group with members
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
    }
)

_ASK_AGAIN_CODES = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # a broker that has just come back is behind what the client knows
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # or does not know its topics yet
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001  (no leader is known)
        KafkaError._TIMED_OUT,  # noqa: SLF001
    }
)
"""A partition that is new, or whose leader has just died, has none for a moment."""

_COORDINATOR_CODES = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
"""A group's coordinator is new, or has just started: it knows the group in a moment."""

_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
_AUTO_OFFSET_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
_TIMED_OUT = KafkaError._TIMED_OUT  # noqa: SLF001
_ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
_STATE = KafkaError._STATE  # noqa: SLF001

_NO_RECORDS = RawRecords(np.zeros(0, np.int64), np.zeros(0, np.int64), (), ())


READER_GROUP = "areba/log-reader"
"""Of readers of no application: a client asks for its group's coordinator, though it joins no group."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds, never going back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let this time pass."""
        time.sleep(seconds)


# What all clients share -----------------------------------------------------------------------------------------------


class Outages:
    """Says once that no broker can be reached, and once that one can be again. The clients of a worker share one.

    A client's error is a suspicion only: it is told when the client is served, which may be long after the outage. The
    next question to a broker settles it.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._since_s: float | None = None
        self._heard_s = time.monotonic()
        self._noted_s: float | None = None  # when we last had a reason to think of one

    def silence_s(self) -> float:
        """Seconds since a broker answered; before the first answer: since this was made."""
        return time.monotonic() - self._heard_s

    @property
    def suspected(self) -> bool:
        """Whether a client has lost all brokers, and none has answered since."""
        return self._reason is not None

    @property
    def lasting(self) -> bool:
        """Whether no broker answered when last asked."""
        return self._since_s is not None

    @property
    def recent(self) -> bool:
        """Whether there was one, or a suspicion of one, within the last `OUTAGE_EFFECTS_S`."""
        return self._noted_s is not None and time.monotonic() - self._noted_s < OUTAGE_EFFECTS_S

    def suspect(self, reason: str) -> None:
        """A client has lost all its connections, or waited in vain."""
        self._reason = self._reason or reason
        self._noted_s = time.monotonic()

    def down(self) -> None:
        """No broker has answered."""
        if self._since_s is None and self._reason is not None:
            self._since_s = time.monotonic()
            LOGGER.warning("no Kafka broker can be reached; waiting for one (%s)", self._reason)

    def up(self) -> None:
        """A broker has answered."""
        if self._since_s is not None:
            self._noted_s = time.monotonic()
            LOGGER.warning("a Kafka broker answers again, after %.1f s", self._noted_s - self._since_s)
        self._reason = self._since_s = None
        self._heard_s = time.monotonic()


class _ClientLog:
    """Passes librdkafka's log lines on. Broken connections are `Outages`' business: once, not once a second."""

    def __init__(self, outages: Outages) -> None:
        self._outages = outages

    def log(self, level: int, form: str, facility: str, client: str, text: str) -> None:
        quiet = facility in {"FAIL", "ERROR"} or self._outages.suspected
        LOGGER.log(logging.DEBUG if quiet else level, form, facility, client, text)


def _settings(bootstrap_servers: str, outages: Outages, *layers: Mapping[str, object]) -> dict[str, Any]:
    """The layers, later ones over earlier ones, and what every client of ours has."""

    def on_error(error: KafkaError) -> None:
        if error.code() == _ALL_BROKERS_DOWN:
            outages.suspect(error.str())
        elif error.code() in _REFUSED_CODES:
            LOGGER.error("Kafka refuses us: %s", error.str())
        else:
            LOGGER.debug("Kafka client: %s", error.str())

    merged: dict[str, Any] = {"log.connection.close": False, "reconnect.backoff.max.ms": 1_000}
    for layer in layers:
        merged.update(layer)
    merged["client.id"] = "/".join(filter(None, (CLIENT_NAME, merged.get("client.id"))))
    return {**merged, "bootstrap.servers": bootstrap_servers, "error_cb": on_error, "logger": _ClientLog(outages)}


def _made(make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:  # noqa: ANN401  (any client)
    """Create a client.

    Raises:
        ConfigurationError: librdkafka knows no such setting, or not with this value.
    """
    try:
        return make(settings)
    except (KafkaException, ValueError, TypeError) as problem:
        raise ConfigurationError(f"kafka settings: {_text(problem)}") from None


def _text(problem: BaseException) -> str:
    error = problem.args[0] if problem.args else problem
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(error)


def _error(problem: KafkaException) -> KafkaError:
    error: KafkaError = problem.args[0]
    return error


@contextlib.contextmanager
def _fatal_unwrapped() -> Iterator[None]:
    """Raise a client's fatal error as itself.

    A producer raises it while it serves its callbacks. If it has a log line to deliver too, the interpreter finds that
    callback's result beside an exception, and wraps the exception into a SystemError.
    """
    try:
        yield
    except SystemError as problem:
        if isinstance(problem.__cause__, KafkaException):
            raise problem.__cause__ from None
        raise


_MISSING_OPERATIONS: Mapping[int, str] = MappingProxyType(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "Write",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "Read",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IdempotentWrite",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write",
    }
)
"""What is missing where the broker denies something to a transaction or a member."""


def _refusal(error: KafkaError, what: str, resource: str, operation: str = "") -> str:
    """One line: what was asked for, the broker's own reason, the resource and the missing operation."""
    line = f"{what}: {error.str()} ({error.name()})"
    if error.code() not in _DENIED_CODES:
        return line
    return f"{line}; {operation or _MISSING_OPERATIONS[error.code()]} on {resource} is missing"


def _headers_by_row(messages: Sequence[Message]) -> dict[int, Sequence[Header]]:
    """The headers, asked for once: the client raises for a name that is not UTF-8, and breaks if asked again."""
    asked = map(Message.headers, messages)
    found: list[Sequence[Header] | None] = []
    while len(found) < len(messages):
        try:
            found.extend(asked)  # type: ignore[arg-type]  # what came before an error stays
        except SystemError:
            found.append(UNREADABLE_HEADERS)
    return {row: headers for row, headers in enumerate(found) if headers} if any(found) else {}


def _columns(messages: Sequence[Message]) -> RawRecords:
    """The records of one partition, in columns: one pass in C for each column."""
    count = len(messages)
    stamps = np.fromiter(itertools.chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * count)
    kinds, times = stamps[0::2], stamps[1::2]
    return RawRecords(
        offsets=np.fromiter(map(Message.offset, messages), np.int64, count),
        timestamps=np.where(kinds == TIMESTAMP_CREATE_TIME, times, -1),
        keys=list(map(Message.key, messages)),
        values=list(map(Message.value, messages)),
        headers=_headers_by_row(messages),
    )


def _drain(consumer: Consumer, max_records: int, timeout_s: float) -> list[Message]:
    """What is there; if nothing is, whatever comes first within the timeout, and what came with it.

    (`consume` alone waits until it has `max_records` of them, or for the whole of the timeout.)
    """
    messages: list[Message] = consumer.consume(max_records, 0)
    if messages or timeout_s <= 0:
        return messages
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    if max_records > 1:
        return [first, *consumer.consume(max_records - 1, 0)]
    return [first]


def _raise_read_error(message: Message, error: KafkaError, asked: int | None, group_id: str) -> None:
    """Raise what a reader cannot go on from; note the rest, which the client retries by itself."""
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        raise ConfigurationError(_refusal(error, "consumer", f"group {group_id}"))
    topic, number = message.topic() or "", message.partition() or 0
    place = f"{topic}[{number}]"
    if error.code() == _AUTO_OFFSET_RESET:
        offset = asked if asked is not None else message.offset()
        raise OffsetGoneError(f"{place}: offset {offset} is gone ({error.str()})", (topic, number))
    if error.code() in _REFUSED_CODES:
        raise TopicError(_refusal(error, place, f"topic {topic}", "Read"))
    if error.fatal():
        raise FencedError(f"consumer: {error.str()}")
    LOGGER.warning("%s: %s", place, error.str())


def _query_watermarks(admin: AdminClient, partition: TopicPartition) -> Watermarks:
    """First offset, and the one behind the last record (whether committed or not)."""
    what = f"{partition.topic}[{partition.partition}]: first and last offset"
    kinds = [(spec, IsolationLevel.READ_UNCOMMITTED) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]  # type: ignore[no-untyped-call]
    [low], [high] = _query_offsets(admin, [ClientPartition(*partition)], kinds, what)
    return Watermarks(low, high)


def _query_offsets(
    admin: AdminClient, places: Sequence[ClientPartition], kinds: Sequence[tuple[OffsetSpec, IsolationLevel]], what: str
) -> list[list[int]]:
    """Offsets of each kind, by partition; asked again, bounded, while leaders are away.

    Raises:
        TopicError: The broker refuses to tell us.
        UnknownOutcomeError: It did not in time.
    """
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        asked = [
            admin.list_offsets(dict.fromkeys(places, spec), isolation_level=level, request_timeout=LOOK_TIMEOUT_S)
            for spec, level in kinds
        ]
        try:
            found = [[_result(answers[place], LOOK_TIMEOUT_S).offset for place in places] for answers in asked]
        except KafkaException as problem:
            if _error(problem).code() not in _ASK_AGAIN_CODES or time.monotonic() > deadline:
                raise _unanswered(problem, what, f"topic {places[0].topic}", "Describe") from None
        else:
            if min(map(min, found)) >= 0:
                return found
            if time.monotonic() > deadline:  # an answer without an offset: the leader that was known is away
                raise UnknownOutcomeError(f"{what}: no leader")
        time.sleep(10 * RETRY_PAUSE_S)
        for topic in dict.fromkeys(place.topic for place in places):
            with contextlib.suppress(KafkaException):
                admin.list_topics(topic, timeout=LOOK_TIMEOUT_S)  # so that the client asks the new leader


def _result(future: "Future[Any]", timeout_s: float) -> Any:  # noqa: ANN401  (each request has an answer of its own)
    """The answer to a request that the client gives up after `timeout_s`.

    A process that was frozen meanwhile has run out of patience when it wakes, whatever the client has to say.

    Raises:
        KafkaException: The broker refuses; `_TIMED_OUT` where there is no answer.
    """
    try:
        return future.result(timeout_s + 1)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True)) from None  # noqa: SLF001


def _unanswered(
    problem: KafkaException, what: str, resource: str = "it", operation: str = ""
) -> ConfigurationError | UnknownOutcomeError:
    """What to raise when a question stays without an answer: start again, unless that cannot help."""
    error = _error(problem)
    if error.code() in _REFUSED_CODES:
        return TopicError(_refusal(error, what, resource, operation))
    return UnknownOutcomeError(f"{what}: {_text(problem)}")


# Source ---------------------------------------------------------------------------------------------------------------


class KafkaSource:
    """`ports.Source` as a member of a consumer group.

    What the client has fetched of a partition before `start_at` is never given: `seek` outdates it inside the client,
    and a batch in the midst of which the group was rebalanced is dropped whole and read again.
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
        common = (bootstrap_servers, self._outages)
        layers = (CONSUMER_TUNING, settings or {}, CONSUMER_GUARANTEES, {"group.id": group_id})
        self._consumer: Consumer = _made(Consumer, _settings(*common, *layers))
        admin_settings = _settings(*common, _admin_settings(settings or {}))
        self._make_admin: Callable[[], AdminClient] = lambda: _made(AdminClient, admin_settings)
        self._admin: AdminClient | None = None
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._next: dict[TopicPartition, int] = {}  # of every partition that is read: behind what `poll` gave
        self._paused: set[TopicPartition] = set()
        self._rebalanced = False
        self._assigning = False
        self._probed_s = 0.0

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group."""

        def assigned(_: Consumer, found: list[ClientPartition]) -> None:
            self._forget(given_partitions(_plain(found), topics, partitions))
            self._assigning = True  # `start_at` only takes note: the assignment below carries the offsets
            try:
                on_assign(sorted(self._assigned))
            finally:
                self._assigning = False
                self._assign()

        def revoked(_: Consumer, __: list[ClientPartition]) -> None:
            try:
                on_revoke(sorted(self._assigned))
            finally:
                self._forget(())
                self._consumer.unassign()

        self._consumer.subscribe(list(topics), on_assign=assigned, on_revoke=revoked)

    def _forget(self, assigned: Iterable[TopicPartition]) -> None:
        self._assigned = frozenset(assigned)
        self._next = {}
        self._paused = set()
        self._rebalanced = True

    def _assign(self) -> None:
        """Tell the client all that is assigned, where to read it, and what not to read (for now)."""
        self._consumer.assign([ClientPartition(*p, self._next.get(p, 0)) for p in self._assigned])
        reading = {p for p in self._next if p not in self._paused}
        self._consumer.pause(_client(self._assigned - reading))
        self._consumer.resume(_client(reading))  # the client keeps a pause over assignments

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these from these offsets on.

        Raises:
            ValueError: One of them is not assigned.
        """
        strangers = sorted(set(offsets) - self._assigned)
        if strangers:
            raise ValueError(f"not assigned: {strangers}")
        self._next.update(offsets)
        self._paused.difference_update(offsets)
        if not self._assigning:
            self._seek(offsets)

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            for partition, offset in offsets.items():
                self._seek_one(ClientPartition(*partition, offset))
        except KafkaException:
            self._assign()  # a fetcher that stopped at an error takes no seek, but starts anew when assigned
        else:
            self._consumer.resume(_client(p for p in offsets if p not in self._paused))

    def _seek_one(self, place: ClientPartition) -> None:
        for attempt in range(SEEK_ATTEMPTS):
            try:
                self._consumer.seek(place)
            except KafkaException as problem:
                if _error(problem).code() != _STATE or attempt == SEEK_ATTEMPTS - 1:
                    raise
                time.sleep(RETRY_PAUSE_S)
            else:
                return

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these, until `start_at`."""
        stopped = [p for p in partitions if self._next.pop(p, None) is not None]
        self._paused.difference_update(stopped)
        if not self._assigning:
            self._consumer.pause(_client(stopped))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more of these for now; what is fetched and was not given is fetched again."""
        chosen = [p for p in partitions if p in self._next]
        self._paused.update(chosen)
        if not self._assigning:
            self._consumer.pause(_client(chosen))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on behind the last record that `poll` gave."""
        chosen = [p for p in partitions if p in self._paused]
        self._paused.difference_update(chosen)
        if chosen and not self._assigning:
            self._seek({p: self._next[p] for p in chosen})

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """At most `max_records` records of the partitions that are read, in columns."""
        messages = _drain(self._consumer, max_records, timeout_s)
        if self._outages.suspected or self._outages.silence_s() > SILENCE_S:
            self._probe()
        if self._rebalanced:  # messages from before and after it are in one batch: read them again
            self._rebalanced = False
            if messages:
                self._seek({p: offset for p, offset in self._next.items() if p not in self._paused})
            return ()
        try:
            return self._fetched(messages) if messages else ()
        except OffsetGoneError as error:  # the records of the others came with it: read them again
            self._seek({p: n for p, n in self._next.items() if p not in self._paused and p != error.partition})
            raise

    def _fetched(self, messages: list[Message]) -> list[Fetched]:
        errors = list(map(Message.error, messages))
        ends: dict[TopicPartition, int] = {}
        if any(errors):
            ends = self._handle_errors(messages, errors)
            messages = [message for message, error in zip(messages, errors, strict=True) if error is None]
        result = []
        for partition, chosen in _by_partition(messages).items():
            if partition not in self._next:
                continue  # fetched before we stopped reading it
            records = _columns(chosen)
            behind = int(records.offsets[-1]) + 1
            end = ends.pop(partition, -1)
            self._next[partition] = max(behind, end)
            result.append(Fetched(partition, records, at_end=end >= behind))
        for partition, end in ends.items():
            if partition in self._next:
                self._next[partition] = end
                result.append(Fetched(partition, _NO_RECORDS, at_end=True))
        return result

    def _handle_errors(
        self, messages: Sequence[Message], errors: Sequence[KafkaError | None]
    ) -> dict[TopicPartition, int]:
        """The newest end-of-partition event of each partition; anything worse is raised or noted."""
        ends = {}
        for message, error in zip(messages, errors, strict=True):
            if error is None:
                continue
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            if error.code() == _PARTITION_EOF:
                ends[partition] = message.offset() or 0
            elif error.code() != _AUTO_OFFSET_RESET or partition in self._next:
                _raise_read_error(message, error, self._next.get(partition), self._group_id)
        return ends

    def _probe(self) -> None:
        """Find out whether there is a broker, at most every `PROBE_INTERVAL_S`."""
        now_s = time.monotonic()
        if now_s - self._probed_s < PROBE_INTERVAL_S:
            return
        self._probed_s = now_s
        try:
            self._consumer.list_topics(timeout=PROBE_TIMEOUT_S)
        except KafkaException:
            self._outages.down()
        else:
            self._outages.up()

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float = STABLE_TIMEOUT_S
    ) -> Mapping[TopicPartition, Committed | None]:
        """The group's stable committed offsets.

        Raises:
            UnstableOffsetsError: They did not become stable in time, or no broker answered.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                answers = self._consumer.committed(_client(partitions), timeout=timeout_s)
            except KafkaException as problem:
                if _error(problem).code() in _REFUSED_CODES:
                    raise _unanswered(problem, "committed offsets", f"group {self._group_id}") from None
                if time.monotonic() > deadline:
                    raise UnstableOffsetsError(f"committed offsets: {_text(problem)}") from None
                time.sleep(RETRY_PAUSE_S)
                continue
            failed = [answer for answer in answers if answer.error is not None]
            if not failed:
                break
            if time.monotonic() > deadline:
                raise UnstableOffsetsError(f"committed offset of {failed[0].topic}: {failed[0].error}")
            time.sleep(RETRY_PAUSE_S)
        return {
            TopicPartition(a.topic, a.partition): Committed(a.offset, a.metadata or "") if a.offset >= 0 else None
            for a in answers
        }

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Asked of the broker. Records of open transactions lie below `high`.

        Raises:
            UnknownOutcomeError: No broker answered in time.
        """
        if self._admin is None:
            self._admin = self._make_admin()
        return _query_watermarks(self._admin, partition)

    def group_metadata(self) -> object:
        """The group's generation and our member id."""
        metadata: object = self._consumer.consumer_group_metadata()
        return metadata

    def close(self) -> None:
        """Leave the group; `on_revoke` runs."""
        self._consumer.close()
        self._admin = None


def _plain(partitions: Iterable[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition) for p in partitions]


def _client(partitions: Iterable[TopicPartition]) -> list[ClientPartition]:
    return [ClientPartition(*p) for p in partitions]


def _by_partition(messages: list[Message]) -> dict[TopicPartition, list[Message]]:
    """Split a batch, keeping the order; messages come in long runs of one partition."""
    places = zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    groups: dict[TopicPartition, list[Message]] = {}
    start = 0
    for place, run in itertools.groupby(places):
        stop = start + len(list(run))
        groups.setdefault(TopicPartition(*place), []).extend(messages[start:stop])  # type: ignore[arg-type]
        start = stop
    return groups


# Transaction ----------------------------------------------------------------------------------------------------------


class KafkaTransaction:
    """`ports.Transaction` as a transactional producer.

    A client that fails, or does not come back in time, is replaced by a new one. Where the old one would wait for its
    own timeouts, or for ever, `init_transactions` of the new one settles what became of the transaction (KIP-98: the
    coordinator aborts it, or completes the commit that it had begun) and fences whatever the old one still has on its
    way. Whether the transaction was committed, the group's offsets tell.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        settings: Mapping[str, str] | None = None,
        outages: Outages | None = None,
        timeout_s: float = TRANSACTION_TIMEOUT_S,
    ) -> None:
        """Create the client.

        Args:
            bootstrap_servers: Where to find the brokers.
            transactional_id: Stable over restarts of this instance, and nobody else's.
            settings: Further librdkafka settings.
            outages: What says that brokers are gone and back.
            timeout_s: How long a call may wait for a broker before the transaction is given up.
        """
        self._id = transactional_id
        self._outages = outages or Outages()
        self._timeout_s = timeout_s
        names = {"transactional.id": transactional_id}
        layers = (TRANSACTION_TUNING, settings or {}, TRANSACTION_GUARANTEES, names)
        merged = _settings(bootstrap_servers, self._outages, *layers)
        self._make: Callable[[], Producer] = lambda: _made(Producer, merged)
        self._producer = self._make()
        self._side = _SideThread()
        self._lost: list[_SideThread] = []  # of clients that were replaced
        self._make_cluster: Callable[[], KafkaCluster] = lambda: KafkaCluster(bootstrap_servers, settings)
        self._cluster: KafkaCluster | None = None  # to ask whether a broker answers; few ever need it
        self._is_initialised = False
        self._open = False
        self._begun_s = 0.0
        self._fenced = ""  # why, for good

    def initialise(self) -> None:
        """Fence older producers of this id and end what they left open; does nothing where that was done."""
        if self._is_initialised:
            return
        self._call("init_transactions", self._producer.init_transactions, INITIALISE_TIMEOUT_S)
        self._is_initialised = True

    def begin(self) -> None:
        """Open a transaction."""
        self.initialise()
        self._begun_s = time.monotonic()
        try:
            with _fatal_unwrapped():
                self._producer.poll(0)  # may raise, see `_call`
                self._producer.begin_transaction()
        except KafkaException as problem:
            self._fail("begin", _error(problem))
        self._open = True

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Queue the records; `offsets` is filled while the transaction is committed.

        Raises:
            TransactionAbortedError: The transaction cannot be committed any more.
            FencedError: A newer producer has our id.
        """
        topic, number = partition
        produce = self._producer.produce
        headers = records.headers
        delivered = None if offsets is None else _noting(offsets)
        rows = zip(records.values, records.keys, records.timestamps, strict=True)
        try:
            for row, (value, key, timestamp) in enumerate(rows):
                named = headers.get(row) if headers else None
                while True:
                    try:
                        if named:
                            produce(topic, value, key, number, delivered, None, timestamp, list(named))
                        else:
                            produce(topic, value, key, number, delivered, None, timestamp)
                    except BufferError:
                        self._make_room()
                    else:
                        break
        except KafkaException as problem:
            self._fail(f"produce to {topic}[{number}]", _error(problem))

    def _make_room(self) -> None:
        """Wait until the client's queue has room."""
        deadline = time.monotonic() + ROOM_TIMEOUT_S
        before = len(self._producer)
        while len(self._producer) >= before:
            with _fatal_unwrapped():
                self._producer.poll(RETRY_PAUSE_S)
            if time.monotonic() > deadline:
                self._give_up(f"the send queue stayed full for {ROOM_TIMEOUT_S:.0f} s")

    def flush(self) -> None:
        """Wait until the broker has what was produced."""
        self._call("flush", self._flush)

    def _flush(self, timeout_s: float) -> None:
        if self._producer.flush(timeout_s):
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "records are on their way", retriable=True))

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: object) -> None:
        """Make the group's offsets part of the transaction."""
        places = [ClientPartition(*p, committed.offset, committed.metadata) for p, committed in offsets.items()]
        send = self._producer.send_offsets_to_transaction
        self._call("send offsets", lambda timeout_s: self._watched(lambda: send(places, group, timeout_s), timeout_s))

    def commit(self) -> None:
        """Commit, waiting for all records."""
        self._call("commit", self._producer.commit_transaction)
        self._open = False
        self._outages.up()

    def abort(self) -> None:
        """Give the transaction up."""
        if self._open:
            with contextlib.suppress(TransactionAbortedError):  # by the client's end
                self._call("abort", self._producer.abort_transaction)
            self._open = False

    def close(self) -> None:
        """Release the client; an open transaction is aborted if the broker answers in time."""
        self._side.close()
        try:
            with _fatal_unwrapped():
                if self._open:
                    self._open = False
                    self._producer.abort_transaction(CLOSE_TIMEOUT_S)
                self._producer.close()
        except KafkaException as problem:
            LOGGER.info("transaction of %s: left to the broker: %s", self._id, _text(problem))

    def _watched(self, request: Callable[[], Any], timeout_s: float) -> None:
        """Wait for a call that pays no attention to its timeout.

        Raises:
            KafkaException: As the call does; `_TIMED_OUT` where it did not come back.
        """
        future = self._side.start(request)
        deadline = time.monotonic() + max(timeout_s, self._timeout_s)
        while True:
            try:
                return future.result(timeout=PROBE_INTERVAL_S)
            except TimeoutError:
                self._producer.poll(0)  # what the client has to say, it says now
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(_TIMED_OUT, "the client does not come back")) from None

    def _call(self, what: str, request: Callable[[float], Any], timeout_s: float | None = None) -> None:
        """Ask until there is an answer, or the bound is reached."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with _fatal_unwrapped():
                    request(min(ATTEMPT_TIMEOUT_S, timeout_s))
            except KafkaException as problem:
                error = _error(problem)
                if not error.retriable() or time.monotonic() > deadline:
                    self._fail(what, error)
                LOGGER.debug("%s: %s; again", what, error.str())
                try:
                    with _fatal_unwrapped():
                        self._producer.poll(RETRY_PAUSE_S)  # what the client has to say, it says now
                except KafkaException as fatal:  # comes this way, and not to the callback
                    self._fail(what, _error(fatal))
            else:
                return

    def _fail(self, what: str, error: KafkaError) -> NoReturn:
        """Raise what follows from this error; the client is replaced first where it may be the client's fault.

        A transaction that took too long looks as if a newer producer had our id: it was open for that long.
        """
        text = f"transaction of {self._id}: {what}: {error.str()} ({error.name()})"
        is_refused = error.code() in (_DENIED_CODES if self._open else _REFUSED_CODES)
        if is_refused:
            resource = what if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else f"transactional id {self._id}"
            raise ConfigurationError(_refusal(error, f"transaction of {self._id}: {what}", resource))
        took_too_long = self._open and time.monotonic() - self._begun_s >= self._timeout_s
        if self._fenced or (error.code() in _FENCED_CODES and not took_too_long):
            self._fenced = self._fenced or text
            raise FencedError(self._fenced)
        if not self._is_initialised:
            self._look_for_broker(text)
            raise UnknownOutcomeError(text)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self.abort()
            raise RecordTooLargeError(text)
        if error.code() in _OCCUPIED_CODES:  # the group was rebalanced: nothing is wrong with the client
            self.abort()
            raise TransactionAbortedError(text)
        self._give_up(text)

    def _give_up(self, text: str) -> NoReturn:
        """Have a new client take the place of this one.

        Raises:
            TransactionAbortedError: It did; the transaction is settled once it is initialised.
            UnknownOutcomeError: Too many have not come back.
        """
        self._look_for_broker(text)
        self._side.start(self._producer.close)
        self._side.close()
        self._lost = [side for side in (*self._lost, self._side) if side.is_busy]
        self._open = self._is_initialised = False
        if len(self._lost) > MAX_LOST_CLIENTS:
            raise UnknownOutcomeError(f"{text}; {len(self._lost)} clients have not come back")
        self._producer, self._side = self._make(), _SideThread()
        raise TransactionAbortedError(text)

    def _look_for_broker(self, reason: str) -> None:
        """See whether any broker answers, and say so."""
        self._cluster = self._cluster or self._make_cluster()
        if self._cluster.broker_count(PROBE_INTERVAL_S) == 0:
            self._outages.suspect(reason)
            self._outages.down()


def _noting(offsets: list[int]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery report's reader; reports of one partition come in the order of its records."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            offsets.append(message.offset() or 0)

    return delivered


class _SideThread:
    """Carries out calls of the client that may never come back, one at a time.

    `send_offsets_to_transaction` pays no attention to its timeout while the group's coordinator is away, and where the
    coordinator moved it may wait for ever (librdkafka issues 5456 and 5511). Nothing can end such a call but the end of
    the process, so the thread is a daemon.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[None], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="areba-transaction", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def start(self, request: Callable[[], Any]) -> Future[None]:
        """Begin a call."""
        future: Future[None] = Future()
        self._jobs.put((future, request))
        return future

    def close(self) -> None:
        """End the thread once it is free."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, request = job
            try:
                request()
            except BaseException as problem:  # noqa: BLE001  (whoever waits for the result gets it)
                future.set_exception(problem)
            else:
                future.set_result(None)


# Log reader, cluster --------------------------------------------------------------------------------------------------


class KafkaLogReader:
    """`ports.LogReader`: one partition, no group."""

    def __init__(
        self,
        bootstrap_servers: str,
        partition: TopicPartition,
        admin: AdminClient,
        settings: Mapping[str, str] | None = None,
        group_id: str = READER_GROUP,
        *,
        committed: bool = True,
    ) -> None:
        self._partition = partition
        self._admin = admin
        self._group_id = group_id
        own = {"group.id": group_id} | ({} if committed else {"isolation.level": "read_uncommitted"})
        layers = (CONSUMER_TUNING, settings or {}, CONSUMER_GUARANTEES, own)
        self._consumer: Consumer = _made(Consumer, _settings(bootstrap_servers, Outages(), *layers))
        self._next = 0
        self.seek(0)

    def seek(self, offset: int) -> None:
        """Go on reading from this offset, or from the first if that is larger.

        Raises:
            UnknownOutcomeError: No broker answered in time.
        """
        self._next = max(offset, _query_watermarks(self._admin, self._partition).low)
        self._consumer.assign([ClientPartition(*self._partition, self._next)])

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """The next records, or None when there was no news in time.

        Raises:
            StateError: The offset that was asked for lies behind the end.
        """
        messages = _drain(self._consumer, max_records, timeout_s)
        if not messages:
            return None
        end = -1
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == _PARTITION_EOF:
                end = message.offset() or 0
            elif not self._moved(error):
                _raise_read_error(message, error, self._next, self._group_id)
        messages = [message for message in messages if message.error() is None]
        if not messages and end < 0:
            return None
        records = _columns(messages) if messages else _NO_RECORDS
        behind = int(records.offsets[-1]) + 1 if messages else self._next
        self._next = max(behind, end)
        return Fetched(self._partition, records, at_end=end >= behind)

    def _moved(self, error: KafkaError) -> bool:
        """Whether retention has moved the first offset past ours; then reading goes on there."""
        if error.code() != _AUTO_OFFSET_RESET or self._next >= _query_watermarks(self._admin, self._partition).low:
            return False
        self.seek(self._next)
        return True

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()


NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""An id of zeros (KIP-516): the broker has none."""

_ADMIN_PREFIXES = ("security.", "ssl.", "sasl.", "socket.", "broker.", "client.", "enable.ssl")


def _admin_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that any client understands; the rest would be warned about."""
    return {name: value for name, value in settings.items() if name.startswith(_ADMIN_PREFIXES)}


class _Shape(NamedTuple):
    partitions: int
    replication: int


def _missing(resource: str, future: "Future[Any]", needed: Sequence[str]) -> Iterator[str]:
    """A line for each operation that a broker's description of something says we may not do."""
    try:
        allowed = _result(future, REQUEST_TIMEOUT_S).authorized_operations
    except KafkaException as problem:
        if _error(problem).code() in _DENIED_CODES:
            yield _refusal(_error(problem), resource, resource, " and ".join(needed))
        return  # whatever else it is, who uses it will be told
    names = {operation.name.replace("_", "") for operation in allowed or ()}
    for operation in needed if names else ():
        if operation.upper() not in names:
            yield f"{resource}: the broker denies it to us; {operation} on {resource} is missing"


class KafkaCluster:
    """`ports.Cluster`."""

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, str] | None = None, reader_group: str = READER_GROUP
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        self._reader_group = reader_group
        self._created: set[str] = set()
        self._reason: KafkaError | None = None  # of the client, why it reaches no broker
        conf = _settings(bootstrap_servers, Outages(), _admin_settings(self._settings))
        conf["error_cb"] = self._take_note
        self._admin: AdminClient = _made(AdminClient, conf)

    def _take_note(self, error: KafkaError) -> None:
        LOGGER.debug("Kafka client: %s", error.str())
        known = self._reason is not None and self._reason.code() in _TELLING_CODES
        if error.code() != _ALL_BROKERS_DOWN and (not known or error.code() in _TELLING_CODES):
            self._reason = error

    def broker_count(self, timeout_s: float = REQUEST_TIMEOUT_S) -> int:
        """How many brokers the cluster has at this moment; 0 when none answers in time."""
        try:
            count = len(self._admin.list_topics(timeout=timeout_s).brokers)
        except KafkaException:
            self._admin.poll(0)  # calls `_take_note`
            return 0
        self._reason = None
        return count

    @property
    def silence(self) -> str:
        """One line for the fact that no broker answers, with the client's reason where it has one."""
        line = f"no Kafka broker answers at {self._bootstrap_servers}"
        if self._reason is None:
            return line
        line += f": {self._reason.str()} ({self._reason.name()})"
        if self._reason.code() != _SSL:
            return line
        problem = certificate_problem(self._bootstrap_servers, self._settings.get("ssl.ca.location"))
        return f"{line}: {problem}" if problem else line

    def answering(self) -> Self:
        """Itself, once a broker has answered: for tools, which do not wait for one.

        Raises:
            ConfigurationError: None does.
        """
        if not self.broker_count():
            raise ConfigurationError(self.silence)
        return self

    def missing_rights(self, topics: Mapping[str, Sequence[str]], groups: Iterable[str]) -> list[str]:
        """One line for each operation that the broker says is not ours; none from a broker that does not say.

        Args:
            topics: Operations that are needed on each, by Kafka's names; all of them exist.
            groups: Those that are read.
        """
        collection = TopicCollection(list(topics))
        asked: dict[str, tuple[Future[Any], Sequence[str]]] = {
            f"topic {name}": (future, topics[name])
            for name, future in self._admin.describe_topics(
                collection, include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
            ).items()
        }
        for group in groups:
            answers = self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
            )
            asked[f"group {group}"] = (answers[group], ["Read"])
        lines: list[str] = []
        for resource, (future, needed) in asked.items():
            lines += _missing(resource, future, needed)
        return lines

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Those of the named topics that exist.

        Raises:
            UnknownOutcomeError: No broker answers.
            TopicError: It refuses us.
        """
        wanted = list(dict.fromkeys(names))
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        existing = self._metadata()
        while self._created.intersection(wanted) - existing.keys() and time.monotonic() < deadline:
            time.sleep(10 * RETRY_PAUSE_S)  # one broker has told `create` of it, another has yet to hear of it
            existing = self._metadata()
        found = [name for name in wanted if name in existing]
        self._refuse_hidden([name for name in wanted if name not in existing])
        if not found:
            return {}
        settings: dict[str, Mapping[str, str]] = {}
        ids: dict[str, str] = {}
        while len(ids) < len(found):
            try:  # what was answered before a failure stays
                settings.update(self._topic_settings([name for name in found if name not in settings]))
                ids.update(self._topic_ids([name for name in found if name not in ids]))
            except KafkaException as problem:
                # As above.
                if _error(problem).code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                    name = next(name for name in found if name not in settings or name not in ids)
                    what = f"{name}: its settings cannot be read"
                    raise _unanswered(problem, what, f"topic {name}", "DescribeConfigs") from None
                time.sleep(10 * RETRY_PAUSE_S)
        return {
            name: TopicInfo(name, existing[name].partitions, settings[name], ids[name], existing[name].replication)
            for name in found
        }

    def _refuse_hidden(self, names: Sequence[str]) -> None:
        """A list of all topics leaves out those that we may not see: who asks by name is told.

        Raises:
            TopicError: We may not see one; all are named.
        """
        if not names:
            return
        answers = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_S)
        lines = [line for name, future in answers.items() for line in _missing(f"topic {name}", future, ["Describe"])]
        if lines:
            raise TopicError(lines)

    def _topic_settings(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
        """One topic after the other, as far as that goes."""
        if not names:
            return
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
        for resource, future in futures.items():
            entries = _result(future, REQUEST_TIMEOUT_S)
            yield resource.name, {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def _topic_ids(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """One topic after the other, as far as that goes; empty where the broker is older than KIP-516."""
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_S)
        for name, future in futures.items():
            found = str(_result(future, REQUEST_TIMEOUT_S).topic_id)
            # Kafka's own tools print the id with these two characters.
            yield name, "" if found == NO_TOPIC_ID else found.replace("+", "-").replace("/", "_")

    def _metadata(self) -> dict[str, _Shape]:
        """How large each topic is."""
        try:
            listed = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        except KafkaException as problem:
            self._admin.poll(0)  # calls `_take_note`
            raise _unanswered(problem, self.silence) from None
        return {
            name: _Shape(
                len(topic.partitions), min((len(one.replicas) for one in topic.partitions.values()), default=0)
            )
            for name, topic in listed.topics.items()
            if topic.error is None
        }

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics and wait until a broker knows them; `topics` then waits for the others.

        Args:
            topics: As they are to be.
            replication: Copies of each partition; -1: the broker's `default.replication.factor` (KIP-464).

        Raises:
            TopicError: The broker refused one; all are named.
        """
        wanted = [
            NewTopic(t.name, num_partitions=t.partitions, replication_factor=replication, config=dict(t.settings))
            for t in topics
        ]
        lines = []
        for name, future in self._admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_S).items():
            try:
                _result(future, REQUEST_TIMEOUT_S)
            except KafkaException as problem:
                if _error(problem).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    lines.append(_refusal(_error(problem), f"{name}: cannot be created", f"topic {name}", "Create"))
        if lines:
            raise TopicError(lines)
        self._created |= {topic.name for topic in topics}
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while missing := sorted({topic.name for topic in topics} - self._metadata().keys()):
            if time.monotonic() > deadline:
                raise TopicError(f"created, but not seen within {REQUEST_TIMEOUT_S:.0f} s: {', '.join(missing)}")
            time.sleep(RETRY_PAUSE_S)

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """A reader of one partition, at its first offset."""
        return KafkaLogReader(
            self._bootstrap_servers, partition, self._admin, self._settings, self._reader_group, committed=committed
        )

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """First offset, and the one behind the last record.

        Raises:
            UnknownOutcomeError: No broker answered in time.
        """
        return _query_watermarks(self._admin, partition)

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Up to where committed records may be read, and the end of the log.

        Raises:
            TopicError: The broker refuses us.
            UnknownOutcomeError: No broker answered in time.
        """
        last = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        kinds = [(last, IsolationLevel.READ_COMMITTED), (last, IsolationLevel.READ_UNCOMMITTED)]
        stable, high = _query_offsets(self._admin, _client(partitions), kinds, "open transactions")
        return dict(zip(partitions, map(Ends, stable, high), strict=True))

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed | None]:
        """A group's stable committed offsets; None where it has none.

        Raises:
            TopicError: The broker refuses to tell us.
            UnknownOutcomeError: No broker answered, or an open transaction held them, for `STABLE_TIMEOUT_S`.
        """
        request = ConsumerGroupTopicPartitions(group_id, _client(partitions))
        deadline = time.monotonic() + STABLE_TIMEOUT_S
        while True:
            futures = self._admin.list_consumer_group_offsets(
                [request], require_stable=True, request_timeout=REQUEST_TIMEOUT_S
            )
            try:
                answers = _result(futures[group_id], REQUEST_TIMEOUT_S).topic_partitions
            except KafkaException as problem:
                if time.monotonic() > deadline or _error(problem).code() in _REFUSED_CODES:
                    raise _unanswered(problem, f"committed offsets of {group_id}", f"group {group_id}") from None
                failed = True
            else:
                failed = any(answer.error is not None for answer in answers)
            if not failed:
                break
            if time.monotonic() > deadline:
                raise UnknownOutcomeError(f"committed offsets of {group_id} did not become stable")
            time.sleep(10 * RETRY_PAUSE_S)
        return {
            TopicPartition(a.topic, a.partition): Committed(a.offset, a.metadata or "") if a.offset >= 0 else None
            for a in answers
        }

    def members(self, group_id: str) -> Sequence[str]:
        """The `client.id` of each consumer in the group; a dead consumer counts until its session times out.

        Raises:
            TopicError: The broker refuses to tell us.
            UnknownOutcomeError: It did not answer in time.
        """
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            futures = self._admin.describe_consumer_groups([group_id], request_timeout=REQUEST_TIMEOUT_S)
            try:
                return [member.client_id for member in _result(futures[group_id], REQUEST_TIMEOUT_S).members]
            except KafkaException as problem:
                code = _error(problem).code()
                if code == KafkaError.GROUP_ID_NOT_FOUND:
                    return ()
                if code not in _COORDINATOR_CODES or time.monotonic() > deadline:
                    raise _unanswered(problem, f"members of {group_id}", f"group {group_id}", "Describe") from None
            time.sleep(10 * RETRY_PAUSE_S)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit offsets for a group that nobody is a member of.

        Raises:
            StateError: The group has members, or is being rebalanced.
            TopicError: The broker refuses us.
            UnknownOutcomeError: It did not answer in time.
        """
        wanted = [ClientPartition(*place, known.offset, known.metadata) for place, known in offsets.items()]
        request = ConsumerGroupTopicPartitions(group_id, wanted)
        futures = self._admin.alter_consumer_group_offsets([request], request_timeout=REQUEST_TIMEOUT_S)
        try:
            answers = _result(futures[group_id], REQUEST_TIMEOUT_S).topic_partitions
        except KafkaException as problem:
            failure: KafkaException | None = problem
        else:
            failure = next((KafkaException(answer.error) for answer in answers if answer.error is not None), None)
        if failure is None:
            return
        if _error(failure).code() in _OCCUPIED_CODES:
            raise StateError(f"{group_id}: the group has members; stop all of them first ({_text(failure)})")
        raise _unanswered(failure, f"offsets of {group_id} cannot be committed")

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete what lies below this offset, for good; the first offset then.

        Raises:
            TopicError: The broker refuses: a permission is lacking.
            UnknownOutcomeError: It did not answer in time.
        """
        place = ClientPartition(*partition, before)
        future = self._admin.delete_records([place], request_timeout=LOOK_TIMEOUT_S)[place]
        try:
            return int(_result(future, LOOK_TIMEOUT_S).low_watermark)
        except KafkaException as problem:
            what = f"{partition.topic}[{partition.partition}]: records below offset {before} cannot be deleted"
            raise _unanswered(problem, what, f"topic {partition.topic}", "Delete") from None


# Sender ---------------------------------------------------------------------------------------------------------------


class KafkaSender:
    """`ports.Sender` as an idempotent producer.

    Args:
        bootstrap_servers: Where the brokers are.
        settings: librdkafka's, over our own.
        partitions: See `ports.Sender`.
    """

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, str] | None = None, partitions: int | None = None
    ) -> None:
        self._partitions = partitions
        layers = (SENDER_TUNING, settings or {}, PRODUCER_GUARANTEES)
        self._producer: Producer = _made(Producer, _settings(bootstrap_servers, Outages(), *layers))
        self._sent = 0
        self._failed = 0
        self._first_failure = ""
        self._written: dict[tuple[str | None, int | None], list[int]] = {}

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            place = f"{message.topic()}[{message.partition()}]"
            self._first_failure = self._first_failure or f"{place}: {error.str()} ({error.name()})"
            return
        offset = message.offset() or 0
        place_key = (message.topic(), message.partition())
        span = self._written.get(place_key)
        if span is None:
            self._written[place_key] = [offset, offset + 1]
        elif offset >= span[1]:
            span[1] = offset + 1

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> None:
        """Queue one record."""
        if self._failed:
            self._raise_failed()
        if partition is None and key is not None and self._partitions is not None:
            partition = partition_of(key, self._partitions)
        number = -1 if partition is None else partition
        deadline = 0.0
        while True:
            try:
                if headers:
                    self._producer.produce(
                        topic, value, key, number, self._delivered, timestamp=timestamp_ms, headers=list(headers)
                    )
                else:
                    self._producer.produce(topic, value, key, number, self._delivered, None, timestamp_ms)
            except BufferError:
                deadline = deadline or time.monotonic() + ROOM_TIMEOUT_S
                if time.monotonic() > deadline:
                    raise DeliveryError(f"the send queue stayed full for {ROOM_TIMEOUT_S:.0f} s") from None
                self._producer.poll(RETRY_PAUSE_S)
            except KafkaException as problem:
                raise DeliveryError(f"{topic}: {_text(problem)}") from None
            else:
                break
        self._sent += 1
        if self._sent % 1_000 == 0:
            self._producer.poll(0)

    def _raise_failed(self) -> NoReturn:
        raise DeliveryError(f"{self._failed} of {self._sent} records were not delivered; first: {self._first_failure}")

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:
        """Wait for all records; where this sender has written."""
        left = self._producer.flush(timeout_s)
        if self._failed:
            self._raise_failed()
        if left:
            raise DeliveryError(f"{left} of {self._sent} records were not delivered within {timeout_s:g} s")
        return {TopicPartition(*place): Watermarks(*span) for place, span in self._written.items()}  # type: ignore[arg-type]

    def close(self) -> None:
        """Release the client; what was not flushed is given up."""
        self._producer.close()
