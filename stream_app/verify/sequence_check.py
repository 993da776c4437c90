"""Compare the records of a topic with the records that should be there, in order; pure.

After a difference the comparison continues: one lost or added record is one finding, not one for every record after it.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import dropwhile, islice
from typing import Generic, Protocol, TypeVar

from stream_app.verify.partition.deleted import Fate
from stream_app.verify.results import MAX_FINDINGS

_LOOKAHEAD_RECORDS = 2_000
"""A record that is not where it should be is searched for within this many records of both sequences."""

Expected = TypeVar("Expected")
Found = TypeVar("Found")
Expected_contra = TypeVar("Expected_contra", contravariant=True)
Found_contra = TypeVar("Found_contra", contravariant=True)


class Handler(Protocol[Expected_contra, Found_contra]):
    """What a comparison reports, and how it distinguishes records."""

    def key_of_expected(self, expected: Expected_contra) -> Hashable:
        """Return what identifies a record that should be there."""

    def key_of_found(self, found: Found_contra) -> Hashable:
        """Return what identifies a record of the topic."""

    def on_match(self, expected: Expected_contra, found: Found_contra) -> None:
        """Take a pair of records, which have the same key or the same place."""

    def on_missing(self, expected: Expected_contra, previous: Found_contra | None) -> None:
        """Take a record that is missing after the previous one."""

    def on_misplaced(self, expected: Expected_contra, found: Found_contra) -> None:
        """Take a record that comes earlier than it should; `on_match` follows."""

    def on_unexpected(self, found: Found_contra) -> None:
        """Take a record that should not be there."""


class SequenceCheck(Generic[Expected, Found]):
    """The comparison of one topic."""

    def __init__(self, found: Iterable[Found], handler: Handler[Expected, Found]) -> None:
        self._rows: Iterator[Found] = iter(found)
        self._handler = handler
        self._expected: deque[tuple[Hashable, Expected]] = deque()
        self._found: deque[tuple[Hashable, Found]] = deque()
        self._early: dict[Hashable, deque[Found]] = {}  # passed over, in case they are expected later
        self._early_count = 0
        self._previous: Found | None = None

    def expect(self, records: Iterable[Expected], fate: Fate = "kept") -> None:
        """Add the records of one commit, and compare as far as the lookahead allows.

        Args:
            records: The records that come next.
            fate: Whether the topic still has them; if it has perhaps some, it begins among them, or after them.
        """
        if fate == "deleted":
            return
        handler = self._handler
        named: Iterator[tuple[Hashable, Expected]] = ((handler.key_of_expected(record), record) for record in records)
        if fate == "straddles" and not self._expected:
            named = dropwhile(lambda pair: not (self._look_ahead(1) and self._found[0][0] == pair[0]), named)
        self._expected.extend(named)
        self._compare(keep=_LOOKAHEAD_RECORDS)

    def finish(self, explains_more: Callable[[], bool]) -> None:
        """Compare what is left.

        Args:
            explains_more: Is called where the topic has further records; says whether they are of a newer commit, and
                so not unexpected.
        """
        self._compare(keep=0)
        for passed in self._early.values():
            for found in passed:
                self._handler.on_unexpected(found)
        if not self._look_ahead(1) or explains_more():
            return
        while self._look_ahead(1):
            self._handler.on_unexpected(self._found.popleft()[1])

    def _look_ahead(self, count: int) -> bool:
        """Read until this many records are at hand; say whether there is any."""
        while len(self._found) < count:
            row = next(self._rows, None)
            if row is None:
                break
            self._found.append((self._handler.key_of_found(row), row))
        return bool(self._found)

    def _compare(self, keep: int) -> None:
        """Compare until the sequences differ and fewer expected records than `keep` are known."""
        while self._expected:
            key, expected = self._expected[0]
            if self._look_ahead(1) and self._found[0][0] == key:
                self._match(expected)
            elif len(self._expected) > keep:
                self._differ(key, expected)
            else:
                return

    def _match(self, expected: Expected) -> None:
        """Compare the first records of both sequences."""
        self._expected.popleft()
        self._previous = self._found.popleft()[1]
        self._handler.on_match(expected, self._previous)

    def _differ(self, key: Hashable, expected: Expected) -> None:
        """Decide which record is missing, misplaced, unexpected or another one."""
        if passed := self._early.get(key):
            found = passed.popleft()
            self._early_count -= 1
            self._expected.popleft()
            self._handler.on_misplaced(expected, found)
            self._handler.on_match(expected, found)
            return
        self._look_ahead(_LOOKAHEAD_RECORDS)
        place = next((place for place, (other, _) in enumerate(self._found) if other == key), None)
        if place is not None:
            for _ in range(place):
                self._pass_over(*self._found.popleft())
        elif not self._found or any(
            self._found[0][0] == other for other, _ in islice(self._expected, _LOOKAHEAD_RECORDS)
        ):
            self._handler.on_missing(expected, self._previous)
            self._expected.popleft()
        else:
            self._match(expected)

    def _pass_over(self, key: Hashable, found: Found) -> None:
        self._previous = found
        if self._early_count < MAX_FINDINGS:
            self._early.setdefault(key, deque()).append(found)
            self._early_count += 1
        else:
            self._handler.on_unexpected(found)
