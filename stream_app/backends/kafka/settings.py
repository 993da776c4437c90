"""How the clients of Kafka are configured.

Settings come in three layers: tuned values, over them the user's, over them the settings that the guarantees of the
application depend on.

    read_committed, auto.offset.reset=error,    nothing of an aborted transaction is read, and no record is skipped or
    no auto-commit, enable.partition.eof        read twice without an error
    partition.assignment.strategy=range         partitions are assigned eagerly; a member reads the labels that belong
                                                to its examples
    enable.idempotence, acks=all                a retry neither duplicates nor reorders records
    partitioner=murmur2_random                  a key goes to the partition to which a Java producer sends it
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from stream_app.backends.base import CLIENT_NAME, MAX_BATCH_BYTES
from stream_app.backends.kafka.errors import ALL_BROKERS_DOWN, error_text
from stream_app.backends.kafka.librdkafka.client import Callbacks
from stream_app.backends.kafka.outages import Outages
from stream_app.errors import ConfigurationError

LOGGER = logging.getLogger("areba.kafka")

_OTHER_CLUSTER = "CLUSTERID"
"""The facility of the line in which librdkafka says that a broker belongs to another cluster than the client knows."""

_PARTITION_COUNT = "PARTCNT"
"""The facility of the line in which librdkafka says that the number of a topic's partitions has changed."""

READER_GROUP = "areba/log-reader"
"""The group id of readers that belong to no application. They join no group, but a client asks for the coordinator of
its group all the same."""

CONSUMER_TUNING: Mapping[str, object] = MappingProxyType(
    {
        "session.timeout.ms": 6_000,  # the partitions of a killed member wait for this long; brokers allow no less
        "heartbeat.interval.ms": 200,  # a member learns of a rebalance by its next heartbeat, and all wait for the last
        "fetch.queue.backoff.ms": 5,  # the default of 1 s stalls a fast consumer whose queue was full for a moment
        "fetch.wait.max.ms": 10,  # an end-of-partition event is never older than this
        "fetch.error.backoff.ms": 50,
        "queued.max.messages.kbytes": 16_384,  # memory for records that are fetched ahead
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
        "transaction.timeout.ms": 10_000,  # the transaction of a killed member delays readers for this long
        "retry.backoff.ms": 1,  # the coordinator asks for one retry; with the default, a small transaction takes 100 ms
        "retry.backoff.max.ms": 100,
        "reconnect.backoff.max.ms": 1_000,
        # Once all connections are lost, "rebootstrap" gives up the object of each broker, and the cache of coordinators
        # keeps this object, which never connects again: `send_offsets` would wait for it until the transaction ends.
        "metadata.recovery.strategy": "none",
        "linger.ms": 5,  # a commit flushes at once in any case
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
        "allow.auto.create.topics": False,  # of a deleted topic, with the broker's number of partitions
        "message.max.bytes": 1_000_000_000,  # the client's maximum; the limits of the topics apply
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

CLIENT_PROBLEM = "kafka settings: "
"""The beginning of an error about a setting of a client."""

Client = TypeVar("Client")
"""A client of confluent-kafka, or ours."""

_RETRIED = ": retrying"
"""The end of a line about a request that the client sends again."""

_ADMIN_PREFIXES = ("security.", "ssl.", "sasl.", "socket.", "broker.", "client.", "enable.ssl")


class _ClientLogger:
    """Passes librdkafka's log lines on; lines that need no attention get level DEBUG.

    `Outages` reports broken connections, of which the client writes a line every second. Retries of the client are
    ordinary: each start of a worker whose former transaction is just being ended has a few. So is a topic with more
    partitions than before: `areba repartition` makes them, and a worker reports others itself.
    """

    def __init__(self, outages: Outages) -> None:
        self._outages = outages

    def log(self, level: int, _form: str, facility: str, _client: str, text: str) -> None:
        """Take a line as confluent-kafka gives it."""
        self.line(level, facility, text)

    def line(self, level: int, facility: str, text: str) -> None:
        """Pass a line on."""
        is_effect = self._outages.is_suspected and facility != _OTHER_CLUSTER
        is_about_connection = is_effect or facility in {"FAIL", "ERROR"}
        is_quiet = is_about_connection or facility == _PARTITION_COUNT or text.endswith(_RETRIED)
        LOGGER.log(logging.DEBUG if is_quiet else level, "%s: %s", facility, text)


def _error_callback(outages: Outages) -> Callable[[KafkaError], None]:
    """Return what handles the errors of a client that belong to no call."""

    def on_error(error: KafkaError) -> None:
        if error.code() == ALL_BROKERS_DOWN:
            outages.suspect(error.str())
        else:
            outages.note(error)

    return on_error


def callbacks(outages: Outages) -> Callbacks:
    """Return what a client of `librdkafka` calls; `outages` is informed when the client has lost all brokers."""
    return Callbacks(_error_callback(outages), _ClientLogger(outages).line)


def merged_settings(bootstrap_servers: str, *layers: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a client: the layers, later ones over earlier ones, and what every client has."""
    merged: dict[str, Any] = {"log.connection.close": False, "reconnect.backoff.max.ms": 1_000}
    for layer in layers:
        merged.update(layer)
    merged["client.id"] = "/".join(filter(None, (CLIENT_NAME, merged.get("client.id"))))
    return {**merged, "bootstrap.servers": bootstrap_servers}


def client_settings(bootstrap_servers: str, outages: Outages, *layers: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a client of confluent-kafka; see `merged_settings` and `callbacks`."""
    merged = merged_settings(bootstrap_servers, *layers)
    return {**merged, "error_cb": _error_callback(outages), "logger": _ClientLogger(outages)}


def admin_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that any client understands; the client would warn of the others."""
    return {name: value for name, value in settings.items() if name.startswith(_ADMIN_PREFIXES)}


def create_client(make: Callable[[dict[str, Any]], Client], settings: dict[str, Any]) -> Client:
    """Create a client of librdkafka.

    Raises:
        ConfigurationError: librdkafka does not know a setting, or does not accept its value.
    """
    try:
        return make(settings)
    except (KafkaException, ValueError, TypeError) as problem:
        raise ConfigurationError(f"{CLIENT_PROBLEM}{error_text(problem)}") from None
