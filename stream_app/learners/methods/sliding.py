"""Sliding: one window of the most recently labelled examples of both classes, and nothing against imbalance.

On a label the example enters the window, from which the oldest leaves once it holds W (100 in the paper); the network
takes one step on the whole window as one batch, as in the authors' code. A corrected example keeps its place.
"""

import numpy as np

from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.learners.method import (
    Functions,
    LearningMethod,
    RunningMethod,
    State,
    StatePart,
    load_queue,
    queue_arrays,
    queue_fits,
    queue_rows,
)
from stream_app.learners.method_state import LearnerView, MethodTables, new_queues, new_tables
from stream_app.learners.queues import age_of, append, gather, row_of_age

_WINDOW = 0
"""The number of the only queue."""


@compiled
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in; return the number of examples to learn."""
    append(learner.queues, learner.inputs, slot, label, _WINDOW)
    return gather(learner, _WINDOW, 0)


@compiled
def _correct(learner: LearnerView, slot: int, label: int) -> None:
    """Change the class of an example in the window."""
    age = age_of(learner.queues, learner.inputs, slot, _WINDOW)
    if age >= 0:
        learner.queues.classes[row_of_age(learner.queues, _WINDOW, age)] = np.float32(label)


def _arrays(tables: MethodTables) -> State:
    queues = tables.queues
    labels = queues.classes[queue_rows(queues, _WINDOW)].astype(np.int8)
    return queue_arrays(queues, _WINDOW, "window") | {"window_labels": labels}


def _fits(tables: MethodTables, arrays: State) -> bool:
    labels = arrays["window_labels"]
    return (
        queue_fits(tables.queues, arrays, "window", tables.queues.rows)
        and labels.shape == (len(arrays["window_examples"]),)
        and labels.dtype == np.int8
        and bool(np.isin(labels, (0, 1)).all())
    )


def _load(tables: MethodTables, arrays: State) -> None:
    tables.queues.classes[load_queue(tables.queues, arrays, _WINDOW, "window")] = arrays["window_labels"]


def _make(settings: LearnerSettings, features: int, _seed: bytes) -> RunningMethod:
    """Make the method; its state is the window's examples, ids and labels (int8), oldest first."""
    queues = new_queues(features, 1, settings.window, settings.window)
    return RunningMethod(new_tables(features, queues=queues), (StatePart(_arrays, _fits, _load),))


SLIDING = LearningMethod("sliding", Functions(_admit, _correct), _make)
