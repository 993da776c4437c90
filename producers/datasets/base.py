"""Data sets, and the recipes that make them from their publishers' files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers.datasets.column_values import ColumnValues
from stream_app.producers.datasets.files import PublishedFile, ShippedFile

Rows: TypeAlias = NDArray[Any]
"""Rows as published, `[n, columns]`, in a type that holds them exactly."""

DEFAULT_INTERVAL_MS = 1_000
"""Event time between two examples of data without timestamps. With it, a delay in seconds is a delay in events."""


_PIECE_ROWS = 1 << 16
"""Rows that are checked at a time: the features may be a memory map that is larger than memory."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Examples with their classes, in order, and the network that the paper (section on compared methods) uses.

    Attributes:
        name: The name under which it was loaded.
        features: float32 `[n, d]`, finite, preprocessed.
        labels: int8 `[n]`, the class that a producer sends; 1 is the positive one, and -1 is sent without a label.
        clean_labels: int8 `[n]`, the class before label noise; None: there is no noise.
        preprocessing: How `features` were made from the source, in words.
        source: `shipped`, `published` (from `AREBA_DATA_DIR`) or `synthetic`.
        learning_rate: The learning rate of Adam.
        hidden: Units of each hidden layer.
        l2: Weight of the sum of squared hidden-layer weights in the loss.
        drift_kind: `prior`, `likelihood` or `posterior`; None: no drift is known.
        drift_step: The number of the first example after the drift.
        interval_ms: Event time from one example to the next; with `times_ms`, on average.
        times_ms: int64 `[n]`, event times since 1970, ascending; None: one example in each interval.
        label_times_ms: int64 `[n]`, when the label was known, since 1970; None: after a delay.
        ids: bytes `[n]`, ids in UTF-8; None: a replay makes them.
        values: The values of the examples by column, instead of `features`, which then has no columns.

    An array may be a memory map.
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.int8]
    clean_labels: NDArray[np.int8] | None
    preprocessing: str
    source: str
    learning_rate: float
    hidden: tuple[int, ...] = (8,)
    l2: float = 0.0
    drift_kind: str | None = None
    drift_step: int | None = None
    interval_ms: int = DEFAULT_INTERVAL_MS
    times_ms: NDArray[np.int64] | None = None
    label_times_ms: NDArray[np.int64] | None = None
    ids: NDArray[np.bytes_] | None = None
    values: ColumnValues | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        if self.features.ndim != 2 or self.features.shape[0] != n or self.features.dtype != np.float32:
            raise DataSetError(
                f"{self.name}: features must be float32 [n, d], not {self.features.dtype} {self.features.shape}"
            )
        pieces = (self.features[first : first + _PIECE_ROWS] for first in range(0, n, _PIECE_ROWS))
        if not all(np.isfinite(piece).all() for piece in pieces):
            raise DataSetError(f"{self.name}: features must be finite")
        if self.values is not None and (len(self.values) != n or self.features.shape[1]):
            raise DataSetError(f"{self.name}: values by column must be {n}, without features")
        if self.label_times_ms is not None and self.times_ms is None:
            raise DataSetError(f"{self.name}: times of labels need times of examples")
        for labels in (self.labels, self.clean_labels):
            if labels is not None and (labels.dtype != np.int8 or len(labels) != n or not _are_classes(labels)):
                raise DataSetError(f"{self.name}: classes must be int8, 0 or 1 (-1: not known), one for each example")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dimension(self) -> int:
        """The number of features of an example, or of its columns."""
        return int(self.features.shape[1]) if self.values is None else len(self.values.columns)

    @property
    def length_ms(self) -> int:
        """The time from the first example to the last, if the data has times of its own."""
        return 0 if self.times_ms is None else int(self.times_ms[-1]) - int(self.times_ms[0])

    def prefix(self, count: int) -> Self:
        """Return a data set of the first `count` examples, or of all if there are fewer."""
        clean = None if self.clean_labels is None else self.clean_labels[:count]
        drifts = self.drift_step is not None and self.drift_step < count
        return replace(
            self,
            features=self.features[:count],
            labels=self.labels[:count],
            clean_labels=clean,
            times_ms=None if self.times_ms is None else self.times_ms[:count],
            label_times_ms=None if self.label_times_ms is None else self.label_times_ms[:count],
            ids=None if self.ids is None else self.ids[:count],
            values=None if self.values is None else self.values.prefix(count),
            drift_kind=self.drift_kind if drifts else None,
            drift_step=self.drift_step if drifts else None,
        )


def _are_classes(labels: NDArray[np.int8]) -> bool:
    return not len(labels) or (int(labels.min()) >= -1 and int(labels.max()) <= 1)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a data set is made from its publisher's files, and which part of it is shipped.

    Attributes:
        name: The name in the registry.
        title: One line for people.
        files: The publisher's files, in the order that `select` wants them.
        shipped: The file in this package.
        select: The unpacked files -> the rows that the paper uses, in order, unscaled, `[n, columns]`.
        prepare: The rows, or only the first ones -> features float32 `[n, d]` and classes int8 `[n]`.
        cut: The unpacked files -> the content of the shipped file.
        restore: The content of the shipped file -> the rows of `select`, or only the first ones.
        packing: xz's `lc`, `lp` and `pb` that compress the content best (any values give a readable file).
        preprocessing: As in `DataSet`, like the attributes that follow.
    """

    name: str
    title: str
    files: tuple[PublishedFile, ...]
    shipped: ShippedFile
    select: Callable[[Sequence[bytes]], Rows]
    prepare: Callable[[Rows], tuple[NDArray[np.float32], NDArray[np.int8]]]
    cut: Callable[[Sequence[bytes]], bytes]
    restore: Callable[[bytes], Rows]
    packing: tuple[int, int, int]
    preprocessing: str
    learning_rate: float
    hidden: tuple[int, ...] = (8,)
    l2: float = 0.0

    def rows(self, data_dir: Path | None) -> Rows:
        """Return the rows of the publisher's files in a folder, or (None) of the shipped file, as `select` does.

        Raises:
            DataSetError: A file is missing, damaged, or has another checksum.
        """
        if data_dir is None:
            return self.restore(self.shipped.read())
        return self.select([file.read(data_dir) for file in self.files])

    def load(self, data_dir: Path | None) -> DataSet:
        """Make the data set from the publisher's files in a folder, or (None) from the shipped file.

        Raises:
            DataSetError: A file is missing, damaged, or has another checksum.
        """
        features, labels = self.prepare(self.rows(data_dir))
        return DataSet(
            name=self.name,
            features=features,
            labels=labels,
            clean_labels=None,
            preprocessing=self.preprocessing,
            source="shipped" if data_dir is None else "published",
            learning_rate=self.learning_rate,
            hidden=self.hidden,
            l2=self.l2,
        )


def scaled(values: NDArray[np.float64], lowest: Sequence[float], highest: Sequence[float]) -> NDArray[np.float64]:
    """Scale columns from [lowest, highest] to [0, 1]; a constant column becomes 0."""
    low, high = np.asarray(lowest, np.float64), np.asarray(highest, np.float64)
    span = np.where(high > low, high - low, 1.0)
    result: NDArray[np.float64] = (values - low) / span
    return result


def first_content(contents: Sequence[bytes]) -> bytes:
    """Return the publisher's file itself as the content to ship."""
    return contents[0]
