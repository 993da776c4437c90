"""Networks with any number of hidden layers of any width; without a hidden layer, logistic regression.

An example's activations and errors are `stride_of(units)` elements apart in the buffer. Loops run along the weights of
four inputs at a time, so that each weight is loaded from memory once for all examples.
"""

from typing import NamedTuple

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.networks.activations import LEAK, TINY, errors_of_logits, within_largest, zero_below
from stream_app.learners.networks.adam import StepSizes, adam_step, adam_step_one, step_sizes
from stream_app.learners.networks.dense_networks import (
    BLOCK,
    CHUNK,
    ONE_F32,
    WIDE,
    WIDTH,
    ZERO,
    ZERO_F32,
    DenseNetworks,
)
from stream_app.learners.networks.simd import fill8, fill16, load8, load8_double, load16, store, total, widen


class _StepExamples(NamedTuple):
    """The inputs of one layer in `number` examples: the inputs of example e begin at `source[starts[e]]`."""

    source: Pointer
    starts: Pointer
    number: int


class _StepRates(NamedTuple):
    """The numbers of a step: Adam's, and twice the L2 factor of the layer's weights."""

    sizes: StepSizes
    decay: np.float32


@compiled
def _padded_count(count: int) -> int:
    """Return the next multiple of `WIDTH`, as `dense_networks.padded` does for Python."""
    return -(-count // WIDTH) * WIDTH


@compiled
def _stride_of(units: int) -> int:
    """Return the distance in elements from the activations or errors of one example to the next example's.

    Logits are side by side. Wider layers leave room for a vector in between: with a stride that is a power of two, the
    examples would compete for the same lines of the cache.
    """
    return 1 if units == 1 else -(-units // WIDE) * WIDE + WIDE


@compiled
def _add_inputs(
    weights: Pointer, row: int, units: int, source: Pointer, at: int, sums: Pointer, into: int, length: int
) -> None:
    """Add the `BLOCK` values from `source[at]` on, times their weights, to `length` sums of one example."""
    x, y, z, u = source[at], source[at + 1], source[at + 2], source[at + 3]
    if x == ZERO_F32 and y == ZERO_F32 and z == ZERO_F32 and u == ZERO_F32:  # nothing to add: most pixels
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
def _add_input(weights: Pointer, row: int, value: np.float32, sums: Pointer, into: int, length: int) -> None:
    """Add one value times its weights to `length` sums of one example."""
    for unit in range(length):
        sums[into + unit] += np.float64(value) * np.float64(weights[row + unit])


@compiled
def _logit(network: DenseNetworks, at: int, inputs: int, place: int) -> np.float32:
    """Return the logit: eight partial sums, added in a fixed order, then the rest one by one, then the bias."""
    weights, work = network.parameters, network.work
    sums, whole = widen(fill8(ZERO_F32)), inputs // WIDTH * WIDTH
    for k in range(0, whole, WIDTH):
        sums = sums + widen(load8(weights, at + k)) * widen(load8(work, place + k))
    result = total(sums)
    for k in range(whole, inputs):
        result += np.float64(weights[at + k]) * np.float64(work[place + k])
    return np.float32(result + np.float64(weights[at + inputs]))


@compiled
def _dot(left: Pointer, left_at: int, right: Pointer, right_at: int, length: int) -> np.float32:
    """Return the scalar product: sixteen partial sums, added in a fixed order, then the rest one by one."""
    sums, whole = fill16(ZERO_F32), length // WIDE * WIDE
    for k in range(0, whole, WIDE):
        sums = sums + load16(left, left_at + k) * load16(right, right_at + k)
    result: np.float32 = total(sums)
    for k in range(whole, length):
        result += left[left_at + k] * right[right_at + k]
    return result


@compiled
def _layer(
    network: DenseNetworks,
    at: int,
    inputs: int,
    units: int,
    source: Pointer,
    starts: Pointer,
    place: int,
    count: int,
) -> None:
    """Compute the sums of one layer in all examples, a chunk of units at a time, the inputs in order."""
    weights, work, sums, stride = network.parameters, network.work, network.sums, _stride_of(units)
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
def _rectify(work: Pointer, at: int, units: int) -> None:
    """Apply LeakyReLU in place, within `LARGEST`."""
    for unit in range(units):
        value = work[at + unit]
        work[at + unit] = within_largest(value if value > ZERO_F32 else LEAK * value)


@compiled
def forward(network: DenseNetworks, source: Pointer, starts: Pointer, count: int) -> tuple[int, int]:
    """Fill `work` with all activations; return where the last layer's parameters, and the logits in `work`, begin."""
    widths, work, places = network.widths, network.work, network.places
    at, before, place = ZERO, ZERO, ZERO
    for layer in range(network.layers):
        inputs, units = widths[layer], widths[layer + 1]
        if layer == 0:
            _layer(network, at, inputs, units, source, starts, place, count)
        else:
            at += (widths[layer - 1] + 1) * inputs
            before, place = place, place + _padded_count(count) * _stride_of(inputs)
            for e in range(count):
                places[e] = before + e * _stride_of(inputs)
            if layer < network.layers - 1:
                _layer(network, at, inputs, units, work, places, place, count)
            else:
                for e in range(count):
                    work[place + e] = _logit(network, at, inputs, places[e])
        if layer < network.layers - 1:
            for e in range(count):
                _rectify(work, place + e * _stride_of(units), units)
    return at, place


@compiled
def _back(
    network: DenseNetworks, row: int, units: int, errors: int, activations: int, into: int, stride: int, count: int
) -> None:
    """Compute the errors of one input of a layer in all examples; they and its activations are `stride` apart."""
    work = network.work
    for e in range(count):
        error = _dot(network.parameters, row, work, errors + e * _stride_of(units), units)
        error = error if work[activations + e * stride] > ZERO_F32 else LEAK * error
        work[into + e * stride] = within_largest(zero_below(error, TINY))


@compiled
def _back_block(
    network: DenseNetworks, row: int, units: int, errors: int, activations: int, into: int, stride: int, count: int
) -> None:
    """Do what `_back` does, for `BLOCK` inputs; the sums are in the order of `_dot`."""
    weights, work, whole = network.parameters, network.work, units // WIDE * WIDE
    for e in range(count):
        a, b, c, d = fill16(ZERO_F32), fill16(ZERO_F32), fill16(ZERO_F32), fill16(ZERO_F32)
        start = errors + e * _stride_of(units)
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
            value = value if work[activations + e * stride + i] > ZERO_F32 else LEAK * value
            work[into + e * stride + i] = within_largest(zero_below(value, TINY))


@compiled
def _step_input(
    network: DenseNetworks,
    row: int,
    first_unit: int,
    units: int,
    examples: _StepExamples,
    i: int,
    errors: int,
    rates: _StepRates,
) -> None:
    """Take the gradient and the Adam step of the weights from input i to the units from `first_unit` on.

    Args:
        network: The network.
        row: Where the weights from input i begin in its parameters.
        first_unit: The first unit.
        units: Units of the layer.
        examples: The inputs of the layer.
        i: The input.
        errors: Where the errors of the layer begin in `network.work`.
        rates: Of the step.
    """
    work, stride = network.work, _stride_of(units)
    whole = first_unit + (units - first_unit) // WIDE * WIDE
    for unit in range(first_unit, whole, WIDE):
        gradient = fill16(rates.decay) * load16(network.parameters, row + unit)
        for e in range(examples.number):
            value = fill16(examples.source[examples.starts[e] + i])
            gradient = gradient + value * load16(work, errors + e * stride + unit)
        adam_step(network, row + unit, gradient, rates.sizes)
    for unit in range(whole, units):
        one = rates.decay * network.parameters[row + unit]
        for e in range(examples.number):
            one += examples.source[examples.starts[e] + i] * work[errors + e * stride + unit]
        adam_step_one(network, row + unit, one, rates.sizes)


@compiled
def _step_block(
    network: DenseNetworks, row: int, units: int, examples: _StepExamples, i: int, errors: int, rates: _StepRates
) -> None:
    """Do what `_step_input` does, for all units of the `BLOCK` inputs from i on."""
    weights, work, stride = network.parameters, network.work, _stride_of(units)
    source, starts = examples.source, examples.starts
    whole = units // WIDE * WIDE
    for unit in range(0, whole, WIDE):
        place, pull = row + unit, fill16(rates.decay)
        a, b = pull * load16(weights, place), pull * load16(weights, place + units)
        c, d = pull * load16(weights, place + 2 * units), pull * load16(weights, place + 3 * units)
        for e in range(examples.number):
            at = starts[e] + i
            x, y, z, u = source[at], source[at + 1], source[at + 2], source[at + 3]
            if x != ZERO_F32 or y != ZERO_F32 or z != ZERO_F32 or u != ZERO_F32:
                error = load16(work, errors + e * stride + unit)
                a = a + fill16(x) * error
                b = b + fill16(y) * error
                c = c + fill16(z) * error
                d = d + fill16(u) * error
        adam_step(network, place, a, rates.sizes)
        adam_step(network, place + units, b, rates.sizes)
        adam_step(network, place + 2 * units, c, rates.sizes)
        adam_step(network, place + 3 * units, d, rates.sizes)
    if whole < units:
        for k in range(BLOCK):
            _step_input(network, row + k * units, whole, units, examples, i + k, errors, rates)


@compiled
def learn_any_width(
    network: DenseNetworks, source: Pointer, starts: Pointer, targets: Pointer, count: int, weight: np.float32
) -> None:
    """Take one step: from the last layer to the first, the errors of the layer before, then the Adam step.

    The errors of the layer before are computed from weights that have not moved yet.
    """
    widths, work, places = network.widths, network.work, network.places
    at, place = forward(network, source, starts, count)
    errors_of_logits(work, place, targets, count, weight / np.float32(count))
    errors, free = place, place + _padded_count(count)
    sizes = step_sizes(network, weight)
    hidden_decay = np.float32(2.0 * network.rates[1])
    decay = ZERO_F32 if network.layers > 1 else hidden_decay  # L2 leaves out the last layer, unless it is the only one
    for layer in range(network.layers - 1, -1, -1):
        inputs, units, stride = widths[layer], widths[layer + 1], _stride_of(widths[layer])
        before, whole = place - _padded_count(count) * stride, inputs // BLOCK * BLOCK
        rates = _StepRates(sizes, decay)
        examples = _StepExamples(work, places, count) if layer > 0 else _StepExamples(source, starts, count)
        for e in range(count):
            places[e] = before + e * stride
        for i in range(0, whole, BLOCK):
            row = at + i * units
            if layer > 0:
                _back_block(network, row, units, errors, before + i, free + i, stride, count)
            _step_block(network, row, units, examples, i, errors, rates)
        for i in range(whole, inputs):
            row = at + i * units
            if layer > 0:
                _back(network, row, units, errors, before + i, free + i, stride, count)
            _step_input(network, row, ZERO, units, examples, i, errors, rates)
        # The biases are weights from an input that is 1 in every example, without L2.
        for e in range(count):
            places[e] = network.work_elements - 1
        work[network.work_elements - 1] = ONE_F32
        ones = _StepExamples(work, places, count)
        bias_rates = _StepRates(sizes, ZERO_F32)
        _step_input(network, at + inputs * units, ZERO, units, ones, ZERO, errors, bias_rates)
        if layer > 0:
            at -= (widths[layer - 1] + 1) * inputs
            place, errors, free = before, free, free + _padded_count(count) * stride
        decay = hidden_decay
