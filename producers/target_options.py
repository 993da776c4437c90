"""The options of `areba-replay run` that say where it sends: a configuration, or each part by itself."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from stream_app.config import load
from stream_app.errors import ConfigurationError
from stream_app.producers.target import Target, read_client_config

BOOTSTRAP_VARIABLES = ("AREBA__KAFKA__BOOTSTRAP_SERVERS", "AREBA_KAFKA__BOOTSTRAP_SERVERS")
TOPIC_PREFIX_VARIABLES = ("AREBA__KAFKA__INPUT_PREFIX", "AREBA__KAFKA__TOPIC_PREFIX")

_Command = TypeVar("_Command", bound=Callable[..., Any])

_PATH = click.Path(dir_okay=False, path_type=Path)

_OPTIONS = (
    click.option(
        "-c",
        "--config",
        type=_PATH,
        help="Configuration file of the application (YAML): brokers, topics, format of values, and columns of streams. "
        "It replaces the next six options.",
    ),
    click.option(
        "--bootstrap-servers",
        envvar=BOOTSTRAP_VARIABLES,
        help=f"Addresses of Kafka brokers; by default {BOOTSTRAP_VARIABLES[0]}.",
    ),
    click.option(
        "--topic-prefix",
        envvar=TOPIC_PREFIX_VARIABLES,
        default="",
        help="Prefix of the topic names `examples` and `labels`.",
    ),
    click.option("--examples-topic", help="Full name of the topic of examples, without the prefix."),
    click.option("--labels-topic", help="Full name of the topic of labels, without the prefix."),
    click.option(
        "--client-config",
        type=_PATH,
        help="File of librdkafka settings, `name=value` lines: security, passwords, compression.",
    ),
    click.option(
        "--registry-config",
        type=_PATH,
        help="Send values in Confluent's wire format; the file has `name=value` lines for the client of the schema "
        "registry, with `url`.",
    ),
)

_REPLACED = (
    "bootstrap_servers", "topic_prefix", "examples_topic", "labels_topic", "client_config", "registry_config"
)  # fmt: skip
"""The options that a configuration replaces."""


def target_options(command: _Command) -> _Command:
    """Add the options that say where a replay is sent."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_target(values: dict[str, Any]) -> Target:
    """Remove the options about the target from a command's values, and return the target.

    Raises:
        ConfigurationError: An option is wrong, missing, or said twice.
    """
    path = values.pop("config")
    given = {name: values.pop(name) for name in _REPLACED}
    if path is not None:
        _refuse_replaced(path)
        return _configured_target(path)
    if not given["bootstrap_servers"]:
        raise ConfigurationError(f"no Kafka: give -c FILE or --bootstrap-servers, or set {BOOTSTRAP_VARIABLES[0]}")
    settings = read_client_config(given["client_config"]) if given["client_config"] else {}
    return Target(
        bootstrap_servers=given["bootstrap_servers"],
        examples_topic=given["examples_topic"] or f"{given['topic_prefix']}examples",
        labels_topic=given["labels_topic"] or f"{given['topic_prefix']}labels",
        settings=settings,
        sender_settings=settings,
        registry_config=given["registry_config"],
    )


def _refuse_replaced(path: Path) -> None:
    """Refuse an option of the command line that the configuration replaces; variables override the configuration."""
    context = click.get_current_context()
    for name in _REPLACED:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ConfigurationError(f"--{name.replace('_', '-')}: {path} says it (-c)")


def _configured_target(path: Path) -> Target:
    config = load(path, os.environ)
    topics, kafka = config.topics, config.kafka
    return Target(
        bootstrap_servers=kafka.bootstrap_servers,
        examples_topic=topics.examples,
        labels_topic=topics.labels,
        settings=kafka.all,
        sender_settings={**kafka.all, **kafka.producer},
        config=config,
    )
