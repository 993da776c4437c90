"""Thirty kills on a seeded schedule, in every build: `make chaos N=30`, in one trial."""

import os
from pathlib import Path

import pytest

from stream_app.errors import ConfigurationError
from tests.chaos.trial import run_trial

pytestmark = [pytest.mark.kafka, pytest.mark.slow(220), pytest.mark.timeout(1_800)]

KILLS = 30

SEED = 7
"""Seed of a schedule with every kind of fault."""


def test_thirty_kills_leave_no_trace(tmp_path: Path) -> None:
    """Workers and brokers die while others start, restore, save and commit; no reader of the topics can notice it.

    It covers what the other tests of recovery cover, in cases where two of their faults coincide.
    """
    try:
        result = run_trial(tmp_path / "trial", SEED, 0, KILLS, lambda _: None)
    except ConfigurationError as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))
    assert result.kills == KILLS
    assert {"broker SIGKILL", "worker SIGKILL", "worker SIGSTOP, SIGCONT"} <= result.faults.keys()
    assert {"live", "restoring"} & result.stages.keys(), "some were at work, and not only starting"
    assert result.commits > 2 * KILLS, "the application got ahead between the kills"
    assert result.snapshots > KILLS, "and took snapshots"
