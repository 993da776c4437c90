"""Forest Cover Type: 200,000 cells of type 1 (spruce or fir, class 0) against 2,000 of type 4 (willow, class 1)."""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import Recipe, Rows, scaled
from stream_app.producers.datasets.files import PublishedFile, ShippedFile, array_bytes, read_array
from stream_app.producers.draws import Draws

NEGATIVE_TYPE, NEGATIVES = 1, 200_000
POSITIVE_TYPE, POSITIVES = 4, 2_000

QUANTITIES, WILDERNESS_AREAS, SOIL_TYPES = 10, 4, 40
COVER_TYPE = QUANTITIES + WILDERNESS_AREAS + SOIL_TYPES

LOWEST = (1859, 0, 0, 0, -173, 0, 0, 0, 0, 0)
"""The smallest values of the ten quantities over all 581,012 rows."""

HIGHEST = (3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173)
"""The largest values of the same columns."""

SEED_NAMES = ("datasets", "forest", "1-4")
"""Names of the random numbers that choose and order the rows (`chosen`). In the publisher's order most rows of type 4
come first."""


def chosen(types: NDArray[np.int16]) -> NDArray[np.int64]:
    """Return row numbers: each type is shuffled by `SEED_NAMES` and cut, then all are shuffled together."""
    positions = []
    for cover_type, count in ((NEGATIVE_TYPE, NEGATIVES), (POSITIVE_TYPE, POSITIVES)):
        found = np.flatnonzero(types == cover_type)
        positions.append(found[Draws(*SEED_NAMES, cover_type).shuffled(len(found))[:count]])
    together = np.concatenate(positions)
    return together[Draws(*SEED_NAMES, "order").shuffled(len(together))]


def select(contents: Sequence[bytes]) -> Rows:
    """Return the chosen rows: ten quantities, wilderness area, soil type, class; int16 `[202000, 13]`."""
    table = np.loadtxt(io.BytesIO(contents[0]), delimiter=",", dtype=np.int16)
    rows = table[chosen(table[:, COVER_TYPE])]
    area = rows[:, QUANTITIES : QUANTITIES + WILDERNESS_AREAS].argmax(axis=1)
    soil = rows[:, QUANTITIES + WILDERNESS_AREAS : COVER_TYPE].argmax(axis=1)
    positive = rows[:, COVER_TYPE] == POSITIVE_TYPE
    return np.column_stack([rows[:, :QUANTITIES], area, soil, positive]).astype(np.int16)


def prepare(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Scale quantities from their range to [0, 1]; encode area and soil type as 4 and 40 one-hot features."""
    features = np.zeros((len(rows), COVER_TYPE), np.float32)
    features[:, :QUANTITIES] = scaled(rows[:, :QUANTITIES].astype(np.float64), LOWEST, HIGHEST)
    every = np.arange(len(rows))
    features[every, QUANTITIES + rows[:, QUANTITIES]] = 1.0
    features[every, QUANTITIES + WILDERNESS_AREAS + rows[:, QUANTITIES + 1]] = 1.0
    return features, rows[:, QUANTITIES + 2].astype(np.int8)


def cut(contents: Sequence[bytes]) -> bytes:
    """Return all rows as an array file, column by column."""
    return array_bytes(select(contents).astype("<i2").T)


def restore(content: bytes) -> Rows:
    """Return the rows of the array file."""
    return np.ascontiguousarray(read_array(content).T)


RECIPE = Recipe(
    name="forest",
    title="Forest Cover Type, UCI 31: type 1 against type 4",
    files=(
        PublishedFile(
            folder="covertype",
            name="covtype.data",
            sha256="0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
            urls=(
                "https://archive.ics.uci.edu/static/public/31/covertype.zip",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
            ),
        ),
    ),
    shipped=ShippedFile(
        name="forest-1-4.npy.xz",
        sha256="2b902a6ed6434a24f39a5d99e1a2692f41d950e997f1338cedc137bf650917f6",
        content_sha256="429b7501e401636046295e2c624f796a3380d36da56753bdacb6ada38ac95359",
    ),
    select=select,
    prepare=prepare,
    cut=cut,
    restore=restore,
    packing=(2, 1, 1),
    preprocessing=(
        "54 features: ten quantities, each from [smallest, largest] of the publisher's whole set to [0, 1];"
        " 4 wilderness areas and 40 soil types as published (0 or 1)."
    ),
    learning_rate=0.01,
)
