"""Compile the code of all learners before the tests.

Otherwise each worker of pytest-xdist would compile the same functions at the same time.
"""

import subprocess
import sys
import time

COMPILE_TIMEOUT_S = 600.0


def compile_in_one_process() -> str:
    """Compile, or load, the code of all learners in another process; return a line that says how long it took."""
    begin_s = time.monotonic()
    subprocess.run([sys.executable, "-m", "stream_app.cli", "compile"], check=True, timeout=COMPILE_TIMEOUT_S)
    return f"The compiled code of all learners is ready ({time.monotonic() - begin_s:.0f} s)"
