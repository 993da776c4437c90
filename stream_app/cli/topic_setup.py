"""Create the missing topics of an application, and check the settings of all topics."""

import logging
from collections.abc import Mapping

from stream_app import events
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Cluster, TopicInfo
from stream_app.backends.partition_count import tasks_of
from stream_app.cli.clients import connect
from stream_app.config import Config
from stream_app.errors import TopicError

LOG = logging.getLogger("areba")


def create_topics(config: Config, partitions: int, replication: int = -1) -> list[str]:
    """Create the missing topics, and return one line for each topic of the application.

    Args:
        config: The application's configuration.
        partitions: Partitions of each topic.
        replication: Replicas of each partition; -1 takes the broker's default.

    Raises:
        TopicError: An existing topic has wrong settings.
    """
    cluster = connect(config)
    wanted = topic_plan.plan(
        config.topics,
        partitions,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
    )
    cluster.create(wanted, replication)
    found = check_topics(config, cluster)
    warn_of_topics(found)
    return [f"{name}: {topic.partitions} partitions" for name, topic in found.items()]


def check_topics(config: Config, cluster: Cluster) -> Mapping[str, TopicInfo]:
    """Check the topics of a configuration, and return them by name.

    Raises:
        TopicError: A topic is missing or has wrong settings; one line for each fault.
    """
    found = cluster.topics(config.topics)
    progress = found.get(config.topics.progress)
    lines = topic_plan.check(
        found,
        config.topics,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
        tasks=tasks_of(cluster, progress) if progress is not None else None,
    )
    if lines:
        raise TopicError(lines)
    return found


def warn_of_topics(found: Mapping[str, TopicInfo]) -> None:
    """Log a warning for each setting that is allowed but loses data when a disk fails."""
    for line in topic_plan.warnings(found):
        events.log(events.TOPICS_AT_RISK, LOG, problem=line)
