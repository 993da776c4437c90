"""The types of the arrays that columns of records are made of, and ids and nulls as such columns hold them."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.records import ID_WORDS, MAX_ID_BYTES

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Longs: TypeAlias = NDArray[np.int64]
Integers: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]

NO_LONG = np.iinfo(np.int64).min
"""Stands for null in a column of longs."""


def pack_id(text: str) -> Words:
    """Return an id as `ID_WORDS` uint64 words.

    Raises:
        ValueError: The id is empty, or has more than `MAX_ID_BYTES` in UTF-8.
    """
    raw = text.encode()
    if not 1 <= len(raw) <= MAX_ID_BYTES:
        raise ValueError(f"an id has 1 to {MAX_ID_BYTES} bytes, not {len(raw)}")
    words = np.zeros(ID_WORDS, dtype="<u8")
    words[0] = len(raw)
    words[1:].view(np.uint8)[: len(raw)] = np.frombuffer(raw, np.uint8)
    return words
