"""The values of examples by column: one line of JSON for each example, in a file that a memory map shows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stream_app.records import Value


def values_as_bytes(values: Sequence[Value]) -> bytes:
    """Return the values of one example, in the order of their columns, as `ColumnValues.content` has them."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, eq=False)
class ColumnValues:
    """The values of n examples.

    Attributes:
        columns: The names of the columns.
        content: uint8 `[bytes]`, the values of all examples; may be a memory map.
        starts: int64 `[n]`, where the values of each example begin in it.
        sizes: int32 `[n]`, how many bytes they have.
    """

    columns: tuple[str, ...]
    content: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.starts)

    def rows(self, numbers: NDArray[np.int64]) -> Iterator[Mapping[str, Value]]:
        """Yield the values of these examples by column."""
        for start, size in zip(self.starts[numbers].tolist(), self.sizes[numbers].tolist(), strict=True):
            values = json.loads(self.content[start : start + size].tobytes())
            yield dict(zip(self.columns, values, strict=True))

    def prefix(self, count: int) -> Self:
        """Return the values of the first `count` examples, or of all if there are fewer."""
        return replace(self, starts=self.starts[:count], sizes=self.sizes[:count])
