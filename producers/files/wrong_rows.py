"""Rows that cannot be sent: counted and shown with their line, and left out or fatal."""

from collections import Counter

from stream_app.errors import DataSetError
from stream_app.producers.files.layout import WrongCellError

SHOWN_ROWS = 10
"""The wrong rows that are shown with their line; the others are only counted."""


class WrongRows:
    """The wrong rows of a file.

    Args:
        file: The name of the file.
        place: What lines are called: `line` or `row`.
        is_skipped: Whether wrong rows are left out; else `add` raises.

    Attributes:
        place: As above.
    """

    def __init__(self, file: str, place: str, *, is_skipped: bool) -> None:
        self._file = file
        self.place = place
        self._is_skipped = is_skipped
        self._counts: Counter[tuple[str, str]] = Counter()
        self._shown: list[str] = []

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, line: int, error: WrongCellError) -> None:
        """Count a row.

        Raises:
            DataSetError: Wrong rows are not skipped.
        """
        column = f", column {error.column}" if error.column else ""
        text = f"{self.place} {line:,}{column}: {error.detail}"
        if not self._is_skipped:
            raise DataSetError(f"{self._file}: {text}. `--wrong-rows skip` leaves such rows out")
        self._counts[error.column, str(error.fault)] += 1
        if len(self._shown) < SHOWN_ROWS:
            self._shown.append(text)

    def report(self, rows: int) -> list[str]:
        """Return what was left out of a file with so many rows, as lines; empty if nothing was."""
        if not self._counts:
            return []
        counts = (
            f"{f'{column}: ' if column else ''}{count:,} x {fault}"
            for (column, fault), count in self._counts.most_common()
        )
        first = [f"  {text}" for text in self._shown]
        more = len(self) - len(self._shown)
        rest = [f"  and {more:,} more"] if more else []
        return [f"left out {len(self):,} of {rows:,} rows: {'; '.join(counts)}", *first, *rest]
