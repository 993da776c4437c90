"""The measures of every repetition, as CSV: what is there is finished, so an interrupted run continues."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from study.field.scoring import Measures
from study.run.replaced_file import replacing

RESULTS = Path(__file__).parents[1] / "results" / "field.csv"

TIME = "microseconds"


class Repetition(NamedTuple):
    """What a row is about."""

    stream: str
    method: str
    seed: int


class Row(NamedTuple):
    """What is known of a repetition.

    Attributes:
        measures: The measures.
        microseconds: CPU time for each example, to predict and to learn it.
    """

    measures: Measures
    microseconds: float


Finished = dict[Repetition, Row]
"""The rows by repetition."""


def read_results(path: Path = RESULTS) -> Finished:
    """Return the rows of a file; none if there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {
            Repetition(row["stream"], row["method"], int(row["seed"])): Row(
                Measures(*(float(row[name]) for name in Measures._fields)), float(row[TIME])
            )
            for row in csv.DictReader(file)
        }


def write_results(finished: Mapping[Repetition, Row], path: Path) -> None:
    """Replace the file at once, with its rows sorted: a killed process leaves the old file or the new one."""
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Repetition._fields, *Measures._fields, TIME])
        for repetition, row in sorted(finished.items()):
            writer.writerow([*repetition, *(f"{value:.6f}" for value in row.measures), f"{row.microseconds:.2f}"])
