"""The step of Adam (Kingma and Ba 2015, algorithm 1, in the form of Torch) for parameters of one network.

A gradient that is far larger than those before is limited (as in SPAM: Huang et al. 2025), to `SPIKE` roots of the
second moment and `LEAST_LIMIT` more, times the weight of the step's loss (the cost of an example). Without the limit,
one step with a large example would make the second moment so large that the weight hardly moves for 1,000 steps and
more. With it, one step of weight 1 makes the second moment at most `1.1 v + 0.001 (1 + 20 sqrt(v))`, and what it adds
to the mean moves a weight, in all steps to come together, by at most 32 learning rates, whatever the example was.
"""

from typing import NamedTuple

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.networks.activations import LARGEST, TINY, within_largest, zero_below
from stream_app.learners.networks.dense_networks import ONE_F32, DenseNetworks
from stream_app.learners.networks.simd import Vector, below_is_zero, clip, fill_like, load_like, root, store, within

BETA1, BETA2 = 0.9, 0.999
EPSILON = np.float32(1e-7)
"""The default of Keras, which the authors' code uses."""

SPIKE = np.float32(10.0)
"""A gradient of so many roots of the second moment makes it larger by a tenth."""

LEAST_LIMIT = np.float32(1.0)
"""Times the weight of the loss, added to the limit.

At first the second moment is 0, and between two examples of a rare class it becomes tiny. With features of about 1, a
gradient is seldom larger, so that the limit changes nothing.
"""

LARGEST_GRADIENT = np.float32(1e15)
"""Its square and what follows from it are finite."""

TINY_ROOT = np.float32(1e-15)
"""The square of a smaller gradient would be below `TINY`, or itself denormal."""

POWER_TINY = 1e-300
"""A power of beta below this becomes zero: far below the last bit of 1 - power, and not yet denormal."""

_KEEP1, _TAKE1 = np.float32(BETA1), np.float32(1 - BETA1)
_KEEP2, _TAKE2 = np.float32(BETA2), np.float32(1 - BETA2)


class StepSizes(NamedTuple):
    """The numbers of a step: its size, the factor of the second moment's root, and the limit where that is 0."""

    size: np.float32
    scale: np.float32
    least: np.float32


@compiled
def step_sizes(network: DenseNetworks, weight: np.float32) -> StepSizes:
    """Count one more update, whose loss has this weight; return its numbers, with Adam's bias corrections."""
    network.updates[0] += 1
    powers = network.powers
    powers[0] *= BETA1
    powers[1] *= BETA2
    for k in range(2):
        if powers[k] < POWER_TINY:
            powers[k] = 0.0
    size, scale = np.float32(network.rates[0] / (1.0 - powers[0])), np.float32(1.0 / np.sqrt(1.0 - powers[1]))
    return StepSizes(size, scale, LEAST_LIMIT * max(weight, ONE_F32))


@compiled
def adam_step(network: DenseNetworks, at: int, slope: Vector, sizes: StepSizes) -> None:
    """Move the parameters of one vector, from `at` on; epsilon is added after the bias correction."""
    size, scale, least = sizes
    second = load_like(network.second, at, slope)
    limit = root(second) * fill_like(scale * SPIKE, slope) + fill_like(least, slope)
    gradient = within(clip(slope, -LARGEST_GRADIENT, LARGEST_GRADIENT), limit)
    mean = load_like(network.first, at, gradient) * fill_like(_KEEP1, gradient) + gradient * fill_like(_TAKE1, gradient)
    mean = below_is_zero(mean, TINY)
    large = below_is_zero(gradient, TINY_ROOT)
    square = second * fill_like(_KEEP2, gradient)
    square = below_is_zero(square + large * large * fill_like(_TAKE2, gradient), TINY)
    store(network.first, at, mean)
    store(network.second, at, square)
    step = fill_like(size, mean) * mean / (root(square) * fill_like(scale, mean) + fill_like(EPSILON, mean))
    store(network.parameters, at, clip(load_like(network.parameters, at, mean) - step, -LARGEST, LARGEST))


@compiled
def adam_step_one(network: DenseNetworks, at: int, slope: np.float32, sizes: StepSizes) -> None:
    """Do what `adam_step` does, for one parameter."""
    size, scale, least = sizes
    second = network.second[at]
    limit = min(np.sqrt(second) * (scale * SPIKE) + least, LARGEST_GRADIENT)
    gradient = min(max(slope, -limit), limit)
    mean = zero_below(network.first[at] * _KEEP1 + gradient * _TAKE1, TINY)
    large = zero_below(gradient, TINY_ROOT)
    square = zero_below(second * _KEEP2 + large * large * _TAKE2, TINY)
    network.first[at] = mean
    network.second[at] = square
    step = size * mean / (np.sqrt(square) * scale + EPSILON)
    network.parameters[at] = within_largest(network.parameters[at] - step)
