"""Score the stored predictions at each label, and follow whether learners have become worse."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Integers, Longs
from stream_app.config import MetricSettings
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import longs_at
from stream_app.join.constants import NO_ANSWER, Amendment, OutputKind
from stream_app.join.costs import unpacked_costs
from stream_app.join.layout import view_of
from stream_app.join.output import JoinOutput
from stream_app.join.score_bins import score_bin, unpacked_bin
from stream_app.pipeline import degradation, prequential
from stream_app.pipeline.prequential import (
    CORRECTED,
    MAIN_WINDOW,
    REPORT_COLUMNS,
    UNPREDICTED,
    Labelled,
    PastAnswers,
    factors_of,
)
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.records import Operation


class Scores(NamedTuple):
    """The figures of n learners at r reports.

    Attributes:
        positions: int32 `[r]`, the position that each report belongs to.
        windows: float64 `[n, r, w, 10]`, the numbers of each window, by `prequential.REPORT_COLUMNS`.
        changes: float64 `[n, r, degradation.REPORT_COLUMNS]`, see `degradation.change_of`.
    """

    positions: Integers
    windows: NDArray[np.float64]
    changes: NDArray[np.float64]


def evaluate(
    joins: Longs, sums: Longs, monitors: Longs, settings: MetricSettings, out: JoinOutput, answers: LearnerAnswers
) -> Scores:
    """Take the labels and corrections of all segments into the learners' sums and change monitors.

    Args:
        joins: int64 `[s]`, addresses of the descriptors of the streams' joins, for the costs of examples; empty: no
            stream has costs.
        sums: int64 `[s, n]`, addresses of the prequential sums of each stream's learners; 0: no such learner.
        monitors: int64 `[s, n]`, addresses of their change monitors.
        settings: The fading factors and the change detector.
        out: The results of the join.
        answers: The answers of the learners.
    """
    (segments, learners), reports, most = sums.shape, out.counts[OutputKind.REPORTS], len(out.waiting_slots)
    labelled = Labelled(
        labels=np.empty(most, np.int8),
        bounds=np.empty(segments + 1, np.int64),
        seen=np.empty(reports, np.int64),
        reports=np.ascontiguousarray(out.bounds[:, OutputKind.REPORTS]),
        ages=np.empty((out.counts[OutputKind.AMENDMENTS], 3), np.int64),
        corrections=np.empty(segments + 1, np.int64),
        costs=np.full((most if len(joins) else 0, 2), np.nan, np.float32),
    )
    predicted, bins = np.empty((learners, most), np.int8), np.empty((learners, most), np.uint8)
    positions = np.empty(reports, np.int32)
    _find_labels(joins, out, answers, labelled, predicted, bins, positions)
    factors = factors_of(settings.fading_factors, settings.prevalence_fading_factor)
    after = np.empty((len(factors), most, 4))
    reported = np.empty((learners, reports, len(factors), len(REPORT_COLUMNS)))
    changes = np.zeros((learners, reports, degradation.REPORT_COLUMNS))
    method = degradation.method_of(settings.change_detector)
    memory = degradation.memory_of(settings.fading_factors[MAIN_WINDOW])
    for k in range(learners):
        own, own_monitors = (np.ascontiguousarray(addresses[:, k]) for addresses in (sums, monitors))
        prequential.run(own, factors, labelled, PastAnswers(predicted[k], bins[k]), after, reported[k])
        if method:
            degradation.run(own_monitors, method, memory, labelled, predicted[k], after[MAIN_WINDOW], changes[k])
    return Scores(positions, reported, changes)


@inlined_without_refcounts
def _find_costs(joins: Longs, stream: int, slot: int, costs: Floats, row: int) -> None:
    """Take over the costs of the example of a slot; those of a stream without costs stay unknown."""
    if len(joins) > 0:
        state = view_of(longs_at(joins[stream]))
        if state.costs.shape[1] > 0:
            costs[row, 0], costs[row, 1] = state.costs[slot, 0], state.costs[slot, 1]


@inlined_without_refcounts
def _find_kept_costs(word: np.int64, costs: Floats, row: int) -> None:
    """Take over the costs that were kept with a closed id."""
    if len(costs) > 0:
        costs[row, 0], costs[row, 1] = unpacked_costs(word)


@compiled_without_refcounts
def _find_labels(
    joins: Longs,
    out: JoinOutput,
    answers: LearnerAnswers,
    labelled: Labelled,
    predicted: NDArray[np.int8],
    bins: Bytes,
    report_positions: Integers,
) -> None:
    """Find the labels and corrections, what had been predicted, and the reports among the operations.

    Args:
        joins: As in `evaluate`.
        out: The results of the join.
        answers: The answers of the learners.
        labelled: Filled, except `reports`.
        predicted: int8 `[n, ...]`, filled: the class that each learner had predicted.
        bins: uint8 `[n, ...]`, filled: the bin of the score.
        report_positions: int32 `[reports]`, filled.
    """
    count, report, amendment, correction = 0, 0, 0, 0
    for stream in range(len(out.champions)):
        labelled.bounds[stream] = count
        labelled.corrections[stream] = correction
        for k in range(out.bounds[stream, OutputKind.OPERATIONS], out.bounds[stream + 1, OutputKind.OPERATIONS]):
            if out.codes[k] == Operation.LEARN:
                labelled.labels[count] = out.classes[k]
                for learner in range(len(predicted)):
                    predicted[learner, count] = answers.classes[learner, k]
                    bins[learner, count] = score_bin(answers.scores[learner, k])
                _find_costs(joins, stream, out.slots[k], labelled.costs, count)
                count += 1
            elif out.codes[k] == Operation.CORRECT:
                while out.amendments[amendment, Amendment.SLOT] < 0:  # only the revision changed: there is no operation
                    amendment += 1
                labelled.labels[count] = CORRECTED + out.classes[k]
                labelled.ages[correction, 0] = out.amendments[amendment, Amendment.OLD_AGE]
                labelled.ages[correction, 1] = out.amendments[amendment, Amendment.NEW_AGE]
                labelled.ages[correction, 2] = out.amendments[amendment, Amendment.LEFT]
                bits = out.amendments[amendment, Amendment.ANSWERS]
                for learner in range(len(predicted)):
                    known = (bits >> (NO_ANSWER + learner)) & 1 == 0
                    predicted[learner, count] = (bits >> learner) & 1 if known else UNPREDICTED
                    word = out.amendments[amendment, Amendment.SCORE_BINS + learner // 8]
                    bins[learner, count] = unpacked_bin(word, learner)
                _find_kept_costs(out.amendments[amendment, Amendment.COSTS], labelled.costs, count)
                amendment += 1
                correction += 1
                count += 1
            elif out.codes[k] != Operation.PREDICT:
                labelled.seen[report] = count
                report_positions[report] = out.positions[k]
                report += 1
    labelled.bounds[len(out.champions)] = count
    labelled.corrections[len(out.champions)] = correction
