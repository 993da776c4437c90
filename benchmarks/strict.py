"""AREBA as one page of plain Numba, in strict order: the reference for the compiled kernels.

It has one hidden layer and one learner, no versions, no reports and no state that can be stored. Queues are arrays that
shift, since a budget of 20 is small.
"""

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from benchmarks.eager import BUDGET, THETA, Stream
from stream_app.learners.networks.dense import random_generator

if TYPE_CHECKING:
    from stream_app.arrays import Floats

UNITS = 8
LEAK = np.float32(0.01)
BETA1, BETA2, EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-7)
ONE = np.float32(1.0)


@numba.njit(error_model="numpy")
def _forward(example: Any, first: Any, rest: Any, sums: Any) -> Any:  # noqa: ANN401  (arrays that Numba types)
    """Compute the inputs of the hidden units; return the probability of class 1. Units are lanes of one register."""
    for unit in range(UNITS):
        sums[unit] = rest[0, unit]
    for feature in range(len(example)):
        for unit in range(UNITS):
            sums[unit] += example[feature] * first[feature, unit]
    logit = rest[2, 0]
    for unit in range(UNITS):
        logit += (sums[unit] if sums[unit] > 0 else LEAK * sums[unit]) * rest[1, unit]
    return ONE / (ONE + np.exp(-logit))


@numba.njit(error_model="numpy")
def _backward(example: Any, error: Any, sums: Any, rest: Any, gradients: Any) -> None:  # noqa: ANN401
    """Add the gradients of one example: of the first layer, and of `rest`."""
    first, others = gradients
    for unit in range(UNITS):
        slope = ONE if sums[unit] > 0 else LEAK
        others[1, unit] += error * slope * sums[unit]
        sums[unit] = error * rest[1, unit] * slope
        others[0, unit] += sums[unit]
    others[2, 0] += error
    for feature in range(len(example)):
        for unit in range(UNITS):
            first[feature, unit] += example[feature] * sums[unit]


@numba.njit(error_model="numpy")
def _adam(weights: Any, gradients: Any, first: Any, second: Any, size: Any, scale: Any) -> None:  # noqa: ANN401
    """Take one step of Adam, and clear the gradients."""
    for one in range(weights.size):
        gradient = gradients.flat[one]
        first.flat[one] = BETA1 * first.flat[one] + (ONE - BETA1) * gradient
        second.flat[one] = BETA2 * second.flat[one] + (ONE - BETA2) * gradient * gradient
        weights.flat[one] -= size * first.flat[one] / (np.sqrt(second.flat[one] * scale) + EPSILON)
        gradients.flat[one] = 0


@numba.njit(error_model="numpy")
def _shift(queue: Any, length: int, drop: int) -> int:  # noqa: ANN401
    """Drop the oldest examples of a queue; return its length."""
    for place in range(drop, length):
        queue[place - drop] = queue[place]
    return length - drop


@numba.njit(error_model="numpy")
def _adapt(queues: Any, lengths: Any, capacities: Any, sizes: Any) -> None:  # noqa: ANN401
    """Adapt the capacities, lines 19 to 45 of algorithm 2."""
    if lengths[0] == 0 or lengths[1] == 0:
        present = 0 if lengths[1] == 0 else 1
        capacities[present] = min(capacities[present] + 1, BUDGET)
        return
    minority = 1 if sizes[0] > sizes[1] else 0
    majority, wanted = 1 - minority, capacities[minority]
    if lengths[minority] < wanted:
        return
    if wanted < BUDGET // 2:
        capacities[minority] += 1
    capacities[majority] = wanted
    lengths[majority] = _shift(queues[majority], lengths[majority], max(0, lengths[majority] - wanted))


@numba.njit(error_model="numpy")
def _run(examples: Any, labels: Any, network: Any, queues: Any, state: Any, rate: Any) -> float:  # noqa: ANN401
    """Predict and learn each example; return the sum of the scores, so that no prediction is optimised away."""
    lengths, capacities, sizes, powers = state
    first, rest, gradients, moments = network
    sums, total = np.zeros(UNITS, np.float32), 0.0
    for row in range(len(examples)):
        example, label = examples[row], labels[row]
        total += _forward(example, first, rest, sums)
        for kind in range(2):
            sizes[kind] = THETA * sizes[kind] + (1.0 - THETA if kind == label else 0.0)
        drop = max(0, lengths[label] + 1 - capacities[label])
        lengths[label] = _shift(queues[label], lengths[label], drop) + 1
        queues[label, lengths[label] - 1] = example
        _adapt(queues, lengths, capacities, sizes)
        count = np.float32(lengths[0] + lengths[1])
        for kind in range(1, -1, -1):
            for place in range(lengths[kind]):
                past = queues[kind, place]
                error = (_forward(past, first, rest, sums) - np.float32(kind)) / count
                _backward(past, error, sums, rest, gradients)
        powers[0] *= BETA1
        powers[1] *= BETA2
        size, scale = rate / (ONE - powers[0]), ONE / (ONE - powers[1])
        _adam(first, gradients[0], moments[0], moments[1], size, scale)
        _adam(rest, gradients[1], moments[2], moments[3], size, scale)
    return float(total)


class StrictAreba:
    """AREBA on the paper's small network.

    Args:
        stream: Its dimension and learning rate are used.
    """

    def __init__(self, stream: Stream) -> None:
        d, draw = stream.examples.shape[1], random_generator(bytes(32))
        first: Floats = (draw.standard_normal((d, UNITS)) * np.sqrt(2 / d)).astype(np.float32)
        rest: Floats = np.zeros((3, UNITS), np.float32)  # biases of the units, weights of the output, its bias
        rest[1] = draw.standard_normal(UNITS) / 2
        gradients = np.zeros_like(first), np.zeros_like(rest)
        moments = np.zeros_like(first), np.zeros_like(first), np.zeros_like(rest), np.zeros_like(rest)
        self._network = first, rest, gradients, moments
        self._queues: Floats = np.zeros((2, BUDGET + 1, d), np.float32)
        self._state = (np.zeros(2, np.int64), np.ones(2, np.int64), np.zeros(2), np.ones(2, np.float32))
        self._rate, self._stream = np.float32(stream.learning_rate), stream

    def __call__(self, start: int, stop: int) -> int:
        """Predict and learn these examples of the stream; return how many they are."""
        part = slice(start, stop)
        _run(
            self._stream.examples[part], self._stream.labels[part], self._network, self._queues, self._state, self._rate
        )
        return stop - start
