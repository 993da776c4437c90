"""Published data sets by name: `load("fraud")`."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from stream_app.errors import DataSetError
from stream_app.producers.datasets.base import DataSet, Recipe
from stream_app.producers.datasets.cervical import RECIPE as CERVICAL
from stream_app.producers.datasets.credit import RECIPE as CREDIT
from stream_app.producers.datasets.files import data_dir_from_environment
from stream_app.producers.datasets.forest import RECIPE as FOREST
from stream_app.producers.datasets.fraud import RECIPE as FRAUD
from stream_app.producers.datasets.mnist import RECIPE as MNIST

__all__ = ["RECIPES", "DataSet", "Recipe", "find", "load"]

RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in (CERVICAL, CREDIT, MNIST, FOREST, FRAUD)}


def find(name: str, others: tuple[str, ...] = ()) -> Recipe:
    """Return the recipe of this name.

    Args:
        name: The name of a data set.
        others: Further names that the message of the error may suggest.

    Raises:
        DataSetError: No recipe has this name; the message suggests the nearest name.
    """
    if name in RECIPES:
        return RECIPES[name]
    known = (*RECIPES, *others)
    near = difflib.get_close_matches(name, known, n=1)
    raise DataSetError(
        f"{name}: no such data set; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}")
    )


def load(name: str, data_dir: Path | None = None) -> DataSet:
    """Load the data set of this name.

    Args:
        name: One of `RECIPES`.
        data_dir: The folder with the publishers' files; None: `AREBA_DATA_DIR`, or else the shipped file.

    Raises:
        DataSetError: The name is unknown, or a file is missing, damaged, or has another checksum.
    """
    return find(name).load(data_dir or data_dir_from_environment())
