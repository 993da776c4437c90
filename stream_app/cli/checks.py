"""Wait for Kafka, and for a schema registry, before the worker joins the consumer group."""

import logging
import math
import time
from collections.abc import Callable, Mapping

from stream_app import log_lines
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicInfo
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.schema_names import SchemaNames
from stream_app.cli.schemas import with_schemas
from stream_app.cli.topic_setup import check_topics, warn_of_topics
from stream_app.config import Config
from stream_app.errors import ConfigurationError, TopicError, UnknownOutcomeError

LOG = logging.getLogger("areba")

RETRY_S = 1.0
"""Pause between two attempts to reach a broker."""

REPORT_INTERVAL_S = 5.0
"""Time between two log lines that say what the worker is waiting for."""

_SHORTEST_ATTEMPT_S = 0.5
"""Least time for one attempt to reach a broker, when the time limit has nearly passed."""

ATTEMPT_S = 4.0
"""Most time for one attempt: a dead address costs a second, and three may be tried before a broker answers."""


def wait_for_topics(
    config: Config, cluster: KafkaCluster, should_stop: Callable[[], bool], *, restarted: bool
) -> Mapping[str, TopicInfo] | None:
    """Wait for a broker, and return the topics by name after checking them; return None when asked to stop.

    A broker may still be starting, so the worker waits for `worker.start_timeout_ms`. Topics with wrong settings are
    an error at once.

    Args:
        config: The application's configuration.
        cluster: The administrative client.
        should_stop: Says whether the worker was asked to stop.
        restarted: Whether this process restarted itself. Its address was right then, so it waits without a limit.

    Raises:
        ConfigurationError: No broker answered in time.
        TopicError: A topic or an access right is missing, or a topic has wrong settings.
    """
    deadline = math.inf if restarted else time.monotonic() + config.worker.start_timeout_ms / 1000
    reported_s = -math.inf
    while not should_stop():
        left_s = deadline - time.monotonic()
        # An attempt takes at most half of the time that is left, so that the first report comes before the end.
        if cluster.broker_count(min(ATTEMPT_S, max(left_s / 2, _SHORTEST_ATTEMPT_S))):
            try:
                found = check_topics(config, cluster)
                _check_rights(config, cluster)
            except UnknownOutcomeError as error:
                problem = str(error)
            else:
                warn_of_topics(config, found)
                return found
        else:
            problem = cluster.no_answer_text
        now = time.monotonic()
        if now >= deadline:
            raise ConfigurationError(f"kafka.bootstrap_servers: {problem} (waited {config.worker.start_timeout_ms} ms)")
        if now - reported_s >= REPORT_INTERVAL_S:
            log_lines.SERVICE_AWAITED.log(LOG, service="Kafka", problem=problem)
            reported_s = now
        time.sleep(min(RETRY_S, deadline - now))
    return None


def wait_for_schemas(
    config: Config, should_stop: Callable[[], bool], *, restarted: bool
) -> tuple[Config, SchemaNames] | None:
    """Do as `with_schemas` and register what is new, as soon as the registry answers; return None when asked to stop.

    Args:
        config: The application's configuration.
        should_stop: Says whether the worker was asked to stop.
        restarted: Whether this process restarted itself. Its address was right then, so it waits without a limit.

    Raises:
        ConfigurationError: The registry did not answer within `worker.start_timeout_ms`.
    """
    deadline = math.inf if restarted else time.monotonic() + config.worker.start_timeout_ms / 1000
    reported_s = -math.inf
    while not should_stop():
        try:
            return with_schemas(config, registers=True)
        except ConfigurationError as error:
            now = time.monotonic()
            if now >= deadline:
                raise
            if now - reported_s >= REPORT_INTERVAL_S:
                log_lines.SERVICE_AWAITED.log(LOG, service="the schema registry", problem=error)
                reported_s = now
            time.sleep(min(RETRY_S, deadline - now))
    return None


def group_rights(config: Config) -> Mapping[str, str]:
    """Return the operation that a worker needs on each group; readers name theirs, but do not join it."""
    return {config.group_id: "Read", config.log_reader_group_id: "Describe"}


def _check_rights(config: Config, cluster: KafkaCluster) -> None:
    """Check that the broker allows every operation of a worker.

    Raises:
        TopicError: One line for each operation that is not allowed.
    """
    lines = cluster.missing_rights(topic_plan.rights(config.topics), group_rights(config))
    if lines:
        raise TopicError(lines)
