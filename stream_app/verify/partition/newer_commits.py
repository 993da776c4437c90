"""Find out whether a worker has committed more while its partition was checked."""

import time
from collections.abc import Callable

from stream_app.progress_records import Commit

_MARKER_WAIT_S = 1.0
"""The markers of a transaction reach its partitions one after the other, within milliseconds: an output can be read a
little before the commit record that says so."""

_PAUSE_S = 0.05


class NewerCommits:
    """Whether the group has committed more since the check of a partition began.

    Args:
        last: The last commit record when the check began; None: there was none.
        read_last: Reads the last commit record now.
    """

    def __init__(self, last: Commit | None, read_last: Callable[[], Commit | None]) -> None:
        self._last = last
        self._read_last = read_last

    def exist(self) -> bool:
        """Say whether the last commit record is another one by now."""
        return self._read_last() != self._last

    def explain_output(self) -> bool:
        """Say whether a newer commit may have written an output that was just read and that no known commit wrote."""
        until_s = time.monotonic() + _MARKER_WAIT_S
        while not self.exist():
            if time.monotonic() > until_s:
                return False
            time.sleep(_PAUSE_S)
        return True
