"""Where the state of a task is: in its progress, its inputs and its outputs."""

from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.pipeline.outputs import GENESIS


class CommitPoint(NamedTuple):
    """A committed point of a task: the sequence of a record of progress, and the digest of all outputs up to there."""

    sequence: int
    digest: bytes


_NOTHING_COMMITTED = CommitPoint(-1, GENESIS)
"""The point of a task before its first record of progress."""


class Anchor(NamedTuple):
    """The newest commit record of a task; a snapshot holds the state after it.

    Attributes:
        sequence: Its sequence; -1 before the first commit record.
        digest: Its digest.
        offsets: The input offsets (examples, labels) at which its ranges end.
        progress_offset: Its offset in progress; -1 while nobody can read it there.
    """

    sequence: int
    digest: bytes
    offsets: tuple[int, int]
    progress_offset: int

    @property
    def point(self) -> CommitPoint:
        """The point that this record committed."""
        return CommitPoint(self.sequence, self.digest)


@dataclass(slots=True)
class Position:
    """Where the state of a task is: in its inputs, its progress and its outputs. A restore moves it, then each batch.

    Attributes:
        offsets: The next input offsets (examples, labels).
        anchor: The newest commit record.
        has_changed: Whether an act has changed the state since the anchor, so that no snapshot can be taken.
        point: The newest record of progress; it is the anchor's point unless acts came later.
        output_ends: By output topic, the end of the task's own partition: after a restore the end of the log, later the
            offset after the last record.
        marked: The output topics in which the marker of our last transaction has that offset.
        progress_end: The end of progress, if nobody has written there since.
    """

    offsets: tuple[int, int]
    anchor: Anchor
    point: CommitPoint = _NOTHING_COMMITTED
    has_changed: bool = False
    output_ends: dict[str, int] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    progress_end: int = 0

    def move_to(self, anchor: Anchor) -> None:
        """Move to the state after a commit record."""
        self.anchor = anchor
        self.point, self.offsets = anchor.point, anchor.offsets
        self.has_changed = False

    def next_output(self, topic: str) -> int:
        """Return the offset of the next record in the task's partition of an output topic, if nobody else writes."""
        return self.output_ends[topic] + (topic in self.marked)


def first_position(offsets: tuple[int, int]) -> Position:
    """Return the position of a task that has processed nothing, before these input offsets."""
    return Position(offsets, Anchor(*_NOTHING_COMMITTED, offsets, -1))
