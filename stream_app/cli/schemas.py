"""The ids that a schema registry has given our schemas: they become part of the configuration."""

import os
from pathlib import Path

from stream_app.backends.schema_names import NO_REGISTRY, SchemaNames
from stream_app.config import Config, load
from stream_app.errors import ConfigurationError
from stream_app.terminal import say


def load_with_schemas(path: Path) -> Config:
    """Read a configuration, with its schema ids, for a tool.

    A registry that gives no answer is no error: the tool shows everything but the content of values.

    Raises:
        ConfigurationError: A setting is wrong.
    """
    config = load(path, os.environ)
    try:
        return with_schemas(config, registers=False)[0]
    except ConfigurationError as error:
        say(f"values may be shown without their content: {error}", err=True)
        return config


def with_schemas(config: Config, *, registers: bool) -> tuple[Config, SchemaNames]:
    """Return a configuration with its schema ids, and the registry that knows further ids.

    Raises:
        ConfigurationError: The registry gives no answer, or a setting is wrong.
    """
    serialization = config.serialization
    if "confluent" not in serialization.wire_format or "url" not in serialization.schema_registry:
        return config, NO_REGISTRY
    from stream_app.backends.kafka.registry.client import open_registry, topics_of  # noqa: PLC0415  (rarely needed)
    from stream_app.serialization.avro import newest  # noqa: PLC0415  (Numba takes a second)

    registry = open_registry(serialization.schema_registry, is_json=serialization.wire_format == "confluent_json")
    if serialization.schema_ids:
        return config, registry
    ids = registry.schema_ids(topics_of(config.topics), newest(), registers=registers)
    return config.with_schema_ids(ids, registry.writer_schemas), registry
