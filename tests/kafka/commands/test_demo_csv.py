"""The demo of a file of one's own: the commands of the tutorial, which a data scientist copies, on a real Kafka."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ops.broker import Broker
from ops.demo_csv.__main__ import COLUMNS
from ops.demo_csv.payments import write_payments
from tests.support.documents import ROOT, blocks

pytestmark = [pytest.mark.kafka, pytest.mark.slow(40), pytest.mark.timeout(420)]

RUN_TIMEOUT_S = 300.0
"""Time to run, including compiling on a busy machine."""


def test_the_file_is_learned_and_verified(kafka: Broker, tmp_path: Path) -> None:
    """It ends by itself with figures, a prediction with its reason, and a clean verification, and leaves no worker."""
    arguments = ("--bootstrap-servers", str(kafka.bootstrap_servers), "--payments", "2000", "--no-dashboard")
    done = subprocess.run(
        [sys.executable, "-m", "ops.demo_csv", *arguments],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^ payments +areba \* +0\.\d+", done.stdout, re.MULTILINE), done.stdout
    assert "G-mean recall precis." in done.stdout
    assert "areba (champion): class 1" in done.stdout
    assert '"type": "Prediction"' in done.stdout
    assert re.search(r"^column amount = [\d.]+ \(amount [\d.]+\): [+-]\d\.\d+", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^ +country: \{category: \{most: \d\}\}", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^ +account_age_days: \{missing: mean\}", done.stdout, re.MULTILINE), done.stdout
    assert "all records are accounted for" in done.stdout
    for line in re.findall(r"^\$ (.*)$", done.stdout, re.MULTILINE):
        assert _plain(line) in _tutorial_commands(), line


def _plain(line: str) -> str:
    return re.sub(r" --limit 1$", "", re.sub(r" t\d+ ", " t4711 ", line))


def _tutorial_commands() -> list[str]:
    """Return the commands of the tutorial's section, each on one line and without its comment."""
    section = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").partition("## 1. ")[0]
    text = "\n".join(blocks(section, "sh")).replace("\\\n", " ")
    return [re.sub(r" +", " ", line.partition(" #")[0]).strip() for line in text.splitlines()]


def test_the_file_is_the_same_for_everyone(tmp_path: Path) -> None:
    """The figures of the demo can be compared."""
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    write_payments(first, 100)
    write_payments(second, 100)
    lines = first.read_text().splitlines()
    assert first.read_bytes() == second.read_bytes()
    assert len(lines) == 101
    assert all(name in lines[0].split(",") for name in COLUMNS.split()[1::2] if name != "yes")
