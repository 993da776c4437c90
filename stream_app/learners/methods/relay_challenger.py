"""RELAY's challenger: a second network that begins after a sudden drift, and takes over if it is clearly better.

A sudden drift makes the kept examples false. The alarm compares the network's faded error in a class with the slower
average of the same error. On an alarm a challenger begins: a network with the learner's first weights, which draws from
the labels after the alarm alone (and the newest `HEAD_START` of the class that raised it). Both are judged on each
label before they learn it, by the faded mean of |label - P(class 1)| of each class. The challenger takes over if it is
better by `LEAD` after `FEWEST` labels of each class: the queues then forget what came before the alarm. After `MOST`
labels of each class without that, it is dropped.

The networks of a learner: the learning one, the average of its weights, the same two of the challenger, and the first
weights, which never change.
"""

from typing import Any

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method_state import NEGATIVE, POSITIVE, MethodStateView
from stream_app.learners.networks.dense_networks import DenseNetworksView
from stream_app.learners.queues import drop_oldest

NETWORKS = 5
_NUMBERS: Any = [np.int64(number) for number in range(NETWORKS)]
NETWORK, AVERAGE, CHALLENGER, CHALLENGER_AVERAGE, FIRST = _NUMBERS
"""The networks; see `dense_networks.ZERO`."""

FAST, SLOW = 0.05, 0.005
"""The rates of the two averages of the error that the alarm compares."""
ALARM_DEVIATIONS, ALARM_VARIANCE, ALARM_WEIGHT = 6.0, 0.01, 39.0
"""The alarm's distance, the least variance, and how many independent errors the fast average stands for: 2 / r - 1."""
ALARM_LABELS, ALARM_LABELS_OF_BOTH, ALARM_PAUSE = 40, 10, 200
"""Labels of the class, labels of each class, and labels since the last alarm that an alarm needs."""

HEAD_START, FEWEST, MOST = 10, 3, 30
JUDGED = 0.04
"""The rate of the average loss by which network and challenger are judged."""
LEAD = 0.2

SEEN, TRIED, RECENT, ON, PAUSE, WAITING, LABELS, STEPS_LEFT, TALLIES = 0, 2, 4, 6, 7, 8, 9, 10, 11
"""Tallies: of each class the labels since the network's birth, the labels since the challenger's, and the kept examples
that the challenger draws from; whether there is a challenger; labels since an alarm; predictions since a label; labels;
and the steps that are left to take, 0 between two operations."""

FAST_ERROR, SLOW_ERROR, LOSS, CHALLENGER_LOSS, ERROR_COUNT = 0, 2, 4, 6, 8
"""Errors: of each class the two averages of the network's error, and the losses of network and challenger."""

_HALF = np.float32(0.5)


@compiled
def _copy_network(networks: DenseNetworksView, source: int, to: int) -> None:
    """Copy weights, moments and powers from one network to another."""
    size = networks.elements
    for k in range(size):
        networks.parameters[to * size + k] = networks.parameters[source * size + k]
        networks.first[to * size + k] = networks.first[source * size + k]
        networks.second[to * size + k] = networks.second[source * size + k]
    for k in range(2):
        networks.powers[2 * to + k] = networks.powers[2 * source + k]


@compiled
def begin_challenger(state: MethodStateView, networks: DenseNetworksView, label: int) -> None:
    """Let a challenger begin after an alarm of this class."""
    tallies = state.tallies
    _copy_network(networks, FIRST, CHALLENGER)
    _copy_network(networks, FIRST, CHALLENGER_AVERAGE)
    for k in range(2):
        tallies[TRIED + k] = 0
        tallies[RECENT + k] = min(HEAD_START, state.lengths[k]) if k == label else 0
        state.errors[LOSS + k] = 0.0
        state.errors[CHALLENGER_LOSS + k] = 0.0
    tallies[ON] = 1
    tallies[PAUSE] = 0


@compiled
def _take_over(state: MethodStateView, networks: DenseNetworksView) -> None:
    """Replace the network by the challenger, and forget the examples from before the alarm."""
    tallies = state.tallies
    _copy_network(networks, CHALLENGER, NETWORK)
    _copy_network(networks, CHALLENGER_AVERAGE, AVERAGE)
    tallies[LABELS] = tallies[TRIED] + tallies[TRIED + 1]
    tallies[PAUSE] = 0
    tallies[ON] = 0
    for k in range(2):
        while state.lengths[k] > max(tallies[RECENT + k], 1):
            drop_oldest(state, k)
        tallies[SEEN + k] = 0
        state.errors[FAST_ERROR + k] = 0.0
        state.errors[SLOW_ERROR + k] = 0.0


@compiled
def judge(state: MethodStateView, networks: DenseNetworksView, label: int) -> None:
    """Take a label into the losses of network and challenger, and decide between them."""
    tallies, errors = state.tallies, state.errors
    tallies[TRIED + label] += 1
    share = max(JUDGED, 1.0 / tallies[TRIED + label])
    for losses, number in ((LOSS, AVERAGE), (CHALLENGER_LOSS, CHALLENGER_AVERAGE)):
        loss = abs(np.float64(label) - np.float64(state.scores[number]))
        errors[losses + label] += share * (loss - errors[losses + label])
    fewest = min(tallies[TRIED + NEGATIVE], tallies[TRIED + POSITIVE])
    if fewest < FEWEST:
        return
    lead = 0.0
    for k in range(2):
        lead += 0.5 * (errors[LOSS + k] - errors[CHALLENGER_LOSS + k])
    if lead > LEAD:
        _take_over(state, networks)
    elif fewest >= MOST:
        tallies[ON] = 0


@compiled
def watch(state: MethodStateView, label: int) -> bool:
    """Take a label into the network's error in its class; say whether it raises an alarm."""
    tallies, errors = state.tallies, state.errors
    tallies[SEEN + label] += 1
    tallies[PAUSE] += 1
    seen = tallies[SEEN + label]
    error = 1.0 if (state.scores[AVERAGE] > _HALF) != (label == POSITIVE) else 0.0
    expected = errors[SLOW_ERROR + label]
    for place, rate in ((FAST_ERROR, FAST), (SLOW_ERROR, SLOW)):
        errors[place + label] += max(rate, 1.0 / seen) * (error - errors[place + label])
    if seen <= ALARM_LABELS or tallies[SEEN + 1 - label] < ALARM_LABELS_OF_BOTH or tallies[PAUSE] < ALARM_PAUSE:
        return False
    deviation = np.sqrt((expected * (1.0 - expected) + ALARM_VARIANCE) / ALARM_WEIGHT)
    is_alarm: bool = errors[FAST_ERROR + label] > expected + ALARM_DEVIATIONS * deviation
    return is_alarm
