"""The `Learner` that predicts and learns one example after the other: a method, networks, a scaler.

A method (`methods` has one file for each) decides what to learn from, networks predict and learn. Compiled networks run
in the compiled loop (`loop`); all others are called operation by operation.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import StateError
from stream_app.jit.memory import SharedBuffers, address_of, aligned_block, descriptor_of, pack, with_shared_buffers
from stream_app.learners import loop, method_state
from stream_app.learners.api import REPORT_COLUMNS, Answers, Operations, check
from stream_app.learners.method import Method, State
from stream_app.learners.networks import dense_networks
from stream_app.learners.networks.dense import Training, memory_of
from stream_app.learners.networks.dense_networks import DenseNetworks
from stream_app.learners.scaler import OperationBuffers, Scaler, scaler_of
from stream_app.records import Floats, Longs, Operation, Words


class Models(Protocol):
    """Networks that are not compiled: `autograd.AutogradModels`."""

    training: Training

    @property
    def models(self) -> Sequence[object]:
        """The networks."""

    def predict(self, example: Floats) -> Floats:
        """Return each network's P(class 1) of one example `[d]`."""

    def learn(self, examples: Floats, targets: Floats, weight: float, steps: Longs) -> None:
        """Let network k take `steps[k]` steps on examples `[n, d]`."""

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return the state, not copied."""


class _Parts(NamedTuple):
    """The parts of a learner, as Python sees them; compiled code has the descriptor."""

    scaler: Scaler
    method: Method
    model: DenseNetworks | Models


class OnlineLearner:
    """A `Learner`: a method, a model, a scaler.

    Opening a stream makes all of its learners, and most of what makes a learner depends on its settings only. So
    learners of equal settings are copies of one (`copy_with`), and the views for Python are made when they are needed.

    Args:
        method: Decides what to learn from.
        model: Compiled networks, or modules under autograd; as many as the method has.
        features: Numbers in an example.
        scaled: Whether features are standardised online.
        buffers: What learners that never run at the same time share; without them, this learner has its own.
    """

    def __init__(
        self,
        method: Method,
        model: DenseNetworks | Models,
        features: int,
        *,
        scaled: bool,
        buffers: SharedBuffers | None = None,
    ) -> None:
        buffers = {} if buffers is None else buffers
        self._features, self._scaled, self._compiled = features, scaled, isinstance(model, DenseNetworks)
        parts: list[Any] = [
            scaler_of(features, active=scaled),
            with_shared_buffers(method.state, method_state.SHARED, buffers),
        ]
        if isinstance(model, DenseNetworks):
            parts.append(with_shared_buffers(model, dense_networks.SHARED, buffers))
        self._layout = pack(parts, (*method_state.SHARED, *dense_networks.SHARED), ("ids", "mean", "squares", "seen"))
        self._block, self._begin = self._layout.block, self._layout.address
        scaler, method.state = self._layout.parts[:2]
        self._method = method
        self._parts: _Parts | None = _Parts(scaler, method, self._layout.parts[2] if self._compiled else model)
        self._descriptor = self._new_descriptor()
        inside = (self._descriptor >= self._begin) & (self._descriptor < self._begin + len(self._block))
        self._inside = np.flatnonzero(inside)  # fields that are addresses in the block

    def copy_with(self, parameters: Floats, generator: Words | None) -> "OnlineLearner":
        """Return a copy of this learner, which is new and compiled, with other weights.

        Args:
            parameters: float32 `[n * p]`, the weights of its networks.
            generator: uint64 `[6]`, see `poisson`, if the method `draws_numbers`.
        """
        made = copy(self)
        made.take_own_memory()
        made.set_weights(parameters, generator)
        return made

    def take_own_memory(self) -> None:
        """Copy the memory that a shallow copy of a learner shares with the original."""
        block, begin = aligned_block(len(self._block))
        block[:] = self._block
        self._descriptor = self._descriptor.copy()
        self._descriptor[self._inside] += begin - self._begin
        self._block, self._begin, self._parts = block, begin, None

    def set_weights(self, parameters: Floats, generator: Words | None) -> None:
        """Set the weights and the generator, see `copy_with`."""
        self._layout.spans[2, "parameters"].view(self._block)[:] = parameters
        if generator is not None:
            self._layout.spans[1, "generator"].view(self._block)[:] = generator

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the learner's memory, without modules under autograd."""
        seen = self._all.scaler.seen.nbytes if self._scaled else 0
        return len(self._block) + seen

    @property
    def networks(self) -> int:
        """The number of networks."""
        return self._all.method.state.networks

    @property
    def is_alike(self) -> bool:
        """Whether all networks start from the same weights."""
        return self._all.method.is_alike

    @property
    def draws_numbers(self) -> bool:
        """Whether the method needs a generator of random numbers."""
        return len(self._all.method.state.generator) > 0

    @property
    def _all(self) -> _Parts:
        if self._parts is None:
            scaler, state, model = self._layout.parts_in(self._block)
            self._parts = _Parts(scaler, self._method.with_state(state), model)
        return self._parts

    @property
    def descriptor(self) -> Longs | None:
        """For `loop.run`, valid as long as the learner exists; its values change in place. None: not compiled."""
        return self._descriptor if self._compiled else None

    def make_room(self, slots: int) -> None:
        """Make sure that the scaled features of this many slots can be kept; existing ones stay."""
        if not self._scaled:
            return
        scaler, wanted = self._all.scaler, slots * self._features
        if wanted > len(scaler.seen):
            grown = np.zeros(wanted, np.float32)
            grown[: len(scaler.seen)] = scaler.seen
            self._parts = self._all._replace(scaler=scaler._replace(seen=grown))
            self._descriptor[:] = self._new_descriptor()

    def run(self, operations: Operations, features: Floats, ids: Words) -> Answers:
        """Carry out the operations; see `api.Learner`."""
        check(operations, features, ids, self._features)
        self.make_room(len(features))
        count = len(operations)
        answers = Answers(
            scores=np.full(count, np.nan, np.float32),
            labels=np.full(count, -1, np.int8),
            versions=np.zeros(count, np.int64),
            reports=np.zeros((np.count_nonzero(operations.codes == Operation.REPORT), len(REPORT_COLUMNS))),
        )
        asked = (operations.codes, operations.slots, operations.labels, features, ids)
        answering = (answers.scores, answers.labels, answers.versions, answers.reports, 0, 0)
        buffers = descriptor_of(OperationBuffers(*asked, *answering))
        model = self._all.model
        if isinstance(model, DenseNetworks):
            loop.run(address_of(self._descriptor), address_of(buffers), count)
        else:
            self._step_by_step(operations, answers, address_of(buffers), features, model)
        return answers

    def _step_by_step(
        self, operations: Operations, answers: Answers, buffers: int, features: Floats, model: Models
    ) -> None:
        scaler, method, _ = self._all
        state, networks, width = method.state, len(model.models), self._features
        descriptor = address_of(self._descriptor)
        seen = (scaler.seen if scaler.active else features).reshape(-1, width)
        replays = len(state.batch) > 0
        source = (state.batch if replays else state.examples).reshape(-1, width) if state.rows else seen
        reported, updates = 0, int(model.training.updates.sum())
        for k, (code, slot) in enumerate(zip(operations.codes.tolist(), operations.slots.tolist(), strict=True)):
            answers.versions[k] = updates
            if code == Operation.PREDICT:
                loop.prepare(descriptor, buffers, slot)
                state.scores[:networks] = model.predict(state.batch[:width] if replays else seen[slot])
                answers.scores[k], answers.labels[k] = loop.vote(descriptor)
            elif code == Operation.LEARN:
                if replays:
                    loop.prepare_label(descriptor, buffers, slot)
                    state.scores[:networks] = model.predict(state.batch[:width])
                count = loop.admit(descriptor, buffers, slot, int(operations.labels[k]))
                while count > 0:
                    examples = source[state.starts[:count] // width]
                    model.learn(examples, state.targets[:count].copy(), float(state.weight[0]), state.steps)
                    count = loop.admit_again(descriptor)
                updates = int(model.training.updates.sum())
            elif code == Operation.CORRECT:
                loop.correct(descriptor, buffers, slot, int(operations.labels[k]))
            else:
                loop.report(descriptor, updates, answers.reports[reported])
                reported += 1

    def _new_descriptor(self) -> Longs:
        scaler, method, model = self._all
        network = model if isinstance(model, DenseNetworks) else memory_of(model.training, self._features)
        return loop.learner_descriptor(scaler, network, method.state, (self._begin, self._layout.frequent_bytes))

    def _views(self) -> dict[str, NDArray[np.generic]]:
        """Return the state of model and scaler, not copied."""
        scaler, _, model = self._all
        if isinstance(model, DenseNetworks):
            views = Training(model.parameters, model.first, model.second, model.powers, model.updates).arrays()
        else:
            views = dict(model.arrays())
        if scaler.active:
            views |= {
                "scaler.examples": scaler.examples,
                "scaler.mean": scaler.mean,
                "scaler.squares": scaler.squares,
            }
        return views

    def arrays(self) -> State:
        """Return copies of the state; see `api.Learner`. With a scaler, `seen` has a row for each slot used so far."""
        scaler, method, _ = self._all
        arrays = {name: view.copy() for name, view in self._views().items()}
        if scaler.active:
            used = int(scaler.slots[0]) * self._features
            arrays["seen"] = scaler.seen[:used].reshape(-1, self._features).copy()
        return arrays | dict(method.arrays())

    def load(self, arrays: State) -> None:
        """Take over the state of a learner; see `api.Learner`."""
        mine, views = self.arrays(), self._views()
        if list(arrays) != list(mine):
            raise StateError(f"a learner's state has {', '.join(arrays)}; this one needs {', '.join(mine)}")
        for name, view in views.items():
            if arrays[name].shape != view.shape or arrays[name].dtype != view.dtype:
                raise StateError(
                    f"a learner's {name} is {arrays[name].dtype} {arrays[name].shape}; "
                    f"this one needs {view.dtype} {view.shape}"
                )
        seen = arrays.get("seen", np.zeros((0, self._features), np.float32))
        if seen.ndim != 2 or seen.shape[1] != self._features or not self._all.method.fits(arrays):
            raise StateError("a learner's kept examples do not fit this one: another dimension, method or budget")
        for name, view in views.items():
            view[...] = arrays[name]
        self.make_room(len(seen))
        scaler, method, _ = self._all
        scaler.seen[: seen.size] = seen.reshape(-1)
        scaler.slots[0] = len(seen)
        method.load(arrays)
