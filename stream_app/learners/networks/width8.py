"""Networks with one hidden layer of 8 units, the paper's: one vector register holds the sums of a whole layer.

The parameters of a network with d inputs are in rows of 8: row i < d has the weights from input i to the hidden units,
row d the biases of the hidden units, row d + 1 the outgoing weights; then comes the bias of the output.

Four examples, or four networks of an ensemble, are worked on together: their sums do not depend on each other, so the
CPU's pipelines overlap them. Each sum keeps its own order, so the results are the same.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer, offset_pointer
from stream_app.learners.networks.activations import errors_of_logits, leaky_relu, leaky_relu_error, sigmoid
from stream_app.learners.networks.adam import LEAST_LIMIT, StepSizes, adam_step, adam_step_one, step_sizes
from stream_app.learners.networks.dense_networks import (
    ONE,
    ONE_F32,
    WIDTH,
    ZERO,
    ZERO_F32,
    DenseNetworks,
    member_of,
)
from stream_app.learners.networks.simd import Float32x8, fill8, fill16, join, load8, load16, narrow, store, total, widen


@compiled
def _hidden_8(parameters: Pointer, inputs: int, source: Pointer, start: int) -> Float32x8:
    """Return the activations of the hidden layer for the example at `source[start:]`."""
    sums = widen(load8(parameters, inputs * WIDTH))
    for i in range(inputs):
        sums = sums + widen(fill8(source[start + i])) * widen(load8(parameters, i * WIDTH))
    return leaky_relu(narrow(sums))


@compiled
def _output_8(hidden: Float32x8, outgoing: Float32x8, bias: np.float32) -> np.float32:
    """Return the logit, given the activations of the hidden layer."""
    return np.float32(total(widen(hidden) * widen(outgoing)) + np.float64(bias))


@compiled
def logit_8(network: DenseNetworks, source: Pointer, start: int) -> np.float32:
    """Return the logit of the example at `source[start:]`."""
    inputs = network.inputs
    hidden = _hidden_8(network.parameters, inputs, source, start)
    outgoing = load8(network.parameters, (inputs + 1) * WIDTH)
    return _output_8(hidden, outgoing, network.parameters[(inputs + 2) * WIDTH])


@compiled
def _forward_8(network: DenseNetworks, source: Pointer, starts: Pointer, count: int, errors: int) -> None:
    """Put the hidden activations of each example at the beginning of `work`, and the logits at `work[errors:]`."""
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
            leaky_relu(narrow(a)),
            leaky_relu(narrow(b)),
            leaky_relu(narrow(c)),
            leaky_relu(narrow(d)),
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
    network: DenseNetworks,
    source: Pointer,
    starts: Pointer,
    hiddens: int,
    errors: int,
    count: int,
    sizes: StepSizes,
) -> None:
    """Take one step from the activations and the errors in `work`.

    Args:
        network: The network.
        source: The features of example e begin at `source[starts[e]]`.
        starts: See `source`.
        hiddens: Where the hidden activations begin in `work`; they are overwritten with the hidden errors.
        errors: Where the errors of the logits begin in `work`.
        count: The number of examples.
        sizes: Of the step.
    """
    inputs, parameters, work = network.inputs, network.parameters, network.work
    outgoing = load8(parameters, (inputs + 1) * WIDTH)
    outgoing_gradient = fill8(ZERO_F32)
    bias_gradient = fill8(ZERO_F32)
    last_gradient = ZERO_F32
    for e in range(count):
        hidden, error = load8(work, hiddens + e * WIDTH), fill8(work[errors + e])
        outgoing_gradient = outgoing_gradient + hidden * error
        last_gradient += work[errors + e]
        error = leaky_relu_error(hidden, outgoing * error)
        bias_gradient = bias_gradient + error
        store(work, hiddens + e * WIDTH, error)

    decay, even = np.float32(2.0 * network.rates[1]), inputs - inputs % 2
    for i in range(0, even, 2):
        two = fill16(ZERO_F32)
        for e in range(count):
            at, error = starts[e] + i, load8(work, hiddens + e * WIDTH)
            two = two + join(fill8(source[at]), fill8(source[at + 1])) * join(error, error)
        adam_step(network, i * WIDTH, two + fill16(decay) * load16(parameters, i * WIDTH), sizes)
    if even < inputs:
        one = fill8(ZERO_F32)
        for e in range(count):
            one = one + fill8(source[starts[e] + even]) * load8(work, hiddens + e * WIDTH)
        adam_step(network, even * WIDTH, one + fill8(decay) * load8(parameters, even * WIDTH), sizes)
    adam_step(network, inputs * WIDTH, join(bias_gradient, outgoing_gradient), sizes)
    adam_step_one(network, (inputs + 2) * WIDTH, last_gradient, sizes)


@compiled
def learn_8(
    network: DenseNetworks, source: Pointer, starts: Pointer, targets: Pointer, count: int, weight: np.float32
) -> None:
    """Take one step on `count` examples; see `kernels.learn`."""
    errors = count * WIDTH
    _forward_8(network, source, starts, count, errors)
    errors_of_logits(network.work, errors, targets, count, weight / np.float32(count))
    _descend_8(network, source, starts, ZERO, errors, count, step_sizes(network, weight))


@compiled
def _forward_each_8(
    networks: DenseNetworks,
    source: Pointer,
    start: int,
    numbers: Pointer,
    count: int,
    hiddens: Pointer,
    logits: Pointer,
) -> None:
    """Put the hidden activations and the logit of one example in each of these networks into `hiddens` and `logits`."""
    inputs, elements = networks.inputs, networks.elements
    bias, last = inputs * WIDTH, (inputs + 2) * WIDTH
    fours = count - count % 4
    for n in range(0, fours, 4):
        one, two = (
            offset_pointer(networks.parameters, numbers[n] * elements),
            offset_pointer(networks.parameters, numbers[n + 1] * elements),
        )
        three = offset_pointer(networks.parameters, numbers[n + 2] * elements)
        four = offset_pointer(networks.parameters, numbers[n + 3] * elements)
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
            leaky_relu(narrow(a)),
            leaky_relu(narrow(b)),
            leaky_relu(narrow(c)),
            leaky_relu(narrow(d)),
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
        parameters = offset_pointer(networks.parameters, numbers[n] * elements)
        hidden = _hidden_8(parameters, inputs, source, start)
        store(hiddens, n * WIDTH, hidden)
        logits[n] = _output_8(hidden, load8(parameters, bias + WIDTH), parameters[last])


@compiled
def predict_each_8(networks: DenseNetworks, source: Pointer, start: int, scores: Pointer) -> None:
    """Put each network's P(class 1) into `scores`: all logits, then eight sigmoids at once."""
    for n in range(networks.networks):
        networks.places[n] = n
    _forward_each_8(networks, source, start, networks.places, networks.networks, networks.work, scores)
    for n in range(0, networks.networks, WIDTH):
        store(scores, n, sigmoid(load8(scores, n)))


@compiled
def learn_each_8(networks: DenseNetworks, source: Pointer, starts: Pointer, targets: Pointer, steps: Pointer) -> int:
    """Let network n take `steps[n]` steps on one example; return the sum of the steps.

    In each turn, every network that has a step left takes one, eight networks at a time. Their steps do not depend on
    each other, so the CPU's pipelines overlap them.
    """
    work, places, most = networks.work, networks.places, ZERO
    taken: int = ZERO
    errors = WIDTH * WIDTH
    wanted, sizes, scales = errors + WIDTH, errors + 2 * WIDTH, errors + 3 * WIDTH
    store(work, wanted, fill8(targets[0]))
    for n in range(networks.networks):
        most = max(most, steps[n])
    for turn in range(most):
        active = ZERO
        for n in range(networks.networks):
            places[active] = n
            active += 1 if steps[n] > turn else 0
        for first_of in range(0, active, WIDTH):
            count, numbers = min(WIDTH, active - first_of), offset_pointer(places, first_of)
            _forward_each_8(networks, source, starts[0], numbers, count, work, offset_pointer(work, errors))
            errors_of_logits(work, errors, offset_pointer(work, wanted), count, ONE_F32)
            for a in range(count):
                own = step_sizes(member_of(networks, numbers[a]), ONE_F32)
                work[sizes + a], work[scales + a] = own.size, own.scale
            for a in range(count):
                own = StepSizes(work[sizes + a], work[scales + a], LEAST_LIMIT)
                _descend_8(member_of(networks, numbers[a]), source, starts, a * WIDTH, errors + a, ONE, own)
        taken += active
    return taken
