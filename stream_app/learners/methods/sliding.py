"""Sliding: one window of the most recently labelled examples of both classes, and nothing against imbalance.

On a label the example enters the window, from which the oldest leaves once it holds W (100 in the paper); the network
takes one step on the whole window as one batch, as in the authors' code. A corrected example keeps its place.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method import Method, State, StatePart, load_queue, queue_arrays, queue_fits, queue_rows
from stream_app.learners.method_state import SLIDING, MethodState, MethodStateView, QueueSizes, new_method_state
from stream_app.learners.queues import age_of, append, gather, row_of_age
from stream_app.learners.scaler import ScalerView

_WINDOW = 0
"""The number of the only queue."""


@compiled
def admit_sliding(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:
    """Take a labelled example in; return the number of examples to learn."""
    append(state, scaler, slot, label, _WINDOW)
    return gather(state, _WINDOW, 0)


@compiled
def correct_sliding(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> None:
    """Change the class of an example in the window."""
    age = age_of(state, scaler, slot, _WINDOW)
    if age >= 0:
        state.classes[row_of_age(state, _WINDOW, age)] = np.float32(label)


def _arrays(state: MethodState) -> State:
    return queue_arrays(state, _WINDOW, "window") | {
        "window_labels": state.classes[queue_rows(state, _WINDOW)].astype(np.int8)
    }


def _fits(state: MethodState, arrays: State) -> bool:
    labels = arrays["window_labels"]
    return (
        queue_fits(state, arrays, "window", state.rows)
        and labels.shape == (len(arrays["window_examples"]),)
        and labels.dtype == np.int8
        and bool(np.isin(labels, (0, 1)).all())
    )


def _load(state: MethodState, arrays: State) -> None:
    state.classes[load_queue(state, arrays, _WINDOW, "window")] = arrays["window_labels"]


def sliding(window: int, features: int) -> Method:
    """Make the method; its state is the window's examples, ids and labels (int8), oldest first.

    Args:
        window: W, at least 1.
        features: Numbers in an example.
    """
    state = new_method_state(SLIDING, features, queue_sizes=QueueSizes(1, window, window, window))
    return Method(state, StatePart(_arrays, _fits, _load))
