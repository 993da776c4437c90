"""Batches of JSON values as Avro, which the batch decoder reads: so both forms have the same rules and reasons.

msgspec reads usual values at once into objects of known types. It accepts some values that `json_value` refuses, such
as a name that occurs twice, and refuses some that `json_value` accepts, such as 1.0 for a whole number; so whatever is
not plainly usual goes to `json_value`, which decides. A value is usual if it has as many colons as its names and
texts need, none of them escaped: then no name occurs twice.
"""

from array import array
from collections.abc import Callable, Mapping
from struct import pack
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stream_app.arrays import Bytes
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.record_columns import BinaryColumn, Cell, binary_column
from stream_app.records import Example, Label, Mark, Reason, Side, Value
from stream_app.serialization.avro import BOOLEAN_VALUE, DOUBLE_VALUE, LONG_VALUE, NULL_VALUE, TEXT_VALUE, newest
from stream_app.serialization.codec import encode_unchecked
from stream_app.serialization.conversions import long_bytes
from stream_app.serialization.json_value import BAD_CLASS, read_json
from stream_app.serialization.public_types import INPUT_TYPES
from stream_app.serialization.wire_format import WireFormat


class _Example(Struct, forbid_unknown_fields=True, gc=False):
    stream: str
    id: str
    features: list[float] | UnsetType = UNSET
    values: dict[str, bool | int | float | str | None] | UnsetType | None = UNSET


class _Label(Struct, forbid_unknown_fields=True, gc=False):
    stream: str
    id: str
    label: bool | int | str
    revision: int | UnsetType = UNSET


_examples, _labels = msgspec.json.Decoder(_Example), msgspec.json.Decoder(_Label)

_ESCAPED_COLON = b"\\u003"
"""The beginning of an escaped colon, and of few other characters."""

_MAX_INT, _MAX_LONG = 2**31 - 1, 2**63 - 1


_SMALL = tuple(map(long_bytes, range(1_024)))
"""Sizes and counts are small nearly always."""

_NULL, _FALSE, _TRUE = bytes([2 * NULL_VALUE]), bytes([2 * BOOLEAN_VALUE, 0]), bytes([2 * BOOLEAN_VALUE, 1])
_LONG, _DOUBLE, _TEXT = bytes([2 * LONG_VALUE]), bytes([2 * DOUBLE_VALUE]), bytes([2 * TEXT_VALUE])
_NO_VALUES, _VALUES = b"\x00", b"\x02"


def _size(number: int) -> bytes:
    return _SMALL[number] if number < len(_SMALL) else long_bytes(number)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _size(len(raw)) + raw


class _UnusualError(Exception):
    """The value is for `json_value` to decide."""


def avro_values(values: BinaryColumn, side: Side, reasons: Bytes, wire_format: WireFormat) -> BinaryColumn:
    """Return n values as Avro single objects.

    Args:
        values: n values in JSON.
        side: Their input.
        reasons: uint8 `[n]`, the `Reason` of values that are refused already; changed in place.
        wire_format: Their format.
    """
    types, label_classes = INPUT_TYPES[side], wire_format.json.label_classes if wire_format.json else {}
    convert = _example_converter() if side is Side.EXAMPLES else _label_converter(label_classes)
    cells: list[Cell] = []
    for row, (value, is_refused) in enumerate(zip(values.tolist(), reasons.tolist(), strict=True)):
        if is_refused or value is None:
            cells.append(None)
            continue
        try:
            named, content = wire_format.json_of(value, types)
            cell = convert(content) if named[0] is types[0] else None
            cells.append(cell or encode_unchecked(read_json(content, named, label_classes)))
        except (UndecodableError, WrongSchemaError) as error:
            reasons[row] = Reason.WRONG_SCHEMA if isinstance(error, WrongSchemaError) else Reason.UNDECODABLE
            cells.append(None)
    return binary_column(cells)


def _prefixes(record: type[Example | Label | Mark]) -> Callable[[str], bytes]:
    """Return what gives the header and the stream of a value; a batch has few streams."""
    header, known = newest()[record].header, dict[str, bytes]()

    def prefix(stream: str) -> bytes:
        found = known.get(stream)
        if found is None:
            found = known[stream] = header + _text(stream)
        return found

    return prefix


_Converter: TypeAlias = Callable[[bytes], bytes | None]
"""Returns a value as Avro; None if it is for `json_value` to decide."""


def _example_converter() -> _Converter:
    prefix = _prefixes(Example)

    def converted(value: bytes) -> bytes:
        one = _examples.decode(value)
        features, columns = one.features, one.values
        names = 2 + (features is not UNSET) + (columns is not UNSET)
        texts = one.stream.count(":") + one.id.count(":")
        parts = [prefix(one.stream), _text(one.id)]
        if features:
            parts += (_size(len(features)), array("f", features).tobytes())
        parts.append(b"\x00")
        if not isinstance(columns, dict):
            parts.append(_NO_VALUES)
        else:
            names += len(columns)
            parts.append(_VALUES)
            if columns:
                parts.append(_size(len(columns)))
                for name, cell in columns.items():
                    texts += name.count(":") + (cell.count(":") if isinstance(cell, str) else 0)
                    parts += (_text(name), _cell(cell))
            parts.append(b"\x00")
        if value.count(b":") != names + texts or _ESCAPED_COLON in value:
            raise _UnusualError
        return b"".join(parts)

    return _usual(converted)


def _usual(convert: Callable[[bytes], bytes]) -> _Converter:
    def converted(value: bytes) -> bytes | None:
        try:
            return convert(value)
        except (msgspec.MsgspecError, UnicodeError, _UnusualError):
            return None

    return converted


def _cell(value: Value) -> bytes:
    """Return the value of a column as a member of the union of the schema."""
    if isinstance(value, str):
        return _TEXT + _text(value)
    if isinstance(value, float):
        return _DOUBLE + pack("<d", value)
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if not -_MAX_LONG - 1 <= value <= _MAX_LONG:
        raise _UnusualError
    return _LONG + long_bytes(value)


def _label_converter(label_classes: Mapping[str, int]) -> _Converter:
    prefix = _prefixes(Label)

    def converted(value: bytes) -> bytes:
        one = _labels.decode(value)
        label, revision = one.label, one.revision
        names, texts = 4, one.stream.count(":") + one.id.count(":")
        if revision is UNSET:
            names, revision = 3, 0
        if isinstance(label, str):
            texts += label.count(":")
            label = label_classes.get(label, BAD_CLASS)
        if value.count(b":") != names + texts or _ESCAPED_COLON in value:
            raise _UnusualError
        if not (-_MAX_INT - 1 <= label <= _MAX_INT and -_MAX_INT - 1 <= revision <= _MAX_INT):
            raise _UnusualError
        return prefix(one.stream) + _text(one.id) + long_bytes(label) + long_bytes(revision)

    return _usual(converted)
