"""RELAY against AREBA_20 on 55 runs of the study: `python -m study.relay` runs them and writes the figures.

`python -m study report` makes their page. The runs are those of the study's own experiments, with two learners:
AREBA_20 with the experiment's settings, and RELAY with its defaults. They have a store of their own, so that no result
of the study changes. `relay.md` beside this file states the settings and claims, and was written before the first of
these repetitions.

A run is won, tied or lost by a paired t-test over its repetitions with Holm's correction over all runs; the G-mean at
the end and the average G-mean over all steps are separate families of tests.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.terminal import say
from study.run.experiment import Experiment, Run, load_all

LEARNERS = ("areba_20", "relay")

SHORT, FEW, LONG = 20, 5, 3
"""Repetitions of a run; of those on 50,000 examples or wide ones; of those on 1,000,000."""

SECOND = 50
"""Repetitions of a short run in the second result, see `relay.md`."""

_CONCEPTS = ("sine", "circle", "sea")
_DRIFTS = ("prior", "likelihood", "posterior")

RUNS: Sequence[tuple[str, int]] = (
    *((f"{concept}-{share}-stationary", SHORT) for concept in _CONCEPTS for share in ("10", "1", "0.1")),
    *((f"{concept}-1-{drift}{noise}", SHORT) for noise in ("", "-noise") for concept in _CONCEPTS for drift in _DRIFTS),
    *((f"sea-1-{drift}-long{noise}", SHORT) for noise in ("", "-noise") for drift in _DRIFTS),
    *((f"budget-{concept}-10-posterior", SHORT) for concept in _CONCEPTS),
    *((f"latency-{events}", SHORT) for events in (0, 1000, 10000)),
    *((f"share-{percent}", SHORT) for percent in (50, 10, 1)),
    ("wide-sine", FEW),
    ("river-sine-long", FEW),
    ("rare-sine", LONG),
    ("long-recurring", LONG),
    *((f"real-{name}{order}", SHORT) for name in ("cervical", "credit") for order in (".both", "")),
    ("river-fraud", FEW),
    ("real-fraud", FEW),
    ("real-mnist.both", FEW),
    ("real-mnist", FEW),
    ("real-forest", LONG),
)
"""The runs, by the names that the study gives them (`.both`: in shuffled order), with their repetitions."""

RESULTS = Path(__file__).with_name("results") / "relay.csv"
STORE = Path(".local/study-relay")


BETTER, WORSE, NOT_SIGNIFICANT = "better", "worse", "not significant"
"""What a test of a difference says."""


class Score(NamedTuple):
    """The figures of one repetition: G-mean at the end, and its mean over all steps, by learner."""

    final: NDArray[np.float64]
    average: NDArray[np.float64]


class Verdict(NamedTuple):
    """One figure of one run: the means of both learners, the p-value after Holm's correction, and what follows."""

    means: NDArray[np.float64]
    p_value: float
    result: str


def runs(short: int = SHORT, names: Sequence[str] = ()) -> Iterator[tuple[Run, int]]:
    """Yield each run, or those of these names, with two learners, and its repetitions.

    A short run, and each run that is named, has `short`.
    """
    experiments = {experiment.name: experiment for experiment in load_all()}
    for name, repetitions in RUNS:
        if names and name not in names:
            continue
        experiment = experiments[name.removesuffix(".both")]
        yield (
            Run(two_learners(experiment), "both" if name.endswith(".both") else experiment.varies[0]),
            short if names or repetitions == SHORT else repetitions,
        )


def two_learners(experiment: Experiment) -> Experiment:
    """Return the experiment with AREBA_20, as the experiment has it or with its defaults, and RELAY."""
    areba = experiment.methods.get("areba_20", LearnerSettings(method="areba", budget=20))
    return experiment.model_copy(update={"methods": {"areba_20": areba, "relay": LearnerSettings(method="relay")}})


def run_missing(asked: Iterable[tuple[Run, int]], store: Path) -> dict[str, Score]:
    """Run what is missing in the store, and return the figures, float64 `[repetitions, 2]`, by run."""
    from study.report.scores import curves_of  # noqa: PLC0415  (Torch and Numba take seconds)
    from study.run.runs import repeat  # noqa: PLC0415
    from study.run.store import Store, engine_version  # noqa: PLC0415

    finished, scores = Store(store, engine_version()), {}
    for run, repetitions in asked:
        rows = []
        for number in range(repetitions):
            if number not in finished.finished(run):
                finished.put(run, number, repeat(run, number))
            stored = finished.get(run, number)
            resets = run.experiment.stream.resets(len(stored.labels))
            curves = [curves_of(own, stored.labels, resets, run.experiment.fading).gmean for own in stored.classes]
            rows.append([(curve[-1], curve.mean()) for curve in curves])
        figures = np.array(rows)
        scores[run.name] = Score(figures[:, :, 0], figures[:, :, 1])
        say(f"{run.name}: {repetitions}")
    return scores


def verdicts(figures: Sequence[NDArray[np.float64]], alpha: float = 0.05) -> list[Verdict]:
    """Compare both learners in each run, with Holm's correction over the runs.

    Args:
        figures: Of each run, float64 `[repetitions, 2]`: AREBA_20, RELAY.
        alpha: The level of the family of tests.
    """
    from study.statistics import paired_difference  # noqa: PLC0415  (SciPy is an optional extra)

    raw = [paired_difference(own[:, 1], own[:, 0]) for own in figures]
    corrected, largest = [1.0] * len(raw), 0.0
    for rank, place in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
        largest = max(largest, min(1.0, (len(raw) - rank) * raw[place]))
        corrected[place] = largest
    found = []
    for own, p_value in zip(figures, corrected, strict=True):
        means = own.mean(axis=0)
        better = BETTER if means[1] > means[0] else WORSE
        found.append(Verdict(means, p_value, better if p_value < alpha else NOT_SIGNIFICANT))
    return found


def write_results(
    scores: Mapping[str, Score], path: Path, learners: Sequence[str] = LEARNERS, *, first: int = 0
) -> None:
    """Write the figures of each repetition as CSV; `first` is the number of the first one."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "repetition", "learner", "final_gmean", "average_gmean"])
        for name, score in scores.items():
            for number in range(len(score.final)):
                for place, learner in enumerate(learners):
                    figures = (score.final[number, place], score.average[number, place])
                    writer.writerow([name, first + number, learner, *(f"{figure:.6f}" for figure in figures)])


def read_results(path: Path) -> dict[str, Score]:
    """Return the figures of a file that `write_results` wrote."""
    tables: dict[str, dict[int, list[tuple[float, float]]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows = tables.setdefault(row["run"], {}).setdefault(int(row["repetition"]), [])
            rows.append((float(row["final_gmean"]), float(row["average_gmean"])))
    arrays = {name: np.array(list(rows.values())) for name, rows in tables.items()}
    return {name: Score(array[:, :, 0], array[:, :, 1]) for name, array in arrays.items()}


def learners_of(path: Path) -> list[str]:
    """Return the learners of a file that `write_results` wrote, in the order of its figures."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(dict.fromkeys(row["learner"] for row in csv.DictReader(file)))


def table(scores: Mapping[str, Score], other: str = "AREBA_20") -> str:
    """Return a Markdown table of all runs, and a line of counts for each figure; `other` is the first learner."""
    lines = [
        f"| run (repetitions) | {other}: end, average | RELAY: end, average | end | average |",
        "| --- | --- | --- | --- | --- |",
    ]
    ends = verdicts([score.final for score in scores.values()])
    averages = verdicts([score.average for score in scores.values()])
    for (name, score), end, average in zip(scores.items(), ends, averages, strict=True):
        pairs = [f"{end.means[k]:.3f}, {average.means[k]:.3f}" for k in range(2)]
        results = [f"{one.result} ({p_text(one.p_value)})" for one in (end, average)]
        lines.append(f"| {name} ({len(score.final)}) | {pairs[0]} | {pairs[1]} | {results[0]} | {results[1]} |")
    lines.append("")
    for title, found in (("At the end", ends), ("On average", averages)):
        better, worse = (sum(one.result == result for one in found) for result in (BETTER, WORSE))
        higher = sum(one.means[1] > one.means[0] for one in found)
        lines.append(
            f"{title}, RELAY is better than {other} on {better} of {len(found)} runs and worse on {worse}; the other "
            f"differences are not significant. Its mean is higher on {higher}."
        )
    return "\n".join(lines) + "\n"


def p_text(value: float) -> str:
    """Return a p-value as text."""
    if value < 0.001:
        return "p < .001"
    digits = 4 if f"{value:.3f}" == "0.050" else 3  # on which side of the limit it is must be visible
    return f"p = {value:.{digits}f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m study.relay", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs; by default all")
    parser.add_argument(
        "--repetitions", type=int, default=SECOND, help="repetitions of the short runs, and of those named"
    )
    parser.add_argument("--store", type=Path, default=STORE, help="folder of finished repetitions")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the figures")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - {name for name, _ in RUNS}:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    scores = run_missing(runs(given.repetitions, given.names), given.store)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    write_results(scores, given.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
