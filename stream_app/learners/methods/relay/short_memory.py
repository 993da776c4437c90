"""RELAY's short memory: a second network that learns from the newest examples of each class alone.

Where a concept turns or returns, what a long memory keeps is partly false, and no alarm is raised. So a second network
always learns from the newest `NEWEST` examples of each class, without jitter and averaged weights, and with one factor
for all features in place of their gates. It predicts while it is better (paired learners: Bach and Maloof 2008).

Both networks predict each label before they learn it. The gain of a label is how much smaller the short memory's
|label - P(class 1)| is. The mean of the gains and of their squares fade, of each class alone. The short memory begins
to predict when the sum of both classes' mean gains is more than `_CLEAR` of its standard errors, and ends when the sum
is negative. Under false labels a gain is often large by chance, so the standard error is, and the long memory predicts.

What predicts is a copy of the network that is chosen, so that an exported model is one network. The layers of a network
of the user's own are not known: there, the examples of the short memory pass the gates, too.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.method_state import NEGATIVE, POSITIVE, LearnerView
from stream_app.learners.methods.relay.feature_gates import pass_gates
from stream_app.learners.methods.relay.state import (
    AVERAGE,
    COMPARED,
    GAIN,
    IS_SHORT,
    PREDICTOR,
    SHORT,
    SQUARED_GAIN,
    WITH_GATES,
    RelayState,
)
from stream_app.learners.networks.dense_networks import DenseNetworks

NEWEST = 15
"""The examples of each class from which the short memory learns."""

_FACTOR = np.float32(0.4)
"""What its standardised features are multiplied by: with small inputs, few examples are fitted less closely."""

_RATE = 0.05
"""The rate at which the means of the gains fade; a mean stands for at most the inverse of it."""

_FEWEST, _CLEAR, _LEAST_VARIANCE = 3, 2.0, 0.02
"""Labels of each class, and standard errors, from which the short memory predicts; the least variance of a gain."""


@compiled
def compare(own: RelayState, learner: LearnerView, label: int) -> None:
    """Take a label into the gains of its class, and choose the network that predicts."""
    tallies, errors, scores = own.tallies, own.errors, learner.state.scores
    tallies[COMPARED + label] += 1
    share = max(_RATE, 1.0 / tallies[COMPARED + label])
    gain = abs(np.float64(label) - np.float64(scores[AVERAGE])) - abs(np.float64(label) - np.float64(scores[SHORT]))
    errors[GAIN + label] += share * (gain - errors[GAIN + label])
    errors[SQUARED_GAIN + label] += share * (gain * gain - errors[SQUARED_GAIN + label])
    if min(tallies[COMPARED + NEGATIVE], tallies[COMPARED + POSITIVE]) < _FEWEST:
        return
    total, variance = 0.0, 0.0
    for k in range(2):
        mean = errors[GAIN + k]
        total += mean
        spread = max(errors[SQUARED_GAIN + k] - mean * mean, 0.0)
        variance += (spread + _LEAST_VARIANCE) * max(_RATE, 1.0 / tallies[COMPARED + k])
    if total > _CLEAR * np.sqrt(variance):
        tallies[IS_SHORT] = 1
    elif total < 0.0:
        tallies[IS_SHORT] = 0


@compiled
def make_small(own: RelayState, networks: DenseNetworks, batch: Pointer, at: int) -> None:
    """Multiply the standardised example at `batch[at:]` by the factor; by the gates in networks of unknown layers."""
    if networks.layers == 0:
        pass_gates(own, batch, at)
        return
    for i in range(own.width):
        batch[at + i] *= _FACTOR


@compiled
def copy_predictor(own: RelayState, networks: DenseNetworks) -> None:
    """Copy the network that is chosen to the one that predicts.

    Examples that are predicted have passed the gates. So the first weights of a short memory are multiplied by its
    factor and divided by the gates.
    """
    size, is_short = networks.elements, own.tallies[IS_SHORT] == 1
    source = SHORT if is_short else AVERAGE
    for k in range(size):
        networks.parameters[PREDICTOR * size + k] = networks.parameters[source * size + k]
    if not is_short or networks.layers == 0:
        return
    units = networks.widths[1]
    for i in range(own.width):
        factor = _FACTOR
        if own.mechanisms & WITH_GATES != 0:
            factor /= own.gates[i]
        for k in range(units):
            networks.parameters[PREDICTOR * size + i * units + k] *= factor
