"""What `areba verify` expects of an example that has values by column: whether it is refused, and what identifies it.

It is written from docs/reference.md, one value at a time, and shares no code with the pipeline.
"""

import math
import struct

from stream_app.config import ColumnSettings, StreamSettings
from stream_app.config.column_settings import MAX_COLUMN_BYTES
from stream_app.records import Example, Reason, Value
from stream_app.verify.reference_decisions import as_float32
from stream_app.verify.reference_state import ErrorCosts

_LARGEST_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def refused_example(example: Example, settings: StreamSettings, features: int) -> tuple[Reason, str] | None:
    """Return why an example is a dead letter, and the detail of the message; None if it fits its stream.

    Args:
        example: The example.
        settings: The settings of its stream.
        features: The number of features of the stream.
    """
    if example.values is None:
        if settings.columns:
            return Reason.WRONG_DIMENSION, "it has an array of features; the stream has columns"
        return None if len(example.features) == features else (Reason.WRONG_DIMENSION, "")
    if not settings.columns:
        return Reason.WRONG_DIMENSION, "it has values by column; the stream has no columns"
    for name in example.values:
        if name not in settings.columns:
            return Reason.BAD_COLUMN, f"column {_shown(name)!r} is not a column of the stream"
    for name, column in settings.columns.items():
        if problem := _problem(example.values.get(name), column, settings):
            return Reason.BAD_COLUMN, f"column {name!r} {problem}"
    return None


def _shown(name: str) -> str:
    """Return a name that a producer has chosen, as a message shows it."""
    cut = name.encode()[:MAX_COLUMN_BYTES].decode(errors="replace")
    return "".join(each if each.isprintable() else "\ufffd" for each in cut)


def identity_of(example: Example, settings: StreamSettings) -> bytes:
    """Return the bytes in which two examples of one id must agree to be the same."""
    if example.values is None:
        return struct.pack(f"<{len(example.features)}f", *example.features)
    values = {name: _plain(example.values.get(name)) for name in sorted(settings.columns)}
    return repr({name: value for name, value in values.items() if value is not None}).encode()


def costs_of(example: Example, settings: StreamSettings) -> ErrorCosts | None:
    """Return the costs of an example; None if its stream has none."""
    if settings.costs is None:
        return None
    one, two = (_cost(cost, example, settings) for cost in settings.costs.both)
    return ErrorCosts(one, two)


def _cost(cost: float | str, example: Example, settings: StreamSettings) -> float:
    """Return a cost as float32: a value of a column that is missing or negative costs nothing."""
    if isinstance(cost, str):
        value = _plain((example.values or {}).get(cost))
        cost = max(value, 0.0) if isinstance(value, float) and value not in settings.missing_values else 0.0
    return as_float32(cost)


def _plain(value: Value) -> float | str | None:
    """Return the value as it is compared: NaN is a missing value, -0.0 is 0.0, a boolean 0 or 1."""
    if value is None or isinstance(value, str):
        return value
    number = float(value) + 0.0
    return None if math.isnan(number) else number


def _problem(given: Value, column: ColumnSettings, settings: StreamSettings) -> str:
    """Return what is wrong with a value; empty if it fits its column."""
    value = _plain(given)
    if value is None or value in settings.missing_values:
        return "" if column.missing is not None else "is missing"
    if column.category is not None:
        is_whole = isinstance(given, float) and abs(given) < 2.0**63 and given == math.floor(given)
        if isinstance(given, str | int) or is_whole:
            return ""
        return "is not a whole number; a category is text or a whole number"
    if isinstance(value, str):
        return "has text; its values are numbers"
    return "" if abs(value) <= _LARGEST_FLOAT else "is infinite, or too large for float32"
