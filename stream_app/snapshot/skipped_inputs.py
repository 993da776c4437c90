"""Deleted inputs that an operator lets a task skip (`areba state skip`): the text of an act in progress.

The task continues from the state that its newest readable snapshot holds. Inputs that it had processed after this
snapshot are skipped by the state: their outputs are committed and remain valid, but no model learns from them again.
Inputs between the last commit and the first offset that is left were never processed, and never will be.
"""

import json
from typing import NamedTuple, Self

from stream_app.errors import StateError

Offsets = tuple[int, int]
"""Offsets of examples and of labels."""


class Gap(NamedTuple):
    """The inputs that a task skips, and the state that it continues from.

    Attributes:
        state_sequence: Sequence of the last commit record in this state; -1: the task begins with new models.
        digest: Digest of the last commit record, 32 bytes; the chain of digests continues from it.
        processed: The offsets after the last records that the state has processed.
        start: The offsets after the last records that were processed and committed.
        end: The offsets at which the task continues.
    """

    state_sequence: int
    digest: bytes
    processed: Offsets
    start: Offsets
    end: Offsets

    @property
    def forgotten(self) -> Offsets:
        """Numbers of offsets (examples, labels) whose outputs are committed, but which the state has not processed."""
        return self.start[0] - self.processed[0], self.start[1] - self.processed[1]

    @property
    def skipped(self) -> Offsets:
        """Numbers of offsets (examples, labels) that are never processed."""
        return self.end[0] - self.start[0], self.end[1] - self.start[1]

    def words(self) -> str:
        """Return what is lost, for people; the text follows "continues"."""
        state = f"the snapshot of sequence {self.state_sequence}" if self.state_sequence >= 0 else "untrained models"
        lost = "{:,} offsets of examples and {:,} of labels"
        return (
            f"from {state}: skips {lost.format(*self.forgotten)} that were processed after this state, and "
            f"{lost.format(*self.skipped)} that were never processed"
        )

    def text(self) -> str:
        """Return the text of the act, as `from_text` reads it."""
        stored = self._asdict()
        stored["behind"] = stored.pop("state_sequence")  # its name in the stored text
        stored["digest"] = self.digest.hex()
        return json.dumps(stored, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse what `Gap.text` wrote.

        Raises:
            StateError: The text does not have this form, or its offsets are not in order.
        """
        try:
            data = json.loads(text)
            state_sequence, digest = int(data["behind"]), bytes.fromhex(data["digest"])
            processed, start, end = (
                (int(one), int(two)) for one, two in (data[n] for n in ("processed", "start", "end"))
            )
        except (ValueError, TypeError, KeyError, RecursionError) as problem:
            raise StateError(f"the text of a skip cannot be read: {problem!r}") from None
        if state_sequence < -1 or not all(0 <= a <= b <= c for a, b, c in zip(processed, start, end, strict=True)):
            raise StateError(f"the text of a skip cannot be read: sequence {state_sequence}, {processed} {start} {end}")
        return cls(state_sequence, digest, processed, start, end)
