"""Batches of outputs as JSON: the bytes equal the output of `codec.encode` for the format `json`."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from stream_app.arrays import NO_LONG
from stream_app.record_columns import (
    NO_INTEGER,
    BinaryColumn,
    Column,
    MetricRows,
    Rows,
    binary_column,
    columns_of,
    window_columns,
)
from stream_app.records import Outcome, Prediction
from stream_app.serialization.json_text import text_of
from stream_app.serialization.json_value import field_types
from stream_app.serialization.names import NameList, Names


def json_rows(record: type[Prediction | Outcome], rows: Rows, names: Names, header: bytes = b"") -> BinaryColumn:
    """Return n values for the topic of predictions or outcomes.

    Args:
        record: Which of the two.
        rows: `[n]` of its row type.
        names: What the numbers in the columns `stream` and `learner` stand for.
        header: The header of each value.
    """
    name = record.__name__.lower()
    types, columns = field_types(name), columns_of(name)
    texts = [_texts(column, rows[column.name], types[column.name], names) for column in columns]
    return _values(columns, texts, header)


def json_metrics(metrics: MetricRows, names: Names, header: bytes = b"") -> BinaryColumn:
    """Return n values for the topic of metrics; see `json_rows`."""
    types, columns, parts = field_types("metric"), columns_of("metric"), window_columns()
    template = _template(parts)
    windows = [
        "[" + ",".join(template % tuple(map(_double, window)) for window in own) + "]"
        for own in metrics.windows.tolist()
    ]
    texts = [
        windows if column.kind == "array" else _texts(column, metrics.rows[column.name], types[column.name], names)
        for column in columns
    ]
    return _values(columns, texts, header)


def _values(columns: Sequence[Column], texts: Sequence[Sequence[str]], header: bytes) -> BinaryColumn:
    template = _template(columns)
    return binary_column([header + (template % cells).encode() for cells in zip(*texts, strict=True)])


def _template(columns: Sequence[Column]) -> str:
    return "{" + ",".join(f"{json.dumps(column.name)}:%s" for column in columns) + "}"


def _texts(column: Column, cells: Any, kind: Any, names: Names) -> Sequence[str]:  # noqa: ANN401  (see `Rows`; a type)
    """Return the cells of a column as JSON."""
    writers: Mapping[str, Callable[[Any], Sequence[str]]] = {
        "id": _ids,
        "string": partial(_names, names.streams if column.name == "stream" else names.learners),
        "boolean": lambda some: ["true" if one else "false" for one in some.tolist()],
        "enum": lambda some: [f'"{kind["symbols"][one]}"' for one in some.tolist()],
        "int": partial(_integers, NO_INTEGER),
        "long": partial(_integers, NO_LONG),
        "float": _floats,
        "double": lambda some: [_double(one) for one in some.tolist()],
    }
    return writers[column.kind](cells)


def _ids(words: Any) -> list[str]:  # noqa: ANN401  (a column of `Rows`)
    lengths, texts = words[:, 0].tolist(), np.ascontiguousarray(words[:, 1:]).tobytes()
    width = 8 * (words.shape[1] - 1)
    starts = range(0, width * len(lengths), width)
    return [text_of(texts[start : start + length].decode()) for start, length in zip(starts, lengths, strict=True)]


def _names(names: NameList, numbers: Any) -> list[str]:  # noqa: ANN401  (as above)
    numbers = numbers.tolist()
    known = {number: text_of(names[number]) if number >= 0 else "null" for number in set(numbers)}
    return [known[number] for number in numbers]


def _integers(null: int, cells: Any) -> list[str]:  # noqa: ANN401  (as above)
    return ["null" if cell == null else str(cell) for cell in cells.tolist()]


def _floats(cells: Any) -> list[str]:  # noqa: ANN401  (as above)
    """Return float32 values in the shortest form that is the same float32 again; NaN is null."""
    return ["null" if text == "nan" else text for text in cells.astype("U").tolist()]


def _double(cell: float) -> str:
    """Return a float64 in the shortest form that is the same again; NaN is null."""
    return "null" if math.isnan(cell) else repr(cell)
