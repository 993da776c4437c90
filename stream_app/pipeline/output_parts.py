"""The outputs of several batches that were processed at once, taken apart again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stream_app.arrays import Longs
from stream_app.pipeline.outputs import Outputs
from stream_app.record_columns import OutputRecords

if TYPE_CHECKING:
    from stream_app.records import Header


def parts_of(outputs: Outputs, ends: Longs) -> Iterator[Outputs]:
    """Yield the outputs with the records of each of k batches in turn; what is no record stays that of all of them.

    Args:
        outputs: The outputs of `Task.step` for these batches.
        ends: int64 `[k, 2]`, as given to `Task.step`.
    """
    positions = ends.sum(axis=1)
    parts = {
        topic: _split(records, np.searchsorted(outputs.positions[topic], positions).tolist())
        for topic, records in outputs.topics.items()
    }
    for number in range(len(ends)):
        yield replace(outputs, topics={topic: records[number] for topic, records in parts.items()})


def _split(records: OutputRecords, ends: Sequence[int]) -> Sequence[OutputRecords]:
    """Return the rows before each of these ends, from the end before it on; they share the buffers."""
    starts = [0, *ends]
    headers: list[dict[int, Sequence[Header]]] = [{} for _ in ends]
    for row, each in records.headers.items():
        part = int(np.searchsorted(ends, row, side="right"))
        headers[part][row - starts[part]] = each
    return [
        OutputRecords(records.keys[start:end], records.values[start:end], records.timestamps[start:end], own)
        for start, end, own in zip(starts, ends, headers, strict=False)
    ]
