"""An application with its own topics, and a thread that keeps sending to it."""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias

import yaml

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.cli.topic_setup import create_topics
from stream_app.config import Config, load
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Side
from stream_app.serialization.dead_letter import is_of_a_resend
from tests.support.kafka.records import StreamOf, closing, stream_records
from tests.support.kafka.topics import read_topic
from tests.support.kafka.waiting import DEADLINE_S
from tests.support.rows import Read, Sent

Section: TypeAlias = Mapping[str, Any] | list[str] | str
"""A section of a configuration file."""

SESSION_TIMEOUT_MS = 6_000
"""The shortest timeout that a broker allows by default: a killed member's partitions are idle for this time."""


@dataclass(frozen=True)
class App:
    """An application with its own topics; `sections` are the sections of its file, `folder` has files and logs.

    Its id, which is part of the models' seed, is derived from the prefix unless it is given.
    """

    servers: str
    prefix: str
    folder: Path
    sections: Mapping[str, Section]
    partitions: int = 1
    replication: int = 1
    application: str | None = None

    @cached_property
    def config(self) -> Config:
        """The configuration of this process."""
        return self.config_of("here")

    @property
    def cluster(self) -> KafkaCluster:
        """The client for administration."""
        return KafkaCluster(self.servers)

    @property
    def input_topics(self) -> tuple[str, str]:
        """The topics of examples and of labels."""
        return self.config.topics.examples, self.config.topics.labels

    def file(self, instance: str, **changed: Section) -> Path:
        """Return a configuration file for one instance."""
        data: dict[str, Any] = {
            "application": {"id": self.application or f"{self.prefix}app", "instance": instance},
            "worker": {"commit_interval_ms": 50},
            "join": {"ttl_ms": 60_000, "max_clock_lead_ms": 3_600_000},
            "metrics": {"every_labels": 50},
        }
        for name, section in (*self.sections.items(), *changed.items()):
            data[name] = {**data.get(name, {}), **section} if isinstance(section, Mapping) else section
        data["kafka"] = {
            "bootstrap_servers": self.servers,
            "topic_prefix": self.prefix,
            "consumer": {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 1_000},
            **data.get("kafka", {}),
        }
        path = self.folder / f"{self.prefix}{instance}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    def config_of(self, instance: str, **changed: Section) -> Config:
        """Return the configuration of one instance."""
        return load(self.file(instance, **changed), {})

    def create_topics(self, retention_ms: int | None = None) -> None:
        """Create the topics, as `areba topics create` does; with `retention.FOREVER`, the inputs accept any time."""
        create_topics(self.config, self.partitions, self.replication, retention_ms)

    def send(self, records: Sequence[Sent]) -> None:
        """Send records in this order, without transactions, so that offsets have no gaps."""
        with contextlib.closing(KafkaSender(self.servers)) as sender:
            self.send_by(sender, records)
            sender.flush(DEADLINE_S)

    def send_by(self, sender: KafkaSender, records: Sequence[Sent]) -> None:
        """Send records with the sender that stays open."""
        topics = self.config.topics
        for record in records:
            topic = topics.examples if record.side is Side.EXAMPLES else topics.labels
            sender.send(topic, record.key, record.value, record.time_ms, record.headers, record.partition)

    def input_ends(self) -> dict[int, tuple[int, int]]:
        """Return the ends of examples and labels, by partition: a worker that has read everything commits them."""
        found = {}
        for number in range(self.partitions):
            one, two = (self.cluster.watermarks(TopicPartition(name, number)).high for name in self.input_topics)
            found[number] = (one, two)
        return found

    def outputs(self, number: int) -> dict[str, list[Read]]:
        """Return all committed outputs of a partition, by unprefixed topic; without the marks of `areba dlq resend`."""
        topics, cluster = self.config.topics, self.cluster
        return {
            name: [
                read
                for read in read_topic(cluster, TopicPartition(getattr(topics, name.replace("-", "_")), number))
                if not is_of_a_resend(read.headers)
            ]
            for name in OUTPUT_TOPICS
        }


class Load(threading.Thread):
    """Sends some moments of each stream per second until it is stopped, then the closing marks.

    The first timestamp is `START_LAG_MS` before the clock, and they advance more slowly: none is in the future.
    """

    START_LAG_MS = 5_000
    INTERVAL_S = 0.025

    def __init__(self, app: App, streams: Sequence[StreamOf], seed: int) -> None:
        super().__init__(name="load")
        self._app = app
        self._streams = streams
        self._seed = seed
        self._enough = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Send until stopped."""
        try:
            with contextlib.closing(KafkaSender(self._app.servers)) as sender:
                self._send(sender)
        except BaseException as error:  # noqa: BLE001  (the test's own thread raises it)
            self._failure = error

    def _send(self, sender: KafkaSender) -> None:
        start_ms = int(time.time() * 1000) - self.START_LAG_MS
        sources = [stream_records(*stream, 10**6, start_ms, self._seed) for stream in self._streams]
        last_ms, begin_s = start_ms, time.monotonic()
        for number, moments in enumerate(zip(*sources, strict=True)):
            records = [record for moment in moments for record in moment]
            last_ms = max(last_ms, *(record.time_ms for record in records))
            self._app.send_by(sender, records)
            due_s = begin_s + self.INTERVAL_S * number
            if self._enough.wait(max(0.0, due_s - time.monotonic())):
                break
        for stream in self._streams:
            self._app.send_by(sender, closing(stream.name, stream.partition, last_ms, last_ms))
        sender.flush(DEADLINE_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop the thread, and raise the error that ended it."""
        self._enough.set()
        self.join(2 * DEADLINE_S)
        assert not self.is_alive()
        if self._failure is not None:
            raise self._failure
