"""The learning rules of AREBA and QBR in plain Python: lists and floats, one number after the other.

Written from the paper (Malialis, Panayiotou, Polycarpou 2020: algorithms 1 and 2, equations 1 and 2, "Compared
methods"). It shares no code with stream_app. The reference join says when an example is predicted and when its label is
learned; together they are a second implementation of the complete engine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

LEAK = 0.01
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7
SPIKE, LEAST_LIMIT, LARGEST = 10.0, 1.0, 1e6
POSITIVE, NEGATIVE = 1, 0


class Kept(NamedTuple):
    """An example in a queue: its id and its features."""

    id: str
    features: tuple[float, ...]


@dataclass
class Queue:
    """The newest examples of a class, oldest first, and the current capacity."""

    capacity: int = 1
    examples: list[Kept] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the next example pushes the oldest one out."""
        return len(self.examples) == self.capacity

    def append(self, example: Kept) -> None:
        """Add the newest example, and drop the oldest one of a full queue."""
        self.examples.append(example)
        self.limit(self.capacity)

    def limit(self, capacity: int) -> None:
        """Set the capacity, and drop the oldest examples that do not fit."""
        self.capacity = capacity
        del self.examples[: max(0, len(self.examples) - capacity)]


class Queues:
    """The memory of one learner.

    Args:
        method: Algorithm 1 (`qbr`) or 2 (`areba`).
        budget: B.
        theta: The decay of the class sizes.

    Attributes:
        of: The queue of each class.
        sizes: The class sizes s_n and s_p; zeros with QBR, which has none.
        updates: Number of labels learned.
    """

    def __init__(self, method: Literal["areba", "qbr"], budget: int, theta: float = 0.99) -> None:
        self.of = (Queue(), Queue())
        self.sizes = [0.0, 0.0]
        self.updates = 0
        self._method, self._budget, self._theta = method, budget, theta

    def learn(self, example: Kept, label: int) -> None:
        """Do one time step, up to the training set."""
        if self._method == "areba":
            for k in (NEGATIVE, POSITIVE):
                self.sizes[k] = self._theta * self.sizes[k] + (1.0 - self._theta if k == label else 0.0)
        self.of[label].append(example)
        if self._method == "qbr":
            self._grow_to_half()
        elif not self.of[POSITIVE].examples:
            self._grow_alone(self.of[NEGATIVE])
        elif not self.of[NEGATIVE].examples:
            self._grow_alone(self.of[POSITIVE])
        elif self.sizes[NEGATIVE] > self.sizes[POSITIVE]:
            self._rebalance(minority=self.of[POSITIVE], majority=self.of[NEGATIVE])
        else:
            self._rebalance(minority=self.of[NEGATIVE], majority=self.of[POSITIVE])
        self.updates += 1

    def correct(self, id_: str, label: int) -> None:
        """Give an example another class (not in the paper): if it is kept, it becomes the newest of the other queue.

        With QBR that queue grows as after a label; with AREBA a queue that becomes empty starts again with capacity 1.
        """
        queue = self.of[1 - label]
        for kept in queue.examples:
            if kept.id == id_:
                queue.examples.remove(kept)
                self.of[label].append(kept)
                if self._method == "qbr":
                    self._grow_to_half()
                elif not queue.examples:
                    queue.capacity = 1
                return

    def forget(self, ids: Sequence[str]) -> None:
        """Take examples out (not in the paper); AREBA's queue that becomes empty starts again with capacity 1."""
        for queue in self.of:
            before, queue.examples = queue.examples, [kept for kept in queue.examples if kept.id not in ids]
            if self._method == "areba" and before and not queue.examples:
                queue.capacity = 1

    def training_set(self) -> list[tuple[tuple[float, ...], int]]:
        """Return the union of both queues."""
        return [(kept.features, k) for k in (NEGATIVE, POSITIVE) for kept in self.of[k].examples]

    def _grow_to_half(self) -> None:
        """Follow algorithm 1, lines 15 to 24."""
        for queue in self.of:
            if queue.is_full and queue.capacity < self._budget // 2:
                queue.capacity += 1

    def _grow_alone(self, queue: Queue) -> None:
        """Follow algorithm 2, lines 19 to 28: the other class has no example."""
        if queue.capacity < self._budget:
            queue.capacity += 1

    def _rebalance(self, minority: Queue, majority: Queue) -> None:
        """Follow algorithm 2, lines 30 to 45."""
        if not minority.is_full:
            return
        if minority.capacity < self._budget // 2:
            minority.capacity += 1
            majority.limit(minority.capacity - 1)
        elif minority.capacity == self._budget // 2 != majority.capacity:
            majority.limit(minority.capacity)


class Network:
    """A fully connected network: LeakyReLU between the layers, a sigmoid at the end, Adam on the mean cross-entropy.

    Args:
        widths: Numbers of inputs and of the units of each hidden layer, and 1.
        parameters: For each layer the weights, inputs by units, and then the biases.
        learning_rate: Step size of Adam.

    Attributes:
        first: Moving mean of the gradients.
        second: Moving mean of their squares.
        updates: Number of steps.
    """

    def __init__(self, widths: Sequence[int], parameters: Sequence[float], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.first = [0.0] * len(self.parameters)
        self.second = [0.0] * len(self.parameters)
        self.updates = 0
        self._shapes, self._rate = list(pairwise(widths)), learning_rate

    def score(self, features: Sequence[float]) -> float:
        """Return P(class 1)."""
        return _sigmoid(self._forward(features)[-1][0])

    def train(self, examples: Sequence[tuple[Sequence[float], int]]) -> None:
        """Do one step on all examples."""
        gradient = [0.0] * len(self.parameters)
        for features, label in examples:
            values = self._forward(features)
            errors = [(_sigmoid(values[-1][0]) - label) / len(examples)]
            end = len(self.parameters)
            for layer in range(len(self._shapes) - 1, -1, -1):
                inputs, units = self._shapes[layer]
                end -= (inputs + 1) * units
                for i, value in enumerate([*values[layer], 1.0]):  # the biases are weights of a 1
                    for u, error in enumerate(errors):
                        gradient[end + i * units + u] += value * error
                sums = [
                    sum(self.parameters[end + i * units + u] * error for u, error in enumerate(errors))
                    for i in range(inputs)
                ]
                errors = [one if value > 0 else LEAK * one for one, value in zip(sums, values[layer], strict=True)]
        self._adam(gradient)

    def _forward(self, features: Sequence[float]) -> list[list[float]]:
        """Return the inputs of each layer, and the logit."""
        values, at = [list(features)], 0
        for layer, (inputs, units) in enumerate(self._shapes):
            sums = [self.parameters[at + inputs * units + u] for u in range(units)]
            for i, value in enumerate(values[-1]):
                for u in range(units):
                    sums[u] += value * self.parameters[at + i * units + u]
            is_last = layer == len(self._shapes) - 1
            values.append(sums if is_last else [one if one > 0 else LEAK * one for one in sums])
            at += (inputs + 1) * units
        return values

    def _adam(self, gradient: Sequence[float]) -> None:
        """Update the parameters: Kingma and Ba 2015, algorithm 1, with epsilon outside the bias correction's root.

        A gradient is limited by the second moment before it.
        """
        self.updates += 1
        size = self._rate / (1.0 - BETA1**self.updates)
        scale = 1.0 / math.sqrt(1.0 - BETA2**self.updates)
        for k, given in enumerate(gradient):
            limit = SPIKE * math.sqrt(self.second[k]) * scale + LEAST_LIMIT
            slope = min(max(given, -limit), limit)
            self.first[k] = BETA1 * self.first[k] + (1.0 - BETA1) * slope
            self.second[k] = BETA2 * self.second[k] + (1.0 - BETA2) * slope * slope
            step = size * self.first[k] / (math.sqrt(self.second[k]) * scale + EPSILON)
            self.parameters[k] = min(max(self.parameters[k] - step, -LARGEST), LARGEST)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else 1.0 - 1.0 / (1.0 + math.exp(x))
