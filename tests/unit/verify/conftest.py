"""A true history for the tests of `areba verify`."""

import pytest

from tests.support.verified_log import (
    Log,
    history,
)


@pytest.fixture(scope="module")
def true_log() -> Log:
    """Return a faultless history, which tests must not change."""
    return history()


@pytest.fixture
def log(true_log: Log) -> Log:
    """Return a copy of the history for a test to damage."""
    return Log({name: list(records) for name, records in true_log.records.items()})
