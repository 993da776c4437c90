"""How much memory the machine or the container allows a process, and what a process does with freed memory."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")

_OWN_CGROUPS = Path("/proc/self/cgroup")

_M_MMAP_THRESHOLD = -3
"""An option of glibc, from its `malloc.h`."""

_MMAP_BYTES = 1 << 20
"""The size from which a block is mapped alone, and returned when it is freed."""


def return_freed_memory() -> None:
    """Make glibc return freed memory to the system; with another C library, do nothing.

    By default glibc raises this threshold when a large block is freed, and with it the free memory that each arena may
    keep, up to 64 MB. The threads of Kafka's clients have an arena each, and a worker whose tasks come and go frees
    large tables: of 970 MB of such a worker, 550 MB were free. A threshold that is set is not raised (mallopt(3)).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


def memory_limit_bytes(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> tuple[int, str]:
    """Find the least limit: of physical memory, and of the cgroups (version 1 or 2) that this process is in.

    Args:
        cgroups: Where the cgroup file system is mounted.
        own: The file that lists the cgroups of this process (`man 7 cgroups`).

    Returns:
        The limit in bytes, and what imposes it, as text for operators.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [(limit, "the cgroup") for limit in _cgroup_limits(cgroups, own)]
    return min([(physical, "the machine"), *limits])


def _cgroup_limits(cgroups: Path, own: Path) -> Iterator[int]:
    """Yield the limit of the process's cgroup and of each ancestor; inside a container its own cgroup is the root."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        place = root / path.strip("/")
        for folder in (place, *place.parents):
            limit = _limit_in(folder / name)
            if limit is not None:
                yield limit
            if folder == root:
                break


def _limit_in(file: Path) -> int | None:
    """Read a limit from a file; return None if the file is missing or sets no limit."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
