"""Networks and a learner that differ from the paper's in one respect, to find out what explains a difference.

Networks are a learner's `network` setting (`study.variants:GlorotNetwork`), trained through autograd; `PlainAreba` is a
custom learner.
"""

import math
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.learners.networks.autograd import DenseNetwork
from stream_app.learners.networks.dense import random_generator

HIDDEN = (8,)
"""Hidden units, as in the paper except for MNIST."""

LEAK = 0.01
THETA = 0.99
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7
"""Constants of Adam, as in the paper and in Keras."""

KERAS_LEAK = 0.3
"""The slope that Keras' LeakyReLU has by default; the authors' program sets 0.01."""

KERAS_LOGITS = (math.log(1e-7 / (1.0 - 1e-7)), math.log(2.0**23 - 1.0))
"""Logits of 1e-7 and of 1 - 1e-7, which is 1 - 2**-23 in float32: -16.118 and 15.942."""


class GlorotNetwork(DenseNetwork):
    """A network with uniform weights after Glorot and Bengio (2010), the default of Keras' layers."""

    def __init__(self, features: int) -> None:
        super().__init__(features, HIDDEN)
        with torch.no_grad():
            for number, (inputs, units) in enumerate(pairwise(self.widths)):
                bound = math.sqrt(6.0 / (inputs + units))
                self.layers[2 * number].uniform_(-bound, bound)


class UntruncatedNetwork(DenseNetwork):
    """A network with He-normal weights, not cut at two standard deviations, as from Torch's `kaiming_normal_`."""

    def __init__(self, features: int) -> None:
        super().__init__(features, HIDDEN)
        with torch.no_grad():
            for number, inputs in enumerate(self.widths[:-1]):
                self.layers[2 * number].normal_(0.0, math.sqrt(2.0 / inputs))


def _seeded() -> np.random.Generator:
    """Return a generator of weights, seeded from Torch, which the engine has seeded for this network."""
    return np.random.Generator(np.random.Philox(int(torch.randint(2**62, ()).item())))


class ClippedNetwork(DenseNetwork):
    """A network whose loss has no gradient where the probability is below 1e-7 or above 1 - 1e-7, as in Keras 2.2.4.

    Keras clips the sigmoid's output before the loss. A network that is sure and wrong then learns nothing.
    """

    def __init__(self, features: int) -> None:
        super().__init__(features, HIDDEN, _seeded())

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the clipped logits `[n]` of examples `[n, d]`."""
        return super().forward(examples).clamp(*KERAS_LOGITS)


class LeakyNetwork(DenseNetwork):
    """A network whose LeakyReLU has a slope of 0.3."""

    def __init__(self, features: int) -> None:
        super().__init__(features, HIDDEN, _seeded())

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits `[n]` of examples `[n, d]`."""
        values = examples
        for layer in range(0, len(self.layers), 2):
            if layer > 0:
                values = torch.nn.functional.leaky_relu(values, KERAS_LEAK)
            values = values @ self.layers[layer] + self.layers[layer + 1]
        return values.squeeze(1)


class PlainAreba:
    """AREBA on an 8-neuron network, with Adam as in Keras 2.2.4 or in Torch, as a custom learner.

    Keras adds its epsilon to the root of the second moment before the bias correction; Torch and the paper on Adam add
    it after the correction. Everything else is Algorithm 2 in float32, one step at a time.

    Args:
        features: The number of features of an example.
        seed: The seed of the weights.
        options: `adam`: `keras` or `torch`; `budget`; `learning_rate`; `order`: `paper`, or `adapt-first` (capacities
            before the example is in its queue), or `sizes-last` (class sizes grow after that).
    """

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:
        network = DenseNetwork(features, HIDDEN, random_generator(seed))
        self._weights = [layer.detach().numpy().copy() for layer in network.layers]
        self._moments = [(np.zeros_like(weights), np.zeros_like(weights)) for weights in self._weights]
        self._keras = options["adam"] == "keras"
        self._rate = float(options["learning_rate"])
        self._budget = int(options["budget"])
        self._order = str(options.get("order", "paper"))
        self._sizes = [0.0, 0.0]
        self._queues: list[deque[Floats]] = [deque(maxlen=1), deque(maxlen=1)]
        self._steps = 0

    def predict(self, example: Floats) -> float:
        """Return the probability of class 1."""
        return float(self._forward(example[None])[2][0])

    def _forward(self, examples: Floats) -> tuple[Floats, Floats, Floats]:
        first, bias, second, last = self._weights
        sums = examples @ first + bias
        hidden = np.where(sums > 0, sums, np.float32(LEAK) * sums)
        logits = np.clip((hidden @ second + last)[:, 0], -80.0, 80.0)
        return sums, hidden, (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)

    def learn(self, example: Floats, label: int) -> None:
        """Run Algorithm 2 from the update of the class sizes on."""
        if self._order != "sizes-last":
            self._grow(label)
        if self._order == "adapt-first":
            self._adapt()
        self._queues[label].append(example.copy())
        if self._order != "adapt-first":
            self._adapt()
        if self._order == "sizes-last":
            self._grow(label)
        negatives, positives = self._queues
        examples = np.array([*negatives, *positives], np.float32)
        targets = np.repeat(np.array([0.0, 1.0], np.float32), [len(negatives), len(positives)])
        self._update(examples, targets)

    def _grow(self, label: int) -> None:
        for of in (0, 1):
            self._sizes[of] = THETA * self._sizes[of] + (1.0 - THETA) * (label == of)

    def _adapt(self) -> None:
        for of in (0, 1):
            if not self._queues[of]:
                self._resize(1 - of, min(self._capacity(1 - of) + 1, self._budget))
                return
        rare = 1 if self._sizes[0] > self._sizes[1] else 0
        capacity = self._capacity(rare)
        if len(self._queues[rare]) < capacity:
            return
        if capacity < self._budget // 2:
            self._resize(rare, capacity + 1)
        self._resize(1 - rare, capacity)

    def _capacity(self, of: int) -> int:
        return self._queues[of].maxlen or 0

    def _resize(self, of: int, capacity: int) -> None:
        self._queues[of] = deque(self._queues[of], capacity)

    def _update(self, examples: Floats, targets: Floats) -> None:
        sums, hidden, scores = self._forward(examples)
        errors = ((scores - targets) / np.float32(len(targets)))[:, None]
        back = (errors @ self._weights[2].T) * np.where(sums > 0, np.float32(1.0), np.float32(LEAK))
        gradients = [examples.T @ back, back.sum(axis=0), hidden.T @ errors, errors.sum(axis=0)]
        self._steps += 1
        roots = math.sqrt(1.0 - BETA2**self._steps)
        size = self._rate / (1.0 - BETA1**self._steps)
        for place, gradient in enumerate(gradients):
            first, second = self._moments[place]
            np.add(first, (1.0 - BETA1) * (gradient - first), out=first, casting="same_kind")
            np.add(second, (1.0 - BETA2) * (gradient * gradient - second), out=second, casting="same_kind")
            if self._keras:
                change = size * roots * first / (np.sqrt(second) + EPSILON)
            else:
                change = size * first / (np.sqrt(second) / roots + EPSILON)
            self._weights[place] -= change.astype(np.float32)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return the weights; the study restores nothing, so they are enough."""
        return {f"layer{number}": weights for number, weights in enumerate(self._weights)}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Refuse.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a variant of the study cannot be restored")
