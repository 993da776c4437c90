"""RELAY's challenger: a second network that begins after a sudden drift, and takes over if it is clearly better.

A sudden drift makes the kept examples false. The alarm compares the network's faded error in a class with the slower
average of the same error. On an alarm a challenger begins: a network with the learner's first weights, which draws from
the labels after the alarm alone (and the newest `HEAD_START` of the class that raised it). Both are judged on each
label before they learn it, by the faded mean of |label - P(class 1)| of each class. The challenger takes over if it is
better by `_LEAD` after `FEWEST` labels of each class: the queues then forget what came before the alarm. After `MOST`
labels of each class without that, it is dropped.
"""

import numpy as np

from stream_app.arrays import Floats
from stream_app.jit.compiler import compiled
from stream_app.learners.method_state import NEGATIVE, POSITIVE, LearnerView, Queues
from stream_app.learners.methods.relay.state import (
    AVERAGE,
    CHALLENGER,
    CHALLENGER_AVERAGE,
    CHALLENGER_LOSS,
    FAST_ERROR,
    FIRST,
    LABELS,
    LOSS,
    NETWORK,
    ON,
    PAUSE,
    RECENT,
    SEEN,
    SLOW_ERROR,
    TRIED,
    RelayState,
)
from stream_app.learners.networks.dense_networks import DenseNetworks
from stream_app.learners.queues import drop_oldest

FAST, SLOW = 0.05, 0.005
"""The rates of the two averages of the error that the alarm compares."""
ALARM_DEVIATIONS, ALARM_VARIANCE, ALARM_WEIGHT = 6.0, 0.01, 39.0
"""The alarm's distance, the least variance, and how many independent errors the fast average stands for: 2 / r - 1."""
ALARM_LABELS, ALARM_LABELS_OF_BOTH, ALARM_PAUSE = 40, 10, 200
"""Labels of the class, labels of each class, and labels since the last alarm that an alarm needs."""

HEAD_START, FEWEST, MOST = 10, 3, 30
_JUDGED = 0.04
"""The rate of the average loss by which network and challenger are judged."""
_LEAD = 0.2

_HALF = np.float32(0.5)


@compiled
def _copy_network(networks: DenseNetworks, source: int, to: int) -> None:
    """Copy weights, moments and powers from one network to another."""
    size = networks.elements
    for k in range(size):
        networks.parameters[to * size + k] = networks.parameters[source * size + k]
        networks.first[to * size + k] = networks.first[source * size + k]
        networks.second[to * size + k] = networks.second[source * size + k]
    for k in range(2):
        networks.powers[2 * to + k] = networks.powers[2 * source + k]


@compiled
def begin_challenger(own: RelayState, queues: Queues, networks: DenseNetworks, label: int) -> None:
    """Let a challenger begin after an alarm of this class."""
    tallies = own.tallies
    _copy_network(networks, FIRST, CHALLENGER)
    _copy_network(networks, FIRST, CHALLENGER_AVERAGE)
    for k in range(2):
        tallies[TRIED + k] = 0
        tallies[RECENT + k] = min(HEAD_START, queues.lengths[k]) if k == label else 0
        own.errors[LOSS + k] = 0.0
        own.errors[CHALLENGER_LOSS + k] = 0.0
    tallies[ON] = 1
    tallies[PAUSE] = 0


@compiled
def _take_over(own: RelayState, queues: Queues, networks: DenseNetworks) -> None:
    """Replace the network by the challenger, and forget the examples from before the alarm."""
    tallies = own.tallies
    _copy_network(networks, CHALLENGER, NETWORK)
    _copy_network(networks, CHALLENGER_AVERAGE, AVERAGE)
    tallies[LABELS] = tallies[TRIED] + tallies[TRIED + 1]
    tallies[PAUSE] = 0
    tallies[ON] = 0
    for k in range(2):
        while queues.lengths[k] > max(tallies[RECENT + k], 1):
            drop_oldest(queues, k)
        tallies[SEEN + k] = 0
        own.errors[FAST_ERROR + k] = 0.0
        own.errors[SLOW_ERROR + k] = 0.0


@compiled
def judge(own: RelayState, learner: LearnerView, label: int) -> None:
    """Take a label into the losses of network and challenger, and decide between them."""
    tallies, errors = own.tallies, own.errors
    tallies[TRIED + label] += 1
    share = max(_JUDGED, 1.0 / tallies[TRIED + label])
    for losses, number in ((LOSS, AVERAGE), (CHALLENGER_LOSS, CHALLENGER_AVERAGE)):
        loss = abs(np.float64(label) - np.float64(learner.state.scores[number]))
        errors[losses + label] += share * (loss - errors[losses + label])
    fewest = min(tallies[TRIED + NEGATIVE], tallies[TRIED + POSITIVE])
    if fewest < FEWEST:
        return
    lead = 0.0
    for k in range(2):
        lead += 0.5 * (errors[LOSS + k] - errors[CHALLENGER_LOSS + k])
    if lead > _LEAD:
        _take_over(own, learner.queues, learner.networks)
    elif fewest >= MOST:
        tallies[ON] = 0


@compiled
def watch(own: RelayState, scores: Floats, label: int) -> bool:
    """Take a label into the network's error in its class; say whether it raises an alarm."""
    tallies, errors = own.tallies, own.errors
    tallies[SEEN + label] += 1
    tallies[PAUSE] += 1
    seen = tallies[SEEN + label]
    error = 1.0 if (scores[AVERAGE] > _HALF) != (label == POSITIVE) else 0.0
    expected = errors[SLOW_ERROR + label]
    for place, rate in ((FAST_ERROR, FAST), (SLOW_ERROR, SLOW)):
        errors[place + label] += max(rate, 1.0 / seen) * (error - errors[place + label])
    if seen <= ALARM_LABELS or tallies[SEEN + 1 - label] < ALARM_LABELS_OF_BOTH or tallies[PAUSE] < ALARM_PAUSE:
        return False
    deviation = np.sqrt((expected * (1.0 - expected) + ALARM_VARIANCE) / ALARM_WEIGHT)
    is_alarm: bool = errors[FAST_ERROR + label] > expected + ALARM_DEVIATIONS * deviation
    return is_alarm
