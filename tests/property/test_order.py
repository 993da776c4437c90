"""The merged sequence is the same for any cut of batches: it equals a single merge, if no side was released early."""

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.arrays import Longs
from stream_app.pipeline.merge import cut, merge

TIMES = st.one_of(
    st.lists(st.integers(0, 5), max_size=12),  # ties and disorder
    st.lists(st.integers(0, 40), max_size=12).map(sorted),
    st.lists(st.sampled_from([0, 1, 2, 1_000]), max_size=12),  # clocks that run ahead
)
LIMITS = st.lists(st.integers(1, 7), min_size=1, max_size=6)


class Place(NamedTuple):
    """The side and the row of a record."""

    side: int
    row: int


def _array(times: list[int]) -> Longs:
    return np.array(times, np.int64)


def _merged(examples: list[int], labels: list[int]) -> list[Place]:
    """Merge one record after the other, by the rule."""
    found: list[Place] = []
    example = label = 0
    while example < len(examples) or label < len(labels):
        first = label == len(labels) or (example < len(examples) and examples[example] <= labels[label])
        found.append(Place(0, example) if first else Place(1, label))
        example, label = example + first, label + (not first)
    return found


def _batch(examples: list[int], labels: list[int], starts: tuple[int, int], rows: tuple[int, int]) -> list[Place]:
    """Return the merge of one batch, in rows of the complete input."""
    sides, places = merge(
        _array(examples[starts[0] : starts[0] + rows[0]]), _array(labels[starts[1] : starts[1] + rows[1]])
    )
    return [Place(int(side), starts[side] + int(row)) for side, row in zip(sides, places, strict=True)]


@settings(deadline=None)
@given(examples=TIMES, labels=TIMES)
def test_the_compiled_merge_follows_the_rule(examples: list[int], labels: list[int]) -> None:
    """The compiled merge follows the rule."""
    assert _batch(examples, labels, (0, 0), (len(examples), len(labels))) == _merged(examples, labels)


@settings(deadline=None)
@given(examples=TIMES, labels=TIMES, limits=LIMITS, data=st.data())
def test_cut_at_will(examples: list[int], labels: list[int], limits: list[int], data: st.DataObject) -> None:
    """Records arrive in any portions, batches have any size: the sequence equals a single merge of everything.

    Otherwise results would depend on how busy the machine was.
    """
    arrived, taken = [0, 0], [0, 0]
    sides = (examples, labels)
    sequence: list[Place] = []
    turn = 0
    while len(sequence) < len(examples) + len(labels):
        for side in (0, 1):
            arrived[side] += data.draw(st.integers(0, len(sides[side]) - arrived[side]), label=f"arrive {side}")
        limit = limits[turn % len(limits)]
        ends = [arrived[side] == len(sides[side]) for side in (0, 1)]
        windows = [sides[side][taken[side] : arrived[side]] for side in (0, 1)]
        rows = cut(
            _array(windows[0][:limit]),
            _array(windows[1][:limit]),
            examples_at_end=ends[0] and len(windows[0]) <= limit,
            labels_at_end=ends[1] and len(windows[1]) <= limit,
            limit=limit,
        )
        assert sum(rows) <= limit
        if all(ends) and any(windows):
            assert sum(rows) > 0, "with everything there, something goes"
        sequence += _batch(examples, labels, (taken[0], taken[1]), rows)
        taken = [taken[0] + rows[0], taken[1] + rows[1]]
        turn += 1
        if turn > 40:
            arrived = [len(examples), len(labels)]
    assert sequence == _merged(examples, labels)


@settings(deadline=None)
@given(examples=TIMES, labels=TIMES, data=st.data())
def test_a_release_breaks_no_order_of_a_side(examples: list[int], labels: list[int], data: st.DataObject) -> None:
    """If one side is at its end, the other may continue: each record is merged once, each side in order."""
    sides = (examples, labels)
    arrived, taken = [0, 0], [0, 0]
    sequence: list[Place] = []
    for _ in range(4):
        for side in (0, 1):
            arrived[side] += data.draw(st.integers(0, len(sides[side]) - arrived[side]), label=f"arrive {side}")
        rows = cut(
            _array(examples[taken[0] : arrived[0]]),
            _array(labels[taken[1] : arrived[1]]),
            examples_at_end=True,
            labels_at_end=True,
            limit=1_000,
        )
        assert [taken[side] + rows[side] for side in (0, 1)] == arrived, "both ends are known: nothing waits"
        sequence += _batch(examples, labels, (taken[0], taken[1]), rows)
        taken = list(arrived)
    for side in (0, 1):
        assert [place.row for place in sequence if place.side == side] == list(range(arrived[side]))


@settings(deadline=None)
@given(examples=TIMES, labels=TIMES)
def test_without_news_of_the_other_side_nothing_goes(examples: list[int], labels: list[int]) -> None:
    """An empty side that is not known to be at its end may still bring a smaller timestamp."""
    options = {"examples_at_end": False, "labels_at_end": False, "limit": 1_000}
    assert cut(_array(examples), _array([]), **options) == (0, 0)  # type: ignore[arg-type]
    assert cut(_array([]), _array(labels), **options) == (0, 0)  # type: ignore[arg-type]
