"""MNIST: 6,000 images of the digit 7 (class 0) against 60 of the digit 2 (class 1), from the training set."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers.datasets.base import Recipe, Rows
from stream_app.producers.datasets.files import PublishedFile, ShippedFile, array_bytes, read_array
from stream_app.producers.draws import Draws

NEGATIVE_DIGIT, NEGATIVES = 7, 6_000
POSITIVE_DIGIT, POSITIVES = 2, 60

IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049
"""The first number of an IDX file: unsigned bytes in three dimensions, and in one."""

PIXELS = 784
BRIGHTEST = 255

SEED_NAMES = ("datasets", "mnist", "7-2")
"""Names of the random numbers that choose and order the images (`chosen`)."""


def chosen(labels: NDArray[np.uint8], seed_names: Sequence[str | int] = SEED_NAMES) -> NDArray[np.int64]:
    """Return positions in the training set: each digit is shuffled by `seed_names` and cut, then all together."""
    positions = []
    for digit, count in ((NEGATIVE_DIGIT, NEGATIVES), (POSITIVE_DIGIT, POSITIVES)):
        found = np.flatnonzero(labels == digit)
        positions.append(found[Draws(*seed_names, digit).shuffled(len(found))[:count]])
    together = np.concatenate(positions)
    return together[Draws(*seed_names, "order").shuffled(len(together))]


def select(contents: Sequence[bytes], seed_names: Sequence[str | int] = SEED_NAMES) -> Rows:
    """Return the images that `seed_names` choose: class, then pixels, uint8 `[6060, 785]`."""
    images, labels = contents
    if int.from_bytes(images[:4], "big") != IMAGES_MAGIC or int.from_bytes(labels[:4], "big") != LABELS_MAGIC:
        raise DataSetError("mnist: not the IDX files of images and labels")
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, PIXELS)
    digits = np.frombuffer(labels, np.uint8, offset=8)
    rows = chosen(digits, seed_names)
    return np.hstack([(digits[rows] == POSITIVE_DIGIT).astype(np.uint8)[:, None], pixels[rows]])


def prepare(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Scale pixels from [0, 255] to [0, 1]."""
    return (rows[:, 1:] / np.float64(BRIGHTEST)).astype(np.float32), rows[:, 0].astype(np.int8)


def cut(contents: Sequence[bytes]) -> bytes:
    """Return all rows as an array file."""
    return array_bytes(select(contents))


def restore(content: bytes) -> Rows:
    """Return the rows of the array file."""
    return read_array(content)


MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
"""The mirrors that PyTorch and TensorFlow use; the authors' page refuses programs."""

RECIPE = Recipe(
    name="mnist",
    title="MNIST: digit 7 against digit 2",
    files=(
        PublishedFile(
            folder="mnist",
            name="train-images-idx3-ubyte",
            sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            urls=tuple(f"{mirror}/train-images-idx3-ubyte.gz" for mirror in MIRRORS),
        ),
        PublishedFile(
            folder="mnist",
            name="train-labels-idx1-ubyte",
            sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            urls=tuple(f"{mirror}/train-labels-idx1-ubyte.gz" for mirror in MIRRORS),
        ),
    ),
    shipped=ShippedFile(
        name="mnist-7-2.npy.xz",
        sha256="9a1a0e3e4251ae736f12ba93f6e688fcc5f005e02dd944fed41ffc11d8a3bf4d",
        content_sha256="d90ac684aeebf9746784248d0858db96d10e7bd3fec7ff68f50969a7bb5e47ed",
    ),
    select=select,
    prepare=prepare,
    cut=cut,
    restore=restore,
    packing=(3, 0, 0),
    preprocessing="784 pixels, each divided by 255.",
    learning_rate=0.001,
    hidden=(512, 512),
    l2=0.01,
)
