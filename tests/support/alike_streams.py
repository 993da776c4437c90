"""A task with streams of equal settings, all of whose state is in memory that compiled code knows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_app.config import METHODS, StreamSettings, TaskSettings
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from tests.support.rows import columns
from tests.support.tasks import PARTITION, TOPICS, settings_of_task

NOTHING = columns([])

STREAMS = 5
IN_MEMORY = tuple(method for method in METHODS if method != "sliding")
"""The methods all of whose arrays are stored as they are; `sliding` stores classes as another type."""


def alike_settings(learners: Mapping[str, Any], **changes: Any) -> TaskSettings:  # noqa: ANN401  (any setting)
    """Return the settings of a task whose streams have these learners."""
    stream = {"features": 2, "champion": next(iter(learners)), "learners": learners, **changes}
    return settings_of_task(unknown_streams="model", default_stream=StreamSettings.model_validate(stream))


def alike_records(turn: int, *, labels: bool) -> RawRecords:
    """Return an example, or its label, of each stream; stream k takes part in k of 5 turns, the last one in all."""
    names = [f"s{number}" for number in range(STREAMS) if turn % STREAMS <= number]
    rows = np.random.default_rng(turn).normal(size=(STREAMS, 2))
    values = [
        codec.encode(
            Label(name, f"id-{turn}", int(row[0] > 0)) if labels else Example(name, f"id-{turn}", row.tolist())
        )
        for name, row in zip(names, rows, strict=False)
    ]
    offsets = np.arange(len(names)) + STREAMS * turn
    return RawRecords.of(offsets, 1_000 + 7 * turn * offsets, [name.encode() for name in names], values)


def busy_task(chosen: TaskSettings, turns: int, late: int = 3) -> Task:
    """Return a task whose streams have had different numbers of examples, and labels that come some turns late."""
    task = Task(PARTITION, chosen, TOPICS)
    for turn in range(turns):
        task.step(
            alike_records(turn, labels=False), alike_records(turn - late, labels=True) if turn >= late else NOTHING
        )
    return task
