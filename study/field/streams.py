"""The streams: nine generators of the survey, without a change, with sudden and with slow changes, at five shares.

The options of the generators are those of `study/experiments/yardstick.yaml`. Here the streams have the survey's own
length, so that a slow change takes ten times as many examples.
"""

from collections.abc import Callable, Mapping
from functools import partial

from stream_app.producers.datasets.base import DataSet
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

MakeStream = Callable[[int], DataSet]
"""Makes the stream of a seed."""


def streams() -> Mapping[str, MakeStream]:
    """Return what makes each stream, by a name such as `sudden-sine-5`, which ends with the percentage of positives."""
    choices = {one.name.removeprefix("yardstick-"): one.stream for one in read(FOLDER / "yardstick.yaml")}
    return {
        f"{name}-{percent}": partial(generated, _longer(choice, percent))
        for percent in PERCENTS
        for name, choice in choices.items()
        if name.startswith(KINDS)
    }


def _longer(choice: StreamChoice, percent: int) -> StreamChoice:
    """Return the choice at the survey's length; a sudden change stays one of a single example."""
    times = LENGTH / (choice.length or LENGTH)
    width = choice.options.get("width", 1)
    options = {**choice.options, "width": width * times if width > 1 else width}
    return choice.model_copy(update={"length": LENGTH, "imbalance": float(percent), "options": options})
