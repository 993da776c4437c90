"""What a classifier that never errs needs to recover after a drift: writes `study/faultless.md`.

    python -m study.faultless           # ten seconds

After a drift, the sums of G-mean restart, and G-mean is 0 until an example of each class has come: with 1 % positive
examples this alone takes some hundred. So the examples until a level is reached have a part that no method can avoid.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from study.cli import run_without_options
from study.report.scores import first_of_both
from study.report.tables import markdown, with_table
from study.run.experiment import Run, load_all, runs_of
from study.run.streams import data_of

RECOVERY = Path(__file__).parent / "results" / "recovery.csv"
PAGE = Path(__file__).parent / "faultless.md"
REPETITIONS = 50
KINDS = ("prior", "likelihood", "posterior")
LEARNERS = ("areba_20", "qbr_20", "areba_2")


class Measured(NamedTuple):
    """What the study measured on a stream.

    Attributes:
        level: The common level.
        steps: Labelled examples until each learner reached it, by learner; None: never.
    """

    level: float
    steps: Mapping[str, int | None]


def measured() -> Mapping[str, Measured]:
    """Return what was measured on the streams with 1 % positive examples, by experiment."""
    levels: dict[str, float] = {}
    steps: dict[str, dict[str, int | None]] = defaultdict(dict)
    with RECOVERY.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            levels[row["experiment"]] = float(row["level"])
            steps[row["experiment"]][row["learner"]] = (
                int(row["examples_to_level"]) if row["examples_to_level"] else None
            )
    names = [
        f"{concept}-1-{kind}{n}" for n in ("", "-noise") for kind in KINDS for concept in ("sine", "circle", "sea")
    ]
    return {name: Measured(levels[name], steps[name]) for name in names}


def faultless(run: Run, level: float) -> int | None:
    """Return after how many examples the mean G-mean of a classifier that never errs reaches a level; None: never."""
    waits = []
    for repetition in range(REPETITIONS):
        data = data_of(run, repetition)
        labels = data.labels if data.clean_labels is None else data.clean_labels
        drift_step = data.drift_step or 0
        waits.append(first_of_both(labels, drift_step) + 1 - drift_step)
    enough = int(np.ceil(round(level * REPETITIONS, 6)))
    return sorted(waits)[enough - 1] if enough <= REPETITIONS else None


def table() -> str:
    """Return the table as Markdown."""
    runs = {run.name: run for run in runs_of(load_all())}
    rows: list[Sequence[str]] = []
    for name, found in measured().items():
        wait = faultless(runs[name], found.level)
        own = found.steps["areba_20"]
        share = "" if own is None or wait is None else f"{100 * wait / own:.0f} %"
        cells = [f"{step:,}" if (step := found.steps[learner]) is not None else "never" for learner in LEARNERS]
        rows.append([f"`{name}`", f"{found.level:.2f}", "never" if wait is None else f"{wait:,}", *cells, share])
    heads = ("stream", "level", "never errs", *LEARNERS, "of areba_20's")
    return "\n".join(markdown(heads, rows)).strip()


def main() -> None:
    """Replace the table of the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), "table", table()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_without_options(__doc__, main, "study/faultless.md has the table"))
