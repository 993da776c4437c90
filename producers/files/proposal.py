"""The columns that a file's figures suggest for its stream, each with what was guessed.

number               most cells are numbers or booleans
cyclic               whole numbers whose name says what begins again, such as `hour` with 0 to 23
category, most       texts of which few are different: each gets a feature
category, hashed     texts of which many are different
missing: mean        some cells are empty, or have a mark of `missing_values`
left out             times, texts of which nearly all are different, and columns without values
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from stream_app.config import CategorySettings, ColumnSettings
from stream_app.config.column_settings import MAX_COLUMN_BYTES
from stream_app.producers.files.figures import MAX_CATEGORIES, MAX_NUMBERS, ColumnFigures, Kind
from stream_app.producers.files.layout import StreamInput

MOST_CATEGORIES = 50
"""Different texts that get a feature each; of more, a hash makes features."""

_HASHED = ((1_000, 64), (MAX_CATEGORIES + 1, 256))
"""The features of at most so many different texts."""

_ID_ROWS = 20
"""Cells from which on it counts whether nearly all texts are different."""

_SENTINEL_CELLS = 3
"""A number comes at least so often before it is taken for a mark of a missing value."""

_TEXT_MARKS = frozenset({
    "?", "-", "--", ".", "*", "#n/a", "n.a.", "n.d.", "nd", "nil", "missing", "unknown", "unk", "not available", "-nan"
})  # fmt: skip
"""Texts in small letters that stand for a missing value if they come among numbers."""

MAX_NAMED = 100
"""Columns of plain numbers that get names: with more, the names would be most of each record."""

_CYCLES = (
    (re.compile(r"(.*[_ .-])?hour(_?of_?day)?"), 24, 0, 23),
    (re.compile(r"(.*[_ .-])?minute"), 60, 0, 59),
    (re.compile(r"(.*[_ .-])?(weekday|week_?day|day_?of_?week|dow)"), 7, 0, 7),
    (re.compile(r"(.*[_ .-])?month"), 12, 1, 12),
)
"""Names in small letters, the period, and the smallest and largest values of a column that begins again."""


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column of a stream.

    Attributes:
        name: Its name.
        setting: `number`, or the section of its settings.
        reason: What was guessed; empty: nothing.
    """

    name: str
    setting: str | Mapping[str, Any]
    reason: str = ""

    def text(self) -> str:
        """Return the column as a line of YAML."""
        whole = yaml.safe_dump({self.name: self.setting}, default_flow_style=True, allow_unicode=True, width=10_000)
        return whole.strip()[1:-1]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The columns for a stream.

    Attributes:
        columns: The columns in the order of the file.
        missing_values: Numbers and texts that stand for a missing value.
        left_out: Reasons by the names of the columns that are left out.
        notes: What was guessed about missing values.
    """

    columns: tuple[ProposedColumn, ...]
    missing_values: tuple[float | str, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def is_array(self) -> bool:
        """Whether the examples are arrays of features: very many columns, all of them numbers and none missing."""
        is_plain = not self.missing_values and all(column.setting == "number" for column in self.columns)
        return is_plain and len(self.columns) > MAX_NAMED


def provisional_input(figures: Sequence[ColumnFigures]) -> StreamInput:
    """Return columns by which a file can be read before its figures are known: every value may be missing."""
    category = ColumnSettings(category=CategorySettings(hashed=2), missing="mean")
    number = ColumnSettings(missing="mean")
    columns = {
        column.name: category if column.kind is Kind.TEXT else number
        for column in figures
        if column.kind not in {Kind.EMPTY, Kind.TIME}
    }
    marks = (spelled for mark in _TEXT_MARKS for spelled in (mark, mark.upper(), mark.capitalize()))
    return StreamInput(columns=columns, missing_values=tuple(dict.fromkeys(marks)))


def propose(figures: Sequence[ColumnFigures]) -> Proposal:
    """Return the columns for the columns of a file that are neither ids, times nor labels."""
    left_out = {column.name: reason for column in figures if (reason := _reason_to_leave_out(column))}
    used = [column for column in figures if column.name not in left_out]
    sentinels, doubtful = _sentinels(used)
    texts = _text_marks(used)
    notes = [_mark_note(mark, names) for mark, names in (sentinels | texts).items()]
    notes += [f"{mark:g} in {name} may stand for a missing value: add it to missing_values" for mark, name in doubtful]
    marks = tuple(int(mark) if isinstance(mark, float) else mark for mark in (*sentinels, *texts))
    return Proposal(tuple(_column(column, marks) for column in used), marks, left_out, tuple(notes))


def _mark_note(mark: float | str, names: Sequence[str]) -> str:
    shown = f"{mark:g}" if isinstance(mark, float) else repr(mark)
    return f"{shown} is taken for a missing value, as in {', '.join(names)}; if it is a value, remove it"


def _reason_to_leave_out(column: ColumnFigures) -> str:
    """Return why a column cannot be one of the stream; empty if it can."""
    present, different = column.count - column.missing, len(column.categories)
    if not column.name.isprintable() or len(column.name.encode()) > MAX_COLUMN_BYTES:
        return f"its name has more than {MAX_COLUMN_BYTES} bytes or control characters"
    if column.kind is Kind.EMPTY or not present:
        return "no values"
    if column.kind is Kind.TIME:
        return "times are no features; a column with the hour or the weekday would be one"
    if column.kind is Kind.TEXT and present >= _ID_ROWS and different > present / 2:
        counts = f"{'more than ' * column.is_cut}{different:,} in {present:,} cells"
        return f"nearly all texts are different ({counts}), as of ids or free text"
    return ""


def _sentinels(figures: Sequence[ColumnFigures]) -> tuple[dict[float | str, list[str]], list[tuple[float, str]]]:
    """Return the numbers that stand for missing values with their columns, and those that are values elsewhere."""
    found: dict[float, list[str]] = {}
    values = set()
    for column in figures:
        for number, count in column.sentinels.items():
            if count >= _SENTINEL_CELLS and _is_far(number, column):
                found.setdefault(number, []).append(column.name)
            else:
                values.add(number)
    doubtful = [(number, name) for number, names in found.items() if number in values for name in names]
    return {number: names for number, names in found.items() if number not in values}, doubtful


def _is_far(number: float, column: ColumnFigures) -> bool:
    """Return whether a number is further from all others than they are from one another."""
    smallest, largest = column.inner_smallest, column.inner_largest
    if smallest > largest:
        return False
    return max(smallest - number, number - largest) > max(largest - smallest, 1.0)


def _text_marks(figures: Sequence[ColumnFigures]) -> dict[float | str, list[str]]:
    """Return the texts that stand for missing values and are not recognised without a setting."""
    found: dict[float | str, list[str]] = {}
    for column in figures:
        among_numbers = [text for text in column.texts if text.casefold() in _TEXT_MARKS]
        for text in among_numbers if column.kind is not Kind.TEXT else column.marks:
            found.setdefault(text, []).append(column.name)
    return found


def _column(column: ColumnFigures, marks: Sequence[float | str]) -> ProposedColumn:
    setting, reason = _kind(column)
    gaps = column.missing + sum(_count_of(mark, column) for mark in marks)
    if gaps:
        setting["missing"] = "mean"
        reasons = (reason, f"{gaps:,} of {column.count:,} values are missing")
        reason = "; ".join(filter(None, reasons))
    return ProposedColumn(column.name, setting or "number", reason)


def _count_of(mark: float | str, column: ColumnFigures) -> int:
    """Return how often a mark came in a column; as a text for a missing value, it was counted among these."""
    if isinstance(mark, str):
        return column.texts[mark] + column.categories[mark]
    return column.sentinels[mark]


def _kind(column: ColumnFigures) -> tuple[dict[str, Any], str]:
    """Return the settings of a column without `missing`, and what was guessed."""
    if column.kind is Kind.TEXT:
        different = len(column.categories)
        if different <= MOST_CATEGORIES:
            return {"category": {"most": different}}, f"{different} different texts"
        size = next(size for most, size in _HASHED if different < most)
        return {"category": {"hashed": size}}, f"{'more than ' * column.is_cut}{different:,} different texts"
    if column.kind is Kind.BOOLEAN:
        return {}, "true is 1, false is 0"
    if column.is_whole and column.smallest <= column.largest:
        return _whole(column)
    return {}, ""


def _whole(column: ColumnFigures) -> tuple[dict[str, Any], str]:
    """Return the settings of a column of whole numbers."""
    for name, period, smallest, largest in _CYCLES:
        if (
            name.fullmatch(column.name.casefold())
            and smallest <= column.inner_smallest <= column.inner_largest <= largest
        ):
            return {"cyclic": period}, f"by its name, begins again after {period}"
    different = len(column.numbers)
    if 2 < different <= MAX_NUMBERS and not column.sentinels:
        example = f"{{category: {{most: {different}}}}}"
        return {}, f"{different} different whole numbers; if they only name something: {example}"
    return {}, ""


def column_lines(proposal: Proposal) -> Iterator[str]:
    """Yield the lines of YAML of a stream's columns and marks of missing values, with what was guessed."""
    texts = [column.text() for column in proposal.columns]
    width = min(40, max(map(len, texts), default=0))
    yield "columns:"
    for column, text in zip(proposal.columns, texts, strict=True):
        yield f"  {text:{width}}  # {column.reason}" if column.reason else f"  {text}"
    if proposal.missing_values:
        marks = yaml.safe_dump(
            list(proposal.missing_values), default_flow_style=True, allow_unicode=True, width=10_000
        ).strip()
        yield f"missing_values: {marks}"
