"""The step prepare: the examples of a batch that have values by column get the features of their stream's columns.

It comes after the records of a batch were routed, and before the join, in the order of the partition. So all later
steps, and what waits for its label, have arrays of features only.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from stream_app.arrays import Bytes, Floats, Integers, Longs
from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.preparation.faults import ARRAY, VALUES, fault_text
from stream_app.pipeline.preparation.kernel import Given, Prepared, prepare_examples
from stream_app.pipeline.preparation.preparation import Preparation
from stream_app.record_columns import COLUMNS
from stream_app.records import Kind, Reason, Side

_WRONG_DIMENSION = int(Reason.WRONG_DIMENSION)


class _Chosen(NamedTuple):
    """The k examples of a batch that are prepared: their positions, their rows, and the streams' columns."""

    positions: Longs
    rows: Longs
    columns: Sequence[Preparation]


def prepare(
    batch: InputBatch,
    streams: Integers,
    reasons: Bytes,
    preparations: Mapping[int, Preparation],
    names: Sequence[str],
    costs: Floats | None,
) -> tuple[InputBatch, Mapping[int, str]]:
    """Prepare the examples that have values by column.

    Args:
        batch: The batch.
        streams: int32 `[n]`, the stream of each position; changed in place: -1 where values are wrong.
        reasons: uint8 `[n]`, the `Reason` of each dead letter; changed in place likewise.
        preparations: The columns of the streams that have any, by the number of the stream.
        names: The names of the streams by number.
        costs: float32 `[streams, 2]`, the costs of each stream's examples, NaN: none, or those of a column; None: no
            stream has costs.

    Returns:
        The batch with the features of these examples, and what is wrong with others, by position.
    """
    details = _wrong_forms(batch, reasons, {names[stream] for stream in preparations})
    if costs is not None:
        owners = streams[batch.merged.sides == Side.EXAMPLES]
        batch = replace(batch, merged=batch.merged._replace(costs=costs[owners]))
    chosen = _chosen(batch, streams, preparations)
    if not len(chosen.rows):
        return batch, details
    decoded = batch.decoded[Side.EXAMPLES]
    widths = [columns.width for columns in chosen.columns]
    *starts, total = accumulate(widths, initial=0)
    prepared = Prepared(
        features=np.zeros(total, np.float32),
        starts=np.array(starts, np.int64),
        costs=np.full((len(widths), 2), np.nan, np.float32) if costs is None else batch.merged.costs[chosen.rows],
        fingerprints=np.zeros(len(widths), np.uint64),
        faults=np.zeros(len(widths), np.uint8),
        columns=np.zeros(len(widths), np.int32),
        names=np.zeros((len(widths), 2), np.int64),
    )
    given = Given(
        buffer=decoded.cells.buffer,
        starts=decoded.value_starts[chosen.rows],
        ends=decoded.cells.stops[chosen.rows],
        owners=np.array([columns.address for columns in chosen.columns], np.int64),
    )
    prepare_examples(given, prepared)
    for k in np.flatnonzero(prepared.faults).tolist():
        position, (start, end) = int(chosen.positions[k]), prepared.names[k].tolist()
        streams[position], reasons[position] = -1, Reason.BAD_COLUMN
        columns, name = tuple(chosen.columns[k].columns), given.buffer[start:end].tobytes()
        details[position] = fault_text(int(prepared.faults[k]), columns, int(prepared.columns[k]), name)
    return _with_features(batch, chosen.rows, prepared), details


def _chosen(batch: InputBatch, streams: Integers, preparations: Mapping[int, Preparation]) -> _Chosen:
    """Return the examples that have values by column, and that their streams take."""
    rows = np.flatnonzero(batch.decoded[Side.EXAMPLES].value_starts >= 0) if preparations else np.zeros(0, np.int64)
    if not len(rows):
        return _Chosen(rows, rows, ())
    positions = np.flatnonzero(batch.merged.sides == Side.EXAMPLES)[rows]  # rows keep their order
    taken = streams[positions] >= 0
    positions, rows = positions[taken], rows[taken]
    return _Chosen(positions, rows, [preparations[stream] for stream in streams[positions].tolist()])


def _with_features(batch: InputBatch, rows: Longs, prepared: Prepared) -> InputBatch:
    """Return the batch with the features of the prepared examples after those of the others."""
    features = batch.merged.features
    starts, fingerprints = batch.merged.feature_starts.copy(), np.zeros(len(batch.merged.example_ids), np.uint64)
    starts[rows] = len(features) + prepared.starts
    fingerprints[rows] = prepared.fingerprints
    if len(batch.merged.costs):
        batch.merged.costs[rows] = prepared.costs
    merged = batch.merged._replace(
        features=np.concatenate([features, prepared.features]), feature_starts=starts, fingerprints=fingerprints
    )
    return replace(batch, merged=merged)


def _wrong_forms(batch: InputBatch, reasons: Bytes, having: Collection[str]) -> dict[int, str]:
    """Say by position which examples have an array of features instead of values by column, or the reverse."""
    details: dict[int, str] = {}
    decoded = batch.decoded[Side.EXAMPLES]
    for position in (reasons == _WRONG_DIMENSION).nonzero()[0].tolist():
        row = int(batch.merged.rows[position])
        has_values = decoded.feature_counts[row] == COLUMNS
        if decoded.kinds[row] == Kind.DATA and has_values != (batch.stream_name(position) in having):
            details[position] = VALUES if has_values else ARRAY
    return details
