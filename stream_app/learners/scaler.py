"""The online scaler, and the buffers that a call of the compiled loop reads operations from and writes answers to."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Integers, Longs, Words
from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.jit.tables import ArrayMark, new_table, view_of
from stream_app.learners.moments import factor_of, new_moments, take_into_moments, within_limit
from stream_app.learners.networks.activations import LARGEST


class OperationBuffers(NamedTuple):
    """m operations of one learner, the examples, and room for the answers.

    Attributes:
        codes: uint8 `[m]`, see `api.Operations`.
        slots: int32 `[m]`.
        labels: int8 `[m]`.
        features: float32 `[slots, d]`.
        ids: uint64 `[slots, ID_WORDS]`.
        scores: float32 `[m]`, see `api.Answers`.
        classes: int8 `[m]`.
        versions: int64 `[m]`.
        reports: float64 `[reports, REPORT_WIDTH]`, zeros.
        kept_scores: float32 `[slots]`, the P(class 1) that was predicted for the example of each slot.
        kept_classes: int8 `[slots]`, the class that was predicted for it.
    """

    codes: Bytes
    slots: Integers
    labels: NDArray[np.int8]
    features: Floats
    ids: Words
    scores: Floats
    classes: NDArray[np.int8]
    versions: Longs
    reports: NDArray[np.float64]
    kept_scores: Floats
    kept_classes: NDArray[np.int8]


buffers_of = view_of(OperationBuffers)
"""`buffers_of(descriptor)`: the buffers of a call, for compiled code."""


class Scaler(NamedTuple):
    """The moments of each feature; if not `active`, features are used as they come, within `LARGEST`.

    Attributes:
        active: Whether features are scaled.
        width: d, the number of features.
        moments: float64 `[4 * d]`, see `learners.moments`; empty if not active.
        slots: int64 `[1]`, rows of `seen`, or of `arrivals`, that were ever filled.
        seen: float32 `[slots * d]`, the features of each slot as they were scaled when its example was predicted.
        tracks: Whether `arrivals` are kept, for a method that moves kept examples along the trends of their features.
        arrivals: int64 `[slots]`, how many examples had been predicted before the example of each slot was.
        limited: int64 `[1]`, without scaling: the predicted examples with a feature beyond `LARGEST`.
        row: float32 `[d]`: without scaling, the example at hand, as it enters the networks.
    """

    active: bool
    width: int
    moments: NDArray[np.float64]
    slots: Longs
    seen: Annotated[Floats, ArrayMark.SELDOM]
    tracks: bool
    arrivals: Annotated[Longs, ArrayMark.SELDOM]
    limited: Longs
    row: Annotated[Floats, ArrayMark.SHARED]

    @property
    def source(self) -> Floats:
        """What networks read an example from, where `enter` says."""
        return self.seen if self.active else self.row


def new_scaler(features: int, *, active: bool, tracks: bool) -> Scaler:
    """Return a new scaler; `seen` and `arrivals` have no slots yet."""
    return new_table(
        Scaler,
        active=active,
        width=features,
        moments=new_moments(features if active else 0),
        slots=1,
        seen=0,
        tracks=tracks,
        arrivals=0,
        limited=1,
        row=features,
    )


class ScaledInputs(NamedTuple):
    """The examples of a call in compiled code, and the scaler through which they enter the networks.

    A network never reads `raw`, the features as they came; it reads an example from `source`, where `enter` says.
    """

    scaler: Scaler
    raw: Pointer
    ids: Pointer
    source: Pointer


@compiled
def enter(inputs: ScaledInputs, slot: int) -> int:
    """Let the example of a slot, which was scaled before, enter the network; return where it begins in `source`."""
    width = inputs.scaler.width
    start = slot * width
    if inputs.scaler.active:
        return start
    for i in range(width):
        inputs.source[i] = min(max(inputs.raw[start + i], -LARGEST), LARGEST)
    return 0


@compiled
def scale(inputs: ScaledInputs, slot: int) -> int:
    """Scale the example of a slot, which is to be predicted, by moments that include it; return what `enter` does."""
    scaler = inputs.scaler
    start, width = slot * scaler.width, scaler.width
    if not scaler.active:
        is_limited = False
        for i in range(width):
            is_limited |= abs(inputs.raw[start + i]) > LARGEST
        scaler.limited[0] += is_limited
        return enter(inputs, slot)
    scaler.slots[0] = max(scaler.slots[0], slot + 1)
    take_into_moments(scaler.moments, width, inputs.raw, start)
    for i in range(width):
        distance = np.float64(inputs.raw[start + i]) - scaler.moments[width + i]
        inputs.source[start + i] = np.float32(within_limit(distance * factor_of(scaler.moments, width, i)))
    return start


@compiled
def remember_arrival(inputs: ScaledInputs, slot: int, predicted: int) -> None:
    """Note that so many examples had been predicted before the example of a slot was."""
    inputs.scaler.slots[0] = max(inputs.scaler.slots[0], slot + 1)
    inputs.scaler.arrivals[slot] = predicted
