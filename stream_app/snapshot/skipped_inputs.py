"""An accepted gap: inputs are gone, and an operator let a task go on without them; an act in progress.

The task goes on from the state that its newest readable snapshot holds. What it had processed behind that is committed
and stays so, but its models have forgotten it; what lies between the committed offsets and the first that is left was
never processed.
"""

import json
from typing import NamedTuple

from stream_app.errors import StateError

Offsets = tuple[int, int]
"""Of examples and labels."""


class Gap(NamedTuple):
    """What was accepted.

    Attributes:
        behind: Sequence of the commit record whose state the task goes on from; -1: it begins afresh.
        digest: Of the last commit record before the gap, 32 bytes.
        processed: Offsets behind what that state has seen.
        start: Offsets behind the last commit record.
        end: Where the task goes on.
    """

    behind: int
    digest: bytes
    processed: Offsets
    start: Offsets
    end: Offsets

    @property
    def forgotten(self) -> Offsets:
        """Offsets, by side, whose outputs are committed, but which the state has not seen."""
        return self.start[0] - self.processed[0], self.start[1] - self.processed[1]

    @property
    def skipped(self) -> Offsets:
        """Offsets, by side, that are never processed."""
        return self.end[0] - self.start[0], self.end[1] - self.start[1]

    def words(self) -> str:
        """What is lost, for people."""
        state = f"the snapshot behind sequence {self.behind}" if self.behind >= 0 else "models that know nothing"
        lost = "{:,} offsets of examples and {:,} of labels"
        return (
            f"from {state}: forgets {lost.format(*self.forgotten)} that were processed, "
            f"skips {lost.format(*self.skipped)} that were not"
        )

    def text(self) -> str:
        """Of the act."""
        whole = {**self._asdict(), "digest": self.digest.hex()}
        return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def read_gap(text: str) -> Gap:
    """What `Gap.text` wrote.

    Raises:
        StateError: It is none.
    """
    try:
        data = json.loads(text)
        behind, digest = int(data["behind"]), bytes.fromhex(data["digest"])
        processed, start, end = ((int(one), int(two)) for one, two in (data[n] for n in ("processed", "start", "end")))
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise StateError(f"an act is no gap: {problem!r}") from None
    if behind < -1 or not all(0 <= a <= b <= c for a, b, c in zip(processed, start, end, strict=True)):
        raise StateError(f"an act is no gap: behind {behind}, {processed} {start} {end}")
    return Gap(behind, digest, processed, start, end)
