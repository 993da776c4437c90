"""A true history for the tests of `areba verify`."""

import pytest

from tests.support.verified_log import (
    Log,
    history,
)


@pytest.fixture(scope="module")
def true_log() -> Log:
    """A history in which nothing is off; not to be changed."""
    return history()


@pytest.fixture
def log(true_log: Log) -> Log:
    """A copy, to break something in it."""
    return Log({name: list(records) for name, records in true_log.records.items()}, dict(true_log.offsets))
