"""The memory of dense networks of one shape: `DenseNetworks` for Python, `DenseNetworksView` for compiled code.

Most methods have one network; an ensemble has several, whose arrays follow one another. The networks never meet:
what one network does has the same bits alone and in an ensemble.

A network has layers of `widths` = inputs, hidden units..., 1. Its parameters are one flat float32 array: for each layer
the weights, inputs by units, then the biases.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Field, Pointer, doubles_at, floats_at, longs_at, offset_pointer
from stream_app.records import Floats, Longs

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

    Attributes:
        widths: int64 `[layers + 1]`: inputs, hidden units..., 1.
        parameters: float32 `[n * p]`, by network and layer: weights (inputs by units, C order), biases.
        first: float32 `[n * p]`, Adam's moving mean of the gradients.
        second: float32 `[n * p]`, Adam's moving mean of their squares.
        powers: float64 `[n * 2]`, the running products beta1**t and beta2**t.
        rates: float64 `[2]`, the learning rate and the L2 factor.
        updates: int64 `[n]`, steps taken.
        start: int64 `[1]`, shared buffer: where the example to predict begins.
        places: int64, shared buffer: where a layer's inputs begin, or which networks are at work.
        work: float32, shared buffer of `work_size` elements: activations and errors.
        sums: float64, shared buffer, `CHUNK` elements an example.
    """

    widths: Longs
    parameters: Floats
    first: Floats
    second: Floats
    powers: NDArray[np.float64]
    rates: NDArray[np.float64]
    updates: Longs
    start: Longs
    places: Longs
    work: Floats
    sums: NDArray[np.float64]


SHARED = ("start", "places", "work", "sums")
"""The arrays that carry nothing from one operation to the next, so that all networks share them."""


class DenseNetworksView(NamedTuple):
    """`DenseNetworks` in compiled code: a pointer in place of each array, and the numbers that never change.

    Functions for one network work on the first one of a view; `member_of` makes the view that begins with the n-th.
    """

    networks: int
    elements: int
    inputs: int
    layers: int
    eight: bool
    widths: Pointer
    parameters: Pointer
    first: Pointer
    second: Pointer
    powers: Pointer
    rates: Pointer
    updates: Pointer
    start: Pointer
    places: Pointer
    work: Pointer
    work_elements: int
    sums: Pointer


NETWORKS_FIELDS = len(DenseNetworksView._fields)


def networks_fields(networks: DenseNetworks) -> Sequence[Field]:
    """Return the fields of a descriptor from which `view_of_networks` makes the view, in its order."""
    count, widths = len(networks.updates), networks.widths
    return DenseNetworksView(
        networks=count,
        elements=len(networks.parameters) // count,
        inputs=int(widths[0]),
        layers=len(widths) - 1,
        eight=len(widths) == 3 and int(widths[1]) == WIDTH,
        widths=widths,
        parameters=networks.parameters,
        first=networks.first,
        second=networks.second,
        powers=networks.powers,
        rates=networks.rates,
        updates=networks.updates,
        start=networks.start,
        places=networks.places,
        work=networks.work,
        work_elements=len(networks.work),
        sums=networks.sums,
    )


@compiled
def view_of_networks(descriptor: Pointer) -> DenseNetworksView:
    """Return the view of the networks whose fields begin here; their owner holds the arrays while it is in use."""
    return DenseNetworksView(
        descriptor[0],
        descriptor[1],
        descriptor[2],
        descriptor[3],
        descriptor[4] != 0,
        longs_at(descriptor[5]),
        floats_at(descriptor[6]),
        floats_at(descriptor[7]),
        floats_at(descriptor[8]),
        doubles_at(descriptor[9]),
        doubles_at(descriptor[10]),
        longs_at(descriptor[11]),
        longs_at(descriptor[12]),
        longs_at(descriptor[13]),
        floats_at(descriptor[14]),
        descriptor[15],
        doubles_at(descriptor[16]),
    )


@compiled
def member_of(networks: DenseNetworksView, number: int) -> DenseNetworksView:
    """Return the view of one network, given its number."""
    before = number * networks.elements
    return DenseNetworksView(
        ONE,
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
