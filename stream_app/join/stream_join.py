"""Examples and labels of one stream meet by id: pending, waiting, closed, each bounded.

The rules, for each record in merge order:

1. Stream time becomes the largest timestamp seen.
2. What has expired (timestamp + TTL + clock lead < stream time) is closed, by timestamp, then by arrival: a pending
   example as `unlabelled`, a waiting label as the dead letter orphan-label. Closed ids older than their own TTL are
   forgotten.
3. The record is applied: an example is predicted and waits for its label, or meets it; a label is learned, or waits.

A label of a higher revision than the one that an example has is a correction, if the settings say so (`corrections`):
of a label that waits, the class changes where it is; of a joined example, the closed id has another class from then on,
and there is an operation for the learners and for the sums. Either way the correcting record ends in the outcome
`correction`. One of the same class is a `duplicate`, whose revision is the one to beat from then on.

The result is a list of operations for the learners and the rows of outcomes and dead letters; nothing depends on how
the stream was cut into calls. Slots that were given up are free again only behind the call, so that operations can name
them.

All state is in arrays (`JoinArrays`): an open-addressing hash table from id to slot or to closed number, two indexed
binary heaps by (timestamp, arrival), a ring of closed ids. They lie in four blocks of memory, so that a stream is ten
numbers (a row, see `addresses`) to the compiled loop, which runs any number of streams in one call.

The table's hash is keyed (SipHash-1-3), since who sends records chooses their ids: without the key nobody can choose
ids that share a place of the table. Each process draws a key and no topic holds it: no result depends on the table's
order.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.config import JoinSettings
from stream_app.jit.compiler import bare, bare_inlined
from stream_app.jit.memory import (
    AHEAD,
    Address,
    address,
    address_of,
    block_of,
    bytes_at,
    classes_at,
    column_at,
    floats_at,
    integers_at,
    longs_at,
    number_of,
    prefetch,
    prefetch_all,
    rows_at,
    words_at,
)
from stream_app.records import (
    ID_WORDS,
    MAX_LEARNERS,
    NO_LONG,
    Bytes,
    Floats,
    Integers,
    Longs,
    OutcomeKind,
    Reason,
    Words,
)

PREDICT, LEARN, REPORT, CORRECT = 0, 1, 2, 3

# Rows of JoinArrays.counters.
STREAM_TIME, ARRIVALS, EXAMPLES, LABELLED, UNLABELLED, EVICTED, DUPLICATES = 0, 1, 2, 3, 4, 5, 6
PENDING, WAITING, FREE, CLOSED_FIRST, CLOSED_NEXT, CHAMPION, TABLE_USED = 7, 8, 9, 10, 11, 12, 13
# With corrections: labels of class 1 as they came; how many more there are as they were corrected.
POSITIVES, TURNED = 14, 15
# Of the labels that wait, as dead letters.
WAITING_BYTES = 16
COUNTERS = 17

# Rows of the settings that the compiled loop is given.
LIFE_MS, CLOSED_LIFE_MS, MAX_PENDING, MAX_WAITING, MAX_CLOSED, EVERY_LABELS, CORRECTS = 0, 1, 2, 3, 4, 5, 6
MAX_WAITING_BYTES = 7
# Both halves of the hash's key, as the bits of two numbers.
KEY_LOW, KEY_HIGH = 8, 9
SETTINGS = 10

EVICTIONS = 10_000
"""At most so many with one record, which needs them for a label that is as large as thousands of others; where a bound
was lowered, the rest follows with the next records instead of in one burst."""

HASH_KEY_BYTES = 16
"""Of SipHash's key."""

NO_HASH_KEY = bytes(HASH_KEY_BYTES)
"""For streams whose ids nobody can choose: a study, a benchmark, a test."""

# Columns of JoinOutput.reports: labelled, examples, unlabelled, evicted, duplicates, pending, waiting,
# delay p50, p90, p99.
REPORT_COLUMNS = 10

# Columns of JoinArrays.closed_evaluations: labels of class 0 and of class 1 up to that of the example, which counts;
# the learners that had predicted class 1, a bit each.
ANSWERS = 2
EVALUATION_COLUMNS = 3

NO_ANSWER = MAX_LEARNERS
"""In `ANSWERS`, the first of the bits that say which learners had predicted nothing."""

# Columns of JoinOutput.amendments: the slot that has the id (-1: the revision alone is new), the closed number, the
# outcome, labels of the old and of the new class since that of the example, how many still are of the old class, and
# the learners that had predicted class 1.
A_SLOT, A_NUMBER, A_OUTCOME, A_OLD_AGE, A_NEW_AGE, A_LEFT, A_ANSWERS = 0, 1, 2, 3, 4, 5, 6
AMENDMENT_COLUMNS = 7

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

SipState: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

_HASH_A = np.uint64(0x9E3779B97F4A7C15)
_HASH_B = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_SIP = (
    np.uint64(0x736F6D6570736575),
    np.uint64(0x646F72616E646F6D),
    np.uint64(0x6C7967656E657261),
    np.uint64(0x7465646279746573),
)
"""SipHash's constants."""

JOINED, DUPLICATE = np.uint8(OutcomeKind.JOINED), np.uint8(OutcomeKind.DUPLICATE)
CORRECTION = np.uint8(OutcomeKind.CORRECTION)
UNLABELLED_KIND, EVICTED_KIND = np.uint8(OutcomeKind.UNLABELLED), np.uint8(OutcomeKind.EVICTED)
CONFLICTING_EXAMPLE, CONFLICTING_LABEL = np.uint8(Reason.CONFLICTING_EXAMPLE), np.uint8(Reason.CONFLICTING_LABEL)
LATE_LABEL, ORPHAN_LABEL = np.uint8(Reason.LATE_LABEL), np.uint8(Reason.ORPHAN_LABEL)


class JoinArrays(NamedTuple):
    """The state of one stream's join. `slots` grow by doubling; features are float32 `[slots, d]`.

    `scores` and `classes` are float32 and int8 `[learners, slots]`: what was predicted for the example of a slot. They
    are kept here for who learns and scores. `closed_evaluations` has no columns without corrections. A slot's
    fingerprint is that of an example's features; a label that waits has its bytes as a dead letter there.
    """

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
    scores: Floats
    classes: NDArray[np.int8]
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
    closed_evaluations: Longs
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
    label_sizes: Longs


class Segments(NamedTuple):
    """What a call is to do: in each of s streams, some of its records and perhaps a pair of `advance` marks behind.

    Attributes:
        joins: int64 `[s]`, addresses of the streams' rows; no stream twice.
        starts: int64 `[s]`, where each stream's positions begin in `positions`.
        ends: int64 `[s]`, where they end.
        positions: int32, positions of the merged sequence, ascending in each stream.
        advances: int64 `[s]`, close everything up to and including this time, then report; `NO_LONG`: do not.
        marks: int32 `[s]`, the position of the mark that asks for it.
    """

    joins: Longs
    starts: Longs
    ends: Longs
    positions: Integers
    advances: Longs
    marks: Integers


class JoinOutput(NamedTuple):
    """What a call did, in order, one stream behind the other.

    `counts` has the used lengths: operations, outcomes, dead, parked, released, reports, amendments. `bounds`
    `[streams + 1, 7]` has what they were before each stream, and at the end.

    `champions` are those during the call, `outcome_learners` (-1: none) and `outcome_scores` those that had predicted:
    numbers of a stream's own learners. Positions are those of the merged sequence. A dead letter is the record at its
    position (`dead_slots` -1) or a label that waited (its slot). `parked` are labels that began to wait, `released`
    those that no longer do. `amendments` are closed ids that have another class, or its confirmation, from then on.
    """

    counts: Longs
    bounds: Longs
    champions: Integers
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
    outcome_learners: Integers
    outcome_scores: Floats
    dead_positions: Integers
    dead_reasons: Bytes
    dead_slots: Integers
    parked_slots: Integers
    parked_positions: Integers
    released_slots: Integers
    reports: Longs
    amendments: Longs


OPERATIONS, OUTCOMES, DEAD, PARKED, RELEASED, REPORTS, AMENDMENTS = 0, 1, 2, 3, 4, 5, 6
OUTPUT_KINDS = 7

MOST_AHEAD_BYTES = 1 << 14
"""Of a block that is fetched before its stream's turn; in a larger one, most of it would be in vain."""

# Cells of a join's row: addresses of its four blocks, then what their layout depends on.
FIXED, SLOT_BLOCK, RING_BLOCK, TABLE_BLOCK, SLOTS, RING, TABLE, FEATURES, LEARNERS = 0, 1, 2, 3, 4, 5, 6, 7, 8
EVALUATIONS = 9
JOIN_CELLS = 10

# Layout ---------------------------------------------------------------------------------------------------------------
#
# A block has one column behind the other, those of wide elements first: then each begins where its elements may.

_FIXED_COLUMNS = (
    ("counters", np.int64, COUNTERS),
    ("settings", np.int64, SETTINGS),
    ("delays", np.int64, DELAY_BUCKETS),
)

_SLOT_COLUMNS = (
    ("ids", np.uint64, ID_WORDS),
    ("hashes", np.uint64, 1),
    ("times", np.int64, 1),
    ("arrivals", np.int64, 1),
    ("offsets", np.int64, 1),
    ("revisions", np.int64, 1),
    ("fingerprints", np.uint64, 1),
    ("champions", np.int32, 1),
    ("free", np.int32, 1),
    ("pending_heap", np.int32, 1),
    ("waiting_heap", np.int32, 1),
    ("heap_places", np.int32, 1),
    ("features", np.float32, -FEATURES),
    ("scores", np.float32, -LEARNERS),
    ("states", np.uint8, 1),
    ("labels", np.int8, 1),
    ("classes", np.int8, -LEARNERS),
)
"""Name, dtype, elements a slot; a negative number is the cell that says how many."""

_BY_LEARNER = ("scores", "classes")
"""One learner's slots lie behind the other's, not one slot's learners."""

_SLOT_LONGS, _SLOT_INTEGERS = 6, 5
"""Columns of 8 bytes (but for the ids) and of 4 bytes (but for features and scores) in the slots."""

_RING_COLUMNS = (
    ("closed_ids", np.uint64, ID_WORDS),
    ("closed_hashes", np.uint64, 1),
    ("closed_fingerprints", np.uint64, 1),
    ("closed_revisions", np.int64, 1),
    ("closed_times", np.int64, 1),
    ("closed_evaluations", np.int64, -EVALUATIONS),
    ("closed_labels", np.int8, 1),
    ("closed_outcomes", np.uint8, 1),
)

_TABLE_COLUMNS = (("table_hashes", np.uint64, 1), ("table_references", np.int64, 1))


@bare_inlined
def opened(row: Address) -> JoinArrays:
    """The arrays of a row.

    Where each begins is written out: compiled code cannot read the columns above. `StreamJoin.arrays` does, and
    `tests/unit/test_addresses.py` holds the two against each other.
    """
    slots, ring, table, features, learners = row[SLOTS], row[RING], row[TABLE], row[FEATURES], row[LEARNERS]
    fixed, slot, closed = row[FIXED], row[SLOT_BLOCK], row[RING_BLOCK]
    words = slot + 8 * (ID_WORDS + _SLOT_LONGS) * slots  # behind the columns of 8 bytes
    numbers = words + 4 * _SLOT_INTEGERS * slots
    scores = numbers + 4 * features * slots
    small = scores + 4 * learners * slots
    rest = closed + 8 * ID_WORDS * ring
    tail = rest + 8 * (4 + row[EVALUATIONS]) * ring
    return JoinArrays(
        counters=column_at(longs_at(fixed), COUNTERS),
        settings=column_at(longs_at(fixed + 8 * COUNTERS), SETTINGS),
        table_hashes=column_at(words_at(row[TABLE_BLOCK]), table),
        table_references=column_at(longs_at(row[TABLE_BLOCK] + 8 * table), table),
        states=column_at(bytes_at(small), slots),
        ids=rows_at(words_at(slot), slots, ID_WORDS),
        hashes=column_at(words_at(slot + 8 * ID_WORDS * slots), slots),
        times=column_at(longs_at(slot + 8 * (ID_WORDS + 1) * slots), slots),
        arrivals=column_at(longs_at(slot + 8 * (ID_WORDS + 2) * slots), slots),
        offsets=column_at(longs_at(slot + 8 * (ID_WORDS + 3) * slots), slots),
        labels=column_at(classes_at(small + slots), slots),
        revisions=column_at(longs_at(slot + 8 * (ID_WORDS + 4) * slots), slots),
        fingerprints=column_at(words_at(slot + 8 * (ID_WORDS + 5) * slots), slots),
        champions=column_at(integers_at(words), slots),
        features=rows_at(floats_at(numbers), slots, features),
        scores=rows_at(floats_at(scores), learners, slots),
        classes=rows_at(classes_at(small + 2 * slots), learners, slots),
        free=column_at(integers_at(words + 4 * slots), slots),
        pending_heap=column_at(integers_at(words + 8 * slots), slots),
        waiting_heap=column_at(integers_at(words + 12 * slots), slots),
        heap_places=column_at(integers_at(words + 16 * slots), slots),
        closed_ids=rows_at(words_at(closed), ring, ID_WORDS),
        closed_hashes=column_at(words_at(rest), ring),
        closed_fingerprints=column_at(words_at(rest + 8 * ring), ring),
        closed_labels=column_at(classes_at(tail), ring),
        closed_revisions=column_at(longs_at(rest + 16 * ring), ring),
        closed_outcomes=column_at(bytes_at(tail + ring), ring),
        closed_times=column_at(longs_at(rest + 24 * ring), ring),
        closed_evaluations=rows_at(longs_at(rest + 32 * ring), ring, row[EVALUATIONS]),
        delays=column_at(longs_at(fixed + 8 * (COUNTERS + SETTINGS)), DELAY_BUCKETS),
    )


# Hashing and the table ------------------------------------------------------------------------------------------------


@bare_inlined
def _turned(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@bare_inlined
def _sip_round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> SipState:
    a += b
    c += d
    b = _turned(b, 13) ^ a
    d = _turned(d, 16) ^ c
    a = _turned(a, 32)
    c += b
    a += d
    b = _turned(b, 17) ^ c
    d = _turned(d, 21) ^ a
    return a, b, _turned(c, 32), d


@bare_inlined
def _hash_id(settings: Longs, ids: Words, row: Number) -> np.uint64:
    """SipHash-1-3 of the id's bytes (Aumasson, Bernstein 2012), which lie padded with zeros in the words of the row."""
    low, high, length = np.uint64(settings[KEY_LOW]), np.uint64(settings[KEY_HIGH]), ids[row, 0]
    a, b, c, d = low ^ _SIP[0], high ^ _SIP[1], low ^ _SIP[2], high ^ _SIP[3]
    whole = np.int64(length) >> 3
    for word in range(1, whole + 1):
        d ^= ids[row, word]
        a, b, c, d = _sip_round(a, b, c, d)
        a ^= ids[row, word]
    last = length << np.uint64(56)
    if np.int64(length) & 7:
        last |= ids[row, whole + 1]
    d ^= last
    a, b, c, d = _sip_round(a, b, c, d)
    a ^= last
    c ^= np.uint64(0xFF)
    for _ in range(3):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


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
    state.counters[WAITING_BYTES] -= np.int64(state.fingerprints[slot])
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
def _place_among_labels(state: JoinArrays, label: Number) -> None:
    """Keep with the newest closed id how many labels of each class there are now."""
    state.counters[POSITIVES] += label
    evaluation = state.closed_evaluations[(state.counters[CLOSED_NEXT] - 1) % len(state.closed_times)]
    evaluation[0] = state.counters[LABELLED] - state.counters[POSITIVES]
    evaluation[1] = state.counters[POSITIVES]


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
    if state.settings[CORRECTS] != 0:
        _place_among_labels(state, label)
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
    value = _hash_id(state.settings, batch.example_ids, row)
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
        for _ in range(min(EVICTIONS, state.counters[PENDING] - state.settings[MAX_PENDING])):
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
def _amend(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, number: Number, slot: Number
) -> None:
    """Give a closed id a higher revision; with a slot its class changes, too. The outcome is the next one."""
    ring, label = number % len(state.closed_times), np.int64(batch.labels[row])
    state.closed_revisions[ring] = batch.revisions[row]
    amendment = out.amendments[out.counts[AMENDMENTS]]
    out.counts[AMENDMENTS] += 1
    amendment[A_SLOT], amendment[A_NUMBER], amendment[A_OUTCOME] = slot, number, out.counts[OUTCOMES]
    if slot < 0:
        return
    _operation(out, CORRECT, slot, label, position)
    state.closed_labels[ring] = label
    positives, labelled = state.counters[POSITIVES], state.counters[LABELLED]
    ages = (
        labelled - positives - state.closed_evaluations[ring, 0],
        positives - state.closed_evaluations[ring, 1],
    )
    amendment[A_OLD_AGE], amendment[A_NEW_AGE] = ages[1 - label], ages[label]
    state.counters[TURNED] += 2 * label - 1
    positives += state.counters[TURNED]
    amendment[A_LEFT] = labelled - positives if label == 1 else positives


@bare_inlined
def _correct(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, reference: Number
) -> None:
    """A label of a higher revision than that which waits, or that of the joined example."""
    label = batch.labels[row]
    if reference >= 0:
        known = state.labels[reference]
        state.labels[reference] = label
        state.revisions[reference] = batch.revisions[row]
    else:
        number, slot = -2 - reference, np.int64(-1)
        ring = number % len(state.closed_times)
        known = state.closed_labels[ring]
        if known != label:
            time, offset = batch.label_times[row], batch.label_offsets[row]
            slot = np.int64(_new_slot(state, batch.label_ids, row, state.closed_hashes[ring], time, offset))
        _amend(state, batch, out, row, position, number, slot)
    if known == label:
        _repeat_label(state, batch, out, row, position, known)
    else:
        offset = batch.label_offsets[row]
        _outcome(out, position, CORRECTION, batch.label_ids, row, label, -1, NO_LONG, NO_LONG, offset)


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
    state.fingerprints[slot] = np.uint64(batch.label_sizes[row])
    state.counters[WAITING_BYTES] += batch.label_sizes[row]
    at = out.counts[PARKED]
    out.parked_slots[at] = slot
    out.parked_positions[at] = position
    out.counts[PARKED] = at + 1
    for _ in range(EVICTIONS):
        fits = state.counters[WAITING_BYTES] <= state.settings[MAX_WAITING_BYTES]
        if fits and state.counters[WAITING] <= state.settings[MAX_WAITING]:
            break
        _close_waiting(state, out, state.waiting_heap[0], position)


@bare_inlined
def _apply_label(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, limit: Number
) -> None:
    value = _hash_id(state.settings, batch.label_ids, row)
    place = _find(state, value, batch.label_ids, row)
    reference = state.table_references[place]
    label = batch.labels[row]
    time = batch.label_times[row]
    if reference == NOTHING:
        if time < limit or batch.label_sizes[row] > state.settings[MAX_WAITING_BYTES]:
            _dead(out, position, ORPHAN_LABEL, -1)
        else:
            _park(state, batch, out, row, position, place, value)
    elif reference < 0:
        ring = (-2 - reference) % len(state.closed_times)
        if state.closed_outcomes[ring] != JOINED:
            _dead(out, position, LATE_LABEL, -1)
        elif state.settings[CORRECTS] != 0 and batch.revisions[row] > state.closed_revisions[ring]:
            _correct(state, batch, out, row, position, reference)
        else:
            _repeat_label(state, batch, out, row, position, state.closed_labels[ring])
    elif state.states[reference] == IS_WAITING:
        if state.settings[CORRECTS] != 0 and batch.revisions[row] > state.revisions[reference]:
            _correct(state, batch, out, row, position, reference)
        else:
            _repeat_label(state, batch, out, row, position, state.labels[reference])
    else:
        _take(state, state.pending_heap, PENDING, reference)
        state.states[reference] = EMPTY
        delay = time - state.times[reference]
        offsets = state.offsets[reference], batch.label_offsets[row]
        _outcome(out, position, JOINED, state.ids, reference, label, reference, delay, offsets[0], offsets[1])
        _learn(state, out, reference, label, batch.revisions[row], delay, position, place)


@bare_inlined
def _free_slots(state: JoinArrays, out: JoinOutput, segment: Number) -> None:
    """Give back what this call gave up: slots of outcomes (repeats have none), released labels and corrections."""
    free = state.counters[FREE]
    for at in range(out.bounds[segment, OUTCOMES], out.counts[OUTCOMES]):
        if out.outcome_slots[at] >= 0:
            state.free[free] = out.outcome_slots[at]
            free += 1
    for at in range(out.bounds[segment, RELEASED], out.counts[RELEASED]):
        state.free[free] = out.released_slots[at]
        free += 1
    for at in range(out.bounds[segment, AMENDMENTS], out.counts[AMENDMENTS]):
        if out.amendments[at, A_SLOT] >= 0:
            state.free[free] = out.amendments[at, A_SLOT]
            free += 1
    state.counters[FREE] = free


@bare_inlined
def _apply(state: JoinArrays, batch: JoinInput, position: Number, out: JoinOutput) -> None:
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


@bare_inlined
def prefetch_row(join: int) -> None:
    """Begin to fetch a stream's row."""
    prefetch_all(join, 8 * JOIN_CELLS)


@bare_inlined
def prefetch_counters(join: int) -> None:
    """Begin to fetch the counters and settings of a stream whose row has come."""
    prefetch_all(longs_at(join)[FIXED], 8 * (COUNTERS + SETTINGS))


@bare_inlined
def prefetch_segment(batch: JoinInput, segments: Segments, segment: int) -> None:
    """Begin to fetch what the records of a segment will touch; the stream's row and counters have come.

    These are the stream's slots and table if they are small, the next places of the ring, and the records themselves.
    """
    row = longs_at(segments.joins[segment])
    slots, ring = row[SLOT_BLOCK], row[RING_BLOCK]
    slot_bytes = 8 * (ID_WORDS + _SLOT_LONGS) + 4 * (_SLOT_INTEGERS + row[FEATURES])
    prefetch_all(slots, min(MOST_AHEAD_BYTES, row[SLOTS] * slot_bytes))
    prefetch_all(row[TABLE_BLOCK], min(MOST_AHEAD_BYTES, 16 * row[TABLE]))
    count = segments.ends[segment] - segments.starts[segment]
    closed = longs_at(row[FIXED])[CLOSED_NEXT] % row[RING]
    prefetch_all(ring + 8 * ID_WORDS * closed, 4 * ID_WORDS * count)
    for column in range(ID_WORDS, ID_WORDS + 4):
        prefetch(ring + 8 * (column * row[RING] + closed))
    features, examples = number_of(address(batch.features)), number_of(address(batch.example_ids))
    labels = number_of(address(batch.label_ids))
    for at in range(segments.starts[segment], segments.ends[segment]):
        position = segments.positions[at]
        record = batch.rows[position]
        if batch.sides[position] == 0:
            prefetch_all(features + 4 * batch.feature_starts[record], 4 * row[FEATURES])
            prefetch_all(examples + 8 * ID_WORDS * record, 8 * ID_WORDS)
        else:
            prefetch_all(labels + 8 * ID_WORDS * record, 8 * ID_WORDS)


@bare_inlined
def run_segment(batch: JoinInput, segments: Segments, segment: int, out: JoinOutput) -> None:
    """Apply the records of one segment; those before it were applied."""
    state = opened(longs_at(segments.joins[segment]))
    out.champions[segment] = state.counters[CHAMPION]
    for at in range(segments.starts[segment], segments.ends[segment]):
        _apply(state, batch, segments.positions[at], out)
    if segments.advances[segment] != NO_LONG:
        _close_below(state, out, segments.advances[segment] + 1, segments.marks[segment])
        _report(state, out, segments.marks[segment])
    _free_slots(state, out, segment)
    for kind in range(OUTPUT_KINDS):
        out.bounds[segment + 1, kind] = out.counts[kind]


@bare_inlined
def settle_segment(join: int, segment: int, out: JoinOutput) -> None:
    """Put what was predicted beside the outcomes of one segment, once its learners have answered.

    Args:
        join: Address of the stream's row.
        segment: Which one.
        out: Of the call; columns `outcome_learners` and `outcome_scores` are filled.
    """
    state = opened(longs_at(join))
    for at in range(out.bounds[segment, OUTCOMES], out.bounds[segment + 1, OUTCOMES]):
        slot, learner = out.outcome_slots[at], -1
        score = np.float32(np.nan)
        if slot >= 0:
            learner = state.champions[slot]
            score = state.scores[learner, slot]
        out.outcome_learners[at] = learner
        out.outcome_scores[at] = score


@bare_inlined
def settle_answers(join: int, segment: int, out: JoinOutput) -> None:
    """Keep what was predicted with the closed ids of one segment, and give it to their corrections.

    Only with corrections, and once, when all learners of the stream have answered.

    Args:
        join: Address of the stream's row.
        segment: Which one.
        out: Of the call; the column `A_ANSWERS` of its amendments is filled.
    """
    state = opened(longs_at(join))
    first, last = out.bounds[segment, OUTCOMES], out.bounds[segment + 1, OUTCOMES]
    row, rows = out.bounds[segment, AMENDMENTS], out.bounds[segment + 1, AMENDMENTS]
    number, ring = state.counters[CLOSED_NEXT], len(state.closed_times)
    for at in range(first, last):
        number -= 1 if out.outcome_slots[at] >= 0 else 0
    for at in range(first, last):  # in order: a place of the ring may have been taken again meanwhile
        slot = out.outcome_slots[at]
        if slot >= 0:
            answers = np.int64(0)
            for learner in range(len(state.classes)):
                answers |= np.int64(state.classes[learner, slot] == 1) << learner
                answers |= np.int64(state.classes[learner, slot] < 0) << (NO_ANSWER + learner)
            state.closed_evaluations[number % ring, ANSWERS] = answers
            number += 1
        while row < rows and out.amendments[row, A_OUTCOME] == at:
            out.amendments[row, A_ANSWERS] = state.closed_evaluations[out.amendments[row, A_NUMBER] % ring, ANSWERS]
            row += 1


# Room -----------------------------------------------------------------------------------------------------------------


@bare
def _wants(segments: Segments, wants: Bytes) -> int:
    """Which streams have no room for so many more records; at most how many closings there will be in all."""
    closings, last = 0, len(segments.joins) - 1
    for segment in range(last + 1):
        prefetch_row(segments.joins[min(segment + 2 * AHEAD, last)])
        prefetch_counters(segments.joins[min(segment + AHEAD, last)])
        row = longs_at(segments.joins[segment])
        counters = longs_at(row[FIXED])
        rows = segments.ends[segment] - segments.starts[segment]
        closings += counters[PENDING] + counters[WAITING] + 2 * rows
        wants[segment] = (
            counters[FREE] < rows
            or row[RING] < _closed_rows(counters, rows)
            or row[TABLE] < 2 * (counters[TABLE_USED] + rows)
        )
    return int(closings)


@bare_inlined
def _closed_rows(counters: Address, rows: Number) -> int:
    """Rows of the ring of closed ids that so many more records may need; the settings lie behind the counters."""
    remembered = counters[CLOSED_NEXT] - counters[CLOSED_FIRST]
    return int(min(remembered + counters[PENDING] + rows, counters[COUNTERS + MAX_CLOSED] + 1))


@bare
def _move_slots(old: int, new: int) -> None:
    """Copy the slots of the row at one address into the larger block of that at another; new slots are taken first."""
    one, two = opened(longs_at(old)), opened(longs_at(new))
    slots, more, free = len(one.states), len(two.states) - len(one.states), one.counters[FREE]
    for slot in range(slots):
        for word in range(ID_WORDS):
            two.ids[slot, word] = one.ids[slot, word]
        two.hashes[slot] = one.hashes[slot]
        two.times[slot] = one.times[slot]
        two.arrivals[slot] = one.arrivals[slot]
        two.offsets[slot] = one.offsets[slot]
        two.revisions[slot] = one.revisions[slot]
        two.fingerprints[slot] = one.fingerprints[slot]
        two.champions[slot] = one.champions[slot]
        two.pending_heap[slot] = one.pending_heap[slot]
        two.waiting_heap[slot] = one.waiting_heap[slot]
        two.heap_places[slot] = one.heap_places[slot]
        for column in range(one.features.shape[1]):
            two.features[slot, column] = one.features[slot, column]
        two.states[slot] = one.states[slot]
        two.labels[slot] = one.labels[slot]
        for learner in range(one.scores.shape[0]):
            two.scores[learner, slot] = one.scores[learner, slot]
            two.classes[learner, slot] = one.classes[learner, slot]
    for k in range(more):
        two.free[k] = slots + more - 1 - k
    for k in range(free):
        two.free[more + k] = one.free[k]
    two.counters[FREE] = free + more


@bare
def _move_ring(old: int, new: int) -> None:
    """The same for the closed ids."""
    one, two = opened(longs_at(old)), opened(longs_at(new))
    for number in range(one.counters[CLOSED_FIRST], one.counters[CLOSED_NEXT]):
        at, to = number % len(one.closed_times), number % len(two.closed_times)
        for word in range(ID_WORDS):
            two.closed_ids[to, word] = one.closed_ids[at, word]
        two.closed_hashes[to] = one.closed_hashes[at]
        two.closed_fingerprints[to] = one.closed_fingerprints[at]
        two.closed_revisions[to] = one.closed_revisions[at]
        two.closed_times[to] = one.closed_times[at]
        for column in range(one.closed_evaluations.shape[1]):
            two.closed_evaluations[to, column] = one.closed_evaluations[at, column]
        two.closed_labels[to] = one.closed_labels[at]
        two.closed_outcomes[to] = one.closed_outcomes[at]


@bare
def _move_table(old: int, new: int) -> None:
    """The same for the hash table."""
    one, two = opened(longs_at(old)), opened(longs_at(new))
    mask = len(two.table_hashes) - 1
    for place in range(mask + 1):
        two.table_references[place] = NOTHING
    for k in range(len(one.table_hashes)):
        if one.table_references[k] != NOTHING:
            place = int(one.table_hashes[k]) & mask
            while two.table_references[place] != NOTHING:
                place = (place + 1) & mask
            two.table_hashes[place] = one.table_hashes[k]
            two.table_references[place] = one.table_references[k]


@bare_inlined
def _insert(state: JoinArrays, value: np.uint64, reference: Number) -> None:
    """Put a reference, which is new, into the table."""
    mask = len(state.table_hashes) - 1
    place = np.int64(value) & mask
    while state.table_references[place] != NOTHING:
        place = (place + 1) & mask
    state.table_hashes[place] = value
    state.table_references[place] = reference
    state.counters[TABLE_USED] += 1


@bare
def _index(row: int, pending: int, waiting: int) -> None:
    state = opened(longs_at(row))
    counters, slots = state.counters, len(state.states)
    counters[FREE] = slots - pending - waiting
    for slot in range(pending + waiting):
        state.hashes[slot] = _hash_id(state.settings, state.ids, slot)
        state.states[slot] = IS_PENDING if slot < pending else IS_WAITING
        _insert(state, state.hashes[slot], slot)
    for slot in range(pending):
        _push(state, state.pending_heap, PENDING, slot)
    for slot in range(pending, pending + waiting):
        _push(state, state.waiting_heap, WAITING, slot)
        counters[WAITING_BYTES] += np.int64(state.fingerprints[slot])
    for free in range(counters[FREE]):
        state.free[free] = slots - 1 - free
    for number in range(counters[CLOSED_FIRST], counters[CLOSED_NEXT]):
        ring = number % len(state.closed_times)
        state.closed_hashes[ring] = _hash_id(state.settings, state.closed_ids, ring)
        _insert(state, state.closed_hashes[ring], -2 - number)


# The outside ----------------------------------------------------------------------------------------------------------

FIRST_SLOTS = 16
"""Slots of a stream with its first record, and closed ids; they double as needed up to the bounds of the settings."""

_BLOCKS = (
    (FIXED, _FIXED_COLUMNS, None),
    (SLOT_BLOCK, _SLOT_COLUMNS, SLOTS),
    (RING_BLOCK, _RING_COLUMNS, RING),
    (TABLE_BLOCK, _TABLE_COLUMNS, TABLE),
)
"""The cell of each block, its columns, and the cell that says how many rows it has (one where there is none)."""

_SIZES = tuple(tuple((np.dtype(dtype).itemsize, count) for _, dtype, count in columns) for _, columns, _ in _BLOCKS)
"""Of the same columns: bytes and number of their elements."""


class StreamJoin:
    """The join of one stream.

    Args:
        settings: Bounds and lives.
        every_labels: Accepted labels between two reports.
        learners: How many predict.
        hash_key: `HASH_KEY_BYTES` for the table.

    Attributes:
        row: For `Segments.joins`, as long as this lives: its numbers change in place.
    """

    def __init__(self, settings: JoinSettings, every_labels: int, learners: int, hash_key: bytes = NO_HASH_KEY) -> None:
        rows = np.zeros((2, JOIN_CELLS), np.int64)  # the other one is what it was before a change
        self.row, self._old_row = rows
        begin = address_of(rows)
        self._row_addresses = begin, begin + self.row.nbytes
        corrects = settings.corrections == "correct"
        self.row[LEARNERS], self.row[EVALUATIONS] = learners, EVALUATION_COLUMNS if corrects else 0
        nothing = np.zeros(0, np.uint8)  # until the first record
        self._blocks = [self._new_block(0), nothing, nothing, nothing]
        fixed = self._blocks[0].view(np.int64)
        self._counters, self._settings = fixed[:COUNTERS], fixed[COUNTERS : COUNTERS + SETTINGS]
        self._settings[...] = (
            settings.ttl_ms + settings.max_clock_lead_ms,
            settings.closed_ttl_ms,
            settings.max_pending_per_stream,
            settings.max_waiting_per_stream,
            settings.max_closed_per_stream,
            every_labels,
            corrects,
            settings.max_waiting_bytes_per_stream,
            *struct.unpack("<2q", hash_key),
        )
        self._counters[STREAM_TIME] = -1

    @property
    def allocated_bytes(self) -> int:
        """Of its blocks."""
        return sum(map(len, self._blocks))

    @property
    def address(self) -> int:
        """Where the row begins."""
        return self._row_addresses[0]

    @property
    def champion(self) -> int:
        """Index of the learner whose predictions count from here."""
        return int(self._counters[CHAMPION])

    @champion.setter
    def champion(self, index: int) -> None:
        self._counters[CHAMPION] = index

    def awaited_champions(self) -> Sequence[int]:
        """Indices of the learners whose predictions, made as champion, wait for labels."""
        state = self.arrays()
        waiting: Sequence[int] = np.unique(state["champions"][state["states"] == IS_PENDING]).tolist()
        return waiting

    @property
    def slots(self) -> int:
        """How many there are."""
        return int(self.row[SLOTS])

    def set_features(self, features: int) -> None:
        """Fix the dimension, before the first example."""
        if self.slots:
            self._change(1, FEATURES, features, _move_slots)
        else:
            self.row[FEATURES] = features

    def make_room(self, rows: int) -> None:
        """See to it that so many records can be applied: double what is too small for them."""
        counters, (slots, ring, table) = self._counters.tolist(), self.row[SLOTS : TABLE + 1].tolist()
        if counters[FREE] < rows:
            self._change(1, SLOTS, max(FIRST_SLOTS, 2 * slots, slots + rows - counters[FREE]), _move_slots)
        remembered = counters[CLOSED_NEXT] - counters[CLOSED_FIRST]
        closed = min(remembered + counters[PENDING] + rows, int(self._settings[MAX_CLOSED]) + 1)
        if ring < closed:
            self._change(2, RING, max(FIRST_SLOTS, 2 * ring, closed), _move_ring)
        used = counters[TABLE_USED] + rows
        if table < 2 * used:
            self._change(3, TABLE, max(4 * FIRST_SLOTS, 1 << (2 * used - 1).bit_length()), _move_table)

    def reserve(self, rows: int, closed: int) -> None:
        """See to it that an empty join can take over so many rows and closed ids."""
        self.make_room(rows)
        if self.row[RING] < closed:
            self._change(2, RING, closed, _move_ring)
        if self.row[TABLE] < 2 * (rows + closed):
            self._change(3, TABLE, 1 << (2 * (rows + closed) - 1).bit_length(), _move_table)

    def index(self, pending: int, waiting: int) -> None:
        """Find hashes, table, heaps and free slots anew: the first slots are pending, those behind them wait."""
        _index(self._row_addresses[0], pending, waiting)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All state by name, as views that hold until there is new room."""
        return {name: view for k in range(len(_BLOCKS)) for name, view in self._views(k)}

    def _change(self, block: int, cell: int, value: int, move: Callable[[int, int], None]) -> None:
        """Lay a block out anew with another number in this cell, and move its contents."""
        self._old_row[:] = self.row
        old_block = self._blocks[block]
        self.row[cell] = value
        self._blocks[block] = self._new_block(block)
        new_row, old_row = self._row_addresses
        move(old_row, new_row)
        del old_block  # not before it was copied

    def _new_block(self, number: int) -> Bytes:
        cell, _, rows = _BLOCKS[number]
        cells = self.row.tolist()
        width = sum(size * (cells[-count] if count < 0 else count) for size, count in _SIZES[number])
        block, self.row[cell] = block_of(width * (1 if rows is None else cells[rows]))
        return block

    def _shape(self, number: int, name: str, dtype: type[np.generic], width: int) -> tuple[int, tuple[int, ...]]:
        """Bytes and shape of a column."""
        rows_cell = _BLOCKS[number][2]
        rows = 1 if rows_cell is None else int(self.row[rows_cell])
        count = int(self.row[-width]) if width < 0 else width
        size = rows * count * np.dtype(dtype).itemsize
        if rows_cell is None or width == 1:
            return size, (rows * count,)
        return size, (count, rows) if name in _BY_LEARNER else (rows, count)

    def _views(self, number: int) -> Iterator[tuple[str, NDArray[Any]]]:
        start, block = 0, self._blocks[number]
        for column in _BLOCKS[number][1]:
            size, shape = self._shape(number, *column)
            yield column[0], block[start : start + size].view(column[1]).reshape(shape)
            start += size


def wanting(segments: Segments) -> tuple[Integers, int]:
    """Which segments' streams must `make_room` first, and how many closings (outcomes, dead letters) there are at most.

    Returns:
        int32, indices of segments, and a number for `output_of`.
    """
    wants = np.zeros(len(segments.joins), np.uint8)
    closings = _wants(segments, wants)
    return np.flatnonzero(wants).astype(np.int32), int(closings)


def output_of(segments: Segments, closings: int) -> JoinOutput:
    """Room for what `run_segment` gives; `closings` is the number that `wanting` returned."""
    streams, rows = len(segments.joins), int((segments.ends - segments.starts).sum())
    operations = 3 * rows + streams
    return JoinOutput(
        counts=np.zeros(OUTPUT_KINDS, np.int64),
        bounds=np.zeros((streams + 1, OUTPUT_KINDS), np.int64),
        champions=np.empty(streams, np.int32),
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
        outcome_learners=np.empty(closings, np.int32),
        outcome_scores=np.empty(closings, np.float32),
        dead_positions=np.empty(closings, np.int32),
        dead_reasons=np.empty(closings, np.uint8),
        dead_slots=np.empty(closings, np.int32),
        parked_slots=np.empty(rows, np.int32),
        parked_positions=np.empty(rows, np.int32),
        released_slots=np.empty(closings, np.int32),
        reports=np.empty((rows + streams, REPORT_COLUMNS), np.int64),
        amendments=np.empty((rows, AMENDMENT_COLUMNS), np.int64),
    )
