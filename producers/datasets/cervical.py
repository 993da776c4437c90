"""Cervical Cancer (Risk Factors): 858 patients of a hospital in Caracas; the class is the outcome of the biopsy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import Recipe, Rows, first_content, scaled
from stream_app.producers.datasets.files import PublishedFile, ShippedFile

BIOPSY = 35

LOWEST = (13, 1, 10, *(0,) * 23, 1, 1, *(0,) * 7)
"""The smallest known values of the 32 risk factors and the three examinations, over all 858 rows."""

HIGHEST = (84, 28, 32, 11, 1, 37, 37, 1, 30, 1, 19, 1, 4, 1, 0, *(1,) * 6, 0, *(1,) * 3, 3, 22, 22, *(1,) * 7)
"""The largest known values of the same columns."""

MEDIANS = (25, 2, 17, 2, 0, 0, 0, 1, 0.5, *(0,) * 17, 4, 3, *(0,) * 7)
"""The medians of the known values of the same columns."""

QUESTIONS = (1, 2, 3, 4, 7, 9, 11, 26)
"""One column of each group of questions that patients answer together or not at all: partners, first intercourse,
pregnancies, smoking, contraceptives, IUD, STDs, time since a diagnosis."""

PREPROCESSING = (
    "43 features. The 32 risk factors and the three examinations that come before a biopsy (Hinselmann, Schiller,"
    " Citology): '?' is the column's median, then [smallest, largest] becomes [0, 1]. Then 8 that are 1 where the"
    " patient gave no answer: partners, first intercourse, pregnancies, smoking, contraceptives, IUD, STDs, time since"
    " a diagnosis."
    " (The paper counts 45 features and does not say which; without the examinations its G-mean is out of reach.)"
)


def parse(content: bytes) -> NDArray[np.float64]:
    """Return the table, float64 `[858, 36]`; NaN: the patient gave no answer."""
    lines = content.decode("ascii").splitlines()[1:]
    return np.array([[np.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in lines])


def select(contents: Sequence[bytes]) -> Rows:
    """Return all rows in the publisher's order."""
    return parse(contents[0])


def prepare(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return features and classes as `PREPROCESSING` describes."""
    inputs = rows[:, :BIOPSY]
    unknown = np.isnan(inputs)
    filled = np.where(unknown, np.asarray(MEDIANS, np.float64), inputs)
    features = np.hstack([scaled(filled, LOWEST, HIGHEST), unknown[:, QUESTIONS]])
    return features.astype(np.float32), rows[:, BIOPSY].astype(np.int8)


RECIPE = Recipe(
    name="cervical",
    title="Cervical Cancer (Risk Factors), UCI 383: outcome of a biopsy",
    files=(
        PublishedFile(
            folder="cervical",
            name="risk_factors_cervical_cancer.csv",
            sha256="8df193ad5c9ff4288fb4c401eef70dcd2cbda404ce7f82ac74c68cfc960ab063",
            urls=(
                "https://archive.ics.uci.edu/static/public/383/cervical+cancer+risk+factors.zip",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00383/risk_factors_cervical_cancer.csv",
            ),
        ),
    ),
    shipped=ShippedFile(
        name="cervical.csv.xz",
        sha256="9cf5a141cb60af5a75a46626031039c5cb88a7efb4e6eed38cb23347cd31086b",
        content_sha256="8df193ad5c9ff4288fb4c401eef70dcd2cbda404ce7f82ac74c68cfc960ab063",
    ),
    select=select,
    prepare=prepare,
    cut=first_content,
    restore=parse,
    packing=(3, 0, 0),
    preprocessing=PREPROCESSING,
    learning_rate=0.1,
)
