"""`python -m ops.asyncapi`: write asyncapi.yaml, which describes the topics of an application for tools.

The payloads are the newest Avro schemas, and the descriptions come from the glossary. A test fails when the file is
older than either. The internal topics are left out: no other program reads or writes them.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from stream_app import __version__, schemas
from stream_app.config import Config
from stream_app.pipeline.carried_headers import TRACE_HEADER
from stream_app.serialization import avro
from stream_app.serialization.dead_letter import DEAD_LETTER_HEADERS, RESEND_HEADERS

ROOT = Path(__file__).parents[1]
FILE = ROOT / "asyncapi.yaml"
GLOSSARY = ROOT / "docs" / "glossary.md"

AVRO = "application/vnd.apache.avro;version=1.9.0"
"""Avro as AsyncAPI names it; the schemas use nothing newer."""

ENCODING = (
    "Each value is Avro's single-object encoding: C3 01, the CRC-64-AVRO fingerprint of its schema in eight bytes, "
    "then the record; or it has Confluent's wire format, or is JSON, if serialization.wire_format says so. "
    "x-json-schema names the JSON Schema of a message. Names of topics begin with the prefixes of the application's "
    "configuration, which are empty by default. Read with "
    "isolation.level=read_committed. Write with Java's default partitioner (murmur2). All records of a stream have one "
    "key, so they are in one partition of each topic, in order; two topics have no common order. The fields in "
    "x-identity tell the records of a topic apart, also when a reader reads a record twice; without such fields, use "
    "partition and offset."
)

_TRACE = {TRACE_HEADER: {"type": "string", "description": "Trace context (W3C), copied from the input record."}}
_RESENT = {
    name: {"type": "string", "description": "Only of a record that areba dlq resend sent."} for name in RESEND_HEADERS
}


class _Channel(NamedTuple):
    """A topic: the word of the glossary that describes it, the records on it, and whether the application reads it.

    `identity` has the fields, or headers, that tell its records apart.
    """

    word: str
    messages: Sequence[str]
    is_input: bool
    identity: Sequence[str]


CHANNELS: Mapping[str, _Channel] = {
    "examples": _Channel("Example", ("Example", "Mark"), is_input=True, identity=("stream", "id")),
    "labels": _Channel("Label", ("Label", "Mark"), is_input=True, identity=("stream", "id", "revision")),
    "predictions": _Channel("Prediction", ("Prediction",), is_input=False, identity=("stream", "id", "learner")),
    "outcomes": _Channel(
        "Outcome", ("Outcome",), is_input=False, identity=("stream", "outcome", "example_offset", "label_offset")
    ),
    "metrics": _Channel("Metric", ("Metric",), is_input=False, identity=()),
    "dead-letters": _Channel("Dead letter", ("DeadLetter",), is_input=False, identity=DEAD_LETTER_HEADERS[:3]),
}


def glossary() -> Mapping[str, str]:
    """Return the meaning of each word of the glossary, without links."""
    text = GLOSSARY.read_text(encoding="utf-8")
    found = re.findall(r"^\*\*(.+?)\*\* \(.+?\)\. (.+?)(?=\n\n|\n*\Z)", text, re.MULTILINE | re.DOTALL)
    return {word: re.sub(r"\[(.+?)\]\(.+?\)", r"\1", " ".join(meaning.split())) for word, meaning in found}


def newest_schemas() -> Mapping[str, Any]:
    """Return the newest schema of each record type, by its name."""
    return {schema["name"]: schema for schema in schemas.newest().values()}


def document() -> dict[str, Any]:
    """Return the description as plain data."""
    meanings = {"Metric": newest_schemas()["Metric"]["doc"], **glossary()}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "areba",
            "version": __version__,
            "description": ENCODING,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/vnd.apache.avro",
        "servers": _servers(),
        "channels": {name: _channel(name, channel, meanings[channel.word]) for name, channel in CHANNELS.items()},
        "operations": {
            f"{'receive' if channel.is_input else 'send'}-{name}": {
                "action": "receive" if channel.is_input else "send",
                "channel": {"$ref": f"#/channels/{name}"},
            }
            for name, channel in CHANNELS.items()
        },
        "components": {"messages": _messages(meanings), "securitySchemes": {"scram": {"type": "scramSha512"}}},
    }


def _servers() -> dict[str, Any]:
    """Return the brokers of the default configuration, and a cluster with users."""
    return {
        "local": {
            "host": Config().kafka.bootstrap_servers,
            "protocol": "kafka",
            "description": "The brokers of kafka.bootstrap_servers, as the default configuration has them.",
        },
        "cluster": {
            "host": "{host}:9093",
            "protocol": "kafka-secure",
            "description": "A cluster with users; the client settings of kafka.all choose another mechanism.",
            "variables": {"host": {"default": "kafka.example"}},
            "security": [{"$ref": "#/components/securitySchemes/scram"}],
        },
    }


def _channel(name: str, channel: _Channel, meaning: str) -> dict[str, Any]:
    return {
        "address": name,
        "description": meaning,
        "x-identity": [*channel.identity],
        "messages": {message: {"$ref": f"#/components/messages/{message}"} for message in channel.messages},
        "bindings": {"kafka": {"topic": name}},
    }


def _messages(meanings: Mapping[str, str]) -> dict[str, Any]:
    key = {"kafka": {"key": {"type": "string", "description": meanings["Stream"]}}}
    found: dict[str, Any] = {}
    published = newest_schemas()
    versions = dict(sorted(schemas.sources()))  # the newest of each type comes last
    beginnings = {schema.record.__name__: schema.header.hex() for schema in avro.newest().values()}
    for name in dict.fromkeys(name for channel in CHANNELS.values() for name in channel.messages):
        if name in published:
            found[name] = {
                "summary": published[name]["doc"],
                "description": meanings[name],
                "x-begins-with": beginnings[name],
                "headers": _headers(name),
                "payload": {"schemaFormat": AVRO, "schema": published[name]},
                "x-json-schema": f"schemas/{name.lower()}.v{versions[name.lower()]}.schema.json",
                "bindings": key,
            }
    found["DeadLetter"] = {
        "summary": "The key, the value and the headers of the input record, then these headers.",
        "description": meanings["Dead letter"],
        "contentType": "application/octet-stream",
        "headers": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in DEAD_LETTER_HEADERS} | _TRACE,
        },
    }
    return found


def _headers(message: str) -> dict[str, Any]:
    """Return the headers of a message."""
    found: dict[str, Any] = {
        "type": "object",
        "properties": _TRACE | (_RESENT if message in {"Example", "Label"} else {}),
    }
    if message in {"Prediction", "Outcome"}:
        names = "the setting pass_headers names"
        found["description"] = f"After the trace context, copies of the headers of the example that {names}."
    return found


class _WrittenOut(yaml.SafeDumper):
    """Writes equal parts each time that they occur, without aliases: readers of AsyncAPI do not expect any."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002  (PyYAML's signature)
        return True


def text() -> str:
    """Return the file as it should be."""
    heading = "# Written by `python -m ops.asyncapi` from schemas/ and docs/glossary.md. Do not edit.\n"
    body: str = yaml.dump(document(), Dumper=_WrittenOut, sort_keys=False, allow_unicode=True, width=120)
    return heading + body


def main() -> None:
    """Write the file; with `--check`, exit with status 1 if it is stale."""
    if "--check" in sys.argv[1:]:
        sys.exit(0 if FILE.exists() and FILE.read_text(encoding="utf-8") == text() else 1)
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
