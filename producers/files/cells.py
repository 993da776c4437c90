"""Cells of a file as numbers, times, classes and ids. A cell is text, or the value that the format gives it."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from stream_app.records import MAX_ID_BYTES, Value

Cell: TypeAlias = object
"""Text, a number, a boolean, a date, a time, or None; a nested value of JSON or Parquet is nothing that is used."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that stand for a missing value, in small letters."""

_MAX_FLOAT32 = 3.4028234663852886e38

_MAX_MS = 253_402_300_800_000
"""The end of the year 9999, in milliseconds since 1970."""

_LARGEST_LONG = 2**63
"""The smallest whole number that is too large for a value."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = _EPOCH.replace(tzinfo=None)

_SHOWN_CHARACTERS = 40
"""Characters of a wrong cell that a message shows."""

_BOOLEANS = {"true": 1.0, "false": 0.0}

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


class Fault(StrEnum):
    """What is wrong with a cell or row."""

    MISSING = "missing value"
    NOT_A_NUMBER = "not a number"
    NOT_A_CATEGORY = "not a category"
    NOT_A_TIME = "unreadable time"
    NOT_A_CLASS = "unknown label"
    BAD_ID = "bad id"
    DOUBLED_ID = "doubled id"
    BAD_ROW = "unreadable row"


class CellError(Exception):
    """A cell is wrong.

    Args:
        fault: What is wrong.
        detail: The same for people, with the value.
    """

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


def shown(cell: Cell) -> str:
    """Return a cell as a message shows it."""
    text = repr(cell) if isinstance(cell, str) else str(cell)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def is_missing(cell: Cell) -> bool:
    """Return whether a cell has no value."""
    if isinstance(cell, str):
        return len(cell) <= 4 and cell.strip().casefold() in MISSING
    return cell is None or cell != cell  # noqa: PLR0124  (only NaN differs from itself)


def number_of(cell: Cell, *, decimal_comma: bool = False) -> float:
    """Return a cell as a number that a feature can hold; `true` is 1 and `false` is 0.

    Raises:
        CellError: The cell is missing or not such a number.
    """
    try:
        value = float(_plain_number(cell, decimal_comma=decimal_comma))
    except (TypeError, ValueError, OverflowError):
        value = _BOOLEANS.get(cell.strip().casefold(), math.nan) if isinstance(cell, str) else math.nan
    if -_MAX_FLOAT32 <= value <= _MAX_FLOAT32:
        return value
    if is_missing(cell):
        raise CellError(Fault.MISSING, "the value is missing")
    raise CellError(Fault.NOT_A_NUMBER, f"{shown(cell)} is not a number that a feature can hold")


def _plain_number(cell: Cell, *, decimal_comma: bool) -> str | int | float | Decimal:
    """Return a cell in the form that `float` reads; it also reads `1_000`, which is no number in a file."""
    if isinstance(cell, str):
        if "_" in cell or (decimal_comma and "." in cell):
            raise ValueError(cell)
        return cell.replace(",", ".", 1) if decimal_comma else cell
    if isinstance(cell, int | float | Decimal):
        return cell
    raise TypeError(cell)


def is_number(cell: Cell, *, decimal_comma: bool = False) -> bool:
    """Return whether a cell is a number, other than a boolean."""
    try:
        number = _plain_number(cell, decimal_comma=decimal_comma)
        float(number)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(cell, bool)


def is_boolean(cell: Cell) -> bool:
    """Return whether a cell is true or false."""
    return isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().casefold() in _BOOLEANS)


def category_of(cell: Cell) -> Value:
    """Return a cell as a category: text without spaces around it, or a whole number; None if the cell is empty.

    `NA` is a category, such as the country: what else stands for a missing value is a setting of the stream.

    Raises:
        CellError: The cell is neither text nor a whole number.
    """
    if isinstance(cell, str):
        text = cell.strip()
        if not text.isascii() and any(map(_is_surrogate, text)):
            raise CellError(Fault.NOT_A_CATEGORY, f"{shown(cell)} is not UTF-8")
        return text or None
    if cell is None or cell != cell:  # noqa: PLR0124  (only NaN differs from itself)
        return None
    if isinstance(cell, bool):
        return cell
    if isinstance(cell, int | float | Decimal) and -_LARGEST_LONG <= cell < _LARGEST_LONG and cell == int(cell):
        return int(cell)
    raise CellError(Fault.NOT_A_CATEGORY, f"{shown(cell)} is no category: neither text nor a whole number")


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def id_of(cell: Cell) -> bytes:
    """Return a cell as an id in UTF-8.

    Raises:
        CellError: The cell is missing or cannot be an id.
    """
    if isinstance(cell, str) and cell.isascii() and 1 <= len(cell) <= MAX_ID_BYTES and cell.isalnum():
        return cell.encode()
    if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):  # noqa: PLR0124  (NaN)
        raise CellError(Fault.BAD_ID, "the id is empty")
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, bool | float) or not isinstance(cell, str | int):
        raise CellError(Fault.BAD_ID, f"{shown(cell)} cannot be an id: neither text nor a whole number")
    try:
        raw = str(cell).encode()
    except UnicodeEncodeError:
        raise CellError(Fault.BAD_ID, f"{shown(cell)} is not UTF-8") from None
    if len(raw) > MAX_ID_BYTES or raw.endswith(b"\0"):
        raise CellError(Fault.BAD_ID, f"{shown(cell)} cannot be an id: it has more than {MAX_ID_BYTES} bytes")
    return raw


class TimeUnit(StrEnum):
    """How times are written."""

    AUTO = "auto"
    ISO = "iso"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"

    def __str__(self) -> str:
        return _UNIT_NAMES[self]


_UNIT_NAMES = {
    TimeUnit.AUTO: "any",
    TimeUnit.ISO: "ISO 8601",
    TimeUnit.SECONDS: "seconds since 1970",
    TimeUnit.MILLISECONDS: "milliseconds since 1970",
    TimeUnit.MICROSECONDS: "microseconds since 1970",
    TimeUnit.NANOSECONDS: "nanoseconds since 1970",
}

_PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 1_000,
    TimeUnit.MICROSECONDS: 1_000_000,
    TimeUnit.NANOSECONDS: 1_000_000_000,
}

_SMALLEST = (
    (1e17, TimeUnit.NANOSECONDS),
    (1e14, TimeUnit.MICROSECONDS),
    (1e11, TimeUnit.MILLISECONDS),
)
"""The smallest numbers that are taken for a unit; in each, they are a day of the year 1973."""


def guess_unit(cells: Sequence[Cell]) -> TimeUnit:
    """Return how a column's times are written, from its first value."""
    first = next((cell for cell in cells if not is_missing(cell)), None)
    if isinstance(first, bool) or not is_number(first):
        return TimeUnit.ISO
    size = abs(float(first))  # type: ignore[arg-type]
    return next((unit for smallest, unit in _SMALLEST if size >= smallest), TimeUnit.SECONDS)


def has_zone(cell: Cell) -> bool:
    """Return whether a time names its zone, or needs none because it is a number."""
    if is_number(cell):
        return True
    try:
        return _moment(cell).tzinfo is not None
    except (TypeError, ValueError):
        return True


def _moment(cell: Cell) -> datetime:
    if isinstance(cell, str):
        return datetime.fromisoformat(cell.strip())
    if isinstance(cell, datetime):
        return cell
    if isinstance(cell, date):
        return datetime.combine(cell, time())
    raise TypeError(cell)


def time_of(cell: Cell, unit: TimeUnit) -> int:
    """Return a cell as milliseconds since 1970, rounded down; a time without a zone is UTC.

    Raises:
        CellError: The cell is missing or not a time.
    """
    try:
        milliseconds = _milliseconds(cell, unit)
    except (TypeError, ValueError, OverflowError):
        milliseconds = _MAX_MS
    if -_MAX_MS < milliseconds < _MAX_MS:
        return milliseconds
    if is_missing(cell):
        raise CellError(Fault.MISSING, "the time is missing")
    raise CellError(Fault.NOT_A_TIME, f"{shown(cell)} is not a time in {unit}")


def is_time(cell: Cell, unit: TimeUnit) -> bool:
    """Return whether a cell is a time."""
    try:
        time_of(cell, unit)
    except CellError:
        return False
    return True


def _milliseconds(cell: Cell, unit: TimeUnit) -> int:
    if unit is TimeUnit.ISO or isinstance(cell, date):
        moment = _moment(cell)
        passed = moment - (_LOCAL_EPOCH if moment.tzinfo is None else _EPOCH)
        return (passed.days * 86_400 + passed.seconds) * 1_000 + passed.microseconds // 1_000
    if isinstance(cell, bool):
        raise TypeError(cell)
    number = _plain_number(cell, decimal_comma=False)
    if isinstance(number, str) and _WHOLE.fullmatch(number.strip()):
        number = int(number)
    if isinstance(number, int):
        return number * 1_000 // _PER_SECOND[unit]
    return int(Decimal(number) * 1_000 // _PER_SECOND[unit])


def class_text(cell: Cell) -> str:
    """Return a label as text: 1, 1.0 and "1" are the same, and so are Yes and yes, and True and true."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, str) and not _WHOLE.match(cell.strip()):
        return cell.strip().casefold()
    try:
        number = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return str(cell).strip().casefold()
    return str(int(number)) if number.is_integer() else str(number)


_KNOWN_LABELS = 100
"""Ways of writing labels whose class is remembered, so that they are compared once."""


class Classes:
    """The values of a column of labels.

    Args:
        positive: The values of class 1; empty: 1 and true.
        negative: The values of class 0; empty: with `positive`, the first other value that comes, else 0 and false.
    """

    def __init__(self, positive: Sequence[str] = (), negative: Sequence[str] = ()) -> None:
        self._positive = frozenset(map(class_text, positive or ("1", "true")))
        self._negative = frozenset(map(class_text, negative if positive or negative else ("0", "false")))
        self._known: dict[str, int] = {}

    def class_of(self, cell: Cell) -> int:
        """Return the class of a label; -1 if it is missing.

        Raises:
            CellError: The label is of neither class.
        """
        if isinstance(cell, str) and cell in self._known:
            return self._known[cell]
        found = self._class_of(cell)
        if isinstance(cell, str) and len(self._known) < _KNOWN_LABELS:
            self._known[cell] = found
        return found

    def _class_of(self, cell: Cell) -> int:
        text = class_text(cell)
        if text in self._positive:
            return 1
        if text in self._negative:
            return 0
        if is_missing(cell):
            return -1
        if not self._negative:
            self._negative = frozenset({text})
            return 0
        known = f"{self.text(1)} (--positive) nor {self.text(0)} (--negative)"
        raise CellError(Fault.NOT_A_CLASS, f"{shown(cell)} is neither {known}")

    def text(self, label: int) -> str:
        """Return the values of a class."""
        return " or ".join(sorted(self._positive if label else self._negative)) or "no value"
