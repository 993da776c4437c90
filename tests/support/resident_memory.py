"""The resident memory of a process."""

import os
from pathlib import Path


def resident_bytes(process: int | str = "self") -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended.

    Args:
        process: Its id; by default this process.
    """
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
