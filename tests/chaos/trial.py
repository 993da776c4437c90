"""One trial: a cluster, an application, load and waves of faults; then everything that was written is checked."""

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ops.local_kafka import cluster as local_kafka
from stream_app import __version__
from stream_app.cli.warm_up import warm_up
from stream_app.verify.verify import verify
from tests.chaos.commits import Watch, aborted_commits, compacted, first_commits_ms
from tests.chaos.forks import Nursery
from tests.chaos.members import RESTARTING, ChaosError, Member, Spawn
from tests.chaos.plan import BROKERS, BrokerKill, Wave, waves
from tests.support.kafka.application import SESSION_TIMEOUT_MS, App, Load, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import spawn
from tests.support.kafka.records import StreamOf

MEMBERS: Mapping[str, int] = {"ada": 0, "bob": 5, "cyd": 50, "dee": 2_000}
"""The workers, and how many milliseconds of work a restore of each may have to repeat (`worker.snapshot_after_ms`):
from a snapshot with every transaction to the default."""

STREAMS = (
    StreamOf("alpha", 0, 3),
    StreamOf("beta", 1, 2),
    StreamOf("gamma", 1, 5),
    StreamOf("delta", 2, 2),
    StreamOf("epsilon", 3, 30),
)

PARTITIONS = 4

CONSUMER: Mapping[str, Any] = {
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": 1_000,
    "fetch.wait.max.ms": 50,  # fewer empty fetches: three brokers, four workers and two cores
}

SECTIONS: Mapping[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100, "max_pending_per_stream": 120},
    "metrics": {"every_labels": 25},
    "predictions": "all",
    "kafka": {"consumer": CONSUMER},
}

WORKER: Mapping[str, Any] = {"commit_interval_ms": 30, "max_batch_records": 200, "max_restarts": 1_000}
"""Many small transactions, so that a fault is likely to hit one. A worker that was fenced restarts each time."""

CHANGELOG: Mapping[str, str] = {
    "segment.ms": "2000",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "2000",
    "delete.retention.ms": "1000",
}
"""Intervals of seconds instead of days, so that compaction runs during every restore."""

CALM_DEADLINE_S = 240.0
"""From the end of a wave until each task has made the wave's commits: workers start (a minute on a busy machine), dead
sessions time out, and the partitions of a broker get another leader."""

IN_SYNC_DEADLINE_S = 120.0

LAST_STOPS = 3
"""Attempts at a clean stop, which logs the models; a stop whose last transaction has an unknown outcome does not."""

PAUSE_S = 0.2
"""Pause between two checks of progress and of all logs."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a trial: one line of the record.

    Attributes:
        seed: Seed of the run; with `number`, it decides the schedule.
        number: Number of the trial.
        kills: Number of SIGKILLs, of workers and brokers.
        faults: Number of faults of each kind.
        stages: Number of kills by what the worker was doing.
        duration_s: From the first worker's start to the last one's end.
        commits: Transactions with records, all of which were checked.
        aborted: Transactions that had written their commit record but were never committed.
        restarts: How often a worker restarted itself: it was fenced, or an outcome was unknown.
        records: Input records, all of which were checked.
        outputs: Output records, all of which were compared byte for byte.
        snapshots: Number of snapshots that were taken and named.
        changelog: Offsets used, and records left by compaction.
        first_commits_ms: From a process's start to its first commit.
        cores: Number of the machine's cores.
        version: Version of areba.
        forked: Whether workers were forks of a process that had everything loaded.
    """

    seed: int
    number: int
    kills: int
    faults: Mapping[str, int]
    stages: Mapping[str, int]
    duration_s: float
    commits: int
    aborted: int
    restarts: int
    records: int
    outputs: int
    snapshots: int
    changelog: Sequence[int]
    first_commits_ms: Sequence[int]
    cores: int
    version: str = __version__
    forked: bool = True


class Replay(Load):
    """A load of some 200 records a second: the workers have few cores, and faults matter more than load."""

    INTERVAL_S = 0.05


class Trial:
    """A running trial.

    Args:
        kafka: The cluster.
        app: The application, with its topics.
        watch: The watch of its progress.
        spawn: How its workers are started.
        tell: Called with the number of kills so far.
    """

    def __init__(
        self, kafka: local_kafka.LocalKafka, app: App, watch: Watch, spawn: Spawn, tell: Callable[[int], None]
    ) -> None:
        self._kafka = kafka
        self._app = app
        self._watch = watch
        self._tell = tell
        self._halt = threading.Event()
        self.broker_kills = 0
        self.members = [
            Member(app, name, self._halt, spawn, worker={**WORKER, "snapshot_after_ms": after_ms})
            for name, after_ms in MEMBERS.items()
        ]

    @property
    def kills(self) -> int:
        """Number of SIGKILLs so far."""
        return self.broker_kills + sum(
            kind.startswith("worker SIGKILL") for member in self.members for kind, _ in member.done
        )

    def strike(self, wave: Wave) -> None:
        """Apply all faults of a wave together, then wait until every task has made progress.

        Raises:
            ChaosError: A worker or a task did not behave correctly.
        """
        by_name = {member.name: member for member in self.members}
        with ThreadPoolExecutor(len(by_name) + 1) as pool:
            jobs = [pool.submit(self._suffer, by_name[name], chain) for name, chain in wave.faults.items()]
            if wave.broker is not None:
                jobs.append(pool.submit(self._kill_broker, wave.broker))
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                self._halt.set()
                raise
        self.settle(wave.commits)

    def _suffer(self, member: Member, chain: Sequence[Any]) -> None:
        try:
            for fault in chain:
                member.suffer(fault)
                self._tell(self.kills)
        except BaseException:
            self._halt.set()
            raise

    def _kill_broker(self, kill: BrokerKill) -> None:
        try:
            self._halt.wait(kill.delay_s)
            self._kafka.kill(kill.node)
            self.broker_kills += 1
            self._tell(self.kills)
            self._halt.wait(kill.lasts_s)
            self._kafka.restart(kill.node)
            wait_in_sync(self._app.servers)
        except BaseException:
            self._halt.set()
            raise

    def settle(self, commits: int) -> None:
        """Wait until each task has made this many more commits.

        Raises:
            ChaosError: A task did not make them in time, or a worker ended.
        """
        wanted = [count + commits for count in self._watch.counts]
        deadline = time.monotonic() + CALM_DEADLINE_S
        while any(count < want for count, want in zip(self._watch.counts, wanted, strict=True)):
            for member in self.members:
                member.check()
            if time.monotonic() > deadline:
                raise ChaosError(
                    f"tasks stand still: {self._watch.counts} commits of {wanted} {CALM_DEADLINE_S:g} s after a wave"
                )
            time.sleep(PAUSE_S)

    def finish(self) -> dict[int, str]:
        """Wait until all inputs are processed, end the workers one by one, and return the models by task."""
        ends = self._app.input_ends()
        deadline = time.monotonic() + CALM_DEADLINE_S
        while dict(enumerate(self._watch.ends)) != ends:
            _ = self._watch.counts
            for member in self.members:
                member.check()
            if time.monotonic() > deadline:
                raise ChaosError(f"committed {self._watch.ends} of {ends} within {CALM_DEADLINE_S:g} s")
            time.sleep(PAUSE_S)
        for member in self.members:
            member.wait_ready()
        *others, last = self.members
        for member in others:
            member.stop()
        everything = f"assigned tasks={','.join(map(str, range(self._app.partitions)))}"

        def has_all() -> bool:
            said = last.log.rpartition(everything)
            live = said[2].count("restored task") + said[2].count("continued task")
            return bool(said[1]) and live >= self._app.partitions

        for _ in range(LAST_STOPS):
            last.wait_for(has_all, CALM_DEADLINE_S, "all tasks live")
            if last.stop() == 0:
                return last.models()
            last.start()
        raise ChaosError(f"{last.name}: no clean stop in {LAST_STOPS}")


def wait_in_sync(servers: str) -> None:
    """Wait until every partition is in sync on all brokers: only then may another broker die."""
    admin = AdminClient({"bootstrap.servers": servers})
    deadline = time.monotonic() + IN_SYNC_DEADLINE_S
    while True:
        topics = admin.list_topics(timeout=10).topics.values()
        lagging = [
            f"{topic.topic}[{number}]"
            for topic in topics
            for number, partition in topic.partitions.items()
            if len(partition.isrs) < BROKERS or partition.leader < 0
        ]
        if topics and not lagging:
            return
        if time.monotonic() > deadline:
            raise ChaosError(f"not in sync within {IN_SYNC_DEADLINE_S:g} s: {', '.join(lagging)}")
        time.sleep(0.2)


def compact_soon(app: App) -> None:
    """Set the topic so that the changelog is compacted continuously."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in CHANGELOG.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, app.config.topics.changelog, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": app.servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


@contextmanager
def ended(members: Sequence[Member]) -> Iterator[None]:
    """End all members after the block."""
    try:
        yield
    finally:
        for member in members:
            member.end()


def run_trial(
    folder: Path, seed: int, number: int, kills: int, tell: Callable[[int], None], *, forked: bool = True
) -> Result:
    """Run one trial from a new cluster to the checked topics; remove the folder if everything is correct.

    Args:
        folder: The folder for the brokers' data and the workers' logs.
        seed: Seed of the run.
        number: Number of the trial; with the seed, it decides the schedule.
        kills: Number of SIGKILLs in this trial.
        tell: Called with the number of kills so far.
        forked: Whether workers are forks of a process that has everything loaded (see `forks`).

    Raises:
        ChaosError: A worker or a task did not behave correctly.
        AssertionError: A written record is wrong.
    """
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        kafka = stack.enter_context(local_kafka.start(BROKERS, folder / "kafka"))
        app = App(kafka.bootstrap_servers, f"r{number}-", folder, SECTIONS, PARTITIONS, replication=BROKERS)
        app.create_topics()
        compact_soon(app)
        warm_up(app.config.task_settings())
        start = stack.enter_context(Nursery(app.file("nursery"), folder / "nursery.log")).start if forked else spawn
        watch = stack.enter_context(Watch(app))
        course = Trial(kafka, app, watch, start, tell)
        stack.enter_context(ended(course.members))
        start_s = time.monotonic()
        with Replay(app, STREAMS, seed=hash_of(seed, number)):
            for member in course.members:
                member.start()
            course.settle(1)
            for wave in waves(f"{seed}/{number}", list(MEMBERS), kills):
                course.strike(wave)
        models = course.finish()
        duration_s = time.monotonic() - start_s
        result = replace(_checked(course, app, watch, models, seed, number, duration_s), forked=forked)
    shutil.rmtree(folder)
    return result


def hash_of(seed: int, number: int) -> int:
    """Return a seed for the load."""
    return 1_000_003 * seed + number


def _checked(
    course: Trial, app: App, watch: Watch, models: Mapping[int, str], seed: int, number: int, duration_s: float
) -> Result:
    """Check everything that was written, by two independent means, and count what happened."""
    checked = check_exactly_once(app)
    found = {task: one.models for task, one in checked.items()}
    if found != models:
        raise ChaosError(f"the workers' models at the end are {models}, those of a fresh process {found}")
    report = verify(app.cluster, app.config)
    if not report.ok:
        raise ChaosError("\n".join(["areba verify:", *map(str, report.findings[:20])]))
    logs = [life.log for member in course.members for life in member.lives]
    done = [entry for member in course.members for entry in member.done]
    commits = sum(one.commits for one in checked.values())
    faults = Counter(str(kind) for kind, _ in done) + Counter({"broker SIGKILL": course.broker_kills})
    return Result(
        seed=seed,
        number=number,
        kills=course.kills,
        faults=dict(sorted(faults.items())),
        stages=dict(sorted(Counter(stage for kind, stage in done if kind == "worker SIGKILL").items())),
        duration_s=round(duration_s, 1),
        commits=commits,
        aborted=aborted_commits(app, commits),
        restarts=sum(log.count(RESTARTING) for log in logs),
        records=sum(sum(one.offsets) for one in checked.values()),
        outputs=sum(len(rows) for one in checked.values() for rows in one.outputs.values()),
        snapshots=sum(log.count("snapshot-complete task") for log in logs),
        changelog=compacted(app),
        first_commits_ms=[
            value for member in course.members for value in first_commits_ms(member.lives, watch.times_ms)
        ],
        cores=os.cpu_count() or 0,
    )
