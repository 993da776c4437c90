"""The shipped data sets against the publishers' own files, which only some machines have: `make recut`."""

import hashlib
import os
from pathlib import Path

import pytest

from stream_app.producers.datasets import RECIPES
from stream_app.producers.datasets.files import DATA_DIR_VARIABLE

FRAUD = (284_807, 492)
"""Transactions and frauds of the complete set."""


@pytest.mark.parametrize("name", RECIPES)
def test_the_shipped_files_are_cut_from_the_publishers(name: str) -> None:
    """The stated rule gives the shipped content, bit for bit, and both load to the same features."""
    folder = os.environ.get(DATA_DIR_VARIABLE)
    assert folder, f"{DATA_DIR_VARIABLE} is not set"
    recipe = RECIPES[name]
    contents = [file.read(Path(folder)) for file in recipe.files]
    assert hashlib.sha256(recipe.cut(contents)).hexdigest() == recipe.shipped.content_sha256
    shipped = recipe.load(None)
    features, labels = recipe.prepare(recipe.select(contents))
    assert (features[: len(shipped)] == shipped.features).all()
    assert (labels[: len(shipped)] == shipped.labels).all()
    assert (len(labels), int(labels.sum())) == (FRAUD if name == "fraud" else (len(shipped), int(shipped.labels.sum())))
