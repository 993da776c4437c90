"""The hash table from ids to slots and to closed ids, the keyed hash of an id, and the fingerprint of features.

The table has open addressing with linear probing; at most half of its buckets are in use, and a removal moves the ids
that follow, so there are no tombstones. Each bucket has the hash of an id and a reference: a slot (0 or more) for an
open id, `closed_reference(k)` for the closed id with number k.

The hash has a secret key (SipHash-1-3; Aumasson and Bernstein 2012), because the senders of records choose their ids:
without the key, no sender can choose ids that share a bucket and so make the search slow. Each process draws a key and
no topic has it; no result depends on the order of the table.
"""

from typing import TypeAlias

import numpy as np

from stream_app.arrays import Floats, Longs, Words
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.constants import Counter, Setting
from stream_app.join.layout import JoinArrays

EMPTY_BUCKET = -1
"""The reference of a bucket of the table that holds no id."""

_SipState: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

_SIP = (
    np.uint64(0x736F6D6570736575),
    np.uint64(0x646F72616E646F6D),
    np.uint64(0x6C7967656E657261),
    np.uint64(0x7465646279746573),
)
"""The constants of SipHash."""

_HASH_A = np.uint64(0x9E3779B97F4A7C15)
_HASH_B = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
"""Odd multipliers and the shift of the fingerprint."""


@inlined_without_refcounts
def closed_reference(number: Number) -> Number:
    """Return the reference of the closed id with this number."""
    return -2 - number


@inlined_without_refcounts
def closed_number(reference: Number) -> Number:
    """Return the number of the closed id that a negative reference other than `EMPTY_BUCKET` stands for."""
    return -2 - reference


@inlined_without_refcounts
def closed_row(state: JoinArrays, number: Number) -> Number:
    """Return the row of a closed id in the ring."""
    return number % len(state.closed_times)


@inlined_without_refcounts
def _rotate_left(value: np.uint64, bits: int) -> np.uint64:
    """Rotate 64 bits to the left."""
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined_without_refcounts
def _sip_round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> _SipState:
    """Return the state of SipHash after one more round."""
    a += b
    c += d
    b = _rotate_left(b, 13) ^ a
    d = _rotate_left(d, 16) ^ c
    a = _rotate_left(a, 32)
    c += b
    a += d
    b = _rotate_left(b, 17) ^ c
    d = _rotate_left(d, 21) ^ a
    return a, b, _rotate_left(c, 32), d


@inlined_without_refcounts
def hash_id(settings: Longs, ids: Words, row: Number) -> np.uint64:
    """Return SipHash-1-3 of the bytes of a packed id, which are padded with zeros to whole words."""
    low, high, length = np.uint64(settings[Setting.KEY_LOW]), np.uint64(settings[Setting.KEY_HIGH]), ids[row, 0]
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


@inlined_without_refcounts
def fingerprint_of(features: Floats, start: Number, count: Number) -> np.uint64:
    """Return a 64-bit hash of the bits of `count` features; four chains run in parallel in the CPU's multipliers."""
    bits = features.view(np.uint32)
    one, two, three, four = _HASH_A, _HASH_B, ~_HASH_A, ~_HASH_B
    at = start
    end = start + count
    while at + 4 <= end:
        one = (one ^ np.uint64(bits[at])) * _HASH_A
        two = (two ^ np.uint64(bits[at + 1])) * _HASH_A
        three = (three ^ np.uint64(bits[at + 2])) * _HASH_A
        four = (four ^ np.uint64(bits[at + 3])) * _HASH_A
        one ^= one >> _SHIFT
        two ^= two >> _SHIFT
        three ^= three >> _SHIFT
        four ^= four >> _SHIFT
        at += 4
    while at < end:
        one = (one ^ np.uint64(bits[at])) * _HASH_A
        one ^= one >> _SHIFT
        at += 1
    value = ((one * _HASH_B ^ two) * _HASH_B ^ three) * _HASH_B ^ four
    return value ^ (value >> _SHIFT)


@inlined_without_refcounts
def _same_id(left: Words, left_row: Number, right: Words, right_row: Number) -> bool:
    """Say whether two packed ids are equal; words after the last byte of an id are not compared."""
    words = (np.int64(left[left_row, 0]) + 7) // 8
    for word in range(words + 1):  # noqa: SIM110  (compiled code has no generators)
        if left[left_row, word] != right[right_row, word]:
            return False
    return True


@inlined_without_refcounts
def find_id(state: JoinArrays, value: np.uint64, ids: Words, row: Number) -> Number:
    """Return the bucket of an id in the table, or the empty bucket where it would go."""
    mask = len(state.table_hashes) - 1
    bucket = np.int64(value) & mask
    while state.table_references[bucket] != EMPTY_BUCKET:
        if state.table_hashes[bucket] == value:
            reference = state.table_references[bucket]
            if reference >= 0:
                if _same_id(ids, row, state.ids, reference):
                    return bucket
            elif _same_id(ids, row, state.closed_ids, closed_row(state, closed_number(reference))):
                return bucket
        bucket = (bucket + 1) & mask
    return bucket


@inlined_without_refcounts
def bucket_of_reference(state: JoinArrays, value: np.uint64, reference: Number) -> Number:
    """Return the bucket of a reference that is in the table."""
    mask = len(state.table_hashes) - 1
    bucket = np.int64(value) & mask
    while state.table_references[bucket] != reference:
        bucket = (bucket + 1) & mask
    return bucket


@inlined_without_refcounts
def remove_bucket(state: JoinArrays, bucket: Number) -> None:
    """Empty a bucket, and move back each id after it that the bucket had pushed away from its home."""
    mask = len(state.table_hashes) - 1
    hole = bucket
    following = (hole + 1) & mask
    while state.table_references[following] != EMPTY_BUCKET:
        home = np.int64(state.table_hashes[following]) & mask
        if ((following - home) & mask) >= ((following - hole) & mask):
            state.table_hashes[hole] = state.table_hashes[following]
            state.table_references[hole] = state.table_references[following]
            hole = following
        following = (following + 1) & mask
    state.table_references[hole] = EMPTY_BUCKET
    state.counters[Counter.TABLE_USED] -= 1


@inlined_without_refcounts
def insert_reference(state: JoinArrays, value: np.uint64, reference: Number) -> None:
    """Put the reference of an id that is not there yet into the table."""
    mask = len(state.table_hashes) - 1
    bucket = np.int64(value) & mask
    while state.table_references[bucket] != EMPTY_BUCKET:
        bucket = (bucket + 1) & mask
    state.table_hashes[bucket] = value
    state.table_references[bucket] = reference
    state.counters[Counter.TABLE_USED] += 1
