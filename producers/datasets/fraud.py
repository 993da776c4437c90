"""Credit Card Fraud Detection: payments of two days in September 2013; class 1 is fraud. `Time` is a feature here."""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import Recipe, Rows
from stream_app.producers.datasets.files import PublishedFile, ShippedFile, array_bytes, read_array

SHIPPED_ROWS = 125_000
"""The longest prefix, in thousands, that packs into 12,000,000 bytes, so that all shipped files take 15 MB."""

FEATURES = 30
TIME, AMOUNT = 0, 29

TIME_MEAN_S, TIME_DEVIATION_S = 94_813.85957508067, 47_488.062585499334
AMOUNT_MEAN, AMOUNT_DEVIATION = 88.34961925093134, 250.1196701352354
"""Values over all 284,807 rows (population deviation). V1 to V28 are principal components, so their mean is 0."""


def select(contents: Sequence[bytes]) -> Rows:
    """Return all rows in the publisher's order: Time, V1..V28, Amount, Class; float32 `[284807, 31]`."""
    _, _, body = contents[0].partition(b"\n")
    return np.loadtxt(io.BytesIO(body.replace(b'"', b"")), delimiter=",").astype(np.float32)


def prepare(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Standardise Time and Amount: subtract the mean, divide by the deviation."""
    features = np.ascontiguousarray(rows[:, :FEATURES], np.float32)
    for column, mean, deviation in ((TIME, TIME_MEAN_S, TIME_DEVIATION_S), (AMOUNT, AMOUNT_MEAN, AMOUNT_DEVIATION)):
        features[:, column] = (rows[:, column].astype(np.float64) - mean) / deviation
    return features, rows[:, FEATURES].astype(np.int8)


def cut(contents: Sequence[bytes]) -> bytes:
    """Return the first rows as an array file, column by column."""
    return array_bytes(select(contents)[:SHIPPED_ROWS].astype("<f4").T)


def restore(content: bytes) -> Rows:
    """Return the rows of the array file."""
    return np.ascontiguousarray(read_array(content).T)


RECIPE = Recipe(
    name="fraud",
    title="Credit Card Fraud Detection (ULB and Worldline)",
    files=(
        PublishedFile(
            folder="fraud",
            name="creditcard.csv",
            sha256="76274b691b16a6c49d3f159c883398e03ccd6d1ee12d9d8ee38f4b4b98551a89",
            urls=(
                "https://zenodo.org/records/7395559/files/creditcard.csv?download=1",
                "https://storage.googleapis.com/download.tensorflow.org/data/creditcard.csv",
            ),
        ),
    ),
    shipped=ShippedFile(
        name="fraud.npy.xz",
        sha256="b9d6c2e58cf6e65d9f2176f397ca50c78e3ae8bc0dca05ad83a98e46a4c090a2",
        content_sha256="0f50c12e7f01c649e069e95381eafbd7be809062e3c0399934b1a450de044e66",
    ),
    select=select,
    prepare=prepare,
    cut=cut,
    restore=restore,
    packing=(2, 2, 2),
    preprocessing=(
        "30 features: V1 to V28 as published; Time and Amount less their mean (94813.8596, 88.3496), divided by their"
        " standard deviation (47488.0626, 250.1197), over the publisher's whole set."
    ),
    learning_rate=0.0001,
)
