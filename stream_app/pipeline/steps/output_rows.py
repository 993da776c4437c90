"""Predictions and outcomes of all streams, put from stream order into merge order."""

from typing import NamedTuple

import numpy as np

from stream_app.arrays import Integers, Longs
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.join.constants import OutputKind
from stream_app.join.input import JoinInput
from stream_app.join.output import JoinOutput
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.record_columns import OUTCOME_ROW, PREDICTION_ROW, Rows
from stream_app.records import ID_WORDS, Operation


class Owners(NamedTuple):
    """The streams and learners of s segments.

    Attributes:
        streams: int32 `[s]`, the stream of each.
        learners: int64 `[s]`, how many learners it has.
        numbers: int64 `[s, n]`, the task's number of each of these learners.
    """

    streams: Integers
    learners: Longs
    numbers: Longs


def output_rows(
    batch: JoinInput,
    owners: Owners,
    out: JoinOutput,
    answers: LearnerAnswers,
    *,
    every: bool,
) -> tuple[Rows, Rows]:
    """Return the predictions and the outcomes, each in merge order.

    Args:
        batch: The batch.
        owners: The streams and learners of s segments.
        out: The results of the join.
        answers: The answers of the learners.
        every: Whether every learner's prediction is a row, or the champion's only.
    """
    positions = len(batch.sides)
    segments, operations = np.empty(positions, np.int32), np.empty(positions, np.int32)
    predictions = np.empty(_find_predictions(owners, out, every, segments, operations), PREDICTION_ROW)
    _put_predictions(batch, owners, out, answers, every, segments, operations, predictions)
    outcomes = np.empty(int(out.counts[OutputKind.OUTCOMES]), OUTCOME_ROW)
    _put_outcomes(owners, out, np.zeros(positions + 1, np.int64), outcomes)
    return predictions, outcomes


@compiled_without_refcounts
def _find_predictions(owners: Owners, out: JoinOutput, every: bool, segments: Integers, operations: Integers) -> int:
    """Find the prediction of each position; return how many rows they make.

    Args:
        owners: Streams and learners of the segments.
        out: The results of the join.
        every: Whether every learner's prediction is a row, or the champion's only.
        segments: int32, by position, filled: the segment; -1: no prediction.
        operations: int32, by position, filled: the operation.
    """
    total = 0
    for position in range(len(segments)):
        segments[position] = -1
    for segment in range(len(owners.streams)):
        for k in range(out.bounds[segment, OutputKind.OPERATIONS], out.bounds[segment + 1, OutputKind.OPERATIONS]):
            if out.codes[k] == Operation.PREDICT:
                segments[out.positions[k]] = segment
                operations[out.positions[k]] = k
                total += owners.learners[segment] if every else 1
    return int(total)


@compiled_without_refcounts
def _put_predictions(
    batch: JoinInput,
    owners: Owners,
    out: JoinOutput,
    answers: LearnerAnswers,
    every: bool,
    segments: Integers,
    operations: Integers,
    rows: Rows,
) -> None:
    """Fill the rows in merge order, from what `_find_predictions` found."""
    row = 0
    for position in range(len(segments)):
        segment, k = segments[position], operations[position]
        if segment < 0:
            continue
        champion, example = out.champions[segment], batch.rows[position]
        for learner in range(0 if every else champion, owners.learners[segment] if every else champion + 1):
            cells = rows[row]
            cells["position"] = position
            cells["stream"] = owners.streams[segment]
            for word in range(ID_WORDS):
                cells["id"][word] = batch.example_ids[example, word]
            cells["learner"] = owners.numbers[segment, learner]
            cells["champion"] = learner == champion
            cells["score"] = answers.scores[learner, k]
            cells["probability"] = answers.probabilities[learner, k]
            cells["predicted_class"] = answers.classes[learner, k]
            cells["model_version"] = answers.versions[learner, k]
            cells["threshold_kind"] = out.thresholds[segment]
            cells["threshold"] = answers.thresholds[learner, k]
            row += 1


@compiled_without_refcounts
def _put_outcomes(owners: Owners, out: JoinOutput, following: Longs, rows: Rows) -> None:
    """Fill the rows in merge order by counting; `following` are zeros, one more than positions."""
    for at in range(out.counts[OutputKind.OUTCOMES]):
        following[out.outcomes[at]["position"] + 1] += 1
    for position in range(len(following) - 1):
        following[position + 1] += following[position]
    for segment in range(len(owners.streams)):
        for at in range(out.bounds[segment, OutputKind.OUTCOMES], out.bounds[segment + 1, OutputKind.OUTCOMES]):
            position = out.outcomes[at]["position"]
            row = following[position]
            following[position] = row + 1
            rows[row] = out.outcomes[at]
            cells = rows[row]
            cells["stream"] = owners.streams[segment]
            if cells["learner"] >= 0:
                cells["learner"] = owners.numbers[segment, cells["learner"]]
