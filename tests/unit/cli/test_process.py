"""How a process ends."""

import subprocess
import sys

CODE = """
import atexit, sys, threading
from stream_app.cli.process import end_process, exit_status_of
from stream_app.errors import StateError

def fail():
    print("out", end="")
    raise StateError("wrong")

atexit.register(threading.Event().wait)
end_process(exit_status_of(fail))
"""


def test_a_worker_ends_at_once_with_its_output_and_status() -> None:
    """A Kafka client that calls Python while the interpreter ends would crash the process, after a clean stop."""
    ended = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, "wrong" in ended.stderr) == (3, "out", True)
