"""The output of the join: operations for the learners, outcomes, dead letters, reports; and the code that adds them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Integers, Longs, Words
from stream_app.config import MIN_WINDOW_EXAMPLES
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.constants import AMENDMENT_COLUMNS, OUTPUT_KINDS, REPORT_COLUMNS, Counter, OutputKind
from stream_app.join.delays import quantile
from stream_app.join.input import Segments
from stream_app.join.layout import JoinArrays
from stream_app.record_columns import NO_OUTCOME, OUTCOME_ROW, Rows
from stream_app.records import ID_WORDS, Operation


class JoinOutput(NamedTuple):
    """The results of one call, in order, one stream after the other.

    Positions are positions in the merged sequence. The arrays are as long as the call may need; `counts` has the
    lengths that are used. Slots that a call gives up are free only after it, so the results can name them.

    Attributes:
        counts: int64 `[OUTPUT_KINDS]`, the number of operations, outcomes, dead letters, waiting labels, released
            labels, reports and amendments.
        bounds: int64 `[s + 1, OUTPUT_KINDS]`, these numbers before each stream, and at the end.
        champions: int32 `[s]`, the champion of each stream during the call, a number among the stream's learners.
        thresholds: uint8 `[s]`, the `ThresholdKind` of each stream during the call.
        codes: uint8, the `Operation`.
        slots: int32, its slot; -1 at `Operation.REPORT`.
        classes: int8, its class; -1 at `Operation.PREDICT` and `Operation.REPORT`.
        positions: int32, the position that caused it.
        outcomes: `OUTCOME_ROW`, without `stream` and `event_time_ms`; `learner` is its number within the stream.
        outcome_slots: int32, the slot of the example that each outcome closes; -1: it closes no example.
        dead_positions: int32, of each dead letter: the position that caused it.
        dead_reasons: uint8, `Reason`.
        dead_slots: int32, the slot of the label that waited; -1: the dead letter is the record at the position itself.
        dead_causes: uint8, `Cause`.
        dead_delays: int64, how late it was in milliseconds of stream time, see `label_causes`; 0 without a cause.
        waiting_slots: int32, the slot of each label that began to wait.
        waiting_positions: int32, its position.
        released_slots: int32, the slot of each label that no longer waits.
        reports: int64 `[reports, REPORT_COLUMNS]`.
        amendments: int64 `[amendments, AMENDMENT_COLUMNS]`, closed ids whose class, or whose revision, has changed.
    """

    counts: Longs
    bounds: Longs
    champions: Integers
    thresholds: Bytes
    codes: Bytes
    slots: Integers
    classes: NDArray[np.int8]
    positions: Integers
    outcomes: Rows
    outcome_slots: Integers
    dead_positions: Integers
    dead_reasons: Bytes
    dead_slots: Integers
    dead_causes: Bytes
    dead_delays: Longs
    waiting_slots: Integers
    waiting_positions: Integers
    released_slots: Integers
    reports: Longs
    amendments: Longs


def output_of(segments: Segments, closings: int) -> JoinOutput:
    """Allocate the output of one call.

    Args:
        segments: The work of the call.
        closings: The most outcomes or dead letters that it can have, from `segments.wanting`.
    """
    streams, rows = len(segments.joins), int((segments.ends - segments.starts).sum())
    windows = rows // MIN_WINDOW_EXAMPLES + streams  # that end here, each with a report
    operations = 3 * rows + streams + windows
    return JoinOutput(
        counts=np.zeros(OUTPUT_KINDS, np.int64),
        bounds=np.zeros((streams + 1, OUTPUT_KINDS), np.int64),
        champions=np.empty(streams, np.int32),
        thresholds=np.empty(streams, np.uint8),
        codes=np.empty(operations, np.uint8),
        slots=np.empty(operations, np.int32),
        classes=np.empty(operations, np.int8),
        positions=np.empty(operations, np.int32),
        outcomes=np.empty(closings, OUTCOME_ROW),
        outcome_slots=np.empty(closings, np.int32),
        dead_positions=np.empty(closings, np.int32),
        dead_reasons=np.empty(closings, np.uint8),
        dead_slots=np.empty(closings, np.int32),
        dead_causes=np.empty(closings, np.uint8),
        dead_delays=np.empty(closings, np.int64),
        waiting_slots=np.empty(rows, np.int32),
        waiting_positions=np.empty(rows, np.int32),
        released_slots=np.empty(closings, np.int32),
        reports=np.empty((rows + streams + windows, REPORT_COLUMNS), np.int64),
        amendments=np.empty((rows, AMENDMENT_COLUMNS), np.int64),
    )


@inlined_without_refcounts
def add_operation(out: JoinOutput, code: Number, slot: Number, label: Number, position: Number) -> None:
    """Append an operation for the learners."""
    row = out.counts[OutputKind.OPERATIONS]
    out.codes[row] = code
    out.slots[row] = slot
    out.classes[row] = label
    out.positions[row] = position
    out.counts[OutputKind.OPERATIONS] = row + 1


@inlined_without_refcounts
def add_outcome(out: JoinOutput, position: Number, kind: np.uint8, slot: Number, ids: Words, id_row: Number) -> np.void:
    """Append an outcome whose other columns are null; return its row, where the caller puts what it has.

    Args:
        out: The output.
        position: The position that caused the outcome.
        kind: `OutcomeKind`.
        slot: The slot of the example that it closes; -1: it closes no example.
        ids: The array that has the id.
        id_row: The row of the id in it.
    """
    row = out.counts[OutputKind.OUTCOMES]
    out.counts[OutputKind.OUTCOMES] = row + 1
    out.outcome_slots[row] = slot
    out.outcomes[row] = NO_OUTCOME[0]
    outcome: np.void = out.outcomes[row]
    outcome["position"] = position
    outcome["outcome"] = kind
    for word in range(ID_WORDS):
        outcome["id"][word] = ids[id_row, word]
    return outcome


@inlined_without_refcounts
def add_dead_letter(
    out: JoinOutput, position: Number, reason: np.uint8, slot: Number, cause: np.uint8, delay_ms: Number
) -> None:
    """Append a dead letter: the label that waited in a slot, or with slot -1 the record at the position."""
    row = out.counts[OutputKind.DEAD]
    out.dead_positions[row] = position
    out.dead_reasons[row] = reason
    out.dead_slots[row] = slot
    out.dead_causes[row] = cause
    out.dead_delays[row] = delay_ms
    out.counts[OutputKind.DEAD] = row + 1


@inlined_without_refcounts
def add_waiting(out: JoinOutput, slot: Number, position: Number) -> None:
    """Append a label that begins to wait."""
    row = out.counts[OutputKind.WAITING]
    out.waiting_slots[row] = slot
    out.waiting_positions[row] = position
    out.counts[OutputKind.WAITING] = row + 1


@inlined_without_refcounts
def add_released(out: JoinOutput, slot: Number) -> None:
    """Append a label that no longer waits."""
    row = out.counts[OutputKind.RELEASED]
    out.released_slots[row] = slot
    out.counts[OutputKind.RELEASED] = row + 1


@inlined_without_refcounts
def add_report(state: JoinArrays, out: JoinOutput, position: Number) -> None:
    """Append a report of the stream's counters and delays, and the operation that asks the learners for theirs."""
    add_operation(out, Operation.REPORT, -1, -1, position)
    row = out.reports[out.counts[OutputKind.REPORTS]]
    row[0] = state.counters[Counter.LABELLED]
    row[1] = state.counters[Counter.EXAMPLES]
    row[2] = state.counters[Counter.UNLABELLED]
    row[3] = state.counters[Counter.EVICTED]
    row[4] = state.counters[Counter.DUPLICATES]
    row[5] = state.counters[Counter.PENDING]
    row[6] = state.counters[Counter.WAITING]
    row[7] = quantile(state.delays, state.counters[Counter.LABELLED], 0.5)
    row[8] = quantile(state.delays, state.counters[Counter.LABELLED], 0.9)
    row[9] = quantile(state.delays, state.counters[Counter.LABELLED], 0.99)
    out.counts[OutputKind.REPORTS] += 1
