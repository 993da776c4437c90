"""Kafka clients made from the configuration."""

import os
from contextlib import closing
from functools import partial
from pathlib import Path

from stream_app.admin.models import Application
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.settings import CLIENT_PROBLEM
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.schemas import load_with_schemas
from stream_app.config import Config, effective


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


def open_application(path: Path) -> Application:
    """Read a configuration file and connect to its brokers.

    Raises:
        ConfigurationError: A setting is wrong, or no broker answers.
    """
    config = load_with_schemas(path)
    return Application(config, connect(config), SystemClock(), partial(open_transaction, config))


def open_transaction(config: Config, transactional_id: str) -> KafkaTransaction:
    """Return a transactional producer of this id; the caller closes it."""
    settings = {**config.kafka.all, **config.kafka.producer}
    return KafkaTransaction(config.kafka.bootstrap_servers, transactional_id, settings)


def try_transaction(config: Config) -> None:
    """Initialise a producer with the worker's transactional id, as a worker does at its start, and close it.

    Raises:
        ConfigurationError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    with closing(open_transaction(config, config.transactional_id)) as transaction:
        transaction.initialise()


def try_consumer(config: Config) -> None:
    """Create a consumer as a worker has it, which joins no group, and close it.

    Raises:
        ConfigurationError: A setting is not one of a consumer, or has a wrong value.
    """
    settings = {**config.kafka.all, **config.kafka.consumer}
    with closing(KafkaSource(config.kafka.bootstrap_servers, config.group_id, settings)):
        pass


def with_source(line: str, path: Path | None) -> str:
    """Return a line about a wrong setting of a client, preceded by the setting and the place that sets it.

    A line that `create_client` has not made is returned as it is.
    """
    if not line.startswith(CLIENT_PROBLEM):
        return line
    for setting, _, source in effective(path, os.environ):
        section, _, name = setting.removeprefix("kafka.").partition(".")
        if section in {"all", "consumer", "producer"} and f'"{name}"' in line:
            return f"{source}: {setting}: {line.removeprefix(CLIENT_PROBLEM)}"
    return line
