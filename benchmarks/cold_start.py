"""What a worker compiles at its first start, before it joins the group: CPU time and memory; and once it is compiled.

`areba compile` runs the same code.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.rows import Row, below
from ops.keeper import temporary_folder

REPETITIONS = 3
LIMIT_S = 600.0

CPU_S, MEMORY_MB = 45.0, 600.0
"""Goals of a cold start."""

CONFIGURATION = """
learners: {areba: {method: areba}}
streams: {pumps: {features: 30}}
"""


class _Start(NamedTuple):
    """CPU seconds and resident megabytes of one start."""

    cpu_s: float
    memory_mb: float


def _start(folder: Path) -> _Start:
    """Compile once, in a child of a new process, so that the largest memory is that of this child."""
    file = folder / "start.yaml"
    file.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "benchmarks.cold_start", str(file)]
    environment = {**os.environ, "AREBA_CACHE_DIR": str(folder)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    return _Start(*json.loads(done.stdout))


def rows() -> list[Row]:
    """Return the rows of cold and warm starts."""
    cold, warm = [], []
    for _ in range(REPETITIONS):
        with temporary_folder("areba-cold-") as folder:
            cold.append(_start(folder))
            warm.append(_start(folder))
    first, next_ = (_Start(*(median(figures) for figures in zip(*starts, strict=True))) for starts in (cold, warm))
    what = f"median of {REPETITIONS} starts of a worker"
    return [
        below(f"{what} that compiles: CPU", 30, first.cpu_s, "s", CPU_S),
        below(f"{what} that compiles: largest memory", 30, first.memory_mb, "MB", MEMORY_MB),
        Row(f"{what} with compiled code: CPU", 30, next_.cpu_s, None, None, "printed", None, "s"),
        Row(f"{what} with compiled code: largest memory", 30, next_.memory_mb, None, None, "printed", None, "MB"),
    ]


if __name__ == "__main__":
    command = [sys.executable, "-m", "stream_app.cli", "compile", "-c", sys.argv[1]]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
