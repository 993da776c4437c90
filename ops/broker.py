"""Choose a Kafka: the cluster that was given, or else a local one, or else none.

given               --bootstrap-servers or AREBA_KAFKA__BOOTSTRAP_SERVERS
local jars          if Java and Maven are on the PATH (ops/local_kafka)
container           if a container engine answers (ops/container_kafka.py)
in-process log      otherwise (stream_app/backends/memory)
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ops import container_kafka
from ops.local_kafka import cluster, jars
from stream_app.errors import ConfigurationError

LOGGER = logging.getLogger("ops.broker")

VARIABLE = "AREBA_KAFKA__BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True)
class Broker:
    """The Kafka that was chosen.

    Attributes:
        bootstrap_servers: Its addresses; None: the in-process log.
        reason: One line that says what was chosen, and why.
        local: The local cluster, whose brokers can be killed and restarted; None if the brokers are not local.
    """

    bootstrap_servers: str | None
    reason: str
    local: cluster.LocalKafka | None = None


def _ignore(_: str) -> None:
    return


@contextmanager
def choose(
    bootstrap_servers: str | None = None, brokers: int = 1, tell: Callable[[str], None] = _ignore
) -> Iterator[Broker]:
    """Choose a Kafka, start it if it is local, and stop it in the end.

    Args:
        bootstrap_servers: A running cluster. It is preferred to the environment's, and that to everything else.
        brokers: The number of brokers of a local cluster.
        tell: Called with the reason before anything is started, and again if the choice had to change.
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
            tell, "there is neither Java with Maven nor a container that starts"
        )


def _local(running: ExitStack, brokers: int, tell: Callable[[str], None]) -> Broker | None:
    """Start a cluster from jars or in a container, if this machine can run either; None: it cannot."""
    missing = jars.missing_tools()
    if not missing:
        reason = f"Kafka: Apache Kafka {jars.KAFKA_VERSION} on this machine, because Java and Maven are here"
        tell(reason)
        try:
            running_cluster = running.enter_context(cluster.start(brokers))
        except ConfigurationError as problem:
            LOGGER.warning("%s", problem)
            return _container(running, tell) or _in_process(tell, f"the local one did not start ({problem.lines[0]})")
        return Broker(running_cluster.bootstrap_servers, reason, running_cluster)
    return _container(running, tell)


def _in_process(tell: Callable[[str], None], why: str) -> Broker:
    broker = Broker(None, f"Kafka: none, an in-process log, because {why}")
    tell(broker.reason)
    return broker


def _container(running: ExitStack, tell: Callable[[str], None]) -> Broker | None:
    """Start a broker in a container; None if no engine answers or the broker does not start."""
    if not container_kafka.engine_answers():
        return None
    reason = f"Kafka: {container_kafka.IMAGE} in a container, because Java or Maven is missing and an engine answers"
    tell(reason)
    try:
        return Broker(running.enter_context(container_kafka.start()), reason)
    except ConfigurationError as problem:
        LOGGER.warning("%s", problem)
        return None
