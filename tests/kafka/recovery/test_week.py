"""A quiet week: pauses longer than every timeout of the broker, retention, kills, a holiday."""

from pathlib import Path

import pytest

from tests.chaos.week import Week
from tests.support.kafka.hasty_broker import FORGETS_S, hasty_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow(150)]


def test_a_quiet_week_and_a_holiday(tmp_path: Path) -> None:
    """Nobody watches: no record, no prediction and no model may be lost, and no command be needed."""
    with hasty_kafka() as kafka:
        Week(kafka, tmp_path, 2.5 * FORGETS_S, days=3, seed=2).run()
