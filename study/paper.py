"""The paper's results, transcribed from its source: the figures of its table, and the statements of its text.

`paper/table1.csv` has every figure of the paper's one table of results. `paper/statements.csv` has what the text says
about the figures, each statement as a relation that a program can check. Steps count examples; levels are G-means.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "paper"

PAPER_REPETITIONS = 50


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A cell of the paper's table: mean and standard deviation of the final G-mean.

    Attributes:
        table: Label of the table in the source.
        row: Name of the row, as printed.
        column: Name of the column, as printed.
        experiment: Our experiment that measures the figure.
        learners: Our learners; two if the paper does not say which budget it used.
        mean: Mean over 50 repetitions.
        standard_deviation: Standard deviation, which the table has in brackets.
        bold: Whether the figure is the best, or not significantly worse.
    """

    table: str
    row: str
    column: str
    experiment: str
    learners: tuple[str, ...]
    mean: float
    standard_deviation: float
    bold: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper's text: a relation that must hold in every experiment and for every pair of learners.

    Attributes:
        claim: The claim in our words; statements with the same claim are parts of one claim.
        source: Label of the figure or table that it is about.
        experiments: Our experiments that can confirm it.
        relation: The relation to check; see `study.report.claims.check`.
        learners: The learners that it is about; `a|b` is the one of the two with the higher mean, where the paper does
            not say which budget it used.
        against: The learners, or experiments, that they are compared with; `*` matches several.
        step: `last`, `average` (over the stream), `after` (averaged since the drift), or the step that the paper gives.
        value: The paper's number; None if the paper states none.
    """

    claim: str
    source: str
    experiments: tuple[str, ...]
    relation: str
    learners: tuple[str, ...]
    against: tuple[str, ...]
    step: str
    value: float | None


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table_figures() -> Sequence[TableFigure]:
    """Return every figure of the paper's table, row by row."""
    return [
        TableFigure(
            table=row["table"],
            row=row["row"],
            column=row["column"],
            experiment=row["experiment"],
            learners=tuple(row["learners"].split()),
            mean=float(row["mean"]),
            standard_deviation=float(row["standard_deviation"]),
            bold=row["bold"] == "1",
        )
        for row in _rows("table1.csv")
    ]


def statements() -> Sequence[Statement]:
    """Return every statement, in the paper's order."""
    return [
        Statement(
            claim=row["claim"],
            source=row["source"],
            experiments=tuple(row["experiments"].split()),
            relation=row["relation"],
            learners=tuple(row["learners"].split()),
            against=tuple(row["against"].split()),
            step=row["step"],
            value=float(row["value"]) if row["value"] else None,
        )
        for row in _rows("statements.csv")
    ]
