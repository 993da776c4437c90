"""What RELAY's short memory is worth on the study's kinds: `python -m study.relay.short run`, then `report`.

The runs are those of 1 and 10 % positives of Sine, Circle and Sea in `study.relay`, with its data and seeds, 20
repetitions each. The learners run without the worker. Like the study, the G-mean at the end and on average starts again
at a drift. The lowest G-mean after a drift is that of the running application, whose sums never start again.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.learners.factory import build
from stream_app.learners.methods.relay.state import WITH_SHORT
from stream_app.terminal import say
from study.relay.unseen import operations_of, predicted_by, relay_without
from study.relay.unseen_streams import AREBA_20, made_of
from study.relay.verdicts import FOLDER, better_and_worse, verdicts
from study.report.scores import curves_of
from study.run.experiment import Experiment, Run, load_all
from study.run.runs import same_seed
from study.run.streams import application_id, data_of

RESULTS = FOLDER / "relay_short.csv"

REPETITIONS = 20

NAMES = ("AREBA_20", "OOB", "RELAY without", "RELAY")

FIGURES = ("final_gmean", "average_gmean", "lowest_gmean")
"""The lowest one is that after a drift; without a drift it is not a number."""

_CONCEPTS, _DRIFTS = ("sine", "circle", "sea"), ("prior", "likelihood", "posterior")

RUNS: Sequence[str] = (
    *(f"{concept}-{share}-stationary" for concept in _CONCEPTS for share in ("10", "1")),
    *(f"{concept}-1-{drift}{noise}" for noise in ("", "-noise") for concept in _CONCEPTS for drift in _DRIFTS),
    *(f"sea-1-{drift}-long{noise}" for noise in ("", "-noise") for drift in _DRIFTS),
    *(f"budget-{concept}-10-posterior" for concept in _CONCEPTS),
)
"""The runs, by the names that the study gives them."""


def measured(experiment: Experiment, number: int) -> NDArray[np.float64]:
    """Return the figures of a repetition, float64 `[learners, 3]` by `NAMES` and `FIGURES`."""
    run, choice = Run(experiment, experiment.varies[0]), experiment.stream
    stream = made_of(data_of(run, number), choice)
    steps, width = operations_of(stream), stream.features.shape[1]
    seed = same_seed(application_id(run, number), choice.stream, "")
    learners = [
        build("areba_20", AREBA_20, width, seed),
        build("oob", LearnerSettings(method="oob"), width, seed),
        relay_without(WITH_SHORT, width, seed),
        relay_without(0, width, seed),
    ]
    figures = []
    for learner in learners:
        predicted = predicted_by(learner, stream, steps)
        curve = curves_of(predicted, stream.clean, stream.resets).gmean
        running = curves_of(predicted, stream.clean).gmean
        lowest = running[stream.resets[0] :].min() if stream.resets else np.nan
        figures.append((curve[-1], curve.mean(), lowest))
    return np.array(figures)


def run_all(path: Path, repetitions: int) -> None:
    """Run all and write the figures of each repetition as CSV."""
    experiments = {experiment.name: experiment for experiment in load_all()}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "repetition", "learner", *FIGURES])
        for name in RUNS:
            for number in range(repetitions):
                for learner, own in zip(NAMES, measured(experiments[name], number), strict=True):
                    writer.writerow([name, number, learner, *(f"{figure:.6f}" for figure in own)])
            say(f"{name}: {repetitions}")


def read(path: Path) -> Mapping[str, NDArray[np.float64]]:
    """Return the figures of a file that `run_all` wrote, float64 `[repetitions, learners, 3]` by run."""
    rows: dict[str, list[list[float]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["run"], []).append([float(row[figure]) for figure in FIGURES])
    return {name: np.array(own).reshape(-1, len(NAMES), len(FIGURES)) for name, own in rows.items()}


def lines_of(figures: Mapping[str, NDArray[np.float64]]) -> Iterator[str]:
    """Yield Markdown tables: the means of each run, how RELAY compares, and the lowest figures after a drift."""
    yield f"| run: end, average | {' | '.join(NAMES)} |"
    yield f"| --- |{' --- |' * len(NAMES)}"
    for name, own in figures.items():
        yield f"| {name} | {' | '.join('{:.3f}, {:.3f}'.format(*one[:2]) for one in own.mean(axis=0))} |"
    yield ""
    yield "| RELAY against | end: better, worse, difference | average: better, worse, difference |"
    yield "| --- | --- | --- |"
    for place, name in enumerate(NAMES[:-1]):
        cells = []
        for figure in range(2):
            found = verdicts([own[:, [place, -1], figure] for own in figures.values()])
            better, worse = better_and_worse(found)
            cells.append(f"{better}, {worse}, {np.mean([one.means[1] - one.means[0] for one in found]):+.4f}")
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""
    yield f"| lowest G-mean after the drift | {' | '.join(NAMES)} |"
    yield f"| --- |{' --- |' * len(NAMES)}"
    for name, own in figures.items():
        if "posterior" in name:
            lowest = own[:, :, 2]
            errors = lowest.std(axis=0, ddof=1) / np.sqrt(len(lowest))
            cells = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(lowest.mean(axis=0), errors, strict=True)]
            yield f"| {name} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m study.relay.short", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("command", choices=("run", "report"))
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="repetitions of a run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV file of the figures")
    given = parser.parse_args(arguments)
    if given.command == "run":
        run_all(given.results, given.repetitions)
    else:
        for line in lines_of(read(given.results)):
            say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
