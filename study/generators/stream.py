"""A stream from a generator: the class of each example is drawn first, then the generator's next example of the class.

Concept drift is that of MOA's `ConceptDriftStream`: an example at step t comes from the concept after the change at
step p with the probability 1 / (1 + exp(-4 (t - p) / width)).
"""

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.draws import Draws

FIRST_CANDIDATES = 4_096
MAX_CANDIDATES = 1 << 24
"""A concept with so many candidates and too few of one class has almost no example of this class."""

MAX_EXPONENT = 500.0
"""Keeps exp() finite; the probability is 0 or 1 long before."""

Doubles = NDArray[np.float64]
Share: TypeAlias = float | Doubles
"""p(y=1) of all examples, or of each."""
Booleans = NDArray[np.bool_]


class Make(Protocol):
    """A generator."""

    def __call__(self, concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
        """Return the first `count` candidates of a concept: features float64 `[count, d]` and classes `[count]`.

        Args:
            concept: The number of the function, or the seed of the random model.
            names: The names of the random numbers.
            count: The number of candidates; a larger number only adds candidates.
        """


def standard_normal(one: Doubles, two: Doubles) -> Doubles:
    """Return a normal number of each pair of uniform ones (Box and Muller 1958)."""
    normal: Doubles = np.sqrt(-2.0 * np.log1p(-one)) * np.cos(2.0 * np.pi * two)
    return normal


def concepts_at(length: int, count: int, width: float, draws: Draws) -> NDArray[np.int64]:
    """Return the place of the concept of each example, int64 `[length]`; changes are at equal distances."""
    steps = np.arange(length)[:, None]
    changes = np.arange(1, count) * length // count
    exponents = np.clip(-4.0 * (steps - changes) / width, -MAX_EXPONENT, MAX_EXPONENT)
    words = draws.uniforms(0, length * max(1, count - 1)).reshape(length, -1)[:, : count - 1]
    changed = words < 1.0 / (1.0 + np.exp(exponents))
    places: NDArray[np.int64] = np.logical_and.accumulate(changed, axis=1).sum(axis=1)
    return places


def balanced(
    name: str, make: Make, length: int, share: Share, seed: int, *, concepts: tuple[int, ...], width: float
) -> DataSet:
    """Return a stream.

    Args:
        name: Its name.
        make: The generator.
        length: The number of examples.
        share: p(y=1), of all examples or of each, float64 `[length]`.
        seed: The seed of everything random but the models of `concepts`.
        concepts: The concepts, in their order.
        width: The number of examples over which one concept replaces the next.

    Raises:
        DataSetError: A concept has almost no example of a class.
    """
    labels = Draws("study", name, seed, "class").uniforms(0, length) < share
    places = concepts_at(length, len(concepts), width, Draws("study", name, seed, "concept"))
    features = None
    for place, concept in enumerate(concepts):
        rows = np.flatnonzero(places == place)
        found = _of_classes(name, make, concept, (name, seed, place), labels[rows])
        if features is None:
            features = np.empty((length, found.shape[1]))
        features[rows] = found
    if features is None:
        raise DataSetError(f"{name}: needs a concept")
    return DataSet(
        name=name,
        features=features.astype(np.float32),
        labels=labels.astype(np.int8),
        clean_labels=None,
        preprocessing="Numeric features divided by their largest value, nominal ones one feature for each value.",
        source="synthetic",
        learning_rate=0.01,
    )


def _of_classes(name: str, make: Make, concept: int, names: tuple[str | int, ...], labels: Booleans) -> Doubles:
    """Return for each label the concept's next candidate of this class, float64 `[n, d]`."""
    count = FIRST_CANDIDATES
    while True:
        features, classes = make(concept, names, count)
        if all((classes == label).sum() >= (labels == label).sum() for label in (False, True)):
            break
        count *= 2
        if count > MAX_CANDIDATES:
            raise DataSetError(f"{name}: concept {concept} has too few examples of a class")
    chosen = np.empty(len(labels), np.int64)
    for label in (False, True):
        own = labels == label
        chosen[own] = np.flatnonzero(classes == label)[: own.sum()]
    result: Doubles = features[chosen]
    return result
