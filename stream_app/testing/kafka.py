"""A real Kafka for tests: in a container, or else from its jars.

A container of Apache's image needs an engine (Docker, or Podman's service) and testcontainers, the extra `testing`. The
jars need Java and Maven.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum

from stream_app.errors import ConfigurationError
from stream_app.testing import container
from stream_app.testing.local_kafka import cluster, jars


class BrokerKind(StrEnum):
    """Where a broker runs."""

    CONTAINER = "container"
    JARS = "jars"


@dataclass(frozen=True, slots=True)
class KafkaBroker:
    """A running broker.

    Attributes:
        bootstrap_servers: Its address, for `kafka.bootstrap_servers` and any client.
        reason: One line that says what runs, and why.
    """

    bootstrap_servers: str
    reason: str


def _ignore(_: str) -> None:
    return


@contextmanager
def kafka_broker(
    prefer: BrokerKind = BrokerKind.CONTAINER, tell: Callable[[str], None] = _ignore
) -> Iterator[KafkaBroker]:
    """Run a Kafka of one broker on this machine while the context lasts, and leave nothing.

    Args:
        prefer: What is tried first; the other kind is tried if it is not there, or does not start.
        tell: Called with the reason before a broker is started.

    Raises:
        ConfigurationError: Neither kind is there and starts; one line for each.

    Example:
        >>> with kafka_broker() as broker:  # doctest: +SKIP
        ...     application = load(Path("my.yaml"), {"AREBA_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers})
    """
    starters = {BrokerKind.CONTAINER: _in_container, BrokerKind.JARS: _from_jars}
    problems: list[str] = []
    with ExitStack() as running:
        for kind in sorted(BrokerKind, key=lambda kind: kind is not prefer):
            try:
                broker = starters[kind](running, tell)
                break
            except ConfigurationError as problem:
                problems += problem.lines
        else:
            raise ConfigurationError(problems)
        yield broker


def _in_container(running: ExitStack, tell: Callable[[str], None]) -> KafkaBroker:
    """Start a broker in a container.

    Raises:
        ConfigurationError: No engine answers, or the broker does not start.
    """
    if not container.engine_answers():
        raise ConfigurationError("no container engine answers")
    reason = f"Kafka: {container.kafka_image()} in a container, because a container engine answers"
    tell(reason)
    return KafkaBroker(running.enter_context(container.start()), reason)


def _from_jars(running: ExitStack, tell: Callable[[str], None]) -> KafkaBroker:
    """Start a broker from its jars.

    Raises:
        ConfigurationError: Java or Maven is missing, or the broker does not start.
    """
    if missing := jars.missing_tools():
        raise ConfigurationError(f"{' and '.join(missing)} not on the PATH")
    reason = f"Kafka: Apache Kafka {jars.kafka_version()} on this machine, because Java and Maven are here"
    tell(reason)
    return KafkaBroker(running.enter_context(cluster.start(1)).bootstrap_servers, reason)
