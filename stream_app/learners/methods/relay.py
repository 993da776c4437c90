"""RELAY: long balanced replay, with a challenger that takes over after a sudden drift. A method of this project.

Each class has a queue of its most recently labelled examples, 500 by default. On a label, the network takes steps of
Adam, each on four examples of each class that are drawn from the queues, one of them from the newest 50: a concept may
change slowly. The newest example is in the first step.
Five things make a network better that learns so:

- **Standardisation.** Features are standardised by their running moments. The queues keep examples as they came, so
  that an old example is standardised by all that was seen since (`learners.standardisation`).
- **Jitter.** A drawn feature gets uniform noise of at most 1 / sqrt(n) deviations, where n examples of the class are
  kept: few examples stand for a region, many do not need it, and from `JITTER_LIMIT` examples on there is no noise.
- **Feature gates.** Features in which the classes differ count more (`learners.feature_gates`).
- **Averaged weights.** Predictions come from a running mean of the weights over at most `AVERAGED_LABELS` labels
  (Polyak and Juditsky 1992).
- **Scarce labels.** A label that comes after n predictions is worth n labels' steps, at most `MOST_LABELS`.

After a sudden drift a second network learns, from the labels after it alone, and takes over if it is clearly better
(`methods.relay_challenger`). A corrected example moves to the end of the other class's queue, as with AREBA.

The study can switch these mechanisms off (`MethodState.mechanisms`); the application always has all of them.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.feature_gates import has_gates, is_gate_due, pass_gates, update_gates
from stream_app.learners.method import ERRORS, GATES, GENERATOR, MOMENTS, RINGS, Method, State, StatePart
from stream_app.learners.method_state import (
    ALL_MECHANISMS,
    RELAY,
    WITH_AVERAGES,
    WITH_CHALLENGER,
    WITH_GATES,
    WITH_JITTER,
    MethodState,
    MethodStateView,
    QueueSizes,
    Replay,
    new_method_state,
)
from stream_app.learners.methods.relay_challenger import (
    AVERAGE,
    CHALLENGER,
    CHALLENGER_AVERAGE,
    ERROR_COUNT,
    LABELS,
    NETWORK,
    NETWORKS,
    ON,
    RECENT,
    STEPS_LEFT,
    TALLIES,
    TRIED,
    WAITING,
    begin_challenger,
    judge,
    watch,
)
from stream_app.learners.networks.any_width import learn_any_width
from stream_app.learners.networks.dense_networks import ONE_F32, ZERO, DenseNetworksView, member_of
from stream_app.learners.networks.kernels import predict
from stream_app.learners.networks.width8 import learn_8
from stream_app.learners.poisson import new_generator, next_block
from stream_app.learners.queues import age_of, append, move_to_class, row_of_age
from stream_app.learners.scaler import ScalerView
from stream_app.learners.standardisation import fill_factors, standardise, take_into_moments

DRAWN, LATE = 4, 50
"""Examples of each class in a step; the last of them is one of this many newest examples."""

NARROW_WIDTH, NARROW_STEPS = 8, 4
"""Examples with fewer features than the first are worth as many steps as the second; others one."""

MOST_LABELS = 8
JITTER_LIMIT = 144
AVERAGED_LABELS, LABELS_TO_AVERAGE_ONE_MORE = 50.0, 40.0

_QUARTER, _HALF_WORD, _HALF_SHIFT = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF), np.uint64(32)
_HALF = np.float32(0.5)
_MIDDLE = np.float32(32767.5)


# Prediction -----------------------------------------------------------------------------------------------------------


@compiled
def standardise_slot(state: MethodStateView, scaler: ScalerView, slot: int) -> None:
    """Put the example of a slot at the beginning of `batch`, standardised and gated."""
    fill_factors(state)
    standardise(state, scaler.seen, slot * state.width, ZERO)
    pass_gates(state, ZERO)


@compiled
def prepare_relay(state: MethodStateView, scaler: ScalerView, slot: int) -> None:
    """Take an example that is to be predicted into the moments, and put it at the beginning of `batch`."""
    take_into_moments(state, scaler.seen, slot * state.width)
    standardise_slot(state, scaler, slot)
    state.tallies[WAITING] += 1


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


# Learning -------------------------------------------------------------------------------------------------------------


@compiled
def admit_relay(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int, label: int) -> None:
    """Take a labelled example in, whose scores are in `scores`: judge, append, set how many steps to take."""
    tallies = state.tallies
    alarm = watch(state, label) and tallies[ON] == 0 and state.mechanisms & WITH_CHALLENGER != 0
    if tallies[ON] == 1:
        judge(state, networks, label)
    append(state, scaler, slot, label, label)
    tallies[RECENT + label] = min(tallies[RECENT + label] + 1, state.lengths[label])
    if alarm:
        begin_challenger(state, networks, label)
    tallies[LABELS] += 1
    if state.mechanisms & WITH_GATES != 0 and is_gate_due(state, tallies[LABELS]):
        update_gates(state)
    worth = min(max(tallies[WAITING], 1), MOST_LABELS)
    tallies[WAITING] = 0
    steps = worth * (NARROW_STEPS if state.width < NARROW_WIDTH else 1)
    tallies[STEPS_LEFT] = steps * (1 + tallies[ON])


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
        if kept < JITTER_LIMIT and state.mechanisms & WITH_JITTER != 0:
            _jitter(state, at, kept)
        pass_gates(state, at)
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
    most = AVERAGED_LABELS if state.mechanisms & WITH_AVERAGES != 0 else 1.0
    window = min(most, 1.0 + tallies[LABELS] / LABELS_TO_AVERAGE_ONE_MORE)
    _average(networks, NETWORK, AVERAGE, np.float32(1.0 / window))
    if tallies[ON] == 1:
        tried = tallies[TRIED] + tallies[TRIED + 1]
        window = min(most, 1.0 + tried / LABELS_TO_AVERAGE_ONE_MORE)
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
    if tallies[STEPS_LEFT] == 0:
        _average_all(state, networks)
        return 0
    is_challenger = tallies[ON] == 1 and tallies[STEPS_LEFT] % 2 == 1
    tallies[STEPS_LEFT] -= 1
    state.steps[NETWORK] = 0 if is_challenger else 1
    state.steps[CHALLENGER] = 1 if is_challenger else 0
    count: int = ZERO
    for k in range(2):
        kept = tallies[RECENT + k] if is_challenger else state.lengths[k]
        if kept > 0:
            count = _draw_examples(state, k, kept, count, k == newest)
    return count


@compiled
def learn_relay(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int, label: int) -> int:
    """Take a labelled example in, and let the networks take their steps; return how many they were."""
    standardise_slot(state, scaler, slot)
    average = _score(state, networks, AVERAGE)
    challenger = _score(state, networks, CHALLENGER_AVERAGE) if state.tallies[ON] == 1 else _HALF
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
    if state.lengths[other] - age <= tallies[RECENT + other]:
        tallies[RECENT + other] -= 1
    move_to_class(state, age, label)
    tallies[RECENT + label] = min(tallies[RECENT + label] + 1, state.lengths[label])


# Python's side --------------------------------------------------------------------------------------------------------


def _fits(state: MethodState, arrays: State) -> bool:
    tallies = arrays["tallies"]
    if tallies.shape != state.tallies.shape or tallies.dtype != np.int64 or tallies.min() < 0:
        return False
    return (
        int(tallies[ON]) <= 1
        and int(tallies[STEPS_LEFT]) == 0
        and all(int(tallies[RECENT + queue]) <= int(arrays["lengths"][queue]) for queue in range(2))
    )


def _load(state: MethodState, arrays: State) -> None:
    state.tallies[...] = arrays["tallies"]


_TALLIES = StatePart(lambda state: {"tallies": state.tallies.copy()}, _fits, _load)
"""int64, see `TALLIES`."""


def relay(replay_per_class: int, features: int, seed: bytes, mechanisms: int = ALL_MECHANISMS) -> Method:
    """Make the method.

    Args:
        replay_per_class: The most examples of each class that are kept, at least 1.
        features: Numbers in an example.
        seed: The learner's 32-byte seed.
        mechanisms: Those that the study does not switch off, see `MethodState`.
    """
    gated = bool(mechanisms & WITH_GATES) and has_gates(features)
    state = new_method_state(
        RELAY,
        features,
        networks=NETWORKS,
        queue_sizes=QueueSizes(2, replay_per_class, 2 * replay_per_class, replay_per_class),
        generator=new_generator(seed),
        replay=Replay(2 * DRAWN, TALLIES, ERROR_COUNT, mechanisms if gated else mechanisms & ~WITH_GATES),
    )
    state.steps[:] = 0  # `next_batch` says which of two networks takes a step; the others never do
    parts = (RINGS, GENERATOR, MOMENTS, _TALLIES, ERRORS)
    return Method(state, *parts, GATES) if gated else Method(state, *parts)
