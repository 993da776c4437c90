"""Statlog (German Credit Data): 1,000 customers of a bank; the positive class is a bad credit risk."""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import Recipe, Rows, first_content, scaled
from stream_app.producers.datasets.files import PublishedFile, ShippedFile

FEATURES = 24
BAD = 2

LOWEST = (1, 4, 0, 2, 1, 1, 1, 1, 1, 19, 1, 1, 1, 1, 1, *(0,) * 9)
"""The smallest value of each feature over all 1,000 rows."""

HIGHEST = (4, 72, 4, 184, 5, 5, 4, 4, 4, 75, 3, 4, 2, 2, 2, *(1,) * 9)
"""The largest values of the same columns."""


def parse(content: bytes) -> NDArray[np.float64]:
    """Return the table, float64 `[1000, 25]`."""
    return np.loadtxt(io.BytesIO(content), dtype=np.float64)


def select(contents: Sequence[bytes]) -> Rows:
    """Return all rows in the publisher's order."""
    return parse(contents[0])


def prepare(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Scale each feature from its range to [0, 1]; class 2 (bad) is positive."""
    features = scaled(rows[:, :FEATURES], LOWEST, HIGHEST).astype(np.float32)
    return features, (rows[:, FEATURES] == BAD).astype(np.int8)


RECIPE = Recipe(
    name="credit",
    title="Statlog (German Credit Data), numeric form, UCI 144: bad credits",
    files=(
        PublishedFile(
            folder="german_credit",
            name="german.data-numeric",
            sha256="2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
            urls=(
                "https://archive.ics.uci.edu/static/public/144/statlog+german+credit+data.zip",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/german.data-numeric",
            ),
        ),
    ),
    shipped=ShippedFile(
        name="credit.data-numeric.xz",
        sha256="715e8da2c6737078d308cae28933a841bb6410202ae1af4f5d1f2a3c51bf71a5",
        content_sha256="2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
    ),
    select=select,
    prepare=prepare,
    cut=first_content,
    restore=parse,
    packing=(3, 0, 0),
    preprocessing="24 features, each from [smallest, largest] of the whole set to [0, 1].",
    learning_rate=0.01,
)
