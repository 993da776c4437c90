"""Which Kafka: the one that was given, else one of our own, else none.

given               --bootstrap-servers or AREBA_KAFKA__BOOTSTRAP_SERVERS
local jars          Java and Maven are on the PATH (ops/local_kafka.py)
container           an engine answers (testcontainers)
in-process log      none of these: stream_app/embedded.py, within one process
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ops import local_kafka
from stream_app.errors import ConfigurationError

LOGGER = logging.getLogger("ops.broker")

VARIABLE = "AREBA_KAFKA__BOOTSTRAP_SERVERS"

ENGINE_TIMEOUT_S = 5
"""A container engine on this machine answers at once or not at all."""

CONTAINER_IMAGE = "confluentinc/cp-kafka:7.9.2"
"""Apache Kafka 3.9; testcontainers' start script is written for this family of images."""


@dataclass(frozen=True, slots=True)
class Broker:
    """The Kafka that was chosen.

    Attributes:
        bootstrap_servers: None stands for the in-process log.
        reason: One line: what was chosen, and why.
        local: The cluster, where it is one of our own that can be killed and restarted.
    """

    bootstrap_servers: str | None
    reason: str
    local: local_kafka.LocalKafka | None = None


def _ignore(_: str) -> None:
    return


@contextmanager
def choose(
    bootstrap_servers: str | None = None, brokers: int = 1, tell: Callable[[str], None] = _ignore
) -> Iterator[Broker]:
    """Choose a Kafka, start it where it is ours, and stop it in the end.

    Args:
        bootstrap_servers: A cluster that is there; it wins over the environment's, and that over everything else.
        brokers: How many brokers one of our own shall have.
        tell: Is given the reason before anything is started, and again if it had to change.
    """
    given = bootstrap_servers or os.environ.get(VARIABLE)
    if given:
        source = "it was given" if bootstrap_servers else f"{VARIABLE} says so"
        broker = Broker(given, f"Kafka: the cluster at {given}, because {source}")
        tell(broker.reason)
        yield broker
        return
    with ExitStack() as running:
        yield _local(running, brokers, tell) or _in_process(
            tell, "neither Java with Maven nor a container engine is here"
        )


def _local(running: ExitStack, brokers: int, tell: Callable[[str], None]) -> Broker | None:
    """One of our own, if this machine can run one."""
    missing = local_kafka.missing_tools()
    if not missing:
        reason = f"Kafka: Apache Kafka {local_kafka.KAFKA_VERSION} on this machine, because Java and Maven are here"
        tell(reason)
        try:
            cluster = running.enter_context(local_kafka.start(brokers))
        except ConfigurationError as problem:
            LOGGER.warning("%s", problem)
            return _container(running, tell) or _in_process(tell, f"the local one did not start ({problem.lines[0]})")
        return Broker(cluster.bootstrap_servers, reason, cluster)
    return _container(running, tell)


def _in_process(tell: Callable[[str], None], why: str) -> Broker:
    broker = Broker(None, f"Kafka: none, an in-process log, because {why}")
    tell(broker.reason)
    return broker


def _engine_answers() -> bool:
    try:
        import docker  # type: ignore[import-untyped]  # noqa: PLC0415  (comes with testcontainers, a tool of developers)
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=ENGINE_TIMEOUT_S)
    except docker.errors.DockerException:
        return False
    try:
        return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False
    finally:
        client.close()


def _container(running: ExitStack, tell: Callable[[str], None]) -> Broker | None:
    """A broker in a container, if an engine answers."""
    if not _engine_answers():
        return None
    try:
        from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415  (as above)
    except ImportError:
        return None
    reason = f"Kafka: {CONTAINER_IMAGE} in a container, because Java or Maven is missing and an engine answers"
    tell(reason)
    container = KafkaContainer(CONTAINER_IMAGE).with_kraft()
    for name, value in {
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }.items():
        container = container.with_env(name, value)
    running.enter_context(container)
    return Broker(container.get_bootstrap_server(), reason)
