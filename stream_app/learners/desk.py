"""What lies before compiled code: the operations with their inputs and answers, and the online scaler."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.addresses import Address, doubles_at, floats_at, longs_at, words_at
from stream_app.lanes import address
from stream_app.native import compiled
from stream_app.records import Bytes, Floats, Integers, Longs


class Work(NamedTuple):
    """m operations of one or more streams, one stream's behind the other's, and room for their answers.

    Attributes:
        codes: uint8 `[m]`, see `base.Operations`.
        slots: int32 `[m]`.
        labels: int8 `[m]`.
        scores: float32 `[m]`, see `base.Answers`.
        classes: int8 `[m]`.
        versions: int64 `[m]`.
        reports: float64 `[reports, 7]`, zeros.
    """

    codes: Bytes
    slots: Integers
    labels: NDArray[np.int8]
    scores: Floats
    classes: NDArray[np.int8]
    versions: Longs
    reports: NDArray[np.float64]


class Parts(NamedTuple):
    """Whose the operations are: p parts, each of one learner.

    Attributes:
        learners: int64 `[p]`, addresses of the learners' rows; 0: not to be run here.
        features: int64 `[p]`, address of the stream's features, float32 `[slots, d]`.
        ids: int64 `[p]`, address of its ids, uint64 `[slots, ID_WORDS]`.
        bounds: int64 `[p + 1]`, where the parts begin among the operations, and the end.
        reports: int64 `[p + 1]`, the same among the reports.
    """

    learners: Longs
    features: Longs
    ids: Longs
    bounds: Longs
    reports: Longs


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
    """One part, opened inside compiled code with its `Scaler`. Without the latter, `seen` is `raw`."""

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
    used: Address


@compiled
def opened(row: Address, parts: Parts, part: int, work: Work) -> Desk:
    """The learner's row begins with its scaler; the caller holds all arrays while the result is in use."""
    active = row[0] != 0
    return Desk(
        row[1],
        address(work.labels),
        address(work.slots),
        floats_at(parts.features[part]),
        floats_at(row[6] if active else parts.features[part]),
        words_at(parts.ids[part]),
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
