"""Sliding: one window of the most recently labelled examples of both classes, and nothing against imbalance.

On a label the example enters the window, from which the oldest leaves once it holds W (100 in the paper); the network
takes one step on the whole window as one batch, as in the authors' code. A corrected example keeps its place.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.queues import (
    SLIDING,
    Held,
    Memory,
    Method,
    Part,
    State,
    age_of,
    append,
    gather,
    held_rows,
    load_queue,
    memory_of,
    queue_arrays,
    queue_fits,
    row_of_age,
)
from stream_app.learners.scaler import Desk

_WINDOW = 0
"""The one queue."""


@compiled
def admit_sliding(held: Held, desk: Desk, slot: int, label: int) -> int:
    """Take a labelled example in; how many there are to learn from."""
    append(held, desk, slot, label, _WINDOW)
    return gather(held, _WINDOW, 0)


@compiled
def correct_sliding(held: Held, desk: Desk, slot: int, label: int) -> None:
    """Give an example of the window the other class."""
    age = age_of(held, desk, slot, _WINDOW)
    if age >= 0:
        held.classes[row_of_age(held, _WINDOW, age)] = np.float32(label)


def _arrays(memory: Memory) -> State:
    return queue_arrays(memory, _WINDOW, "window") | {
        "window_labels": memory.classes[held_rows(memory, _WINDOW)].astype(np.int8)
    }


def _fits(memory: Memory, arrays: State) -> bool:
    labels = arrays["window_labels"]
    return (
        queue_fits(memory, arrays, "window", memory.rows)
        and labels.shape == (len(arrays["window_examples"]),)
        and labels.dtype == np.int8
        and bool(np.isin(labels, (0, 1)).all())
    )


def _load(memory: Memory, arrays: State) -> None:
    memory.classes[load_queue(memory, arrays, _WINDOW, "window")] = arrays["window_labels"]


def sliding(window: int, features: int) -> Method:
    """The method; its state is the window's examples, ids and labels (int8), oldest first.

    Args:
        window: W, at least 1.
        features: Numbers in an example.
    """
    memory = memory_of(SLIDING, features, queues=1, rows=window, budget=window, capacity=window)
    return Method(memory, Part(_arrays, _fits, _load))
