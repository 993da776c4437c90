"""A broker that forgets in seconds what brokers forget in days: ids, offsets, records and connections."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from ops.local_kafka import cluster, processes
from ops.local_kafka.plan import broker_properties, free_ports

FORGETS_S = 4.0
"""So long after the last transaction, the broker forgets a transactional id; it closes connections that are idle for as
long, and asks for the password again."""

OFFSETS_S = 60.0
"""So long after its last member has left, a group loses its offsets; brokers take whole minutes."""

_FORGETS: Mapping[str, object] = {
    "transactional.id.expiration.ms": int(1000 * FORGETS_S),  # 7 days by default
    "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
    "producer.id.expiration.ms": int(1000 * FORGETS_S),  # a day
    "producer.id.expiration.check.interval.ms": 500,
    "offsets.retention.minutes": 1,  # 7 days
    "offsets.retention.check.interval.ms": 1_000,
    "connections.max.idle.ms": int(1000 * FORGETS_S),  # 10 minutes
    "connections.max.reauth.ms": int(1000 * FORGETS_S),  # as long as a token is valid
    "log.retention.check.interval.ms": 1_000,  # 5 minutes
    "log.segment.delete.delay.ms": 100,
    "log.cleaner.backoff.ms": 500,
}

_PASSWORD = "correct-horse"  # noqa: S105  (of a broker that lives for some minutes, on this machine alone)


@dataclass(frozen=True)
class HastyKafka:
    """The addresses of the broker: one is open, the other asks for a password."""

    open_servers: str
    servers: str

    @property
    def client(self) -> dict[str, str]:
        """Settings of a client of the address that asks for a password."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "app",
            "sasl.password": _PASSWORD,
        }


@contextmanager
def hasty_kafka() -> Iterator[HastyKafka]:
    """Run the broker during the block."""
    (port,) = free_ports(1, [])
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    more = {
        **_FORGETS,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.asks.plain.sasl.jaas.config": f'{module} user_app="{_PASSWORD}";',
    }

    def properties(*arguments: object) -> dict[str, object]:
        settings = {**broker_properties(*arguments), **more}  # type: ignore[arg-type]
        for name in ("listeners", "advertised.listeners"):
            settings[name] = f"{settings[name]},ASKS://127.0.0.1:{port}"
        protocols = settings["listener.security.protocol.map"]
        settings["listener.security.protocol.map"] = f"{protocols},ASKS:SASL_PLAINTEXT"
        return settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "broker_properties", properties)
        kafka = cluster.start(1)
    with kafka:
        yield HastyKafka(kafka.bootstrap_servers, f"127.0.0.1:{port}")
