"""The figures of every repetition, as CSV: what is there is finished, so an interrupted run continues."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from study.run.replaced_file import replacing
from study.selective.scoring import Figures

RESULTS = Path(__file__).parents[1] / "results" / "selective.csv"


class Repetition(NamedTuple):
    """What a row is about."""

    stream: str
    policy: str
    method: str
    seed: int


Finished = dict[Repetition, Figures]
"""The figures by repetition."""


def read_results(path: Path = RESULTS) -> Finished:
    """Return the figures of a file; none if there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {
            Repetition(row["stream"], row["policy"], row["method"], int(row["seed"])): Figures(
                *(float(row[name]) for name in Figures._fields)
            )
            for row in csv.DictReader(file)
        }


def write_results(finished: Mapping[Repetition, Figures], path: Path) -> None:
    """Replace the file at once, with its rows sorted: a killed process leaves the old file or the new one."""
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Repetition._fields, *Figures._fields])
        for repetition, figures in sorted(finished.items()):
            writer.writerow([*repetition, *(f"{figure:.6f}" for figure in figures)])
