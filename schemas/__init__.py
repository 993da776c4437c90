"""The Avro schemas of every topic, one flat file for each record type and version: `example.v1.avsc`.

`example.v1.schema.json` is the JSON Schema of the same record, which `ops.reference` makes from it.

A released file never changes: a change is a new file, `example.v2.avsc`, and readers know both by their fingerprints.
`golden/` has a value of each in bytes (`example.v1.bin`) and in words (`example.v1.json`).
"""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

FILE_NAME = re.compile(r"([a-z]+)\.v([0-9]+)\.avsc")
"""Record type in small letters, version."""


_JSON_FILE_NAME = re.compile(r"([a-z]+)\.v([0-9]+)\.schema\.json")


def sources() -> Mapping[tuple[str, int], str]:
    """Return the JSON text of each schema, by record type in small letters and version, read from this package."""
    return _texts(FILE_NAME)


def newest() -> Mapping[str, Mapping[str, Any]]:
    """Return the newest schema of each record type, by the type in small letters, parsed."""
    return {name: json.loads(text) for (name, _), text in sources().items()}  # the versions of a type ascend


def json_sources() -> Mapping[tuple[str, int], str]:
    """Return the JSON Schema of each public record likewise."""
    return _texts(_JSON_FILE_NAME)


def _texts(file_name: re.Pattern[str]) -> Mapping[tuple[str, int], str]:
    found = {}
    for entry in files(__name__).iterdir():
        name = file_name.fullmatch(entry.name)
        if name:
            found[name[1], int(name[2])] = entry.read_text(encoding="utf-8")
    return dict(sorted(found.items()))
