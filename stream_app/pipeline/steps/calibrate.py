"""Turn the scores of a batch into probabilities and classes, learn what scores mean, and complete the outcomes."""

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, doubles_at, longs_at
from stream_app.join import segments as join
from stream_app.join.constants import NO_ANSWER, Amendment, Counter, OutputKind
from stream_app.join.input import Segments
from stream_app.join.layout import view_of
from stream_app.join.output import JoinOutput
from stream_app.join.score_bins import BINS, score_bin, unpacked_bin
from stream_app.pipeline.calibration import calibration_error, correct_label, count_label, probability_of
from stream_app.pipeline.decisions import decide
from stream_app.pipeline.prequential import UNPREDICTED, power
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.records import Operation, ThresholdKind

_MAJORITY = int(ThresholdKind.MAJORITY)


def calibrate(segments: Segments, calibrations: Longs, fading: float, out: JoinOutput, answers: LearnerAnswers) -> None:
    """Fill probabilities, thresholds and calibration errors of the answers, and decide the classes.

    The outcomes get learner, score and probability.

    Call it once, after all learners have answered and, with corrections, after `keep_answers`.

    Args:
        segments: The work: records of each stream.
        calibrations: int64 `[s, n]`, addresses of the calibrations of each stream's learners; 0: no such learner.
        fading: The fading factor of the prevalence.
        out: The results of the join.
        answers: The answers of the learners.
    """
    _calibrate(segments, calibrations, fading, out, answers, np.empty((3, BINS)))


@compiled_without_refcounts
def _calibrate(
    segments: Segments,
    calibrations: Longs,
    fading: float,
    out: JoinOutput,
    answers: LearnerAnswers,
    scratch: NDArray[np.float64],
) -> None:
    for segment in range(len(segments.joins)):
        for learner in range(calibrations.shape[1]):
            if calibrations[segment, learner] != 0:
                own = doubles_at(calibrations[segment, learner])
                _run_segment(own, segments.joins[segment], segment, learner, fading, out, answers, scratch)
        join.complete_outcomes(segments.joins[segment], segment, out)


@inlined_without_refcounts
def _run_segment(
    own: Pointer,
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
            answers.thresholds[learner, k] = threshold
            if kind != _MAJORITY:
                decided = decide(kind, threshold, answers.scores[learner, k], probability)
                answers.classes[learner, k] = decided
                state.classes[learner, slot] = decided
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
