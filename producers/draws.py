"""Random numbers by position: number i depends only on the names and on i, not on earlier draws.

The words are those of Philox 4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), whose
sequence NumPy promises to keep. The key is SHA-256 of the names, so two purposes never share numbers.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

WORDS_PER_BLOCK = 4
"""Philox 4x64 makes four 64-bit words from each value of its counter."""


class Draws:
    """An endless sequence of random words that can be read from any position.

    Args:
        names: The purpose of the numbers, which includes the seed.
    """

    def __init__(self, *names: str | int) -> None:
        digest = hashlib.sha256("/".join(("areba", *map(str, names))).encode()).digest()
        self._key = int.from_bytes(digest[:16], "little")

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        """Return the words start .. start + count - 1, uint64 `[count]`."""
        block, skip = divmod(start, WORDS_PER_BLOCK)
        generator = np.random.Philox(key=self._key, counter=block)
        words: NDArray[np.uint64] = generator.random_raw(skip + count)[skip:]
        return words

    def uniforms(self, start: int, count: int) -> NDArray[np.float64]:
        """Return the words of these positions as multiples of 2**-53 in [0, 1), float64 `[count]`."""
        return (self.words(start, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def shuffled(self, count: int) -> NDArray[np.int64]:
        """Return 0 .. count - 1 in the order of their words (equal words: smaller number first), int64 `[count]`."""
        return np.argsort(self.words(0, count), kind="stable")
