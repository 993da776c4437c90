"""`areba state list`: the learners of a rebuilt task, as a table and as documents for JSON."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from stream_app.admin.history import Rebuilt
from stream_app.admin.saved_models.export_models import ID_DIGITS, model_file
from stream_app.backends.base import pair
from stream_app.config import Config
from stream_app.snapshot.model_file import digest_of
from stream_app.terminal import simple_table


class LearnerSummary(NamedTuple):
    """One learner of a rebuilt task, as `areba state list` shows it."""

    stream: str
    learner: str
    champion: bool
    threshold: str
    method: str
    features: int
    parameters: int
    updates: int
    digest: str


def learners_of(config: Config, task: int, rebuilt: Rebuilt) -> Iterator[LearnerSummary]:
    """Yield the learners of a task, stream by stream."""
    for stream in rebuilt.task.stream_names:
        known = rebuilt.task.stream(stream)
        for number, learner in enumerate(known.learner_names[: len(known.learners)]):
            file = model_file(config, task, rebuilt, stream, learner)
            yield LearnerSummary(
                stream,
                learner,
                number == known.join.champion,
                str(known.join.threshold),
                file.settings.method,
                file.features,
                sum(len(array) for name, array in file.state.items() if name == "parameters"),
                int(np.sum(file.state.get("updates", np.zeros(1, np.int64)))),
                digest_of(file.state)[:ID_DIGITS],
            )


def table(config: Config, task: int, rebuilt: Rebuilt) -> Table:
    """Return a table of the learners of a task."""
    offsets = pair(rebuilt.offsets)
    title = f"{config.application.id}, task {task} at offsets {offsets}, sequence {rebuilt.sequence}"
    headings = ("stream", "learner", "threshold", "method", "digest", "features", "parameters", "updates")
    result = simple_table(title, headings, ["* champion"], names=5)
    for one in learners_of(config, task, rebuilt):
        name = f"{one.learner} *" if one.champion else one.learner
        numbers = (f"{number:,}" for number in (one.features, one.parameters, one.updates))
        result.add_row(one.stream, name, one.threshold, one.method, one.digest, *numbers)
    return result


def documents(config: Config, task: int, rebuilt: Rebuilt) -> Iterator[dict[str, Any]]:
    """Yield a document for each learner of a task, for JSON."""
    examples, labels = rebuilt.offsets
    where = {"task": task, "sequence": rebuilt.sequence, "examples_end": examples, "labels_end": labels}
    for one in learners_of(config, task, rebuilt):
        yield {**where, **one._asdict()}
