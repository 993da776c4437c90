"""The memory of dense networks of one shape.

Most methods have one network; an ensemble has several, whose arrays follow one another. The networks never meet:
what one network does has the same bits alone and in an ensemble.

A network has layers of `widths` = inputs, hidden units..., 1. Its parameters are one flat float32 array: for each layer
the weights, inputs by units, then the biases.
"""

from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.jit.compiler import inlined
from stream_app.jit.memory import offset_pointer
from stream_app.jit.tables import ArrayMark

ZERO: Any = np.int64(0)
ONE: Any = np.int64(1)
"""int64 constants: Numba compiles a function again for each literal integer that it is given, but not for these."""

ZERO_F32, ONE_F32 = np.float32(0), np.float32(1)

WIDTH = 8
"""Units of the paper's hidden layer, and float32 numbers of a `Float32x8`."""

WIDE = 16
"""Float32 numbers of a `Float32x16`, in wide layers."""

BLOCK = 4
"""Inputs of a wide layer that are worked on together, so that a sum or an error is loaded once for four weights."""

CHUNK = 128
"""Units of a wide layer whose sums are computed together; for 20 examples they fill two thirds of a level-1 cache."""


class DenseNetworks(NamedTuple):
    """Dense networks of one shape; n of them, each with p parameters.

    Functions for one network work on the first one; `members_of` returns the networks that begin with the n-th.

    Attributes:
        networks: n.
        elements: p.
        inputs: Numbers in an example.
        layers: Layers of units; 0: networks of another kind, of which only the memory is known.
        eight: Whether there is one hidden layer of 8 units.
        widths: int64 `[layers + 1]`: inputs, hidden units..., 1.
        parameters: float32 `[n * p]`, by network and layer: weights (inputs by units, C order), biases.
        first: float32 `[n * p]`, Adam's moving mean of the gradients.
        second: float32 `[n * p]`, Adam's moving mean of their squares.
        powers: float64 `[n * 2]`, the running products beta1**t and beta2**t.
        rates: float64 `[2]`, the learning rate and the L2 factor.
        updates: int64 `[n]`, steps taken.
        start: int64 `[1]`: where the example to predict begins.
        places: int64: where a layer's inputs begin, or which networks are at work.
        work: float32 `[work_elements]`, see `work_size`: activations and errors.
        work_elements: Elements of `work`.
        sums: float64, `CHUNK` elements an example.
    """

    networks: int
    elements: int
    inputs: int
    layers: int
    eight: bool
    widths: Longs
    parameters: Floats
    first: Floats
    second: Floats
    powers: NDArray[np.float64]
    rates: NDArray[np.float64]
    updates: Longs
    start: Annotated[Longs, ArrayMark.SHARED]
    places: Annotated[Longs, ArrayMark.SHARED]
    work: Annotated[Floats, ArrayMark.SHARED]
    work_elements: int
    sums: Annotated[NDArray[np.float64], ArrayMark.SHARED]


@inlined
def members_of(networks: DenseNetworks, number: int, count: int) -> DenseNetworks:
    """Return `count` of the networks, from the one with this number on."""
    before = number * networks.elements
    return DenseNetworks(
        count,
        networks.elements,
        networks.inputs,
        networks.layers,
        networks.eight,
        networks.widths,
        offset_pointer(networks.parameters, before),
        offset_pointer(networks.first, before),
        offset_pointer(networks.second, before),
        offset_pointer(networks.powers, 2 * number),
        networks.rates,
        offset_pointer(networks.updates, number),
        networks.start,
        networks.places,
        networks.work,
        networks.work_elements,
        networks.sums,
    )


@inlined
def member_of(networks: DenseNetworks, number: int) -> DenseNetworks:
    """Return one of the networks, given its number."""
    return members_of(networks, number, ONE)


def parameter_count(widths: tuple[int, ...]) -> int:
    """Return the number of weights and biases of a network of these widths."""
    return sum((inputs + 1) * units for inputs, units in pairwise(widths))


def padded(count: int) -> int:
    """Return the next multiple of `WIDTH`."""
    return -(-count // WIDTH) * WIDTH


def work_size(widths: tuple[int, ...], examples: int) -> int:
    """Return the elements of `work` for a step on this many examples: activations, errors, and one input of each.

    An ensemble learns one example in each of its networks at once, which takes as many elements.
    """
    return padded(examples) * (
        2 * sum(1 if units == 1 else -(-units // WIDE) * WIDE + WIDE for units in widths[1:]) + 1
    )
