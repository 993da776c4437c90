"""The page on RELAY against AREBA_20, from the figures that `study.relay` and `study.relay_unseen` wrote."""

from collections.abc import Mapping
from pathlib import Path

from study.relay import RUNS, Score, Verdict, learners_of, read_results, table, verdicts
from study.report.figures import NamedDotPanel, Panel, draw
from study.report.tables import markdown

RUNS_FILE = "relay.csv"

OTHERS = {
    "relay_unseen.csv": "Kinds of streams that nobody tuned on",
}
"""Titles of the files with further runs; in each, RELAY is compared with every other learner of the file."""

NAMES = {"areba_20": "AREBA_20", "relay": "RELAY", "relay_alone": "RELAY without a challenger"}

NOISY = [f"{concept}-1-{drift}-noise" for concept in ("sine", "circle", "sea") for drift in
         ("prior", "likelihood", "posterior")]  # fmt: skip

COLUMNS = 2
"""Columns of the figure, each with a part of the runs."""

Results = Mapping[str, Score]


def write_relay(results: Path, measured: Path) -> bool:
    """Write `relay.md` and `relay.png`; return False if there are no figures.

    Args:
        results: The folder of the page.
        measured: The folder with the figures.
    """
    if not (measured / RUNS_FILE).exists():
        return False
    scores = read_results(measured / RUNS_FILE)
    _draw(scores, results / "relay.png")
    lines = _page(scores, read_results(measured / "relay_unseen.csv"))
    for file, title in OTHERS.items():
        further, learners = read_results(measured / file), learners_of(measured / file)
        lines += [f"## {title}", ""]
        for place, name in enumerate(learners):
            if name != "relay":
                lines += [*table(pair(further, place, learners.index("relay")), NAMES.get(name, name)).splitlines(), ""]
    (results / "relay.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return True


def pair(scores: Results, first: int, second: int) -> dict[str, Score]:
    """Return the figures of two learners, by their places."""
    both = [first, second]
    return {name: Score(score.final[:, both], score.average[:, both]) for name, score in scores.items()}


def registered(scores: Results) -> dict[str, Score]:
    """Return the figures of the repetitions that were registered first, of all runs."""
    return {name: Score(scores[name].final[:count], scores[name].average[:count]) for name, count in RUNS}


def claims(runs: Results, unseen: Results) -> list[tuple[str, str, bool]]:
    """Return each registered claim of `study/relay.md`, what was found, and whether it holds."""
    ends, averages = (verdicts_of(runs, field) for field in Score._fields)
    better = [sum(one.result == "better" for one in found.values()) for found in (ends, averages)]
    worse = sum("worse" in (ends[name].result, averages[name].result) for name in runs)
    noisy = sum(ends[name].result == averages[name].result == "better" for name in NOISY)
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


def _page(scores: Results, further: Results) -> list[str]:
    columns: dict[str, Results] = {"registered repetitions": registered(scores)}
    if any(len(scores[name].final) > count for name, count in RUNS):
        columns["all repetitions"] = scores
    found = [claims(own, pair(further, 0, 1)) for own in columns.values()]
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
            " at 5 %, and *not told apart* otherwise; the G-mean at the end, and its average over all steps, are"
            " separate families of tests. In the figure, the dots of runs that are not told apart are hollow."
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
    hollow = frozenset(name for name in order if averages[name].result == "not told apart")
    size = -(-len(order) // COLUMNS)
    panels: list[Panel] = [
        NamedDotPanel(
            "", {name: rows[name] for name in order[start : start + size]}, "average G-mean", hollow, True, (0.0, 1.15)
        )
        for start in range(0, len(order), size)
    ]
    draw([panels], path, "AREBA_20 and RELAY, average G-mean", "hollow: not told apart")
