"""The order of the records of progress: what their sequences have to be, and what a sequence that comes twice means.

Each record has the sequence after that of the record before it. Acts may repeat a sequence: two commands that were
started at the same time, before commands fenced one another, have read the same end of progress. Then all of these acts
hold, in the order of the log, and the next record has the sequence after the largest.
"""

from collections.abc import Iterable

from stream_app.errors import StateError
from stream_app.records import REPAIR, SKIP, Act, Commit
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import read_gap

WITHOUT_EFFECT = frozenset({SKIP, REPAIR})
"""Acts that may come after the commit of their sequence: what they ask for was done already."""


class ProgressOrder:
    """Follows the sequences of progress.

    Args:
        before: The sequence before the first record.

    Attributes:
        reached: The largest sequence so far.
    """

    def __init__(self, before: int = -1) -> None:
        self.reached = before
        self._committed = before

    def take(self, record: Commit | Act) -> bool:
        """Take the next record; say whether it holds.

        Raises:
            StateError: It does not follow the records before it.
        """
        if record.sequence != self.reached + 1 and not (isinstance(record, Act) and record.sequence <= self.reached):
            raise StateError(f"sequence {record.sequence} follows {self.reached}")
        if isinstance(record, Act) and record.sequence <= self._committed:
            if record.kind not in WITHOUT_EFFECT:
                raise StateError(
                    f"sequence {record.sequence}: an act {record.kind!r} follows the commit of sequence "
                    f"{self._committed}, whose worker did not know it"
                )
            return False
        self.reached = max(self.reached, record.sequence)
        if isinstance(record, Commit):
            self._committed = record.sequence
        return True


def next_sequence(records: Iterable[Commit | Act]) -> int:
    """Return the sequence of the next record of progress after these, the last records of progress."""
    return max((record.sequence for record in records), default=-1) + 1


def check_end(records: Iterable[Commit | Act], where: str) -> None:
    """Check the end of progress as a restore does.

    Args:
        records: The last commit record and the acts after it, or all records if none is a commit record.
        where: The partition, for the error.

    Raises:
        StateError: The records do not follow one another, or an act cannot be read.
    """
    order: ProgressOrder | None = None
    acts = WholeActs()
    for record in records:
        order = order or ProgressOrder(record.sequence - 1 if isinstance(record, Commit) else -1)
        try:
            whole = acts.add(record) if order.take(record) and isinstance(record, Act) else None
            if whole is not None and whole.kind == SKIP:
                read_gap(whole.text)
        except StateError as problem:
            raise problem.within(where) from problem
