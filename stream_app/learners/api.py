"""The interface of every learner: operations in, answers out, and all of its state as arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Integers, Longs, Words
from stream_app.records import Operation

REPORT_COLUMNS = (
    "updates",
    "positive_size",
    "negative_size",
    "positive_queue",
    "negative_queue",
    "positive_capacity",
    "negative_capacity",
)
REPORT_WIDTH = len(REPORT_COLUMNS)


@dataclass(frozen=True, slots=True)
class Operations:
    """m operations of one stream, carried out one after the other.

    A slot is a row of the features. It is predicted once, learned at most once after that, and used again only in a
    later call than the one that closed it. At `Operation.CORRECT`, only the id of the slot has a meaning: an example
    with this id was learned with the other class. A learner that keeps the example changes its class from now on; what
    it learned from the example, and its estimates of class sizes, do not change.

    Attributes:
        codes: uint8 `[m]`, by `Operation`.
        slots: int32 `[m]`, row of the features and ids; -1 at `Operation.REPORT`.
        labels: int8 `[m]`, the class at `Operation.LEARN` and `Operation.CORRECT`; -1 elsewhere.
    """

    codes: Bytes
    slots: Integers
    labels: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to m operations.

    Attributes:
        scores: float32 `[m]`, P(class 1) at `Operation.PREDICT`; NaN elsewhere.
        labels: int8 `[m]`, the learner's class at `Operation.PREDICT`: 1 where the score is over 0.5, of an
            ensemble what most networks vote for; -1 elsewhere.
        versions: int64 `[m]`, updates before the operation, of all networks together.
        reports: float64 `[reports, 7]`, a row for each `Operation.REPORT`, in order, by `REPORT_COLUMNS`; zeros for
            what the method does not have.
    """

    scores: Floats
    labels: NDArray[np.int8]
    versions: Longs
    reports: NDArray[np.float64]


_LEARN, _CORRECT, _REPORT = (int(code) for code in (Operation.LEARN, Operation.CORRECT, Operation.REPORT))
# an attribute of an enumeration takes a microsecond, and a call of ten examples takes three


class Learner(Protocol):
    """One method with its model on one stream. Not thread-safe; holds no thread, file or clock."""

    def run(self, operations: Operations, features: Floats, ids: Words) -> Answers:
        """Carry out the operations; where a list of operations is cut into calls changes no result.

        Args:
            operations: What to do, in order.
            features: float32 `[slots, d]`, C-contiguous and writable; may be another array at each call.
            ids: uint64 `[slots, ID_WORDS]`, the examples' ids, C-contiguous and writable too.
        """

    def erase(self, erased: Callable[[Words], NDArray[np.bool_]]) -> int:
        """Remove kept examples; the function says of ids, uint64 `[n, ID_WORDS]`, which ones. Return how many."""

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return copies of the whole state, always by the same names in the same order."""

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state of the learner that returned these arrays; both give the same bits from then on.

        Raises:
            StateError: The arrays do not belong to a learner of this kind and shape.
        """


def check(operations: Operations, features: Floats, ids: Words, width: int) -> None:
    """Check what compiled code takes for granted.

    Raises:
        ValueError: The features are not C-contiguous float32 `[slots, width]`, a slot is not among features and ids,
            or a class to learn is neither 0 nor 1.
    """
    if features.shape[1] != width or not features.flags.c_contiguous or features.dtype != np.float32:
        raise ValueError(f"features must be C-contiguous float32 [slots, {width}]")
    slots = min(len(features), len(ids))
    codes = operations.codes
    asked = operations.slots[codes != _REPORT]
    if len(asked) and not (asked.min() >= 0 and asked.max() < slots):
        raise ValueError(f"slots from {asked.min()} to {asked.max()} are not all below {slots}")
    learned = operations.labels[(codes == _LEARN) | (codes == _CORRECT)]
    if len(learned) and not (learned.min() >= 0 and learned.max() <= 1):
        raise ValueError("a class to learn is 0 or 1")
