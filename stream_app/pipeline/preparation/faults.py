"""The words for what is wrong with the values of an example; they are part of a dead letter, and name the column."""

from collections.abc import Sequence

from stream_app.config.column_settings import MAX_COLUMN_BYTES
from stream_app.pipeline.preparation.kernel import FRACTION, MISSING, TEXT, TOO_LARGE, UNKNOWN_COLUMN

_TEXTS = {
    UNKNOWN_COLUMN: "is not a column of the stream",
    MISSING: "is missing",
    TEXT: "has text; its values are numbers",
    TOO_LARGE: "is infinite, or too large for float32",
    FRACTION: "is not a whole number; a category is text or a whole number",
}

ARRAY = "it has an array of features; the stream has columns"
VALUES = "it has values by column; the stream has no columns"


def fault_text(fault: int, columns: Sequence[str], column: int, name: bytes) -> str:
    """Return what is wrong.

    Args:
        fault: A fault of `kernel`.
        columns: The names of the columns.
        column: The number of the column; -1: the stream has no column `name`.
        name: Its name in UTF-8.
    """
    shown = columns[column] if column >= 0 else _printable(name)
    return f"column {shown!r} {_TEXTS[fault]}"


def _printable(name: bytes) -> str:
    """Return a name of any bytes as text of bounded length."""
    text = name[:MAX_COLUMN_BYTES].decode(errors="replace")
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
