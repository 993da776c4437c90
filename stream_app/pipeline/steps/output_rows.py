"""Predictions and outcomes of all streams, put from stream order into merge order."""

from typing import NamedTuple

import numpy as np

from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.join.constants import OutputKind
from stream_app.join.input import JoinInput
from stream_app.join.output import JoinOutput
from stream_app.pipeline.outputs import OutcomeRows, PredictionRows
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.records import ID_WORDS, Integers, Longs, Operation


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


def prediction_rows(
    batch: JoinInput, owners: Owners, out: JoinOutput, answers: LearnerAnswers, *, every: bool
) -> PredictionRows:
    """Return the predictions of every learner, or of the champions only, in merge order."""
    positions = len(batch.sides)
    segments, operations = np.empty(positions, np.int32), np.empty(positions, np.int32)
    count = _find_predictions(owners, out, every, segments, operations)
    rows = PredictionRows(
        positions=np.empty(count, np.int32),
        streams=np.empty(count, np.int32),
        learners=np.empty(count, np.int32),
        ids=np.empty((count, ID_WORDS), np.uint64),
        champions=np.empty(count, np.bool_),
        scores=np.empty(count, np.float32),
        labels=np.empty(count, np.int8),
        versions=np.empty(count, np.int64),
    )
    _put_predictions(batch, owners, out, answers, every, segments, operations, rows)
    return rows


def outcome_rows(owners: Owners, out: JoinOutput, positions: int) -> OutcomeRows:
    """Return the outcomes in merge order; `positions` is the length of the merged sequence."""
    count = int(out.counts[OutputKind.OUTCOMES])
    rows = OutcomeRows(
        positions=np.empty(count, np.int32),
        streams=np.empty(count, np.int32),
        kinds=np.empty(count, np.uint8),
        ids=np.empty((count, ID_WORDS), np.uint64),
        labels=np.empty(count, np.int8),
        learners=np.empty(count, np.int32),
        scores=np.empty(count, np.float32),
        delays=np.empty(count, np.int64),
        examples=np.empty(count, np.int64),
        label_offsets=np.empty(count, np.int64),
    )
    _put_outcomes(owners, out, np.zeros(positions + 1, np.int64), rows)
    return rows


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
    for part in range(len(owners.streams)):
        for k in range(out.bounds[part, OutputKind.OPERATIONS], out.bounds[part + 1, OutputKind.OPERATIONS]):
            if out.codes[k] == Operation.PREDICT:
                segments[out.positions[k]] = part
                operations[out.positions[k]] = k
                total += owners.learners[part] if every else 1
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
    rows: PredictionRows,
) -> None:
    """Fill the rows in merge order, from what `_find_predictions` found."""
    row = 0
    for position in range(len(segments)):
        part, k = segments[position], operations[position]
        if part < 0:
            continue
        champion, example = out.champions[part], batch.rows[position]
        for learner in range(0 if every else champion, owners.learners[part] if every else champion + 1):
            rows.positions[row] = position
            rows.streams[row] = owners.streams[part]
            rows.learners[row] = owners.numbers[part, learner]
            for word in range(ID_WORDS):
                rows.ids[row, word] = batch.example_ids[example, word]
            rows.champions[row] = learner == champion
            rows.scores[row] = answers.scores[learner, k]
            rows.labels[row] = answers.classes[learner, k]
            rows.versions[row] = answers.versions[learner, k]
            row += 1


@compiled_without_refcounts
def _put_outcomes(owners: Owners, out: JoinOutput, places: Longs, rows: OutcomeRows) -> None:
    """Fill the rows in merge order by counting; `places` are zeros, one more than positions."""
    for at in range(out.counts[OutputKind.OUTCOMES]):
        places[out.outcome_positions[at] + 1] += 1
    for position in range(len(places) - 1):
        places[position + 1] += places[position]
    for part in range(len(owners.streams)):
        for at in range(out.bounds[part, OutputKind.OUTCOMES], out.bounds[part + 1, OutputKind.OUTCOMES]):
            position, learner = out.outcome_positions[at], out.outcome_learners[at]
            row = places[position]
            places[position] = row + 1
            rows.positions[row] = position
            rows.streams[row] = owners.streams[part]
            rows.kinds[row] = out.outcome_kinds[at]
            for word in range(ID_WORDS):
                rows.ids[row, word] = out.outcome_ids[at, word]
            rows.labels[row] = out.outcome_labels[at]
            rows.learners[row] = owners.numbers[part, learner] if learner >= 0 else -1
            rows.scores[row] = out.outcome_scores[at]
            rows.delays[row] = out.outcome_delays[at]
            rows.examples[row] = out.outcome_examples[at]
            rows.label_offsets[row] = out.outcome_label_offsets[at]
