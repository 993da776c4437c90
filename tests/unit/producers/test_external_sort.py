"""Sorting outside of memory: a long replay must neither lose a row nor take more memory than a short one."""

import numpy as np
import pytest

from stream_app.producers.external_sort import ExternalSort

ROW = np.dtype([("key", np.int64), ("number", np.int64), ("payload", np.float32, (3,))])


def _rows(count: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    rows = np.zeros(count, ROW)
    rows["key"] = np.random.default_rng(seed).integers(-50, 50, count)
    rows["number"] = np.arange(count)
    rows["payload"] = rows["key"][:, None] + rows["number"][:, None] / 1000
    return rows


@pytest.mark.parametrize(("count", "run_rows"), [(1, 10), (10, 10), (11, 10), (1_000, 64), (1_000, 7), (5_000, 5_000)])
@pytest.mark.parametrize("added", [1, 3, 997])
def test_rows_come_back_in_order(count: int, run_rows: int, added: int) -> None:
    """Each row comes once, with all of its fields, wherever the runs are cut."""
    rows = _rows(count)
    with ExternalSort(ROW, ("key", "number"), run_rows) as sort:
        for first in range(0, count, added):
            sort.add(rows[first : first + added])
        found = np.concatenate(list(sort.blocks()))
    assert (found == rows[np.lexsort([rows["number"], rows["key"]])]).all()


def test_only_a_run_is_held_in_memory() -> None:
    """A file of any size must fit: what is held does not grow with the number of rows."""
    with ExternalSort(ROW, ("key", "number"), 100) as sort:
        for seed in range(50):
            rows = _rows(100, seed)
            rows["number"] += 100 * seed
            sort.add(rows)
        lengths = [len(block) for block in sort.blocks()]
    assert sum(lengths) == 5_000
    assert max(lengths) <= sort.most_held <= 100
    assert len(lengths) >= 50


def test_nothing_added_is_nothing_found() -> None:
    """A filter may leave no row."""
    with ExternalSort(ROW, ("key",)) as sort:
        assert list(sort.blocks()) == []
