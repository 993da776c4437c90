"""A local cluster as an object: start it, kill and restart single brokers, stop it."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ops.local_kafka import processes
from ops.local_kafka.jars import kafka_jars
from ops.local_kafka.plan import HOST, BrokerPorts, ClusterPlan, free_ports, new_cluster_id
from ops.local_kafka.processes import FRUGAL_JVM, POLL_INTERVAL_S, READY_TIMEOUT_S
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.errors import ConfigurationError

_KEEPER_SCRIPT = """
read -r _ || true
for file in "$1"/broker-*.pid; do
  if [ -f "$file" ]; then kill -KILL "$(cat "$file")"; fi
done
if [ "$2" = temporary ]; then sleep 0.2; rm -rf -- "$1"; sleep 2; rm -rf -- "$1"; fi
"""
"""Waits for the end of its input, then kills the brokers and removes a temporary folder.

The folder is removed twice, because brokers that are being killed may still write to it."""


class LocalKafka:
    """A running cluster. Leaving the `with` block, or `stop`, ends it.

    Args:
        folder: The folder with everything that the cluster keeps.
        plan: Its id and its ports.
        library: The folder with Kafka's jars.
        jvm: The options of each broker's Java.
        temporary: Whether the folder is removed when the cluster ends.
    """

    def __init__(self, folder: Path, plan: ClusterPlan, library: Path, jvm: Sequence[str], *, temporary: bool) -> None:
        self.folder = folder
        self.plan = plan
        self._temporary = temporary
        self._library = library
        self._jvm = jvm
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, for `bootstrap.servers` of a client."""
        return self.plan.bootstrap_servers

    def end_with_this_process(self) -> None:
        """Have the brokers killed when this process ends, even if SIGKILL ends it."""
        kind = "temporary" if self._temporary else "lasting"
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER_SCRIPT, "keeper", str(self.folder), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def launch(self) -> None:
        """Start every broker and wait until all have joined the cluster.

        Raises:
            ConfigurationError: A broker ended, or they were not ready in time; the error has the tail of a log.
        """
        processes.prepare_folders(self.folder, self.plan, self._library)
        for broker in self.plan.brokers:
            self._processes[broker.node] = processes.spawn(self.folder, broker.node, self._library, self._jvm)
        self.wait_ready()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every broker that was started has joined the cluster. Raises as `launch` does."""
        deadline = time.monotonic() + timeout_s
        cluster = KafkaCluster(self.bootstrap_servers)
        while not (self._all_listen() and cluster.broker_count(timeout_s=1.0) >= len(self._processes)):
            for node, process in self._processes.items():
                if process.poll() is not None:
                    lines = [f"Kafka broker {node} ended with status {process.returncode}; the end of its log:"]
                    raise ConfigurationError([*lines, *processes.log_tail(self.folder, node)])
            if time.monotonic() > deadline:
                node = self.plan.brokers[0].node
                lines = [f"Kafka was not ready within {timeout_s:.0f} s; the end of the log of broker {node}:"]
                raise ConfigurationError([*lines, *processes.log_tail(self.folder, node)])
            time.sleep(POLL_INTERVAL_S)

    def _all_listen(self) -> bool:
        """Say whether every started broker accepts connections; the cluster counts a killed broker for some seconds."""
        for broker in self.plan.brokers:
            if broker.node in self._processes:
                try:
                    socket.create_connection((HOST, broker.port), timeout=1.0).close()
                except OSError:
                    return False
        return True

    def kill(self, broker: int) -> None:
        """Kill the broker with this node id (1, 2, ...) with SIGKILL and wait for its end."""
        process = self._processes.pop(broker)
        process.kill()
        process.wait()
        (self.folder / f"broker-{broker}.pid").unlink(missing_ok=True)

    def restart(self, *brokers: int) -> None:
        """Start killed brokers again, with their ports and data, and wait until they have joined the cluster."""
        for broker in brokers:
            self._processes[broker] = processes.spawn(self.folder, broker, self._library, self._jvm)
        self.wait_ready()

    def pid(self, broker: int) -> int:
        """Return the id of the process of a broker that was started."""
        return self._processes[broker].pid

    def stop(self) -> None:
        """End all brokers and remove a temporary folder; the second call does nothing."""
        processes.stop_all(self.folder, [broker.node for broker in self.plan.brokers], at_once=self._temporary)
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(brokers: int = 1, folder: Path | None = None, jvm: Sequence[str] = FRUGAL_JVM) -> LocalKafka:
    """Start a cluster that ends with this process at the latest.

    Args:
        brokers: The number of brokers, 1 to 3; topics and transactions are replicated to all.
        folder: The folder for its data; None: a temporary folder, which is removed in the end.
        jvm: The options of each broker's Java; benchmarks use `KAFKA_JVM`, as users have it.

    Raises:
        ConfigurationError: Java or Maven is missing, or the cluster did not start.
    """
    library = kafka_jars()
    target = Path(tempfile.mkdtemp(prefix="areba-kafka-")) if folder is None else folder.absolute()
    kafka = LocalKafka(target, prepare_plan(target, brokers), library, jvm, temporary=folder is None)
    with ExitStack() as undo:
        undo.callback(kafka.stop)
        kafka.end_with_this_process()
        kafka.launch()
        undo.pop_all()
    return kafka


def prepare_plan(folder: Path, brokers: int) -> ClusterPlan:
    """Return the plan of the cluster in this folder, and save it; its earlier ports are kept if all are free.

    Raises:
        ConfigurationError: The cluster of the folder runs, or has another number of brokers.
    """
    if not 1 <= brokers <= 3:
        raise ConfigurationError(f"a local Kafka has 1 to 3 brokers, not {brokers}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plan = ClusterPlan.load(folder)
    if plan is not None and len(plan.brokers) != brokers:
        raise ConfigurationError(
            f"{folder} holds a cluster with --brokers {len(plan.brokers)}, not {brokers}; use another folder"
        )
    if plan is not None and any(processes.broker_pid(folder, broker.node) for broker in plan.brokers):
        raise ConfigurationError(f"{folder}: a Kafka is already running from this folder, at {plan.bootstrap_servers}")
    wanted = [port for broker in plan.brokers for port in (broker.port, broker.controller_port)] if plan else []
    ports = free_ports(2 * brokers, wanted)
    plan = ClusterPlan(
        plan.cluster_id if plan else new_cluster_id(),
        tuple(BrokerPorts(node + 1, ports[2 * node], ports[2 * node + 1]) for node in range(brokers)),
    )
    plan.save(folder)
    return plan
