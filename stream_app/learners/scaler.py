"""The online scaler, and the buffers that a call of the compiled loop reads operations from and writes answers to."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer, bytes_at, classes_at, doubles_at, floats_at, integers_at, longs_at, words_at
from stream_app.records import Floats, Longs


class OperationBuffers(NamedTuple):
    """Pointers to m operations of one learner, to the examples, and to room for the answers.

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

    codes: Pointer
    slots: Pointer
    labels: Pointer
    features: Pointer
    ids: Pointer
    scores: Pointer
    classes: Pointer
    versions: Pointer
    reports: Pointer
    kept_scores: Pointer
    kept_classes: Pointer


@compiled
def buffers_at(descriptor: Pointer) -> OperationBuffers:
    """Return the buffers whose addresses, in the order of the fields, begin here."""
    return OperationBuffers(
        bytes_at(descriptor[0]),
        integers_at(descriptor[1]),
        classes_at(descriptor[2]),
        floats_at(descriptor[3]),
        words_at(descriptor[4]),
        floats_at(descriptor[5]),
        classes_at(descriptor[6]),
        longs_at(descriptor[7]),
        doubles_at(descriptor[8]),
        floats_at(descriptor[9]),
        classes_at(descriptor[10]),
    )


class Scaler(NamedTuple):
    """Running moments of each feature (Welford 1962); if not `active`, features are used as they come.

    Attributes:
        active: Whether features are scaled.
        width: d, the number of features.
        examples: float64 `[1]`, the number of examples so far.
        mean: float64 `[d]`.
        squares: float64 `[d]`, the sums of squared distances from the mean.
        slots: int64 `[1]`, rows of `seen` that were ever filled.
        seen: float32 `[slots * d]`, the features of each slot as they were scaled when its example was predicted.
    """

    active: bool
    width: int
    examples: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    slots: Longs
    seen: Floats


SCALER_FIELDS = len(Scaler._fields)


def scaler_of(features: int, *, active: bool) -> Scaler:
    """Return a new scaler; `seen` has no slots yet."""
    return Scaler(
        active=active,
        width=features,
        examples=np.zeros(1),
        mean=np.zeros(features),
        squares=np.zeros(features),
        slots=np.zeros(1, np.int64),
        seen=np.zeros(0, np.float32),
    )


class ScalerView(NamedTuple):
    """A `Scaler` in compiled code, with the examples that it scales.

    Without scaling, `seen` is `raw`: a learner always reads its examples from `seen`.
    """

    width: int
    raw: Pointer
    seen: Pointer
    ids: Pointer
    active: bool
    examples: Pointer
    mean: Pointer
    squares: Pointer
    used: Pointer


@compiled
def view_of_scaler(descriptor: Pointer, buffers: OperationBuffers) -> ScalerView:
    """Return the view of a learner's scaler, whose fields are the first of the learner's descriptor.

    The caller must hold all arrays while the view is in use.
    """
    active = descriptor[0] != 0
    return ScalerView(
        descriptor[1],
        buffers.features,
        floats_at(descriptor[6]) if active else buffers.features,
        buffers.ids,
        active,
        doubles_at(descriptor[2]),
        doubles_at(descriptor[3]),
        doubles_at(descriptor[4]),
        longs_at(descriptor[5]),
    )


@compiled
def scale(scaler: ScalerView, slot: int) -> None:
    """Take the features of a slot into the moments, then scale them: (x - mean) / deviation, 0 if that is 0."""
    if not scaler.active:
        return
    scaler.used[0] = max(scaler.used[0], slot + 1)
    scaler.examples[0] += 1.0
    start = slot * scaler.width
    for i in range(scaler.width):
        x = np.float64(scaler.raw[start + i])
        distance = x - scaler.mean[i]
        scaler.mean[i] += distance / scaler.examples[0]
        scaler.squares[i] += distance * (x - scaler.mean[i])
        variance = scaler.squares[i] / scaler.examples[0]
        scaled = (x - scaler.mean[i]) / np.sqrt(variance) if variance > 0.0 else 0.0
        scaler.seen[start + i] = np.float32(scaled)
