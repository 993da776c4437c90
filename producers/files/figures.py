"""Figures about a file, from one pass over its rows and in constant memory."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self, TypeVar

import numpy as np

from stream_app.producers.external_sort import ExternalSort
from stream_app.producers.files.cells import (
    Cell,
    CellError,
    TimeUnit,
    is_boolean,
    is_missing,
    is_number,
    is_time,
    number_of,
    shown,
)
from stream_app.producers.files.layout import NO_TIME, Example, are_most

MAX_CATEGORIES = 10_000
"""Different texts of a column that are counted; the texts that come later are not."""

MAX_NUMBERS = 50
"""Different numbers of a column that are counted: a column with more has no categories."""

MAX_MARKS = 20
"""Different texts for a missing value, and texts among numbers, that are counted in a column."""

SENTINELS = frozenset(sign * float("9" * digits) for digits in range(2, 10) for sign in (-1, 1))
"""Numbers that often stand for a missing value: 99, -999 and so on."""

_CATEGORY_CHARACTERS = 64
"""Characters by which texts are compared, so that long texts take no memory."""

_BIN_RATIO = 1.01
"""Two delays whose ratio is smaller may be counted as equal: quantiles are exact to 1 %."""

_PENDING_ROW = np.dtype([("time", np.int64), ("change", np.int8), ("side", np.int8), ("row", np.int64)])


class Kind(StrEnum):
    """What most cells of a column are."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    TEXT = "text"
    EMPTY = "empty"

    @classmethod
    def of(cls, cells: Sequence[Cell], *, decimal_comma: bool) -> "Kind":
        """Return the kind of a column, from its first cells."""
        present = [cell for cell in cells if not is_missing(cell)]
        counts = {
            cls.NUMBER: sum(is_number(cell, decimal_comma=decimal_comma) for cell in present),
            cls.BOOLEAN: sum(map(is_boolean, present)),
            cls.TIME: sum(is_time(cell, TimeUnit.ISO) for cell in present),
        }
        if not present:
            return cls.EMPTY
        return next((kind for kind, count in counts.items() if are_most(count, len(present))), cls.TEXT)


@dataclass(slots=True)
class ColumnFigures:
    """Figures of one column.

    Attributes:
        name: The name of the column.
        kind: What it holds.
        decimal_comma: Whether its numbers have a decimal comma.
        count: Cells so far.
        missing: Cells without a value.
        others: Cells of another kind.
        smallest: The smallest number.
        largest: The largest number.
        inner_smallest: The smallest number that is not one of `SENTINELS`.
        inner_largest: The largest of these.
        sentinels: How often each of `SENTINELS` came.
        numbers: How often each number came, of the first `MAX_NUMBERS` + 1.
        is_whole: Whether all numbers are whole.
        marks: How often each text for a missing value came, as it is written; an empty cell is no text.
        texts: How often each text among numbers came, of the first `MAX_MARKS`.
        categories: How often each text or boolean came, of the first `MAX_CATEGORIES`.
        is_cut: Whether there are more.
    """

    name: str
    kind: Kind
    decimal_comma: bool
    count: int = 0
    missing: int = 0
    others: int = 0
    smallest: float = math.inf
    largest: float = -math.inf
    inner_smallest: float = math.inf
    inner_largest: float = -math.inf
    sentinels: Counter[float] = field(default_factory=Counter)
    numbers: Counter[float] = field(default_factory=Counter)
    is_whole: bool = True
    marks: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    is_cut: bool = False

    def add(self, cell: Cell) -> None:
        """Count a cell."""
        self.count += 1
        if is_missing(cell):
            self.missing += 1
            if isinstance(cell, str) and cell.strip():
                _count(self.marks, cell.strip(), MAX_MARKS)
        elif self.kind is Kind.NUMBER:
            self._add_number(cell)
        elif self.kind in {Kind.TEXT, Kind.BOOLEAN}:
            text = (cell.strip() if isinstance(cell, str) else str(cell))[:_CATEGORY_CHARACTERS]
            self.is_cut |= not _count(self.categories, text, MAX_CATEGORIES)

    def _add_number(self, cell: Cell) -> None:
        try:
            value = number_of(cell, decimal_comma=self.decimal_comma)
        except CellError:
            self.others += 1
            _count(self.texts, str(cell).strip()[:_CATEGORY_CHARACTERS], MAX_MARKS)
            return
        self.smallest, self.largest = min(self.smallest, value), max(self.largest, value)
        if value in SENTINELS:
            self.sentinels[value] += 1
        else:
            self.inner_smallest, self.inner_largest = min(self.inner_smallest, value), max(self.inner_largest, value)
        self.is_whole &= value.is_integer()
        _count(self.numbers, value, MAX_NUMBERS + 1)

    def words(self, most: int = 3) -> str:
        """Return the values for people: a range, or the most frequent texts."""
        if self.kind is Kind.NUMBER:
            others = f", and {self.others:,} that are no numbers" if self.others else ""
            return (
                f"{self.smallest:.15g} to {self.largest:.15g}{others}" if self.smallest <= self.largest else "no number"
            )
        if self.kind in {Kind.TEXT, Kind.BOOLEAN}:
            different = f"{'more than ' if self.is_cut else ''}{len(self.categories):,} different"
            common = self.categories.most_common(most)
            if self.is_cut or common[0][1] == 1:
                return different
            return f"{different}: {', '.join(f'{shown(text)} {count:,}' for text, count in common)}"
        return ""


_Counted = TypeVar("_Counted", str, float)


def _count(counts: Counter[_Counted], value: _Counted, most: int) -> bool:
    """Count a value, unless so many others were counted; return whether it was counted."""
    if value not in counts and len(counts) >= most:
        return False
    counts[value] += 1
    return True


class Delays:
    """The delays of labels, in milliseconds; quantiles are exact to 1 %."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self.count = 0
        self.early = 0
        self.largest = 0

    def add(self, delay_ms: int) -> None:
        """Count a delay."""
        self.count += 1
        self.early += delay_ms < 0
        self.largest = max(self.largest, delay_ms)
        self._bins[math.ceil(math.log(delay_ms, _BIN_RATIO)) if delay_ms > 0 else -1] += 1

    def quantile(self, share: float) -> int:
        """Return the delay that so large a share of the labels does not exceed."""
        seen, wanted = 0, math.ceil(share * self.count)
        for index in sorted(self._bins):
            seen += self._bins[index]
            if seen >= wanted:
                return min(self.largest, round(_BIN_RATIO**index)) if index >= 0 else 0
        return self.largest


class Pending:
    """How many examples wait for their labels at a time: exact, and sorted outside of memory."""

    def __init__(self) -> None:
        self._changes = ExternalSort(_PENDING_ROW, ("time", "side", "row"))
        self._unlabelled = ExternalSort(_PENDING_ROW, ("time", "side", "row"))
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the temporary files."""
        self._changes.close()
        self._unlabelled.close()

    def add(self, examples: Sequence[Example]) -> None:
        """Count examples that have event times."""
        begins = self._entries([example.time_ms for example in examples], 1)
        waits = [example.label_time_ms == NO_TIME or example.label_time_ms >= example.time_ms for example in examples]
        self._changes.add(begins[waits])
        known = [example.label_time_ms != NO_TIME for example in examples]
        ends = self._entries([example.label_time_ms for example in examples], -1)
        self._changes.add(ends[np.array(known) & np.array(waits)])
        self._unlabelled.add(begins[~np.array(known)])
        self._rows += len(examples)

    def _entries(self, times: list[int], change: int) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
        entries = np.empty(len(times), _PENDING_ROW)
        entries["time"], entries["change"], entries["side"] = times, change, change < 0
        entries["row"] = np.arange(self._rows, self._rows + len(times))
        return entries

    def most(self, life_ms: int) -> int:
        """Return the most examples that wait at a time, if one without a label waits for `life_ms`."""
        for block in self._unlabelled.blocks():
            ends = block.copy()
            ends["time"] += life_ms
            ends["change"], ends["side"] = -1, 1
            self._changes.add(ends)
        waiting, most = 0, 0
        for block in self._changes.blocks():
            counts = waiting + np.cumsum(block["change"], dtype=np.int64)
            waiting, most = int(counts[-1]), max(most, int(counts.max()))
        return most
