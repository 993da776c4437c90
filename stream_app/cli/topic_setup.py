"""Create the missing topics of an application, and check the settings of all topics."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_app.admin.models import Application
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Cluster, TopicInfo
from stream_app.backends.progress import tasks_of
from stream_app.backends.retention import differences, input_times
from stream_app.cli.clients import connect, open_application
from stream_app.config import Config
from stream_app.errors import ConfigurationError, TopicError
from stream_app.worker.reports.events import TopicsAtRisk

LOG = logging.getLogger("areba")


DEFAULT_PARTITIONS = 4
"""Partitions of the topics of a new application."""


def create_topics(
    config: Config, partitions: int | None, replication: int = -1, retention_ms: int | None = None
) -> list[str]:
    """Create the missing topics, and return one line for each topic of the application.

    Args:
        config: The application's configuration.
        partitions: Partitions of each topic; None: what the application has, or `DEFAULT_PARTITIONS` for a new one.
        replication: Replicas of each partition; -1 takes the broker's default.
        retention_ms: How long the inputs are kept; `retention.FOREVER` keeps everything. None: the default.

    Raises:
        ConfigurationError: The application has another number of tasks, or the retention is shorter than a join and a
            pause need.
        TopicError: An existing topic has wrong settings, or another retention than the user asks for.
    """
    cluster = connect(config)
    wanted = topic_plan.plan(
        config.topics,
        _partitions(config, cluster, partitions),
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
        ttl_ms=config.join.ttl_ms,
        retention_ms=retention_ms,
    )
    existing = _check(config, cluster, wanted)  # before anything is created beside topics that cannot stay so
    if retention_ms is not None:
        inputs = [existing[name] for name in config.topics.inputs if name in existing]
        if lines := list(differences(inputs, input_times(config.join.ttl_ms, retention_ms))):
            raise TopicError(lines)
    cluster.create(wanted, replication)
    found = check_topics(config, cluster)
    warn_of_topics(config, found)
    return [f"{name}: {topic.partitions} partitions" for name, topic in found.items()]


def _partitions(config: Config, cluster: Cluster, wanted: int | None) -> int:
    """Return the number of partitions with which missing topics are created.

    Raises:
        ConfigurationError: The application has begun with another number than the wanted one.
    """
    found = cluster.topics(config.topics)
    progress = found.get(config.topics.progress)
    tasks = tasks_of(cluster, progress) if progress is not None else None
    if tasks is not None and wanted not in (None, tasks):
        raise ConfigurationError(
            f"--partitions {wanted}: {config.application.id} has {tasks} tasks; omit the option, "
            f"or move the application: areba repartition --to N"
        )
    existing = [found[name].partitions for name in (config.topics.progress, *config.topics) if name in found]
    return wanted or tasks or next(iter(existing), DEFAULT_PARTITIONS)


def open_checked(path: Path) -> Application:
    """Read a configuration file, connect to its brokers, and check the topics.

    Raises:
        ConfigurationError: A setting is wrong, no broker answers, or a topic is missing or has wrong settings.
    """
    application = open_application(path)
    check_topics(application.config, application.cluster)
    return application


def check_topics(config: Config, cluster: Cluster) -> Mapping[str, TopicInfo]:
    """Check the topics of a configuration, and return them by name.

    Raises:
        TopicError: A topic is missing or has wrong settings; one line for each fault.
    """
    return _check(config, cluster, ())


def _check(config: Config, cluster: Cluster, planned: Sequence[TopicInfo]) -> Mapping[str, TopicInfo]:
    """Check the topics as they will be once those that are planned and missing are created."""
    found = cluster.topics(config.topics)
    progress = found.get(config.topics.progress)
    lines = topic_plan.check(
        {topic.name: topic for topic in planned} | dict(found),
        config.topics,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
        tasks=tasks_of(cluster, progress) if progress is not None else None,
    )
    if lines:
        raise TopicError(lines)
    return found


def warn_of_topics(config: Config, found: Mapping[str, TopicInfo]) -> None:
    """Log a warning for each setting that is allowed but loses data with a disk or with time, or keeps erased data."""
    risks = topic_plan.retention_risks(found, config.topics, config.join.ttl_ms)
    for line in (*topic_plan.warnings(found), *topic_plan.slow_compactions(found), *(risk.text for risk in risks)):
        TopicsAtRisk.line.log(LOG, problem=line)
