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
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction, Side
from stream_app.serialization.avro import Record, Schema
from stream_app.serialization.registered_schemas import Registered, json_schema_in, schema_in, size_of
from stream_app.serialization.resolution import WriterSchema
from stream_app.serialization.wire_format import name_of
from stream_app.serialization.writer_schema import MAX_SCHEMAS_BYTES, kept_text

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
    """What an id's schema is, None if it is not there or of another kind, and until when this counts."""

    found: Registered | None
    until_s: float


class SchemaRegistry:
    """A schema registry.

    Args:
        client: A `SchemaRegistryClient` of confluent-kafka, or its mock.
        clock: A monotonic clock.
        start: Starts work that `registered` must not wait for.
        is_json: Whether the schemas are JSON Schemas, not Avro.

    Attributes:
        writer_schemas: The schemas of other writers by id, among the versions that `schema_ids` has read of the inputs.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401  (the client has no types)
        clock: Clock,
        start: Callable[[Callable[[], None]], object] = start_call,
        *,
        is_json: bool = False,
    ) -> None:
        self.writer_schemas: dict[str, str] = {}
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
                versions = self._versions(subject, until_s)
                for schema_id, other in sorted((number, one.name) for number, one in versions if one.name):
                    if schema_id not in found.setdefault(other, []):
                        found[other].append(schema_id)
                if record in (Example, Label):
                    self._keep(versions)
            except Exception as error:  # the client also raises what its HTTP library raises
                raise ConfigurationError(
                    f"serialization.schema_registry.url: subject {subject}: {_problem(error)}"
                ) from error
        return {name: tuple(ids) for name, ids in found.items()}

    def _keep(self, versions: Sequence[tuple[int, Registered]]) -> None:
        """Keep the schemas of other writers among the versions of an input, the newest first, as far as they fit."""
        for schema_id, one in versions:
            more = {str(schema_id): one.text} if one.text else {}
            if size_of({**self.writer_schemas, **more}) <= MAX_SCHEMAS_BYTES:
                self.writer_schemas.update(more)

    def registered(self, schema_ids: Sequence[int]) -> Mapping[int, Registered] | None:
        """Return what is known of these ids, without waiting; None: there is no answer yet.

        The registry is asked in another thread, and the answer is there in a later call.
        """
        found = self._known(schema_ids)
        if found is None and not self._is_asking and self._clock.monotonic_s() >= self._retry_s:
            self._is_asking = True
            self._start(lambda: self._ask(schema_ids))
            found = self._known(schema_ids)
        return found

    def _known(self, schema_ids: Sequence[int]) -> Mapping[int, Registered] | None:
        """Return what these ids are if the registry has answered for each of them; an answer counts for a while."""
        now_s = self._clock.monotonic_s()
        answers = [self._answers.get(schema_id) for schema_id in schema_ids]
        if any(answer is None or answer.until_s <= now_s for answer in answers):
            return None
        named = zip(schema_ids, answers, strict=True)
        return {one: answer.found for one, answer in named if answer is not None and answer.found is not None}

    def _ask(self, schema_ids: Sequence[int]) -> None:
        """Ask for the ids that are not known, one after the other, until the registry gives no answer."""
        try:
            for schema_id in schema_ids:
                if self._known([schema_id]) is not None:
                    continue
                try:
                    found = self._schema(schema_id)
                except Exception as error:  # noqa: BLE001  (the client also raises what its HTTP library raises)
                    self._retry_s = self._clock.monotonic_s() + RETRY_S
                    log_lines.REGISTRY_AWAITED.log(LOG, schema_id=schema_id, problem=_problem(error))
                    return
                if len(self._answers) >= _MAX_ANSWERS:
                    self._answers = {}
                self._answers[schema_id] = _Answer(found, self._clock.monotonic_s() + ANSWER_S)
                if found is not None:
                    _report(schema_id, found)
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

    def _versions(self, subject: str, until_s: float) -> list[tuple[int, Registered]]:
        """Return the id and the schema of each version of a subject, newest first."""
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
        found = [(one.schema_id, self._schema_in(one.schema)) for one in registered]
        return [(schema_id, schema) for schema_id, schema in found if schema is not None]

    def _schema_in(self, text: Any) -> Registered | None:  # noqa: ANN401  (the client has no types)
        """Return what a registered schema is; None if it is not of the kind that the values have."""
        if (text.schema_type or "AVRO") != ("JSON" if self._is_json else "AVRO"):
            return None
        found = None if text.references else (json_schema_in if self._is_json else schema_in)(text.schema_str)
        if found is not None:
            return Registered(name_of(found))
        return None if self._is_json else Registered("", "" if text.references else kept_text(text.schema_str))

    def _schema(self, schema_id: int) -> Registered | None:
        try:
            return self._schema_in(self._client.get_schema(schema_id))
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


def _report(schema_id: int, found: Registered) -> None:
    """Write a line about a schema that was met for the first time."""
    writers = [] if found.name else [WriterSchema(found.text, side) for side in Side]
    accepted = found.name or ", ".join(writer.accepted for writer in writers if writer.accepted)
    if accepted:
        log_lines.SCHEMA_ACCEPTED.log(LOG, schema_id=schema_id, schema=accepted)
        return
    problems = dict.fromkeys(writer.refusal for writer in writers)
    log_lines.SCHEMA_REFUSED.log(LOG, schema_id=schema_id, problem="; ".join(problems))


def _is_missing(error: Exception) -> bool:
    return getattr(error, "http_status_code", None) == NOT_FOUND


def _problem(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
