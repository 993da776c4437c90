"""Join and learn: one compiled call over the streams in turn.

Streams never meet, but a call per step and stream would cost a hundred times the work on a record. So the call knows
each stream and each learner by the address of its descriptor, and finishes one stream, while its state is in the CPU's
cache, before it begins the next one. Learners that are not compiled answer afterwards, stream by stream.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.jit.compiler import compiled, compiled_without_refcounts
from stream_app.jit.memory import longs_at, offset_pointer, pointer_to
from stream_app.join import segments as join
from stream_app.join.constants import OutputKind
from stream_app.join.input import JoinInput, Segments
from stream_app.join.layout import view_of
from stream_app.join.output import JoinOutput
from stream_app.learners import loop
from stream_app.learners.api import REPORT_WIDTH, Operations
from stream_app.learners.scaler import OperationBuffers
from stream_app.pipeline.stream import Stream
from stream_app.records import Operation


class LearnerAnswers(NamedTuple):
    """The answers of n learners to m operations; see `learners.api.Answers`.

    At `Operation.LEARN`, scores and classes are those that the learner had predicted for the example.

    Attributes:
        scores: float32 `[n, m]`.
        probabilities: float32 `[n, m]`, filled by `calibrate` at `Operation.PREDICT`.
        classes: int8 `[n, m]`; `calibrate` decides them again if the stream has a threshold.
        thresholds: float32 `[n, m]`, filled by `calibrate` at `Operation.PREDICT`: what score or probability was
            compared with; NaN: the learner's own class counts.
        versions: int64 `[n, m]`.
        reports: float64 `[n, reports, REPORT_WIDTH]`.
        calibration_errors: float64 `[n, reports]`, filled by `calibrate`; NaN: not known.
    """

    scores: Floats
    probabilities: Floats
    classes: NDArray[np.int8]
    thresholds: Floats
    versions: Longs
    reports: NDArray[np.float64]
    calibration_errors: NDArray[np.float64]


def answers_of(learners: int, operations: int, reports: int) -> LearnerAnswers:
    """Allocate the answers; only reports need be zero."""
    return LearnerAnswers(
        scores=np.empty((learners, operations), np.float32),
        probabilities=np.empty((learners, operations), np.float32),
        classes=np.empty((learners, operations), np.int8),
        thresholds=np.empty((learners, operations), np.float32),
        versions=np.empty((learners, operations), np.int64),
        reports=np.zeros((learners, reports, REPORT_WIDTH)),
        calibration_errors=np.full((learners, reports), np.nan),
    )


@compiled
def join_and_learn(
    batch: JoinInput, segments: Segments, learners: Longs, out: JoinOutput, answers: LearnerAnswers
) -> None:
    """Join each segment, and let its compiled learners answer.

    Args:
        batch: The batch.
        segments: The work: records of each stream.
        learners: int64 `[s, n]`, addresses of the learners' descriptors; 0: no such learner, or it is not compiled.
        out: Filled with the results of the join.
        answers: Filled with the answers of these learners.
    """
    operations, reports = answers.scores.shape[1], answers.reports.shape[1] * REPORT_WIDTH
    count, each = len(segments.joins), learners.shape[1]
    for segment in range(count):
        if segment + 3 < count:
            join.prefetch_descriptor(segments.joins[segment + 3])
        if segment + 2 < count:
            join.prefetch_counters(segments.joins[segment + 2])
            for k in range(each):
                loop.prefetch_descriptor(learners[segment + 2, k])
        if segment + 1 < count:
            join.prefetch_segment(batch, segments, segment + 1)
        join.run_segment(batch, segments, segment, out)
        state = view_of(longs_at(segments.joins[segment]))
        begin, end = out.bounds[segment, OutputKind.OPERATIONS], out.bounds[segment + 1, OutputKind.OPERATIONS]
        slots = len(state.states)
        for k in range(each):
            if learners[segment, k] != 0:
                buffers = OperationBuffers(
                    pointer_to(out.codes),
                    pointer_to(out.slots),
                    pointer_to(out.classes),
                    pointer_to(state.features),
                    pointer_to(state.ids),
                    offset_pointer(pointer_to(answers.scores), k * operations),
                    offset_pointer(pointer_to(answers.classes), k * operations),
                    offset_pointer(pointer_to(answers.versions), k * operations),
                    offset_pointer(pointer_to(answers.reports), k * reports),
                    offset_pointer(pointer_to(state.scores), k * slots),
                    offset_pointer(pointer_to(state.classes), k * slots),
                )
                following = learners[segment + 1, k] if segment + 1 < count else 0
                report = out.bounds[segment, OutputKind.REPORTS]
                loop.run_segment(longs_at(learners[segment, k]), buffers, begin, end, report, True, following)


def learn_interpreted(stream: Stream, number: int, segment: int, out: JoinOutput, answers: LearnerAnswers) -> None:
    """Let a learner that is not compiled answer for one segment.

    Args:
        stream: The stream of the segment.
        number: The number of the learner among the stream's own.
        segment: The number of the segment.
        out: The results of the join.
        answers: Filled with the answers of this learner.
    """
    state = stream.join.arrays()
    own, reports = (
        slice(out.bounds[segment, kind], out.bounds[segment + 1, kind])
        for kind in (OutputKind.OPERATIONS, OutputKind.REPORTS)
    )
    operations = Operations(out.codes[own], out.slots[own], out.classes[own])
    given = stream.learners[number].run(operations, state["features"], state["ids"])
    scores, classes = answers.scores[number, own], answers.classes[number, own]
    scores[:], classes[:], answers.versions[number, own] = given.scores, given.labels, given.versions
    answers.reports[number, reports] = given.reports
    kept_scores, kept_classes = state["scores"][number], state["classes"][number]
    predicted, learned = operations.codes == Operation.PREDICT, operations.codes == Operation.LEARN
    kept_scores[operations.slots[predicted]] = scores[predicted]
    kept_classes[operations.slots[predicted]] = classes[predicted]
    scores[learned] = kept_scores[operations.slots[learned]]
    classes[learned] = kept_classes[operations.slots[learned]]


@compiled_without_refcounts
def keep_answers(segments: Segments, out: JoinOutput) -> None:
    """Keep all answers with the closed ids and the amendments of all segments; only with corrections."""
    for segment in range(len(segments.joins)):
        join.keep_answers(segments.joins[segment], segment, out)
