"""No process or folder outlives the command that started it, however the command ends."""

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ops.keeper import KeptProcess

ROOT = Path(__file__).parents[3]

DEADLINE_S = 30.0

COMMAND = """
import sys, time
from pathlib import Path
from ops.keeper import KeptProcess, temporary_folder, unless_interrupted

with temporary_folder("kept-") as folder, unless_interrupted(Path(sys.argv[1])) as product:
    product.mkdir()
    (product / "file").touch()
    (folder / "file").touch()
    command = ["/bin/sh", "-c", "sleep 600 & echo $!; wait"]
    process = KeptProcess(command, stdout=-1, text=True)
    print(folder, process.pid, process.stdout.readline(), flush=True)
    time.sleep(600)
"""


def _runs(pid: int) -> bool:
    """Say whether there is such a process; one that has ended and was not waited for does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_while(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_terminated_parent_leaves_no_process_or_folder(number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM of a benchmark would leave four workers that run forever."""
    product = tmp_path / "product"
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(product)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as command:
        assert command.stdout is not None
        folder, *pids = command.stdout.readline().split()
        assert all(_runs(int(pid)) for pid in pids)
        command.send_signal(number)
        assert command.wait(DEADLINE_S) != 0
    _wait_while(lambda: any(_runs(int(pid)) for pid in pids) or Path(folder).exists() or product.exists())


POOL = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from ops.keeper import end_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_of_a_pool_end_with_their_parent(number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM of the simulation would leave two processes that wait forever."""
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(number)
        assert parent.wait(DEADLINE_S) != 0
    _wait_while(lambda: _runs(child))


@pytest.mark.slow
def test_everything_that_is_started_has_a_keeper() -> None:
    """A process that is started in another way would outlive its command."""
    allowed = {
        "ops/keeper.py",
        "ops/local_kafka/cluster.py",
        "ops/local_kafka/processes.py",
        "tests/simulation/worlds/commands.py",  # thousands of folders with a small file: a keeper each takes too long
        "tests/unit/ops/test_keeper.py",
    }  # the local Kafka has a separate keeper
    names = {"subprocess.Popen", "Popen", "tempfile.mkdtemp", "TemporaryDirectory"}
    wrong = [
        f"{name}:{node.lineno}"
        for folder in ("ops", "benchmarks", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (name := str(path.relative_to(ROOT))) not in allowed
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]
    assert not wrong


def test_several_threads_wait_for_a_process() -> None:
    """A thread that reads the output of a process, and the thread that closes it, find its end at the same moment."""
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            process = KeptProcess(["/bin/true"])
            assert list(pool.map(KeptProcess.wait, [process] * 4)) == [0] * 4
