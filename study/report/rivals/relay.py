"""The page on RELAY against AREBA_20, from the figures that `study.relay` and `study.relay.unseen` wrote."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from study.relay.unseen_streams import kinds
from study.relay.verdicts import (
    BETTER,
    NOT_SIGNIFICANT,
    WORSE,
    Score,
    Verdict,
    learners_of,
    read_results,
    table,
    verdicts,
)
from study.report.figures import NamedDotPanel, Panel, draw
from study.report.summary import mean_and_error
from study.report.tables import markdown

RUNS_FILE = "relay.csv"

FIRST_FILE = "relay_first.csv"
"""The registered repetitions, of RELAY before it had feature gates."""

UNSEEN_FILE = "relay_unseen.csv"

FAMILIES: Sequence[tuple[str, Sequence[str]]] = (
    ("The six kinds of claim 6", ("made", "river")),
    ("The survey's generators", ("yardstick",)),
    ("Data sets of KEEL, in shuffled order", ("keel",)),
    ("Real data sets of the study, in shuffled order", ("real",)),
)
"""Groups of the validation kinds; RELAY is compared with AREBA_20 in each, with a correction of its own."""

MECHANISMS = (
    ("relay_without_gates", "RELAY without gates", "What the feature gates are worth"),
    ("relay_without_challenger", "RELAY without a challenger", "What the challenger is worth"),
)
"""RELAY without a mechanism. The correction is over all kinds but the study's real data sets, which decide nothing."""

NOISY = [f"{concept}-1-{drift}-noise" for concept in ("sine", "circle", "sea") for drift in
         ("prior", "likelihood", "posterior")]  # fmt: skip

COLUMNS = 2
"""Columns of the figure, each with a part of the runs."""

Results = Mapping[str, Score]


_VALIDATION = (
    "RELAY was not developed on these kinds of streams, but its feature gates were kept by their figures: they validate"
    " a choice, and are no test of RELAY."
)


def write_relay(results: Path, measured: Path) -> bool:
    """Write `relay.md` and `relay.png`; return False if there are no figures.

    Args:
        results: The folder of the page.
        measured: The folder with the figures.
    """
    if not (measured / RUNS_FILE).exists():
        return False
    scores, first = (read_results(measured / file) for file in (RUNS_FILE, FIRST_FILE))
    unseen, learners = read_results(measured / UNSEEN_FILE), learners_of(measured / UNSEEN_FILE)
    _draw(scores, results / "relay.png")
    lines = _page(scores, first, unseen) + _unseen(unseen, learners)
    (results / "relay.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return True


def _unseen(unseen: Results, learners: Sequence[str]) -> list[str]:
    """Return the part on the validation kinds."""
    known, relay = kinds(), learners.index("relay")
    lines = ["## Validation kinds", "", _VALIDATION, ""]
    for title, groups in FAMILIES:
        own = {name: score for name, score in unseen.items() if known[name].group in groups}
        lines += [f"### {title}", "", *table(pair(own, learners.index("areba_20"), relay)).splitlines(), ""]
    decisive = {name: score for name, score in unseen.items() if known[name].group != "real"}
    for name, title, heading in MECHANISMS:
        lines += [f"## {heading}", "", *table(pair(decisive, learners.index(name), relay), title).splitlines(), ""]
    return lines


def pair(scores: Results, first: int, second: int) -> dict[str, Score]:
    """Return the figures of two learners, by their places."""
    both = [first, second]
    return {name: Score(score.final[:, both], score.average[:, both]) for name, score in scores.items()}


def claims(runs: Results, unseen: Results) -> list[tuple[str, str, bool]]:
    """Return each registered claim of `study/relay.md`, what was found, and whether it holds."""
    ends, averages = (verdicts_of(runs, field) for field in Score._fields)
    better = [sum(one.result == BETTER for one in found.values()) for found in (ends, averages)]
    worse = sum(WORSE in (ends[name].result, averages[name].result) for name in runs)
    noisy = sum(ends[name].result == averages[name].result == BETTER for name in NOISY)
    others = [higher(verdicts_of(unseen, field)) for field in Score._fields]
    return [
        ("1: better on average on at least 40 of 55 runs", f"{better[1]}", better[1] >= 40),
        ("2: better at the end on at least 30 runs", f"{better[0]}", better[0] >= 30),
        ("3: mean at the end higher on at least 40 runs", f"{higher(ends)}", higher(ends) >= 40),
        ("4: worse on at most 2 runs, in either figure", f"{worse}", worse <= 2),
        ("5: better on the nine noisy runs, in both figures", f"{noisy}", noisy == len(NOISY)),
        (
            "6: mean higher on at least four of six unseen kinds",
            f"{others[0]} at the end, {others[1]} on average",
            min(others) >= 4,
        ),
    ]


def verdicts_of(runs: Results, field: str) -> dict[str, Verdict]:
    """Return the verdicts on the `final` or the `average` figures, by run."""
    return dict(zip(runs, verdicts([getattr(score, field) for score in runs.values()]), strict=True))


def higher(found: Mapping[str, Verdict]) -> int:
    """Count the runs on which RELAY's mean is higher."""
    return sum(one.means[1] > one.means[0] for one in found.values())


def _page(scores: Results, first: Results, unseen: Results) -> list[str]:
    columns = {"first result, without gates": first, "second result": scores}
    six = {name: score for name, score in unseen.items() if kinds()[name].group in FAMILIES[0][1]}
    found = [claims(own, pair(six, 0, 1)) for own in columns.values()]
    rows = [
        [own[0][0], *(f"{'holds' if holds else '**fails**'}: {count}" for _, count, holds in own)]
        for own in zip(*found, strict=True)
    ]
    lines = table(scores).splitlines()
    ends, averages = (verdicts_of(scores, field) for field in Score._fields)
    return [
        "# RELAY, a method of this project",
        "",
        "[The report](report.md). [Settings, claims, and where RELAY loses and why](../relay.md).",
        "",
        *lines[-2:],
        "",
        "![Average G-mean of AREBA_20 and RELAY](relay.png)",
        "",
        (
            "A run is *better* or *worse* by a paired t-test over its repetitions with Holm's correction over all runs"
            " at 5 %, and *not significant* otherwise; the G-mean at the end, and its average over all steps, are"
            " separate families of tests. In the figure, the dots are hollow where the difference is not significant."
        ),
        "",
        f"AREBA_20's mean is higher at the end on {_lower(ends)}; on average on {_lower(averages)}.",
        "",
        "## Claims that were registered first",
        "",
        *markdown(("claim", *columns), rows, left=3),
        "## All runs",
        "",
        "In brackets: repetitions; `.both` is shuffled order.",
        "",
        *lines[:-2],
    ]


def _lower(found: Mapping[str, Verdict]) -> str:
    """Return the runs on which RELAY's mean is lower, with both means."""
    lower = {name: one.means for name, one in found.items() if one.means[1] < one.means[0]}
    return ", ".join(f"{name} ({means[0]:.3f}, RELAY {means[1]:.3f})" for name, means in lower.items()) or "no run"


def _draw(scores: Results, path: Path) -> None:
    """Draw the average figures of both learners, the run with the largest advantage of RELAY first."""
    averages = verdicts_of(scores, "average")
    order = sorted(averages, key=lambda name: float(averages[name].means[0] - averages[name].means[1]))
    rows = {name: [("areba_20", averages[name].means[0]), ("relay", averages[name].means[1])] for name in order}
    hollow = frozenset(name for name in order if averages[name].result == NOT_SIGNIFICANT)
    errors = {name: _errors(scores[name].average) for name in order}
    size = -(-len(order) // COLUMNS)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    panels: list[Panel] = [
        NamedDotPanel("", {name: rows[name] for name in part}, "average G-mean", hollow, True, (0.0, 1.15), errors)
        for part in parts
    ]
    draw(
        [panels],
        path,
        "AREBA_20 and RELAY, average G-mean",
        "bars: standard error over the repetitions; hollow: the difference is not significant",
    )


def _errors(values: NDArray[np.float64]) -> Mapping[str, float]:
    """Return the standard error of each learner's mean."""
    return {name: mean_and_error(own)[2] for name, own in zip(("areba_20", "relay"), values.T, strict=True)}
