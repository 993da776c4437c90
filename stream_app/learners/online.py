"""The `Learner` that predicts and learns one example after the other: a method, networks, a scaler.

A method (`methods` has one file for each) decides what to learn from, networks predict and learn. Compiled networks run
in the compiled loop (`loop`); all others are called operation by operation.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs, Words
from stream_app.errors import StateError
from stream_app.jit.memory import address_of, aligned_block
from stream_app.jit.tables import SharedBuffers, descriptor_of, pack, with_shared_buffers
from stream_app.learners import loop
from stream_app.learners.api import REPORT_COLUMNS, Answers, Operations, check
from stream_app.learners.method import RunningMethod, State
from stream_app.learners.method_state import MethodTables, source_of
from stream_app.learners.moments import moments_by_name
from stream_app.learners.networks.activations import LARGEST
from stream_app.learners.networks.dense import Training, networks_of
from stream_app.learners.networks.dense_networks import DenseNetworks
from stream_app.learners.scaler import OperationBuffers, Scaler, new_scaler
from stream_app.learners.stored_state import stored_state
from stream_app.records import Operation

SEEN = "seen"
"""A learner's array by slot: the features as scaled, or the arrival, when the example was predicted."""

_GENERATOR = "method.own.generator"
"""The path of a method's generator of random numbers in the memory of a learner."""


class Models(Protocol):
    """Networks that are not compiled: `autograd.AutogradModels`."""

    training: Training

    @property
    def models(self) -> Sequence[object]:
        """The networks."""

    @property
    def refused(self) -> int:
        """The steps that were not taken since the models were made, because a gradient was not finite."""

    def predict(self, example: Floats) -> Floats:
        """Return each network's P(class 1) of one example `[d]`."""

    def learn(self, examples: Floats, targets: Floats, weight: float, steps: Longs) -> None:
        """Let network k take `steps[k]` steps on examples `[n, d]`."""

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return the state, not copied."""


class _Parts(NamedTuple):
    """The parts of a learner, as Python sees them; compiled code has the descriptor. Modules are not in its memory."""

    scaler: Scaler
    networks: Any
    method: MethodTables


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

    Attributes:
        array_names: The names of its `arrays`, in order.
        stored: Where these arrays are in its memory; None: not compiled, or the method does not say it.
    """

    def __init__(
        self,
        method: RunningMethod,
        model: DenseNetworks | Models,
        features: int,
        *,
        scaled: bool,
        buffers: SharedBuffers | None = None,
    ) -> None:
        self._features, self._scaled, self._method = features, scaled, method
        self._modules = None if isinstance(model, DenseNetworks) else model
        scaler = new_scaler(features, active=scaled, tracks=method.tables.queues.dated)
        parts = _Parts(scaler, model if self._modules is None else None, method.tables)
        self._layout = pack(with_shared_buffers(parts, {} if buffers is None else buffers))
        self._block, self._begin = self._layout.block, self._layout.address
        self._rows = _no_rows(scaler)
        self._parts: _Parts | None = self._with_rows(self._layout.table)
        self._descriptor = self._new_descriptor()
        self._row_fields = np.flatnonzero(self._descriptor == address_of(self._rows))
        # An array without elements may begin at the end of the block; no other memory begins there.
        inside = (self._descriptor >= self._begin) & (self._descriptor <= self._begin + len(self._block))
        self._inside = np.flatnonzero(inside)  # fields that are addresses in the block
        self.array_names: Sequence[str] = tuple(self.arrays())
        compiled = self._modules is None
        self.stored = (
            stored_state(self._views(), self._own_method, self._layout.spans, self._begin) if compiled else None
        )

    def copy_with(self, parameters: Floats, generator: Words | None) -> "OnlineLearner":
        """Return a copy of this learner, which is new and compiled, with other weights.

        Args:
            parameters: float32 `[n * p]`, the weights of its networks.
            generator: uint64 `[6]`, see `poisson`, if the method `draws_numbers`.
        """
        made = self.blank_copy()
        made.set_weights(parameters, generator)
        return made

    def blank_copy(self) -> "OnlineLearner":
        """Return a copy of this learner, which is new and compiled, with the same weights."""
        made = copy(self)
        made.take_own_memory()
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
        self._layout.spans["networks.parameters"].view(self._block)[:] = parameters
        if generator is not None:
            self._layout.spans[_GENERATOR].view(self._block)[:] = generator

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the learner's memory, without modules under autograd."""
        return len(self._block) + self._rows.nbytes

    @property
    def limited_examples(self) -> int:
        """Examples that were predicted since the learner was made, with a feature beyond what a network takes."""
        return int(self._all.scaler.limited[0])

    @property
    def refused_steps(self) -> int:
        """Steps that were not taken since the learner was made, because they would not have been finite."""
        return 0 if self._modules is None else self._modules.refused

    @property
    def networks(self) -> int:
        """The number of networks."""
        return self._all.method.state.networks

    @property
    def is_alike(self) -> bool:
        """Whether all networks start from the same weights."""
        return self._method.is_alike

    @property
    def draws_numbers(self) -> bool:
        """Whether the method needs a generator of random numbers."""
        return _GENERATOR in self._layout.spans

    @property
    def _all(self) -> _Parts:
        if self._parts is None:
            self._parts = self._with_rows(self._layout.table_in(self._block))
        return self._parts

    def _with_rows(self, parts: _Parts) -> _Parts:
        """Return the parts with what is kept by slot, which is not in the block."""
        scaler, rows = parts.scaler, self._rows.reshape(-1)
        return parts._replace(scaler=scaler._replace(seen=rows) if scaler.active else scaler._replace(arrivals=rows))

    @property
    def _own_method(self) -> RunningMethod:
        """The method with the state in this learner's memory."""
        return self._method._replace(tables=self._all.method)

    @property
    def descriptor(self) -> Longs | None:
        """For `loop.run`, valid as long as the learner exists; its values change in place. None: not compiled."""
        return self._descriptor if self._modules is None else None

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of its block and of what is kept by slot; the second one changes as there are more slots."""
        return self._begin, int(self._descriptor[self._row_fields[0]]) if self._keeps_rows else 0

    @property
    def _keeps_rows(self) -> bool:
        """Whether something is kept of each slot."""
        return bool(self._rows.shape[1])

    def make_room(self, slots: int) -> None:
        """Make sure that there is room for what is kept of this many slots; what is there stays."""
        kept = self._rows
        if not self._keeps_rows or slots <= len(kept):
            return
        self._rows = np.zeros((slots, kept.shape[1]), kept.dtype)
        self._rows[: len(kept)] = kept
        self._descriptor[self._row_fields] = address_of(self._rows)
        if self._parts is not None:
            self._parts = self._with_rows(self._parts)

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
        scores, classes = answers.scores, answers.labels
        buffers = descriptor_of(
            OperationBuffers(
                codes=operations.codes,
                slots=operations.slots,
                labels=operations.labels,
                features=features,
                ids=ids,
                scores=scores,
                classes=classes,
                versions=answers.versions,
                reports=answers.reports,
                kept_scores=scores[:0],
                kept_classes=classes[:0],
            )
        )
        if self._modules is None:
            loop.run(address_of(self._descriptor), address_of(buffers), count)
        else:
            self._step_by_step(operations, answers, address_of(buffers), self._modules)
        return answers

    def erase(self, erased: Callable[[Words], NDArray[np.bool_]]) -> int:
        """Remove examples from the method's queues; see `api.Learner`."""
        return self._own_method.erase(erased)

    def _step_by_step(self, operations: Operations, answers: Answers, buffers: int, model: Models) -> None:
        (scaler, _, (state, _, _)), width = self._all, self._features
        voters = slice(state.first_voter, state.first_voter + state.voters)
        learner = address_of(self._descriptor), buffers
        entered, source = (array.reshape(-1, width) for array in (scaler.source, source_of(scaler, self._all.method)))
        reported, updates = 0, int(model.training.updates.sum())
        for k, (code, slot) in enumerate(zip(operations.codes.tolist(), operations.slots.tolist(), strict=True)):
            answers.versions[k] = updates
            label = int(operations.labels[k])
            if code == Operation.PREDICT:
                example = entered[loop.prepare(*learner, slot) // width]
                state.scores[: state.voters] = model.predict(example)[voters]
                answers.scores[k], answers.labels[k] = loop.vote(*learner)
            elif code == Operation.LEARN:
                if loop.review(*learner, slot):
                    state.scores[: state.networks] = model.predict(entered[0])
                count = loop.admit(*learner, slot, label)
                while count > 0:
                    examples = source[state.starts[:count] // width]
                    model.learn(examples, state.targets[:count].copy(), float(state.weight[0]), state.steps)
                    count = loop.admit_again(*learner)
                updates = int(model.training.updates.sum())
            elif code == Operation.CORRECT:
                loop.correct(*learner, slot, label)
            else:
                loop.report(*learner, updates, answers.reports[reported])
                reported += 1

    def _new_descriptor(self) -> Longs:
        scaler, networks, method = self._all
        if self._modules is not None:
            networks = networks_of(self._modules.training, (self._features,), 0.0, 0.0, 0)
        return loop.learner_descriptor(scaler, networks, method, (self._begin, self._layout.frequent_bytes))

    def _views(self) -> dict[str, NDArray[np.generic]]:
        """Return the state of model and scaler, not copied."""
        scaler, networks, _ = self._all
        views = _training_of(networks).arrays() if self._modules is None else dict(self._modules.arrays())
        if scaler.active:
            views |= moments_by_name(scaler.moments)
        return views

    def arrays(self) -> State:
        """Return copies of the state; see `api.Learner`. `seen`, what is kept by slot, has a row for each slot."""
        arrays = {name: view.copy() for name, view in self._views().items()}
        if self._keeps_rows:
            arrays[SEEN] = self._rows[: int(self._all.scaler.slots[0])].copy()
        return arrays | dict(self._own_method.arrays())

    def load(self, arrays: State) -> None:
        """Take over the state of a learner; see `api.Learner`."""
        if tuple(arrays) != self.array_names:
            raise StateError(f"a learner's state has {', '.join(arrays)}; this one needs {', '.join(self.array_names)}")
        views, rows, method = self._views(), self._rows, self._own_method
        for name, view in views.items():
            if arrays[name].shape != view.shape or arrays[name].dtype != view.dtype:
                raise StateError(
                    f"a learner's {name} is {arrays[name].dtype} {arrays[name].shape}; "
                    f"this one needs {view.dtype} {view.shape}"
                )
        is_like_own = not self._keeps_rows or (
            (arrays[SEEN].dtype, arrays[SEEN].shape[1:]) == (rows.dtype, rows.shape[1:])
        )
        if not is_like_own or not method.fits(arrays):
            raise StateError("a learner's kept examples do not fit this one: another dimension, method or budget")
        if not all(np.isfinite(arrays[name]).all() for name in views if not name.startswith("buffer.")):
            raise StateError("a learner's state has numbers that are not finite")
        if np.abs(arrays["parameters"]).max(initial=0.0) > LARGEST:
            raise StateError(f"a learner's parameters are at most {LARGEST:.0e} either way")
        for name, view in views.items():
            view[...] = arrays[name]
        if self._keeps_rows:
            seen = arrays[SEEN]
            self.make_room(len(seen))
            self._rows[: len(seen)] = seen
            self._all.scaler.slots[0] = len(seen)
        method.load(arrays)


def _no_rows(scaler: Scaler) -> NDArray[Any]:
    """Return what is kept of each slot, for no slot: scaled features `[0, d]`, arrivals `[0, 1]`, nothing `[0, 0]`."""
    if scaler.active:
        return np.zeros((0, scaler.width), np.float32)
    return np.zeros((0, int(scaler.tracks)), np.int64)


def _training_of(networks: DenseNetworks) -> Training:
    """Return the memory of dense networks."""
    return Training(networks.parameters, networks.first, networks.second, networks.powers, networks.updates)
