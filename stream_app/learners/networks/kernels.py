"""Compiled dense networks: predict one example, learn from a few.

LeakyReLU (0.01) follows each hidden layer, a sigmoid the last layer. To learn is to take one Adam step (Torch's
form, eps 1e-7) on the mean binary cross-entropy of the given examples plus `l2` times the sum of the squared weights of
the hidden layers, or of the only layer.

There are two paths: one hidden layer of 8 units (`width8`), and all other shapes (`any_width`). Both keep one strict
order of sums, on any batch and machine, so equal operations give equal bits. The sums of units and logits
are float64, rounded once: near the bend of LeakyReLU, rounding would otherwise decide the slope.
"""

import numpy as np

from stream_app.jit.compiler import inlined
from stream_app.jit.memory import Pointer
from stream_app.learners.networks.activations import sigmoid
from stream_app.learners.networks.any_width import forward, learn_any_width
from stream_app.learners.networks.dense_networks import ONE, WIDTH, ZERO, DenseNetworks, member_of
from stream_app.learners.networks.simd import fill8, first, load8, store
from stream_app.learners.networks.width8 import learn_8, learn_each_8, logit_8, predict_each_8


@inlined
def predict(networks: DenseNetworks, source: Pointer, start: int, scores: Pointer) -> None:
    """Put each network's P(class 1) of one example into `scores`.

    Args:
        networks: The networks.
        source: The features of the example begin at `source[start]`.
        start: See `source`.
        scores: Has a multiple of eight elements, at least as many as there are networks.
    """
    if networks.eight and networks.networks == 1:
        scores[0] = first(sigmoid(fill8(logit_8(networks, source, start))))
        return
    if networks.eight:
        predict_each_8(networks, source, start, scores)
        return
    networks.start[0] = start
    for n in range(networks.networks):
        _, place = forward(member_of(networks, n), source, networks.start, ONE)
        scores[n] = networks.work[place]
    for n in range(0, networks.networks, WIDTH):
        store(scores, n, sigmoid(load8(scores, n)))


@inlined
def learn(
    networks: DenseNetworks,
    source: Pointer,
    starts: Pointer,
    targets: Pointer,
    count: int,
    weight: np.float32,
    steps: Pointer,
) -> int:
    """Let network n take `steps[n]` steps on the same examples; return the sum of the steps.

    Several networks learn with weight 1.

    Args:
        networks: The networks.
        source: The features of example e begin at `source[starts[e]]`.
        starts: See `source`.
        targets: The classes, 0.0 or 1.0; has a multiple of eight elements, at least `count`.
        count: The number of examples.
        weight: A factor of the loss, but not of its L2 term.
        steps: By network.
    """
    if networks.eight and networks.networks > 1 and count == 1:
        return learn_each_8(networks, source, starts, targets, steps)
    taken: int = ZERO
    for n in range(networks.networks):
        times = steps[n]
        if times > 0:
            member = member_of(networks, n)
            for _ in range(times):
                if networks.eight:
                    learn_8(member, source, starts, targets, count, weight)
                else:
                    learn_any_width(member, source, starts, targets, count, weight)
            taken += times
    return taken
