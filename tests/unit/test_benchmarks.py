"""A benchmark is run by hand, and rarely: a change of a schema must not leave its reference unable to run."""

import pytest

from benchmarks.way import Inputs, fraud, plain

pytestmark = pytest.mark.slow


def test_the_plain_reference_of_the_whole_way_still_runs() -> None:
    """It writes records of today's schemas."""
    assert plain(Inputs(fraud(50)), 20)() == 20
