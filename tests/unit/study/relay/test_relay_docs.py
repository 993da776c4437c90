"""The tutorial recommends RELAY only where the committed results of its evaluation carry it."""

import re
from fnmatch import fnmatch

import pytest

from study.relay.runs import RESULTS
from study.relay.verdicts import read_results, verdicts
from tests.support.documents import ROOT

GROUPS = {
    "10 % of the labels are wrong, 1 % positive": ("*-noise",),
    "10 or 1 % positive, no drift": ("*-10-stationary", "*-1-stationary"),
    "10 or 1 % positive, sudden drifts": (
        *(f"{concept}-1-{drift}" for concept in ("sine", "circle", "sea") for drift in ("p*r", "likelihood")),
        "sea-1-*-long",
        "budget-*",
    ),
    "labels come 1,000 or 10,000 examples late": ("latency-1000", "latency-10000"),
    "half or a tenth of the labels come": ("share-50", "share-10"),
    "0.1 % positive, no drift": ("*-0.1-stationary",),
    "a hundredth of the labels come": ("share-1",),
    "Fraud, its first 50,000 or all examples": ("*-fraud",),
}
"""The rows of the table, with the runs that each is about."""


def span(figures: list[float]) -> str:
    """Return the least and the largest of the figures, or the only one."""
    texts = [f"{figure:.2f}" for figure in (min(figures), max(figures))]
    return " to ".join(dict.fromkeys(texts))


def test_the_table_of_the_tutorial_is_that_of_the_results() -> None:
    """A user who follows a recommendation that no result carries gets worse predictions than by the default."""
    pytest.importorskip("scipy")
    scores = read_results(RESULTS)
    ends = dict(zip(scores, verdicts([score.final for score in scores.values()]), strict=True))
    expected = []
    for title, patterns in GROUPS.items():
        found = [end for name, end in ends.items() if any(fnmatch(name, pattern) for pattern in patterns)]
        higher = sum(end.result == "better" for end in found)
        areba, relay = (span([float(end.means[place]) for end in found]) for place in range(2))
        expected.append((title, areba, relay, f"{higher} of {len(found)} runs"))
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| ([\d. to]+?) \| ([\d. to]+?) \| (\d+ of \d+ runs) \|$", page, re.MULTILINE)
    assert rows == expected
