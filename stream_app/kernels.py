"""Compiled steps of a dense network: predict one example, learn from a few.

The network has layers of `widths` = inputs, hidden units..., 1. Its parameters lie in one flat float32 array: of each
layer the weights, inputs by units, then the biases. LeakyReLU (0.01) stands between the layers, a sigmoid behind the
last. Learning is one Adam step (Torch's form, eps 1e-7) on the mean binary cross-entropy of the given examples plus
`l2` times the sum of the squared weights of the hidden layers.

There are two paths: one hidden layer of 8 units, whose sums live in registers (see `lanes`), and everything else. Both
keep one order of sums whatever the batch, so equal operations give equal bits.

Numbers under 1e-30 become zero in errors and moments. A converged network would otherwise work on denormals, which are
many times slower, and a processor mode against them would change the bits of others.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.lanes import (
    WIDTH,
    Lanes,
    below_is_zero,
    clip,
    fill,
    load,
    pick,
    root,
    store,
    total,
    two_to,
    where_positive,
)
from stream_app.native import compiled
from stream_app.records import Floats, Longs

LEAK = np.float32(0.01)
BETA1, BETA2 = 0.9, 0.999
EPSILON = np.float32(1e-7)
"""Keras' default, the one of the authors' code."""

TINY = np.float32(1e-30)
"""Errors and moments under this are zero: 1e8 times the smallest normal number, 1e23 times below `EPSILON`."""

TINY_ROOT = np.float32(1e-15)
"""The square of a smaller gradient would be under `TINY`, or itself a denormal."""

POWER_TINY = 1e-300
"""A power of beta under this is zero: far below the last bit of 1 - power, and not yet a denormal."""

_ONE = np.float32(1)
_ZERO = np.float32(0)
_EIGHTH = np.float32(1 / 8)
_KEEP1, _TAKE1 = np.float32(BETA1), np.float32(1 - BETA1)
_KEEP2, _TAKE2 = np.float32(BETA2), np.float32(1 - BETA2)

_LIMIT = np.float32(80)
"""The sigmoid of -80 is 1.8e-35, far from denormal; beyond it nothing changes."""

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUND = np.float32(12582912)
"""1.5 * 2**23: adding it rounds to a whole number, which stands in the low bits of the sum."""

_E2, _E3, _E4 = np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)
_E5, _E6, _E7 = np.float32(1 / 120), np.float32(1 / 720), np.float32(1 / 5040)

BLOCK = 4 * WIDTH
"""Columns of a wide layer that are worked on at a time: four vectors of sums hide the latency of an addition."""


class Network(NamedTuple):
    """A dense network as compiled code sees it.

    Attributes:
        widths: int64 `[layers + 1]`: inputs, hidden units..., 1.
        parameters: float32 `[p]`, by layer: weights (inputs by units, C order), biases.
        first: float32 `[p]`, Adam's moving mean of the gradients.
        second: float32 `[p]`, Adam's moving mean of their squares.
        powers: float64 `[2]`, the running products beta1**t and beta2**t.
        rates: float64 `[2]`, the learning rate and the l2 factor.
        updates: int64 `[1]`, steps taken.
        work: float32 scratch of `work_size` elements.
    """

    widths: Longs
    parameters: Floats
    first: Floats
    second: Floats
    powers: NDArray[np.float64]
    rates: NDArray[np.float64]
    updates: Longs
    work: Floats


def parameter_count(widths: tuple[int, ...]) -> int:
    """Weights and biases of a network of these widths."""
    return sum((inputs + 1) * units for inputs, units in zip(widths, widths[1:], strict=False))


def work_size(widths: tuple[int, ...], examples: int) -> int:
    """Scratch elements for learning from so many examples at once: activations, errors, and one input of each."""
    places = sum(1 if units == 1 else -(-units // WIDTH) * WIDTH for units in widths[1:])
    return -(-examples // WIDTH) * WIDTH * (2 * places + 1)


# Elementary functions --------------------------------------------------------------------------------------------------


@compiled
def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e**-x) within 2e-7 of the true value; NaN where x is NaN.

    e**y = 2**k * e**r with k whole and |r| <= ln(2) / 2, where seven terms of the series are exact to float32. ln(2) is
    subtracted in two parts, the first with so few bits that k times it is exact.
    """
    y = fill(_ZERO) - clip(x, -_LIMIT, _LIMIT)
    shifted = y * fill(_LOG2_E) + fill(_ROUND)
    k = shifted - fill(_ROUND)
    r = (y - k * fill(_LN2_HIGH)) - k * fill(_LN2_LOW)
    series = fill(_E6) + r * fill(_E7)
    series = fill(_E4) + r * (fill(_E5) + r * series)
    series = fill(_ONE) + r * (fill(_ONE) + r * (fill(_E2) + r * (fill(_E3) + r * series)))
    return fill(_ONE) / (fill(_ONE) + series * two_to(shifted))


@compiled
def _leaky(x: Lanes) -> Lanes:
    return where_positive(x, x, fill(LEAK) * x)


@compiled
def _slope(activation: Lanes, error: Lanes) -> Lanes:
    """The error in front of a LeakyReLU; the sign of what came out of it is the sign of what went in."""
    return below_is_zero(where_positive(activation, error, fill(LEAK) * error), TINY)


@compiled
def _zero_below(x: np.float32, limit: np.float32) -> np.float32:
    return _ZERO if abs(x) < limit else x


@compiled
def _bias_corrections(network: Network) -> tuple[np.float32, np.float32]:
    """Count one more update; the step size and the factor of the second moment's root, from running products."""
    network.updates[0] += 1
    powers = network.powers
    powers[0] *= BETA1
    powers[1] *= BETA2
    for k in range(2):
        if powers[k] < POWER_TINY:
            powers[k] = 0.0
    return np.float32(network.rates[0] / (1.0 - powers[0])), np.float32(1.0 / np.sqrt(1.0 - powers[1]))


@compiled
def _adam(network: Network, at: int, gradient: Lanes, size: np.float32, scale: np.float32) -> None:
    """Move eight parameters (Kingma and Ba 2015, algorithm 1, eps behind the bias correction)."""
    mean = below_is_zero(load(network.first, at) * fill(_KEEP1) + gradient * fill(_TAKE1), TINY)
    gradient = below_is_zero(gradient, TINY_ROOT)
    square = below_is_zero(load(network.second, at) * fill(_KEEP2) + gradient * gradient * fill(_TAKE2), TINY)
    store(network.first, at, mean)
    store(network.second, at, square)
    step = fill(size) * mean / (root(square) * fill(scale) + fill(EPSILON))
    store(network.parameters, at, load(network.parameters, at) - step)


@compiled
def _adam_one(network: Network, at: int, gradient: np.float32, size: np.float32, scale: np.float32) -> None:
    """`_adam` for one parameter."""
    mean = _zero_below(network.first[at] * _KEEP1 + gradient * _TAKE1, TINY)
    gradient = _zero_below(gradient, TINY_ROOT)
    square = _zero_below(network.second[at] * _KEEP2 + gradient * gradient * _TAKE2, TINY)
    network.first[at] = mean
    network.second[at] = square
    network.parameters[at] -= size * mean / (np.sqrt(square) * scale + EPSILON)


@compiled
def _errors(work: Floats, at: int, targets: Floats, count: int) -> None:
    """Turn the logits at `work[at:]` into the errors of the mean cross-entropy: (sigmoid - target) / count."""
    share = fill(_ONE / np.float32(count))
    for e in range(0, count, WIDTH):
        error = (sigmoid(load(work, at + e)) - load(targets, e)) * share
        store(work, at + e, below_is_zero(error, TINY))


# One hidden layer of 8 units -------------------------------------------------------------------------------------------


@compiled
def _hidden_8(parameters: Floats, inputs: int, source: Floats, start: int) -> Lanes:
    """The activations of the hidden layer for the example at `source[start:]`."""
    sums = load(parameters, inputs * WIDTH)
    for i in range(inputs):
        sums = sums + fill(pick(source, start + i)) * load(parameters, i * WIDTH)
    return _leaky(sums)


@compiled
def _logit_8(network: Network, source: Floats, start: int) -> np.float32:
    inputs = network.widths[0]
    hidden = _hidden_8(network.parameters, inputs, source, start)
    return total(hidden * load(network.parameters, (inputs + 1) * WIDTH)) + pick(network.parameters, (inputs + 2) * WIDTH)


@compiled
def _learn_8(network: Network, source: Floats, starts: Longs, targets: Floats, count: int) -> None:
    inputs, parameters, work = network.widths[0], network.parameters, network.work
    errors = count * WIDTH
    outgoing = load(parameters, (inputs + 1) * WIDTH)
    last_bias = pick(parameters, (inputs + 2) * WIDTH)
    for e in range(count):
        hidden = _hidden_8(parameters, inputs, source, starts[e])
        store(work, e * WIDTH, hidden)
        work[errors + e] = total(hidden * outgoing) + last_bias
    _errors(work, errors, targets, count)

    outgoing_gradient = fill(_ZERO)
    bias_gradient = fill(_ZERO)
    last_gradient = _ZERO
    for e in range(count):
        hidden, error = load(work, e * WIDTH), fill(pick(work, errors + e))
        outgoing_gradient = outgoing_gradient + hidden * error
        last_gradient += pick(work, errors + e)
        error = _slope(hidden, outgoing * error)
        bias_gradient = bias_gradient + error
        store(work, e * WIDTH, error)

    size, scale = _bias_corrections(network)
    decay = fill(np.float32(2.0 * network.rates[1]))
    for i in range(inputs):
        gradient = fill(_ZERO)
        for e in range(count):
            gradient = gradient + fill(pick(source, starts[e] + i)) * load(work, e * WIDTH)
        _adam(network, i * WIDTH, gradient + decay * load(parameters, i * WIDTH), size, scale)
    _adam(network, inputs * WIDTH, bias_gradient, size, scale)
    _adam(network, (inputs + 1) * WIDTH, outgoing_gradient, size, scale)
    _adam_one(network, (inputs + 2) * WIDTH, last_gradient, size, scale)


# Any number of hidden layers of any width ------------------------------------------------------------------------------


@compiled
def _dot(left: Floats, left_at: int, right: Floats, right_at: int, length: int) -> np.float32:
    """The scalar product: 32 partial sums, added in a fixed order, then the rest one by one."""
    a, b, c, d = fill(_ZERO), fill(_ZERO), fill(_ZERO), fill(_ZERO)
    whole = length // BLOCK * BLOCK
    for k in range(0, whole, BLOCK):
        a = a + load(left, left_at + k) * load(right, right_at + k)
        b = b + load(left, left_at + k + WIDTH) * load(right, right_at + k + WIDTH)
        c = c + load(left, left_at + k + 2 * WIDTH) * load(right, right_at + k + 2 * WIDTH)
        d = d + load(left, left_at + k + 3 * WIDTH) * load(right, right_at + k + 3 * WIDTH)
    result = total((a + b) + (c + d))
    for k in range(whole, length):
        result += left[left_at + k] * right[right_at + k]
    return result


@compiled
def _layer(
    parameters: Floats, at: int, inputs: int, units: int, source: Floats, start: int, into: Floats, place: int, last: bool
) -> None:
    """One layer for one example. Inputs that are zero are passed over: they add nothing."""
    if last:
        into[place] = _dot(parameters, at, source, start, inputs) + parameters[at + inputs]
        return
    biases = at + inputs * units
    whole = units // BLOCK * BLOCK
    for column in range(0, whole, BLOCK):
        a, b = load(parameters, biases + column), load(parameters, biases + column + WIDTH)
        c, d = load(parameters, biases + column + 2 * WIDTH), load(parameters, biases + column + 3 * WIDTH)
        for i in range(inputs):
            value = pick(source, start + i)
            if value != _ZERO:
                weights, x = at + i * units + column, fill(value)
                a = a + x * load(parameters, weights)
                b = b + x * load(parameters, weights + WIDTH)
                c = c + x * load(parameters, weights + 2 * WIDTH)
                d = d + x * load(parameters, weights + 3 * WIDTH)
        store(into, place + column, _leaky(a))
        store(into, place + column + WIDTH, _leaky(b))
        store(into, place + column + 2 * WIDTH, _leaky(c))
        store(into, place + column + 3 * WIDTH, _leaky(d))
    for column in range(whole, units):
        result = parameters[biases + column]
        for i in range(inputs):
            result += source[start + i] * parameters[at + i * units + column]
        into[place + column] = result if result > _ZERO else LEAK * result


@compiled
def _stride(units: int) -> int:
    """Scratch elements from one example to the next; the logits lie side by side."""
    return 1 if units == 1 else _padded(units)


@compiled
def _padded(count: int) -> int:
    return -(-count // WIDTH) * WIDTH


@compiled
def _logit(network: Network, source: Floats, start: int) -> np.float32:
    widths, work = network.widths, network.work
    layers = len(widths) - 1
    _layer(network.parameters, 0, widths[0], widths[1], source, start, work, 0, layers == 1)
    at, place = (widths[0] + 1) * widths[1], 0
    for layer in range(1, layers):
        before, place = place, place + _stride(widths[layer])
        last = layer == layers - 1
        _layer(network.parameters, at, widths[layer], widths[layer + 1], work, before, work, place, last)
        at += (widths[layer] + 1) * widths[layer + 1]
    return work[place]


@compiled
def _row_step(
    network: Network, at: int, units: int, inputs: Floats, errors: int, count: int, decay: np.float32,
    size: np.float32, scale: np.float32,
) -> None:
    """Gradient and Adam step of the weights that leave one input (`inputs[e]` is its value in example e)."""
    work, stride, whole = network.work, _padded(units), units // BLOCK * BLOCK
    pull = fill(decay)
    for column in range(0, whole, BLOCK):
        here = at + column
        a, b = pull * load(network.parameters, here), pull * load(network.parameters, here + WIDTH)
        c, d = pull * load(network.parameters, here + 2 * WIDTH), pull * load(network.parameters, here + 3 * WIDTH)
        for e in range(count):
            value = pick(inputs, e)
            if value != _ZERO:
                x, error = fill(value), errors + e * stride + column
                a = a + x * load(work, error)
                b = b + x * load(work, error + WIDTH)
                c = c + x * load(work, error + 2 * WIDTH)
                d = d + x * load(work, error + 3 * WIDTH)
        _adam(network, here, a, size, scale)
        _adam(network, here + WIDTH, b, size, scale)
        _adam(network, here + 2 * WIDTH, c, size, scale)
        _adam(network, here + 3 * WIDTH, d, size, scale)
    for column in range(whole, units):
        gradient = decay * network.parameters[at + column]
        for e in range(count):
            gradient += inputs[e] * work[errors + e * stride + column]
        _adam_one(network, at + column, gradient, size, scale)


@compiled
def _forward(network: Network, source: Floats, starts: Longs, count: int) -> tuple[int, int]:
    """Fill the scratch with all activations; where the last layer's parameters and the logits begin."""
    widths, work = network.widths, network.work
    layers = len(widths) - 1
    at, before, place = 0, 0, 0
    for layer in range(layers):
        inputs, units = widths[layer], widths[layer + 1]
        for e in range(count):
            into, last = place + e * _stride(units), layer == layers - 1
            if layer == 0:
                _layer(network.parameters, at, inputs, units, source, starts[e], work, into, last)
            else:
                _layer(network.parameters, at, inputs, units, work, before + e * _stride(inputs), work, into, last)
        if layer < layers - 1:
            at += (inputs + 1) * units
            before, place = place, place + _padded(count) * _stride(units)
    return at, place


@compiled
def _learn(network: Network, source: Floats, starts: Longs, targets: Floats, count: int) -> None:
    widths, parameters, work = network.widths, network.parameters, network.work
    layers = len(widths) - 1
    at, place = _forward(network, source, starts, count)
    errors = place + _padded(count)  # those of the last layer overwrite its logits, the others lie behind
    _errors(work, place, targets, count)
    errors, free = place, errors
    size, scale = _bias_corrections(network)
    values = work[len(work) - _padded(count) :]
    for layer in range(layers - 1, -1, -1):
        inputs, units = widths[layer], widths[layer + 1]
        decay = np.float32(2.0 * network.rates[1]) if layer < layers - 1 else _ZERO
        stride, before = _stride(inputs), 0
        if layer > 0:
            before = place - _padded(count) * stride
        for i in range(inputs):
            row = at + i * units
            for e in range(count):
                if layer == 0:
                    values[e] = source[starts[e] + i]
                else:
                    values[e] = work[before + e * stride + i]
                    error = _dot(parameters, row, work, errors + e * _stride(units), units)
                    error = error if values[e] > _ZERO else LEAK * error
                    work[free + e * stride + i] = _zero_below(error, TINY)
            _row_step(network, row, units, values, errors, count, decay, size, scale)
        values[:count] = _ONE
        _row_step(network, at + inputs * units, units, values, errors, count, _ZERO, size, scale)
        if layer > 0:
            at -= (widths[layer - 1] + 1) * inputs
            place, errors, free = before, free, free + _padded(count) * stride


# The door --------------------------------------------------------------------------------------------------------------


@compiled
def predict(network: Network, source: Floats, start: int) -> np.float32:
    """P(class 1) of the example whose features begin at `source[start]`."""
    if len(network.widths) == 3 and network.widths[1] == WIDTH:
        logit = _logit_8(network, source, start)
    else:
        logit = _logit(network, source, start)
    return total(sigmoid(fill(logit)) * fill(_EIGHTH))


@compiled
def learn(network: Network, source: Floats, starts: Longs, targets: Floats, count: int) -> None:
    """One step on `count` examples: features from `source[starts[e]]` on, class `targets[e]` as 0.0 or 1.0.

    `targets` has a multiple of eight elements, at least `count`.
    """
    if len(network.widths) == 3 and network.widths[1] == WIDTH:
        _learn_8(network, source, starts, targets, count)
    else:
        _learn(network, source, starts, targets, count)
