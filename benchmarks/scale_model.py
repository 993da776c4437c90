"""What a large application asks of its brokers and workers, by arithmetic: no broker is needed.

`python -m benchmarks.scale_model` prints the table of docs/scale.md; `--workers`, `--partitions` and `--streams` change
its size. The constants in bytes are those of the encoders and of a real broker, which `unit/test_scale_model` and
`kafka/test_group_records` compare; times and rates were measured and name their date. Every worker is busy, and
every stream has had records since its last snapshot: the worst case.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_app.backends.kafka.settings import CONSUMER_TUNING
from stream_app.config import Config
from stream_app.config.memory_bound import bound_of
from stream_app.live.snapshot_writer import COST_SHARE
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from stream_app.snapshot.format import CHUNK_BYTES, MAX_CHUNKS
from stream_app.worker.rounds import SAVE_TIMEOUT_S

REPLICAS = 3

_STRING = 2
"""Bytes of the length of a string of Kafka's protocol."""

_BATCH, _RECORD, _MARKER = 61, 7, 78
"""Bytes of the header of a batch of records, of a small record around its key and value, and of a marker."""

MANIFEST_ENTRY = 203
"""Bytes of a manifest for each blob: `Manifest.to_bytes`."""

SNAPSHOT = 10_699
"""Bytes of a snapshot for each young stream: AREBA_20, 3 features, 20 labels."""

ALLOCATED = 31_544
"""Bytes that such a stream has allocated."""

DRAFT_S, LOAD_S = 0.06e-3, 0.25e-3
"""CPU of a worker to draft such a stream for a snapshot, and to load it (27 November 2026, two shared cores)."""

TRANSACTION_S = 0.02
"""A transaction of a worker at 2,000 examples and labels a second, on a local broker (docs/benchmarks.md)."""

BROKER_CORES = 0.71
"""Cores of the broker for such a worker (benchmarks/results.json)."""

GROUP_COMMITS = 940.0
"""Transactions a second that only commit the offsets of one group: 16 clients and their broker on two shared cores
(27 November 2026; one client made 308, and 32 made 668). A broker with cores of its own makes more."""

GROUP_REQUESTS = 3 * GROUP_COMMITS
"""Requests a second in that measurement: a transaction asks for its group, sends the offsets, and ends."""

MESSAGE_BYTES = 1_048_588
"""The largest batch that a topic takes by default, `message.max.bytes`; the group's metadata are one record."""

MANIFEST_BYTES = MAX_CHUNKS * CHUNK_BYTES
"""The largest manifest that a restore reads."""

DISK = 100e6
"""Bytes a second that a broker writes to a plain cloud disk: assumed."""

REPLICAS_OF_BROKER = 4_000
"""Replicas of one broker, a common rule for brokers of the size of a virtual machine: assumed."""

BROKERS = 10
MEMORY = 16e9
"""Brokers of the cluster, and memory of a worker: assumed."""

PAUSE_S, LOADED_S = 0.3, 3.0
"""Longest pause of commits in a rebalance that a payment can wait for, and of the tasks of a lost worker: goals."""

TOPICS = len(Config().topics)


@dataclass(frozen=True, slots=True)
class Application:
    """The size of an application; its names are as long as those of a small one.

    Attributes:
        workers: Members of its group.
        partitions: Partitions of each topic.
        streams: Streams, evenly spread.
        group: Its id.
        instance: The name of a worker.
        client: The `client.id` of a worker.
        host: The address of a worker, as the broker writes it.
        inputs: The topics of the inputs.
        interval_s: `worker.commit_interval_ms`, in seconds.
    """

    workers: int = 1_000
    partitions: int = 1_000
    streams: int = 1_000_000
    group: str = "fraud"
    instance: str = "worker-0001"
    client: str = "areba/1.0.0/worker-0001"
    host: str = "/10.0.0.123"
    inputs: tuple[str, ...] = ("examples", "labels")
    interval_s: float = Config().worker.commit_interval_ms / 1000

    @property
    def tasks(self) -> float:
        """Tasks of a worker."""
        return self.partitions / self.workers

    @property
    def worker_streams(self) -> float:
        """Streams of a worker."""
        return self.streams / self.workers

    @property
    def commits_per_s(self) -> float:
        """Transactions a second of all workers."""
        return self.workers / max(self.interval_s, 1.25 * TRANSACTION_S)


def _member_id_bytes(app: Application) -> int:
    return _STRING + len(app.instance) + len("-") + 36  # a UUID


def subscription_bytes(app: Application) -> int:
    """Return the bytes of what a member says of itself when it joins, as librdkafka writes it (version 3)."""
    topics = sum(_STRING + len(topic) for topic in app.inputs)
    return 2 + 4 + topics + 4 + 4 + 4 + _STRING  # version, topics, user data, owned partitions, generation, rack


def assignment_bytes(app: Application, tasks: int) -> int:
    """Return the bytes of the assignment of a member with this number of tasks."""
    topics = sum(_STRING + len(topic) + 4 + 4 * tasks for topic in app.inputs) if tasks else 0
    return 2 + 4 + topics + 4


def group_metadata_bytes(app: Application) -> float:
    """Return the bytes of the record in which a broker keeps a group and all of its members (classic protocol)."""
    head = 2 + _STRING + len("consumer") + 4 + _STRING + len("range") + _member_id_bytes(app) + 8 + 4
    member = _member_id_bytes(app) + sum(_STRING + len(text) for text in (app.instance, app.client, app.host))
    member += 4 + 4 + 4 + subscription_bytes(app) + 4  # two timeouts, and the lengths of subscription and assignment
    return head + app.workers * (member + assignment_bytes(app, 0)) + _assigned_bytes(app)


def _assigned_bytes(app: Application) -> float:
    """Return the bytes of the assigned partitions of all members together."""
    owners = min(app.workers, app.partitions)
    return sum((_STRING + len(topic) + 4) * owners + 4 * app.partitions for topic in app.inputs)


def offset_commit_bytes(app: Application, tasks: float = 1) -> float:
    """Return the bytes that the offsets of a transaction take in `__consumer_offsets`, with the marker."""
    key = sum(2 + _STRING + len(app.group) + _STRING + len(topic) + 4 for topic in app.inputs)
    value = 24 * len(app.inputs)  # version, offset, leader epoch, metadata, time
    return _BATCH + tasks * (key + value + _RECORD * len(app.inputs)) + _MARKER


def progress_bytes() -> int:
    """Return the bytes that a transaction adds to the progress of a task: the commit record, and the marker."""
    topic_id = "A" * 22
    commit = Commit(
        sequence=1_000_000,
        examples_start=2_000_000,
        examples_end=2_000_040,
        labels_start=2_000_000,
        labels_end=2_000_040,
        digest=bytes(32),
        records=80,
        transactional_id="fraud/worker-0001",
        partitions=1_000,
        examples_topic_id=topic_id,
        labels_topic_id=topic_id,
        predictions_start=2_000_000,
        predictions_records=40,
        outcomes_start=2_000_000,
        outcomes_records=40,
        metrics_start=100_000,
        metrics_records=1,
        dead_letters_start=1_000,
        predictions_topic_id=topic_id,
        outcomes_topic_id=topic_id,
        metrics_topic_id=topic_id,
        dead_letters_topic_id=topic_id,
    )
    return _BATCH + _RECORD + len(codec.encode(commit)) + _MARKER


def _memory_bound_bytes(app: Application) -> float:
    """Return what the memory bound counts for a worker's streams of 3 features with AREBA, and their tables."""
    sections = {"learners": {"areba": {"method": "areba"}}, "streams": {"s": {"features": 3}}}
    config = Config.model_validate(sections)
    bound = bound_of(config, config.task_settings(), MESSAGE_BYTES)
    return app.worker_streams * bound.streams + min(app.worker_streams * bound.rows, app.tasks * bound.pool)


class Line(NamedTuple):
    """A line of the table.

    Attributes:
        what: What is asked for.
        figure: How much of it.
        limit: How much there is.
        unit: The unit of both: `B`, `B/s`, `/s`, `s` or nothing.
        source: Where the limit comes from.
        remedy: What lifts the limit.
    """

    what: str
    figure: float
    limit: float
    unit: str
    source: str
    remedy: str

    @property
    def share(self) -> float:
        """The figure as a share of the limit; above 1, the application is too large for it."""
        return self.figure / self.limit


def lines(app: Application) -> Sequence[Line]:
    """Return the table of an application."""
    return [*_group(app), *_snapshots(app), *_rebalance(app), *_sizes(app)]


def _group(app: Application) -> Iterable[Line]:
    rate, disks = app.commits_per_s, BROKERS * DISK
    heartbeats = app.workers / (int(str(CONSUMER_TUNING["heartbeat.interval.ms"])) / 1000)
    slower = "a commit interval that grows with the number of workers; several groups"
    offsets = rate * offset_commit_bytes(app, app.tasks)
    progress = REPLICAS * rate * app.tasks * progress_bytes()
    yield Line("commits of one group", rate, GROUP_COMMITS, "/s", "one partition's leader, two cores, measured", slower)
    yield Line("their bytes on one partition of `__consumer_offsets`", offsets, DISK, "B/s", "one disk", "none needed")
    yield Line("heartbeats to one coordinator", heartbeats, GROUP_REQUESTS, "/s", "requests, two cores, measured",
               "a longer `heartbeat.interval.ms`; KIP-848")  # fmt: skip
    yield Line("progress records and markers", progress, disks, "B/s", f"{BROKERS} disks", slower)
    yield Line("cores of the brokers", app.workers * BROKER_CORES, 16 * BROKERS, "", f"{BROKERS} x 16 cores", slower)


def _snapshots(app: Application) -> Iterable[Line]:
    draft_s = app.worker_streams * DRAFT_S
    size = app.worker_streams * SNAPSHOT
    steady = REPLICAS * app.workers * size / (COST_SHARE * (draft_s + size / DISK))
    manifest = app.streams / app.partitions * MANIFEST_ENTRY
    yield Line("snapshots of busy workers", steady, BROKERS * DISK, "B/s", f"{BROKERS} disks",
               "only what has changed in a core; object storage")  # fmt: skip
    yield Line("list of a snapshot", manifest, MANIFEST_BYTES, "B", "what a restore reads", "lists of parts of a task")


def _rebalance(app: Application) -> Iterable[Line]:
    metadata, size = group_metadata_bytes(app), REPLICAS * app.streams * SNAPSHOT
    moving = "only the tasks that move are saved and stop (KIP-848)"
    draft_s = app.worker_streams * DRAFT_S
    heartbeat_s = int(str(CONSUMER_TUNING["heartbeat.interval.ms"])) / 1000
    written_s = size / (BROKERS * DISK)
    pause_s = heartbeat_s + min(SAVE_TIMEOUT_S, draft_s + written_s)
    yield Line("group metadata", metadata, MESSAGE_BYTES, "B", "`message.max.bytes`, one record",
               "KIP-848: a record for each member")  # fmt: skip
    yield Line("snapshots of all tasks, drafted", draft_s, SAVE_TIMEOUT_S, "s", "time to save", moving)
    yield Line(
        "snapshots of all tasks, written", written_s, SAVE_TIMEOUT_S, "s", f"time to save; {BROKERS} disks", moving
    )
    yield Line("a join or a leave stops all workers", pause_s, PAUSE_S, "s", "goal", moving)
    yield Line(
        "a worker's streams are loaded",
        app.worker_streams * LOAD_S,
        LOADED_S,
        "s",
        "goal",
        "one array for the cores of a task; standbys",
    )


def _sizes(app: Application) -> Iterable[Line]:
    replicas = TOPICS * app.partitions * REPLICAS
    yield Line("memory of a worker's streams", app.worker_streams * ALLOCATED, MEMORY, "B", "assumed", "none needed")
    yield Line("memory bound of these streams", _memory_bound_bytes(app), MEMORY, "B", "assumed",
               "none needed")  # fmt: skip
    yield Line("replicas", replicas, BROKERS * REPLICAS_OF_BROKER, "", f"{BROKERS} brokers",
               "metrics and dead letters with fewer partitions")  # fmt: skip


def _amount(value: float, unit: str) -> str:
    if unit.startswith("B"):
        for size, prefix in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
            if value >= size:
                return f"{value / size:.3g} {prefix}{unit[1:]}"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip() if unit != "/s" else f"{text}/s"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:,.0f} %" if percent >= 10 else f"{percent:.2g} %"


def table(app: Application) -> str:
    """Return the table as the docs have it."""
    rows = [
        f"| {line.what} | {_amount(line.figure, line.unit)} | {_amount(line.limit, line.unit)}: {line.source} "
        f"| {_percent(line.share)} | {line.remedy} |"
        for line in lines(app)
    ]
    return "\n".join(["| what | figure | limit | share | what lifts it |", "| --- | ---: | --- | ---: | --- |", *rows])


def main() -> None:
    """Print the table of the size that the options give."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale_model", description=(__doc__ or "").split("\n")[0]
    )
    for name in ("workers", "partitions", "streams"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Application(), name))
    given = parser.parse_args()
    print(table(Application(given.workers, given.partitions, given.streams)))


if __name__ == "__main__":
    main()
