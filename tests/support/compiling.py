"""Compile the code of all learners before the tests: `python -m tests.support.compiling`.

Otherwise each worker of pytest-xdist would compile the same functions at the same time.
"""

import subprocess
import sys
import time

from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.learners.registry import METHODS

COMPILE_TIMEOUT_S = 600.0


def compile_in_one_process() -> str:
    """Compile, or load, the code of all learners in another process; return a line that says how long it took."""
    begin_s = time.monotonic()
    subprocess.run([sys.executable, "-m", __name__], check=True, timeout=COMPILE_TIMEOUT_S)
    return f"The compiled code of all learners is ready ({time.monotonic() - begin_s:.0f} s)"


def every_learner() -> Config:
    """Return a configuration with a learner of each method."""
    learners = {method: {"method": method} for method in METHODS}
    return Config.model_validate(
        {"learners": learners, "streams": {"any": {"features": 2, "champion": next(iter(learners))}}}, context={}
    )


if __name__ == "__main__":
    warm_up(every_learner().task_settings())
