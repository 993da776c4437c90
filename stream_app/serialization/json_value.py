"""Read one record in JSON by its schema: for tools, clients, and every value that is not usual.

`read_json` defines what JSON values are accepted; the batch decoder (`json_batch`) reads usual values faster and leaves
all others to it. It needs neither Numba nor a parser beyond Python's own.

JSON itself allows what two readers understand differently. Refused are, besides text that is no JSON in UTF-8: a name
that occurs twice in an object, NaN and Infinity, numbers beyond a double or a field's type, half of a surrogate pair,
fields that the schema does not have, and values of another type. A whole number may be written as 1.0. The type of a
record follows from its fields. What is refused has the same words whatever the version of Python is, since dead
letters have them.
"""

import json
import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import MappingProxyType
from typing import Any

from stream_app import schemas
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import NESTED_RECORDS, Example, Label, Mark, MarkKind, Metric, Outcome, Prediction
from stream_app.serialization.public_types import PUBLIC_TYPES, PublicRecord

BAD_CLASS = -1
"""The class of a label whose value means no class."""

_MAX_DEPTH = 16
"""Most brackets that may be open at once; a metric has three."""

_MAX_DIGITS = 400
"""A number of more digits is beyond any double: Python would take seconds for some, and refuses others."""

_SHOWN_CHARACTERS = 50

_SIGNS: Sequence[tuple[str, type[PublicRecord]]] = (
    ("features", Example),
    ("values", Example),
    ("kind", Mark),
    ("outcome", Outcome),
    ("predicted_class", Prediction),
    ("windows", Metric),
    ("label", Label),
)
"""The fields that tell the types apart; the first that a record has decides."""

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[{\]}]")


@cache
def field_types(name: str) -> Mapping[str, Any]:
    """Return the Avro types of the fields of a record type, given in small letters: those of its newest schema."""
    return MappingProxyType({field["name"]: field["type"] for field in schemas.newest()[name]["fields"]})


def read_json(
    value: bytes,
    types: Sequence[type[PublicRecord]] = PUBLIC_TYPES,
    label_classes: Mapping[str, int] = MappingProxyType({}),
) -> PublicRecord:
    """Return the record of a value.

    Args:
        value: An object in JSON.
        types: The types that it may have; the first is that of an object without the fields that tell types apart.
        label_classes: What the texts of labels mean.

    Raises:
        WrongSchemaError: It is a record of another type.
        UndecodableError: It is no record.
    """
    if other := other_form(value):
        raise WrongSchemaError(other)
    found = _parsed(value)
    if not isinstance(found, dict):
        raise UndecodableError("not an object")
    record = next((kind for sign, kind in _SIGNS if sign in found), types[0])
    if record not in types:
        raise WrongSchemaError(f"has the fields of a {record.__name__.lower()}")
    if record is Label and "label" in found:
        found["label"] = _class_of(found["label"], label_classes)
    made = _checked_fields(record, field_types(record.__name__.lower()), found, "field ")
    if record is Mark:
        made["kind"] = MarkKind[made["kind"].upper()]
    try:
        return record(**made)
    except ValueError as error:  # a metric without windows
        raise UndecodableError(str(error)) from error


def other_form(value: bytes) -> str:
    """Return what a value looks like that cannot be JSON, if its first bytes show it; else an empty text."""
    if value.startswith(b"\xc3\x01"):
        return "looks like Avro single-object encoding"
    return "looks like Confluent's wire format" if value.startswith(b"\x00") and len(value) >= 5 else ""


def _parsed(value: bytes) -> Any:  # noqa: ANN401  (any JSON)
    if value.count(b"[") + value.count(b"{") > _MAX_DEPTH and _depth(value) > _MAX_DEPTH:
        raise UndecodableError("nested too deeply")
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError("not UTF-8") from error
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_whole, parse_constant=_refuse_constant)
    except ValueError as error:
        raise UndecodableError("not JSON") from error


def _depth(value: bytes) -> int:
    """Return how many brackets are open at once at most; those in texts do not count."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_TEXT.sub(b"", value)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise UndecodableError(f"name {shown(name)} occurs twice")
            seen.add(name)
    return found


def _whole(text: str) -> float:
    return int(text) if len(text) <= _MAX_DIGITS else math.inf


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def shown(name: str) -> str:
    """Return a name for a message, in ASCII."""
    text = json.dumps(name)
    return text if len(text) <= _SHOWN_CHARACTERS else f'{text[: _SHOWN_CHARACTERS - 4]}..."'


def _class_of(label: object, label_classes: Mapping[str, int]) -> object:
    """Return the class that a label's value means; `BAD_CLASS` if it is a text without meaning."""
    if isinstance(label, bool):
        return int(label)
    return label_classes.get(label, BAD_CLASS) if isinstance(label, str) else label


def label_fault(value: bytes) -> str:
    """Return what is wrong with the text of a label that means no class; an empty text if the label is no text."""
    label = _parsed(value)["label"]
    return f"label {shown(label)} is not in serialization.label_classes" if isinstance(label, str) else ""


def _checked_fields(record: Any, types: Mapping[str, Any], found: dict[str, Any], what: str) -> dict[str, Any]:  # noqa: ANN401  (a class)
    """Return the fields of a record with values of their types; those that are left out have their defaults."""
    for name in found:
        if name not in types:
            raise UndecodableError(f"{what}{shown(name)} is unknown")
    made = {}
    for field in fields(record):
        name = field.name
        if name in found:
            made[name] = _checked(types[name], found[name], f"{what}{shown(name)}")
        elif field.default is MISSING:
            raise UndecodableError(f"{what}{shown(name)} is missing")
    return made


def _checked(  # noqa: PLR0911  (a case for each type)
    kind: Any,  # noqa: ANN401  (a type in a schema)
    value: Any,  # noqa: ANN401  (a value of the type)
    what: str,
) -> Any:  # noqa: ANN401  (as above)
    """Return a value as the record has it.

    Raises:
        UndecodableError: It is not of the type.
    """
    match kind:
        case ["null", other]:
            return None if value is None else _checked(other, value, what)
        case list():
            return _column_value(value, what)
        case {"type": "array", "items": "float"} if isinstance(value, list):
            item = f"an item of {what}"
            return tuple(_floats([_number(one, item) for one in value]))
        case {"type": "array", "items": {"type": "record", "name": name, "fields": own}} if isinstance(value, list):
            nested, types = NESTED_RECORDS[f"areba.{name}"], {field["name"]: field["type"] for field in own}
            if not all(isinstance(one, dict) for one in value):
                raise UndecodableError(f"{what} has the wrong type")
            return tuple(nested(**_checked_fields(nested, types, one, f"{what}, field ")) for one in value)
        case {"type": "map", "values": values} if isinstance(value, dict):
            return {_text(name, what): _checked(values, one, f"column {shown(name)}") for name, one in value.items()}
        case {"type": "enum", "symbols": symbols} if value in symbols:
            return value
        case str() if kind in _CHECKS:
            return _CHECKS[kind](value, what)
    raise UndecodableError(f"{what} has the wrong type")


def _column_value(value: object, what: str) -> object:
    """Return the value of a column: null, a boolean, a number, or text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, what)
    return _long(value, what) if isinstance(value, int) else _number(value, what)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise UndecodableError(f"{what} is not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UndecodableError(f"{what} has half of a surrogate pair") from error
    return value


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UndecodableError(f"{what} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise UndecodableError(f"{what} is too large")
    return number


def _integer(largest: int) -> Callable[[object, str], int]:
    def checked(value: object, what: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise UndecodableError(f"{what} is not a whole number")
        if not -largest - 1 <= value <= largest or abs(value) == math.inf:
            raise UndecodableError(f"{what} is too large")
        return int(value)

    return checked


def _boolean(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise UndecodableError(f"{what} is not true or false")
    return value


def _floats(numbers: list[float]) -> list[float]:
    """Return numbers as float32; those that are too large become infinite."""
    return array("f", numbers).tolist()


def _float(value: object, what: str) -> float:
    return _floats([_number(value, what)])[0]


_long = _integer(2**63 - 1)

_CHECKS: Mapping[str, Callable[[Any, str], Any]] = MappingProxyType({
    "string": _text,
    "int": _integer(2**31 - 1),
    "long": _long,
    "float": _float,
    "double": _number,
    "boolean": _boolean,
})  # fmt: skip
