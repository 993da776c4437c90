"""Which Kafka: the one that was given, else one of our own, else none.

given               --bootstrap-servers or AREBA_KAFKA__BOOTSTRAP_SERVERS
local jars          Java and Maven are on the PATH (ops/local_kafka.py)
container           an engine answers (ops/container_kafka.py)
in-process log      none of these: stream_app/backends/memory.py, within one process
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ops import container_kafka, local_kafka
from stream_app.errors import ConfigurationError

LOGGER = logging.getLogger("ops.broker")

VARIABLE = "AREBA_KAFKA__BOOTSTRAP_SERVERS"


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
            tell, "there is neither Java with Maven nor a container that starts"
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


def _container(running: ExitStack, tell: Callable[[str], None]) -> Broker | None:
    """A broker in a container, if an engine answers."""
    if not container_kafka.engine_answers():
        return None
    reason = f"Kafka: {container_kafka.IMAGE} in a container, because Java or Maven is missing and an engine answers"
    tell(reason)
    try:
        return Broker(running.enter_context(container_kafka.start()), reason)
    except ConfigurationError as problem:
        LOGGER.warning("%s", problem)
        return None
