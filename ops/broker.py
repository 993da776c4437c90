"""Choose a Kafka: the cluster that was given, or else a broker on this machine, or else none.

given               --bootstrap-servers or AREBA__KAFKA__BOOTSTRAP_SERVERS
local jars          if Java and Maven are on the PATH (`ops.local_kafka`)
container           if a container engine answers (`ops.container`)
in-process log      otherwise (stream_app/backends/memory)
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ops import container
from ops.local_kafka import cluster, jars
from stream_app.errors import ConfigurationError
from stream_app.producers.target_options import BOOTSTRAP_VARIABLES


@dataclass(frozen=True, slots=True)
class Broker:
    """The Kafka that was chosen.

    Attributes:
        bootstrap_servers: Its addresses; None: the in-process log.
        reason: One line that says what was chosen, and why.
    """

    bootstrap_servers: str | None
    reason: str


def _ignore(_: str) -> None:
    return


@contextmanager
def choose(bootstrap_servers: str | None = None, tell: Callable[[str], None] = _ignore) -> Iterator[Broker]:
    """Choose a Kafka, start it if it is local, and stop it after the block.

    Args:
        bootstrap_servers: A running cluster; it takes precedence over the environment.
        tell: Called with the reason before anything is started, and again if the choice had to change.
    """
    variable = next((name for name in BOOTSTRAP_VARIABLES if os.environ.get(name)), "")
    given = bootstrap_servers or os.environ.get(variable)
    if given:
        source = "it was given" if bootstrap_servers else f"{variable} says so"
        broker = Broker(given, f"Kafka: the cluster at {given}, because {source}")
        tell(broker.reason)
        yield broker
        return
    problems: list[str] = []
    with ExitStack() as running:
        for start in (_from_jars, _in_container):  # the jars are quicker to start
            try:
                broker = start(running, tell)
                break
            except ConfigurationError as problem:
                problems += problem.lines
        else:
            broker = Broker(None, f"Kafka: none, an in-process log, because {'; '.join(problems)}")
            tell(broker.reason)
        yield broker


def _from_jars(running: ExitStack, tell: Callable[[str], None]) -> Broker:
    """Start a broker from its jars.

    Raises:
        ConfigurationError: Java or Maven is missing, or the broker does not start.
    """
    if missing := jars.missing_tools():
        raise ConfigurationError(f"{' and '.join(missing)} not on the PATH")
    reason = f"Kafka: Apache Kafka {jars.kafka_version()} on this machine, because Java and Maven are here"
    tell(reason)
    return Broker(running.enter_context(cluster.start(1)).bootstrap_servers, reason)


def _in_container(running: ExitStack, tell: Callable[[str], None]) -> Broker:
    """Start a broker in a container.

    Raises:
        ConfigurationError: No engine answers, or the broker does not start.
    """
    if not container.engine_answers():
        raise ConfigurationError("no container engine answers")
    reason = f"Kafka: {container.kafka_image()} in a container, because a container engine answers"
    tell(reason)
    return Broker(running.enter_context(container.start()), reason)
