"""Baseline: one step on each labelled example alone, with no memory and nothing against imbalance or drift."""

from stream_app.learners.method import Method
from stream_app.learners.method_state import BASELINE, new_method_state


def baseline(features: int) -> Method:
    """Make the method; it has no state."""
    return Method(new_method_state(BASELINE, features))
