"""What the paper says, transcribed from its source: the figures of its table, and the statements of its text.

`paper/table1.csv` has every figure of the paper's one table of results; `paper/statements.csv` what its text says of
the figures, each as a relation that a program can check. Steps count examples; levels are G-means.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "paper"

PAPER_REPETITIONS = 50


@dataclass(frozen=True, slots=True)
class TableFigure:
    """One cell of the paper's table: mean and standard deviation of the final G-mean.

    Attributes:
        table: Its label in the source.
        row: As printed.
        column: As printed.
        experiment: Ours that measures it.
        learners: Ours; two where the paper does not say which budget it used.
        mean: Over 50 repetitions.
        standard_deviation: In brackets there.
        bold: The best, or not told from it.
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
    """One thing that the paper's text says.

    Attributes:
        source: Label of the figure or table.
        text: What it says, in our words.
        experiment: Ours that can tell.
        relation: What is checked: see `study.claims`.
        learner: Of whom it is said.
        against: With whom it is compared: a learner, or learners with `*`.
        step: `last`, or the step that the paper gives.
        value: The paper's number; None where there is none.
    """

    source: str
    text: str
    experiment: str
    relation: str
    learner: str
    against: str
    step: str
    value: float | None


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table_figures() -> Sequence[TableFigure]:
    """Every figure of the paper's table, row by row."""
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
    """Every statement, in the paper's order."""
    return [
        Statement(
            source=row["source"],
            text=row["statement"],
            experiment=row["experiment"],
            relation=row["relation"],
            learner=row["learner"],
            against=row["against"],
            step=row["step"],
            value=float(row["value"]) if row["value"] else None,
        )
        for row in _rows("statements.csv")
    ]
