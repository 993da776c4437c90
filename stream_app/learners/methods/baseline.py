"""Baseline: one step on each labelled example alone, with no memory and nothing against imbalance or drift."""

from stream_app.config import LearnerSettings
from stream_app.learners.method import Functions, LearningMethod, RunningMethod
from stream_app.learners.method_state import new_tables
from stream_app.learners.queues import gather_one


def _make(_settings: LearnerSettings, features: int, _seed: bytes) -> RunningMethod:
    """Make the method; it has no state."""
    return RunningMethod(new_tables(features))


BASELINE = LearningMethod("baseline", Functions(gather_one), _make)
