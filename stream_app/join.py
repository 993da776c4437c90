"""Examples and labels of one stream meet by id: pending, waiting, closed, each bounded.

The rules, for each record in merge order:

1. Stream time becomes the largest timestamp seen.
2. What has expired (timestamp + TTL + clock lead < stream time) is closed, by timestamp, then by arrival: a pending
   example as `unlabelled`, a waiting label as the dead letter orphan-label. Closed ids older than their own TTL are
   forgotten.
3. The record is applied: an example is predicted and waits for its label, or meets it; a label is learned, or waits.

The result is a list of operations for the learners and the rows of outcomes and dead letters; nothing depends on how
the stream was cut into calls. Slots that were given up are free again only behind the call, so that operations can name
them.

All state is in arrays (`JoinArrays`): an open-addressing hash table from id to slot or to closed number, two indexed
binary heaps by (timestamp, arrival), a ring of closed ids.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.config import JoinSettings
from stream_app.native import bare, bare_inlined
from stream_app.records import ID_WORDS, NO_LONG, Bytes, Floats, Integers, Longs, OutcomeKind, Reason, Words

PREDICT, LEARN, REPORT = 0, 1, 2

# Rows of JoinArrays.counters.
STREAM_TIME, ARRIVALS, EXAMPLES, LABELLED, UNLABELLED, EVICTED, DUPLICATES = 0, 1, 2, 3, 4, 5, 6
PENDING, WAITING, FREE, CLOSED_FIRST, CLOSED_NEXT, CHAMPION, TABLE_USED = 7, 8, 9, 10, 11, 12, 13
COUNTERS = 14

# Rows of the settings that the compiled loop is given.
LIFE_MS, CLOSED_LIFE_MS, MAX_PENDING, MAX_WAITING, MAX_CLOSED, EVERY_LABELS = 0, 1, 2, 3, 4, 5

# Columns of JoinOutput.reports: labelled, examples, unlabelled, evicted, duplicates, pending, waiting,
# delay p50, p90, p99.
REPORT_COLUMNS = 10

EMPTY = 0
IS_PENDING = 1
IS_WAITING = 2

NOTHING = -1
"""An empty place of the hash table; a slot is a reference >= 0, closed number k is -2 - k."""

EXACT_DELAYS_MS = 64
DELAY_STEPS = 32
DELAY_BUCKETS = EXACT_DELAYS_MS + 58 * DELAY_STEPS
"""Delays are counted exactly below 64 ms, then in 32 steps to each doubling: within 3.2 % up to any int64."""

Number: TypeAlias = int | np.integer[Any]
"""In compiled code these are one."""

_HASH_A = np.uint64(0x9E3779B97F4A7C15)
_HASH_B = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)

JOINED, DUPLICATE = np.uint8(OutcomeKind.JOINED), np.uint8(OutcomeKind.DUPLICATE)
UNLABELLED_KIND, EVICTED_KIND = np.uint8(OutcomeKind.UNLABELLED), np.uint8(OutcomeKind.EVICTED)
CONFLICTING_EXAMPLE, CONFLICTING_LABEL = np.uint8(Reason.CONFLICTING_EXAMPLE), np.uint8(Reason.CONFLICTING_LABEL)
LATE_LABEL, ORPHAN_LABEL = np.uint8(Reason.LATE_LABEL), np.uint8(Reason.ORPHAN_LABEL)


class JoinArrays(NamedTuple):
    """The state of one stream's join. `slots` grow by doubling; features are float32 `[slots, d]`."""

    counters: Longs
    settings: Longs
    table_hashes: Words
    table_references: Longs
    states: Bytes
    ids: Words
    hashes: Words
    times: Longs
    arrivals: Longs
    offsets: Longs
    labels: NDArray[np.int8]
    revisions: Longs
    fingerprints: Words
    champions: Integers
    features: Floats
    free: Integers
    pending_heap: Integers
    waiting_heap: Integers
    heap_places: Integers
    closed_ids: Words
    closed_hashes: Words
    closed_fingerprints: Words
    closed_labels: NDArray[np.int8]
    closed_revisions: Longs
    closed_outcomes: Bytes
    closed_times: Longs
    delays: Longs


class JoinInput(NamedTuple):
    """One batch of a task, both sides in columns, and its merged sequence."""

    sides: Bytes
    rows: Integers
    example_times: Longs
    example_offsets: Longs
    example_ids: Words
    features: Floats
    feature_starts: Longs
    label_times: Longs
    label_offsets: Longs
    label_ids: Words
    labels: NDArray[np.int8]
    revisions: Longs


class JoinOutput(NamedTuple):
    """What a call did, in order; `counts` has the used lengths: operations, outcomes, dead, parked, released, reports.

    Positions are those of the merged sequence. A dead letter is the record at its position (`dead_slots` -1) or a label
    that waited (its slot). `parked` are labels that began to wait, `released` those that no longer do.
    """

    counts: Longs
    codes: Bytes
    slots: Integers
    classes: NDArray[np.int8]
    positions: Integers
    outcome_positions: Integers
    outcome_kinds: Bytes
    outcome_ids: Words
    outcome_labels: NDArray[np.int8]
    outcome_slots: Integers
    outcome_delays: Longs
    outcome_examples: Longs
    outcome_label_offsets: Longs
    dead_positions: Integers
    dead_reasons: Bytes
    dead_slots: Integers
    parked_slots: Integers
    parked_positions: Integers
    released_slots: Integers
    reports: Longs


OPERATIONS, OUTCOMES, DEAD, PARKED, RELEASED, REPORTS = 0, 1, 2, 3, 4, 5


# Hashing and the table ------------------------------------------------------------------------------------------------


@bare_inlined
def _hash_id(ids: Words, row: Number) -> np.uint64:
    words = (np.int64(ids[row, 0]) + 7) // 8
    value: np.uint64 = ids[row, 0] * _HASH_B
    for word in range(1, words + 1):
        value = (value ^ ids[row, word]) * _HASH_A
        value ^= value >> _SHIFT
    value *= _HASH_B
    return value ^ (value >> _SHIFT)


@bare_inlined
def _fingerprint(features: Floats, start: Number, count: Number) -> np.uint64:
    """A 64-bit hash of the bits of the features; four chains, since one waits for its own product."""
    bits = features.view(np.uint32)
    one, two, three, four = _HASH_A, _HASH_B, ~_HASH_A, ~_HASH_B
    place = start
    end = start + count
    while place + 4 <= end:
        one = (one ^ np.uint64(bits[place])) * _HASH_A
        two = (two ^ np.uint64(bits[place + 1])) * _HASH_A
        three = (three ^ np.uint64(bits[place + 2])) * _HASH_A
        four = (four ^ np.uint64(bits[place + 3])) * _HASH_A
        one ^= one >> _SHIFT
        two ^= two >> _SHIFT
        three ^= three >> _SHIFT
        four ^= four >> _SHIFT
        place += 4
    while place < end:
        one = (one ^ np.uint64(bits[place])) * _HASH_A
        one ^= one >> _SHIFT
        place += 1
    value = ((one * _HASH_B ^ two) * _HASH_B ^ three) * _HASH_B ^ four
    return value ^ (value >> _SHIFT)


@bare_inlined
def _same_id(left: Words, left_row: Number, right: Words, right_row: Number) -> bool:
    words = (np.int64(left[left_row, 0]) + 7) // 8
    for word in range(words + 1):  # noqa: SIM110  (compiled code has no generators)
        if left[left_row, word] != right[right_row, word]:
            return False
    return True


@bare_inlined
def _find(state: JoinArrays, value: np.uint64, ids: Words, row: Number) -> Number:
    """The place of the id in the table, or of the hole where it would go."""
    mask = len(state.table_hashes) - 1
    place = np.int64(value) & mask
    while state.table_references[place] != NOTHING:
        if state.table_hashes[place] == value:
            reference = state.table_references[place]
            if reference >= 0:
                if _same_id(ids, row, state.ids, reference):
                    return place
            elif _same_id(ids, row, state.closed_ids, (-2 - reference) % len(state.closed_times)):
                return place
        place = (place + 1) & mask
    return place


@bare_inlined
def _place_of(state: JoinArrays, value: np.uint64, reference: Number) -> Number:
    """The place of a reference that is in the table."""
    mask = len(state.table_hashes) - 1
    place = np.int64(value) & mask
    while state.table_references[place] != reference:
        place = (place + 1) & mask
    return place


@bare_inlined
def _remove(state: JoinArrays, place: Number) -> None:
    """Empty a place and move up what had been pushed behind it (no tombstones)."""
    mask = len(state.table_hashes) - 1
    hole = place
    following = (hole + 1) & mask
    while state.table_references[following] != NOTHING:
        home = np.int64(state.table_hashes[following]) & mask
        if ((following - home) & mask) >= ((following - hole) & mask):
            state.table_hashes[hole] = state.table_hashes[following]
            state.table_references[hole] = state.table_references[following]
            hole = following
        following = (following + 1) & mask
    state.table_references[hole] = NOTHING
    state.counters[TABLE_USED] -= 1


@bare
def _refill(state: JoinArrays, old_hashes: Words, old_references: Longs) -> None:
    """Put everything of an old table into a new, empty one."""
    mask = len(state.table_hashes) - 1
    for old in range(len(old_hashes)):
        if old_references[old] != NOTHING:
            place = np.int64(old_hashes[old]) & mask
            while state.table_references[place] != NOTHING:
                place = (place + 1) & mask
            state.table_hashes[place] = old_hashes[old]
            state.table_references[place] = old_references[old]


# Heaps by (timestamp, arrival) ----------------------------------------------------------------------------------------


@bare_inlined
def _before(state: JoinArrays, left: Number, right: Number) -> bool:
    if state.times[left] != state.times[right]:
        return bool(state.times[left] < state.times[right])
    return bool(state.arrivals[left] < state.arrivals[right])


@bare_inlined
def _sift_up(state: JoinArrays, heap: Integers, place: Number) -> Number:
    slot = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if not _before(state, slot, heap[parent]):
            break
        heap[place] = heap[parent]
        state.heap_places[heap[place]] = place
        place = parent
    heap[place] = slot
    state.heap_places[slot] = place
    return place


@bare_inlined
def _sift_down(state: JoinArrays, heap: Integers, place: Number, length: Number) -> None:
    slot = heap[place]
    while True:
        child = 2 * place + 1
        if child >= length:
            break
        if child + 1 < length and _before(state, heap[child + 1], heap[child]):
            child += 1
        if not _before(state, heap[child], slot):
            break
        heap[place] = heap[child]
        state.heap_places[heap[place]] = place
        place = child
    heap[place] = slot
    state.heap_places[slot] = place


@bare_inlined
def _push(state: JoinArrays, heap: Integers, counter: Number, slot: Number) -> None:
    length = state.counters[counter]
    heap[length] = slot
    state.counters[counter] = length + 1
    _sift_up(state, heap, length)


@bare_inlined
def _take(state: JoinArrays, heap: Integers, counter: Number, slot: Number) -> None:
    """Take any slot out of its heap."""
    length = state.counters[counter] - 1
    state.counters[counter] = length
    place = state.heap_places[slot]
    if place != length:
        heap[place] = heap[length]
        if _sift_up(state, heap, place) == place:
            _sift_down(state, heap, place, length)


# Closing --------------------------------------------------------------------------------------------------------------


@bare_inlined
def _forget_first(state: JoinArrays) -> None:
    number = state.counters[CLOSED_FIRST]
    value = state.closed_hashes[number % len(state.closed_times)]
    _remove(state, _place_of(state, value, -2 - number))
    state.counters[CLOSED_FIRST] = number + 1


@bare_inlined
def _remember(state: JoinArrays, slot: Number, place: Number, kind: np.uint8, label: np.int8, revision: Number) -> None:
    """Turn a slot's place in the table into that of a closed id."""
    number = state.counters[CLOSED_NEXT]
    ring = number % len(state.closed_times)
    for word in range(ID_WORDS):
        state.closed_ids[ring, word] = state.ids[slot, word]
    state.closed_hashes[ring] = state.hashes[slot]
    state.closed_fingerprints[ring] = state.fingerprints[slot]
    state.closed_labels[ring] = label
    state.closed_revisions[ring] = revision
    state.closed_outcomes[ring] = kind
    state.closed_times[ring] = state.counters[STREAM_TIME]
    state.table_references[place] = -2 - number
    state.counters[CLOSED_NEXT] = number + 1
    if number + 1 - state.counters[CLOSED_FIRST] > state.settings[MAX_CLOSED]:
        _forget_first(state)


@bare_inlined
def _outcome(
    out: JoinOutput,
    position: Number,
    kind: np.uint8,
    ids: Words,
    row: Number,
    label: Number,
    slot: Number,
    delay: Number,
    example: Number,
    label_offset: Number,
) -> None:
    at = out.counts[OUTCOMES]
    out.outcome_positions[at] = position
    out.outcome_kinds[at] = kind
    for word in range(ID_WORDS):
        out.outcome_ids[at, word] = ids[row, word]
    out.outcome_labels[at] = label
    out.outcome_slots[at] = slot
    out.outcome_delays[at] = delay
    out.outcome_examples[at] = example
    out.outcome_label_offsets[at] = label_offset
    out.counts[OUTCOMES] = at + 1


@bare_inlined
def _dead(out: JoinOutput, position: Number, reason: np.uint8, slot: Number) -> None:
    at = out.counts[DEAD]
    out.dead_positions[at] = position
    out.dead_reasons[at] = reason
    out.dead_slots[at] = slot
    out.counts[DEAD] = at + 1


@bare_inlined
def _release(state: JoinArrays, out: JoinOutput, slot: Number) -> None:
    """A label waits no longer; its place in the table is the caller's."""
    _take(state, state.waiting_heap, WAITING, slot)
    state.states[slot] = EMPTY
    at = out.counts[RELEASED]
    out.released_slots[at] = slot
    out.counts[RELEASED] = at + 1


@bare_inlined
def _close_pending(state: JoinArrays, out: JoinOutput, slot: Number, position: Number, kind: np.uint8) -> None:
    _take(state, state.pending_heap, PENDING, slot)
    state.states[slot] = EMPTY
    _outcome(out, position, kind, state.ids, slot, -1, slot, NO_LONG, state.offsets[slot], NO_LONG)
    state.counters[UNLABELLED if kind == UNLABELLED_KIND else EVICTED] += 1
    place = _place_of(state, state.hashes[slot], slot)
    _remember(state, slot, place, kind, np.int8(-1), 0)


@bare_inlined
def _close_waiting(state: JoinArrays, out: JoinOutput, slot: Number, position: Number) -> None:
    _release(state, out, slot)
    _remove(state, _place_of(state, state.hashes[slot], slot))
    _dead(out, position, ORPHAN_LABEL, slot)


@bare_inlined
def _close_below(state: JoinArrays, out: JoinOutput, limit: Number, position: Number) -> None:
    """Close what has a timestamp below the limit, by (timestamp, arrival) over examples and labels together."""
    while True:
        pending = state.counters[PENDING] > 0 and state.times[state.pending_heap[0]] < limit
        waiting = state.counters[WAITING] > 0 and state.times[state.waiting_heap[0]] < limit
        if pending and (not waiting or _before(state, state.pending_heap[0], state.waiting_heap[0])):
            _close_pending(state, out, state.pending_heap[0], position, UNLABELLED_KIND)
        elif waiting:
            _close_waiting(state, out, state.waiting_heap[0], position)
        else:
            return


# Delays and reports ---------------------------------------------------------------------------------------------------


@bare_inlined
def _bucket(delay: Number) -> Number:
    if delay < EXACT_DELAYS_MS:
        return max(delay, 0)
    doublings = 0
    while delay >= 2 * DELAY_STEPS:
        delay >>= 1
        doublings += 1
    return EXACT_DELAYS_MS + (doublings - 1) * DELAY_STEPS + delay - DELAY_STEPS


@bare_inlined
def _bucket_middle(bucket: Number) -> Number:
    if bucket < EXACT_DELAYS_MS:
        return bucket
    doublings = (bucket - EXACT_DELAYS_MS) // DELAY_STEPS + 1
    step = (bucket - EXACT_DELAYS_MS) % DELAY_STEPS + DELAY_STEPS
    return (step << doublings) + (1 << (doublings - 1))


@bare_inlined
def _quantile(delays: Longs, total: Number, share: float) -> Number:
    if total == 0:
        return NO_LONG
    wanted = int(np.ceil(share * total))
    seen = 0
    for bucket in range(len(delays)):
        seen += delays[bucket]
        if seen >= wanted and seen > 0:
            return _bucket_middle(bucket)
    return NO_LONG


@bare_inlined
def _operation(out: JoinOutput, code: Number, slot: Number, label: Number, position: Number) -> None:
    at = out.counts[OPERATIONS]
    out.codes[at] = code
    out.slots[at] = slot
    out.classes[at] = label
    out.positions[at] = position
    out.counts[OPERATIONS] = at + 1


@bare_inlined
def _report(state: JoinArrays, out: JoinOutput, position: Number) -> None:
    _operation(out, REPORT, -1, -1, position)
    row = out.reports[out.counts[REPORTS]]
    row[0] = state.counters[LABELLED]
    row[1] = state.counters[EXAMPLES]
    row[2] = state.counters[UNLABELLED]
    row[3] = state.counters[EVICTED]
    row[4] = state.counters[DUPLICATES]
    row[5] = state.counters[PENDING]
    row[6] = state.counters[WAITING]
    row[7] = _quantile(state.delays, state.counters[LABELLED], 0.5)
    row[8] = _quantile(state.delays, state.counters[LABELLED], 0.9)
    row[9] = _quantile(state.delays, state.counters[LABELLED], 0.99)
    out.counts[REPORTS] += 1


# Applying a record ----------------------------------------------------------------------------------------------------


@bare_inlined
def _learn(
    state: JoinArrays,
    out: JoinOutput,
    slot: Number,
    label: Number,
    revision: Number,
    delay: Number,
    position: Number,
    place: Number,
) -> None:
    """An example of a slot and its label have met: count, remember, and let the learners learn."""
    _operation(out, LEARN, slot, label, position)
    state.delays[_bucket(delay)] += 1
    state.counters[LABELLED] += 1
    _remember(state, slot, place, JOINED, np.int8(label), revision)
    if state.counters[LABELLED] % state.settings[EVERY_LABELS] == 0:
        _report(state, out, position)


@bare_inlined
def _new_slot(state: JoinArrays, ids: Words, row: Number, value: np.uint64, time: Number, offset: Number) -> Number:
    state.counters[FREE] -= 1
    slot = state.free[state.counters[FREE]]
    for word in range(ID_WORDS):
        state.ids[slot, word] = ids[row, word]
    state.hashes[slot] = value
    state.times[slot] = time
    state.arrivals[slot] = state.counters[ARRIVALS]
    state.offsets[slot] = offset
    return int(slot)


@bare_inlined
def _repeat_example(
    state: JoinArrays,
    batch: JoinInput,
    out: JoinOutput,
    row: Number,
    position: Number,
    reference: Number,
    value: np.uint64,
) -> None:
    known = (
        state.fingerprints[reference]
        if reference >= 0
        else state.closed_fingerprints[(-2 - reference) % len(state.closed_times)]
    )
    if known == value:
        state.counters[DUPLICATES] += 1
        offset = batch.example_offsets[row]
        _outcome(out, position, DUPLICATE, batch.example_ids, row, -1, -1, NO_LONG, offset, NO_LONG)
    else:
        _dead(out, position, CONFLICTING_EXAMPLE, -1)


@bare_inlined
def _apply_example(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, limit: Number
) -> None:
    time = batch.example_times[row]
    value = _hash_id(batch.example_ids, row)
    dimension = state.features.shape[1]
    start = batch.feature_starts[row]
    fingerprint = _fingerprint(batch.features, start, dimension)
    place = _find(state, value, batch.example_ids, row)
    reference = state.table_references[place]
    waiting = reference >= 0 and state.states[reference] == IS_WAITING
    if reference != NOTHING and not waiting:
        _repeat_example(state, batch, out, row, position, reference, fingerprint)
        return
    slot = _new_slot(state, batch.example_ids, row, value, time, batch.example_offsets[row])
    state.fingerprints[slot] = fingerprint
    state.champions[slot] = state.counters[CHAMPION]
    for column in range(dimension):
        state.features[slot, column] = batch.features[start + column]
    state.counters[EXAMPLES] += 1
    _operation(out, PREDICT, slot, -1, position)
    if reference == NOTHING:
        state.table_hashes[place] = value
        state.counters[TABLE_USED] += 1
    else:
        _release(state, out, reference)
    state.table_references[place] = slot
    if time < limit:
        state.counters[UNLABELLED] += 1
        offset = batch.example_offsets[row]
        _outcome(out, position, UNLABELLED_KIND, state.ids, slot, -1, slot, NO_LONG, offset, NO_LONG)
        _remember(state, slot, place, UNLABELLED_KIND, np.int8(-1), 0)
        if waiting:
            _dead(out, position, LATE_LABEL, reference)
    elif waiting:
        label = state.labels[reference]
        delay = state.times[reference] - time
        offset = batch.example_offsets[row]
        _outcome(out, position, JOINED, state.ids, slot, label, slot, delay, offset, state.offsets[reference])
        _learn(state, out, slot, label, state.revisions[reference], delay, position, place)
    else:
        state.states[slot] = IS_PENDING
        _push(state, state.pending_heap, PENDING, slot)
        if state.counters[PENDING] > state.settings[MAX_PENDING]:
            _close_pending(state, out, state.pending_heap[0], position, EVICTED_KIND)


@bare_inlined
def _repeat_label(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, known: np.int8
) -> None:
    if known == batch.labels[row]:
        state.counters[DUPLICATES] += 1
        offset = batch.label_offsets[row]
        _outcome(out, position, DUPLICATE, batch.label_ids, row, known, -1, NO_LONG, NO_LONG, offset)
    else:
        _dead(out, position, CONFLICTING_LABEL, -1)


@bare_inlined
def _park(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, place: Number, value: np.uint64
) -> None:
    slot = _new_slot(state, batch.label_ids, row, value, batch.label_times[row], batch.label_offsets[row])
    state.labels[slot] = batch.labels[row]
    state.revisions[slot] = batch.revisions[row]
    state.states[slot] = IS_WAITING
    state.table_hashes[place] = value
    state.table_references[place] = slot
    state.counters[TABLE_USED] += 1
    _push(state, state.waiting_heap, WAITING, slot)
    at = out.counts[PARKED]
    out.parked_slots[at] = slot
    out.parked_positions[at] = position
    out.counts[PARKED] = at + 1
    if state.counters[WAITING] > state.settings[MAX_WAITING]:
        _close_waiting(state, out, state.waiting_heap[0], position)


@bare_inlined
def _apply_label(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, limit: Number
) -> None:
    value = _hash_id(batch.label_ids, row)
    place = _find(state, value, batch.label_ids, row)
    reference = state.table_references[place]
    label = batch.labels[row]
    time = batch.label_times[row]
    if reference == NOTHING:
        if time < limit:
            _dead(out, position, ORPHAN_LABEL, -1)
        else:
            _park(state, batch, out, row, position, place, value)
    elif reference < 0:
        ring = (-2 - reference) % len(state.closed_times)
        if state.closed_outcomes[ring] == JOINED:
            _repeat_label(state, batch, out, row, position, state.closed_labels[ring])
        else:
            _dead(out, position, LATE_LABEL, -1)
    elif state.states[reference] == IS_WAITING:
        _repeat_label(state, batch, out, row, position, state.labels[reference])
    else:
        _take(state, state.pending_heap, PENDING, reference)
        state.states[reference] = EMPTY
        delay = time - state.times[reference]
        offsets = state.offsets[reference], batch.label_offsets[row]
        _outcome(out, position, JOINED, state.ids, reference, label, reference, delay, offsets[0], offsets[1])
        _learn(state, out, reference, label, batch.revisions[row], delay, position, place)


@bare_inlined
def _free_slots(state: JoinArrays, out: JoinOutput) -> None:
    """Give back what this call gave up: slots of outcomes (duplicates have none) and of released labels."""
    free = state.counters[FREE]
    for at in range(out.counts[OUTCOMES]):
        if out.outcome_slots[at] >= 0:
            state.free[free] = out.outcome_slots[at]
            free += 1
    for at in range(out.counts[RELEASED]):
        state.free[free] = out.released_slots[at]
        free += 1
    state.counters[FREE] = free


@bare
def _run(state: JoinArrays, batch: JoinInput, positions: Integers, out: JoinOutput) -> None:
    for position in positions:
        row = batch.rows[position]
        example = batch.sides[position] == 0
        time = batch.example_times[row] if example else batch.label_times[row]
        state.counters[STREAM_TIME] = max(state.counters[STREAM_TIME], time)
        state.counters[ARRIVALS] += 1
        limit = state.counters[STREAM_TIME] - state.settings[LIFE_MS]
        _close_below(state, out, limit, position)
        forgotten = state.counters[STREAM_TIME] - state.settings[CLOSED_LIFE_MS]
        while (
            state.counters[CLOSED_FIRST] < state.counters[CLOSED_NEXT]
            and state.closed_times[state.counters[CLOSED_FIRST] % len(state.closed_times)] < forgotten
        ):
            _forget_first(state)
        if example:
            _apply_example(state, batch, out, row, position, limit)
        else:
            _apply_label(state, batch, out, row, position, limit)
    _free_slots(state, out)


@bare
def _advance(state: JoinArrays, out: JoinOutput, time_ms: Number, position: Number) -> None:
    _close_below(state, out, time_ms + 1, position)
    _report(state, out, position)
    _free_slots(state, out)


# The outside ----------------------------------------------------------------------------------------------------------

FIRST_SLOTS = 64
"""Slots of a new stream; they double as needed up to the bounds of the settings."""


class StreamJoin:
    """The join of one stream.

    Args:
        settings: Bounds and lives.
        every_labels: Accepted labels between two reports.
        features: Features of an example; 0 while nobody knows (no example has come).
    """

    def __init__(self, settings: JoinSettings, every_labels: int, features: int) -> None:
        self._state = _empty(settings, every_labels, features)

    @property
    def state(self) -> JoinArrays:
        """The arrays, for the learners (features and ids by slot) and for snapshots."""
        return self._state

    @property
    def champion(self) -> int:
        """Index of the learner whose predictions count from here."""
        return int(self._state.counters[CHAMPION])

    @champion.setter
    def champion(self, index: int) -> None:
        self._state.counters[CHAMPION] = index

    def set_features(self, features: int) -> None:
        """Fix the dimension, before the first example."""
        slots = len(self._state.states)
        self._state = self._state._replace(features=np.zeros((slots, features), np.float32))

    def run(self, batch: JoinInput, positions: Integers) -> JoinOutput:
        """Apply the data records at these positions of the merged sequence, ascending."""
        self._reserve(len(positions))
        out = _new_output(self._state, len(positions))
        _run(self._state, batch, positions, out)
        return out

    def advance(self, time_ms: int, position: int) -> JoinOutput:
        """Close everything up to and including `time_ms`, then report: what a pair of `advance` marks asks for."""
        self._reserve(0)
        out = _new_output(self._state, 0)
        _advance(self._state, out, time_ms, position)
        return out

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """All state by name."""
        return self._state._asdict()

    def _reserve(self, rows: int) -> None:
        state = self._state
        counters = state.counters
        if counters[FREE] < rows:
            state = _grow_slots(state, rows)
        remembered = int(counters[CLOSED_NEXT] - counters[CLOSED_FIRST])
        closed = min(remembered + int(counters[PENDING]) + rows, int(state.settings[MAX_CLOSED]) + 1)
        if len(state.closed_times) < closed:
            state = _grow_ring(state, closed)
        used = int(counters[TABLE_USED]) + rows
        if len(state.table_hashes) < 2 * used:
            state = _grow_table(state, 2 * used)
        self._state = state


def _empty(settings: JoinSettings, every_labels: int, features: int) -> JoinArrays:
    slots = FIRST_SLOTS
    limits = np.zeros(6, np.int64)
    limits[LIFE_MS] = settings.ttl_ms + settings.max_clock_lead_ms
    limits[CLOSED_LIFE_MS] = settings.closed_ttl_ms
    limits[MAX_PENDING] = settings.max_pending_per_stream
    limits[MAX_WAITING] = settings.max_waiting_per_stream
    limits[MAX_CLOSED] = settings.max_closed_per_stream
    limits[EVERY_LABELS] = every_labels
    counters = np.zeros(COUNTERS, np.int64)
    counters[STREAM_TIME] = -1
    counters[FREE] = slots
    return JoinArrays(
        counters=counters,
        settings=limits,
        table_hashes=np.zeros(4 * slots, np.uint64),
        table_references=np.full(4 * slots, NOTHING, np.int64),
        states=np.zeros(slots, np.uint8),
        ids=np.zeros((slots, ID_WORDS), np.uint64),
        hashes=np.zeros(slots, np.uint64),
        times=np.zeros(slots, np.int64),
        arrivals=np.zeros(slots, np.int64),
        offsets=np.zeros(slots, np.int64),
        labels=np.zeros(slots, np.int8),
        revisions=np.zeros(slots, np.int64),
        fingerprints=np.zeros(slots, np.uint64),
        champions=np.zeros(slots, np.int32),
        features=np.zeros((slots, features), np.float32),
        free=np.arange(slots - 1, -1, -1, dtype=np.int32),
        pending_heap=np.zeros(slots, np.int32),
        waiting_heap=np.zeros(slots, np.int32),
        heap_places=np.zeros(slots, np.int32),
        closed_ids=np.zeros((slots, ID_WORDS), np.uint64),
        closed_hashes=np.zeros(slots, np.uint64),
        closed_fingerprints=np.zeros(slots, np.uint64),
        closed_labels=np.zeros(slots, np.int8),
        closed_revisions=np.zeros(slots, np.int64),
        closed_outcomes=np.zeros(slots, np.uint8),
        closed_times=np.zeros(slots, np.int64),
        delays=np.zeros(DELAY_BUCKETS, np.int64),
    )


_BY_SLOT = (
    "states",
    "ids",
    "hashes",
    "times",
    "arrivals",
    "offsets",
    "labels",
    "revisions",
    "fingerprints",
    "champions",
    "features",
    "pending_heap",
    "waiting_heap",
    "heap_places",
)

_BY_RING = (
    "closed_ids",
    "closed_hashes",
    "closed_fingerprints",
    "closed_labels",
    "closed_revisions",
    "closed_outcomes",
    "closed_times",
)


def _grow_slots(state: JoinArrays, rows: int) -> JoinArrays:
    old = len(state.states)
    free = int(state.counters[FREE])
    new = max(2 * old, old + rows - free)
    grown = {}
    for name in _BY_SLOT:
        array = getattr(state, name)
        bigger = np.zeros((new, *array.shape[1:]), array.dtype)
        bigger[:old] = array
        grown[name] = bigger
    stack = np.zeros(new, np.int32)
    stack[: new - old] = np.arange(new - 1, old - 1, -1, dtype=np.int32)
    stack[new - old : new - old + free] = state.free[:free]
    state.counters[FREE] = free + new - old
    return state._replace(free=stack, **grown)


def _grow_ring(state: JoinArrays, wanted: int) -> JoinArrays:
    old = len(state.closed_times)
    new = max(2 * old, wanted)
    numbers = np.arange(state.counters[CLOSED_FIRST], state.counters[CLOSED_NEXT])
    grown = {}
    for name in _BY_RING:
        array = getattr(state, name)
        bigger = np.zeros((new, *array.shape[1:]), array.dtype)
        bigger[numbers % new] = array[numbers % old]
        grown[name] = bigger
    return state._replace(**grown)


def _grow_table(state: JoinArrays, wanted: int) -> JoinArrays:
    size = 1 << (wanted - 1).bit_length() + 1
    grown = state._replace(table_hashes=np.zeros(size, np.uint64), table_references=np.full(size, NOTHING, np.int64))
    _refill(grown, state.table_hashes, state.table_references)
    return grown


def _new_output(state: JoinArrays, rows: int) -> JoinOutput:
    operations = 3 * rows + 1
    closings = int(state.counters[PENDING] + state.counters[WAITING]) + 2 * rows
    return JoinOutput(
        counts=np.zeros(6, np.int64),
        codes=np.empty(operations, np.uint8),
        slots=np.empty(operations, np.int32),
        classes=np.empty(operations, np.int8),
        positions=np.empty(operations, np.int32),
        outcome_positions=np.empty(closings, np.int32),
        outcome_kinds=np.empty(closings, np.uint8),
        outcome_ids=np.empty((closings, ID_WORDS), np.uint64),
        outcome_labels=np.empty(closings, np.int8),
        outcome_slots=np.empty(closings, np.int32),
        outcome_delays=np.empty(closings, np.int64),
        outcome_examples=np.empty(closings, np.int64),
        outcome_label_offsets=np.empty(closings, np.int64),
        dead_positions=np.empty(closings, np.int32),
        dead_reasons=np.empty(closings, np.uint8),
        dead_slots=np.empty(closings, np.int32),
        parked_slots=np.empty(rows, np.int32),
        parked_positions=np.empty(rows, np.int32),
        released_slots=np.empty(closings, np.int32),
        reports=np.empty((rows + 1, REPORT_COLUMNS), np.int64),
    )
