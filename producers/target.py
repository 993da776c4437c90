"""The target of a replay: the settings of its clients, the topics, and the format of values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stream_app.backends.base import Cluster
from stream_app.backends.kafka.registry.client import open_registry
from stream_app.backends.retention import UNLIMITED_MS, before_max_of, retention_of
from stream_app.cli.schemas import with_schemas
from stream_app.config import Config, or_nearest
from stream_app.errors import ConfigurationError, TopicError
from stream_app.producers.files.layout import ANY_INPUT, StreamInput
from stream_app.records import Example, Label
from stream_app.serialization.avro import newest
from stream_app.serialization.wire_format import WireFormat, confluent, format_of, single_object


def read_client_config(path: Path, option: str = "--client-config") -> dict[str, str]:
    """Read settings of a client from a file of `name=value` lines; empty lines and lines after # are ignored.

    Raises:
        ConfigurationError: The file cannot be read, or a line is not a setting. The error does not show the line,
            because it may contain a password.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{option} {path}: {error}") from error
    settings = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise ConfigurationError(f"{option} {path}: line {number} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a replay is sent, and in which form.

    Attributes:
        bootstrap_servers: Addresses of some brokers.
        examples_topic: The full name of the topic of examples.
        labels_topic: The full name of the topic of labels.
        settings: Settings of every client.
        sender_settings: Settings of the producer.
        registry_config: The file with the settings of the schema registry; None: values have no ids of a registry.
        config: The application's configuration; None: not given.
    """

    bootstrap_servers: str
    examples_topic: str
    labels_topic: str
    settings: Mapping[str, str] = field(default_factory=dict)
    sender_settings: Mapping[str, str] = field(default_factory=dict)
    registry_config: Path | None = None
    config: Config | None = None

    @property
    def topics(self) -> tuple[str, str]:
        """The full names of the topics of examples and labels."""
        return self.examples_topic, self.labels_topic

    def input_of(self, stream: str) -> StreamInput:
        """Return what the configuration says about a stream.

        Raises:
            ConfigurationError: It has no such stream, and the application refuses unknown streams.
        """
        if self.config is None:
            return ANY_INPUT
        found = self.config.streams.get(stream)
        if found is not None:
            return StreamInput(
                columns=found.columns, missing_values=found.missing_values, features=found.features, lanes=found.lanes
            )
        if self.config.unknown_streams == "dead-letter":
            hint = or_nearest(stream, self.config.streams)
            raise ConfigurationError(f"the configuration has no stream {stream!r}{hint} (--stream)")
        return ANY_INPUT

    def wire_format(self) -> WireFormat:
        """Return the format of values: that of the configuration, or Confluent's with settings of a registry.

        Raises:
            ConfigurationError: A setting is wrong, or the registry gives no answer.
        """
        if self.config is not None:
            return format_of(with_schemas(self.config, registers=True)[0].serialization)
        if self.registry_config is None:
            return single_object()
        registry = open_registry(read_client_config(self.registry_config, "--registry-config"))
        topics = {Example: self.examples_topic, Label: self.labels_topic}
        return confluent(registry.schema_ids(topics, newest(), registers=True))


def check_topics(cluster: Cluster, names: tuple[str, str], partitions: int | None = None) -> int:
    """Check that both topics are ready for a replay.

    Args:
        cluster: The cluster.
        names: The topics of examples and labels.
        partitions: The number of partitions of each topic that are used; None: all.

    Returns:
        How old a record may be that both topics accept and keep, in milliseconds; -1: of any age.

    Raises:
        TopicError: A topic is missing, or a label would not meet its example.
    """
    found = cluster.topics(names)
    lines = [
        f"topic {name}: it does not exist; `areba topics create` creates it" for name in names if name not in found
    ]
    if not lines:
        examples, labels = (found[name] for name in names)
        if partitions is None and examples.partitions != labels.partitions:
            lines.append(
                f"topics {names[0]} and {names[1]} have {examples.partitions} and {labels.partitions} partitions;"
                " they need equal numbers, or --partitions if the application began with fewer"
            )
        lines += [
            f"topic {topic.name}: has {topic.partitions} partitions, --partitions is {partitions}"
            for topic in (examples, labels)
            if partitions is not None and topic.partitions < partitions
        ]
        lines += [
            f"topic {topic.name}: message.timestamp.type is LogAppendTime; event times need CreateTime"
            for topic in (examples, labels)
            if topic.settings.get("message.timestamp.type", "CreateTime") != "CreateTime"
        ]
    if lines:
        raise TopicError(lines)
    limits = [limit for name in names for limit in (retention_of(found[name]), before_max_of(found[name]))]
    return min((limit for limit in limits if 0 <= limit < UNLIMITED_MS), default=-1)
