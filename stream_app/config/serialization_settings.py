"""The form of the values in the input and output topics, and what contradicts it."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Any

from pydantic import Field

from stream_app.config.client_settings import ClientValue, RegistryName, WithoutPassword, redact
from stream_app.config.task_settings import LabelClasses, SchemaIds, WireFormatName, WriterSchemas
from stream_app.config.values import Change, Frozen, Settings


class SerializationSettings(Settings):
    """The form of the values in the input and output topics; the application's own topics do not depend on it.

    Attributes:
        wire_format: `avro_single_object`: a value begins with `C3 01` and the fingerprint of its schema. `confluent`:
            it begins with a zero byte and the id that a schema registry has given its schema. `json`: it is an object
            in JSON, as the schemas `*.schema.json` say. `confluent_json`: it is an object in JSON after the header of
            `confluent`.
        schema_registry: For both of Confluent's, settings of confluent-kafka's registry client by their own names, with
            `url`.
        schema_ids: For both of Confluent's, ids by names such as `example.v1`, instead of asking the registry at start.
        writer_schemas: For `confluent`, the schemas of other writers by id, as text, besides those of the registry.
        label_classes: What labels mean that are text: `{fraud: 1, genuine: 0}`; not for `avro_single_object`.
    """

    wire_format: WireFormatName = "avro_single_object"
    schema_registry: Annotated[Frozen[RegistryName, ClientValue], WithoutPassword, Change.FREE] = Field(
        default_factory=dict
    )
    schema_ids: SchemaIds = Field(default_factory=dict)
    writer_schemas: WriterSchemas = Field(default_factory=dict)
    label_classes: LabelClasses = Field(default_factory=dict)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from redact(self.model_dump()).items()


def serialization_conflicts(serialization: SerializationSettings) -> Iterator[tuple[str, str]]:
    """Yield the settings that contradict the wire format, each with the reason."""
    is_json, is_confluent = (part in serialization.wire_format for part in ("json", "confluent"))
    if is_json and find_spec("msgspec") is None:
        text = "JSON needs the package msgspec; install the extra `json`: pip install 'areba[json]'"
        yield "wire_format", text
    if serialization.label_classes and not (is_json or is_confluent):
        yield "label_classes", "has no effect without wire_format: json or confluent"
    if serialization.writer_schemas and (is_json or not is_confluent):
        yield "writer_schemas", "has no effect without wire_format: confluent"
    has_url, has_ids = "url" in serialization.schema_registry, bool(serialization.schema_ids)
    if is_confluent and not (has_url or has_ids):
        yield "schema_registry", "confluent values need the url of a schema registry"
    for name in ("schema_registry", "schema_ids") if not is_confluent else ():
        if getattr(serialization, name):
            yield name, "has no effect without wire_format: confluent"
