"""The step of Adam (Kingma and Ba 2015, algorithm 1, in the form of Torch) for parameters of one network."""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.networks.activations import TINY, zero_below
from stream_app.learners.networks.dense_networks import DenseNetworksView
from stream_app.learners.networks.simd import Vector, below_is_zero, fill_like, load_like, root, store

BETA1, BETA2 = 0.9, 0.999
EPSILON = np.float32(1e-7)
"""The default of Keras, which the authors' code uses."""

TINY_ROOT = np.float32(1e-15)
"""The square of a smaller gradient would be below `TINY`, or itself denormal."""

POWER_TINY = 1e-300
"""A power of beta below this becomes zero: far below the last bit of 1 - power, and not yet denormal."""

_KEEP1, _TAKE1 = np.float32(BETA1), np.float32(1 - BETA1)
_KEEP2, _TAKE2 = np.float32(BETA2), np.float32(1 - BETA2)


@compiled
def bias_corrections(network: DenseNetworksView) -> tuple[np.float32, np.float32]:
    """Count one more update; return the step size and the factor of the second moment's root."""
    network.updates[0] += 1
    powers = network.powers
    powers[0] *= BETA1
    powers[1] *= BETA2
    for k in range(2):
        if powers[k] < POWER_TINY:
            powers[k] = 0.0
    return np.float32(network.rates[0] / (1.0 - powers[0])), np.float32(1.0 / np.sqrt(1.0 - powers[1]))


@compiled
def adam_step(network: DenseNetworksView, at: int, gradient: Vector, size: np.float32, scale: np.float32) -> None:
    """Move the parameters of one vector, from `at` on; epsilon is added after the bias correction."""
    mean = load_like(network.first, at, gradient) * fill_like(_KEEP1, gradient) + gradient * fill_like(_TAKE1, gradient)
    mean = below_is_zero(mean, TINY)
    large = below_is_zero(gradient, TINY_ROOT)
    square = load_like(network.second, at, gradient) * fill_like(_KEEP2, gradient)
    square = below_is_zero(square + large * large * fill_like(_TAKE2, gradient), TINY)
    store(network.first, at, mean)
    store(network.second, at, square)
    step = fill_like(size, mean) * mean / (root(square) * fill_like(scale, mean) + fill_like(EPSILON, mean))
    store(network.parameters, at, load_like(network.parameters, at, mean) - step)


@compiled
def adam_step_one(
    network: DenseNetworksView, at: int, gradient: np.float32, size: np.float32, scale: np.float32
) -> None:
    """Do what `adam_step` does, for one parameter."""
    mean = zero_below(network.first[at] * _KEEP1 + gradient * _TAKE1, TINY)
    large = zero_below(gradient, TINY_ROOT)
    square = zero_below(network.second[at] * _KEEP2 + large * large * _TAKE2, TINY)
    network.first[at] = mean
    network.second[at] = square
    network.parameters[at] -= size * mean / (np.sqrt(square) * scale + EPSILON)
