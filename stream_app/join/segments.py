"""One call over many streams: apply each stream's records, then put the learners' answers beside its outcomes.

`wanting` says which streams must grow first, `run_segment` applies the records of one stream, and after its learners
have answered, `complete_outcomes` and, with corrections, `keep_answers` complete the output. The `prefetch_` functions
load into the CPU's cache what the segments that follow will need.
"""

import numpy as np

from stream_app.arrays import NO_LONG, Bytes, Integers
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import (
    PREFETCH_DISTANCE,
    Number,
    Pointer,
    integer_of,
    longs_at,
    pointer_to,
    prefetch,
    prefetch_all,
)
from stream_app.join.closing import close_advanced
from stream_app.join.constants import (
    COUNTERS,
    MAX_EVICTIONS,
    MAX_PREFETCHED_BYTES,
    NO_ANSWER,
    OUTPUT_KINDS,
    SETTINGS,
    Amendment,
    Counter,
    Evaluation,
    OutputKind,
    Setting,
)
from stream_app.join.costs import UNKNOWN_COSTS, packed_costs
from stream_app.join.input import JoinInput, Segments
from stream_app.join.layout import (
    JOIN_FIELDS,
    RING_PREFETCH_COLUMNS,
    SLOT_PREFETCH_BYTES,
    JoinArrays,
    JoinField,
    view_of,
)
from stream_app.join.output import JoinOutput, add_report
from stream_app.join.rules import apply_record
from stream_app.join.score_bins import WORDS, packed_bin
from stream_app.record_columns import NO_INTEGER
from stream_app.records import ID_WORDS

# Before a call --------------------------------------------------------------------------------------------------------


def wanting(segments: Segments) -> tuple[Integers, int]:
    """Find the segments whose streams must `make_room` first, and bound the closings of the call.

    Returns:
        int32, indices of segments; and the most outcomes or dead letters that there can be, for `output.output_of`.
    """
    wants = np.zeros(len(segments.joins), np.uint8)
    closings = _find_wanting(segments, wants)
    return np.flatnonzero(wants).astype(np.int32), int(closings)


@compiled_without_refcounts
def _find_wanting(segments: Segments, wants: Bytes) -> int:
    """Mark the streams that have no room for their records; return the most closings that there can be in all.

    What is pending or waits can close, as far as records and marks may close it, and each record can close itself and
    one that it meets.
    """
    closings, last = 0, len(segments.joins) - 1
    for segment in range(last + 1):
        prefetch_descriptor(segments.joins[min(segment + 2 * PREFETCH_DISTANCE, last)])
        prefetch_counters(segments.joins[min(segment + PREFETCH_DISTANCE, last)])
        descriptor = longs_at(segments.joins[segment])
        counters = longs_at(descriptor[JoinField.FIXED])
        rows = segments.ends[segment] - segments.starts[segment]
        most = (rows + 1) * (counters[COUNTERS + Setting.MAX_CLOSINGS] + MAX_EVICTIONS)
        closings += min(counters[Counter.PENDING] + counters[Counter.WAITING], most) + 2 * rows
        wants[segment] = (
            counters[Counter.FREE] < rows
            or descriptor[JoinField.RING] < _wanted_ring_rows(counters, rows)
            or descriptor[JoinField.TABLE] < 2 * (counters[Counter.TABLE_USED] + rows)
        )
    return int(closings)


@inlined_without_refcounts
def _wanted_ring_rows(counters: Pointer, rows: Number) -> int:
    """Return how many rows of the ring this many more records may need: at most one more than can be remembered.

    The settings are in memory directly after the counters.
    """
    remembered = counters[Counter.CLOSED_NEXT] - counters[Counter.CLOSED_FIRST]
    return int(min(remembered + counters[Counter.PENDING] + rows, counters[COUNTERS + Setting.MAX_CLOSED] + 1))


# Prefetching ----------------------------------------------------------------------------------------------------------


@inlined_without_refcounts
def prefetch_descriptor(join: int) -> None:
    """Begin to load the descriptor of a stream, given its address."""
    prefetch_all(join, 8 * JOIN_FIELDS)


@inlined_without_refcounts
def prefetch_counters(join: int) -> None:
    """Begin to load the counters and settings of a stream whose descriptor has been loaded."""
    prefetch_all(longs_at(join)[JoinField.FIXED], 8 * (COUNTERS + SETTINGS))


@inlined_without_refcounts
def prefetch_segment(batch: JoinInput, segments: Segments, segment: int) -> None:
    """Begin to load what the records of a segment will need, after the stream's descriptor and counters were loaded.

    These are the stream's slots and table if they are small, the next rows of the ring, and the records themselves.
    """
    descriptor = longs_at(segments.joins[segment])
    slots, ring = descriptor[JoinField.SLOT_BLOCK], descriptor[JoinField.RING_BLOCK]
    slot_bytes = SLOT_PREFETCH_BYTES + 4 * descriptor[JoinField.FEATURES]
    prefetch_all(slots, min(MAX_PREFETCHED_BYTES, descriptor[JoinField.SLOTS] * slot_bytes))
    prefetch_all(descriptor[JoinField.TABLE_BLOCK], min(MAX_PREFETCHED_BYTES, 16 * descriptor[JoinField.TABLE]))
    count = segments.ends[segment] - segments.starts[segment]
    closed = longs_at(descriptor[JoinField.FIXED])[Counter.CLOSED_NEXT] % descriptor[JoinField.RING]
    prefetch_all(ring + 8 * ID_WORDS * closed, 4 * ID_WORDS * count)
    for column in range(ID_WORDS, ID_WORDS + RING_PREFETCH_COLUMNS):
        prefetch(ring + 8 * (column * descriptor[JoinField.RING] + closed))
    features, examples = integer_of(pointer_to(batch.features)), integer_of(pointer_to(batch.example_ids))
    labels = integer_of(pointer_to(batch.label_ids))
    for at in range(segments.starts[segment], segments.ends[segment]):
        position = segments.positions[at]
        row = batch.rows[position]
        if batch.sides[position] == 0:
            prefetch_all(features + 4 * batch.feature_starts[row], 4 * descriptor[JoinField.FEATURES])
            prefetch_all(examples + 8 * ID_WORDS * row, 8 * ID_WORDS)
        else:
            prefetch_all(labels + 8 * ID_WORDS * row, 8 * ID_WORDS)


# The call -------------------------------------------------------------------------------------------------------------


@inlined_without_refcounts
def run_segment(batch: JoinInput, segments: Segments, segment: int, out: JoinOutput) -> None:
    """Apply the records of one segment; the segments before it have been run."""
    state = view_of(longs_at(segments.joins[segment]))
    out.champions[segment] = state.counters[Counter.CHAMPION]
    out.thresholds[segment] = state.counters[Counter.THRESHOLD_KIND]
    for at in range(segments.starts[segment], segments.ends[segment]):
        apply_record(state, batch, segments.positions[at], out)
    if segments.advances[segment] != NO_LONG:
        limit = max(state.counters[Counter.ADVANCED_BELOW], segments.advances[segment] + 1)
        state.counters[Counter.ADVANCED_BELOW] = limit
        close_advanced(state, out, segments.marks[segment], state.settings[Setting.MAX_CLOSINGS])
        add_report(state, out, segments.marks[segment])
    free_slots(state, out, segment)
    for kind in range(OUTPUT_KINDS):
        out.bounds[segment + 1, kind] = out.counts[kind]


@inlined_without_refcounts
def free_slots(state: JoinArrays, out: JoinOutput, segment: int) -> None:
    """Put the slots that the segment gave up on the stack of free slots: those of outcomes, labels and corrections.

    Their contents stay until the next call: the learners' operations name these slots.
    """
    free = state.counters[Counter.FREE]
    for row in range(out.bounds[segment, OutputKind.OUTCOMES], out.counts[OutputKind.OUTCOMES]):
        if out.outcome_slots[row] >= 0:
            state.free[free] = out.outcome_slots[row]
            free += 1
    for row in range(out.bounds[segment, OutputKind.RELEASED], out.counts[OutputKind.RELEASED]):
        state.free[free] = out.released_slots[row]
        free += 1
    for row in range(out.bounds[segment, OutputKind.AMENDMENTS], out.counts[OutputKind.AMENDMENTS]):
        if out.amendments[row, Amendment.SLOT] >= 0:
            state.free[free] = out.amendments[row, Amendment.SLOT]
            free += 1
    state.counters[Counter.FREE] = free


# After the learners ---------------------------------------------------------------------------------------------------


@inlined_without_refcounts
def complete_outcomes(join: int, segment: int, out: JoinOutput) -> None:
    """Fill what the outcomes of one segment repeat of their predictions, once these are known.

    These are the columns `learner`, `score`, `probability` and `predicted_class`.

    Args:
        join: Address of the stream's descriptor.
        segment: The number of the segment.
        out: The output of the call.
    """
    state = view_of(longs_at(join))
    for row in range(out.bounds[segment, OutputKind.OUTCOMES], out.bounds[segment + 1, OutputKind.OUTCOMES]):
        slot, learner = out.outcome_slots[row], -1
        score = probability = np.float32(np.nan)
        predicted_class = NO_INTEGER
        if slot >= 0:
            learner = state.champions[slot]
            score = state.scores[learner, slot]
            probability = state.probabilities[learner, slot]
            predicted_class = state.classes[learner, slot]
        out.outcomes[row]["learner"] = learner
        out.outcomes[row]["score"] = score
        out.outcomes[row]["probability"] = probability
        out.outcomes[row]["predicted_class"] = predicted_class


@inlined_without_refcounts
def keep_answers(join: int, segment: int, out: JoinOutput) -> None:
    """Keep what was predicted with the closed ids of one segment, and fill the answers of its amendments.

    Call it only with corrections, after all learners of the stream have answered, and again once the costs of
    examples are known, or a threshold has decided other classes.

    Args:
        join: Address of the stream's descriptor.
        segment: The number of the segment.
        out: The output of the call.
    """
    state = view_of(longs_at(join))
    first, last = out.bounds[segment, OutputKind.OUTCOMES], out.bounds[segment + 1, OutputKind.OUTCOMES]
    amendment, amendments = out.bounds[segment, OutputKind.AMENDMENTS], out.bounds[segment + 1, OutputKind.AMENDMENTS]
    number, ring = state.counters[Counter.CLOSED_NEXT], len(state.closed_times)
    for row in range(first, last):  # each outcome with a slot closed one id, in order
        number -= 1 if out.outcome_slots[row] >= 0 else 0
    for row in range(first, last):  # in order, since a row of the ring can have been taken again in this segment
        slot = out.outcome_slots[row]
        if slot >= 0:
            answers = np.int64(0)
            for learner in range(len(state.classes)):
                answers |= np.int64(state.classes[learner, slot] == 1) << learner
                answers |= np.int64(state.classes[learner, slot] < 0) << (NO_ANSWER + learner)
            closed = number % ring
            state.closed_evaluations[closed, Evaluation.ANSWERS] = answers
            state.closed_evaluations[closed, Evaluation.COSTS] = UNKNOWN_COSTS
            if state.costs.shape[1] > 0:
                packed_pair = packed_costs(state.costs[slot, 0], state.costs[slot, 1])
                state.closed_evaluations[closed, Evaluation.COSTS] = packed_pair
            for word in range(WORDS):
                state.closed_evaluations[closed, Evaluation.SCORE_BINS + word] = 0
            for learner in range(len(state.scores)):
                packed = packed_bin(state.scores[learner, slot], learner)
                state.closed_evaluations[closed, Evaluation.SCORE_BINS + learner // 8] |= packed
            number += 1
        while amendment < amendments and out.amendments[amendment, Amendment.OUTCOME] == row:
            closed = out.amendments[amendment, Amendment.NUMBER] % ring
            out.amendments[amendment, Amendment.ANSWERS] = state.closed_evaluations[closed, Evaluation.ANSWERS]
            out.amendments[amendment, Amendment.COSTS] = state.closed_evaluations[closed, Evaluation.COSTS]
            for word in range(WORDS):
                kept = state.closed_evaluations[closed, Evaluation.SCORE_BINS + word]
                out.amendments[amendment, Amendment.SCORE_BINS + word] = kept
            amendment += 1
