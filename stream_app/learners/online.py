"""The `Learner` that predicts and learns one example after the other: a method, networks, a scaler.

A method (one file each) decides what to learn from, networks predict and learn. Those that are compiled run in the
compiled loop (`loop`); any others are called operation by operation.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app import kernels
from stream_app.errors import StateError
from stream_app.learners import loop
from stream_app.learners.base import LEARN, PREDICT, REPORT, REPORT_COLUMNS, Answers, Operations, check
from stream_app.learners.desk import Batch, Scaler, see_slot
from stream_app.learners.memory import Method, State
from stream_app.network import AutogradModels, Training
from stream_app.records import Floats, Words


class OnlineLearner:
    """A `Learner`: a method, a model, a scaler.

    Args:
        method: What to learn from.
        model: Compiled networks, or any modules under autograd; as many as the method has.
        features: Numbers in an example.
        scaled: Whether features are standardised online.
    """

    def __init__(self, method: Method, model: kernels.Network | AutogradModels, features: int, *, scaled: bool) -> None:
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
            loop.run(batch, self._scaler, self._model, self._method.memory)
        else:
            self._step_by_step(batch, self._model)
        return Answers(batch.scores, batch.classes, batch.versions, batch.reports)

    def _batch(self, operations: Operations, features: Floats, ids: Words) -> Batch:
        check(operations, features, ids, self._features)
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
            classes=np.full(count, -1, np.int8),
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

    def _step_by_step(self, batch: Batch, model: AutogradModels) -> None:
        memory, networks = self._method.memory, len(model.models)
        reported, updates = 0, int(model.training.updates.sum())
        for k, (code, slot) in enumerate(zip(batch.codes.tolist(), batch.slots.tolist(), strict=True)):
            batch.versions[k] = updates
            if code == PREDICT:
                see_slot(batch, self._scaler, slot)
                memory.scores[:networks] = model.predict(batch.seen[slot * batch.width : (slot + 1) * batch.width])
                batch.scores[k], batch.classes[k] = loop.vote(memory)
            elif code == LEARN:
                count = loop.admit(batch, self._scaler, memory, slot, int(batch.labels[k]))
                source = memory.examples if memory.rows else batch.seen
                examples = source.reshape(-1, batch.width)[memory.starts[:count] // batch.width]
                model.learn(examples, memory.targets[:count].copy(), float(memory.weight[0]), memory.steps)
                updates = int(model.training.updates.sum())
            else:
                loop.report(memory, updates, batch.reports[reported])
                reported += 1

    def _views(self) -> dict[str, NDArray[np.generic]]:
        """The state of model and scaler, not copied."""
        if isinstance(self._model, AutogradModels):
            views = dict(self._model.arrays())
        else:
            model = self._model
            views = Training(model.parameters, model.first, model.second, model.powers, model.updates).arrays()
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
