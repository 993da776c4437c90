"""What the columns of a file are: which holds ids, times, labels and values, and how their cells are written.

What an option does not say is taken from the first rows, and said (`Layout.notes`).
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.config import ColumnSettings
from stream_app.errors import ConfigurationError
from stream_app.producers.files.cells import (
    Cell,
    CellError,
    Classes,
    Fault,
    TimeUnit,
    category_of,
    guess_unit,
    has_zone,
    id_of,
    is_boolean,
    is_missing,
    is_number,
    number_of,
    time_of,
)
from stream_app.producers.files.readers import Reader, Sample
from stream_app.records import Value

NO_TIME = -(2**63)
"""The time of a label that is not known."""

_COMMA_NUMBER = re.compile(r"\s*[+-]?\d+(,\d+)?\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What a user says about a file.

    Attributes:
        id: The column of ids; None: a replay makes them.
        time: The column of event times; None: one row in each interval, in the order of the file.
        label: The column of labels; None: the file has no labels.
        positive: The labels of class 1; empty: 1 and true.
        negative: The labels of class 0; empty: the first other label, or 0 and false without `positive`.
        label_time: The column that says when each label was known; None: after a delay.
        features: The columns of the features; None: all other columns of numbers.
        delimiter: The delimiter of CSV; None: the one that gives the most columns.
        decimal: `point` or `comma`; None: comma if a column has such numbers.
        time_unit: How times are written.
        skip_wrong_rows: Leave wrong rows out, and count them; else the first one is an error.
    """

    id: str | None = None
    time: str | None = None
    label: str | None = None
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    label_time: str | None = None
    features: tuple[str, ...] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    time_unit: TimeUnit = TimeUnit.AUTO
    skip_wrong_rows: bool = False

    def __post_init__(self) -> None:
        if self.label_time is not None and (self.time is None or self.label is None):
            raise ConfigurationError("--label-time needs --time and --label: the delay is the time between the two")
        if self.label is None and (self.positive or self.negative):
            raise ConfigurationError("--positive and --negative need --label, the column that has these values")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInput:
    """What the configuration of a stream says about its examples.

    Attributes:
        columns: The columns by name; empty: examples are arrays of features.
        missing_values: Numbers and texts that stand for a missing value.
        features: The number of features of an array; None: not given.
        lanes: The number of lanes; None: it has none.
    """

    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    missing_values: tuple[float | str, ...] = ()
    features: int | None = None
    lanes: int | None = None


ANY_INPUT = StreamInput()
"""Of a stream about which nothing is said."""


class Example(NamedTuple):
    """A row of a file as an example with its label; times in milliseconds, `NO_TIME` where a column is not there.

    It has features, or values in the order of the columns.
    """

    time_ms: int
    label_time_ms: int
    label: int
    id: bytes
    features: list[float]
    values: Sequence[Value] = ()


class _TimeColumn(NamedTuple):
    place: int
    unit: TimeUnit


def are_most(count: int, total: int) -> bool:
    """Return whether a type is that of a column: a wrong cell among the first rows does not change it."""
    return 2 * count > total


def index_of(names: Sequence[str], name: str, option: str) -> int:
    """Return the place of a column that an option names.

    Raises:
        ConfigurationError: The file does not have it.
    """
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
        raise ConfigurationError(f"{option} {name}: the file has no such column; {hint}")
    return names.index(name)


def decimal_comma_note(names: Sequence[str], sample: Sample) -> str:
    """Return why numbers have a decimal comma: most cells of a column do, or would be whole numbers; else nothing."""
    for index, name in enumerate(names):
        texts = [cell for cell in sample.column(index) if isinstance(cell, str) and not is_missing(cell)]
        numbers = [text.strip() for text in texts if _COMMA_NUMBER.fullmatch(text)]
        example = next((text for text in numbers if "," in text), None)
        if example is not None and are_most(len(numbers), len(texts)):
            return f"{name}: {example} is a number with a decimal comma (--decimal)"
    return ""


class Layout:
    """The columns of one file.

    Args:
        reader: The open file.
        sample: Its first rows.
        options: What the user says.
        stream: What the configuration says.

    Attributes:
        features: The names of the columns of features or values, in order.
        has_columns: Whether examples have values by column.
        not_sent: The columns of the file that the stream does not have.
        notes: What was taken from the first rows, one line each.

    Raises:
        ConfigurationError: A named column does not exist, no column of numbers is left, or the file does not have what
            the configuration says.
    """

    def __init__(self, reader: Reader, sample: Sample, options: FileOptions, stream: StreamInput = ANY_INPUT) -> None:
        self._names = reader.names
        self._sample = sample
        self.notes = [reader.kind]
        self._id = self._index(options.id, "--id")
        self._time = self._time_column(options.time, "--time", options.time_unit)
        self._label = self._index(options.label, "--label")
        self._label_time = self._time_column(options.label_time, "--label-time", options.time_unit)
        self._classes = Classes(options.positive, options.negative)
        self.decimal_comma = self._has_decimal_comma(options.decimal)
        self._stream = stream
        self._marks = frozenset(stream.missing_values)
        self.has_columns = bool(stream.columns)
        self.not_sent: tuple[str, ...] = ()
        self.features = (
            self._column_names(options.features) if stream.columns else self._feature_names(options.features)
        )
        self._feature_indexes = [self._names.index(name) for name in self.features]

    def _index(self, name: str | None, option: str) -> int | None:
        """Return the place of a column."""
        return None if name is None else index_of(self._names, name, option)

    def _time_column(self, name: str | None, option: str, unit: TimeUnit) -> _TimeColumn | None:
        index = self._index(name, option)
        if index is None:
            return None
        cells = self._sample.column(index)
        if unit is TimeUnit.AUTO:
            unit = guess_unit(cells)
            first = next((cell for cell in cells if not is_missing(cell)), None)
            zone = "" if unit is not TimeUnit.ISO or has_zone(first) else ", without a zone, so UTC"
            self.notes.append(f"{name}: times are in {unit}{zone} (--time-unit)")
        return _TimeColumn(index, unit)

    def _has_decimal_comma(self, decimal: str | None) -> bool:
        """Return whether numbers have a decimal comma."""
        if decimal is not None:
            return decimal == "comma"
        note = decimal_comma_note(self._names, self._sample)
        self.notes += [note] if note else []
        return bool(note)

    def _column_names(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns of the stream, which the file must have."""
        if wanted is not None:
            raise ConfigurationError("--features: the configuration has the columns of the stream")
        for name in self._stream.columns:
            self._index(name, "columns:")
        others = (self._names[index] for index in self._unused())
        self.not_sent = tuple(name for name in others if name not in self._stream.columns)
        return tuple(self._stream.columns)

    def _unused(self) -> list[int]:
        """Return the places of the columns that are neither ids, times nor labels."""
        used = {self._id, self._label, *(column.place for column in (self._time, self._label_time) if column)}
        return [index for index in range(len(self._names)) if index not in used]

    def _feature_names(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        names = self._wanted_names(wanted)
        if self._stream.features not in {None, len(names)}:
            raise ConfigurationError(
                f"the stream has {self._stream.features} features, and the file {len(names)}: {', '.join(names)}"
            )
        return names

    def _wanted_names(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        if wanted is not None:
            for name in wanted:
                self._index(name, "--features")
            return tuple(wanted)
        others = self._unused()
        numbers = [index for index in others if self._is_number_column(index)]
        names = tuple(self._names[index] for index in numbers)
        left_out = [self._names[index] for index in others if index not in numbers]
        if not names:
            raise ConfigurationError(f"no column of numbers is left for the features: {', '.join(self._names)}")
        self.notes.append(f"{len(names)} features: {', '.join(names)} (--features)")
        if left_out:
            self.notes.append(f"left out, because most of their cells are no numbers: {', '.join(left_out)}")
        return names

    def _is_number_column(self, index: int) -> bool:
        cells = [cell for cell in self._sample.column(index) if not is_missing(cell)]
        numbers = sum(is_number(cell, decimal_comma=self.decimal_comma) or is_boolean(cell) for cell in cells)
        return are_most(numbers, len(cells))

    @property
    def has_ids(self) -> bool:
        """Whether rows have ids of their own."""
        return self._id is not None

    @property
    def has_times(self) -> bool:
        """Whether rows have event times."""
        return self._time is not None

    @property
    def has_label_times(self) -> bool:
        """Whether rows say when their label was known."""
        return self._label_time is not None

    @property
    def id_name(self) -> str:
        """The name of the column of ids."""
        return "" if self._id is None else self._names[self._id]

    @property
    def classes_note(self) -> str:
        """Which labels were taken for which class, in words."""
        if self._label is None:
            return "no column of labels (--label): all examples are sent without labels"
        name = self._names[self._label]
        return f"{name}: {self._classes.text(1)} is class 1 (--positive), {self._classes.text(0)} class 0 (--negative)"

    def example_of(self, cells: Sequence[Cell]) -> Example:
        """Return a row as an example.

        Raises:
            WrongCellError: A cell is wrong.
        """
        label, label_time_ms, time_ms, id_ = -1, NO_TIME, NO_TIME, b""
        index = 0
        try:
            if self._id is not None:
                index = self._id
                id_ = id_of(cells[index])
            if self._time is not None:
                index = self._time.place
                time_ms = time_of(cells[index], self._time.unit)
            if self._label is not None:
                index = self._label
                label = self._classes.class_of(cells[index])
            if self._label_time is not None and label >= 0:
                index = self._label_time.place
                label_time_ms = time_of(cells[index], self._label_time.unit)
        except CellError as error:
            raise WrongCellError(self._names[index], error.fault, error.detail) from None
        if self.has_columns:
            return Example(time_ms, label_time_ms, label, id_, [], self.values_of(cells))
        return Example(time_ms, label_time_ms, label, id_, self.features_of(cells))

    def values_of(self, cells: Sequence[Cell]) -> list[Value]:
        """Return the values of a row, in the order of the columns; None is a missing value.

        Raises:
            WrongCellError: A cell is not a value of its column.
        """
        values = []
        for index, (name, column) in zip(self._feature_indexes, self._stream.columns.items(), strict=True):
            try:
                values.append(self._value_of(cells[index], column))
            except CellError as error:
                raise WrongCellError(name, error.fault, error.detail) from None
        return values

    def _value_of(self, cell: Cell, column: ColumnSettings) -> Value:
        """Return a cell as a value; marks of missing values are sent as they are, and the application knows them.

        Raises:
            CellError: It is not a value of the column, or it is missing, and the column has no `missing: mean`.
        """
        if column.category is not None:
            value = category_of(cell)
        elif isinstance(cell, str) and cell.strip() in self._marks:
            value = cell.strip()
        else:
            value = None if is_missing(cell) else number_of(cell, decimal_comma=self.decimal_comma)
        if column.missing is None and (value is None or value in self._marks):
            raise CellError(Fault.MISSING, "the value is missing, and the column has no `missing: mean`")
        return value

    def features_of(self, cells: Sequence[Cell]) -> list[float]:
        """Return the features of a row: the one place that makes them from cells.

        Raises:
            WrongCellError: A cell is not a number.
        """
        features = []
        for index in self._feature_indexes:
            try:
                features.append(number_of(cells[index], decimal_comma=self.decimal_comma))
            except CellError as error:
                raise WrongCellError(self._names[index], error.fault, error.detail) from None
        return features


class WrongCellError(Exception):
    """A cell of a row is wrong.

    Args:
        column: The name of its column; empty: the row itself cannot be read.
        fault: What is wrong.
        detail: The same for people, with the value.
    """

    def __init__(self, column: str, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.column = column
        self.fault = fault
        self.detail = detail
