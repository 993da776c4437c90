"""The streams: nine generators of the survey, without a change, with sudden and with slow changes, at five shares.

The options of the generators are those of `study/experiments/yardstick.yaml`. Here the streams have the survey's own
length, so that a slow change takes ten times as many examples.

Further streams are in no test over streams: the survey's tenth generator, streams whose rare class becomes the frequent
one, and real data sets of the survey.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from stream_app.producers.datasets.base import DataSet
from stream_app.producers.datasets.files import data_dir_from_environment
from study import generators
from study.field import real_sets
from study.generators.stream import Share
from study.run.experiment import FOLDER, StreamChoice, read
from study.run.streams import generated

LENGTH = 200_000
"""Examples of a stream (Aguiar, Krawczyk and Cano 2023)."""

PERCENTS = (1, 2, 5, 10, 20)
"""Percentages of positive examples."""

KINDS = ("static", "sudden", "gradual")
"""How the concept changes; the first part of a stream's name."""

SLOW_STREAMS = (
    "static-random-tree-5",
    "sudden-agrawal-5",
    "sudden-sine-5",
    "gradual-hyperplane-5",
    "gradual-random-rbf-5",
    "gradual-sea-5",
)
"""The named subset for methods that take more than 20 microseconds an example: two streams without a linear border,
and one of each other generator whose data are made in a second; each way of changing occurs."""

FLIPPING_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
"""p(y=1) in the eleven equal parts of a stream whose rare class becomes the frequent one (the survey)."""

TEXT_CONCEPT = 2
"""The first seed with which each class has at least a tenth of the messages."""

MakeStream = Callable[[int], DataSet]
"""Makes the stream of a seed."""


REAL_SETS: Mapping[str, MakeStream] = {"fraud": real_sets.fraud, "covertype": real_sets.covertype}
"""Streams that need the publishers' files."""


def streams() -> Mapping[str, MakeStream]:
    """Return what makes each stream, by a name such as `sudden-sine-5`, which ends with the percentage of positives."""
    choices = {one.name.removeprefix("yardstick-"): one.stream for one in read(FOLDER / "yardstick.yaml")}
    return {
        f"{name}-{percent}": partial(generated, _longer(choice, percent))
        for percent in PERCENTS
        for name, choice in choices.items()
        if name.startswith(KINDS)
    }


def further_streams() -> Mapping[str, MakeStream]:
    """Return what makes each further stream: `static-text-5`, `flipping-sine`, and the real `fraud` and `covertype`."""
    flipping = np.array(FLIPPING_SHARES)[np.arange(LENGTH) * len(FLIPPING_SHARES) // LENGTH]
    found = {f"static-text-{percent}": partial(_still, "text", percent / 100.0) for percent in PERCENTS}
    found |= {f"flipping-{name.replace('_', '-')}": partial(_still, name, flipping) for name in generators.__all__}
    return {**found, **REAL_SETS}


def all_streams() -> Mapping[str, MakeStream]:
    """Return what makes each stream, the further ones too."""
    return {**streams(), **further_streams()}


def has_data(name: str) -> bool:
    """Return whether a stream needs no publisher's file, or `AREBA_DATA_DIR` is set."""
    return name not in REAL_SETS or data_dir_from_environment() is not None


def _still(name: str, share: Share, seed: int) -> DataSet:
    """Return a stream whose concept stays."""
    options = {"concepts": (TEXT_CONCEPT,)} if name == "text" else {}
    data: DataSet = getattr(generators, name)(LENGTH, share, seed, options)
    return data


def _longer(choice: StreamChoice, percent: int) -> StreamChoice:
    """Return the choice at the survey's length; a sudden change stays one of a single example."""
    times = LENGTH / (choice.length or LENGTH)
    width = choice.options.get("width", 1)
    options = {**choice.options, "width": width * times if width > 1 else width}
    return choice.model_copy(update={"length": LENGTH, "imbalance": float(percent), "options": options})
