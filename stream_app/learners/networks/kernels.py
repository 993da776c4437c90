"""Compiled steps of dense networks: predict one example, learn from a few.

Most methods have one network; an ensemble has several of one shape, whose arrays lie one behind the other. They never
meet: what one network does has the same bits whether it is alone or in an ensemble.

The network has layers of `widths` = inputs, hidden units..., 1. Its parameters lie in one flat float32 array: of each
layer the weights, inputs by units, then the biases. LeakyReLU (0.01) stands between the layers, a sigmoid behind the
last. Learning is one Adam step (Torch's form, eps 1e-7) on the mean binary cross-entropy of the given examples plus
`l2` times the sum of the squared weights of the hidden layers.

There are two paths: one hidden layer of 8 units, whose sums live in registers (see `lanes`), and everything else. Both
keep one strict order of sums, whatever the batch and the machine, so equal operations give equal bits. The sums of
units and logits are float64, rounded once: near the bend of LeakyReLU, rounding would else decide on the slope.

Numbers under 1e-30 become zero in errors and moments. A converged network would otherwise work on denormals, which are
many times slower, and a processor mode against them would change the bits of others.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled, inlined
from stream_app.jit.memory import Address, Cell, doubles_at, floats_at, later, longs_at
from stream_app.learners.networks.simd import (
    Lanes,
    below_is_zero,
    clip,
    fill8,
    fill16,
    fill_like,
    first,
    join,
    load8,
    load8_double,
    load16,
    load_like,
    narrow,
    root,
    store,
    total,
    two_to,
    where_positive,
    widen,
)
from stream_app.records import Floats, Longs

LEAK = np.float32(0.01)
BETA1, BETA2 = 0.9, 0.999
EPSILON = np.float32(1e-7)
"""Keras' default, the one of the authors' code."""

TINY = np.float32(1e-30)
"""Errors and moments under this are zero: 1e8 times the smallest normal number, 1e23 times below `EPSILON`."""

TINY_ROOT = np.float32(1e-15)
"""The square of a smaller gradient would be under `TINY`, or itself a denormal."""

ORIGIN: Any = np.int64(0)
SINGLE: Any = np.int64(1)
"""Numba compiles a function once more for each literal number that it is given; these are none."""

POWER_TINY = 1e-300
"""A power of beta under this is zero: far below the last bit of 1 - power, and not yet a denormal."""

_ONE = np.float32(1)
_ZERO = np.float32(0)
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

WIDTH = 8
"""Units of the paper's hidden layer: the lanes of its vectors."""

WIDE = 16
"""Lanes in wide layers."""

BLOCK = 4
"""Inputs of a wide layer that are worked on together, so that a sum or an error is fetched once for four weights."""

CHUNK = 128
"""Units of a wide layer whose sums are worked on at a time: those of 20 examples take two thirds of a level-1 cache."""


class Network(NamedTuple):
    """Dense networks of one shape as compiled code sees them; n of them, each with p parameters.

    Attributes:
        widths: int64 `[layers + 1]`: inputs, hidden units..., 1.
        parameters: float32 `[n * p]`, by network and layer: weights (inputs by units, C order), biases.
        first: float32 `[n * p]`, Adam's moving mean of the gradients.
        second: float32 `[n * p]`, Adam's moving mean of their squares.
        powers: float64 `[n * 2]`, the running products beta1**t and beta2**t.
        rates: float64 `[2]`, the learning rate and the l2 factor.
        updates: int64 `[n]`, steps taken.
        start: int64 `[1]`, scratch: where the example to predict begins.
        places: int64, scratch: where a layer's inputs begin, or which networks are at work.
        work: float32 scratch of `work_size` elements.
        sums: float64 scratch, `CHUNK` elements an example.
    """

    widths: Longs
    parameters: Floats
    first: Floats
    second: Floats
    powers: NDArray[np.float64]
    rates: NDArray[np.float64]
    updates: Longs
    start: Longs
    places: Longs
    work: Floats
    sums: NDArray[np.float64]


SCRATCH = ("start", "places", "work", "sums")
"""What a network holds during one operation only."""


class Core(NamedTuple):
    """A `Network` opened inside compiled code: addresses of its arrays, and the numbers that never change.

    Functions for one network work on the first; `_member` has the n-th there.
    """

    networks: int
    elements: int
    inputs: int
    layers: int
    eight: bool
    widths: Address
    parameters: Address
    first: Address
    second: Address
    powers: Address
    rates: Address
    updates: Address
    start: Address
    places: Address
    work: Address
    work_elements: int
    sums: Address


NETWORK_CELLS = len(Core._fields)


def cells_of(network: Network) -> Sequence[Cell]:
    """The network's part of a row, see `addresses`."""
    networks, widths = len(network.updates), network.widths
    return Core(
        networks,
        len(network.parameters) // networks,
        int(widths[0]),
        len(widths) - 1,
        len(widths) == 3 and int(widths[1]) == WIDTH,
        widths,
        network.parameters,
        network.first,
        network.second,
        network.powers,
        network.rates,
        network.updates,
        network.start,
        network.places,
        network.work,
        len(network.work),
        network.sums,
    )


@compiled
def opened(row: Address) -> Core:
    """The network whose cells begin here; its owner holds the arrays while the result is in use."""
    return Core(
        row[0],
        row[1],
        row[2],
        row[3],
        row[4] != 0,
        longs_at(row[5]),
        floats_at(row[6]),
        floats_at(row[7]),
        floats_at(row[8]),
        doubles_at(row[9]),
        doubles_at(row[10]),
        longs_at(row[11]),
        longs_at(row[12]),
        longs_at(row[13]),
        floats_at(row[14]),
        row[15],
        doubles_at(row[16]),
    )


@compiled
def _member(core: Core, number: int) -> Core:
    """The same memory as the n-th network sees it."""
    ahead = number * core.elements
    return Core(
        SINGLE,
        core.elements,
        core.inputs,
        core.layers,
        core.eight,
        core.widths,
        later(core.parameters, ahead),
        later(core.first, ahead),
        later(core.second, ahead),
        later(core.powers, 2 * number),
        core.rates,
        later(core.updates, number),
        core.start,
        core.places,
        core.work,
        core.work_elements,
        core.sums,
    )


def parameter_count(widths: tuple[int, ...]) -> int:
    """Weights and biases of a network of these widths."""
    return sum((inputs + 1) * units for inputs, units in pairwise(widths))


def padded(count: int) -> int:
    """The next multiple of `WIDTH`."""
    return -(-count // WIDTH) * WIDTH


def work_size(widths: tuple[int, ...], examples: int) -> int:
    """Scratch elements for learning from so many examples at once: activations, errors, and one input of each.

    An ensemble learns one example in each of its networks at once, which takes as much.
    """
    return padded(examples) * (
        2 * sum(1 if units == 1 else -(-units // WIDE) * WIDE + WIDE for units in widths[1:]) + 1
    )


# Elementary functions -------------------------------------------------------------------------------------------------


@compiled
def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e**-x) within 2e-7 of the true value; NaN where x is NaN.

    e**y = 2**k * e**r with k whole and |r| <= ln(2) / 2, where seven terms of the series are exact to float32. ln(2) is
    subtracted in two parts, the first with so few bits that k times it is exact.
    """
    one, rounding = fill_like(_ONE, x), fill_like(_ROUND, x)
    y = clip(fill_like(_ZERO, x) - x, -_LIMIT, _LIMIT)
    shifted = y * fill_like(_LOG2_E, x) + rounding
    k = shifted - rounding
    r = (y - k * fill_like(_LN2_HIGH, x)) - k * fill_like(_LN2_LOW, x)
    series = fill_like(_E6, x) + r * fill_like(_E7, x)
    series = fill_like(_E4, x) + r * (fill_like(_E5, x) + r * series)
    series = one + r * (one + r * (fill_like(_E2, x) + r * (fill_like(_E3, x) + r * series)))
    return one / (one + series * two_to(shifted))


@compiled
def _leaky(x: Lanes) -> Lanes:
    return where_positive(x, x, fill_like(LEAK, x) * x)


@compiled
def _slope(activation: Lanes, error: Lanes) -> Lanes:
    """The error in front of a LeakyReLU; the sign of what came out of it is the sign of what went in."""
    return below_is_zero(where_positive(activation, error, fill_like(LEAK, error) * error), TINY)


@compiled
def _zero_below(x: np.float32, limit: np.float32) -> np.float32:
    return _ZERO if abs(x) < limit else x


@compiled
def _bias_corrections(network: Core) -> tuple[np.float32, np.float32]:
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
def _adam(network: Core, at: int, gradient: Lanes, size: np.float32, scale: np.float32) -> None:
    """Move as many parameters as there are lanes (Kingma and Ba 2015, algorithm 1, eps behind the bias correction)."""
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
def _adam_one(network: Core, at: int, gradient: np.float32, size: np.float32, scale: np.float32) -> None:
    """`_adam` for one parameter."""
    mean = _zero_below(network.first[at] * _KEEP1 + gradient * _TAKE1, TINY)
    large = _zero_below(gradient, TINY_ROOT)
    square = _zero_below(network.second[at] * _KEEP2 + large * large * _TAKE2, TINY)
    network.first[at] = mean
    network.second[at] = square
    network.parameters[at] -= size * mean / (np.sqrt(square) * scale + EPSILON)


@compiled
def _errors(work: Address, at: int, targets: Address, count: int, share_of_one: np.float32) -> None:
    """Turn the logits z at `work[at:]` into errors of the cross-entropy: (sigmoid(z) - target) times the share of one.

    For target 1 that is -sigmoid(-z) times it, written so because 1 would swallow what the difference is about.
    """
    share, one = fill8(share_of_one), fill8(_ONE)
    for e in range(0, count, WIDTH):
        target = load8(targets, e)
        sign = one - (target + target)
        error = sign * sigmoid(sign * load8(work, at + e)) * share
        store(work, at + e, below_is_zero(error, TINY))


# One hidden layer of 8 units ------------------------------------------------------------------------------------------


@compiled
def _hidden_8(parameters: Address, inputs: int, source: Address, start: int) -> Lanes:
    """The activations of the hidden layer for the example at `source[start:]`."""
    sums = widen(load8(parameters, inputs * WIDTH))
    for i in range(inputs):
        sums = sums + widen(fill8(source[start + i])) * widen(load8(parameters, i * WIDTH))
    return _leaky(narrow(sums))


@compiled
def _output_8(hidden: Lanes, outgoing: Lanes, bias: np.float32) -> np.float32:
    """The logit."""
    return np.float32(total(widen(hidden) * widen(outgoing)) + np.float64(bias))


@compiled
def _logit_8(network: Core, source: Address, start: int) -> np.float32:
    inputs = network.inputs
    hidden = _hidden_8(network.parameters, inputs, source, start)
    outgoing = load8(network.parameters, (inputs + 1) * WIDTH)
    return _output_8(hidden, outgoing, network.parameters[(inputs + 2) * WIDTH])


@compiled
def _forward_8(network: Core, source: Address, starts: Address, count: int, errors: int) -> None:
    """Put the hidden activations of each example at the beginning of the scratch, the logits at `errors`."""
    inputs, parameters, work = network.inputs, network.parameters, network.work
    outgoing = load8(parameters, (inputs + 1) * WIDTH)
    last_bias = parameters[(inputs + 2) * WIDTH]
    fours = count - count % 4
    for e in range(0, fours, 4):
        sa, sb, sc, sd = starts[e], starts[e + 1], starts[e + 2], starts[e + 3]
        a = widen(load8(parameters, inputs * WIDTH))
        b, c, d = a, a, a
        for i in range(inputs):
            weights = widen(load8(parameters, i * WIDTH))
            a = a + widen(fill8(source[sa + i])) * weights
            b = b + widen(fill8(source[sb + i])) * weights
            c = c + widen(fill8(source[sc + i])) * weights
            d = d + widen(fill8(source[sd + i])) * weights
        hidden_a, hidden_b, hidden_c, hidden_d = (
            _leaky(narrow(a)),
            _leaky(narrow(b)),
            _leaky(narrow(c)),
            _leaky(narrow(d)),
        )
        store(work, e * WIDTH, hidden_a)
        store(work, (e + 1) * WIDTH, hidden_b)
        store(work, (e + 2) * WIDTH, hidden_c)
        store(work, (e + 3) * WIDTH, hidden_d)
        work[errors + e] = _output_8(hidden_a, outgoing, last_bias)
        work[errors + e + 1] = _output_8(hidden_b, outgoing, last_bias)
        work[errors + e + 2] = _output_8(hidden_c, outgoing, last_bias)
        work[errors + e + 3] = _output_8(hidden_d, outgoing, last_bias)
    for e in range(fours, count):
        hidden = _hidden_8(parameters, inputs, source, starts[e])
        store(work, e * WIDTH, hidden)
        work[errors + e] = _output_8(hidden, outgoing, last_bias)


@compiled
def _descend_8(
    network: Core,
    source: Address,
    starts: Address,
    hiddens: int,
    errors: int,
    count: int,
    size: np.float32,
    scale: np.float32,
) -> None:
    """One step, of the activations at `hiddens` and the errors at `errors` in the scratch, with Adam's corrections."""
    inputs, parameters, work = network.inputs, network.parameters, network.work
    outgoing = load8(parameters, (inputs + 1) * WIDTH)
    outgoing_gradient = fill8(_ZERO)
    bias_gradient = fill8(_ZERO)
    last_gradient = _ZERO
    for e in range(count):
        hidden, error = load8(work, hiddens + e * WIDTH), fill8(work[errors + e])
        outgoing_gradient = outgoing_gradient + hidden * error
        last_gradient += work[errors + e]
        error = _slope(hidden, outgoing * error)
        bias_gradient = bias_gradient + error
        store(work, hiddens + e * WIDTH, error)

    decay, even = np.float32(2.0 * network.rates[1]), inputs - inputs % 2
    for i in range(0, even, 2):
        two = fill16(_ZERO)
        for e in range(count):
            at, error = starts[e] + i, load8(work, hiddens + e * WIDTH)
            two = two + join(fill8(source[at]), fill8(source[at + 1])) * join(error, error)
        _adam(network, i * WIDTH, two + fill16(decay) * load16(parameters, i * WIDTH), size, scale)
    if even < inputs:
        one = fill8(_ZERO)
        for e in range(count):
            one = one + fill8(source[starts[e] + even]) * load8(work, hiddens + e * WIDTH)
        _adam(network, even * WIDTH, one + fill8(decay) * load8(parameters, even * WIDTH), size, scale)
    _adam(network, inputs * WIDTH, join(bias_gradient, outgoing_gradient), size, scale)
    _adam_one(network, (inputs + 2) * WIDTH, last_gradient, size, scale)


@compiled
def _learn_8(network: Core, source: Address, starts: Address, targets: Address, count: int, weight: np.float32) -> None:
    errors = count * WIDTH
    _forward_8(network, source, starts, count, errors)
    _errors(network.work, errors, targets, count, weight / np.float32(count))
    size, scale = _bias_corrections(network)
    _descend_8(network, source, starts, ORIGIN, errors, count, size, scale)


@compiled
def _forward_each_8(
    core: Core, source: Address, start: int, numbers: Address, count: int, hiddens: Address, logits: Address
) -> None:
    """One example through some networks, four at a time: hidden activations and logits, in the networks' order."""
    inputs, elements = core.inputs, core.elements
    bias, last = inputs * WIDTH, (inputs + 2) * WIDTH
    fours = count - count % 4
    for n in range(0, fours, 4):
        one, two = later(core.parameters, numbers[n] * elements), later(core.parameters, numbers[n + 1] * elements)
        three = later(core.parameters, numbers[n + 2] * elements)
        four = later(core.parameters, numbers[n + 3] * elements)
        a, b, c, d = (
            widen(load8(one, bias)),
            widen(load8(two, bias)),
            widen(load8(three, bias)),
            widen(load8(four, bias)),
        )
        for i in range(inputs):
            value = widen(fill8(source[start + i]))
            a = a + value * widen(load8(one, i * WIDTH))
            b = b + value * widen(load8(two, i * WIDTH))
            c = c + value * widen(load8(three, i * WIDTH))
            d = d + value * widen(load8(four, i * WIDTH))
        hidden_a, hidden_b, hidden_c, hidden_d = (
            _leaky(narrow(a)),
            _leaky(narrow(b)),
            _leaky(narrow(c)),
            _leaky(narrow(d)),
        )
        store(hiddens, n * WIDTH, hidden_a)
        store(hiddens, (n + 1) * WIDTH, hidden_b)
        store(hiddens, (n + 2) * WIDTH, hidden_c)
        store(hiddens, (n + 3) * WIDTH, hidden_d)
        logits[n] = _output_8(hidden_a, load8(one, bias + WIDTH), one[last])
        logits[n + 1] = _output_8(hidden_b, load8(two, bias + WIDTH), two[last])
        logits[n + 2] = _output_8(hidden_c, load8(three, bias + WIDTH), three[last])
        logits[n + 3] = _output_8(hidden_d, load8(four, bias + WIDTH), four[last])
    for n in range(fours, count):
        parameters = later(core.parameters, numbers[n] * elements)
        hidden = _hidden_8(parameters, inputs, source, start)
        store(hiddens, n * WIDTH, hidden)
        logits[n] = _output_8(hidden, load8(parameters, bias + WIDTH), parameters[last])


@compiled
def _predict_each_8(core: Core, source: Address, start: int, scores: Address) -> None:
    """P(class 1) by each network: all logits, then eight sigmoids at once."""
    for n in range(core.networks):
        core.places[n] = n
    _forward_each_8(core, source, start, core.places, core.networks, core.work, scores)
    for n in range(0, core.networks, WIDTH):
        store(scores, n, sigmoid(load8(scores, n)))


@compiled
def _learn_each_8(core: Core, source: Address, starts: Address, targets: Address, steps: Address) -> int:
    """As many steps as `steps` says on one example in each network; how many they were.

    In turns: every network that has a step left takes one, eight networks at a time. Their steps have nothing to do
    with each other, so the processor works on several at once.
    """
    work, places, most = core.work, core.places, ORIGIN
    taken: int = ORIGIN
    errors = WIDTH * WIDTH
    wanted, sizes, scales = errors + WIDTH, errors + 2 * WIDTH, errors + 3 * WIDTH
    store(work, wanted, fill8(targets[0]))
    for n in range(core.networks):
        most = max(most, steps[n])
    for turn in range(most):
        active = ORIGIN
        for n in range(core.networks):
            places[active] = n
            active += 1 if steps[n] > turn else 0
        for first_of in range(0, active, WIDTH):
            count, numbers = min(WIDTH, active - first_of), later(places, first_of)
            _forward_each_8(core, source, starts[0], numbers, count, work, later(work, errors))
            _errors(work, errors, later(work, wanted), count, _ONE)
            for a in range(count):
                work[sizes + a], work[scales + a] = _bias_corrections(_member(core, numbers[a]))
            for a in range(count):
                member, size, scale = _member(core, numbers[a]), work[sizes + a], work[scales + a]
                _descend_8(member, source, starts, a * WIDTH, errors + a, SINGLE, size, scale)
        taken += active
    return taken


# Any number of hidden layers of any width -----------------------------------------------------------------------------
#
# An example's activations and errors lie `_stride(units)` apart. Loops go along the weights of four inputs, so that
# each weight is fetched from memory once for all examples.


@compiled
def _padded(count: int) -> int:
    """As `padded`, which is called from outside."""
    return -(-count // WIDTH) * WIDTH


@compiled
def _stride(units: int) -> int:
    """Logits lie side by side. Others have a vector's room between them: powers of two would share cache lines."""
    return 1 if units == 1 else -(-units // WIDE) * WIDE + WIDE


@compiled
def _add_inputs(
    weights: Address, row: int, units: int, source: Address, at: int, sums: Address, into: int, length: int
) -> None:
    """Add `BLOCK` values from `source[at]` on, times their weights, to `length` sums of one example."""
    x, y, z, u = source[at], source[at + 1], source[at + 2], source[at + 3]
    if x == _ZERO and y == _ZERO and z == _ZERO and u == _ZERO:  # adds nothing: most pixels
        return
    wide_x, wide_y, wide_z, wide_u = widen(fill8(x)), widen(fill8(y)), widen(fill8(z)), widen(fill8(u))
    whole = length // WIDTH * WIDTH
    for unit in range(0, whole, WIDTH):
        place = row + unit
        lanes = load8_double(sums, into + unit) + wide_x * widen(load8(weights, place))
        lanes = lanes + wide_y * widen(load8(weights, place + units))
        lanes = lanes + wide_z * widen(load8(weights, place + 2 * units))
        store(sums, into + unit, lanes + wide_u * widen(load8(weights, place + 3 * units)))
    for k in range(BLOCK):
        _add_input(weights, row + k * units + whole, source[at + k], sums, into + whole, length - whole)


@compiled
def _add_input(weights: Address, row: int, value: np.float32, sums: Address, into: int, length: int) -> None:
    """Add one value times its weights to `length` sums of one example."""
    for unit in range(length):
        sums[into + unit] += np.float64(value) * np.float64(weights[row + unit])


@compiled
def _logit(network: Core, at: int, inputs: int, place: int) -> np.float32:
    """The last layer: eight partial sums, added in a fixed order, then the rest one by one, then the bias."""
    weights, work = network.parameters, network.work
    sums, whole = widen(fill8(_ZERO)), inputs // WIDTH * WIDTH
    for k in range(0, whole, WIDTH):
        sums = sums + widen(load8(weights, at + k)) * widen(load8(work, place + k))
    result = total(sums)
    for k in range(whole, inputs):
        result += np.float64(weights[at + k]) * np.float64(work[place + k])
    return np.float32(result + np.float64(weights[at + inputs]))


@compiled
def _dot(left: Address, left_at: int, right: Address, right_at: int, length: int) -> np.float32:
    """The scalar product: sixteen partial sums, added in a fixed order, then the rest one by one."""
    sums, whole = fill16(_ZERO), length // WIDE * WIDE
    for k in range(0, whole, WIDE):
        sums = sums + load16(left, left_at + k) * load16(right, right_at + k)
    result: np.float32 = total(sums)
    for k in range(whole, length):
        result += left[left_at + k] * right[right_at + k]
    return result


@compiled
def _layer(
    network: Core, at: int, inputs: int, units: int, source: Address, starts: Address, place: int, count: int
) -> None:
    """The sums of one layer in all examples, a chunk of units at a time, inputs in order."""
    weights, work, sums, stride = network.parameters, network.work, network.sums, _stride(units)
    biases, whole = at + inputs * units, inputs // BLOCK * BLOCK
    for unit in range(0, units, CHUNK):
        length = min(CHUNK, units - unit)
        for e in range(count):
            for k in range(length):
                sums[e * CHUNK + k] = np.float64(weights[biases + unit + k])
        for i in range(0, whole, BLOCK):
            for e in range(count):
                _add_inputs(weights, at + i * units + unit, units, source, starts[e] + i, sums, e * CHUNK, length)
        for i in range(whole, inputs):
            for e in range(count):
                _add_input(weights, at + i * units + unit, source[starts[e] + i], sums, e * CHUNK, length)
        for e in range(count):
            for k in range(length):
                work[place + e * stride + unit + k] = np.float32(sums[e * CHUNK + k])


@compiled
def _rectify(work: Address, at: int, units: int) -> None:
    for unit in range(units):
        value = work[at + unit]
        work[at + unit] = value if value > _ZERO else LEAK * value


@compiled
def _forward(network: Core, source: Address, starts: Address, count: int) -> tuple[int, int]:
    """Fill the scratch with all activations; where the last layer's parameters and the logits begin."""
    widths, work, places = network.widths, network.work, network.places
    at, before, place = ORIGIN, ORIGIN, ORIGIN
    for layer in range(network.layers):
        inputs, units = widths[layer], widths[layer + 1]
        if layer == 0:
            _layer(network, at, inputs, units, source, starts, place, count)
        else:
            at += (widths[layer - 1] + 1) * inputs
            before, place = place, place + _padded(count) * _stride(inputs)
            for e in range(count):
                places[e] = before + e * _stride(inputs)
            if layer < network.layers - 1:
                _layer(network, at, inputs, units, work, places, place, count)
            else:
                for e in range(count):
                    work[place + e] = _logit(network, at, inputs, places[e])
        if layer < network.layers - 1:
            for e in range(count):
                _rectify(work, place + e * _stride(units), units)
    return at, place


@compiled
def _back(
    network: Core, row: int, units: int, errors: int, activations: int, into: int, stride: int, count: int
) -> None:
    """The errors of one input's unit in all examples; they and its activations lie `stride` apart."""
    work = network.work
    for e in range(count):
        error = _dot(network.parameters, row, work, errors + e * _stride(units), units)
        error = error if work[activations + e * stride] > _ZERO else LEAK * error
        work[into + e * stride] = _zero_below(error, TINY)


@compiled
def _back_block(
    network: Core, row: int, units: int, errors: int, activations: int, into: int, stride: int, count: int
) -> None:
    """`_back` for `BLOCK` inputs, with the sums in the order of `_dot`."""
    weights, work, whole = network.parameters, network.work, units // WIDE * WIDE
    for e in range(count):
        a, b, c, d = fill16(_ZERO), fill16(_ZERO), fill16(_ZERO), fill16(_ZERO)
        start = errors + e * _stride(units)
        for k in range(0, whole, WIDE):
            error, place = load16(work, start + k), row + k
            a = a + load16(weights, place) * error
            b = b + load16(weights, place + units) * error
            c = c + load16(weights, place + 2 * units) * error
            d = d + load16(weights, place + 3 * units) * error
        for i, total_error in enumerate((total(a), total(b), total(c), total(d))):
            value = total_error
            for k in range(whole, units):
                value += weights[row + i * units + k] * work[start + k]
            value = value if work[activations + e * stride + i] > _ZERO else LEAK * value
            work[into + e * stride + i] = _zero_below(value, TINY)


@compiled
def _step(
    network: Core,
    row: int,
    first_unit: int,
    units: int,
    source: Address,
    starts: Address,
    i: int,
    errors: int,
    count: int,
    decay: np.float32,
    rates: tuple[np.float32, np.float32],
) -> None:
    """Gradient and Adam step of the weights from input i to the units from `first_unit` on."""
    work, stride = network.work, _stride(units)
    whole = first_unit + (units - first_unit) // WIDE * WIDE
    for unit in range(first_unit, whole, WIDE):
        gradient = fill16(decay) * load16(network.parameters, row + unit)
        for e in range(count):
            gradient = gradient + fill16(source[starts[e] + i]) * load16(work, errors + e * stride + unit)
        _adam(network, row + unit, gradient, rates[0], rates[1])
    for unit in range(whole, units):
        one = decay * network.parameters[row + unit]
        for e in range(count):
            one += source[starts[e] + i] * work[errors + e * stride + unit]
        _adam_one(network, row + unit, one, rates[0], rates[1])


@compiled
def _step_block(
    network: Core,
    row: int,
    units: int,
    source: Address,
    starts: Address,
    i: int,
    errors: int,
    count: int,
    decay: np.float32,
    rates: tuple[np.float32, np.float32],
) -> None:
    """`_step` for `BLOCK` inputs."""
    weights, work, stride = network.parameters, network.work, _stride(units)
    whole = units // WIDE * WIDE
    for unit in range(0, whole, WIDE):
        place, pull = row + unit, fill16(decay)
        a, b = pull * load16(weights, place), pull * load16(weights, place + units)
        c, d = pull * load16(weights, place + 2 * units), pull * load16(weights, place + 3 * units)
        for e in range(count):
            at = starts[e] + i
            x, y, z, u = source[at], source[at + 1], source[at + 2], source[at + 3]
            if x != _ZERO or y != _ZERO or z != _ZERO or u != _ZERO:
                error = load16(work, errors + e * stride + unit)
                a = a + fill16(x) * error
                b = b + fill16(y) * error
                c = c + fill16(z) * error
                d = d + fill16(u) * error
        _adam(network, place, a, rates[0], rates[1])
        _adam(network, place + units, b, rates[0], rates[1])
        _adam(network, place + 2 * units, c, rates[0], rates[1])
        _adam(network, place + 3 * units, d, rates[0], rates[1])
    if whole < units:
        for k in range(BLOCK):
            _step(network, row + k * units, whole, units, source, starts, i + k, errors, count, decay, rates)


@compiled
def _learn(network: Core, source: Address, starts: Address, targets: Address, count: int, weight: np.float32) -> None:
    """From the last layer to the first: errors of the layer before (from weights not yet moved), then the step."""
    widths, work, places = network.widths, network.work, network.places
    at, place = _forward(network, source, starts, count)
    _errors(work, place, targets, count, weight / np.float32(count))
    errors, free = place, place + _padded(count)
    rates = _bias_corrections(network)
    decay = _ZERO
    for layer in range(network.layers - 1, -1, -1):
        inputs, units, stride = widths[layer], widths[layer + 1], _stride(widths[layer])
        before, whole = place - _padded(count) * stride, inputs // BLOCK * BLOCK
        values, begins = (work, places) if layer > 0 else (source, starts)
        for e in range(count):
            places[e] = before + e * stride
        for i in range(0, whole, BLOCK):
            row = at + i * units
            if layer > 0:
                _back_block(network, row, units, errors, before + i, free + i, stride, count)
            _step_block(network, row, units, values, begins, i, errors, count, decay, rates)
        for i in range(whole, inputs):
            row = at + i * units
            if layer > 0:
                _back(network, row, units, errors, before + i, free + i, stride, count)
            _step(network, row, ORIGIN, units, values, begins, i, errors, count, decay, rates)
        for e in range(count):
            places[e] = network.work_elements - 1
        work[network.work_elements - 1] = _ONE
        _step(network, at + inputs * units, ORIGIN, units, work, places, ORIGIN, errors, count, _ZERO, rates)
        if layer > 0:
            at -= (widths[layer - 1] + 1) * inputs
            place, errors, free = before, free, free + _padded(count) * stride
        decay = np.float32(2.0 * network.rates[1])


# The door -------------------------------------------------------------------------------------------------------------


@inlined
def predict(core: Core, source: Address, start: int, scores: Address) -> None:
    """P(class 1) of the example whose features begin at `source[start]`, by each network, into `scores`.

    `scores` has a multiple of eight elements, at least as many as there are networks.
    """
    if core.eight and core.networks == 1:
        scores[0] = first(sigmoid(fill8(_logit_8(core, source, start))))
        return
    if core.eight:
        _predict_each_8(core, source, start, scores)
        return
    core.start[0] = start
    for n in range(core.networks):
        _, place = _forward(_member(core, n), source, core.start, SINGLE)
        scores[n] = core.work[place]
    for n in range(0, core.networks, WIDTH):
        store(scores, n, sigmoid(load8(scores, n)))


@inlined
def learn(
    core: Core, source: Address, starts: Address, targets: Address, count: int, weight: np.float32, steps: Address
) -> int:
    """Let network n take `steps[n]` steps on `count` examples; the sum of the steps.

    The examples' features lie from `source[starts[e]]` on, `targets[e]` is the class as 0.0 or 1.0, and `weight` is a
    factor of the loss (not of its L2 term). `targets` has a multiple of eight elements, at least `count`. Several
    networks learn one example at a time, with weight 1.
    """
    if core.eight and core.networks == 1:
        times: int = steps[0]
        for _ in range(times):
            _learn_8(core, source, starts, targets, count, weight)
        return times
    if core.eight:
        return _learn_each_8(core, source, starts, targets, steps)
    taken: int = ORIGIN
    for n in range(core.networks):
        member = _member(core, n)
        for _ in range(steps[n]):
            _learn(member, source, starts, targets, count, weight)
        taken += steps[n]
    return taken
