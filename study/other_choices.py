"""What the study's other choices say of its verdicts on the paper: writes `study/other_choices.md`.

    python -m study.other_choices       # seconds; it reads the committed csv files

1. All methods of a repetition have the same initial weights, and all repetitions of the paper start from one seed. So
   the paper's figures of a data set are *one* draw of all methods together: `one_draw` tests them jointly.
2. Each case that fails in the study is judged again with every other preparation, order and way of repeating that was
   run, by the rules of the study (`report/claims/intervals.py`).
"""

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from study.cli import run_without_options
from study.paper import TableFigure, table_figures
from study.report.claims.check import ALIKE, NEGLIGIBLE
from study.report.claims.intervals import CONFIDENCE, Doubles, Interval, Verdict, mean_interval, verdict
from study.report.differences import DEAD_BELOW
from study.report.tables import markdown, read_repetitions, with_table
from study.statistics import one_draw

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent / "other_choices.md"

LEAST_REPETITIONS = 10
"""Runs with fewer repetitions say too little. With ten, the joint test of six figures is weak, too."""

_ABOVE = re.compile(r"(\S+) at the end above (\S+?)(?: by more than (\S+))?")
_ALIKE = re.compile(r"(\S+) and (\S+) alike")

Finals = Mapping[str, Doubles]
"""The G-mean at the end of each repetition by learner: float64 `[R]`."""


class Case(NamedTuple):
    """A case of the study that fails: the difference of two learners at the end, and the range that is claimed."""

    claim: str
    experiment: str
    learner: str
    against: str
    low: float
    high: float
    negligible: float
    cases: int


def finals() -> Mapping[str, Finals]:
    """Return the G-mean at the end of each repetition, by run and learner."""
    return read_repetitions(RESULTS / "repetitions.csv", "gmean")


def failed_cases() -> Sequence[Case]:
    """Return the cases that fail in the study and compare two learners at the end of one experiment."""
    with (RESULTS / "cases.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["claim"]] += 1
    found = []
    for row in rows:
        if row["verdict"] != Verdict.FAILS:
            continue
        given = row["claim"], row["experiment"]
        if above := _ABOVE.fullmatch(row["case"]):
            least = float(above[3] or 0.0)
            negligible = 0.0 if above[3] else NEGLIGIBLE
            found.append(Case(*given, above[1], above[2], least, np.inf, negligible, counts[row["claim"]]))
        elif alike := _ALIKE.fullmatch(row["case"]):
            found.append(Case(*given, alike[1], alike[2], -ALIKE, ALIKE, 0.0, counts[row["claim"]]))
    return found


def runs_of(experiment: str, runs: Mapping[str, Finals]) -> Iterator[str]:
    """Yield the experiment, and the runs of the same stream or data set with another choice."""
    data_set = experiment.removeprefix("real-") if experiment.startswith("real-") else None
    for run, by in runs.items():
        is_repeated = run.removesuffix(".data").removesuffix(".both") == experiment
        is_variant = data_set is not None and run.startswith(f"variant-{data_set}-")
        if (is_repeated or is_variant) and min(map(len, by.values())) >= LEAST_REPETITIONS:
            yield run


def judged(case: Case, by: Finals) -> tuple[float, Interval, Verdict] | None:
    """Return the difference of a case in a run with its interval and verdict; None if a learner was not run."""
    if case.learner not in by or case.against not in by:
        return None
    difference = by[case.learner] - by[case.against]
    interval = mean_interval(difference, CONFIDENCE)
    wide = mean_interval(difference, 1.0 - (1.0 - CONFIDENCE) / case.cases)
    return float(difference.mean()), interval, verdict(interval, wide, case.low, case.high, case.negligible)


def _living(by: Finals, figure: TableFigure) -> Finals | None:
    """Return the repetitions in which a learner of this figure lives; None if all of them or too few do."""
    found = [by[name] for name in figure.learners if name in by]
    if not found:
        return None
    alive = np.max(found, axis=0) >= DEAD_BELOW
    if alive.all() or alive.sum() < LEAST_REPETITIONS:
        return None
    return {name: values[alive] for name, values in by.items()}


def _joint_rows(runs: Mapping[str, Finals]) -> Iterator[list[str]]:
    """Yield a row for each run of a data set: how likely the paper's figures are as one draw of this run."""
    for experiment in dict.fromkeys(figure.experiment for figure in table_figures()):
        figures = [figure for figure in table_figures() if figure.experiment == experiment]
        for run in runs_of(experiment, runs):
            for what, by in ((run, runs[run]), (f"{run}, live starts", _living(runs[run], figures[0]))):
                if by is None or not all(any(name in by for name in figure.learners) for figure in figures):
                    continue
                budgets = max(len(figure.learners) for figure in figures)
                chosen = [
                    [figure.learners[min(k, len(figure.learners) - 1)] for figure in figures] for k in range(budgets)
                ]
                tests = [one_draw(np.stack([by[n] for n in names], 1), [f.mean for f in figures]) for names in chosen]
                repetitions = str(len(next(iter(by.values()))))
                yield [
                    f"`{what}`",
                    repetitions,
                    " or ".join(f"{test.distance:.1f}" for test in tests),
                    " or ".join(f"{test.p_value:.2g}" for test in tests),
                ]


def _claim_rows(runs: Mapping[str, Finals]) -> Iterator[list[str]]:
    """Yield a row for each failed case and each choice, the study's own first."""
    for case in failed_cases():
        for run in sorted(runs_of(case.experiment, runs), key=lambda run: (run != case.experiment, run)):
            if (found := judged(case, runs[run])) is not None:
                difference, interval, said = found
                is_own = run == case.experiment
                yield [
                    case.claim if is_own else "",
                    f"{case.learner} less {case.against}" if is_own else "",
                    f"`{run}`",
                    f"{difference:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})",
                    f"**{said}**" if said is not Verdict.FAILS else said,
                ]


def tables() -> tuple[str, str]:
    """Return both tables as Markdown."""
    runs = finals()
    joint = markdown(("run", "repetitions", "D²", "p"), list(_joint_rows(runs)))
    claims = markdown(("claim", "difference of", "run", "ours", "verdict"), list(_claim_rows(runs)), left=3)
    return "\n".join(joint).strip(), "\n".join(claims).strip()


def main() -> None:
    """Replace both tables of the page."""
    text = PAGE.read_text(encoding="utf-8")
    for number, table in enumerate(tables()):
        text = with_table(text, f"table {number}", table)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_without_options(__doc__, main, "study/other_choices.md has both tables"))
