"""Poisson numbers in compiled code, from a counter-based generator whose whole state is six words.

Philox 4x64-10 (Salmon et al. 2011), as NumPy's, keyed and started by a learner's seed like the generator of its
weights, but 2**64 blocks later, so that the two never overlap. Each label begins a new block; words of its last block
that are not needed are dropped, so that no half-used block must be remembered.

A number is found by inversion: one uniform of 53 bits against the sums of the probabilities. Rates above `PART` are
cut into equal parts, whose numbers are added (a sum of Poisson numbers is one). Only + - * / decide, so all machines
draw the same.
"""

import numpy as np

from stream_app.arrays import Words
from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.networks.simd import high_product

WORDS = 4
"""Words of a block."""

PART = 8.0
"""The largest rate of one inversion: e**-8 is far from 0, and 60 sums reach 1 within a double's last bit."""

TABLE_SIZE = 64
"""Numbers of the table: its rate, 62 sums of probabilities, and a number that no uniform reaches."""

_MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_ONE, _SHIFT = np.uint64(1), np.uint64(11)
_TO_UNIT = 2.0**-53


def new_generator(seed: bytes) -> Words:
    """Return the state of a generator for a learner's 32-byte seed."""
    key, start = np.frombuffer(seed[:16], "<u8"), np.frombuffer(seed[16:], "<u8")
    return np.array([*key, 0, 1, *start], np.uint64)


@compiled
def next_block(generator: Pointer, words: Pointer) -> None:
    """Fill `words` with the next block; the counter's lowest word suffices for 2**64 blocks."""
    generator[2] += _ONE
    a, b, c, d = generator[2], generator[3], generator[4], generator[5]
    first, second = generator[0], generator[1]
    for _ in range(_ROUNDS):
        high_a, low_a = high_product(a, _MULTIPLIERS[0]), a * _MULTIPLIERS[0]
        high_c, low_c = high_product(c, _MULTIPLIERS[1]), c * _MULTIPLIERS[1]
        a, b, c, d = high_c ^ b ^ first, low_c, high_a ^ d ^ second, low_a
        first += _WEYL[0]
        second += _WEYL[1]
    words[0], words[1], words[2], words[3] = a, b, c, d


@compiled
def _falling_exponential(x: float) -> float:
    """Return e**-x for 0 <= x <= `PART`: the series at x / 256, squared eight times."""
    series = 1.0
    for term in range(8, 0, -1):
        series = 1.0 - (x / 256.0) / term * series
    for _ in range(8):
        series = series * series
    return series


@compiled
def _tabulate(table: Pointer, rate: float) -> None:
    """Fill the table with the sums of the probabilities of 0, 1, 2, ..., unless it is for this rate already."""
    if table[0] == rate:
        return
    table[0] = rate
    probability = _falling_exponential(rate)
    summed = probability
    for k in range(1, TABLE_SIZE - 1):
        table[k] = summed
        probability *= rate / k
        summed += probability
    table[TABLE_SIZE - 1] = 2.0


@compiled
def draw(generator: Pointer, words: Pointer, table: Pointer, rate: float, numbers: Pointer, count: int) -> None:
    """Fill `numbers` with `count` Poisson numbers of one rate, at least 0."""
    parts = max(1, int(np.ceil(rate / PART)))
    _tabulate(table, rate / parts)
    used = WORDS
    for n in range(count):
        total = 0
        for _ in range(parts):
            if used == WORDS:
                next_block(generator, words)
                used = 0
            uniform = np.float64(words[used] >> _SHIFT) * _TO_UNIT
            used += 1
            k = 0
            while table[k + 1] <= uniform:
                k += 1
            total += k
        numbers[n] = total
