"""Lets a method meet a stream under a policy, without the worker: the same order of steps, and the same predictions.

Examples come in batches, as in `study.run.checked`: what a method predicts in a batch is checked at the end of it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.learners.api import Operations
from stream_app.records import Operation
from study.run.checked import BATCH_EXAMPLES, DueLabel
from study.selective.policies import LabelPolicy

Due = defaultdict[int, list[DueLabel]]
"""The labels by the number of the example after which they are shown."""


class Steps(NamedTuple):
    """What a method does in a batch, step by step; slots are the numbers of the examples.

    Attributes:
        operations: Predictions, labels and corrections.
        checked: bool `[m]`, whether the label of the step comes from a check.
    """

    operations: Operations
    checked: NDArray[np.bool_]

    @property
    def predicts(self) -> NDArray[np.bool_]:
        """Which steps are predictions, bool `[m]`."""
        predicts: NDArray[np.bool_] = self.operations.codes == Operation.PREDICT
        return predicts


class Method(Protocol):
    """A method with its model of one stream, whose features it knows."""

    def run(self, steps: Steps) -> NDArray[np.int8]:
        """Do the steps one after the other; return the class of each example that was predicted."""


def predictions_of(method: Method, truth: NDArray[np.int8], policy: LabelPolicy) -> NDArray[np.int8]:
    """Return the class that a method predicts for each example on its arrival, int8 `[n]`.

    Args:
        method: A new method.
        truth: The true classes, int8 `[n]`.
        policy: Decides which labels the method is shown.
    """
    count, due = len(truth), Due(list)
    classes = np.empty(count, np.int8)
    if not policy.depends_on_predictions:
        _show(due, policy, range(count), truth, np.zeros(count, np.int8))
    for first in range(0, count, BATCH_EXAMPLES):
        batch = range(first, min(first + BATCH_EXAMPLES, count))
        classes[batch.start : batch.stop] = method.run(_steps_of(batch, due))
        if policy.depends_on_predictions:
            _show(due, policy, batch, truth, classes)
    return classes


def _show(due: Due, policy: LabelPolicy, numbers: range, truth: NDArray[np.int8], predicted: NDArray[np.int8]) -> None:
    """Note which labels of these examples are shown when; checks are done after the last of them."""
    for number in numbers:
        for place, label in policy.labels_of(number, int(truth[number]), int(predicted[number]), numbers.stop - 1):
            due[place].append(label)


def _steps_of(batch: Sequence[int], due: Due) -> Steps:
    """Return the steps of a batch: before each example, the labels that are shown after the one before it."""

    def steps() -> Iterator[tuple[int, int, int, bool]]:
        for number in batch:
            for label in due.pop(number - 1, ()):
                code = Operation.CORRECT if label.revision else Operation.LEARN
                yield int(code), label.number, label.label, label.checked
            yield int(Operation.PREDICT), number, -1, False

    codes, slots, labels, checked = zip(*steps(), strict=True)
    operations = Operations(np.array(codes, np.uint8), np.array(slots, np.int32), np.array(labels, np.int8))
    return Steps(operations, np.array(checked, np.bool_))
