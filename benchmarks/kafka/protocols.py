"""What a kill and a join cost with each of Kafka's group protocols: `python -m benchmarks.kafka.protocols`.

Plain consumers of two topics, with the range assignor of the client (classic) and of the broker (KIP-848). A killed
member comes back at once under its `group.instance.id` (KIP-345).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM

TOPICS, PARTITIONS = ("a", "b"), 8
KILLS = 4
SETTLE_S = 10.0
LIMIT_S = 100.0
"""More than twice the session timeout that a broker has for consumers of KIP-848, 45 s."""
POLL_S = 0.02

SETTINGS: Mapping[str, Mapping[str, str | int]] = MappingProxyType(
    {
        "classic": {
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
            "partition.assignment.strategy": "range",
        },
        "consumer": {"group.remote.assignor": "range"},
    }
)
"""The settings of a member, by the name of its protocol."""


class _Change(NamedTuple):
    """A change of what a member has: when, and how many partitions it got (below 0: it gave them up)."""

    at_s: float
    partitions: int


def consume(servers: str, protocol: str, instance: str) -> None:
    """Be a member until the process is killed, and print each change as a line."""
    names = {"group.id": protocol, "group.protocol": protocol, "group.instance.id": instance}
    member = Consumer({"bootstrap.servers": servers, **names, **SETTINGS[protocol]})
    is_classic = protocol == "classic"

    def assigned(_: Consumer, got: list[TopicPartition]) -> None:
        (member.assign if is_classic else member.incremental_assign)(got)
        sys.stdout.write(json.dumps(_Change(time.time(), len(got))) + "\n")
        sys.stdout.flush()

    def revoked(_: Consumer, lost: list[TopicPartition]) -> None:
        sys.stdout.write(json.dumps(_Change(time.time(), -len(lost))) + "\n")
        sys.stdout.flush()
        if is_classic:
            member.unassign()
        else:
            member.incremental_unassign(lost)

    member.subscribe(list(TOPICS), on_assign=assigned, on_revoke=revoked)
    while True:
        member.poll(POLL_S)


class _Member:
    """A member in a process of its own."""

    def __init__(self, folder: Path, servers: str, protocol: str, instance: str) -> None:
        self._log = folder / f"{protocol}-{instance}-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "benchmarks.kafka.protocols", servers, protocol, instance]
        with self._log.open("wb") as output:
            self.process = KeptProcess(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)

    def changes(self) -> list[_Change]:
        """Return what has changed so far."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [_Change(*json.loads(line)) for line in lines if line.startswith("[") and line.endswith("]")]

    def first(self, since_s: float) -> float | None:
        """Wait for the first partitions since a time, and return the seconds until then; None if none came in time."""
        while time.time() < since_s + LIMIT_S:
            if found := [one.at_s - since_s for one in self.changes() if one.at_s > since_s and one.partitions > 0]:
                return found[0]
            time.sleep(POLL_S)
        return None

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def _two(start: Callable[[str], _Member]) -> Iterator[dict[str, _Member]]:
    """Yield two members that have their partitions, by name; members that are added end with them."""
    begin_s, members = time.time(), {name: start(name) for name in ("one", "two")}
    try:
        for member in members.values():
            member.first(begin_s)
        time.sleep(SETTLE_S)
        yield members
    finally:
        for member in members.values():
            member.kill()


def measure(protocol: str) -> Iterator[str]:
    """Yield a line for each kill, and for each change when a third member joins."""
    with temporary_folder("areba-protocols-") as folder, start_kafka(1, jvm=KAFKA_JVM) as kafka:
        servers = kafka.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
            created.result(LIMIT_S)

        def start(name: str) -> _Member:
            return _Member(folder, servers, protocol, name)

        for _ in range(KILLS):  # each in a new state: a member that waits for its former self would delay the next
            with _two(start) as members:
                members["one"].kill()
                killed_s = time.time()
                members["one"] = start("one")
                found = members["one"].first(killed_s)
                after = f"after {found:.2f} s" if found is not None else f"not within {LIMIT_S:.0f} s"
                yield f"{protocol}: killed, has partitions again {after}"
        with _two(start) as members:
            joined_s = time.time()
            members["three"] = start("three")
            members["three"].first(joined_s)
            time.sleep(SETTLE_S)
            for name, member in members.items():
                for one in member.changes():
                    if one.at_s > joined_s and one.partitions:
                        yield f"{protocol}: a third joins: {name} {one.partitions:+} after {one.at_s - joined_s:.2f} s"


if __name__ == "__main__":
    if sys.argv[1:]:
        consume(*sys.argv[1:])
    for name in SETTINGS:
        for line in measure(name):
            print(line, flush=True)
