"""Cut long acts into several records of progress, and join them again.

The configuration of 10,000 streams is a text of several megabytes, and a record of progress holds less than one. So the
text is cut, and the size of a record does not grow with the number of streams. Each part has its own sequence, so that
readers of progress can check that sequences follow one another before they join the parts here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from stream_app.errors import StateError
from stream_app.progress_records import Act, Commit

PART_CHARACTERS = 120_000
"""At most 480,000 bytes in UTF-8: half of what a broker accepts by default."""

_MAX_PARTS = 1_000
"""More than the settings of 100,000 streams with sixteen learners each need."""

MAX_CHARACTERS = _MAX_PARTS * PART_CHARACTERS
"""Of the text of an act."""


def in_parts(act: Act) -> tuple[Act, ...]:
    """Cut an act into parts; the first has the sequence of the act, the others have the sequences after it.

    Raises:
        StateError: The text is too long.
    """
    texts = [act.text[start : start + PART_CHARACTERS] for start in range(0, max(1, len(act.text)), PART_CHARACTERS)]
    if len(texts) > _MAX_PARTS:
        raise StateError(f"a text of {len(act.text):,} characters is longer than {MAX_CHARACTERS:,}")
    return tuple(
        replace(act, sequence=act.sequence + number, text=text, part=number, parts=len(texts))
        for number, text in enumerate(texts)
    )


class WholeActs:
    """Joins parts as they are read, and drops those without an end, whose writer was killed."""

    def __init__(self) -> None:
        self._parts: list[Act] = []

    def add(self, act: Act) -> Act | None:
        """Take the next act of progress.

        Returns:
            The whole act, with the sequence of its last part; None if parts are still missing.

        Raises:
            StateError: The act is a part that does not follow the part before it.
        """
        if act.part == 0:
            self._parts = []
        expected = (len(self._parts), self._parts[-1].sequence + 1 if self._parts else act.sequence)
        same = not self._parts or (self._parts[0].kind, self._parts[0].parts) == (act.kind, act.parts)
        if (act.part, act.sequence) != expected or not same or not act.part < act.parts <= _MAX_PARTS:
            raise StateError(
                f"sequence {act.sequence}: part {act.part} of {act.parts} of an act {act.kind!r} does not follow "
                f"{len(self._parts)} parts"
            )
        self._parts.append(act)
        if len(self._parts) < act.parts:
            return None
        text = "".join(part.text for part in self._parts)
        self._parts = []
        return replace(act, text=text, part=0, parts=1)


def whole_acts(records: Iterable[Commit | Act]) -> Iterator[Commit | Act]:
    """Yield the records with the parts of each act joined.

    Raises:
        StateError: A part does not follow the part before it.
    """
    acts = WholeActs()
    for record in records:
        whole = acts.add(record) if isinstance(record, Act) else record
        if whole is not None:
            yield whole
