"""What lies before compiled code: the operations with their inputs and answers, and the online scaler."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.lanes import Address, address
from stream_app.native import compiled
from stream_app.records import Bytes, Floats, Integers, Longs, Words


class Scaler(NamedTuple):
    """Running moments of each feature (Welford 1962), float64; without `active` all is left as it is.

    Attributes:
        active: Whether features are scaled.
        examples: float64 `[1]`, how many were seen.
        mean: float64 `[d]`.
        squares: float64 `[d]`, the sums of squared distances from the mean.
    """

    active: bool
    examples: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]


class Batch(NamedTuple):
    """Operations, inputs and room for the answers. `raw` and `seen` are flat, `width` numbers a slot.

    `seen` holds the features as the network saw them at prediction; without a scaler it is `raw` itself.
    """

    codes: Bytes
    slots: Integers
    labels: NDArray[np.int8]
    width: int
    raw: Floats
    seen: Floats
    ids: Words
    scores: Floats
    classes: NDArray[np.int8]
    versions: Longs
    reports: NDArray[np.float64]


class Desk(NamedTuple):
    """A `Batch` and a `Scaler` opened inside compiled code: addresses of their arrays."""

    width: int
    labels: Address
    slots: Address
    raw: Address
    seen: Address
    ids: Address
    active: bool
    examples: Address
    mean: Address
    squares: Address


@compiled
def opened(batch: Batch, scaler: Scaler) -> Desk:
    """The batch's memory; the caller holds the arrays while the result is in use."""
    return Desk(
        batch.width,
        address(batch.labels),
        address(batch.slots),
        address(batch.raw),
        address(batch.seen),
        address(batch.ids),
        scaler.active,
        address(scaler.examples),
        address(scaler.mean),
        address(scaler.squares),
    )


@compiled
def see(desk: Desk, slot: int) -> None:
    """Let the scaler learn the features of a slot, then scale them: (x - mean) / deviation, 0 where that is 0."""
    if not desk.active:
        return
    desk.examples[0] += 1.0
    start = slot * desk.width
    for i in range(desk.width):
        x = np.float64(desk.raw[start + i])
        distance = x - desk.mean[i]
        desk.mean[i] += distance / desk.examples[0]
        desk.squares[i] += distance * (x - desk.mean[i])
        variance = desk.squares[i] / desk.examples[0]
        scaled = (x - desk.mean[i]) / np.sqrt(variance) if variance > 0.0 else 0.0
        desk.seen[start + i] = np.float32(scaled)


@compiled
def see_slot(batch: Batch, scaler: Scaler, slot: int) -> None:
    """`see`, called from outside compiled code."""
    see(opened(batch, scaler), slot)
