"""The behaviour of Kafka that docs/lost_markers.md describes."""

import os
import subprocess
import sys

import pytest

from ops.local_kafka.jars import missing_tools
from tests.support.documents import ROOT, blocks
from tests.support.kafka.markers import LEAVES_OUT_MARKERS

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]


@pytest.mark.skipif(not LEAVES_OUT_MARKERS, reason="this version of Kafka writes the marker later")
@pytest.mark.skipif(bool(missing_tools()), reason="Java or Maven is not on the PATH")
def test_a_committed_record_that_nobody_can_read() -> None:
    """If this fails, Kafka no longer loses markers: docs/lost_markers.md says what can be deleted."""
    (program,) = blocks((ROOT / "docs" / "lost_markers.md").read_text(encoding="utf-8"), "python")
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["committed", "readable up to offset 0 of 1"]
