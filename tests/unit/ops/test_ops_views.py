"""The table and the figure at the end of the demo, and what it reads from the logs of its workers."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.image import imread
from rich.console import Console, RenderableType

from ops import figure
from ops.demo.conclusion import comparisons, duration, final_table
from ops.workers import tasks_of
from tests.support.formats.metrics import metric


def shown(view: RenderableType) -> str:
    """Return the view as text of 80 columns."""
    out = io.StringIO()
    Console(file=out, width=80).print(view)
    return out.getvalue()


def row(text: str, name: str) -> str:
    """Return the first row with this name, with one space between cells."""
    return " ".join(next(line for line in text.splitlines() if name in line).split())


def test_the_final_table() -> None:
    """There is one row for each learner, with every number in its column, and readable metrics and delays."""
    rows = [
        metric(),
        metric(gmean=None, learner="baseline"),
        replace(metric(stream="sine"), delay_ms_p50=None),
    ]
    text = shown(final_table(rows))
    assert row(text, "fraud") == "fraud areba * 2,000 900 77 0.836 1.000 0.914 1.4 min"
    assert row(text, "baseline") == "baseline 2,000 900 77 - - - 1.4 min"
    assert row(text, "sine").endswith(" 0.914 -")


def test_challengers_are_compared_with_the_champion() -> None:
    """A reader takes the last lines for the result: a lead at the end alone, or by a hair, must not become a win."""

    def curves(ours: list[float | None], champions: list[float | None]) -> list[figure.Curve]:
        places = range(len(ours))
        return [
            figure.Curve("areba", champion=True, positions=places, gmeans=champions),
            figure.Curve("relay", champion=False, positions=places, gmeans=ours),
        ]

    (line,) = comparisons(
        [
            curves([None, 0.1, 0.9], [None, 0.9, 0.8]),  # higher at the end, lower on average
            curves([0.5, 0.805], [0.5, 0.8]),  # equal
            curves([], []),  # equal: nothing was measured
            curves([None, None], [None, 0.5]),  # lower
            [],  # no metric
        ]
    )
    assert [int(count) for count in re.findall(r"(\d+) (?:streams|higher|equal|lower)", line)] == [5, 1, 2, 1, 0, 2, 2]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "-"), (0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (90_000, "1.5 min"), (7_200_000, "2.0 h")],
)
def test_views_print_durations_in_a_fitting_unit(milliseconds: int | None, text: str) -> None:
    """Delays go from milliseconds to days, so a single unit would be unreadable."""
    assert duration(milliseconds) == text


@pytest.mark.slow(2)
def test_the_figure_is_drawn(tmp_path: Path) -> None:
    """A learner without a G-mean, a stream without a metric, and a single panel must not stop the demo."""
    empty = figure.Curve("baseline", champion=False, positions=[10, 20], gmeans=[None, None])
    full = figure.Curve("areba", champion=True, positions=[10, 20], gmeans=[None, 0.5])
    panels = [
        figure.Panel("sine", [full, empty], {"posterior": 15}, [18], "1 % positive"),
        figure.Panel("sea", [empty]),
        figure.Panel("none", []),
        figure.Panel("four", [full]),
    ]
    path = figure.draw(panels, tmp_path / "new" / "figure.png", "title", "subtitle")
    height, width = imread(path).shape[:2]
    assert (width, height) == (2_070, 1_035)
    assert imread(figure.draw(panels[:1], tmp_path / "one.png", "title")).std() > 0


def test_long_curves_are_thinned_to_their_ends() -> None:
    """A year of metrics must be drawn in the time and memory of a day, with the first and the last point."""
    curve = figure.Curve("areba", champion=True, positions=range(10_001), gmeans=[0.5] * 10_000 + [None])
    positions, gmeans = figure.thinned(curve)
    assert len(positions) <= figure.MAX_POINTS + 1
    assert (positions[0], positions[-1]) == (0, 10_000)
    assert math.isnan(gmeans[-1])


def test_tasks_are_read_from_the_log() -> None:
    """The demo kills the worker with most streams, and reports which tasks it has."""
    assigned, revoked = "12:00 INFO areba.worker assigned tasks=0,3", "12:01 INFO areba.worker revoked tasks=0,3"
    assert tasks_of([assigned]) == {0, 3}
    assert tasks_of([assigned, revoked, "12:02 INFO something else"]) == set()
    assert tasks_of(["INFO areba.worker assigned tasks=none"]) == set()
    assert tasks_of([]) == set()
