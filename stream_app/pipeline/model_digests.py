"""Digests of models, by which two runs of a task are compared."""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_BY_SLOT = "seen"
"""A learner's array by slot. The numbers of slots depend on where batches were cut, so digests leave the array out."""


def digests_of(arrays: Mapping[str, NDArray[np.generic]]) -> Mapping[str, str]:
    """Return the SHA-256 of the state of each learner by `stream/learner`.

    Args:
        arrays: All arrays by `stream/learner/array`, in an order that is always the same.
    """
    digests: dict[str, hashlib._Hash] = {}
    for name, array in arrays.items():
        stream, learner, key = name.rsplit("/", 2)
        if key == _BY_SLOT:
            continue
        digest = digests.setdefault(f"{stream}/{learner}", hashlib.sha256())
        digest.update(f"{key} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return {name: digest.hexdigest() for name, digest in digests.items()}
