"""RELAY: long balanced replay, with a challenger that takes over after a sudden drift. A method of this project.

Each class has a queue of its most recently labelled examples, 500 by default. On a label, the network takes steps of
Adam, each on four examples of each class that are drawn from the queues, one of them from the newest 50: a concept may
change slowly. The newest example is in the first step.
Four things make a network better that learns so:

- **Standardisation.** Features are standardised by their running moments. The queues keep examples as they came, so
  that an old example is standardised by all that was seen since (`learners.standardisation`).
- **Jitter.** A drawn feature gets uniform noise of at most 1 / sqrt(n) deviations, where n examples of the class are
  kept: few examples stand for a region, many do not need it, and from `JITTER_LIMIT` examples on there is no noise.
- **Averaged weights.** Predictions come from a running mean of the weights over at most `AVERAGED_LABELS` labels
  (Polyak and Juditsky 1992).
- **Scarce labels.** A label that comes after n predictions is worth n labels' steps, at most `MOST_LABELS`.

A sudden drift makes the kept examples false. The alarm compares the network's faded error in a class with the slower
average of the same error. On an alarm a challenger begins: a network with the learner's first weights, which draws from
the labels after the alarm alone (and the newest `HEAD_START` of the class that raised it). Both are judged on each
label before they learn it, by the faded mean of |label - P(class 1)| of each class. The challenger takes over if it is
better by `LEAD` after `FEWEST` labels of each class: the queues then forget what came before the alarm. After `MOST`
labels of each class without that, it is dropped.

The networks of a learner: the learning one, the average of its weights, the same two of the challenger, and the first
weights, which never change. A corrected example moves to the end of the other class's queue, as with AREBA.
"""

from typing import Any

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method import ERRORS, GENERATOR, MOMENTS, QUEUES, Method, State, StatePart
from stream_app.learners.method_state import (
    NEGATIVE,
    POSITIVE,
    RELAY,
    MethodState,
    MethodStateView,
    QueueSizes,
    Replay,
    new_method_state,
)
from stream_app.learners.networks.any_width import learn_any_width
from stream_app.learners.networks.dense_networks import ONE_F32, ZERO, DenseNetworksView, member_of
from stream_app.learners.networks.kernels import predict
from stream_app.learners.networks.width8 import learn_8
from stream_app.learners.poisson import new_generator, next_block
from stream_app.learners.queues import age_of, append, drop_oldest, move_to_class, row_of_age
from stream_app.learners.scaler import ScalerView
from stream_app.learners.standardisation import fill_factors, standardise, take_into_moments

NETWORKS = 5
_NUMBERS: Any = [np.int64(number) for number in range(NETWORKS)]
NETWORK, AVERAGE, CHALLENGER, CHALLENGER_AVERAGE, FIRST = _NUMBERS
"""The networks; see `dense_networks.ZERO`."""

DRAWN, LATE = 4, 50
"""Examples of each class in a step; the last of them is one of this many newest examples."""

NARROW_WIDTH, NARROW_STEPS = 8, 4
"""Examples with fewer features than the first are worth as many steps as the second; others one."""

MOST_LABELS = 8
JITTER_LIMIT = 144
AVERAGED_LABELS, LABELS_TO_AVERAGE_ONE_MORE = 50.0, 40.0

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

_SEEN, _TRIED, _RECENT, _ON, _PAUSE, _WAITING, _LABELS, _STEPS_LEFT, TALLIES = 0, 2, 4, 6, 7, 8, 9, 10, 11
"""Tallies: of each class the labels since the network's birth, the labels since the challenger's, and the kept examples
that the challenger draws from; whether there is a challenger; labels since an alarm; predictions since a label; labels;
and the steps that are left to take, 0 between two operations."""

_FAST_ERROR, _SLOW_ERROR, _LOSS, _CHALLENGER_LOSS, ERROR_COUNT = 0, 2, 4, 6, 8
"""Errors: of each class the two averages of the network's error, and the losses of network and challenger."""

_QUARTER, _HALF_WORD, _HALF_SHIFT = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF), np.uint64(32)
_HALF = np.float32(0.5)
_MIDDLE = np.float32(32767.5)


# Prediction -----------------------------------------------------------------------------------------------------------


@compiled
def standardise_slot(state: MethodStateView, scaler: ScalerView, slot: int) -> None:
    """Put the example of a slot at the beginning of `batch`, standardised."""
    fill_factors(state)
    standardise(state, scaler.seen, slot * state.width, ZERO)


@compiled
def prepare_relay(state: MethodStateView, scaler: ScalerView, slot: int) -> None:
    """Take an example that is to be predicted into the moments, and put it at the beginning of `batch`."""
    take_into_moments(state, scaler.seen, slot * state.width)
    standardise_slot(state, scaler, slot)
    state.tallies[_WAITING] += 1


@compiled
def _score(state: MethodStateView, networks: DenseNetworksView, number: int) -> np.float32:
    """Return a network's P(class 1) of the example at the beginning of `batch`; overwrites `scores`."""
    predict(member_of(networks, number), state.batch, ZERO, state.scores)
    score: np.float32 = state.scores[0]
    return score


@compiled
def predict_relay(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int) -> None:
    """Put P(class 1) of the example of a slot into the score of the averaged network."""
    prepare_relay(state, scaler, slot)
    state.scores[AVERAGE] = _score(state, networks, AVERAGE)


# The drift ------------------------------------------------------------------------------------------------------------


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
def _begin_challenger(state: MethodStateView, networks: DenseNetworksView, label: int) -> None:
    """Let a challenger begin after an alarm of this class."""
    tallies = state.tallies
    _copy_network(networks, FIRST, CHALLENGER)
    _copy_network(networks, FIRST, CHALLENGER_AVERAGE)
    for k in range(2):
        tallies[_TRIED + k] = 0
        tallies[_RECENT + k] = min(HEAD_START, state.lengths[k]) if k == label else 0
        state.errors[_LOSS + k] = 0.0
        state.errors[_CHALLENGER_LOSS + k] = 0.0
    tallies[_ON] = 1
    tallies[_PAUSE] = 0


@compiled
def _take_over(state: MethodStateView, networks: DenseNetworksView) -> None:
    """Replace the network by the challenger, and forget the examples from before the alarm."""
    tallies = state.tallies
    _copy_network(networks, CHALLENGER, NETWORK)
    _copy_network(networks, CHALLENGER_AVERAGE, AVERAGE)
    tallies[_LABELS] = tallies[_TRIED] + tallies[_TRIED + 1]
    tallies[_PAUSE] = 0
    tallies[_ON] = 0
    for k in range(2):
        while state.lengths[k] > max(tallies[_RECENT + k], 1):
            drop_oldest(state, k)
        tallies[_SEEN + k] = 0
        state.errors[_FAST_ERROR + k] = 0.0
        state.errors[_SLOW_ERROR + k] = 0.0


@compiled
def _judge(state: MethodStateView, networks: DenseNetworksView, label: int) -> None:
    """Take a label into the losses of network and challenger, and decide between them."""
    tallies, errors = state.tallies, state.errors
    tallies[_TRIED + label] += 1
    share = max(JUDGED, 1.0 / tallies[_TRIED + label])
    for losses, number in ((_LOSS, AVERAGE), (_CHALLENGER_LOSS, CHALLENGER_AVERAGE)):
        loss = abs(np.float64(label) - np.float64(state.scores[number]))
        errors[losses + label] += share * (loss - errors[losses + label])
    fewest = min(tallies[_TRIED + NEGATIVE], tallies[_TRIED + POSITIVE])
    if fewest < FEWEST:
        return
    lead = 0.0
    for k in range(2):
        lead += 0.5 * (errors[_LOSS + k] - errors[_CHALLENGER_LOSS + k])
    if lead > LEAD:
        _take_over(state, networks)
    elif fewest >= MOST:
        tallies[_ON] = 0


@compiled
def _watch(state: MethodStateView, label: int) -> bool:
    """Take a label into the network's error in its class; say whether it raises an alarm."""
    tallies, errors = state.tallies, state.errors
    tallies[_SEEN + label] += 1
    tallies[_PAUSE] += 1
    seen = tallies[_SEEN + label]
    error = 1.0 if (state.scores[AVERAGE] > _HALF) != (label == POSITIVE) else 0.0
    expected = errors[_SLOW_ERROR + label]
    for place, rate in ((_FAST_ERROR, FAST), (_SLOW_ERROR, SLOW)):
        errors[place + label] += max(rate, 1.0 / seen) * (error - errors[place + label])
    if seen <= ALARM_LABELS or tallies[_SEEN + 1 - label] < ALARM_LABELS_OF_BOTH or tallies[_PAUSE] < ALARM_PAUSE:
        return False
    deviation = np.sqrt((expected * (1.0 - expected) + ALARM_VARIANCE) / ALARM_WEIGHT)
    is_alarm: bool = errors[_FAST_ERROR + label] > expected + ALARM_DEVIATIONS * deviation
    return is_alarm


# Learning -------------------------------------------------------------------------------------------------------------


@compiled
def admit_relay(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int, label: int) -> None:
    """Take a labelled example in, whose scores are in `scores`: judge, append, set how many steps to take."""
    tallies = state.tallies
    alarm = _watch(state, label) and tallies[_ON] == 0
    if tallies[_ON] == 1:
        _judge(state, networks, label)
    append(state, scaler, slot, label, label)
    tallies[_RECENT + label] = min(tallies[_RECENT + label] + 1, state.lengths[label])
    if alarm:
        _begin_challenger(state, networks, label)
    tallies[_LABELS] += 1
    worth = min(max(tallies[_WAITING], 1), MOST_LABELS)
    tallies[_WAITING] = 0
    steps = worth * (NARROW_STEPS if state.width < NARROW_WIDTH else 1)
    tallies[_STEPS_LEFT] = steps * (1 + tallies[_ON])


@compiled
def _jitter(state: MethodStateView, at: int, kept: int) -> None:
    """Add noise to the standardised example at `batch[at:]`, one of `kept` of its class: 16 numbers from each block."""
    size = np.float32(1.0 / np.sqrt(np.float64(kept))) / _MIDDLE
    for start in range(0, state.width, 16):
        next_block(state.generator, state.words)
        for k in range(min(16, state.width - start)):
            bits = (state.words[k >> 2] >> np.uint64(16 * (k & 3))) & _QUARTER
            state.batch[at + start + k] += (np.float32(np.int64(bits)) - _MIDDLE) * size


@compiled
def _draw_examples(state: MethodStateView, label: int, kept: int, count: int, newest: bool) -> int:
    """Draw `DRAWN` of the newest `kept` examples of a class into `batch`, after `count` others; return the sum."""
    width = state.width
    next_block(state.generator, state.words)
    ages = (
        (state.words[0] >> _HALF_SHIFT) * np.uint64(kept) >> _HALF_SHIFT,
        (state.words[0] & _HALF_WORD) * np.uint64(kept) >> _HALF_SHIFT,
        (state.words[1] >> _HALF_SHIFT) * np.uint64(kept) >> _HALF_SHIFT,
        (state.words[1] & _HALF_WORD) * np.uint64(min(kept, LATE)) >> _HALF_SHIFT,
    )
    for k in range(DRAWN):
        back = 0 if newest and k == 0 else np.int64(ages[k])
        row = row_of_age(state, label, state.lengths[label] - 1 - back)
        at = count * width
        standardise(state, state.examples, row * width, at)
        if kept < JITTER_LIMIT:
            _jitter(state, at, kept)
        state.starts[count] = at
        state.targets[count] = np.float32(label)
        count += 1
    return count


@compiled
def _average(networks: DenseNetworksView, source: int, to: int, share: np.float32) -> None:
    """Move the weights of the average by this share of the distance to those of the network."""
    size = networks.elements
    for k in range(size):
        mean = networks.parameters[to * size + k]
        networks.parameters[to * size + k] = mean + share * (networks.parameters[source * size + k] - mean)


@compiled
def _average_all(state: MethodStateView, networks: DenseNetworksView) -> None:
    tallies = state.tallies
    window = min(AVERAGED_LABELS, 1.0 + tallies[_LABELS] / LABELS_TO_AVERAGE_ONE_MORE)
    _average(networks, NETWORK, AVERAGE, np.float32(1.0 / window))
    if tallies[_ON] == 1:
        tried = tallies[_TRIED] + tallies[_TRIED + 1]
        window = min(AVERAGED_LABELS, 1.0 + tried / LABELS_TO_AVERAGE_ONE_MORE)
        _average(networks, CHALLENGER, CHALLENGER_AVERAGE, np.float32(1.0 / window))


@compiled
def next_batch(state: MethodStateView, networks: DenseNetworksView, newest: int) -> int:
    """Draw the examples of the next step, and let `steps` say which network takes it.

    Args:
        state: Of the method.
        networks: Of the learner.
        newest: The class whose newest example must be in the step; -1: all are drawn.

    Returns:
        The number of examples; 0 after the last step, when the weights have been averaged.
    """
    tallies = state.tallies
    if tallies[_STEPS_LEFT] == 0:
        _average_all(state, networks)
        return 0
    is_challenger = tallies[_ON] == 1 and tallies[_STEPS_LEFT] % 2 == 1
    tallies[_STEPS_LEFT] -= 1
    state.steps[NETWORK] = 0 if is_challenger else 1
    state.steps[CHALLENGER] = 1 if is_challenger else 0
    count: int = ZERO
    for k in range(2):
        kept = tallies[_RECENT + k] if is_challenger else state.lengths[k]
        if kept > 0:
            count = _draw_examples(state, k, kept, count, k == newest)
    return count


@compiled
def learn_relay(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int, label: int) -> int:
    """Take a labelled example in, and let the networks take their steps; return how many they were."""
    standardise_slot(state, scaler, slot)
    average = _score(state, networks, AVERAGE)
    challenger = _score(state, networks, CHALLENGER_AVERAGE) if state.tallies[_ON] == 1 else _HALF
    state.scores[AVERAGE], state.scores[CHALLENGER_AVERAGE] = average, challenger
    admit_relay(state, scaler, networks, slot, label)
    taken: int = ZERO
    count = next_batch(state, networks, label)
    while count > 0:
        member = member_of(networks, CHALLENGER if state.steps[CHALLENGER] == 1 else NETWORK)
        if networks.eight:
            learn_8(member, state.batch, state.starts, state.targets, count, ONE_F32)
        else:
            learn_any_width(member, state.batch, state.starts, state.targets, count, ONE_F32)
        taken += 1
        count = next_batch(state, networks, -1)
    return taken


@compiled
def correct_relay(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> None:
    """Change the class of an example that is in a queue."""
    other, tallies = 1 - label, state.tallies
    age = age_of(state, scaler, slot, other)
    if age < 0:
        return
    if state.lengths[other] - age <= tallies[_RECENT + other]:
        tallies[_RECENT + other] -= 1
    move_to_class(state, age, label)
    tallies[_RECENT + label] = min(tallies[_RECENT + label] + 1, state.lengths[label])


# Python's side --------------------------------------------------------------------------------------------------------


def _fits(state: MethodState, arrays: State) -> bool:
    tallies = arrays["tallies"]
    if tallies.shape != state.tallies.shape or tallies.dtype != np.int64 or tallies.min() < 0:
        return False
    return (
        int(tallies[_ON]) <= 1
        and int(tallies[_STEPS_LEFT]) == 0
        and int(tallies[_RECENT + NEGATIVE]) <= len(arrays["negative_examples"])
        and int(tallies[_RECENT + POSITIVE]) <= len(arrays["positive_examples"])
    )


def _load(state: MethodState, arrays: State) -> None:
    state.tallies[...] = arrays["tallies"]


_TALLIES = StatePart(lambda state: {"tallies": state.tallies.copy()}, _fits, _load)
"""int64, see `TALLIES`."""


def relay(replay_per_class: int, features: int, seed: bytes) -> Method:
    """Make the method.

    Args:
        replay_per_class: The most examples of each class that are kept, at least 1.
        features: Numbers in an example.
        seed: The learner's 32-byte seed.
    """
    state = new_method_state(
        RELAY,
        features,
        networks=NETWORKS,
        queue_sizes=QueueSizes(2, replay_per_class, 2 * replay_per_class, replay_per_class),
        generator=new_generator(seed),
        replay=Replay(2 * DRAWN, TALLIES, ERROR_COUNT),
    )
    state.steps[:] = 0  # `next_batch` says which of two networks takes a step; the others never do
    return Method(state, QUEUES, GENERATOR, MOMENTS, _TALLIES, ERRORS)
