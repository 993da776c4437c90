"""RELAY: long balanced replay, with a challenger that takes over after a sudden drift. A method of this project.

Each class has a queue of its most recently labelled examples, 500 by default. On a label, the network takes steps of
Adam, each on four examples of each class that are drawn from the queues, one of them from the newest 50: a concept may
change slowly. The newest example is in the first step.
Five things make a network better that learns so:

- **Standardisation.** Features are standardised by fading moments, in which the influence of one example is bounded
  (`learners.moments`). The queues keep examples as they came, so that an old example is standardised by all that was
  seen since (`standardisation`), and moves along with features that grow (`feature_trends`).
- **Jitter.** A drawn feature gets uniform noise of at most 1 / sqrt(n) deviations, where n examples of the class are
  kept: few examples stand for a region, many do not need it, and from `JITTER_LIMIT` examples on there is no noise.
- **Feature gates.** Features in which the classes differ count more (`feature_gates`).
- **Averaged weights.** Predictions come from a running mean of the weights over at most `AVERAGED_LABELS` labels
  (Polyak and Juditsky 1992).
- **Scarce labels.** A label that comes after n predictions is worth n labels' steps, at most `_MOST_LABELS`.

A second network learns from the newest examples alone, and predicts while it is better (`short_memory`). After a sudden
drift a third network learns, from the labels after it alone, and takes over if it is clearly better (`challenger`). A
corrected example moves to the end of the other class's queue, as with AREBA.

The study can switch these mechanisms off (`RelayState.mechanisms`); the application always has all of them.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled, inlined
from stream_app.learners.method import RINGS, Functions, LearningMethod, RunningMethod, State, StatePart, array_part
from stream_app.learners.method_state import LearnerView, MethodTables, new_queues, new_tables
from stream_app.learners.methods.relay.challenger import begin_challenger, judge, watch
from stream_app.learners.methods.relay.feature_gates import has_gates, is_update_due, pass_gates, update_gates
from stream_app.learners.methods.relay.feature_trends import update_trends
from stream_app.learners.methods.relay.short_memory import NEWEST, compare, copy_predictor, make_small
from stream_app.learners.methods.relay.standardisation import fill_factors, standardise, standardise_row
from stream_app.learners.methods.relay.state import (
    ALL_MECHANISMS,
    AVERAGE,
    CHALLENGER,
    CHALLENGER_AVERAGE,
    IS_SHORT,
    LABELS,
    NETWORK,
    NETWORKS,
    ON,
    PREDICTED,
    PREDICTOR,
    RECENT,
    SHORT,
    STEPS_LEFT,
    TRIED,
    WAITING,
    WITH_AVERAGES,
    WITH_CHALLENGER,
    WITH_GATES,
    WITH_JITTER,
    WITH_SHORT,
    RelayState,
    new_state,
    state_of,
)
from stream_app.learners.moments import moments_by_name, take_into_moments
from stream_app.learners.networks.dense_networks import ZERO, DenseNetworks, member_of
from stream_app.learners.networks.kernels import predict
from stream_app.learners.poisson import next_block
from stream_app.learners.queues import age_of, append_from, move_to_class, row_of_age
from stream_app.learners.scaler import remember_arrival

DRAWN, LATE = 4, 50
"""Examples of each class in a step; the last of them is one of this many newest examples."""

NARROW_WIDTH, NARROW_STEPS = 8, 4
"""Examples with fewer features than the first are worth as many steps as the second; others one."""

_MOST_LABELS = 8
JITTER_LIMIT = 144
AVERAGED_LABELS, LABELS_TO_AVERAGE_ONE_MORE = 50.0, 40.0

_QUARTER, _HALF_WORD, _HALF_SHIFT = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF), np.uint64(32)
_HALF = np.float32(0.5)
_MIDDLE = np.float32(32767.5)


# Prediction -----------------------------------------------------------------------------------------------------------


@inlined
def _standardise_slot(learner: LearnerView, own: RelayState, slot: int) -> None:
    """Let the example of a slot enter the networks, standardised."""
    fill_factors(own)
    standardise(own, learner.inputs.raw, slot * own.width, learner.inputs.source)


@inlined
def _prepare(learner: LearnerView, slot: int) -> int:
    """Take an example that is to be predicted into the moments, and let it enter the networks."""
    own = state_of(learner.own)
    take_into_moments(own.moments, own.width, learner.inputs.raw, slot * own.width)
    _standardise_slot(learner, own, slot)
    pass_gates(own, learner.inputs.source, ZERO)
    remember_arrival(learner.inputs, slot, own.tallies[PREDICTED])
    own.tallies[WAITING] += 1
    own.tallies[PREDICTED] += 1
    return 0


@compiled
def _score(learner: LearnerView, number: int) -> np.float32:
    """Return a network's P(class 1) of the example that has entered; overwrites `scores`."""
    scores = learner.state.scores
    predict(member_of(learner.networks, number), learner.inputs.source, ZERO, scores)
    score: np.float32 = scores[0]
    return score


@inlined
def _review(learner: LearnerView, slot: int) -> bool:
    """Put the scores by which `_admit` judges the networks into `scores`, unless the networks are not compiled."""
    own, scores = state_of(learner.own), learner.state.scores
    _standardise_slot(learner, own, slot)
    if learner.networks.layers == 0:
        pass_gates(own, learner.inputs.source, ZERO)
        return True
    make_small(own, learner.networks, learner.inputs.source, ZERO)
    short = _score(learner, SHORT)
    _standardise_slot(learner, own, slot)
    pass_gates(own, learner.inputs.source, ZERO)
    average = _score(learner, AVERAGE)
    challenger = _score(learner, CHALLENGER_AVERAGE) if own.tallies[ON] == 1 else _HALF
    scores[AVERAGE], scores[CHALLENGER_AVERAGE], scores[SHORT] = average, challenger, short
    return True


# Learning -------------------------------------------------------------------------------------------------------------


@compiled
def _learning(own: RelayState) -> int:
    """Return how many networks learn."""
    count: int = 1 + own.tallies[ON] + (1 if own.mechanisms & WITH_SHORT != 0 else 0)
    return count


@inlined
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in, and prepare the first step."""
    own, queues, inputs = state_of(learner.own), learner.queues, learner.inputs
    tallies = own.tallies
    alarm = watch(own, learner.state.scores, label) and tallies[ON] == 0 and own.mechanisms & WITH_CHALLENGER != 0
    if own.mechanisms & WITH_SHORT != 0:
        compare(own, learner, label)
    if tallies[ON] == 1:
        judge(own, learner, label)
    append_from(queues, inputs.raw, slot * own.width, inputs, slot, label, label)
    tallies[RECENT + label] = min(tallies[RECENT + label] + 1, queues.lengths[label])
    if alarm:
        begin_challenger(own, queues, learner.networks, label)
    tallies[LABELS] += 1
    if is_update_due(queues, tallies[LABELS]):
        update_trends(own, queues, tallies[PREDICTED])
        if own.mechanisms & WITH_GATES != 0:
            update_gates(own, queues, tallies[PREDICTED])
    worth = min(max(tallies[WAITING], 1), _MOST_LABELS)
    tallies[WAITING] = 0
    steps = worth * (NARROW_STEPS if own.width < NARROW_WIDTH else 1)
    tallies[STEPS_LEFT] = steps * _learning(own)
    return _next_batch(learner, own, label)


@compiled
def _jitter(own: RelayState, batch: Floats, at: int, kept: int) -> None:
    """Add noise to the standardised example at `batch[at:]`, one of `kept` of its class: 16 numbers from each block."""
    size = np.float32(1.0 / np.sqrt(np.float64(kept))) / _MIDDLE
    for start in range(0, own.width, 16):
        next_block(own.generator, own.words)
        for k in range(min(16, own.width - start)):
            bits = (own.words[k >> 2] >> np.uint64(16 * (k & 3))) & _QUARTER
            batch[at + start + k] += (np.float32(np.int64(bits)) - _MIDDLE) * size


@inlined
def _draw_examples(
    learner: LearnerView, own: RelayState, label: int, kept: int, count: int, newest: bool, is_short: bool
) -> int:
    """Draw `DRAWN` of the newest `kept` examples of a class into `batch`, after `count` others; return the sum."""
    queues, state, words = learner.queues, learner.state, own.words
    next_block(own.generator, words)
    ages = (
        (words[0] >> _HALF_SHIFT) * np.uint64(kept) >> _HALF_SHIFT,
        (words[0] & _HALF_WORD) * np.uint64(kept) >> _HALF_SHIFT,
        (words[1] >> _HALF_SHIFT) * np.uint64(kept) >> _HALF_SHIFT,
        (words[1] & _HALF_WORD) * np.uint64(min(kept, LATE)) >> _HALF_SHIFT,
    )
    for k in range(DRAWN):
        back = 0 if newest and k == 0 else np.int64(ages[k])
        row = row_of_age(queues, label, queues.lengths[label] - 1 - back)
        at = count * own.width
        standardise_row(own, queues, row, own.tallies[PREDICTED], state.batch, at)
        if kept < JITTER_LIMIT and own.mechanisms & WITH_JITTER != 0 and not is_short:
            _jitter(own, state.batch, at, kept)
        if is_short:
            make_small(own, learner.networks, state.batch, at)
        else:
            pass_gates(own, state.batch, at)
        state.starts[count] = at
        state.targets[count] = np.float32(label)
        count += 1
    return count


@compiled
def _average(networks: DenseNetworks, source: int, to: int, share: np.float32) -> None:
    """Move the weights of the average by this share of the distance to those of the network."""
    size = networks.elements
    for k in range(size):
        mean = networks.parameters[to * size + k]
        networks.parameters[to * size + k] = mean + share * (networks.parameters[source * size + k] - mean)


@compiled
def _average_all(own: RelayState, networks: DenseNetworks) -> None:
    tallies = own.tallies
    most = AVERAGED_LABELS if own.mechanisms & WITH_AVERAGES != 0 else 1.0
    window = min(most, 1.0 + tallies[LABELS] / LABELS_TO_AVERAGE_ONE_MORE)
    _average(networks, NETWORK, AVERAGE, np.float32(1.0 / window))
    if tallies[ON] == 1:
        tried = tallies[TRIED] + tallies[TRIED + 1]
        window = min(most, 1.0 + tried / LABELS_TO_AVERAGE_ONE_MORE)
        _average(networks, CHALLENGER, CHALLENGER_AVERAGE, np.float32(1.0 / window))
    copy_predictor(own, networks)


@inlined
def _next_batch(learner: LearnerView, own: RelayState, newest: int) -> int:
    """Draw the examples of the next step, and let `steps` say which network takes it.

    Args:
        learner: The learner.
        own: RELAY's own state.
        newest: The class whose newest example must be in the step; -1: all are drawn.

    Returns:
        The number of examples; 0 after the last step, when the weights have been averaged.
    """
    tallies, steps = own.tallies, learner.state.steps
    if tallies[STEPS_LEFT] == 0:
        _average_all(own, learner.networks)
        return 0
    number = tallies[STEPS_LEFT] % _learning(own)
    is_challenger = number == tallies[ON] and number > 0
    is_short = number > tallies[ON]
    tallies[STEPS_LEFT] -= 1
    steps[NETWORK] = 1 if number == 0 else 0
    steps[CHALLENGER] = 1 if is_challenger else 0
    steps[SHORT] = 1 if is_short else 0
    count: int = ZERO
    for k in range(2):
        kept = tallies[RECENT + k] if is_challenger else learner.queues.lengths[k]
        if is_short:
            kept = min(kept, NEWEST)
        if kept > 0:
            count = _draw_examples(learner, own, k, kept, count, k == newest, is_short)
    return count


@inlined
def _again(learner: LearnerView) -> int:
    """Draw the examples of one more step."""
    return _next_batch(learner, state_of(learner.own), -1)


@compiled
def _correct(learner: LearnerView, slot: int, label: int) -> None:
    """Change the class of an example that is in a queue."""
    queues, tallies, other = learner.queues, state_of(learner.own).tallies, 1 - label
    age = age_of(queues, learner.inputs, slot, other)
    if age < 0:
        return
    if queues.lengths[other] - age <= tallies[RECENT + other]:
        tallies[RECENT + other] -= 1
    move_to_class(queues, age, label)
    tallies[RECENT + label] = min(tallies[RECENT + label] + 1, queues.lengths[label])


# Python's side --------------------------------------------------------------------------------------------------------


def _erased(tables: MethodTables, queue: int, gone: NDArray[np.bool_]) -> None:
    """Let the challenger draw from fewer examples."""
    tallies = tables.own.tallies
    tallies[RECENT + queue] -= np.count_nonzero(gone[len(gone) - tallies[RECENT + queue] :])


def _tallies_fit(tables: MethodTables, arrays: State) -> bool:
    tallies, own = arrays["tallies"], tables.own.tallies
    if tallies.shape != own.shape or tallies.dtype != np.int64:
        return False
    numbers = {name: arrays[name][None] for name in ("tallies", "lengths")}
    return bool(_tallies_right(numbers, np.zeros((1, 2), np.int64), 0)[0])


def _tallies_right(arrays: State, _held: Longs, _rows: int) -> NDArray[np.bool_]:
    tallies, lengths = np.asarray(arrays["tallies"], np.int64), np.asarray(arrays["lengths"], np.int64)
    right = (tallies >= 0).all(1) & (tallies[:, [ON, IS_SHORT]] <= 1).all(1) & (tallies[:, STEPS_LEFT] == 0)
    return np.asarray(right & (tallies[:, RECENT : RECENT + 2] <= lengths).all(1))


def _moments(tables: MethodTables) -> State:
    return moments_by_name(tables.own.moments)


def _load_moments(tables: MethodTables, arrays: State) -> None:
    for name, own in moments_by_name(tables.own.moments).items():
        own[...] = arrays[name]


_GENERATOR, _TALLIES, _ERRORS, _SLOPES, _GATES = (
    array_part(name, f"own.{name}") for name in ("generator", "tallies", "errors", "slopes", "gates")
)

_MOMENTS = StatePart(
    lambda tables: {name: own.copy() for name, own in _moments(tables).items()},
    lambda tables, arrays: all(
        (arrays[name].shape, arrays[name].dtype) == (own.shape, own.dtype) for name, own in _moments(tables).items()
    ),
    _load_moments,
    _moments,
)
"""float64 `[width]` each, by the names of a scaler's arrays, see `learners.moments`."""

_PARTS = (RINGS, _GENERATOR, _MOMENTS, _TALLIES._replace(fits=_tallies_fit, right=_tallies_right), _ERRORS, _SLOPES)


def relay(settings: LearnerSettings, features: int, seed: bytes, mechanisms: int = ALL_MECHANISMS) -> RunningMethod:
    """Make the method.

    Args:
        settings: The learner's.
        features: Numbers in an example.
        seed: The learner's 32-byte seed.
        mechanisms: Those that the study does not switch off, see `RelayState`.
    """
    gated = bool(mechanisms & WITH_GATES) and has_gates(features)
    kept = settings.replay_per_class
    tables = new_tables(
        features,
        new_state(features, seed, mechanisms if gated else mechanisms & ~WITH_GATES),
        queues=new_queues(features, 2, kept, kept, dated=True),
        networks=NETWORKS,
        voters=(int(PREDICTOR), 1),
        drawn=2 * DRAWN,
    )
    tables.state.steps[:] = 0  # `_next_batch` says which network takes a step; some never do
    return RunningMethod(tables, (*_PARTS, _GATES) if gated else _PARTS, is_alike=True, erased=_erased)


RELAY = LearningMethod("relay", Functions(_admit, _correct, _prepare, _review, _again), relay)
