"""What moved the score of one example: each column removed by itself, and the kept examples that are most like it.

The example is predicted by the champion as it was at that moment, with the value of one column removed, so the answer
is exact for this network: no model of the model is fitted.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.pipeline.preparation.preparation import Preparation
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Side
from stream_app.snapshot.model_file import DEVIATIONS, LARGEST, scaling_of

_NEAREST = 3
"""Kept examples of each class that are shown."""

_KEPT = ("negative", "positive")
"""How the names of the queues of a learner begin, by class."""


class ColumnEffect(NamedTuple):
    """One column of an example.

    Attributes:
        column: Its name.
        value: The value as it came; None: the example has none.
        features: The features of the value that are not 0, by name.
        effect: The champion's score, less its score without this value.
    """

    column: str
    value: Any
    features: Mapping[str, float]
    effect: float


class KeptExample(NamedTuple):
    """An example that the champion keeps: id, class, and the distance from the example that is explained."""

    id: str
    label: int
    distance: float


class Influence(NamedTuple):
    """What moved the score of an example.

    Attributes:
        learner: The champion at that moment.
        columns: The columns, those that moved the score most first.
        nearest: The nearest examples of each class in the champion's queues; empty if it has none for each class.
    """

    learner: str
    columns: Sequence[ColumnEffect]
    nearest: Sequence[KeptExample]

    def lines(self) -> Sequence[str]:
        """Return a line for each column and each kept example."""
        found = []
        for one in self.columns:
            features = ", ".join(f"{name} {value:g}" for name, value in one.features.items()) or "all features are 0"
            found.append(
                f"column {one.column} = {one.value!r} ({features}): {one.effect:+.4f} of {self.learner}'s score"
            )
        found += [
            f"near it in {self.learner}'s queue of class {kept.label}: {kept.id} (distance {kept.distance:.3g})"
            for kept in self.nearest
        ]
        return found

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return {
            "learner": self.learner,
            "columns": [{**one._asdict(), "features": dict(one.features)} for one in self.columns],
            "nearest": [one._asdict() for one in self.nearest],
        }


def step_through(
    task: Task, examples: RawRecords, labels: RawRecords, offset: int, example: Example
) -> tuple[list[bytes], Influence | None]:
    """Carry a batch through a task, and explain one of its examples at the moment at which it is predicted.

    Args:
        task: The task before the batch.
        examples: The range of examples.
        labels: The range of labels.
        offset: The offset of the example.
        example: The example.

    Returns:
        The values of all predictions of the batch, and what moved the score of the example; None if its stream has no
        columns, or begins with it. Where a batch is cut changes no result.
    """
    settings = task.settings.of_stream(example.stream)
    if not settings.columns or example.stream not in task.stream_names:
        return _predictions(task, examples, labels), None
    row = int(np.searchsorted(examples.offsets, offset))
    merged = task.open(examples, labels).merged
    position = int(np.flatnonzero((merged.sides == Side.EXAMPLES) & (merged.rows == row))[0])
    before = position - row
    values = _predictions(task, examples.rows(0, row), labels.rows(0, before))
    stream = task.stream(example.stream)
    number, preparation = stream.join.champion, stream.preparation
    assert preparation is not None  # noqa: S101  (for the type checker: it has columns)
    then, learned = stream.learners[number].arrays(), preparation.saved().state
    values += _predictions(task, examples.rows(row, row + 1), labels.rows(before, before))
    join, now = stream.join.arrays(), stream.learners[number].arrays()
    slot = int(np.argmax(join["arrivals"]))
    features = join["features"][slot].copy()
    names, learned_now = preparation.feature_names(), preparation.saved().state
    preparation.load(learned)
    mean = np.asarray(then.get("scaler.mean", np.zeros(len(features))), np.float32)
    effects = _effects(preparation, features, mean, partial(stream.scores_of, number, then))
    preparation.load(learned_now)
    columns = []
    for name, span in preparation.spans().items():
        own = {names[k]: float(features[k]) for k in range(span.start, span.stop) if features[k]}
        columns.append(ColumnEffect(name, (example.values or {}).get(name), own, effects[name]))
    columns.sort(key=lambda one: -abs(one.effect))
    influence = Influence(stream.learner_names[number], columns, _nearest(now, features, slot))
    values += _predictions(task, examples.rows(row + 1, len(examples)), labels.rows(before, len(labels)))
    return values, influence


def _predictions(task: Task, examples: RawRecords, labels: RawRecords) -> list[bytes]:
    return [value or b"" for value in task.step(examples, labels).topics["predictions"].values]


def _effects(
    preparation: Preparation, features: Floats, mean: Floats, score: Callable[[Sequence[Floats]], Sequence[float]]
) -> Mapping[str, float]:
    """Return the effect of each column on a score."""
    names = list(preparation.columns)
    whole, *without = score([features, *(preparation.removed(features, name, mean) for name in names)])
    return {name: whole - one for name, one in zip(names, without, strict=True)}


def _nearest(state: Mapping[str, NDArray[Any]], features: Floats, slot: int) -> Sequence[KeptExample]:
    """Return the examples of each class's queue that are nearest, as the learner sees them."""
    found: list[KeptExample] = []
    for label, name in enumerate(_KEPT):
        if f"{name}_examples" in state:
            kept, ids = state[f"{name}_examples"], state[f"{name}_ids"]
            seen = state["seen"][slot] if "scaler.mean" in state else np.clip(features, -LARGEST, LARGEST)
        elif f"ring.{name}.examples" in state:  # RELAY keeps examples as they came
            raw, ids = state[f"ring.{name}.examples"], state[f"ring.{name}.ids"]
            kept, seen = _standardised(state, raw), _standardised(state, features)
        else:
            continue
        distances = np.sqrt(((kept.astype(np.float64) - seen) ** 2).sum(axis=1))
        for row in np.argsort(distances, kind="stable")[:_NEAREST].tolist():
            id_ = ids[row, 1:].tobytes()[: int(ids[row, 0])]
            found.append(KeptExample(id_.decode(errors="replace"), label, float(distances[row])))
    return found


def _standardised(state: Mapping[str, NDArray[Any]], features: NDArray[Any]) -> NDArray[np.float64]:
    """Return features as RELAY standardises them now, without their trends."""
    scaling = scaling_of(state)
    assert scaling is not None  # noqa: S101  (for the type checker: RELAY has a scaler)
    mean, factors = scaling
    return np.clip((features - mean) * factors, -DEVIATIONS, DEVIATIONS)
