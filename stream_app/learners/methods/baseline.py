"""Baseline: one step on each labelled example alone, with no memory and nothing against imbalance or drift."""

from stream_app.learners.queues import BASELINE, Method, memory_of


def baseline(features: int) -> Method:
    """The method; it has no state of its own."""
    return Method(memory_of(BASELINE, features))
