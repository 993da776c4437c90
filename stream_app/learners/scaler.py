"""What lies before compiled code: the operations with their inputs and answers, and the online scaler."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Address, bytes_at, classes_at, doubles_at, floats_at, integers_at, longs_at, words_at
from stream_app.records import Floats, Longs


class Work(NamedTuple):
    """Operations of one learner, and room for their answers: addresses.

    Attributes:
        codes: uint8 `[m]`, see `base.Operations`.
        slots: int32 `[m]`.
        labels: int8 `[m]`.
        features: float32 `[slots, d]`.
        ids: uint64 `[slots, ID_WORDS]`.
        scores: float32 `[m]`, see `base.Answers`.
        classes: int8 `[m]`.
        versions: int64 `[m]`.
        reports: float64 `[reports, 7]`, zeros.
        kept_scores: float32 `[slots]`, what was predicted for the example of each slot.
        kept_classes: int8 `[slots]`, likewise.
    """

    codes: Address
    slots: Address
    labels: Address
    features: Address
    ids: Address
    scores: Address
    classes: Address
    versions: Address
    reports: Address
    kept_scores: Address
    kept_classes: Address


@compiled
def work_at(row: Address) -> Work:
    """The work whose cells, in its order, begin here."""
    return Work(
        bytes_at(row[0]),
        integers_at(row[1]),
        classes_at(row[2]),
        floats_at(row[3]),
        words_at(row[4]),
        floats_at(row[5]),
        classes_at(row[6]),
        longs_at(row[7]),
        doubles_at(row[8]),
        floats_at(row[9]),
        classes_at(row[10]),
    )


class Scaler(NamedTuple):
    """Running moments of each feature (Welford 1962), float64; without `active` all is left as it is.

    Attributes:
        active: Whether features are scaled.
        width: d.
        examples: float64 `[1]`, how many were seen.
        mean: float64 `[d]`.
        squares: float64 `[d]`, the sums of squared distances from the mean.
        slots: int64 `[1]`, rows of `seen` that were ever filled.
        seen: float32 `[slots * d]`, the features as the networks saw them at prediction.
    """

    active: bool
    width: int
    examples: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    slots: Longs
    seen: Floats


SCALER_CELLS = len(Scaler._fields)


def scaler_of(features: int, *, active: bool) -> Scaler:
    """A new one, without room in `seen`."""
    return Scaler(
        active=active,
        width=features,
        examples=np.zeros(1),
        mean=np.zeros(features),
        squares=np.zeros(features),
        slots=np.zeros(1, np.int64),
        seen=np.zeros(0, np.float32),
    )


class Desk(NamedTuple):
    """A learner's work with its `Scaler`, opened inside compiled code. Without the latter, `seen` is `raw`."""

    width: int
    raw: Address
    seen: Address
    ids: Address
    active: bool
    examples: Address
    mean: Address
    squares: Address
    used: Address


@compiled
def opened(row: Address, work: Work) -> Desk:
    """The learner's row begins with its scaler; the caller holds all arrays while the result is in use."""
    active = row[0] != 0
    return Desk(
        row[1],
        work.features,
        floats_at(row[6]) if active else work.features,
        work.ids,
        active,
        doubles_at(row[2]),
        doubles_at(row[3]),
        doubles_at(row[4]),
        longs_at(row[5]),
    )


@compiled
def see(desk: Desk, slot: int) -> None:
    """Let the scaler learn the features of a slot, then scale them: (x - mean) / deviation, 0 where that is 0."""
    if not desk.active:
        return
    desk.used[0] = max(desk.used[0], slot + 1)
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
