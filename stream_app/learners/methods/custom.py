"""A user's own learner: a class that predicts and learns one example at a time, named in the configuration.

    learners:
      mine: {method: "my_package.my_module:MyLearner", options: {rate: 0.1}}

The class is called as `MyLearner(features, seed, options)` for each stream: the number of features, 32 bytes that
differ for each application, stream and learner name, and the configuration's `options`. It runs inside the pure part of
the application. Its results may depend only on these three and on the calls that it gets: no clock, no file, no
randomness except a generator that is seeded with `seed` and whose state is in `arrays()`. After a crash, the learner is
called again with the same inputs, and its outputs are compared byte by byte.

Corrections of labels (`join.corrections`) change its figures, but the learner does not get them. `areba erase` erases
nothing in it, because the learner gets no ids either: keep no examples in a class for streams about persons.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Words
from stream_app.errors import OwnCodeError, StateError, raised_at
from stream_app.learners.api import REPORT_WIDTH, Answers, Operations, check
from stream_app.learners.networks.dense import class_at
from stream_app.records import Operation

State = Mapping[str, NDArray[np.generic]]

PREFIX = "own."
"""The prefix of the names of a user's arrays, which keeps them apart from ours."""


@runtime_checkable
class OwnLearner(Protocol):
    """The methods of such a class. Examples are read-only float32 `[d]`, valid during the call: copy what you keep."""

    def predict(self, example: Floats) -> float:
        """Return P(class 1), from 0 to 1, without changing the state."""

    def learn(self, example: Floats, label: int) -> None:
        """Learn an example of class 0 or 1, perhaps long after it was predicted."""

    def arrays(self) -> State:
        """Return the whole state by name, always the same names in the same order; numbers only."""

    def load(self, arrays: State) -> None:
        """Take over the state of a learner; raise any exception if it does not fit."""


class _StepLearner:
    """A `api.Learner` around a user's own.

    Args:
        name: The learner's, for errors.
        own: The user's object.
        features: Numbers in an example.

    Raises:
        OwnCodeError: The class lacks a method of `OwnLearner`; from `run`, a method failed or returned no P(class 1).
    """

    def __init__(self, name: str, own: OwnLearner, features: int) -> None:
        self._name = name
        self._own = own
        self._features = features
        self._updates = np.zeros(1, np.int64)
        self._refuse_changing_predictions()

    def _failed(self, what: str, error: Exception) -> OwnCodeError:
        return OwnCodeError(f"learner {self._name}: {what} failed: {raised_at(error)}")

    def _refuse_changing_predictions(self) -> None:
        before = self.arrays()
        self._predict(np.zeros(self._features, np.float32))
        after = self.arrays()
        if list(before) != list(after) or any(before[name].tobytes() != after[name].tobytes() for name in before):
            raise OwnCodeError(f"learner {self._name}: predict changes what arrays() gives; only learn may")

    def _predict(self, example: Floats) -> np.float32:
        try:
            score = np.float32(self._own.predict(example))
        except Exception as error:  # a user's code may raise anything
            raise self._failed("predict", error) from error
        if not 0.0 <= score <= 1.0:
            raise OwnCodeError(f"learner {self._name}: predict gave {score}; P(class 1) is from 0 to 1")
        return score

    def _learn(self, example: Floats, label: int) -> None:
        try:
            self._own.learn(example, label)
        except Exception as error:  # a user's code may raise anything
            raise self._failed("learn", error) from error
        self._updates[0] += 1

    def run(self, operations: Operations, features: Floats, ids: Words) -> Answers:
        """Carry out the operations; see `api.Learner`."""
        check(operations, features, ids, self._features)
        examples = features.view()
        examples.flags.writeable = False
        count = len(operations)
        scores, versions = np.full(count, np.nan, np.float32), np.zeros(count, np.int64)
        updates = []
        codes, slots, labels = (column.tolist() for column in (operations.codes, operations.slots, operations.labels))
        for k in range(count):
            versions[k] = self._updates[0]
            if codes[k] == Operation.PREDICT:
                scores[k] = self._predict(examples[slots[k]])
            elif codes[k] == Operation.LEARN:
                self._learn(examples[slots[k]], labels[k])
            elif codes[k] == Operation.REPORT:
                updates.append(self._updates[0])
        reports = np.zeros((len(updates), REPORT_WIDTH))
        reports[:, 0] = updates
        classes = np.where(operations.codes == Operation.PREDICT, scores > 0.5, np.int8(-1)).astype(np.int8)
        return Answers(scores, classes, versions, reports)

    def erase(self, erased: Callable[[Words], NDArray[np.bool_]]) -> int:  # noqa: ARG002  (the interface's)
        """Remove nothing: a user's class gets no ids."""
        return 0

    def arrays(self) -> State:
        """Return copies of the whole state; see `api.Learner`."""
        try:
            own = {name: np.array(array) for name, array in self._own.arrays().items()}
        except Exception as error:  # a user's code may raise anything
            raise self._failed("arrays", error) from error
        for name, array in own.items():
            if not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
                raise OwnCodeError(f"learner {self._name}: arrays() has {array.dtype} {name}; only numbers are kept")
        return {"updates": self._updates.copy()} | {f"{PREFIX}{name}": array for name, array in own.items()}

    def load(self, arrays: State) -> None:
        """Take over the state of a learner; see `api.Learner`."""
        mine = self.arrays()
        if list(arrays) != list(mine):
            raise StateError(f"a learner's state has {', '.join(arrays)}; this one needs {', '.join(mine)}")
        if any(arrays[name].dtype != mine[name].dtype for name in mine) or arrays["updates"].shape != (1,):
            raise StateError(f"the state of learner {self._name} has other types of numbers than it needs")
        try:
            self._own.load({name[len(PREFIX) :]: arrays[name].copy() for name in mine if name != "updates"})
        except Exception as error:  # a user's code may raise anything
            raise StateError(f"learner {self._name}: load failed: {raised_at(error)}") from error
        self._updates[...] = arrays["updates"]


def build_own(name: str, path: str, options: Mapping[str, Any], features: int, seed: bytes) -> _StepLearner:
    """Make a user's own learner, given its class as `package.module:Class`.

    Raises:
        ConfigurationError: There is no such class.
        OwnCodeError: It cannot be made or used.
    """
    kind = class_at(path, f"learner {name}: method")
    try:
        own = kind(features, seed, options)
    except Exception as error:  # a user's code may raise anything
        raise OwnCodeError(f"learner {name}: {path} failed: {raised_at(error)}") from error
    if not isinstance(own, OwnLearner):
        missing = [word for word in ("predict", "learn", "arrays", "load") if not hasattr(own, word)]
        raise OwnCodeError(f"learner {name}: {path} has no {', '.join(missing)}")
    return _StepLearner(name, own, features)
