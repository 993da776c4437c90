"""RELAY mixed with a member of short memory and a linear one: `python -m study.relay_members run`, then `report`.

A member is a learner of its own: RELAY with its defaults, RELAY with a short replay, and RELAY without a hidden layer.
Members learn independently of each other, so a mixture needs no new learner: each member runs over the stream alone,
without the worker, and the mixture is computed from the members' scores. At each prediction it knows the labels that
have come, and no more. A member is judged on a label by the class that it predicted on the example's arrival.
`relay.md` beside this file states the rule of keeping, which was written before the evaluation.
"""

import argparse
import csv
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import LearnerSettings
from stream_app.learners.factory import build
from stream_app.records import ID_WORDS, Operation
from stream_app.terminal import say
from study.relay import verdicts
from study.relay_development import FIRST_SEED, STREAMS
from study.relay_unseen import operations_of
from study.report.scores import curves_of
from study.run.experiment import Experiment, Run, load_all
from study.run.runs import same_seed
from study.run.streams import application_id, data_of
from study.unseen_streams import AREBA_20, Kind, Made, kinds, made_of

PARTS = ("development", "unseen", "real", "developed", "wide")

FIGURES = ("final_gmean", "average_gmean", "average_recall", "average_specificity")

RESULTS = Path(__file__).with_name("results") / "relay_members.csv"

MEMBERS: Mapping[str, LearnerSettings] = {
    "relay": LearnerSettings(method="relay"),
    "short": LearnerSettings(method="relay", replay_per_class=30),
    "linear": LearnerSettings(method="relay", replay_per_class=100, hidden=()),
    "slow": LearnerSettings(method="relay").model_copy(update={"learning_rate": 0.001}),
}
"""The members; the application's settings refuse a learning rate of RELAY."""

PENALTY, PENALISED_WIDTH = 0.01, 8
"""The weight of squared hidden-layer weights in the loss, and the least features with which there is a penalty."""

FADING, SHARPNESS = 0.99, 2.0
"""Of the losses: how they fade with each label of their class, and their weight in the exponent."""


LINEAR_GAIN = 30.0
"""The linear member's prior is multiplied by 1 + this / (1 + labels of the rarer class)."""

LOWEST_THRESHOLD, THRESHOLD_POSITIVES = 0.3, 10.0
"""The moved threshold before the first positive label, and how many bring it halfway to 0.5."""


class Mixture(NamedTuple):
    """A mixture, or a single member.

    Attributes:
        priors: Of the members.
        penalised: Whether members with a hidden layer have the penalty, from `PENALISED_WIDTH` features on.
        moved: Whether the threshold of class 1 is lower while few positive labels have come.
    """

    priors: Mapping[str, float]
    penalised: bool = False
    moved: bool = False


_SHORT: Mapping[str, float] = {"relay": 1.0, "short": 0.3}
_LINEAR: Mapping[str, float] = {"relay": 1.0, "linear": 1.0}
_ALL: Mapping[str, float] = {"relay": 1.0, "short": 0.3, "linear": 1.0}

MIXTURES: Mapping[str, Mixture] = {
    **{name: Mixture({name: 1.0}) for name in MEMBERS},
    "relay_short": Mixture(_SHORT),
    "relay_linear": Mixture(_LINEAR),
    "all": Mixture(_ALL),
    "penalised": Mixture({"relay": 1.0}, penalised=True),
    "moved": Mixture({"relay": 1.0}, moved=True),
    "penalised_moved": Mixture({"relay": 1.0}, penalised=True, moved=True),
    "relay_linear_penalised_moved": Mixture(_LINEAR, penalised=True, moved=True),
    "all_penalised_moved": Mixture(_ALL, penalised=True, moved=True),
}

DEVELOPED = (
    *(f"{concept}-{share}-stationary" for concept in ("sine", "circle", "sea") for share in ("10", "1", "0.1")),
    *(
        f"{concept}-1-{drift}{noise}"
        for noise in ("", "-noise")
        for concept in ("sine", "circle", "sea")
        for drift in ("prior", "likelihood", "posterior")
    ),
    *(f"budget-{concept}-10-posterior" for concept in ("sine", "circle", "sea")),
)
"""Runs of the study on whose kinds, with other seeds, RELAY and the mixtures were developed."""

REAL: Mapping[str, int] = {"river-cervical": 20, "river-credit": 20, "river-fraud": 3}
"""Real data, with repetitions: Cervical and Credit shuffled; the first 50,000 payments of Fraud in their own order."""

WIDE: Mapping[str, int] = {"wide-sine": 5, "real-mnist.both": 3}
"""Runs with 784 features, with repetitions; the members alone, since AREBA_20 has 512 units there."""

SHORT, YARDSTICK, LONG = 20, 8, 6
"""Repetitions of a stream; of one of the yardstick's; of `rare-overlapping`."""


def scores_by(settings: LearnerSettings, stream: Made, seed: bytes) -> Floats:
    """Return P(class 1) of each example on its arrival, float32 `[n]`, from a learner that runs alone."""
    steps = operations_of(stream)
    learner = build("member", settings, stream.features.shape[1], seed)
    answers = learner.run(steps, stream.features, np.zeros((len(stream.labels), ID_WORDS), np.uint64))
    scores: Floats = answers.scores[steps.codes == Operation.PREDICT]
    return scores


class _Evidence(NamedTuple):
    """What the labels of one class say before each prediction: faded mean losses `[members, n]` and labels `[n]`."""

    losses: NDArray[np.float64]
    faded_labels: NDArray[np.float64]
    labels: NDArray[np.int64]


def _evidence(wrong: NDArray[np.bool_], of_class: NDArray[np.bool_], delay: int) -> _Evidence:
    from scipy.signal import lfilter  # noqa: PLC0415  (an optional extra)

    own = wrong[:, of_class].astype(np.float64)
    sums = lfilter([1.0], [1.0, -FADING], own, axis=1)
    counts = lfilter([1.0], [1.0, -FADING], np.ones(own.shape[1]))
    means = np.hstack([np.full((len(wrong), 1), 0.5), sums / counts])
    faded = np.concatenate([[0.0], counts])
    known = np.cumsum(of_class)
    before = np.concatenate([np.zeros(delay + 1, np.int64), known])[: len(of_class)]
    return _Evidence(means[:, before], faded[before], before)


def mixed(scores: NDArray[np.float64], labels: NDArray[np.int8], delay: int, mixture: Mixture) -> NDArray[np.float64]:
    """Return the mixture's P(class 1), float64 `[n]`.

    The weight of a member is its prior times exp(-`SHARPNESS` (m + 1) (l_0 + l_1)), with its faded mean 0/1 losses l of
    both classes and the faded number m of labels of the rarer one.

    Args:
        scores: float64 `[members, n]`, in the order of the mixture's priors.
        labels: int8 `[n]`, the labels that the learners get.
        delay: Examples from an example to its label.
        mixture: Its priors.
    """
    wrong = (scores > 0.5) != (labels == 1)
    negative, positive = (_evidence(wrong, labels == k, delay) for k in range(2))
    fewest = np.minimum(negative.faded_labels, positive.faded_labels)
    gains = 1.0 + LINEAR_GAIN / (1.0 + np.minimum(negative.labels, positive.labels))
    priors = np.array(
        [prior * (gains if name == "linear" else np.ones(len(labels))) for name, prior in mixture.priors.items()]
    )
    exponents = -SHARPNESS * (fewest + 1.0) * (negative.losses + positive.losses)
    weights = priors * np.exp(exponents - exponents.max(axis=0))
    mean: NDArray[np.float64] = (weights * scores).sum(axis=0) / weights.sum(axis=0)
    return mean


def threshold(labels: NDArray[np.int8], delay: int) -> NDArray[np.float64]:
    """Return the moved threshold at each prediction, float64 `[n]`, from the positive labels that have come."""
    positives = np.concatenate([np.zeros(delay + 1, np.int64), np.cumsum(labels == 1)])[: len(labels)]
    distance = (0.5 - LOWEST_THRESHOLD) * THRESHOLD_POSITIVES / (THRESHOLD_POSITIVES + positives)
    lowered: NDArray[np.float64] = 0.5 - distance
    return lowered


# Runs -----------------------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """One repetition: its stream, the seed of all learners, and learners to compare with."""

    stream: Made
    seed: bytes
    others: Mapping[str, LearnerSettings]


def _trials_of_development(name: str) -> Iterator[Trial]:
    for seed in range(FIRST_SEED, FIRST_SEED + (LONG if name == "rare-overlapping" else SHORT)):
        others = {"areba_20": AREBA_20, "areba_20_slow": AREBA_20.model_copy(update={"learning_rate": 0.0001})}
        yield Trial(STREAMS[name](seed), hashlib.sha256(f"{name} {seed}".encode()).digest(), others)


def _trials_of_unseen(name: str, kind: Kind) -> Iterator[Trial]:
    for number in range(SHORT):
        stream = kind.make(number)
        yield Trial(stream, hashlib.sha256(f"{name} {number}".encode()).digest(), {"areba_20": AREBA_20})


def _trials_of_study(experiment: Experiment, repetitions: int) -> Iterator[Trial]:
    way = "both" if experiment.name == "real-mnist" else experiment.varies[0]
    run, choice = Run(experiment, way), experiment.stream
    names = {"areba_20", "river_lr_over"} if experiment.name in REAL else {"areba_20"}
    own = {name: settings for name, settings in experiment.methods.items() if name in names}
    others = {} if run.name in WIDE else {"areba_20": AREBA_20, **own}
    for number in range(repetitions):
        stream = made_of(data_of(run, number), choice)
        yield Trial(stream, same_seed(application_id(run, number), choice.stream, ""), others)


def _unseen() -> dict[str, Kind]:
    return {name: kind for name, kind in kinds().items() if kind.group in ("made", "river")}


def trials(part: str) -> Iterator[tuple[str, Iterator[Trial]]]:
    """Yield the runs of one of `PARTS`, each with its repetitions."""
    experiments = {experiment.name: experiment for experiment in load_all()}
    if part == "development":
        for name in STREAMS:
            yield name, _trials_of_development(name)
    elif part == "unseen":
        for name, kind in _unseen().items():
            yield name, _trials_of_unseen(name, kind)
        for name, experiment in experiments.items():
            if experiment.group == "yardstick":
                yield name, _trials_of_study(experiment, YARDSTICK)
    elif part == "developed":
        for name in DEVELOPED:
            yield name, _trials_of_study(experiments[name], SHORT)
    else:
        for name, repetitions in (REAL if part == "real" else WIDE).items():
            yield name, _trials_of_study(experiments[name.removesuffix(".both")], repetitions)


def measured(trial: Trial) -> dict[str, tuple[float, ...]]:
    """Return the figures of all learners: G-mean at the end, and the means of G-mean, recall and specificity."""
    stream, width = trial.stream, trial.stream.features.shape[1]
    alone = {name: scores_by(one, stream, trial.seed) for name, one in {**MEMBERS, **trial.others}.items()}
    penalised = dict(alone)
    if width >= PENALISED_WIDTH:
        for name in ("relay", "short"):
            settings = MEMBERS[name].model_copy(update={"l2": PENALTY})
            penalised[name] = scores_by(settings, stream, trial.seed)
    classes = {name: alone[name] > 0.5 for name in trial.others}
    for name, mixture in MIXTURES.items():
        source = penalised if mixture.penalised else alone
        own = np.array([source[member] for member in mixture.priors], np.float64)
        scores = mixed(own, stream.labels, stream.delay, mixture) if len(own) > 1 else own[0]
        classes[name] = scores > (threshold(stream.labels, stream.delay) if mixture.moved else 0.5)
    figures = {}
    for name, predicted in classes.items():
        curves = curves_of(predicted.astype(np.int8), stream.clean, stream.resets)
        means = (curves.gmean, curves.recall, curves.specificity)
        figures[name] = (float(curves.gmean[-1]), *(float(curve.mean()) for curve in means))
    return figures


def run_all(path: Path, parts: Sequence[str]) -> None:
    """Run the parts and write the figures of each repetition as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["part", "run", "repetition", "learner", *FIGURES])
        for part in parts:
            for name, repetitions in trials(part):
                for number, trial in enumerate(repetitions):
                    for learner, figures in measured(trial).items():
                        writer.writerow([part, name, number, learner, *(f"{figure:.6f}" for figure in figures)])
                say(name)


# Report ---------------------------------------------------------------------------------------------------------------


def read(path: Path, part: str) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return the figures of a part, float64 `[repetitions, 4]`, by run and learner."""
    rows: dict[str, dict[str, list[list[float]]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["part"] == part:
                own = rows.setdefault(row["run"], {}).setdefault(row["learner"], [])
                own.append([float(row[figure]) for figure in FIGURES])
    return {run: {name: np.array(own) for name, own in learners.items()} for run, learners in rows.items()}


def lines_of(figures: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> Iterator[str]:
    """Yield two Markdown tables of a part: the learners' means in each run, and how they compare with RELAY."""
    learners = list(next(iter(figures.values())))
    yield f"| run (repetitions) | {' | '.join(learners)} |"
    yield f"| --- |{' --- |' * len(learners)}"
    for run, own in figures.items():
        cells = ["{:.3f}, {:.3f}".format(*own[name][:, :2].mean(axis=0)) for name in learners]
        yield f"| {run} ({len(own['relay'])}) | {' | '.join(cells)} |"
    yield ""
    yield "| learner | mean: end, average | better, worse: end | better, worse: average | higher: average |"
    yield f"| --- |{' --- |' * 4}"
    for name in learners:
        found = [
            verdicts([np.column_stack([own["relay"][:, place], own[name][:, place]]) for own in figures.values()])
            for place in range(2)
        ]
        means = [np.mean([one.means[1] for one in figure]) for figure in found]
        counts = [[sum(one.result == result for one in figure) for result in ("better", "worse")] for figure in found]
        higher = sum(bool(one.means[1] > one.means[0]) for one in found[1])
        cells = [f"{means[0]:.3f}, {means[1]:.3f}", *(f"{better}, {worse}" for better, worse in counts)]
        yield f"| {name} | {' | '.join(cells)} | {higher} of {len(figures)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m study.relay_members", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("command", choices=("run", "report"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.command == "run":
        run_all(given.results, given.parts)
        return 0
    for part in given.parts:
        for line in lines_of(read(given.results, part)):
            say(line)
        say("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
