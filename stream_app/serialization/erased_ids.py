"""The ids that an `erase` mark names, as digests: a mark is kept as long as the inputs, and must not name a person.

A digest is the SHA-256 of the stream's name, a zero byte and the id, in lower-case hexadecimal. Whoever can guess an id
can compute its digest.
"""

from collections.abc import Iterator
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Words

DIGEST_CHARACTERS = 64


def id_digest(stream: str, id_: str) -> str:
    """Return the digest of an id."""
    return sha256(b"%b\0%b" % (stream.encode(), id_.encode())).hexdigest()


def cut_digests(digests: str) -> frozenset[str]:
    """Return the digests that a mark has, one after the other."""
    starts = range(0, len(digests), DIGEST_CHARACTERS)
    return frozenset(digests[start : start + DIGEST_CHARACTERS] for start in starts)


class ErasedIds:
    """The ids of a stream that a mark names.

    Args:
        stream: The name of the stream.
        digests: The digests of the ids, one after the other.
    """

    def __init__(self, stream: str, digests: str) -> None:
        self._begun = sha256(stream.encode() + b"\0")
        self._digests = cut_digests(digests)

    def __len__(self) -> int:
        return len(self._digests)

    def among(self, ids: Words) -> NDArray[np.bool_]:
        """Return bool `[n]`, which of these ids, uint64 `[n, ID_WORDS]`, the mark names."""
        return np.fromiter((digest in self._digests for digest in self._digests_of(ids)), np.bool_, len(ids))

    def _digests_of(self, ids: Words) -> Iterator[str]:
        lengths, texts, width = ids[:, 0].tolist(), ids[:, 1:].tobytes(), 8 * (ids.shape[1] - 1)
        for row, length in enumerate(lengths):
            digest = self._begun.copy()
            digest.update(texts[row * width : row * width + length])
            yield digest.hexdigest()
