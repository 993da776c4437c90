"""Which settings of the clients of Kafka and of a registry a user may set, which are refused, and which are secret."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator

SECRET = re.compile(
    r"password|secret|token|passphrase|credential|private|jaas|key\.pem|sasl\.oauthbearer\.config|user\.info",
    re.IGNORECASE,
)
"""Matches names of settings whose values must never reach a log."""

REDACTED = "***"

CLIENT_SECTIONS = frozenset({"kafka__all", "kafka__consumer", "kafka__producer", "serialization__schema_registry"})
"""The sections with settings of a client, as variables of the environment name them: the secrets are there."""

_EXACTLY_ONCE = "exactly-once delivery depends on it"
_CALLBACK = "takes a function, which a file cannot hold"

REFUSED_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap.servers": "set kafka.bootstrap_servers instead",
        "metadata.broker.list": "set kafka.bootstrap_servers instead",
        "enable.idempotence": f"always on: {_EXACTLY_ONCE}",
        "acks": f"always all: {_EXACTLY_ONCE}",
        "request.required.acks": f"always all: {_EXACTLY_ONCE}",
        "max.in.flight": "set by the idempotent producer: more than 5 may reorder records",
        "max.in.flight.requests.per.connection": "set by the idempotent producer: more than 5 may reorder records",
        "retries": "set by the idempotent producer: a lost record would leave a gap",
        "message.send.max.retries": "set by the idempotent producer: a lost record would leave a gap",
        "queuing.strategy": "always fifo: outputs leave in merge order",
        "msg_order_cmp": "outputs leave in merge order",
        "transactional.id": "made from application.id and application.instance: a new process fences the former one",
        "transaction.timeout.ms": "always 10000: exit statuses and the wait after a crash depend on it",
        "message.timeout.ms": "follows transaction.timeout.ms: no record may outlive its transaction",
        "delivery.timeout.ms": "follows transaction.timeout.ms: no record may outlive its transaction",
        "isolation.level": "always read_committed: an aborted record must never be learned",
        "enable.auto.commit": "always off: offsets are committed by the transaction that holds their outputs",
        "auto.commit.enable": "always off: offsets are committed by the transaction that holds their outputs",
        "auto.commit.interval.ms": "there is no auto-commit; see worker.commit_interval_ms",
        "enable.auto.offset.store": "always off: offsets are committed by the transaction that holds their outputs",
        "offset.store.method": "always the broker: offsets are committed by the transaction that holds their outputs",
        "auto.offset.reset": "always error: a jump to another offset would lose records silently",
        "group.id": "always application.id",
        "group.instance.id": "always application.instance: a restarted worker takes over from the former one",
        "group.protocol": "always classic: the eager assignor gives examples and labels of a partition to one worker",
        "group.remote.assignor": "always range: it gives examples and labels of a partition to one worker",
        "partition.assignment.strategy": "always range: it gives examples and labels of a partition to one worker",
        "enable.partition.eof": "always on: the merge must know when a partition has ended",
        "message.max.bytes": "sizes are checked against max.message.bytes of each topic",
        "batch.size": "always 1000000: the check of the topics relies on it",
        "partitioner": "outputs go to the partition of their inputs; producers of inputs use murmur2_random",
        "partitioner_cb": _CALLBACK,
        "default.topic.config": "obsolete: write its settings beside the others",
        "error_cb": _CALLBACK,
        "stats_cb": _CALLBACK,
        "throttle_cb": _CALLBACK,
        "oauth_cb": _CALLBACK,
        "rebalance_cb": _CALLBACK,
        "on_commit": _CALLBACK,
        "on_delivery": _CALLBACK,
        "dr_cb": _CALLBACK,
        "logger": _CALLBACK,
    }
)
"""Settings of librdkafka that a user may not set, with the reason: a guarantee depends on it, or it is not text."""


def is_own_file_setting(name: str) -> bool:
    """Say whether librdkafka itself has this setting, whose value is a path."""
    return name.startswith("sasl.oauthbearer.assertion.") and name.endswith(".file")


def _client_name(name: str) -> str:
    if name in REFUSED_SETTINGS:
        raise ValueError(f"cannot be set: {REFUSED_SETTINGS[name]}")
    return name


def _client_value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_MAX_REGISTRY_TIMEOUT_S = 30.0
"""The most that `serialization.schema_registry.timeout` may be."""


def _registry_name(name: str) -> str:
    if name.startswith(("max.retries", "retries.", "cache.")):
        raise ValueError("cannot be set: areba fixes the retries of requests to a registry")
    return name


def _registry_settings(settings: Mapping[str, str]) -> Mapping[str, str]:
    if "@" in settings.get("url", ""):
        raise ValueError("url: must not contain a password, which would be shown; use basic.auth.user.info")
    try:
        timeout_s = float(settings.get("timeout", 1))
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s <= _MAX_REGISTRY_TIMEOUT_S:
        raise ValueError(f"timeout: must be more than 0 and at most {_MAX_REGISTRY_TIMEOUT_S:g} seconds")
    return settings


RegistryName: TypeAlias = Annotated[str, AfterValidator(_registry_name)]
WithoutPassword = AfterValidator(_registry_settings)
ClientName: TypeAlias = Annotated[str, AfterValidator(_client_name)]
ClientValue: TypeAlias = Annotated[str, BeforeValidator(_client_value)]


def redact(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with `REDACTED` for the value of each secret, at any depth."""
    return {
        name: redact(value) if isinstance(value, Mapping) else REDACTED if SECRET.search(name) else value
        for name, value in data.items()
    }
