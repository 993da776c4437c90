"""The data sets as their recipes prepare them, or prepared otherwise, to find out what the paper's authors did."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers import datasets
from stream_app.producers.datasets import cervical, credit, forest, mnist
from stream_app.producers.datasets.base import DataSet, scaled
from stream_app.producers.datasets.files import DATA_DIR_VARIABLE

RANGES: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "cervical": (cervical.LOWEST, cervical.HIGHEST),
    "credit": (credit.LOWEST, credit.HIGHEST),
}
"""The smallest and largest values of the columns that a recipe scales."""

SCHILLER = 33
YES_NO = (4, 7, 9, 11, 28, 29, 30, 31, 32, SCHILLER, 34)
"""Columns of Cervical Cancer that become one-hot: smoking, contraceptives, IUD, STDs, four diagnoses, three
examinations. The columns of single diseases stay as they are."""


@lru_cache(maxsize=1)
def prepared(name: str, scaling: str, rows: str, folder: Path | None) -> DataSet:
    """Load a data set and keep it for the next repetition, because reading the largest takes ten seconds.

    Args:
        name: The name of the data set.
        scaling: As in `StreamChoice`.
        rows: As in `StreamChoice`.
        folder: The folder with the publishers' files; None: the shipped file.

    Raises:
        DataSetError: A file is missing or damaged.
    """
    data = datasets.load(name, folder)
    if rows == "file":
        order = np.argsort(_forest_places(folder))
        data = replace(data, features=data.features[order], labels=data.labels[order])
    return _scaled(data, scaling, folder)


def mnist_drawn(scaling: str, folder: Path, seed: int) -> DataSet:
    """Return MNIST with images, and an order, that this seed draws from the publisher's training set.

    Raises:
        DataSetError: A file is missing or damaged.
    """
    features, labels = mnist.prepare(mnist.select(_mnist_files(folder), ("study", "mnist", seed)))
    data = replace(prepared("mnist", "study", "study", folder), features=features, labels=labels)
    return _scaled(data, scaling, folder)


@lru_cache(maxsize=1)
def _mnist_files(folder: Path) -> Sequence[bytes]:
    return [file.read(folder) for file in mnist.RECIPE.files]


def _scaled(data: DataSet, scaling: str, folder: Path | None) -> DataSet:
    if scaling == "standard":
        return replace(data, features=_standardised(data.features))
    if scaling == "raw":
        return replace(data, features=_unscaled(data.features, *RANGES[data.name]))
    if scaling.startswith("onehot"):
        columns = [column for column in YES_NO if column != SCHILLER or scaling == "onehot-46"]
        return replace(data, features=one_hot(cervical.RECIPE.rows(folder), columns))
    return data


def _standardised(features: NDArray[np.float32]) -> NDArray[np.float32]:
    deviations = features.std(axis=0, dtype=np.float64)
    centred = features - features.mean(axis=0, dtype=np.float64)
    result: NDArray[np.float32] = (centred / np.where(deviations, deviations, 1.0)).astype(np.float32)
    return result


def _unscaled(features: NDArray[np.float32], lowest: Sequence[int], highest: Sequence[int]) -> NDArray[np.float32]:
    low, high = np.array(lowest), np.array(highest)
    features = features.copy()
    features[:, : len(low)] *= np.where(high > low, high - low, 1)
    features[:, : len(low)] += low
    return features


def one_hot(rows: NDArray[np.float64], columns: Sequence[int]) -> NDArray[np.float32]:
    """Return the 35 inputs of Cervical Cancer on [0, 1], these columns as two columns each: is 0, is 1.

    Args:
        rows: float64 `[n, 36]` as published; an unknown value is NaN, and becomes the column's median.
        columns: Columns whose values are 0 and 1.
    """
    inputs = rows[:, : cervical.BIOPSY]
    filled = np.where(np.isnan(inputs), np.asarray(cervical.MEDIANS, np.float64), inputs)
    values = scaled(filled, cervical.LOWEST, cervical.HIGHEST)
    others = np.setdiff1d(np.arange(cervical.BIOPSY), columns)
    chosen = values[:, list(columns)]
    return np.hstack([values[:, others], 1.0 - chosen, chosen]).astype(np.float32)


def _forest_places(folder: Path | None) -> NDArray[np.int64]:
    """Return where in the publisher's file the rows of the study are.

    Raises:
        DataSetError: The publisher's file is missing; the shipped file does not contain the order.
    """
    if folder is None:
        raise DataSetError(f"rows in the order of the file need the publisher's files: set {DATA_DIR_VARIABLE}")
    (file,) = forest.RECIPE.files
    types = [int(line.rpartition(b",")[2]) for line in file.read(folder).splitlines()]
    return forest.chosen(np.array(types, np.int16))
