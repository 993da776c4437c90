"""The README's stream of your own on a real Kafka: all blocks of that section, as printed, in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ops.local_kafka import jars

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(560)]

ROOT = Path(__file__).parents[3]

SECTION = "## A stream of your own\n"

RUN_TIMEOUT_S = 500.0
"""Time to run, including compiling on a busy machine."""


def script(readme: str) -> str:
    """Join the blocks of the section: shell as it is, YAML into `my.yaml`, programs into Python."""
    section = readme.partition(SECTION)[2].partition("\n## ")[0]
    parts = ["set -eu"]
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        if language == "sh":
            parts.append(block)
        elif language == "yaml":
            parts.append(f"cat > my.yaml <<'EOF'\n{block}EOF\n")
        else:
            parts.append(f"python - <<'EOF'\n{block}EOF\n")
    return "\n".join(parts)


def test_a_stream_of_your_own_runs_as_printed(tmp_path: Path) -> None:
    """A newcomer who copies each line must get metrics of both learners and a clean verification."""
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
    text = script((ROOT / "README.md").read_text(encoding="utf-8"))
    try:
        with (tmp_path / "out.txt").open("w") as out:
            status = subprocess.run(
                ["/bin/bash", "-c", text], cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT,
                timeout=RUN_TIMEOUT_S, check=False,
            ).returncode  # fmt: skip
        output = (tmp_path / "out.txt").read_text(encoding="utf-8")
        assert status == 0, output
        found = re.findall(
            r"^Metric\(stream='pumps', learner='(\w+)', champion=\w+, labelled=10000", output, re.MULTILINE
        )
        assert found == ["areba", "baseline"], output
        assert "Stopped" in output
    finally:
        command = [sys.executable, "-m", "ops.local_kafka", "down", "--delete"]
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=120)
