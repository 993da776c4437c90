"""The README's own data, and the tutorial's own programs, on a real Kafka: all blocks as printed, in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ops.demo_csv.payments import PAYMENTS, write_payments
from ops.local_kafka import jars

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(560)]

ROOT = Path(__file__).parents[3]

PAGE, SECTION = ROOT / "docs" / "tutorial.md", "## 4. Your own programs\n"

FIRST_PAGE, FIRST_SECTION = ROOT / "README.md", "## Your own data\n"

RUN_TIMEOUT_S = 500.0
"""Time to run, including compiling on a busy machine."""

WAIT = """
until areba inspect -c my.yaml --json | python -c 'import json, sys
tasks = json.load(sys.stdin)["tasks"]
sys.exit(any(task[side]["lag"] for task in tasks for side in ("examples", "labels")))'
do sleep 1; done
"""
"""What a reader does before the commands that show what was learned: wait until the worker has processed everything."""


def script(page: Path, section: str) -> list[str]:
    """Return the blocks of a section: shell as it is, YAML into `my.yaml`, programs into Python."""
    text = page.read_text(encoding="utf-8").partition(section)[2].partition("\n## ")[0].partition("\n### ")[0]
    parts = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language == "sh":
            parts.append(block)
        elif language == "yaml":
            parts.append(f"cat > my.yaml <<'EOF'\n{block}EOF\n")
        else:
            parts.append(f"python - <<'EOF'\n{block}EOF\n")
    return parts


def _run(parts: list[str], folder: Path) -> str:
    """Run the parts of a script with this checkout, and return what they print; at the end, delete the local Kafka."""
    if missing := jars.missing_tools():
        reason = f"{' and '.join(missing)} not on the PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AREBA_KAFKA")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    try:
        with (folder / "out.txt").open("w") as out:
            status = subprocess.run(
                ["/bin/bash", "-c", "\n".join(["set -eu", *parts])], cwd=folder, env=environment, stdout=out,
                stderr=subprocess.STDOUT, timeout=RUN_TIMEOUT_S, check=False,
            ).returncode  # fmt: skip
        output = (folder / "out.txt").read_text(encoding="utf-8")
        assert status == 0, output
        return output
    finally:
        command = [sys.executable, "-m", "ops.local_kafka", "down", "--delete"]
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=120)


def test_own_data_runs_as_printed(tmp_path: Path) -> None:
    """A newcomer who copies each line gets figures, alerts, a reason and a clean verification."""
    install, describe, printed, *rest = script(FIRST_PAGE, FIRST_SECTION)
    *_, requirement, compile_, start = install.splitlines(keepends=True)
    assert requirement.startswith("pip install -c requirements.txt -e ")
    assert compile_.startswith("areba compile ")
    send, look, stop = rest
    write_payments(tmp_path / "payments.csv", PAYMENTS)
    output = _run([start, describe, "cp my.yaml described.yaml", send, WAIT, look, stop], tmp_path)
    shown = yaml.safe_load((tmp_path / "described.yaml").read_text(encoding="utf-8"))
    assert shown == yaml.safe_load(re.search(r"EOF'\n(.*)EOF\n", printed, re.DOTALL)[1])  # type: ignore[index]
    assert re.search(r"^ payments +areba \* +0\.\d+ +0\.\d+ +0\.\d+", output, re.MULTILINE), output
    assert '"predicted_class": 1' in output
    assert "areba (champion): class 1" in output
    assert re.search(r"^column amount = ", output, re.MULTILINE), output
    assert "all records are accounted for" in output
    assert "Stopped" in output


def test_own_programs_run_as_printed(tmp_path: Path) -> None:
    """A newcomer who copies each line must get metrics of both learners and a clean verification."""
    output = _run(script(PAGE, SECTION), tmp_path)
    found = re.findall(r"^Metric\(stream='pumps', learner='(\w+)', champion=\w+, labelled=10000", output, re.MULTILINE)
    assert found == ["areba", "baseline"], output
    assert "Stopped" in output
