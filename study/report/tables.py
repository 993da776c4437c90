"""The CSV files of the results, and Markdown tables."""

import csv
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ArebaError
from study.report.scores import METRICS
from study.report.summary import RunSummary, mean_and_error
from study.run.experiment import Run
from study.run.ranking import RANKINGS

FINAL_COLUMNS = (
    "experiment",
    "stream",
    "imbalance",
    "drift",
    "noise",
    "learner",
    "budget",
    "step",
    "metric",
    "mean",
    "standard_deviation",
    "repetitions",
)
"""`imbalance` is in percent (a data set's own share of class 1), `noise` a share, as in a replayer's stream options."""

REPETITION_COLUMNS = ("experiment", "learner", "budget", "repetition", "step", *METRICS, "average_gmean", *RANKINGS)
"""The figures of scores, `RANKINGS`, are empty for synthetic streams."""

DECIMALS = 6

BUDGETED = ("areba", "qbr")
"""Methods that have a budget."""


class OfStream(Protocol):
    """What a row of a benchmark is about."""

    @property
    def stream(self) -> str:
        """The name of the stream."""


Key = TypeVar("Key", bound=OfStream)
Row = TypeVar("Row")


def learner_and_budget(run: Run, name: str) -> tuple[str, str]:
    """Return `areba` and `20` for `areba_20`; a learner without a budget, or with another name, keeps its name."""
    settings = run.experiment.methods[name]
    if settings.method not in BUDGETED:
        return name, ""
    plain = name == f"{settings.method}_{settings.budget}"
    return (settings.method if plain else name), str(settings.budget)


def imbalance_of(summary: RunSummary) -> str:
    """Return the imbalance in percent: the requested one of a synthetic stream, the actual one of a data set."""
    choice = summary.run.experiment.stream
    percent = (choice.imbalance or 1.0) if choice.is_synthetic else summary.positive_percent
    return f"{percent:.4g}"


def write_final(summaries: Sequence[RunSummary], path: Path) -> None:
    """Write means and standard deviations at the published steps."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FINAL_COLUMNS)
        for summary in summaries:
            writer.writerows(_final_rows(summary))


def _final_rows(summary: RunSummary) -> Iterable[Sequence[object]]:
    run, choice = summary.run, summary.run.experiment.stream
    head = (run.name, choice.source, imbalance_of(summary), str(choice.drift), f"{choice.noise:g}")
    for name, learner in summary.learners.items():
        for step in summary.steps:
            for row, metric in enumerate(METRICS):
                mean, deviation, _ = mean_and_error(learner.figures[step][row])
                numbers = (f"{mean:.{DECIMALS}f}", f"{deviation:.{DECIMALS}f}", summary.repetitions)
                yield (*head, *learner_and_budget(run, name), step, metric, *numbers)


def tables_beside(
    path: Path, own: Mapping[Key, Row], groups: Iterable[Container[str]], table: Callable[[Mapping[Key, Row]], str]
) -> str:
    """Return a table of a reader's own file for each group of streams that occurs in it.

    Args:
        path: The file.
        own: Its repetitions.
        groups: Names of the streams of each group.
        table: Makes the table of the repetitions of a group.

    Raises:
        ArebaError: The file has no repetition.
    """
    if not own:
        raise ArebaError(f"{path}: there are no figures; run your method first")
    parts = [{one: row for one, row in own.items() if one.stream in group} for group in groups]
    return "\n\n".join(table(part) for part in parts if part)


def write_repetitions(summaries: Sequence[RunSummary], path: Path) -> None:
    """Write every repetition's figures after the last step, from which the statistics are computed."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(REPETITION_COLUMNS)
        for summary in summaries:
            for name, learner in summary.learners.items():
                head = (summary.run.name, *learner_and_budget(summary.run, name))
                for number in range(summary.repetitions):
                    figures = [f"{value:.{DECIMALS}f}" for value in learner.figures[summary.last][:, number]]
                    average = f"{learner.averages[number]:.{DECIMALS}f}"
                    ranked = [""] * len(RANKINGS)
                    if learner.rankings is not None:
                        ranked = [f"{value:.{DECIMALS}f}" for value in learner.rankings[number]]
                    writer.writerow((*head, summary.numbers[number], summary.last, *figures, average, *ranked))


def read_repetitions(path: Path, column: str) -> Mapping[str, Mapping[str, NDArray[np.float64]]]:
    """Return one figure of each repetition after the last step, float64 `[R]`, by run and learner.

    Args:
        path: What `write_repetitions` has written.
        column: One of its columns.
    """
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            learner = f"{row['learner']}_{row['budget']}" if row["budget"] else row["learner"]
            found[row["experiment"]][learner][int(row["repetition"])] = float(row[column])
    return {
        run: {name: np.array([own[one] for one in sorted(own)]) for name, own in by.items()}
        for run, by in found.items()
    }


def write_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], path: Path) -> None:
    """Write any other table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Return a Markdown table; all columns but the first `left` are right-aligned."""
    marks = ["---" if number < left else "---:" for number in range(len(headings))]
    lines = [headings, marks, *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]


def with_table(page: str, name: str, table: str) -> str:
    """Return the text of a page with another table between the comment `<!-- NAME -->` and the next `<!-- end -->`.

    Raises:
        ValueError: The page has no such comments, with a line between them.
    """
    begin, end = f"<!-- {name} -->\n", "\n<!-- end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page needs the comment {begin.strip()}, a line, and {end.strip()}")
    return before + begin + table + end + after
