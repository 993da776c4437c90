"""Load the cores of many streams at once, the inverse of `core_form`.

All numbers that compiled code takes for granted are checked before the first stream is opened. What is not right here
is loaded alone, which names what is wrong.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.jit.memory import address_of
from stream_app.join.constants import Counter
from stream_app.join.delays import DELAY_BUCKETS
from stream_app.pipeline.alert_share import AlertShare
from stream_app.pipeline.calibration import Calibration
from stream_app.pipeline.core_form import CLOSED, DELAYS, ONE, PENDING, CoreForm, Memory, TableRows, copy_all, numbered
from stream_app.pipeline.prequential import Prequential
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_state import KEPT_COUNTERS
from stream_app.records import ID_WORDS, ThresholdKind
from stream_app.snapshot.format import Columns, without_prefix

Mask = NDArray[np.bool_]

_KINDS = np.array(ThresholdKind)


class Cores(NamedTuple):
    """The cores of n streams of one form.

    Attributes:
        form: Their form.
        files: The bytes of all files.
        starts: int64 `[n, arrays]`, the address of each array there.
        counts: int64 `[n, tables]`, the rows of each table.
        columns: Of each array the n arrays, or the rows of all streams.
    """

    form: CoreForm
    files: NDArray[np.uint8]
    starts: Longs
    counts: Longs
    columns: Columns

    @classmethod
    def of(cls, form: CoreForm, contents: Sequence[bytes], counts: Sequence[Sequence[int]]) -> "Cores":
        """Return cores whose headers were compared, and say how many rows each table has."""
        files = np.frombuffer(bytearray().join(contents), np.uint8)
        table_counts = np.array(counts, np.int64)
        sizes = form.sizes(table_counts)
        lengths = np.array([len(content) for content in contents], np.int64)
        bodies = address_of(files) + np.cumsum(lengths) - sizes.sum(1)
        starts = bodies[:, None] + np.cumsum(sizes, 1) - sizes
        columns = {
            name: np.empty(((len(contents), *shape) if table == ONE else (0, *shape[1:])), dtype)
            for name, table, dtype, shape in form.arrays
        }
        targets = np.empty_like(starts)
        for number, (name, table, dtype, shape) in enumerate(form.arrays):
            if table != ONE:
                columns[name] = np.empty((int(table_counts[:, table].sum()), *shape[1:]), dtype)
            targets[:, number] = address_of(columns[name]) + np.cumsum(sizes[:, number]) - sizes[:, number]
        copy_all(starts, targets, sizes)
        return cls(form, files, starts, table_counts, columns)

    def count_right(self) -> int:
        """Return how many of the first cores have numbers that are right."""
        right = self._join_right()
        for number, stored in enumerate(self.form.stored):
            arrays = without_prefix(self.columns, f"learner.{number}.")
            right &= stored.are_right(arrays, self.counts[:, self.form.queue_tables(number)])
            figures = without_prefix(self.columns, f"sums.{number}.")
            for array, are_right in (
                ("prequential_sums", Prequential.are_right),
                ("calibration", Calibration.are_right),
                ("alert_scores", AlertShare.are_right),
            ):
                right &= are_right(figures[array])
        return int(np.flatnonzero(~right)[0]) if not right.all() else len(right)

    def _join_right(self) -> Mask:
        columns, learners = self.columns, len(self.form.stored)
        counters = {counter: columns["counters"][:, k] for k, counter in enumerate(KEPT_COUNTERS)}
        first, closed = counters[Counter.CLOSED_FIRST], self.counts[:, CLOSED]
        end = counters[Counter.CLOSED_NEXT]
        right = (first >= 0) & (end >= first) & (end - first == closed) & (columns["closed_first"][:, 0] == first)
        right &= (counters[Counter.CHAMPION] >= 0) & (counters[Counter.CHAMPION] < learners)
        right &= np.isin(counters[Counter.THRESHOLD_KIND], _KINDS)
        right &= columns["features_count"][:, 0] == self.form.features
        champions, longest = columns["pending.champions"], 8 * (ID_WORDS - 1)
        right &= self._rows(PENDING, (champions >= 0) & (champions < learners))
        right &= self._rows(PENDING, columns["pending.ids"][:, 0] <= longest)
        right &= self._rows(PENDING, columns["pending.arrivals"] == columns["pending_arrivals"])
        right &= self._rows(CLOSED, columns["closed.closed_ids"][:, 0] <= longest)
        right &= self._rows(DELAYS, (columns["delays"] >= 0) & (columns["delays"] < DELAY_BUCKETS))
        return np.asarray(right)

    def _rows(self, table: int, rows: Mask) -> Mask:
        """Say of each stream whether all of its rows are right."""
        streams, _ = numbered(self.counts[:, table])
        right = np.ones(len(self.counts), np.bool_)
        right[streams[~rows]] = False
        return right

    def load(self, streams: Sequence[Stream]) -> None:
        """Fill new streams with the first of these cores, which are right."""
        counts = self.counts[: len(streams)]
        for stream, (pending, closed) in zip(streams, counts[:, [PENDING, CLOSED]].tolist(), strict=True):
            stream.make_room(pending)
            stream.join.reserve(pending, closed)
        if not streams:
            return
        memory = Memory.of(streams)
        rows = [numbered(counts[:, table]) for table in range(counts.shape[1])]
        places = [numbers for _, numbers in rows]
        of = rows[CLOSED][0]
        places[CLOSED] = (self.columns["closed_first"][of, 0] + places[CLOSED]) % memory.factors[of, 2]
        places[DELAYS] = self.columns["delays"][: len(rows[DELAYS][0])]
        tables = [TableRows(of, place, numbers) for (of, numbers), place in zip(rows, places, strict=True)]
        self.form.transfer(memory, tables, self.starts, to_file=False)
        self.form.complete(memory, counts)
        for stream, pending in zip(streams, counts[:, PENDING].tolist(), strict=True):
            stream.join.index(pending, 0)
            stream.is_new = False
