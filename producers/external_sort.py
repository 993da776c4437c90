"""Sort more rows than memory holds: sorted runs in one temporary file, merged block by block.

Rows are NumPy's structured arrays, and the keys are whole numbers. No two rows may have equal keys, so the order is the
same wherever the runs are cut. The file has no name: it is gone when the process ends, however it ends.
"""

import bisect
import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.void]
"""A structured array `[n]`."""

RUN_BYTES = 1 << 25
"""Bytes of rows that are held and sorted at a time; with the copies that sorting needs, 100 MB of memory."""


class ExternalSort:
    """Rows that are added in any order, and read in the order of their keys.

    Args:
        row_type: The type of a row.
        keys: The fields that decide the order, the most significant first.
        run_rows: Most rows that are held in memory; None: `RUN_BYTES`.

    Attributes:
        most_held: The most rows that were held in memory at a time.
    """

    def __init__(self, row_type: np.dtype[np.void], keys: Sequence[str], run_rows: int | None = None) -> None:
        self._type = row_type
        self._keys = tuple(keys)
        self._run_rows = run_rows or max(1, RUN_BYTES // row_type.itemsize)
        self._held: list[Rows] = []
        self._held_rows = 0
        self._runs: list[int] = []
        self._file: IO[bytes] | None = None
        self.most_held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the runs."""
        self.close()

    def close(self) -> None:
        """Delete the runs."""
        if self._file is not None:
            self._file.close()

    def add(self, rows: Rows) -> None:
        """Add rows of `row_type`."""
        for first in range(0, len(rows), self._run_rows):
            part = rows[first : first + self._run_rows]
            if self._held_rows + len(part) > self._run_rows:
                self._write_run()
            self._held.append(part)
            self._held_rows += len(part)
            self.most_held = max(self.most_held, self._held_rows)

    def blocks(self) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most `run_rows`. Add no row after the first block."""
        if not self._runs:
            if self._held_rows:
                yield self._sorted(self._held)
            return
        yield from self._merged(self._write_run())

    def _sorted(self, parts: Sequence[Rows]) -> Rows:
        rows = np.concatenate(parts)
        return rows[np.lexsort([rows[key] for key in reversed(self._keys)])]

    def _write_run(self) -> IO[bytes]:
        """Write what is held as a run; return the file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by __exit__)
        self._file.write(self._sorted(self._held).tobytes())
        self._runs.append(self._held_rows)
        self._held, self._held_rows = [], 0
        return self._file

    def _merged(self, file: IO[bytes]) -> Iterator[Rows]:
        """Merge the runs: no unread row of a run is before the last row that was read of it."""
        ends = np.cumsum(self._runs).tolist()
        readers = [_RunReader(file, self._type, end - count, end) for count, end in zip(self._runs, ends, strict=True)]
        block_rows = max(1, self._run_rows // len(readers))
        while readers := [reader for reader in readers if reader.fill(block_rows)]:
            self.most_held = max(self.most_held, sum(len(reader.block) for reader in readers))
            bounds = [self._key(reader.block[-1]) for reader in readers if not reader.is_read]
            bound = min(bounds, default=None)
            yield self._sorted([reader.take(self._end(reader.block, bound)) for reader in readers])

    def _key(self, row: Any) -> tuple[int, ...]:  # noqa: ANN401  (a row of a structured array)
        return tuple(int(row[key]) for key in self._keys)

    def _end(self, block: Rows, bound: tuple[int, ...] | None) -> int:
        """Return how many rows of a sorted block are not after the bound."""
        return len(block) if bound is None else bisect.bisect_right(block, bound, key=self._key)


class _RunReader:
    """Reads the rows first .. end - 1 of the file, block by block."""

    def __init__(self, file: IO[bytes], row_type: np.dtype[np.void], first: int, end: int) -> None:
        self._file = file
        self._type = row_type
        self._next = first
        self._end = end
        self.block: Rows = np.empty(0, row_type)

    @property
    def is_read(self) -> bool:
        """Whether no row is left in the file."""
        return self._next == self._end

    def fill(self, block_rows: int) -> bool:
        """Read a block if the last one was taken; return whether there is a row."""
        if not len(self.block) and not self.is_read:
            count = min(block_rows, self._end - self._next)
            self._file.seek(self._next * self._type.itemsize)
            self.block = np.frombuffer(self._file.read(count * self._type.itemsize), self._type)
            self._next += count
        return len(self.block) > 0

    def take(self, count: int) -> Rows:
        """Return the first rows of the block, and remove them."""
        taken, self.block = self.block[:count], self.block[count:]
        return taken
