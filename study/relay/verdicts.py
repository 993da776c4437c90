"""The figures of repetitions as CSV, and what tests say of the difference of two learners.

A run is won, tied or lost by a paired t-test over its repetitions with Holm's correction over all runs; the G-mean at
the end and the average G-mean over all steps are separate families of tests.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "results"
"""The folder of the committed figures."""

LEARNERS = ("areba_20", "relay")

BETTER, WORSE, NOT_SIGNIFICANT = "better", "worse", "not significant"
"""What a test of a difference says."""


class Score(NamedTuple):
    """The figures of one repetition: G-mean at the end, and its mean over all steps, by learner."""

    final: NDArray[np.float64]
    average: NDArray[np.float64]


class Verdict(NamedTuple):
    """One figure of one run: the means of both learners, the p-value after Holm's correction, and what follows."""

    means: NDArray[np.float64]
    p_value: float
    result: str


def verdicts(figures: Sequence[NDArray[np.float64]], alpha: float = 0.05) -> list[Verdict]:
    """Compare both learners in each run, with Holm's correction over the runs.

    Args:
        figures: Of each run, float64 `[repetitions, 2]`: AREBA_20, RELAY.
        alpha: The level of the family of tests.
    """
    from study.statistics import paired_difference  # noqa: PLC0415  (SciPy is an optional extra)

    raw = [paired_difference(own[:, 1], own[:, 0]) for own in figures]
    corrected, largest = [1.0] * len(raw), 0.0
    for rank, place in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
        largest = max(largest, min(1.0, (len(raw) - rank) * raw[place]))
        corrected[place] = largest
    found = []
    for own, p_value in zip(figures, corrected, strict=True):
        means = own.mean(axis=0)
        better = BETTER if means[1] > means[0] else WORSE
        found.append(Verdict(means, p_value, better if p_value < alpha else NOT_SIGNIFICANT))
    return found


def better_and_worse(found: Sequence[Verdict]) -> tuple[int, int]:
    """Return in how many runs the second learner is better, and in how many worse."""
    results = [one.result for one in found]
    return results.count(BETTER), results.count(WORSE)


def write_results(
    scores: Mapping[str, Score], path: Path, learners: Sequence[str] = LEARNERS, *, first: int = 0
) -> None:
    """Write the figures of each repetition as CSV; `first` is the number of the first one."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "repetition", "learner", "final_gmean", "average_gmean"])
        for name, score in scores.items():
            for number in range(len(score.final)):
                for place, learner in enumerate(learners):
                    figures = (score.final[number, place], score.average[number, place])
                    writer.writerow([name, first + number, learner, *(f"{figure:.6f}" for figure in figures)])


def read_results(path: Path) -> dict[str, Score]:
    """Return the figures of a file that `write_results` wrote."""
    tables: dict[str, dict[int, list[tuple[float, float]]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows = tables.setdefault(row["run"], {}).setdefault(int(row["repetition"]), [])
            rows.append((float(row["final_gmean"]), float(row["average_gmean"])))
    arrays = {name: np.array(list(rows.values())) for name, rows in tables.items()}
    return {name: Score(array[:, :, 0], array[:, :, 1]) for name, array in arrays.items()}


def learners_of(path: Path) -> list[str]:
    """Return the learners of a file that `write_results` wrote, in the order of its figures."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(dict.fromkeys(row["learner"] for row in csv.DictReader(file)))


def table(scores: Mapping[str, Score], other: str = "AREBA_20") -> str:
    """Return a Markdown table of all runs, and a line of counts for each figure; `other` is the first learner."""
    lines = [
        f"| run (repetitions) | {other}: end, average | RELAY: end, average | end | average |",
        "| --- | --- | --- | --- | --- |",
    ]
    ends = verdicts([score.final for score in scores.values()])
    averages = verdicts([score.average for score in scores.values()])
    for (name, score), end, average in zip(scores.items(), ends, averages, strict=True):
        pairs = [f"{end.means[k]:.3f}, {average.means[k]:.3f}" for k in range(2)]
        results = [f"{one.result} ({p_text(one.p_value)})" for one in (end, average)]
        lines.append(f"| {name} ({len(score.final)}) | {pairs[0]} | {pairs[1]} | {results[0]} | {results[1]} |")
    lines.append("")
    for title, found in (("At the end", ends), ("On average", averages)):
        better, worse = better_and_worse(found)
        higher = sum(one.means[1] > one.means[0] for one in found)
        lines.append(
            f"{title}, RELAY is better than {other} on {better} of {len(found)} runs and worse on {worse}; the other "
            f"differences are not significant. Its mean is higher on {higher}."
        )
    return "\n".join(lines) + "\n"


def p_text(value: float) -> str:
    """Return a p-value as text."""
    if value < 0.001:
        return "p < .001"
    digits = 4 if f"{value:.3f}" == "0.050" else 3  # on which side of the limit it is must be visible
    return f"p = {value:.{digits}f}"
