"""The addresses and the settings of the brokers of a local cluster."""

import base64
import json
import random
import socket
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

from stream_app.errors import ConfigurationError

HOST = "127.0.0.1"

_PORTS = range(20_000, 32_000)
"""Ports below those that systems use for outgoing connections. Otherwise a client that retries the port of a dead
broker could be given that very port for its own end, and connect to itself."""

_PORT_ATTEMPTS = 200
"""So many of 12,000 ports are never all in use by chance."""


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The node id of a broker, its port for clients and its port for the other brokers."""

    node: int
    port: int
    controller_port: int


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The id of a cluster and the ports of its brokers, as `cluster.json` has them."""

    cluster_id: str
    brokers: tuple[BrokerPorts, ...]

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, for `bootstrap.servers` of a client."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    def save(self, folder: Path) -> None:
        """Write `cluster.json` into the folder, atomically."""
        partial = folder / "cluster.json.partial"
        partial.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")
        partial.rename(folder / "cluster.json")

    @classmethod
    def load(cls, folder: Path) -> "ClusterPlan | None":
        """Return the plan in this folder; None without a plan."""
        file = folder / "cluster.json"
        if not file.exists():
            return None
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(data["cluster_id"], tuple(BrokerPorts(**broker) for broker in data["brokers"]))


def broker_properties(plan: ClusterPlan, broker: BrokerPorts, data: PurePath) -> Mapping[str, object]:
    """Return the settings of a broker that is also a controller: small, quick to start, replicated to all brokers."""
    replicas = min(3, len(plan.brokers))
    in_sync = max(1, replicas - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": broker.node,
        "controller.quorum.voters": ",".join(f"{b.node}@{HOST}:{b.controller_port}" for b in plan.brokers),
        "listeners": f"PLAINTEXT://{HOST}:{broker.port},CONTROLLER://{HOST}:{broker.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data,
        "num.partitions": 1,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        # few partitions: each costs files, and a quick start matters more here than spreading the load
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        # a transaction that took too long is noticed within a second, not ten
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # a dead broker is noticed within six seconds, not nine
        "broker.session.timeout.ms": 6000,
        "broker.heartbeat.interval.ms": 1000,
        # the default of 128 MB would be a quarter of the heap
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
    }


def new_cluster_id() -> str:
    """Return a new cluster id: a UUID in URL-safe base64 that does not look like an option of a command line."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def free_ports(count: int, wanted: Sequence[int]) -> list[int]:
    """Return `count` ports that are free at this moment: the wanted ports if all are free, or else any ports.

    Raises:
        ConfigurationError: There are not enough free ports.
    """
    if wanted:
        with ExitStack() as held:
            if all(_bind(port, held) for port in wanted):
                return list(wanted)
    ports: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(_PORTS, _PORT_ATTEMPTS):
            if _bind(port, held):
                ports.append(port)
                if len(ports) == count:
                    return ports
    raise ConfigurationError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")


def _bind(port: int, held: ExitStack) -> bool:
    holder = held.enter_context(socket.socket())
    # As Kafka does: the last connections of an earlier process do not block the port.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((HOST, port))
    except OSError:
        return False
    return True
