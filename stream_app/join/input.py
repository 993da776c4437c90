"""What the join is given: a batch in columns, and which of its records belong to which stream."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Integers, Longs, Words


class JoinInput(NamedTuple):
    """One batch of a task: both sides in columns, and their merged sequence of n positions.

    Attributes:
        sides: uint8 `[n]`, the `Side` of each position.
        rows: int32 `[n]`, its row on that side.
        example_times: int64, event time of each example in milliseconds.
        example_offsets: int64, its input offset.
        example_ids: uint64 `[examples, ID_WORDS]`, packed ids.
        features: float32, the features of all examples, one example after the other.
        feature_starts: int64, where the features of each example begin.
        fingerprints: uint64, a hash of what each example came with; 0: of its features. Empty if all are 0.
        costs: float32 `[examples, 2]`, of a false positive and a false negative; NaN: not known. Empty if no stream has
            costs.
        label_times: int64, event time of each label in milliseconds.
        label_offsets: int64, its input offset.
        label_ids: uint64 `[labels, ID_WORDS]`, packed ids.
        labels: int8, the class, 0 or 1.
        revisions: int64, the revision.
        label_sizes: int64, the bytes that the label would have as a dead letter.
    """

    sides: Bytes
    rows: Integers
    example_times: Longs
    example_offsets: Longs
    example_ids: Words
    features: Floats
    feature_starts: Longs
    fingerprints: Words
    costs: Floats
    label_times: Longs
    label_offsets: Longs
    label_ids: Words
    labels: NDArray[np.int8]
    revisions: Longs
    label_sizes: Longs


class Segments(NamedTuple):
    """The work of one call: for each of s streams, some records and perhaps a pair of `advance` marks after them.

    Attributes:
        joins: int64 `[s]`, addresses of the descriptors of the streams' joins; no stream is there twice.
        starts: int64 `[s]`, where the positions of each stream begin in `positions`.
        ends: int64 `[s]`, where they end.
        positions: int32, positions of the merged sequence, ascending in each stream.
        advances: int64 `[s]`, close everything up to and including this time, then report; `NO_LONG`: no marks.
        marks: int32 `[s]`, the position of the second mark of the pair.
    """

    joins: Longs
    starts: Longs
    ends: Longs
    positions: Integers
    advances: Longs
    marks: Integers
