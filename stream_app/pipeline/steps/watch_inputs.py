"""Compare the examples of a batch, and the scores of the champions, with earlier ones: drift without labels."""

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.jit.memory import doubles_at, longs_at
from stream_app.join.constants import OutputKind
from stream_app.join.input import Segments
from stream_app.join.layout import view_of
from stream_app.join.output import JoinOutput
from stream_app.pipeline.drift import FIGURES, observe_example, observe_label, report_drift
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.records import Operation


def watch_inputs(segments: Segments, drifts: Longs, out: JoinOutput, answers: LearnerAnswers) -> NDArray[np.float64]:
    """Take in the examples of all segments; return float64 `[reports, FIGURES]`.

    Args:
        segments: The work: records of each stream.
        drifts: int64 `[s, 2]`, addresses of the state of each stream, 0: the stream does not look for drift; empty if
            no stream does.
        out: The results of the join.
        answers: The answers of all learners.
    """
    reports = np.full((out.counts[OutputKind.REPORTS], FIGURES), np.nan)
    if len(drifts) and drifts.any():
        _watch(segments, drifts, out, answers, reports)
    return reports


@compiled_without_refcounts
def _watch(
    segments: Segments, drifts: Longs, out: JoinOutput, answers: LearnerAnswers, reports: NDArray[np.float64]
) -> None:
    for segment in range(len(segments.joins)):
        if drifts[segment, 0] == 0:
            continue
        own, kept = doubles_at(drifts[segment, 0]), doubles_at(drifts[segment, 1])
        state = view_of(longs_at(segments.joins[segment]))
        champion, report = out.champions[segment], out.bounds[segment, OutputKind.REPORTS]
        for k in range(out.bounds[segment, OutputKind.OPERATIONS], out.bounds[segment + 1, OutputKind.OPERATIONS]):
            if out.codes[k] == Operation.PREDICT:
                score = np.float64(answers.scores[champion, k])
                observe_example(own, kept, state.features, out.slots[k], score, champion)
            elif out.codes[k] == Operation.LEARN:
                observe_label(own)
            elif out.codes[k] == Operation.REPORT:
                report_drift(own, reports[report])
                report += 1
