"""Run a part of a benchmark in a process of its own, so that it measures the CPU time of nothing else."""

import subprocess
import sys

from ops.keeper import KeptProcess

STOP_S = 30.0


def last_line_of(module: str, *arguments: str, timeout_s: float) -> str:
    """Run a module in a new process, and return the last line that it prints.

    Raises:
        RuntimeError: It ended with another status than 0.
        subprocess.TimeoutExpired: It did not end in time.
    """
    process = KeptProcess([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        text, _ = process.communicate(timeout=timeout_s)
    finally:
        process.end(STOP_S)
    if process.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(arguments)} ended with status {process.returncode}")
    line: str = text.splitlines()[-1]
    return line
