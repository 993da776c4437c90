"""Reasons that a resend does not cure."""

import pytest

from stream_app.admin.dead_letters.cures import warnings
from stream_app.records import Reason


@pytest.mark.parametrize(
    ("reason", "count"),
    [(Reason.NOT_FINITE, 1), (Reason.BAD_LABEL, 1), (Reason.WRONG_DIMENSION, 1), (Reason.UNKNOWN_STREAM, 0)],
)
def test_a_resend_warns_of_reasons_that_it_does_not_cure(reason: Reason, count: int) -> None:
    """Each such reason has one warning, however many records have it."""
    assert len([*warnings([reason.text, reason.text])]) == count
