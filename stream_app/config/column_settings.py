"""The columns of a stream: what the values of an example are, and how many features each of them becomes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal, Protocol, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stream_app.config.values import Frozen, Integer, Number, Settings

MAX_COLUMN_BYTES = 64
"""Most bytes of a column's name in UTF-8; dead letters name columns."""

_KINDS = "`number`, or a section with `category`, `cyclic` or `missing`"


def _column_name(name: str) -> str:
    if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_COLUMN_BYTES:
        raise ValueError(f"a column's name has 1 to {MAX_COLUMN_BYTES} bytes and no control characters")
    return name


ColumnName: TypeAlias = Annotated[str, AfterValidator(_column_name)]


class CategorySettings(Settings):
    """How a category becomes features that are 0 or 1.

    Attributes:
        most: Number of features for the most frequent categories, each with a feature of its own; one more feature
            stands for all others.
        hashed: Number of features; a hash chooses the feature of a category, which several categories may share.
    """

    most: Annotated[Integer, Field(ge=1, le=1_000)] | None = None
    hashed: Annotated[Integer, Field(ge=2, le=100_000)] | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.most is None) == (self.hashed is None):
            raise ValueError("a category needs either `most` or `hashed`")
        return self

    @property
    def width(self) -> int:
        """The number of features."""
        return self.hashed or (self.most or 0) + 1


def _plain_column(value: object) -> object:
    """Return the section that a word stands for: `number` has no settings."""
    if value == "number":
        return {}
    if isinstance(value, str):
        raise ValueError(f"must be {_KINDS}, is {value!r}")  # noqa: TRY004  (pydantic collects ValueError)
    return value


class ColumnSettings(Settings):
    """One column. Without `category` and `cyclic`, it has numbers, each of which is one feature.

    Attributes:
        category: The values are text or whole numbers that name a category.
        cyclic: The values are numbers that begin again after this period, such as 7 for the day of the week; sine and
            cosine are the features.
        missing: `mean`: the features of a missing value are the running means of the column's features, and one more
            feature says that it was missing. By default, an example without the value is a dead letter.
    """

    category: CategorySettings | None = None
    cyclic: Annotated[Number, Field(ge=1e-6, le=1e12)] | None = None
    missing: Literal["mean"] | None = None

    @model_validator(mode="after")
    def _has_one_kind(self) -> Self:
        if self.category is not None and self.cyclic is not None:
            raise ValueError("a column is either a `category` or `cyclic`")
        return self

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers that are features as they come."""
        return self.category is None and self.cyclic is None

    @property
    def value_width(self) -> int:
        """The number of features without the feature that says that the value was missing."""
        if self.category is not None:
            return self.category.width
        return 1 if self.cyclic is None else 2

    @property
    def width(self) -> int:
        """The number of features."""
        return self.value_width + (self.missing is not None)


def columns_from_list(value: object) -> object:
    """Return columns by name from the list that `to_json` writes: the order of the columns is that of the features."""
    if isinstance(value, list):
        return {item["name"]: {key: item[key] for key in item if key != "name"} for item in value}
    return value


def columns_as_list(columns: Mapping[str, ColumnSettings]) -> list[dict[str, Any]]:
    """Return the list that `columns_from_list` reads; settings that a column does not have are left out."""
    return [{"name": name, **column.model_dump(mode="json", exclude_none=True)} for name, column in columns.items()]


def columns_text(columns: Mapping[str, ColumnSettings]) -> str:
    """Return columns as canonical text; equal columns in the same order have equal texts."""
    return json.dumps(columns_as_list(columns), sort_keys=True, separators=(",", ":"))


Columns: TypeAlias = Annotated[
    Frozen[ColumnName, Annotated[ColumnSettings, BeforeValidator(_plain_column)]], Field(max_length=10_000)
]


def _mark(value: object) -> object:
    """Return a mark of a missing value: text, or a number as a float."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_MARK:
        return float(value)
    raise ValueError(f"must be text or a number, is {value!r}")


_LARGEST_MARK = 1e300

_Mark: TypeAlias = Annotated[Annotated[float, Field(ge=-_LARGEST_MARK, le=_LARGEST_MARK)] | str, BeforeValidator(_mark)]
MissingValues: TypeAlias = Annotated[tuple[_Mark, ...], Field(max_length=100)]


def width_of(columns: Mapping[str, ColumnSettings]) -> int:
    """Return the number of features of an example with these columns."""
    return sum(column.width for column in columns.values())


def column_of(columns: Mapping[str, ColumnSettings], feature: int) -> str:
    """Return the column that a feature was made of, by the number of the feature from 0.

    Raises:
        IndexError: The columns have no such feature.
    """
    ends = accumulate(column.width for column in columns.values())
    for name, end in zip(columns, ends, strict=True):
        if feature < end:
            return name
    raise IndexError(feature)


def is_growth(before: Mapping[str, ColumnSettings], after: Mapping[str, ColumnSettings]) -> bool:
    """Say whether all columns are still there, in their order, each with all of its features."""
    kept = [name for name in after if name in before]
    return bool(before) and kept == list(before) and all(_keeps_features(before[name], after[name]) for name in kept)


def _keeps_features(before: ColumnSettings, after: ColumnSettings) -> bool:
    """Say whether a column has the same kind, and may have more places for categories, or a feature for gaps."""
    one, two = before.category, after.category
    if one is not None and two is not None and one.most and two.most and one.most < two.most:
        one = two
    return (one, before.cyclic, before.missing or after.missing) == (two, after.cyclic, after.missing)


def places_in(before: Mapping[str, ColumnSettings], after: Mapping[str, ColumnSettings]) -> Sequence[int]:
    """Return the number of each former feature among the features of columns to which the former have grown."""
    starts = dict(zip(after, accumulate((column.width for column in after.values()), initial=0), strict=False))
    found: list[int] = []
    for name, column in before.items():
        last = after[name].value_width - 1  # of a category: the feature of all other categories
        own = [*range(column.value_width - 1), last, *([last + 1] if column.missing else [])]
        found += [starts[name] + place for place in own]
    return found


class _WithColumns(Protocol):
    """A stream as the configuration file has it."""

    @property
    def features(self) -> int | None:
        """The number of features that the file gives."""

    @property
    def columns(self) -> Mapping[str, ColumnSettings]:
        """The columns by name."""

    @property
    def missing_values(self) -> tuple[float | str, ...]:
        """The marks of missing values."""


def column_conflicts(stream: _WithColumns, max_features: int) -> Iterator[tuple[str, str]]:
    """Yield the settings of a stream's features that contradict one another or the limit, each with the reason."""
    if stream.features is not None and stream.features > max_features:
        yield "features", f"must be at most limits.max_features ({max_features}), is {stream.features}"
    if stream.columns and stream.features is not None:
        yield "features", "follows from the columns: leave it out"
    if (width := width_of(stream.columns)) > max_features:
        yield "columns", f"have {width} features together; limits.max_features is {max_features}"
    if stream.missing_values and not stream.columns:
        yield "missing_values", "has no effect without columns"
