"""Ask a schema registry for the ids of our schemas, and for the schemas of new ids."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import schemas
from stream_app import events
from stream_app.backends.base import Clock
from stream_app.backends.clock import SystemClock
from stream_app.config import Topics
from stream_app.errors import ConfigurationError
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction
from stream_app.serialization.avro import Record, Schema
from stream_app.serialization.wire_format import name_of, schema_in

LOG = logging.getLogger("areba.registry")

REQUEST_TIMEOUT_S = 1.0
"""Longest wait for one answer: the worker's loop stands still meanwhile."""

LOOKUP_S = 2.0
"""After so long, a lookup of several ids ends and continues in the next round."""

RETRY_S = 5.0
"""Time between two attempts while the registry gives no answer."""

REFUSED_S = 60.0
"""Time for which an id counts as unknown: then the registry is asked again, as the schema may be registered now."""

MAX_REFUSED = 10_000
"""Unknown ids that are remembered."""

MAX_VERSIONS = 100
"""Versions of a subject that are read, the newest: each takes a request."""

NOT_FOUND = 404


def topics_of(topics: Topics) -> Mapping[type[Record], str]:
    """Return the topic of each type of record that has one of its own."""
    return {
        Example: topics.examples,
        Label: topics.labels,
        Prediction: topics.predictions,
        Outcome: topics.outcomes,
        Metric: topics.metrics,
    }


class SchemaRegistry:
    """A schema registry.

    Args:
        client: A `SchemaRegistryClient` of confluent-kafka, or its mock.
        clock: A monotonic clock.
    """

    def __init__(self, client: Any, clock: Clock) -> None:  # noqa: ANN401  (the client has no types)
        self._client = client
        self._clock = clock
        self._refused: dict[int, float] = {}  # by id, when to ask again
        self._retry_s = -math.inf

    def schema_ids(
        self, topics: Mapping[type[Record], str], written: Mapping[type[Record], Schema], *, registers: bool = False
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the ids of our schemas by their names: of each schema, first the id that we write.

        Args:
            topics: By type of record, the topic that gives the subject its name (`TopicNameStrategy`). Marks are in
                both inputs, beside other records, so their subject is always the name of the record.
            written: The schemas with which values are written.
            registers: Whether to register the schemas that have no id yet.

        Raises:
            ConfigurationError: The registry gives no answer, or refuses.
        """
        found: dict[str, list[int]] = {}
        marks: str = written[Mark].parsed["name"]
        for record, subject in {**{one: f"{name}-value" for one, name in topics.items()}, Mark: marks}.items():
            schema = written[record]
            try:
                own = self._schema_id(subject, schema, registers=registers)
                if own is not None:
                    found[name_of(schema)] = [own]
                for schema_id, other in sorted(self._versions(subject)):
                    if schema_id not in found.setdefault(other, []):
                        found[other].append(schema_id)
            except Exception as error:  # the client also raises what its HTTP library raises
                raise ConfigurationError(
                    f"serialization.schema_registry.url: subject {subject}: {_problem(error)}"
                ) from error
        return {name: tuple(ids) for name, ids in found.items()}

    def names_of(self, schema_ids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the names of the application's schemas by id; None while the registry does not answer."""
        begun_s = self._clock.monotonic_s()
        if begun_s < self._retry_s:
            return None
        found: dict[int, str] = {}
        for schema_id in schema_ids:
            now_s = self._clock.monotonic_s()
            if self._refused.get(schema_id, -math.inf) > now_s:
                continue
            if now_s - begun_s > LOOKUP_S:
                return None
            try:
                name = self._name(schema_id)
            except Exception as error:  # noqa: BLE001  (the client also raises what its HTTP library raises)
                self._retry_s = now_s + RETRY_S
                events.log(events.REGISTRY_AWAITED, LOG, schema_id=schema_id, problem=_problem(error))
                return None
            if name is None:
                if len(self._refused) >= MAX_REFUSED:
                    self._refused.clear()
                self._refused[schema_id] = now_s + REFUSED_S
            else:
                found[schema_id] = name
                events.log(events.SCHEMA_ACCEPTED, LOG, schema_id=schema_id, schema=name)
        return found

    def _schema_id(self, subject: str, schema: Schema, *, registers: bool) -> int | None:
        """Return the id of a schema in a subject; register the schema if asked to; None if it has no id."""
        from confluent_kafka.schema_registry import Schema as Text  # noqa: PLC0415  (needs the extra)

        source = schemas.sources()[schema.record.__name__.lower(), schema.version]
        text = Text(source.strip(), "AVRO")  # as Confluent's serializers register it
        try:
            found: int = self._client.lookup_schema(subject, text).schema_id
        except Exception as error:
            if not _is_missing(error):
                raise
            found = self._client.register_schema(subject, text) if registers else -1
        return found if found >= 0 else None

    def _versions(self, subject: str) -> list[tuple[int, str]]:
        """Return the id and the name of each version of a subject that is one of our schemas, newest first."""
        try:
            versions = sorted(self._client.get_versions(subject))
        except Exception as error:
            if _is_missing(error):
                return []
            raise
        registered = [self._client.get_version(subject, version) for version in reversed(versions[-MAX_VERSIONS:])]
        named = [(one.schema_id, _name_in(one.schema)) for one in registered]
        return [(schema_id, name) for schema_id, name in named if name is not None]

    def _name(self, schema_id: int) -> str | None:
        try:
            return _name_in(self._client.get_schema(schema_id))
        except Exception as error:
            if _is_missing(error):
                return None
            raise


def open_registry(settings: Mapping[str, str]) -> SchemaRegistry:
    """Return the registry that these settings of confluent-kafka's client name, whether or not it answers.

    Raises:
        ConfigurationError: A setting is wrong, or the packages of the extra `registry` are missing.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415  (needs the extra)
    except ImportError as error:
        raise ConfigurationError(
            f"serialization.wire_format: confluent needs the package {error.name}; install the extra `registry`: "
            "pip install 'areba[registry]'"
        ) from error
    try:
        client = SchemaRegistryClient.new_client({**settings, "timeout": REQUEST_TIMEOUT_S, "max.retries": 0})
    except Exception as error:
        raise ConfigurationError(f"serialization.schema_registry: {_problem(error)}") from error
    return SchemaRegistry(client, SystemClock())


def _name_in(text: Any) -> str | None:  # noqa: ANN401  (the client has no types)
    """Return the name of a registered schema if it is ours, apart from comments; otherwise None."""
    if text.references or text.schema_type not in (None, "AVRO"):
        return None
    found = schema_in(text.schema_str)
    return None if found is None else name_of(found)


def _is_missing(error: Exception) -> bool:
    return getattr(error, "http_status_code", None) == NOT_FOUND


def _problem(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
