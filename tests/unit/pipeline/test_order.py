"""The merge in small cases: what comes first, what waits, what is released."""

import numpy as np
import pytest

from stream_app.arrays import Longs
from stream_app.pipeline.merge import cut, merge

ALL = 1_000


def _times(*values: int) -> Longs:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("examples", "labels", "expected"),
    [
        ((1, 3), (2, 4), "e0 l0 e1 l1"),
        ((1, 1), (1, 1), "e0 e1 l0 l1"),
        ((5, 1), (3,), "l0 e0 e1"),
        ((9, 1, 2), (9, 1), "e0 e1 e2 l0 l1"),
        ((), (2, 1), "l0 l1"),
        ((1, 2), (), "e0 e1"),
        ((), (), ""),
        ((-1, 0), (-1,), "e0 l0 e1"),
    ],
    ids=["alternating", "ties", "disorder", "clock-ahead", "no-examples", "no-labels", "nothing", "no-time"],
)
def test_merge(examples: tuple[int, ...], labels: tuple[int, ...], expected: str) -> None:
    """The smaller head comes first, on a tie the example; each side keeps its order with any timestamps."""
    sides, rows = merge(_times(*examples), _times(*labels))
    assert " ".join(f"{'el'[side]}{row}" for side, row in zip(sides, rows, strict=True)) == expected


@pytest.mark.parametrize(
    ("examples", "labels", "ends", "limit", "expected"),
    [
        ((1, 3), (2, 4), (False, False), ALL, (2, 1)),  # the label at 4 waits: an example at 3.5 may come
        ((1, 3), (2, 4), (True, False), ALL, (2, 2)),
        ((1, 3), (2,), (False, False), ALL, (1, 1)),
        ((1, 3), (2,), (False, True), ALL, (2, 1)),
        ((1, 2), (), (False, False), ALL, (0, 0)),
        ((1, 2), (), (False, True), ALL, (2, 0)),
        ((), (1, 2), (True, False), ALL, (0, 2)),
        ((), (), (True, True), ALL, (0, 0)),
        ((1, 1), (1,), (False, False), ALL, (2, 0)),  # on a tie examples come first, so one more example might
        ((1, 2, 3), (4,), (True, True), 2, (2, 0)),
        ((1, 2, 3), (1, 2, 3), (True, True), 5, (3, 2)),
    ],
)
def test_cut(
    examples: tuple[int, ...], labels: tuple[int, ...], ends: tuple[bool, bool], limit: int, expected: tuple[int, int]
) -> None:
    """A side continues alone only if the other is known to be at its end; the limit is never exceeded."""
    found = cut(_times(*examples), _times(*labels), examples_at_end=ends[0], labels_at_end=ends[1], limit=limit)
    assert found == expected
