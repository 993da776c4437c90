"""Erase examples from the queues of a method."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.learners.method import RunningMethod, queue_rows
from stream_app.records import Words


def erase_queued(method: RunningMethod, erased: Callable[[Words], NDArray[np.bool_]]) -> int:
    """Remove examples from all queues; return how many.

    Later examples move up, and all rows that are free are zeros afterwards, also those that older examples have left.

    Args:
        method: The method.
        erased: Says of ids, uint64 `[n, ID_WORDS]`, which are erased.
    """
    queues = method.tables.queues
    columns: list[NDArray[Any]] = [queues.examples.reshape(-1, queues.width), queues.ids, queues.classes]
    if queues.dated:
        columns.append(queues.arrivals)
    removed = 0
    for queue in range(queues.queues):
        rows = queue_rows(queues, queue)
        gone = erased(queues.ids[rows])
        kept, begin = rows[~gone], queue * queues.rows
        for column in columns:
            moved = column[kept]
            column[begin : begin + queues.rows] = 0
            column[begin : begin + len(kept)] = moved
        queues.firsts[queue], queues.lengths[queue] = 0, len(kept)
        removed += len(rows) - len(kept)
        method.erased(method.tables, queue, gone)
    return removed
