"""Commits as the progress topic shows them, while workers come and go and afterwards."""

import logging
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Self

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from stream_app.backends.base import TopicPartition
from stream_app.lost_markers.sweeps import SWEEP_KEY
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from tests.chaos.members import OF_TASK, RESTARTING, ChaosError, Life, lines_of
from tests.support.kafka.application import App
from tests.support.kafka.topics import reading

POLL_S = 0.05

READ_DEADLINE_S = 60.0


def _consumer(app: App, isolation: str) -> Consumer:
    """Return a reader of all of progress; the application's own readers do not return the broker's timestamps."""
    consumer = Consumer(
        {
            "bootstrap.servers": app.servers,
            "group.id": "areba-chaos",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        },
        logger=logging.getLogger("areba.chaos.client"),
    )
    topic = app.config.topics.progress
    consumer.assign([ClientPartition(topic, number, 0) for number in range(app.partitions)])
    return consumer


class Watch(threading.Thread):
    """Reads progress continuously: how many commits each task has made, and when the broker received them."""

    def __init__(self, app: App) -> None:
        super().__init__(name="watch", daemon=True)
        self._app = app
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self.times_ms: list[list[int]] = [[] for _ in range(app.partitions)]
        self.ends: list[tuple[int, int]] = [(0, 0)] * app.partitions

    def run(self) -> None:
        """Read until the watch is closed."""
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001  (`counts` raises it for a caller that waits)
            self._failure = error

    def _read(self) -> None:
        consumer = _consumer(self._app, "read_committed")
        try:
            while not self._over.is_set():
                for message in consumer.consume(1_000, POLL_S):
                    number, value = message.partition(), message.value()
                    if message.error() is not None or number is None or value is None:
                        continue  # an end of partition, or a broker that is down and comes back
                    record = codec.decode_one(value)
                    if isinstance(record, Commit):
                        self.times_ms[number].append(message.timestamp()[1])
                        self.ends[number] = (record.examples_end, record.labels_end)
        finally:
            consumer.close()

    @property
    def counts(self) -> list[int]:
        """Number of commits of each task so far."""
        if self._failure is not None:
            raise ChaosError(f"progress cannot be read: {self._failure}") from self._failure
        return [len(times) for times in self.times_ms]

    def first_after_ms(self, tasks: Iterable[int], time_s: float) -> int | None:
        """Return when each of these tasks had committed after this time; None as long as one has not."""
        _ = self.counts
        firsts = []
        for number in tasks:
            times = self.times_ms[number]
            place = bisect_right(times, int(time_s * 1000))
            if place == len(times):
                return None
            firsts.append(times[place])
        return max(firsts)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(READ_DEADLINE_S)


def first_commits_ms(lives: Sequence[Life], times_ms: Sequence[Sequence[int]]) -> list[int]:
    """Return the times from the start of a process to the first commit of one of its own tasks, for those known so far.

    A task that a worker has restored belongs to it until the worker loses the task or ends; those commits are its own.
    """
    found = []
    for life in lives:
        firsts = []
        for line in lines_of(life.log):
            if RESTARTING in line.text:
                break
            if (said := OF_TASK.match(line.text)) and said[1] == "restored":
                times = times_ms[int(said[2])]
                place = bisect_left(times, int(line.time_s * 1000))
                if place < len(times) and times[place] < life.end_s * 1000:
                    firsts.append(times[place])
        if firsts:
            found.append(min(firsts) - int(life.start_s * 1000))
    return found


def aborted_commits(app: App, committed: int) -> int:
    """Count the progress records of transactions that were never committed: how often a kill hit one.

    Args:
        app: The application.
        committed: Commit records that a reader of committed records sees.
    """
    consumer = _consumer(app, "read_uncommitted")
    written, ended = 0, 0
    try:
        deadline = time.monotonic() + READ_DEADLINE_S
        while ended < app.partitions:
            if time.monotonic() > deadline:
                raise ChaosError(f"progress: no end within {READ_DEADLINE_S:g} s")
            for message in consumer.consume(1_000, 0.1):
                error = message.error()
                if error is not None:
                    ended += error.code() == KafkaError._PARTITION_EOF
                elif message.key() != SWEEP_KEY and isinstance(codec.decode_one(message.value() or b""), Commit):
                    written += 1
    finally:
        consumer.close()
    return written - committed


def compacted(app: App) -> tuple[int, int]:
    """Return how many offsets the changelog has used, and how many records are left."""
    topic, cluster = app.config.topics.changelog, app.cluster
    used = left = 0
    for number in range(app.partitions):
        place = TopicPartition(topic, number)
        used += cluster.watermarks(place).high
        with reading(cluster, place) as reader:
            at_end = False
            deadline = time.monotonic() + READ_DEADLINE_S
            while not at_end:
                if time.monotonic() > deadline:
                    raise ChaosError(f"{place}: no end within {READ_DEADLINE_S:g} s")
                fetched = reader.poll(1_000, 0.1)
                if fetched is not None:
                    left += len(fetched.records)
                    at_end = fetched.at_end
    return used, left
