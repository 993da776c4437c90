"""Fake negatives with importance weights: each example counts as negative at once, and a positive label is added.

Ktena, Tejani, Theis, Myana, Dilipkumar, Huszar, Yoo and Shi (*Addressing delayed feedback for continuous training with
neural networks in CTR prediction*, RecSys 2019) learn each example as negative as soon as it arrives, and once more as
positive when its positive label comes, however late. With the network's P(class 1) p, taken as a constant, the loss of
the positive has the weight 1 + p, and that of the negative (1 - p) (1 + p), which corrects the bias in expectation.
Negative labels teach nothing more.

The network and the optimiser are those of the other methods: one hidden layer of eight units, the same first weights,
and Adam, without the limit of a gradient. The paper has no remedy against imbalance. As a variant, the class is 1 where
p exceeds the decayed share of positives among the examples, in place of 0.5: p estimates a probability, and above that
share lies the best balanced accuracy.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.learners.networks.dense import dense_weights, random_generator
from stream_app.producers.datasets.base import DataSet
from stream_app.records import Operation
from study.selective.world import Steps

HIDDEN, LEAK = 8, 0.01
RATE, BETA1, BETA2, EPSILON = 0.01, 0.9, 0.999, 1e-7
DECAY = 0.999
"""Of the share of positives, at each example."""

_PREDICT, _LEARN, _CORRECT = (int(code) for code in (Operation.PREDICT, Operation.LEARN, Operation.CORRECT))

Doubles = NDArray[np.float64]


class _Network(NamedTuple):
    """The state of the method.

    Attributes:
        parameters: float64 `[p]`: weights of the hidden layer (inputs by units), its biases, output weights and bias.
        first: float64 `[p]`, Adam's moving mean of the gradients.
        second: float64 `[p]`, Adam's moving mean of their squares.
        powers: float64 `[2]`, the running products of beta1 and beta2.
        share: float64 `[1]`, the decayed share of positives among the examples.
        hidden: float64 `[HIDDEN]`, the units' values for the example at hand.
        gradient: float64 `[p]`.
    """

    parameters: Doubles
    first: Doubles
    second: Doubles
    powers: Doubles
    share: Doubles
    hidden: Doubles
    gradient: Doubles


class FakeNegatives:
    """The method, see above.

    Args:
        by_share: Whether the share of positives decides the class, in place of 0.5.
        data: The stream; its labels are not read.
        seed: 32 bytes.
    """

    def __init__(self, by_share: bool, data: DataSet, seed: bytes) -> None:
        self._features = data.features
        self._by_share = by_share
        weights = dense_weights((data.dimension, HIDDEN, 1), random_generator(seed)).astype(np.float64)
        size = len(weights)
        self._network = _Network(
            parameters=weights,
            first=np.zeros(size),
            second=np.zeros(size),
            powers=np.ones(2),
            share=np.zeros(1),
            hidden=np.zeros(HIDDEN),
            gradient=np.zeros(size),
        )

    def run(self, steps: Steps) -> NDArray[np.int8]:
        """Do the steps; see `Method`."""
        codes, slots, labels = steps.operations.codes, steps.operations.slots, steps.operations.labels
        classes = np.zeros(len(codes), np.int8)
        _run(self._network, self._features, codes, slots, labels, classes, self._by_share)
        return classes[steps.predicts]


@compiled
def _run(
    network: _Network,
    features: NDArray[np.float32],
    codes: NDArray[np.uint8],
    slots: NDArray[np.int32],
    labels: NDArray[np.int8],
    classes: NDArray[np.int8],
    by_share: bool,
) -> None:
    share = network.share
    for k in range(len(codes)):
        example = features[slots[k]]
        if codes[k] == _PREDICT:
            score = score_of(network, example)
            threshold = share[0] if by_share and 0.0 < share[0] < 0.5 else 0.5
            classes[k] = 1 if score > threshold else 0
            share[0] *= DECAY
            take_step(network, example, 0, score)
        elif (codes[k] == _LEARN or codes[k] == _CORRECT) and labels[k] == 1:
            share[0] += 1.0 - DECAY
            take_step(network, example, 1, score_of(network, example))


@compiled
def score_of(network: _Network, example: NDArray[np.float32]) -> float:
    """Return P(class 1); leave the units' values in `hidden`."""
    weights, hidden = network.parameters, network.hidden
    biases = len(example) * HIDDEN
    logit = weights[biases + 2 * HIDDEN]
    for unit in range(HIDDEN):
        total = weights[biases + unit]
        for column in range(len(example)):
            total += example[column] * weights[column * HIDDEN + unit]
        hidden[unit] = total if total > 0.0 else LEAK * total
        logit += hidden[unit] * weights[biases + HIDDEN + unit]
    score: float = 1.0 / (1.0 + np.exp(-min(max(logit, -80.0), 80.0)))
    return score


@compiled
def take_step(network: _Network, example: NDArray[np.float32], label: int, score: float) -> None:
    """Take a step on the example that was predicted last, with the weight of its class."""
    weight = (1.0 + score) * (1.0 if label == 1 else 1.0 - score)
    error = weight * (score - label)
    weights, hidden, gradient = network.parameters, network.hidden, network.gradient
    biases = len(example) * HIDDEN
    gradient[biases + 2 * HIDDEN] = error
    for unit in range(HIDDEN):
        gradient[biases + HIDDEN + unit] = error * hidden[unit]
        slope = error * weights[biases + HIDDEN + unit] * (1.0 if hidden[unit] > 0.0 else LEAK)
        gradient[biases + unit] = slope
        for column in range(len(example)):
            gradient[column * HIDDEN + unit] = slope * example[column]
    network.powers[0] *= BETA1
    network.powers[1] *= BETA2
    for k in range(len(gradient)):
        network.first[k] = BETA1 * network.first[k] + (1.0 - BETA1) * gradient[k]
        network.second[k] = BETA2 * network.second[k] + (1.0 - BETA2) * gradient[k] * gradient[k]
        mean = network.first[k] / (1.0 - network.powers[0])
        root = np.sqrt(network.second[k] / (1.0 - network.powers[1]))
        weights[k] -= RATE * mean / (root + EPSILON)
