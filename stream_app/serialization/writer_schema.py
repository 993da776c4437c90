"""The schemas of other writers: what is kept of a schema of a registry, and how large it may be; pure.

A registry is another system, so nothing of its answer is trusted: a schema has bounds, and its names are resolved here.
What is kept decides about bytes and their meaning alone: names in full, types, symbols, sizes, and whether bytes are a
decimal. The kept text is recorded with the settings of a task.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_SCHEMA_BYTES = 32_768
"""Largest text that is kept of one schema; a record of 500 fields has half of it."""

MAX_SCHEMAS_BYTES = 1 << 20
"""Most bytes that are kept of all schemas of other writers."""

MAX_DEPTH = 32
"""Most types that may be in one another."""

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

DECIMAL: Mapping[str, str] = {"type": "bytes", "logicalType": "decimal"}
"""Bytes that are a number: no text may be made of them."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class _Names:
    """The names that a schema has defined so far."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def define(self, kind: Mapping[str, Any], enclosing: str) -> Mapping[str, str]:
        """Return the full name of a type that is defined here, as its properties."""
        name, namespace = kind.get("name"), kind.get("namespace", enclosing)
        full = name if "." in str(name) or not namespace else f"{namespace}.{name}"
        if not isinstance(full, str) or not _NAME.fullmatch(full) or full in self._defined or full in PRIMITIVES:
            raise ValueError(f"{full} cannot be the name of a type")
        self._defined.add(full)
        return {"name": full} if "." in full else {"name": full, "namespace": ""}

    def full(self, name: str, enclosing: str) -> str:
        """Return the full name of a type that was defined before."""
        candidates = (name,) if "." in name or not enclosing else (f"{enclosing}.{name}", name)
        for candidate in candidates:
            if candidate in self._defined:
                return candidate
        raise ValueError(f"{name} is not defined")


def kept_text(text: str) -> str:
    """Return what is kept of a schema in JSON: a record in a canonical form; an empty text if it cannot be used."""
    try:
        kept = _kept(json.loads(text), _Names(), "", 0)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(kept, dict) or kept["type"] != "record":
        return ""
    canonical = json.dumps(kept, separators=(",", ":"))
    return canonical if len(canonical) <= MAX_SCHEMA_BYTES else ""


def _kept(  # noqa: C901, PLR0911  (a case for each type)
    kind: Any,  # noqa: ANN401  (a type in a schema)
    names: _Names,
    enclosing: str,
    depth: int,
) -> Any:  # noqa: ANN401  (as above)
    """Return what is kept of a type.

    Raises:
        ValueError: The schema is not one of Avro, or is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(kind, list):
        return [_kept(one, names, enclosing, depth + 1) for one in kind]
    if isinstance(kind, str):
        return kind if kind in PRIMITIVES else names.full(kind, enclosing)
    match kind:
        case {"type": "record" | "error", "fields": list(fields)}:
            named = names.define(kind, enclosing)
            inner = named["name"].rpartition(".")[0]
            return {"type": "record", **named, "fields": [_field(one, names, inner, depth) for one in fields]}
        case {"type": "enum", "symbols": list(symbols)} if all(isinstance(symbol, str) for symbol in symbols):
            return {"type": "enum", **names.define(kind, enclosing), "symbols": symbols}
        case {"type": "fixed", "size": int(size)} if size >= 0 and not isinstance(size, bool):
            return {"type": "fixed", **names.define(kind, enclosing), "size": size}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": _kept(items, names, enclosing, depth + 1)}
        case {"type": "map", "values": values}:
            return {"type": "map", "values": _kept(values, names, enclosing, depth + 1)}
        case {"type": "bytes", "logicalType": "decimal"}:
            return dict(DECIMAL)
        case {"type": ("record" | "error" | "enum" | "fixed" | "array" | "map")}:
            raise ValueError(f"a type {kind['type']} lacks a part")
        case {"type": inner}:
            return _kept(inner, names, enclosing, depth + 1)
    raise ValueError("a type has no type")


def _field(field: object, names: _Names, enclosing: str, depth: int) -> Mapping[str, Any]:
    match field:
        case {"name": str(name), "type": kind} if _NAME.fullmatch(name) and "." not in name:
            return {"name": name, "type": _kept(kind, names, enclosing, depth + 1)}
    raise ValueError("a field has no name or no type")
