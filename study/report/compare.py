"""Compare results with other results, repetition by repetition: does a fresh clone find what is committed?"""

import csv
from pathlib import Path

MAX_LINES = 20
"""Differences that are printed; further differences are only counted."""

Key = tuple[str, ...]


def _rows(folder: Path) -> dict[Key, Key]:
    """Return figures by experiment, learner, budget, repetition and step, as text."""
    with (folder / "repetitions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {tuple(row[:5]): tuple(row[5:]) for row in rows}


def compare_repetitions(new: Path, old: Path) -> tuple[list[str], bool]:
    """Return a line for each difference, and whether both are equal.

    Args:
        new: A folder of results.
        old: The folder of the expected results; only repetitions that are in both folders are compared.
    """
    found, expected = _rows(new), _rows(old)
    common = [key for key in found if key in expected]
    different = [key for key in common if found[key] != expected[key]]
    lines = [
        f"{experiment}, {learner}{f' B={budget}' if budget else ''}, repetition {repetition}:"
        f" {', '.join(found[experiment, learner, budget, repetition, step])}, committed"
        f" {', '.join(expected[experiment, learner, budget, repetition, step])}"
        for experiment, learner, budget, repetition, step in different[:MAX_LINES]
    ]
    if len(different) > MAX_LINES:
        lines.append(f"and {len(different) - MAX_LINES} more")
    lines.append(f"{len(common) - len(different)} of {len(common)} figures of repetitions equal the committed ones")
    return lines, bool(common) and not different
