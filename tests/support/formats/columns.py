"""Records as the rows that the worker's encoder writes."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from stream_app.arrays import NO_LONG, pack_id
from stream_app.metric_windows import WINDOW_COLUMNS
from stream_app.record_columns import (
    METRIC_ROW,
    NO_INTEGER,
    NO_OUTCOME,
    PREDICTION_ROW,
    BinaryColumn,
    MetricRows,
    Rows,
    columns_of,
)
from stream_app.records import Metric, Outcome, OutcomeKind, Prediction, ThresholdKind
from stream_app.serialization.encode import encode_metrics as encode_metric_rows
from stream_app.serialization.encode import encode_rows
from stream_app.serialization.names import NameList, Names
from stream_app.serialization.wire_format import WireFormat


def _fill(rows: Rows, records: Sequence[Prediction | Outcome | Metric]) -> Names:
    """Fill the rows with the records' fields that are not None."""
    streams, learners = {one.stream for one in records}, {one.learner for one in records if one.learner is not None}
    names = Names(NameList(sorted(streams)), NameList(sorted(learners)))
    cells: dict[str, Callable[[Any], Any]] = {
        "stream": names.streams.index,
        "learner": names.learners.index,
        "id": pack_id,
        "outcome": lambda kind: OutcomeKind[kind.upper()],
        "threshold_kind": lambda kind: ThresholdKind[kind.upper()],
    }
    for row, record in zip(rows, records, strict=True):
        for field in fields(record):
            value = getattr(record, field.name)
            if value is not None and field.name in (rows.dtype.names or ()):
                row[field.name] = cells[field.name](value) if field.name in cells else value
    return names


def encode_predictions(records: Sequence[Prediction], wire_format: WireFormat | None = None) -> BinaryColumn:
    """Write the records as the worker writes them."""
    rows = np.zeros(len(records), PREDICTION_ROW)
    rows["threshold"] = np.nan
    return encode_rows(Prediction, rows, _fill(rows, records), wire_format)


def encode_outcomes(records: Sequence[Outcome], wire_format: WireFormat | None = None) -> BinaryColumn:
    """Write the records as the worker writes them."""
    rows = np.repeat(NO_OUTCOME, len(records))
    return encode_rows(Outcome, rows, _fill(rows, records), wire_format)


def encode_metrics(records: Sequence[Metric], wire_format: WireFormat | None = None) -> BinaryColumn:
    """Write the records, which have the same number of windows, as the worker writes them."""
    rows = np.zeros(len(records), METRIC_ROW)
    for column in columns_of("metric"):
        if column.nullable:
            rows[column.name] = {"int": NO_INTEGER, "long": NO_LONG, "double": np.nan}[column.kind]
    names = _fill(rows, records)
    windows = [[[getattr(one, name) for name in WINDOW_COLUMNS] for one in record.windows] for record in records]
    return encode_metric_rows(MetricRows(rows, np.array(windows, np.float64)), names, wire_format)
