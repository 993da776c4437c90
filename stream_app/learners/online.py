"""What all learners share: the batch as compiled code sees it, the online scaler, and the `Learner` around a method.

A method (one file each) decides what to learn from; a model (`network`) predicts and learns. A compiled model runs in
the method's own compiled loop; any other is called operation by operation.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app import kernels
from stream_app.errors import StateError
from stream_app.lanes import Address, address
from stream_app.learners.base import LEARN, PREDICT, REPORT, REPORT_COLUMNS, Answers, Operations
from stream_app.native import compiled
from stream_app.network import AutogradModel
from stream_app.records import Bytes, Floats, Integers, Longs, Words

State = Mapping[str, NDArray[np.generic]]


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
    versions: Longs
    reports: NDArray[np.float64]


class Method(Protocol):
    """What a method adds to a model. It keeps the examples that it learns from."""

    batch_rows: int
    """The most examples of one step."""

    def run(self, batch: Batch, scaler: Scaler, network: kernels.Network) -> None:
        """Carry all operations out in compiled code."""

    def admit(self, batch: Batch, scaler: Scaler, operation: int) -> tuple[Floats, Floats]:
        """Take the example of a `LEARN` in; copies of the examples `[n, d]` and classes `[n]` to learn from."""

    def report(self, row: NDArray[np.float64]) -> None:
        """Fill a row of reports, updates apart."""

    def arrays(self) -> State:
        """Copies of its state."""

    def load(self, arrays: State) -> None:
        """The inverse; shapes were checked by `fits`."""

    def fits(self, arrays: State) -> bool:
        """Whether these are arrays of such a method."""


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


def _check(operations: Operations, slots: int) -> None:
    """Compiled code reads memory without looking; what it is told must be there.

    Raises:
        ValueError: A slot is not among the features and ids, or a class to learn is neither 0 nor 1.
    """
    acting = operations.codes != REPORT
    asked = operations.slots[acting]
    if len(asked) and not (asked.min() >= 0 and asked.max() < slots):
        raise ValueError(f"slots from {asked.min()} to {asked.max()} are not all below {slots}")
    learned = operations.labels[operations.codes == LEARN]
    if len(learned) and not (learned.min() >= 0 and learned.max() <= 1):
        raise ValueError("a class to learn is 0 or 1")


class OnlineLearner:
    """A `Learner`: a method, a model, a scaler.

    Args:
        method: What to learn from.
        model: A compiled network, or any module under autograd.
        features: Numbers in an example.
        scaled: Whether features are standardised online.
    """

    def __init__(self, method: Method, model: kernels.Network | AutogradModel, features: int, *, scaled: bool) -> None:
        self._method = method
        self._model = model
        self._features = features
        self._scaler = Scaler(scaled, np.zeros(1), np.zeros(features), np.zeros(features))
        self._seen: Floats = np.zeros((0, features), np.float32)
        self._seen_slots = 0

    def run(self, operations: Operations, features: Floats, ids: Words) -> Answers:
        """Carry the operations out; see `base.Learner`."""
        batch = self._batch(operations, features, ids)
        if isinstance(self._model, kernels.Network):
            self._method.run(batch, self._scaler, self._model)
        else:
            self._step_by_step(batch, self._model)
        classes = np.where(batch.codes == PREDICT, batch.scores > 0.5, np.int8(-1)).astype(np.int8)
        return Answers(batch.scores, classes, batch.versions, batch.reports)

    def _batch(self, operations: Operations, features: Floats, ids: Words) -> Batch:
        if features.shape[1] != self._features or not features.flags.c_contiguous or features.dtype != np.float32:
            raise ValueError(f"features must be C-contiguous float32 [slots, {self._features}]")
        _check(operations, min(len(features), len(ids)))
        count = len(operations)
        raw = seen = features.reshape(-1)
        if self._scaler.active:
            seen = self._room(operations, len(features)).reshape(-1)
        return Batch(
            codes=operations.codes,
            slots=operations.slots,
            labels=operations.labels,
            width=self._features,
            raw=raw,
            seen=seen,
            ids=ids,
            scores=np.full(count, np.nan, np.float32),
            versions=np.zeros(count, np.int64),
            reports=np.zeros((np.count_nonzero(operations.codes == REPORT), len(REPORT_COLUMNS))),
        )

    def _room(self, operations: Operations, slots: int) -> Floats:
        """Room for the scaled features of all slots; what is there stays."""
        if slots > len(self._seen):
            grown = np.zeros((slots, self._features), np.float32)
            grown[: len(self._seen)] = self._seen
            self._seen = grown
        self._seen_slots = max(self._seen_slots, 1 + int(operations.slots.max(initial=-1)))
        return self._seen

    def _step_by_step(self, batch: Batch, model: AutogradModel) -> None:
        reported = 0
        for k, (code, slot) in enumerate(zip(batch.codes.tolist(), batch.slots.tolist(), strict=True)):
            batch.versions[k] = model.updates[0]
            if code == PREDICT:
                see_slot(batch, self._scaler, slot)
                batch.scores[k] = model.predict(batch.seen[slot * batch.width : (slot + 1) * batch.width])
            elif code == LEARN:
                model.learn(*self._method.admit(batch, self._scaler, k))
            else:
                batch.reports[reported, 0] = model.updates[0]
                self._method.report(batch.reports[reported])
                reported += 1

    def _views(self) -> dict[str, NDArray[np.generic]]:
        """The state of model and scaler, not copied."""
        if isinstance(self._model, AutogradModel):
            views = dict(self._model.arrays())
        else:
            views = {
                "updates": self._model.updates,
                "beta_powers": self._model.powers,
                "parameters": self._model.parameters,
                "first_moments": self._model.first,
                "second_moments": self._model.second,
            }
        if self._scaler.active:
            views |= {
                "scaler.examples": self._scaler.examples,
                "scaler.mean": self._scaler.mean,
                "scaler.squares": self._scaler.squares,
            }
        return views

    def arrays(self) -> State:
        """Copies of the whole state; see `base.Learner`. With a scaler, `seen` has a row for each slot used so far."""
        arrays = {name: view.copy() for name, view in self._views().items()}
        if self._scaler.active:
            arrays["seen"] = self._seen[: self._seen_slots].copy()
        return arrays | dict(self._method.arrays())

    def load(self, arrays: State) -> None:
        """Become the learner that gave these arrays; see `base.Learner`."""
        mine, views = self.arrays(), self._views()
        if list(arrays) != list(mine):
            raise StateError(f"a learner's state has {', '.join(arrays)}; this one needs {', '.join(mine)}")
        for name, view in views.items():
            if arrays[name].shape != view.shape or arrays[name].dtype != view.dtype:
                raise StateError(
                    f"a learner's {name} is {arrays[name].dtype} {arrays[name].shape}; "
                    f"this one needs {view.dtype} {view.shape}"
                )
        seen = arrays.get("seen", self._seen)
        if seen.ndim != 2 or seen.shape[1] != self._features or not self._method.fits(arrays):
            raise StateError("a learner's kept examples do not fit this one: another dimension, method or budget")
        for name, view in views.items():
            view[...] = arrays[name]
        self._seen, self._seen_slots = np.array(seen, np.float32), len(seen)
        self._method.load(arrays)
