"""The table of `areba watch`: 80 columns, and nothing that identifies is cut."""

import io
from dataclasses import replace

import pytest

from ops.demo.view import summary
from stream_app.monitor.figures import LiveFigures, StreamFigures
from stream_app.monitor.table import LINES_AROUND, count, figures_table
from stream_app.terminal import Terminal
from tests.support.formats.metrics import metric

WIDTH = 80


FRAUD = StreamFigures(
    "fraud", 0, (metric(), metric(learner="baseline", gmean=None)), 812.4, 2_500, 7, dead_letters_are_all=False
)


def _shown(figures: LiveFigures, lines: int | None = None, width: int = WIDTH) -> list[str]:
    out = io.StringIO()
    Terminal(file=out, width=width).print(figures_table(figures, "app", lines))
    return out.getvalue().splitlines()


def _cells(lines: list[str], name: str) -> str:
    return " ".join(next(line for line in lines if name in line).split())


def test_every_number_is_in_its_column() -> None:
    """A figure below the wrong heading is worse than none; the stream's figures appear once."""
    lines = _shown(LiveFigures((FRAUD, StreamFigures("pumps"))))
    assert _cells(lines, "stream") == "stream learner G-mean recall precis. labels/s lag s pending dead changes"
    assert _cells(lines, "fraud") == "fraud areba * 0.914 0.836 0.765 812 2.5 3 7+ 12"
    assert _cells(lines, "baseline") == "baseline - - - 12"
    assert _cells(lines, "pumps") == "pumps - - - - - - - 0 -"


def test_names_are_whole_and_lines_are_short() -> None:
    """Two streams whose names begin alike could not be distinguished if the names were cut."""
    names = ["payments-of-the-northern-region", "payments-of-the-northern-regions", "x" * 249, "\x1b[31mred"]
    learners = (metric(learner="an-uncommonly-long-name-of-a-learner"),)
    busy = replace(FRAUD, learners=learners, labelled_per_s=123_456.0, lag_ms=10**12, dead_letters=10**7)
    figures = LiveFigures(tuple(replace(busy, stream=name) for name in names))
    lines = _shown(figures)
    assert max(map(len, lines)) <= WIDTH
    (heading,) = (line for line in lines if "labels/s" in line)
    streams, others = heading.index("learner"), heading.index("G-mean") - 1
    column = "".join(line[:streams].strip() for line in lines)
    assert all(name in column for name in names[:3])
    assert "\\x1b[31mred" in column
    assert "\x1b" not in "".join(lines)
    assert "an-uncommonly-long-name-of-a-learner" in "".join(line[streams:others].replace(" ", "") for line in lines)


def test_an_empty_table_says_why() -> None:
    """Headings without a row look like a fault."""
    assert len(LiveFigures().notes()) == 1
    assert LiveFigures(problems=("no broker",)).notes() == ["no broker"]


def test_a_cut_table_says_how_many_rows_are_missing() -> None:
    """A table that ends at the last line of the terminal looks complete."""
    figures = LiveFigures(tuple(replace(FRAUD, stream=f"stream-{number}") for number in range(9)), problems=("broken",))
    lines = _shown(figures, lines=LINES_AROUND + 1 + 4)
    assert [line.split()[0] for line in lines if line.lstrip().startswith("stream-")] == ["stream-0", "stream-1"]
    assert any(line.startswith("7 of 9 streams") for line in lines)
    assert "broken" in lines
    assert len([line for line in _shown(figures) if line.lstrip().startswith("stream-")]) == 9


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.04, "0.0"),
        (2.0, "2"),
        (9.96, "10.0"),
        (99_999, "99,999"),
        (99_999.6, "100k"),
        (123_456, "123k"),
        (999_600, "1M"),
        (45_600_000, "45.6M"),
        (10**9, "1G"),
    ],
)
def test_numbers_have_six_characters(number: float | None, text: str) -> None:
    """A larger number would push the names together, or be cut to a wrong number."""
    assert count(number) == text
    assert len(text) <= 6


def test_the_summary_names_champions() -> None:
    """A log has one line for each update; the challengers would bury it."""
    assert summary(LiveFigures((FRAUD, StreamFigures("pumps")))) == "fraud 900 labelled G-mean 0.914"
