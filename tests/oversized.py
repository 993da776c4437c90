"""Files, folders, classes and functions that exceed the size limits, and why (tests/unit/test_architecture.py)."""

from collections.abc import Mapping

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("stream_app/cli/commands/", "files"): "one file for each command or group of commands",
    ("stream_app/worker/reports/events.py", "lines"): "a table, with a class for each event",
    ("tests/simulation/worlds/world.py", "lines"): "one world: every fault works on the same processes and topics",
    ("tests/simulation/worlds/world.py:World", "lines"): "as above",
}
"""Reasons by name and kind of size."""
