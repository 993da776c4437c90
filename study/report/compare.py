"""Compare results with other results, repetition by repetition: does a fresh clone find what is committed?"""

import csv
from collections.abc import Mapping
from pathlib import Path

MAX_LINES = 20
"""Differences that are printed; further differences are only counted."""

FILES: Mapping[str, tuple[int, int | None]] = {
    "repetitions.csv": (5, None),
    "relay.csv": (3, None),
    "field.csv": (3, -1),
}
"""Files with a row for each repetition: how many columns name it, and where its figures end (before a time)."""

Key = tuple[str, ...]


def _rows(path: Path, names: int, end: int | None) -> dict[Key, Key]:
    """Return the figures by the columns that name a repetition, as text."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {(path.name, *row[:names]): tuple(row[names:end]) for row in rows}


def compare_repetitions(new: Path, old: Path) -> tuple[list[str], bool]:
    """Return a line for each difference, and whether all repetitions of the new results equal the old ones.

    Args:
        new: A folder of results.
        old: The folder of the expected results; a repetition that is not there is a difference.
    """
    found: dict[Key, Key] = {}
    expected: dict[Key, Key] = {}
    for name, shape in FILES.items():
        if (new / name).exists():
            found |= _rows(new / name, *shape)
            expected |= _rows(old / name, *shape) if (old / name).exists() else {}
    different = [key for key in found if found[key] != expected.get(key)]
    lines = [
        f"{' '.join(part for part in key if part)}: {', '.join(found[key])}; committed:"
        f" {', '.join(expected[key]) if key in expected else 'nothing'}"
        for key in different[:MAX_LINES]
    ]
    if len(different) > MAX_LINES:
        lines.append(f"and {len(different) - MAX_LINES} more")
    experiments = len({key[:2] for key in found})
    lines.append(
        f"{len(found) - len(different)} of {len(found)} repetitions of a method, in {experiments} experiments, equal"
        " the committed ones"
    )
    return lines, bool(found) and not different
