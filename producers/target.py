"""The target of a replay: the settings of its clients, the topics, and the format of values."""

from pathlib import Path

from stream_app.backends.base import Cluster
from stream_app.backends.kafka.registry.client import open_registry
from stream_app.backends.retention import UNLIMITED_MS, before_max_of, retention_of
from stream_app.errors import ConfigurationError, TopicError
from stream_app.producers.plan import Plan
from stream_app.records import Example, Label
from stream_app.serialization.avro import newest
from stream_app.serialization.wire_format import WireFormat, confluent, json_format, single_object


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


def wire_format_of(plan: Plan, registry_config: Path | None, *, is_json: bool = False) -> WireFormat:
    """Return the format of a replay's values: JSON, or Confluent's if there are settings of a schema registry.

    Raises:
        ConfigurationError: A setting is wrong, or the registry gives no answer.
    """
    if registry_config is None:
        return json_format() if is_json else single_object()
    if is_json:
        raise ConfigurationError("--registry-config: has no effect with --json")
    registry = open_registry(read_client_config(registry_config, "--registry-config"))
    topics = {Example: plan.examples_topic, Label: plan.labels_topic}
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
