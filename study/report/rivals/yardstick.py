"""The page on the survey's generators: our methods, River's best and MOA's on the same examples."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from study.report.figures import LevelPanel, Panel, draw
from study.report.summary import RunSummary, mean_and_error
from study.report.tables import markdown

PARTS = {
    "static": "Stationary",
    "sudden": "Five concepts, changing at once",
    "gradual": "Five concepts, changing slowly",
    "hard": "Positives that are hard to learn",
}
"""Titles, by the beginning of a stream's name."""

MOA_FILE = "yardstick-moa.csv"

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """A stream.

    Attributes:
        part: One of `PARTS`.
        stream: Its name in the part.
        averages: By method, float64 `[R]`, the G-mean averaged over the stream in each repetition.
    """

    part: str
    stream: str
    averages: Mapping[str, Doubles]

    def best_of(self, methods: Iterable[str]) -> str:
        """Return which of these methods has the highest mean."""
        return max(methods, key=lambda name: float(self.averages[name].mean()))


def write_yardstick(summaries: Mapping[str, RunSummary], results: Path, measured: Path) -> bool:
    """Write `yardstick.md`, `.csv` and `.png`; return False if nothing was run.

    Args:
        summaries: All runs, by name.
        results: The folder of the page.
        measured: The folder with the figures of MOA's methods.
    """
    rows = rows_of(summaries, measured / MOA_FILE)
    if not rows:
        return False
    with (results / "yardstick.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("part", "stream", "method", "repetitions", "average", "average_sd"))
        for row in rows:
            for method, averages in row.averages.items():
                mean, deviation, _ = mean_and_error(averages)
                writer.writerow((row.part, row.stream, method, len(averages), f"{mean:.4f}", f"{deviation:.4f}"))
    panels: list[Panel] = [_panel(part, rows) for part in PARTS if any(row.part == part for row in rows)]
    draw(
        [panels[:2], panels[2:]] if len(panels) > 2 else [panels],
        results / "yardstick.png",
        "The survey's generators, 1 % positive",
        "bars: standard error over the repetitions",
    )
    (results / "yardstick.md").write_text("\n".join(_page(rows)).rstrip() + "\n", encoding="utf-8")
    return True


def rows_of(summaries: Mapping[str, RunSummary], moa: Path) -> list[Row]:
    """Return a row for each stream, with MOA's methods if their file is there."""
    theirs: dict[str, dict[str, list[float]]] = {}
    if moa.exists():
        with moa.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                theirs.setdefault(line["run"], {}).setdefault(line["method"], []).append(float(line["average"]))
    rows = []
    for name, summary in summaries.items():
        if summary.run.experiment.group == "yardstick":
            part, _, stream = name.removeprefix("yardstick-").partition("-")
            own = {learner: one.averages for learner, one in summary.learners.items()}
            other = {method: np.array(values) for method, values in sorted(theirs.get(name, {}).items())}
            rows.append(Row(part, stream, {**own, **other}))
    return rows


def _panel(part: str, rows: Sequence[Row]) -> LevelPanel:
    own = [row for row in rows if row.part == part]
    methods = list(dict.fromkeys(method for row in own for method in row.averages))
    figures = {
        method: [mean_and_error(row.averages[method]) if method in row.averages else (np.nan, 0.0, 0.0) for row in own]
        for method in methods
    }
    return LevelPanel(
        PARTS[part],
        # every second name is a line lower, so that neighbours do not overlap
        ["\n" * (place % 2) + row.stream for place, row in enumerate(own)],
        {method: [mean for mean, _, _ in column] for method, column in figures.items()},
        {method: [error for _, _, error in column] for method, column in figures.items()},
        "",
        "average G-mean",
        connected=False,
    )


def ranks(rows: Sequence[Row], methods: Sequence[str]) -> tuple[int, dict[str, float]]:
    """Return the number of streams on which all these methods were run, and each one's mean rank there; 1 is best."""
    complete = [row for row in rows if set(methods) <= row.averages.keys()]
    if not complete:
        return 0, {}
    means = np.array([[float(row.averages[method].mean()) for method in methods] for row in complete])
    above = (means[:, None, :] > means[:, :, None]).sum(axis=2)
    ties = (means[:, None, :] == means[:, :, None]).sum(axis=2)
    values = (above + (ties + 1) / 2).mean(axis=0)
    return len(complete), dict(zip(methods, values.tolist(), strict=True))


def _ranks(rows: Sequence[Row], methods: Sequence[str]) -> str:
    count, found = ranks(rows, methods)
    order = sorted(found.items(), key=lambda item: item[1])
    return f"- Mean rank over {count} streams: {', '.join(f'{method} {rank:.2f}' for method, rank in order)}."


def _page(rows: Sequence[Row]) -> list[str]:
    methods = list(dict.fromkeys(method for row in rows for method in row.averages))
    counts = {method: [len(row.averages[method]) for row in rows if method in row.averages] for method in methods}
    repetitions = "; ".join(
        f"{method} {'/'.join(map(str, sorted(set(sizes))))} on {len(sizes)} streams" for method, sizes in counts.items()
    )
    table = [
        [
            PARTS[row.part],
            row.stream,
            *(_text(row, method) for method in methods),
        ]
        for row in rows
    ]
    everywhere = [method for method in methods if all(method in row.averages for row in rows)]
    wins = {method: sum(row.best_of(everywhere) == method for row in rows) for method in everywhere}
    return [
        "# The survey's generators",
        "",
        "[The report](report.md)",
        "",
        (
            "The binary generators of Aguiar, Krawczyk and Cano (*A survey on learning from imbalanced data streams*,"
            " Machine Learning 2023; repository canoalberto/imbalanced-streams) at an imbalance ratio of 100, that is"
            " 1 % positive, as [study/generators](../generators/__init__.py) makes them. Streams have 20,000 examples"
            " instead of 200,000, and five concepts instead of changes every 40,000 examples follow one another every"
            " 4,000. All methods see the same numbers: nominal features are one feature for each value. The score is"
            " ours, the prequential G-mean with fading factor 0.99, averaged over the stream; the survey's is a G-mean"
            " in windows of 500 examples, so the figures here must not be compared with the survey's tables."
        ),
        "",
        (
            "The paper's methods have its settings (learning rate 0.01), RELAY its defaults, River's and MOA's their"
            " own. `csarf`, `rose` and `kue` are the survey's methods, compiled from its repository against MOA"
            " 2021.07.0 and run on the same examples (`study/moa.py`)."
        ),
        "",
        f"Repetitions: {repetitions}.",
        "",
        "![Average G-mean on the survey's generators](yardstick.png)",
        "",
        _ranks(rows, everywhere),
        f"- Highest of these on: {', '.join(f'{method} {count}' for method, count in wins.items())} streams.",
        *(_ahead(rows, method) for method in methods if method not in everywhere),
        "",
        (
            "Streams on which the method at the left is higher than the method above, of those on which both were run,"
            " by the mean of the repetitions that both have:"
        ),
        "",
        *markdown(("", *methods), _pairs(rows, methods)),
        "Average G-mean (standard deviation); the highest of a stream is bold:",
        "",
        *markdown(("part", "stream", *methods), table, left=2),
    ]


def higher(rows: Sequence[Row], one: str, other: str) -> tuple[int, int]:
    """Return on how many streams a method is higher than another, and on how many both were run.

    On each stream, the repetitions that both have are compared: these have the same data.
    """
    both = [row for row in rows if {one, other} <= row.averages.keys()]
    wins = 0
    for row in both:
        count = min(len(row.averages[one]), len(row.averages[other]))
        wins += int(row.averages[one][:count].mean() > row.averages[other][:count].mean())
    return wins, len(both)


def _ahead(rows: Sequence[Row], method: str) -> str:
    """Return on which streams a method that was not run everywhere is higher than AREBA_20 and RELAY."""
    own = [row for row in rows if method in row.averages]
    said = []
    for other in ("areba_20", "relay"):
        ahead = [f"{row.part} {row.stream}" for row in own if higher([row], method, other)[0]]
        said.append(f"than {other} on {', '.join(ahead) or 'no stream'}")
    return f"- {method} was run on {len(own)} streams. It is higher {'; '.join(said)}."


def _pairs(rows: Sequence[Row], methods: Sequence[str]) -> list[list[str]]:
    lines = []
    for one in methods:
        counts = ["" if one == other else "{} of {}".format(*higher(rows, one, other)) for other in methods]
        lines.append([one, *counts])
    return lines


def _text(row: Row, method: str) -> str:
    if method not in row.averages:
        return ""
    mean, deviation, _ = mean_and_error(row.averages[method])
    text = f"{mean:.3f} ({deviation:.3f})" if len(row.averages[method]) > 1 else f"{mean:.3f}"
    repeated = [name for name, averages in row.averages.items() if len(averages) > 1]
    return f"**{text}**" if row.best_of(repeated or row.averages) == method else text
