"""RELAY against AREBA_20 on 55 runs of the study's own experiments.

AREBA_20 has the experiment's settings, and RELAY its defaults. The runs have a store of their own, so that no result of
the study changes. `study/relay.md` states the settings and claims, and was written before the first of these
repetitions.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from stream_app.config import LearnerSettings
from stream_app.terminal import say
from study.relay.verdicts import FOLDER, Score
from study.run.experiment import Experiment, Run, load_all

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

RESULTS = FOLDER / "relay.csv"
STORE = Path(".local/study-relay")


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
