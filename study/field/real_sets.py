"""Real data sets of the survey, in the order of their publishers' files; a seed only gives other first weights."""

import io
from pathlib import Path

import numpy as np

from stream_app.errors import DataSetError
from stream_app.producers.datasets import forest
from stream_app.producers.datasets import fraud as fraud_
from stream_app.producers.datasets.base import DataSet, scaled
from stream_app.producers.datasets.files import DATA_DIR_VARIABLE, data_dir_from_environment

FREQUENT_TYPES = (1, 2)
"""The cover types of class 0, 85 % of the cells; class 1 is every other type."""


def fraud(_seed: int) -> DataSet:
    """Return all 284,807 payments, of which 0.17 % are fraud.

    Raises:
        DataSetError: The publisher's file is missing; the shipped file has the first payments alone.
    """
    return fraud_.RECIPE.load(_folder("fraud"))


def covertype(_seed: int) -> DataSet:
    """Return all 581,012 cells of Forest Cover Type, of which 15 % have a rare type.

    Raises:
        DataSetError: The publisher's file is missing; the shipped file has two cover types alone.
    """
    recipe = forest.RECIPE
    content = recipe.files[0].read(_folder("covertype"))
    table = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.int16)
    features = table[:, : forest.COVER_TYPE].astype(np.float32)
    quantities = table[:, : forest.QUANTITIES].astype(np.float64)
    features[:, : forest.QUANTITIES] = scaled(quantities, forest.LOWEST, forest.HIGHEST)
    return DataSet(
        name="covertype",
        features=features,
        labels=(~np.isin(table[:, forest.COVER_TYPE], FREQUENT_TYPES)).astype(np.int8),
        clean_labels=None,
        preprocessing=recipe.preprocessing,
        source="published",
        learning_rate=recipe.learning_rate,
    )


def _folder(name: str) -> Path:
    folder = data_dir_from_environment()
    if folder is None:
        raise DataSetError(f"the stream {name} needs the publisher's file: set {DATA_DIR_VARIABLE}")
    return folder
