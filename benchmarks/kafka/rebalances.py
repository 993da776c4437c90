"""What a rebalance costs: a third worker joins and leaves two others, then all three are replaced, under a steady flow.

A commit gap is the time between two batches of predictions of a task, as a reader of committed records sees them. The
start of a worker takes CPU from the others, so the same gaps are measured while a process starts that does the same
work and joins no group.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.rows import Row, below
from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.partitioner import partition_of
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples

EVENTS = 20
"""Joins, leaves, and starts of the other process."""

KILLS = 5
UPDATES = 3
"""Rolling updates of three workers."""

PARTITIONS = 6
FEATURES = 10
PAIRS_PER_S = 1_000
"""An example and a label each: 2,000 records a second."""

SETTLE_S = 3.0
"""Time before and after each event, in which gaps belong to it."""

LIMIT_S = 60.0
POLL_S = 0.02
STAYS_MS = 500.0
MOVES_S = 2.0
SESSION_S = 6.0


def _configuration(servers: str) -> dict[str, object]:
    names: dict[int, str] = {}
    number = 0
    while len(names) < PARTITIONS:
        names.setdefault(partition_of(f"s{number}".encode(), PARTITIONS), f"s{number}")
        number += 1
    return {
        "application": {"id": "rebalances"},
        "kafka": {"bootstrap_servers": servers},
        "learners": {"areba": {"method": "areba"}},
        "streams": {name: {"features": FEATURES} for name in names.values()},
        "worker": {"log_format": "json"},
    }


class Entry(NamedTuple):
    """A line of a worker's log: when it was written, in seconds since 1970, its event, and the event's fields."""

    at_s: float
    event: str
    fields: Mapping[str, object]


@dataclass(slots=True)
class Member:
    """A process, and its log."""

    process: KeptProcess
    log: Path

    def entries(self) -> list[Entry]:
        """Return the events that it has logged so far."""
        found = []
        for line in self.log.read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                fields = json.loads(line)
                whole, milliseconds = fields["time"].split(".")
                at_s = time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + int(milliseconds) / 1000
                found.append(Entry(at_s, fields["event"], fields))
        return found

    def tasks(self) -> frozenset[int]:
        """Return the tasks that it owns and that are live."""
        owned: dict[int, bool] = {}
        for entry in self.entries():
            if entry.event in {"assigned", "revoked"}:
                owned = dict.fromkeys(_numbers(entry), False) if entry.event == "assigned" else {}
            elif entry.event in {"restored", "continued"}:
                owned[int(str(entry.fields["task"]))] = True
        return frozenset(owned) if owned and all(owned.values()) else frozenset()

    def since(self, at_s: float, *events: str) -> list[Entry]:
        """Return the events of these names from a time on."""
        return [entry for entry in self.entries() if entry.at_s >= at_s and entry.event in events]


def _numbers(entry: Entry) -> list[int]:
    text = str(entry.fields["tasks"])
    return [] if text == "none" else [int(number) for number in text.split(",")]


@dataclass(slots=True)
class Result:
    """What was measured.

    Attributes:
        stays_ms: By kind of event, the longest gap of each task that kept its owner.
        moves_s: By kind of event, seconds from its revocation (a kill: from the kill) until a task was live again.
        restores: Restores of tasks that kept their owner.
        updates_ms: The longest gap of each task in each rolling update.
        updates_s: Seconds of each rolling update, from the first SIGTERM until all tasks were live at the new workers.
    """

    stays_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    moves_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    restores: int = 0
    updates_ms: list[float] = field(default_factory=list)
    updates_s: list[float] = field(default_factory=list)


class Flow:
    """Sends records at a steady rate, and notes when predictions of each task could be read."""

    def __init__(self, servers: str, config: Config) -> None:
        self.seen: dict[int, list[float]] = defaultdict(list)
        self._servers = servers
        self._config = config
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._send, self._read)]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send and read during the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def longest_gap_ms(self, task: int, start_s: float, end_s: float) -> float:
        """Return the longest time between two batches of predictions of a task in this window."""
        inside = [at_s for at_s in self.seen[task] if start_s <= at_s <= end_s]
        return float(np.diff([start_s, *inside, end_s]).max()) * 1000

    def _send(self) -> None:
        sender = KafkaSender(self._servers, {"linger.ms": "2"})
        names = list(self._config.streams)
        values = np.random.default_rng(1).random((1_000, FEATURES), np.float32)
        begin_s, sent = time.monotonic(), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - begin_s) * PAIRS_PER_S)
            for number in range(sent, due):
                name, now = names[number % len(names)], int(time.time() * 1000)
                example = encode_examples(name, [f"e{number}"], values[number % 1_000][None])[0]
                sender.send(self._config.topics.examples, name.encode(), example, now)
                label = codec.encode(Label(name, f"e{number}", int(values[number % 1_000][0] > 0.9)))
                sender.send(self._config.topics.labels, name.encode(), label, now)
            sent = due
            time.sleep(0.005)
        sender.flush(LIMIT_S)
        sender.close()

    def _read(self) -> None:
        topic = self._config.topics.predictions
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "rebalances-reader",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while not self._stop.is_set():
            messages = consumer.consume(1_000, POLL_S)
            now_s = time.time()
            for number in {message.partition() for message in messages if message.error() is None}:
                self.seen[number or 0].append(now_s)
        consumer.close()


class Trial:
    """Two workers with all tasks, and a third that comes and goes."""

    def __init__(self, folder: Path, config: Config, flow: Flow) -> None:
        self._folder = folder
        self._config = config
        self._flow = flow
        self._starts = 0
        self.result = Result()
        self.first = [self._start("one"), self._start("two")]

    def _start(self, name: str) -> Member:
        self._starts += 1
        log = self._folder / f"{name}-{self._starts}.log"
        with log.open("wb") as file:
            process = KeptProcess(
                [sys.executable, "-m", "stream_app.cli", "run", "-c", str(self._folder / "areba.yaml")],
                env={**os.environ, "AREBA__APPLICATION__INSTANCE": name},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return Member(process, log)

    def wait_until_live(self, members: Sequence[Member]) -> list[frozenset[int]]:
        """Wait until these workers own all tasks and each of them is live; return the tasks of each."""

        def is_whole() -> bool:
            return sorted(number for member in members for number in member.tasks()) == list(range(PARTITIONS))

        _wait(is_whole)
        return [member.tasks() for member in members]

    def _wait_until_joined(self, new: Member, members: Sequence[Member]) -> list[frozenset[int]]:
        """Wait until a new worker has live tasks, then as `wait_until_live` does."""
        _wait(lambda: bool(new.tasks()))
        return self.wait_until_live(members)

    def join_and_leave(self, end: Callable[[Member], None], left: str) -> None:
        """Let a third worker join, then end it."""
        before = self.wait_until_live(self.first)
        time.sleep(SETTLE_S)
        third = self._start("three")
        everyone = [*self.first, third]
        after = self._wait_until_joined(third, everyone)
        joined_s = third.since(0.0, "assigned")[0].at_s
        time.sleep(SETTLE_S)
        self._note("join", joined_s, before, after, everyone)
        left_s = time.time()
        end(third)
        third.process.wait(LIMIT_S)
        time.sleep(POLL_S)
        _wait(lambda: any(member.since(left_s, "assigned") for member in self.first))
        last = self.wait_until_live(self.first)
        time.sleep(SETTLE_S)
        self._note(left, left_s, after[:2], last, self.first)

    def start_other(self) -> None:
        """Start a process that loads the same code and joins no group."""
        owned = self.wait_until_live(self.first)
        time.sleep(SETTLE_S)
        process = KeptProcess(
            [sys.executable, "-m", "benchmarks.kafka.rebalances", str(self._folder / "areba.yaml")],
            stdout=subprocess.PIPE,
        )
        begin_s = time.time()
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the other process ended")
            ready_s = time.time()
            time.sleep(SETTLE_S)
        finally:
            process.end(LIMIT_S)
        for task in sorted(owned[0] | owned[1]):
            gap_ms = self._flow.longest_gap_ms(task, max(begin_s, ready_s - SETTLE_S), ready_s + SETTLE_S)
            self.result.stays_ms["other process"].append(gap_ms)

    def rolling_update(self) -> None:
        """Replace three workers, one after the other: SIGTERM, then a process with the same instance name."""
        members = [*self.first, self._start("three")]
        self._wait_until_joined(members[2], members)
        time.sleep(SETTLE_S)
        begin_s = time.time()
        for index, name in enumerate(("one", "two", "three")):
            members[index].process.end(LIMIT_S)
            members[index] = self._start(name)
            self._wait_until_joined(members[index], members)
        end_s = time.time()
        time.sleep(SETTLE_S)
        self.result.updates_s.append(end_s - begin_s)
        for task in range(PARTITIONS):
            self.result.updates_ms.append(self._flow.longest_gap_ms(task, begin_s, end_s + SETTLE_S))
        members[2].process.end(LIMIT_S)
        self.first = members[:2]

    def _note(
        self,
        kind: str,
        at_s: float,
        before: Sequence[frozenset[int]],
        after: Sequence[frozenset[int]],
        members: Sequence[Member],
    ) -> None:
        begin_s = at_s - SETTLE_S
        revoked_s = [entry.at_s for member in members for entry in member.since(begin_s, "revoked")]
        stays = {number for was, now in zip(before, after, strict=False) for number in was & now}
        for task in sorted(stays):
            self.result.stays_ms[kind].append(self._flow.longest_gap_ms(task, begin_s, at_s + SETTLE_S))
        for member in members:
            for entry in member.since(begin_s, "restored"):
                if entry.fields["task"] in stays:
                    self.result.restores += 1
                else:
                    given_up_s = at_s if kind != "join" else max(one for one in revoked_s if one <= entry.at_s)
                    self.result.moves_s[kind].append(entry.at_s - given_up_s)

    def close(self) -> None:
        """Stop both workers."""
        for member in self.first:
            member.process.end(LIMIT_S)


def _wait(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f"not reached in {LIMIT_S:g} s")
        time.sleep(5 * POLL_S)


def measure(events: int = EVENTS, kills: int = KILLS, updates: int = UPDATES) -> Result:
    """Measure joins, leaves and kills of a third worker, and rolling updates of three, on a local broker."""
    with start_kafka(1, jvm=KAFKA_JVM) as kafka, temporary_folder("areba-rebalances-") as folder:
        settings = _configuration(kafka.bootstrap_servers)
        (folder / "areba.yaml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        config = Config.model_validate(settings)
        warm_up(config.task_settings())
        create_topics(config, PARTITIONS, 1)
        flow = Flow(kafka.bootstrap_servers, config)
        with flow.running():
            trial = Trial(folder, config, flow)
            try:
                for _ in range(events):
                    trial.join_and_leave(lambda third: third.process.send_signal(signal.SIGTERM), "leave")
                    trial.start_other()
                for _ in range(kills):
                    trial.join_and_leave(lambda third: third.process.send_signal(signal.SIGKILL), "kill")
                for _ in range(updates):
                    trial.rolling_update()
            finally:
                trial.close()
        return trial.result


def rows() -> list[Row]:
    """Return gaps and restores of tasks that stay, and the time without a live owner of tasks that move."""
    found = measure()
    result = [below("restores of tasks that keep their owner, in all rebalances", FEATURES, found.restores, "", 1)]
    for kind, gaps in found.stays_ms.items():
        name = f"longest commit gap of a task that keeps its owner, {kind}, {len(gaps)} gaps"
        half, most = (float(value) for value in np.percentile(gaps, (50, 99), method="higher"))
        result.append(Row(f"{name}: p50", FEATURES, half, None, None, "printed", None, "ms"))
        result.append(below(f"{name}: p99", FEATURES, most, "ms", STAYS_MS))
    for kind, moves in found.moves_s.items():
        limit_s = MOVES_S + (SESSION_S if kind == "kill" else 0.0)
        name = f"a task that moves is live again after, {kind}, {len(moves)} moves"
        result.append(Row(f"{name}: p50", FEATURES, float(np.median(moves)), None, None, "printed", None, "s"))
        result.append(below(f"{name}: longest", FEATURES, max(moves), "s", limit_s))
    update = f"rolling update of three workers, {len(found.updates_s)} times"
    for name, figure, unit in (
        (f"{update}: longest commit gap of a task, p50", float(np.median(found.updates_ms)), "ms"),
        (f"{update}: longest commit gap of a task, longest", max(found.updates_ms), "ms"),
        (f"{update}: duration, p50", float(np.median(found.updates_s)), "s"),
    ):
        result.append(Row(name, FEATURES, figure, None, None, "printed", None, unit))
    return result


def _load(path: Path) -> None:
    """Load what a worker loads, then wait for the end."""
    warm_up(Config.model_validate(json.loads(path.read_text(encoding="utf-8"))).task_settings())
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    _load(Path(sys.argv[1]))
