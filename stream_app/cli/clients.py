"""Kafka clients made from the configuration."""

from contextlib import closing
from pathlib import Path

from stream_app.admin.models import Place
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.schemas import load_with_schemas
from stream_app.config import Config


def open_cluster(config: Config) -> KafkaCluster:
    """Return the administrative client of a configuration, whether or not a broker answers."""
    return KafkaCluster(config.kafka.bootstrap_servers, config.kafka.all, config.log_reader_group_id)


def connect(config: Config) -> KafkaCluster:
    """Return the administrative client of a configuration after a broker has answered.

    Raises:
        ConfigurationError: No broker answers.
    """
    return open_cluster(config).require_broker()


def open_sender(config: Config) -> KafkaSender:
    """Return a producer without transactions; the caller closes it."""
    return KafkaSender(config.kafka.bootstrap_servers, {**config.kafka.all, **config.kafka.producer})


def open_place(path: Path) -> Place:
    """Read a configuration file and connect to its brokers.

    Raises:
        ConfigurationError: A setting is wrong, or no broker answers.
    """
    config = load_with_schemas(path)
    return Place(config, connect(config), SystemClock())


def try_transaction(config: Config) -> None:
    """Initialise a producer with the worker's transactional id, as a worker does at its start, and close it.

    Raises:
        ConfigurationError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    settings = {**config.kafka.all, **config.kafka.producer}
    with closing(KafkaTransaction(config.kafka.bootstrap_servers, config.transactional_id, settings)) as transaction:
        transaction.initialise()
