"""A local Apache Kafka from its published jars: no container, no installation, Java and Maven only.

`python -m ops.local_kafka up | status | down` for people, `start()` for programs. Brokers listen on 127.0.0.1 alone, on
free ports, and keep everything in one folder:

    cluster.json          cluster id and ports
    broker-<n>.pid        its process
    broker-<n>.properties broker-<n>.log  broker-<n>.out  broker-<n>/ (data)

What `up` starts stays until `down`. What `start` starts ends with the process that called it, whatever way that ends:
a small shell process waits for the end of a pipe that the caller holds, then kills the brokers and removes a temporary
folder.
"""

import base64
import fcntl
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from types import TracebackType
from typing import Self

import click

from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.errors import ArebaError, ConfigurationError
from stream_app.terminal import Terminal, say

KAFKA_VERSION = "4.3.0"
HOST = "127.0.0.1"
ASSETS = Path(__file__).parent / "kafka"
DEFAULT_FOLDER = Path(".local/kafka")

JARS_TIMEOUT_S = 600.0
"""54 MB take 6 s on a good line; ten minutes are 90 kB a second."""

READY_TIMEOUT_S = 90.0
"""Three brokers take 6 s on two idle cores; a busy machine may take ten times that."""

STOP_TIMEOUT_S = 15.0
"""A broker with little data shuts down in 1-2 s; one that is waiting for a dead quorum never does."""

POLL_INTERVAL_S = 0.1

PORTS = range(20_000, 32_000)
"""Below what systems hand out for outgoing connections: a client that retries the port of a dead broker must not be
given that very port as its own and connect to itself."""

PORT_ATTEMPTS = 200
"""Among 12,000 ports; that many in a row are never taken by chance."""

LOG_TAIL_LINES = 25

_KEEPER = """
read -r _ || true
for file in "$1"/broker-*.pid; do
  if [ -f "$file" ]; then kill -KILL "$(cat "$file")"; fi
done
if [ "$2" = temporary ]; then sleep 0.2; rm -rf -- "$1"; sleep 2; rm -rf -- "$1"; fi
"""


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """One broker: its node id, and the ports for clients and for the other brokers."""

    node: int
    port: int
    controller_port: int


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What `cluster.json` holds."""

    cluster_id: str
    brokers: tuple[BrokerPorts, ...]

    @property
    def bootstrap_servers(self) -> str:
        """For `bootstrap.servers` of a client."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    def save(self, folder: Path) -> None:
        """Write it into the folder, whole or not at all."""
        partial = folder / "cluster.json.partial"
        partial.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")
        partial.rename(folder / "cluster.json")

    @classmethod
    def load(cls, folder: Path) -> "ClusterPlan | None":
        """The plan in this folder, if there is one."""
        file = folder / "cluster.json"
        if not file.exists():
            return None
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(data["cluster_id"], tuple(BrokerPorts(**broker) for broker in data["brokers"]))


# Jars -----------------------------------------------------------------------------------------------------------------


def missing_tools() -> list[str]:
    """Those of `java` and `mvn` that are not on the PATH."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def jars() -> Path:
    """The folder with the broker's jars, fetched by Maven on first use.

    Raises:
        ConfigurationError: Java or Maven is missing, Maven failed, or others may write to the folder.
    """
    missing = missing_tools()
    if missing:
        raise ConfigurationError(
            f"a local Kafka needs {' and '.join(missing)} on the PATH (Java 17 or newer, Maven 3.6 or newer); "
            "or give kafka.bootstrap_servers"
        )
    base = _cache_folder()
    folder = base / f"kafka-{KAFKA_VERSION}"
    pom = (ASSETS / "pom.xml").read_bytes()
    with _lock(base / f"kafka-{KAFKA_VERSION}.lock", JARS_TIMEOUT_S):
        marker = folder / "pom.sha256"
        digest = hashlib.sha256(pom).hexdigest()
        if not (marker.exists() and marker.read_text(encoding="utf-8") == digest):
            _fetch_jars(folder, pom)
            marker.write_text(digest, encoding="utf-8")
    return folder / "lib"


def _cache_folder() -> Path:
    base = (
        os.environ.get("AREBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "areba"
    )
    folder = Path(base).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(
            f"{folder}: others may write to the folder that programs are run from; set AREBA_CACHE_DIR"
        )
    return folder


def _fetch_jars(folder: Path, pom: bytes) -> None:
    """Replace the folder by one with what the pom names."""
    console = Terminal(stderr=True)
    console.print(
        f"Fetching Apache Kafka {KAFKA_VERSION} with Maven (54 MB, only this once) into {folder}", soft_wrap=True
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / "pom.xml").write_bytes(pom)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]
    try:
        with console.status("Fetching ..."):
            done = subprocess.run(  # noqa: PLW1510  (the status is read below)
                command, cwd=folder, capture_output=True, text=True, timeout=JARS_TIMEOUT_S, stdin=subprocess.DEVNULL
            )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"Maven did not fetch Kafka's jars within {JARS_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()[-LOG_TAIL_LINES:]
        raise ConfigurationError([f"Maven could not fetch Kafka's jars (exit status {done.returncode}):", *lines])


@contextmanager
def _lock(file: Path, timeout_s: float) -> Iterator[None]:
    """Hold a file lock; it ends with the process, however that ends."""
    deadline = time.monotonic() + timeout_s
    with file.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigurationError(f"{file}: held by another process for {timeout_s:.0f} s") from None
                time.sleep(POLL_INTERVAL_S)
            else:
                break
        yield


# One broker -----------------------------------------------------------------------------------------------------------


def properties_of(plan: ClusterPlan, broker: BrokerPorts, data: PurePath) -> Mapping[str, object]:
    """The broker's settings: broker and controller in one process, small, quick, and replicated as far as it can be."""
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
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        # few partitions: each costs files, and a quick start is worth more here than spreading
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


def _format(folder: Path, plan: ClusterPlan, library: Path) -> None:
    """Prepare every broker's data folder; one that is prepared already is left as it is."""
    running = []
    for broker in plan.brokers:
        data = folder / f"broker-{broker.node}"
        lines = [f"{name}={value}\n" for name, value in properties_of(plan, broker, data).items()]
        properties = folder / f"broker-{broker.node}.properties"
        properties.write_text("".join(lines), encoding="utf-8")
        if not (data / "meta.properties").exists():
            command = [*_java(library, folder, broker.node), "kafka.tools.StorageTool", "format"]
            command += ["-t", plan.cluster_id, "-c", str(properties), "--ignore-formatted"]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            _note(folder, broker.node, process.pid)
            running.append(process)
    try:
        for process in running:
            text, _ = process.communicate(timeout=READY_TIMEOUT_S)
            if process.returncode != 0:
                lines = text.splitlines()[-LOG_TAIL_LINES:]
                raise ConfigurationError(["Kafka could not prepare its data folder:", *lines])
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"Kafka did not prepare its data folder within {READY_TIMEOUT_S:.0f} s") from None
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _note(folder: Path, node: int, pid: int) -> None:
    """Write down what runs for this broker, for those who have to end it."""
    (folder / f"broker-{node}.pid").write_text(f"{pid}\n", encoding="utf-8")


def _java(library: Path, folder: Path, node: int) -> list[str]:
    return [
        "java",
        "-Xms256m",
        "-XX:TieredStopAtLevel=1",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={ASSETS / 'log4j2.xml'}",
        f"-Dareba.log={folder / f'broker-{node}.log'}",
        "-cp",
        str(library / "*"),
    ]


def _spawn(folder: Path, node: int, library: Path) -> "subprocess.Popen[bytes]":
    """Start a broker in a session of its own (a Ctrl-C for its caller is none for it) and note its process."""
    properties = folder / f"broker-{node}.properties"
    with (folder / f"broker-{node}.out").open("ab") as output:
        process = subprocess.Popen(
            [*_java(library, folder, node), "kafka.Kafka", str(properties)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _note(folder, node, process.pid)
    return process


def _pid(folder: Path, node: int) -> int | None:
    """The process of this broker, if it runs (and is what the file says: ids are used again)."""
    try:
        pid = int((folder / f"broker-{node}.pid").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    marker = str(folder / f"broker-{node}.properties")
    return pid if marker in _command_line(pid) else None


def _command_line(pid: int) -> str:
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _log_tail(folder: Path, node: int) -> list[str]:
    lines: deque[str] = deque(maxlen=LOG_TAIL_LINES)
    for suffix in ("out", "log"):
        file = folder / f"broker-{node}.{suffix}"
        if file.exists():
            with file.open(encoding="utf-8", errors="replace") as handle:
                lines.extend(line.rstrip() for line in handle)
    return list(lines)


def _end(folder: Path, node: int, number: signal.Signals) -> None:
    pid = _pid(folder, node)
    if pid is not None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _stop_all(folder: Path, nodes: Sequence[int], *, at_once: bool) -> None:
    """End the brokers: asked first, and killed if they do not end in time (or `at_once`)."""
    if not at_once:
        for node in nodes:
            _end(folder, node, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline and any(_pid(folder, node) for node in nodes):
            time.sleep(POLL_INTERVAL_S)
    for node in nodes:
        _end(folder, node, signal.SIGKILL)
    while any(_pid(folder, node) for node in nodes):  # ends: nothing outlives SIGKILL
        time.sleep(POLL_INTERVAL_S)
    for node in nodes:
        (folder / f"broker-{node}.pid").unlink(missing_ok=True)


# The cluster ----------------------------------------------------------------------------------------------------------


class LocalKafka:
    """A running cluster; leaving the `with` block, or `stop`, ends it."""

    def __init__(self, folder: Path, plan: ClusterPlan, library: Path, *, temporary: bool) -> None:
        self.folder = folder
        self.plan = plan
        self._temporary = temporary
        self._library = library
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """For `bootstrap.servers` of a client."""
        return self.plan.bootstrap_servers

    def keep_until_we_end(self) -> None:
        """Have the brokers killed when this process ends, even by SIGKILL."""
        kind = "temporary" if self._temporary else "lasting"
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", str(self.folder), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def launch(self) -> None:
        """Start every broker and wait until all have joined.

        Raises:
            ConfigurationError: One died (with the tail of its log), or they were not ready in time.
        """
        _format(self.folder, self.plan, self._library)
        for broker in self.plan.brokers:
            self._processes[broker.node] = _spawn(self.folder, broker.node, self._library)
        self.wait_ready()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every broker that was started has joined. Raises as `launch` does."""
        deadline = time.monotonic() + timeout_s
        cluster = KafkaCluster(self.bootstrap_servers)
        while not (self._all_listen() and cluster.broker_count(timeout_s=1.0) >= len(self._processes)):
            for node, process in self._processes.items():
                if process.poll() is not None:
                    lines = [f"Kafka broker {node} ended with status {process.returncode}; the end of its log:"]
                    raise ConfigurationError([*lines, *_log_tail(self.folder, node)])
            if time.monotonic() > deadline:
                node = self.plan.brokers[0].node
                lines = [f"Kafka was not ready within {timeout_s:.0f} s; the end of the log of broker {node}:"]
                raise ConfigurationError([*lines, *_log_tail(self.folder, node)])
            time.sleep(POLL_INTERVAL_S)

    def _all_listen(self) -> bool:
        """Whether every started broker takes connections; the cluster counts a killed one for some seconds more."""
        for broker in self.plan.brokers:
            if broker.node in self._processes:
                try:
                    socket.create_connection((HOST, broker.port), timeout=1.0).close()
                except OSError:
                    return False
        return True

    def kill(self, broker: int) -> None:
        """SIGKILL the broker with this node id (1, 2, ...) and wait for its end."""
        process = self._processes.pop(broker)
        process.kill()
        process.wait()
        (self.folder / f"broker-{broker}.pid").unlink(missing_ok=True)

    def restart(self, *brokers: int) -> None:
        """Start killed brokers again, on their ports and their data, and wait until they have joined."""
        for broker in brokers:
            self._processes[broker] = _spawn(self.folder, broker, self._library)
        self.wait_ready()

    def pid(self, broker: int) -> int:
        """The process of this broker, to be sent a signal."""
        return self._processes[broker].pid

    def stop(self) -> None:
        """End all brokers; a temporary folder is removed. Does nothing the second time."""
        _stop_all(self.folder, [broker.node for broker in self.plan.brokers], at_once=self._temporary)
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


def start(brokers: int = 1, folder: Path | None = None) -> LocalKafka:
    """Start a cluster that ends with this process at the latest.

    Args:
        brokers: How many, 1 to 3; topics and transactions are replicated to all.
        folder: Where it keeps its data; None is a temporary folder that is removed in the end.

    Raises:
        ConfigurationError: Java or Maven is missing, or the cluster did not come up.
    """
    library = jars()
    target = Path(tempfile.mkdtemp(prefix="areba-kafka-")) if folder is None else folder.absolute()
    kafka = LocalKafka(target, _plan(target, brokers), library, temporary=folder is None)
    with ExitStack() as undo:
        undo.callback(kafka.stop)
        kafka.keep_until_we_end()
        kafka.launch()
        undo.pop_all()
    return kafka


def _plan(folder: Path, brokers: int) -> ClusterPlan:
    """The plan of this folder, with the ports that it had where these are free.

    Raises:
        ConfigurationError: The folder's cluster runs, or has another number of brokers.
    """
    if not 1 <= brokers <= 3:
        raise ConfigurationError(f"a local Kafka has 1 to 3 brokers, not {brokers}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plan = ClusterPlan.load(folder)
    if plan is not None and len(plan.brokers) != brokers:
        raise ConfigurationError(
            f"{folder} holds a cluster of {len(plan.brokers)}, not of {brokers}; use another folder"
        )
    if plan is not None and any(_pid(folder, broker.node) for broker in plan.brokers):
        raise ConfigurationError(f"{folder}: its Kafka runs already, at {plan.bootstrap_servers}")
    wanted = [port for broker in plan.brokers for port in (broker.port, broker.controller_port)] if plan else []
    ports = free_ports(2 * brokers, wanted)
    plan = ClusterPlan(
        plan.cluster_id if plan else new_cluster_id(),
        tuple(BrokerPorts(node + 1, ports[2 * node], ports[2 * node + 1]) for node in range(brokers)),
    )
    plan.save(folder)
    return plan


def new_cluster_id() -> str:
    """Kafka's form: a UUID in URL-safe base64; one that looks like an option is no good on a command line."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def free_ports(count: int, wanted: Sequence[int]) -> list[int]:
    """`count` ports that are free at this moment: the wanted ones if all of them are, else any."""
    if wanted:
        with ExitStack() as held:
            if all(_bind(port, held) for port in wanted):
                return list(wanted)
    ports: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(PORTS, PORT_ATTEMPTS):
            if _bind(port, held):
                ports.append(port)
                if len(ports) == count:
                    return ports
    raise ConfigurationError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")


def _bind(port: int, held: ExitStack) -> bool:
    holder = held.enter_context(socket.socket())
    holder.setsockopt(
        socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
    )  # as Kafka does: a port's last connections do not block it
    try:
        holder.bind((HOST, port))
    except OSError:
        return False
    return True


# The command ----------------------------------------------------------------------------------------------------------

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="where the cluster keeps its data and its process ids",
)


@click.group(help=f"A local Apache Kafka {KAFKA_VERSION} on {HOST}, from its published jars.")
def main() -> None:
    """The command."""


@main.command()
@click.option("--brokers", type=click.IntRange(1, 3), default=1, show_default=True, help="how many")
@folder_option
def up(brokers: int, folder: Path) -> None:
    """Start a cluster, or say that it runs; it stays until `down`."""
    library = jars()
    folder = folder.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(folder / "lock", READY_TIMEOUT_S):
        plan = ClusterPlan.load(folder)
        running = plan is not None and any(_pid(folder, broker.node) for broker in plan.brokers)
        if not (plan and running and len(plan.brokers) == brokers):
            kafka = LocalKafka(folder, _plan(folder, brokers), library, temporary=False)
            with ExitStack() as undo:
                undo.callback(kafka.stop)
                kafka.launch()
                undo.pop_all()
    _report(folder)


@main.command()
@folder_option
def status(folder: Path) -> None:
    """Say which brokers run; exit status 1 unless all do."""
    sys.exit(0 if _report(folder.absolute()) else 1)


@main.command()
@click.option("--delete", is_flag=True, help="remove the folder with all data, too")
@folder_option
def down(*, delete: bool, folder: Path) -> None:
    """Stop the cluster; its data stays in the folder."""
    folder = folder.absolute()
    plan = ClusterPlan.load(folder)
    if plan is None:
        say(f"No cluster in {folder}")
        return
    with _lock(folder / "lock", READY_TIMEOUT_S):
        _stop_all(folder, [broker.node for broker in plan.brokers], at_once=delete)
    if delete:
        shutil.rmtree(folder)
    say(f"Stopped; {'its folder is removed' if delete else f'its data stays in {folder}'}")


def _report(folder: Path) -> bool:
    """Print one line for each broker, and how to use them; whether all run."""
    plan = ClusterPlan.load(folder)
    if plan is None:
        say(f"No cluster in {folder}")
        return False
    pids = {broker: _pid(folder, broker.node) for broker in plan.brokers}
    for broker, pid in pids.items():
        state = f"runs (process {pid})" if pid else "is stopped"
        say(f"broker {broker.node} {state}, {HOST}:{broker.port}, log {folder / f'broker-{broker.node}.log'}")
    if any(pids.values()):
        say(f"export AREBA_KAFKA__BOOTSTRAP_SERVERS={plan.bootstrap_servers}")
    return all(pids.values())


if __name__ == "__main__":
    try:
        main()
    except ArebaError as problem:
        for line in problem.lines:
            say(line, err=True)
        sys.exit(problem.exit_code)
