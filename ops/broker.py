"""Choose a Kafka: the cluster that was given, or else a broker on this machine, or else none.

given               --bootstrap-servers or AREBA_KAFKA__BOOTSTRAP_SERVERS
local jars          if Java and Maven are on the PATH
container           if a container engine answers; `stream_app.testing.kafka` starts both
in-process log      otherwise (stream_app/backends/memory)
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from stream_app.errors import ConfigurationError
from stream_app.testing.kafka import BrokerKind, kafka_broker

VARIABLE = "AREBA_KAFKA__BOOTSTRAP_SERVERS"


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
    given = bootstrap_servers or os.environ.get(VARIABLE)
    if given:
        source = "it was given" if bootstrap_servers else f"{VARIABLE} says so"
        broker = Broker(given, f"Kafka: the cluster at {given}, because {source}")
        tell(broker.reason)
        yield broker
        return
    with ExitStack() as running:
        try:
            started = running.enter_context(kafka_broker(BrokerKind.JARS, tell))  # quicker to start than a container
            broker = Broker(started.bootstrap_servers, started.reason)
        except ConfigurationError as problem:
            broker = Broker(None, f"Kafka: none, an in-process log, because {'; '.join(problem.lines)}")
            tell(broker.reason)
        yield broker
