"""Ask a schema registry for the ids of our schemas, and for the schemas of new ids."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stream_app import log_lines, schemas
from stream_app.backends.base import Clock
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.blocking_calls import start_call
from stream_app.backends.kafka.registry.bounded import BoundedClient, NoAnswerError, bound_answers
from stream_app.config import Topics
from stream_app.errors import ConfigurationError
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction
from stream_app.serialization.avro import Record, Schema
from stream_app.serialization.wire_format import json_schema_in, name_of, schema_in

LOG = logging.getLogger("areba.registry")

REQUEST_TIMEOUT_S = 1.0
"""Longest wait for one answer, with all of its bytes; `serialization.schema_registry.timeout` replaces it."""

_SUBJECTS_S = 10.0
"""Longest time for all requests about the subjects, before a worker or a tool begins."""

RETRY_S = 5.0
"""Time between two attempts while the registry gives no answer."""

ANSWER_S = 60.0
"""Time for which an answer counts: then the registry is asked again, as an unknown schema may be registered now."""

_MAX_ANSWERS = 10_000
"""Ids whose answers are remembered."""

_MAX_VERSIONS = 100
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


class _Answer(NamedTuple):
    """The name of an id's schema, None if it is not one of ours, and until when this counts."""

    name: str | None
    until_s: float


class SchemaRegistry:
    """A schema registry.

    Args:
        client: A `SchemaRegistryClient` of confluent-kafka, or its mock.
        clock: A monotonic clock.
        start: Starts work that `names_of` must not wait for.
        is_json: Whether the schemas are JSON Schemas, not Avro.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401  (the client has no types)
        clock: Clock,
        start: Callable[[Callable[[], None]], object] = start_call,
        *,
        is_json: bool = False,
    ) -> None:
        self._is_json = is_json
        self._client = client
        self._clock = clock
        self._start = start
        self._answers: dict[int, _Answer] = {}  # written by the thread that asks
        self._is_asking = False
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
        until_s = self._clock.monotonic_s() + _SUBJECTS_S
        marks: str = written[Mark].parsed["name"]
        for record, subject in {**{one: f"{name}-value" for one, name in topics.items()}, Mark: marks}.items():
            schema = written[record]
            try:
                self._check_time(until_s)
                own = self._schema_id(subject, schema, registers=registers)
                if own is not None:
                    found[name_of(schema)] = [own]
                for schema_id, other in sorted(self._versions(subject, until_s)):
                    if schema_id not in found.setdefault(other, []):
                        found[other].append(schema_id)
            except Exception as error:  # the client also raises what its HTTP library raises
                raise ConfigurationError(
                    f"serialization.schema_registry.url: subject {subject}: {_problem(error)}"
                ) from error
        return {name: tuple(ids) for name, ids in found.items()}

    def names_of(self, schema_ids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the names of the application's schemas by id, without waiting; None: there is no answer yet.

        The registry is asked in another thread, and the answer is there in a later call.
        """
        found = self._known(schema_ids)
        if found is None and not self._is_asking and self._clock.monotonic_s() >= self._retry_s:
            self._is_asking = True
            self._start(lambda: self._ask(schema_ids))
            found = self._known(schema_ids)
        return found

    def _known(self, schema_ids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the names of these ids if the registry has answered for each of them; an answer counts for a while."""
        now_s = self._clock.monotonic_s()
        answers = [self._answers.get(schema_id) for schema_id in schema_ids]
        if any(answer is None or answer.until_s <= now_s for answer in answers):
            return None
        named = zip(schema_ids, answers, strict=True)
        return {schema_id: answer.name for schema_id, answer in named if answer is not None and answer.name is not None}

    def _ask(self, schema_ids: Sequence[int]) -> None:
        """Ask for the ids that are not known, one after the other, until the registry gives no answer."""
        try:
            for schema_id in schema_ids:
                if self._known([schema_id]) is not None:
                    continue
                try:
                    name = self._name(schema_id)
                except Exception as error:  # noqa: BLE001  (the client also raises what its HTTP library raises)
                    self._retry_s = self._clock.monotonic_s() + RETRY_S
                    log_lines.REGISTRY_AWAITED.log(LOG, schema_id=schema_id, problem=_problem(error))
                    return
                if len(self._answers) >= _MAX_ANSWERS:
                    self._answers = {}
                self._answers[schema_id] = _Answer(name, self._clock.monotonic_s() + ANSWER_S)
                if name is not None:
                    log_lines.SCHEMA_ACCEPTED.log(LOG, schema_id=schema_id, schema=name)
        finally:
            self._is_asking = False

    def _schema_id(self, subject: str, schema: Schema, *, registers: bool) -> int | None:
        """Return the id of a schema in a subject; register the schema if asked to; None if it has no id."""
        from confluent_kafka.schema_registry import Schema as Text  # noqa: PLC0415  (needs the extra)

        sources = schemas.json_sources() if self._is_json else schemas.sources()
        source = sources[schema.record.__name__.lower(), schema.version]
        text = Text(source.strip(), "JSON" if self._is_json else "AVRO")  # as Confluent's serializers register it
        try:
            found: int = self._client.lookup_schema(subject, text).schema_id
        except Exception as error:
            if not _is_missing(error):
                raise
            found = self._client.register_schema(subject, text) if registers else -1
        return found if found >= 0 else None

    def _check_time(self, until_s: float) -> None:
        if self._clock.monotonic_s() > until_s:
            raise NoAnswerError(f"not all answers came within {_SUBJECTS_S:g} s")

    def _versions(self, subject: str, until_s: float) -> list[tuple[int, str]]:
        """Return the id and the name of each version of a subject that is one of our schemas, newest first."""
        try:
            versions = sorted(self._client.get_versions(subject))
        except Exception as error:
            if _is_missing(error):
                return []
            raise
        registered = []
        for version in reversed(versions[-_MAX_VERSIONS:]):
            self._check_time(until_s)
            registered.append(self._client.get_version(subject, version))
        named = [(one.schema_id, self._name_in(one.schema)) for one in registered]
        return [(schema_id, name) for schema_id, name in named if name is not None]

    def _name_in(self, text: Any) -> str | None:  # noqa: ANN401  (the client has no types)
        """Return the name of a registered schema if it is ours, apart from comments; otherwise None."""
        if text.references or (text.schema_type or "AVRO") != ("JSON" if self._is_json else "AVRO"):
            return None
        found = (json_schema_in if self._is_json else schema_in)(text.schema_str)
        return None if found is None else name_of(found)

    def _name(self, schema_id: int) -> str | None:
        try:
            return self._name_in(self._client.get_schema(schema_id))
        except Exception as error:
            if _is_missing(error):
                return None
            raise


def open_registry(settings: Mapping[str, str], *, is_json: bool = False) -> SchemaRegistry:
    """Return the registry that these settings of confluent-kafka's client name, whether or not it answers.

    With `is_json`, its schemas are JSON Schemas, not Avro.

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
    timeout_s = float(settings.get("timeout", REQUEST_TIMEOUT_S))
    try:
        client = SchemaRegistryClient.new_client({**settings, "timeout": timeout_s, "max.retries": 0})
    except Exception as error:
        raise ConfigurationError(f"serialization.schema_registry: {_problem(error)}") from error
    rest = getattr(client, "_rest_client", None)
    if rest is not None:  # the mock has none
        bound_answers(rest.session, timeout_s)
    return SchemaRegistry(BoundedClient(client, timeout_s), SystemClock(), is_json=is_json)


def _is_missing(error: Exception) -> bool:
    return getattr(error, "http_status_code", None) == NOT_FOUND


def _problem(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
