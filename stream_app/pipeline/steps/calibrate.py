"""Turn the scores of a batch into probabilities and classes, learn what scores mean, and complete the outcomes."""

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, doubles_at, longs_at
from stream_app.join import segments as join
from stream_app.join.constants import NO_ANSWER, Amendment, Counter, OutputKind
from stream_app.join.input import JoinInput, Segments
from stream_app.join.layout import JoinArrays, view_of
from stream_app.join.output import JoinOutput
from stream_app.join.score_bins import BINS, score_bin, unpacked_bin
from stream_app.pipeline.alert_share import carry_over, threshold_of_share
from stream_app.pipeline.calibration import calibration_error, correct_label, count_label, probability_of
from stream_app.pipeline.decisions import decide, threshold_of_costs
from stream_app.pipeline.prequential import UNPREDICTED, power
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.records import Operation, ThresholdKind

_MAJORITY, _COSTS, _ALERTS = (int(kind) for kind in (ThresholdKind.MAJORITY, ThresholdKind.COSTS, ThresholdKind.ALERTS))


def calibrate(
    batch: JoinInput,
    segments: Segments,
    learners: tuple[Longs, Longs],
    fading: float,
    out: JoinOutput,
    answers: LearnerAnswers,
) -> None:
    """Fill probabilities, thresholds and calibration errors of the answers, and decide the classes.

    The outcomes get learner, score and probability.

    Call it once, after all learners have answered and, with corrections, after `keep_answers`.

    Args:
        batch: The batch, for the costs of its examples.
        segments: The work: records of each stream.
        learners: int64 `[s, n]` each, addresses of the calibration and of the `AlertShare` of each stream's learners;
            0: no such learner.
        fading: The fading factor of the prevalence.
        out: The results of the join.
        answers: The answers of the learners.
    """
    _calibrate(batch, segments, learners, fading, out, answers, np.empty((3, BINS)))


@compiled_without_refcounts
def _calibrate(
    batch: JoinInput,
    segments: Segments,
    learners: tuple[Longs, Longs],
    fading: float,
    out: JoinOutput,
    answers: LearnerAnswers,
    scratch: NDArray[np.float64],
) -> None:
    calibrations, alerts = learners
    for segment in range(len(segments.joins)):
        for learner in range(calibrations.shape[1]):
            if calibrations[segment, learner] != 0:
                own = doubles_at(calibrations[segment, learner])
                own_alerts = doubles_at(alerts[segment, learner])
                _run_segment(
                    batch, own, own_alerts, segments.joins[segment], segment, learner, fading, out, answers, scratch
                )
        join.complete_outcomes(segments.joins[segment], segment, out)


@inlined_without_refcounts
def _keep_costs(state: JoinArrays, slot: int, batch: JoinInput, position: int) -> None:
    """Keep the costs of an example, if its stream has any, until its label comes."""
    if len(batch.costs) > 0 and state.costs.shape[1] > 0:
        for which in range(2):
            state.costs[slot, which] = batch.costs[batch.rows[position], which]


@inlined_without_refcounts
def _decide(
    state: JoinArrays,
    slot: int,
    kind: Number,
    alerts: Pointer,
    fading: float,
    answers: LearnerAnswers,
    learner: Number,
    k: Number,
) -> None:
    """Decide the class of a prediction, whose threshold is that of the stream unless it depends on the example."""
    if kind == _COSTS:
        answers.thresholds[learner, k] = threshold_of_costs(state.costs[slot, 0], state.costs[slot, 1])
    score, share = answers.scores[learner, k], np.int64(state.counters[Counter.THRESHOLD]).view(np.float64)
    if kind == _ALERTS:
        answers.thresholds[learner, k] = threshold_of_share(alerts, share, fading, score)
    threshold = answers.thresholds[learner, k]
    decided = decide(kind, threshold, score, answers.probabilities[learner, k])
    if kind == _ALERTS:
        carry_over(alerts, share, decided)
    answers.classes[learner, k] = decided
    state.classes[learner, slot] = decided


@inlined_without_refcounts
def _run_segment(
    batch: JoinInput,
    own: Pointer,
    alerts: Pointer,
    address: Number,
    segment: Number,
    learner: Number,
    fading: float,
    out: JoinOutput,
    answers: LearnerAnswers,
    scratch: NDArray[np.float64],
) -> None:
    """Carry out the operations of one segment, in order, on the calibration of one of its learners."""
    state = view_of(longs_at(address))
    kind, value = out.thresholds[segment], np.float32(np.int64(state.counters[Counter.THRESHOLD]).view(np.float64))
    threshold = np.float32(np.nan) if kind == _MAJORITY else value
    report = out.bounds[segment, OutputKind.REPORTS]
    amendment = out.bounds[segment, OutputKind.AMENDMENTS]
    for k in range(out.bounds[segment, OutputKind.OPERATIONS], out.bounds[segment + 1, OutputKind.OPERATIONS]):
        slot = out.slots[k]
        if out.codes[k] == Operation.PREDICT:
            probability = probability_of(own, answers.scores[learner, k])
            answers.probabilities[learner, k] = probability
            state.probabilities[learner, slot] = probability
            _keep_costs(state, slot, batch, out.positions[k])
            answers.thresholds[learner, k] = threshold
            if kind != _MAJORITY:
                _decide(state, slot, kind, alerts, fading, answers, learner, k)
        elif out.codes[k] == Operation.LEARN:
            if kind != _MAJORITY:  # the learner answered with its own class of an example of this very call
                answers.classes[learner, k] = state.classes[learner, slot]
            if answers.classes[learner, k] != UNPREDICTED:
                row = score_bin(answers.scores[learner, k])
                count_label(own, fading, out.classes[k], row, state.probabilities[learner, slot], scratch)
        elif out.codes[k] == Operation.CORRECT:
            while out.amendments[amendment, Amendment.SLOT] < 0:  # only the revision changed: there is no operation
                amendment += 1
            if (out.amendments[amendment, Amendment.ANSWERS] >> (NO_ANSWER + learner)) & 1 == 0:
                age = out.amendments[amendment, Amendment.OLD_AGE] + out.amendments[amendment, Amendment.NEW_AGE]
                row = unpacked_bin(out.amendments[amendment, Amendment.SCORE_BINS + learner // 8], learner)
                correct_label(own, power(fading, age), out.classes[k], row)
            amendment += 1
        else:
            answers.calibration_errors[learner, report] = calibration_error(own)
            report += 1
