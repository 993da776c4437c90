"""What lanes cost: the figures of models.md are those of models that share nothing."""

import numpy as np

from stream_app.lanes import lane_number
from study.lanes import LANES, LEARNERS, LENGTH, SEEDS, cost, predicted, stream
from tests.support.documents import ROOT


def test_each_lane_learns_its_own_examples() -> None:
    """If a lane saw the labels of another, lanes would seem to cost nothing."""
    settings, data = LEARNERS[0], stream(600, 1)
    found = predicted(settings, data, 2, 1)
    assert set(found.tolist()) == {0, 1}
    others = np.array([lane_number(f"e-{row}", 2) for row in range(len(data))]) == 1
    data.labels[others] = 1 - data.labels[others]
    changed = predicted(settings, data, 2, 1)
    assert np.array_equal(found[~others], changed[~others])
    assert not np.array_equal(found[others], changed[others])


def test_lanes_cost_most_at_the_start() -> None:
    """The page says so, and gives a row for each learner and number of lanes."""
    one, eight = (cost(LEARNERS[0], lanes, 1, 20_000) for lanes in (1, 8))
    assert one.mean > eight.mean
    assert one.first - eight.first > one.end - eight.end
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(("| AREBA_20 |", "| RELAY |"))]
    assert [row.split(" | ")[1] for row in rows] == [str(lanes) for _ in LEARNERS for lanes in LANES]
    assert f"{LENGTH:,} examples" in page
    assert len(SEEDS) == 3
