"""The topics, each with records that an `InProcess` application has written, and the fields of all records."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from enum import IntEnum
from typing import Any

from ops.reference.text import table
from stream_app import schemas
from stream_app.backends import topics as topic_plan
from stream_app.serialization.codec import decode_one
from stream_app.testing import InProcess


def _story() -> InProcess:
    """Run an application whose topics have a record of each kind."""
    application = InProcess(
        application={"id": "fraud-desk"},
        streams={"fraud": {"features": 3}},
        learners={"areba": {"method": "areba"}},
        metrics={"every_labels": 2},
    )
    application.send_example("fraud", "payment-1", [0.5, 1.0, -2.0], time_ms=1_767_225_600_000)
    application.send_example("fraud", "payment-2", [0.1, 3.0, 0.25], time_ms=1_767_225_600_500)
    application.send_label("fraud", "payment-1", 1, time_ms=1_767_229_200_000)
    application.send_label("fraud", "payment-2", 0, time_ms=1_767_229_260_000)
    application.send_example("fraud", "payment-3", [0.1, 3.0], time_ms=1_767_229_260_500)
    application.end_stream("fraud")
    application.run()
    return application


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, IntEnum):
        return value.name.lower()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _shown(record: object) -> str:
    fields: Mapping[str, Any] = {name: getattr(record, name) for name in record.__dataclass_fields__}  # type: ignore[attr-defined]
    given = {name: _plain(value) for name, value in fields.items()}
    return f"{type(record).__name__} {json.dumps(given)}"


def _wrapped(text: str, width: int = 116) -> Iterator[str]:
    """Break a long line after commas."""
    line = ""
    for part in text.split(", "):
        if line and len(line) + 2 + len(part) > width:
            yield f"{line},"
            line = f"    {part}"
        else:
            line = f"{line}, {part}" if line else part
    yield line


TOPICS = {
    "examples": "Input. Key: the stream. Timestamp: when the event happened.",
    "labels": "Input. Key: the stream. Timestamp: when the class became known.",
    "predictions": "One for each example, or one for each learner with `predictions: all`.",
    "outcomes": "How each example was closed, and each duplicate.",
    "metrics": "One for each learner after every `metrics.every_labels` labels, and at an `advance` mark.",
    "dead_letters": "Records that could not be processed: their own key, value and headers, and further headers.",
    "changelog": "Internal. Snapshots in chunks, and manifests that list them.",
    "progress": "Internal. One commit for each task and transaction, and every other act that changes a result.",
}

SETTINGS_SHOWN = (
    "cleanup.policy",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "max.message.bytes",
    "retention.ms",
    "max.compaction.lag.ms",
)


def topics_section() -> Iterator[str]:
    """Yield each topic: its purpose, its settings, and some of its records."""
    application = _story()
    names = application.config.topics
    planned = {topic.name: topic.settings for topic in topic_plan.plan(names, 1)}
    for field, text in TOPICS.items():
        name = getattr(names, field)
        title = name.replace("fraud-desk", "<application.id>")
        yield f"### `{title}`\n"
        yield text + "\n"
        settings = ", ".join(f"`{key}={value}`" for key in SETTINGS_SHOWN if (value := planned[name].get(key)))
        yield f"Created with {settings}.\n"
        yield "```"
        yield from _examples_of(application, field, name)
        yield "```\n"


def _examples_of(application: InProcess, field: str, name: str) -> Iterator[str]:
    if field == "dead_letters":
        (row,) = application.rows(name)
        yield f"the original key and value ({len(row.value or b'')} bytes), with the headers"
        for key, value in row.headers:
            yield from _wrapped(f"{key}: {(value or b'').decode()}")
        return
    if field == "changelog":
        yield "binary: safetensors in chunks below the topic's message limit, with a checksum each"
        return
    seen: set[str] = set()
    for row in application.rows(name):
        record = decode_one(row.value or b"")
        kind = type(record).__name__
        if kind not in seen:
            seen.add(kind)
            text = _shown(record)
            yield from _wrapped(text if kind != "Act" else re.sub(r'"text": ".*?[^\\]"', '"text": "..."', text))


def records_section() -> Iterator[str]:
    """Yield a table of the fields of each record type, from its newest schema."""
    newest: dict[str, int] = {}
    texts = schemas.sources()
    for name, version in texts:
        newest[name] = max(version, newest.get(name, 0))
    for name, version in sorted(newest.items()):
        yield from _record_section(json.loads(texts[name, version]), f"`schemas/{name}.v{version}.avsc`")


def _record_section(schema: Mapping[str, Any], file: str) -> Iterator[str]:
    """Yield the table of a record, and then those of the records in its arrays."""
    yield f"#### {schema['name']}\n"
    yield f"{schema.get('doc', '')} ({file})\n"
    yield from table(
        ("field", "type", "meaning"),
        ((f"`{field['name']}`", _type(field["type"]), field.get("doc", "")) for field in schema["fields"]),
    )
    for field in schema["fields"]:
        if isinstance(field["type"], dict) and isinstance(items := field["type"].get("items"), dict):
            yield from _record_section(items, f"an item of `{schema['name']}.{field['name']}`")


def _type(kind: object) -> str:
    if isinstance(kind, list):
        return " or ".join(_type(one) for one in kind)
    if isinstance(kind, dict):
        if kind["type"] == "enum":
            return ", ".join(f"`{symbol}`" for symbol in kind["symbols"])
        if kind["type"] == "record":
            return str(kind["name"])
        if "items" in kind:
            return f"{kind['type']} of {_type(kind['items'])}"
        return f"{kind['type']} {kind.get('size', '')}"
    return str(kind)
