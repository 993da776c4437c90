"""Files of a snapshot that have the same arrays, but for the number of rows of each."""

import math
import re

from stream_app.snapshot.format import OFFSETS, Arrays, beginning, header_and_order, header_with

_MOST_HEADERS = 100
"""Headers of a form that are kept."""

_DIGITS = re.compile(rb"\d{1,10}")


class FileForm:
    """The form of files that have the same arrays, but for the number of rows of each.

    Args:
        arrays: Arrays of such a file, all with at least one dimension.

    Attributes:
        names: The names of the arrays in the order of their bytes.
        row_bytes: The bytes of a row of each.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.names = header_and_order(tuple([(name, array.dtype, array.shape) for name, array in arrays.items()]))[1]
        ordered = [arrays[name] for name in self.names]
        self.row_bytes = [math.prod(array.shape[1:]) * array.dtype.itemsize for array in ordered]
        self._beginnings = [f"{beginning(name, array.dtype)}[" for name, array in zip(self.names, ordered, strict=True)]
        self._marks = [text.encode() for text in self._beginnings]
        self._ends = ["".join(f", {size}" for size in array.shape[1:]) + f"]{OFFSETS}[" for array in ordered]
        self._headers: dict[tuple[int, ...], bytes] = {}

    def header(self, rows: tuple[int, ...]) -> bytes:
        """Return the header of a file whose arrays have so many rows, in the order of `names`."""
        header = self._headers.get(rows)
        if header is None:
            texts, start = [], 0
            for beginning, end, count, size in zip(self._beginnings, self._ends, rows, self.row_bytes, strict=True):
                after = start + count * size
                texts.append(f"{beginning}{count}{end}{start},{after}]}}")
                start = after
            if len(self._headers) == _MOST_HEADERS:
                self._headers.clear()
            header = self._headers[rows] = header_with(texts)
        return header

    def rows_in(self, number: int, header: bytes) -> int:
        """Return how many rows a header says that an array has, given its number; -1: it says nothing of it."""
        mark = self._marks[number]
        at = header.find(mark) + len(mark)
        digits = _DIGITS.match(header, at) if at >= len(mark) else None
        return int(digits[0]) if digits else -1
