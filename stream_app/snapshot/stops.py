"""How stopped streams are recorded: in the act `stop`, and in the commit records as long as they are stopped."""

import json
from collections.abc import Mapping
from shlex import quote
from typing import NamedTuple, Self

from stream_app.errors import StateError

MAX_NAMED_STOPS = 50
"""Stopped streams that a commit record names: it has at most some 20 kB, however many streams are stopped."""


def stopped_text(stops: Mapping[str, str]) -> str:
    """Return the field `stopped` of a commit record; `stops` has the reasons by stream, the oldest stop first."""
    return json.dumps(dict(list(stops.items())[:MAX_NAMED_STOPS]), ensure_ascii=False)


class Stop(NamedTuple):
    """A stream that the breaker stopped, and the reason."""

    stream: str
    reason: str

    @property
    def text(self) -> str:
        """The text of the act."""
        return json.dumps(self._asdict(), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the text of an act `stop`.

        Raises:
            StateError: It is not such a text.
        """
        try:
            plain = json.loads(text)
            stop = cls(**plain)
        except (ValueError, TypeError, RecursionError):
            raise StateError(f"the text of a stop is {text[:80]!r}") from None
        if not isinstance(stop.stream, str) or not isinstance(stop.reason, str):
            raise StateError(f"the text of a stop is {text[:80]!r}")
        return stop


def resume_hint(stream: str) -> str:
    """Return the hint that tells an operator how to resume a stream that the breaker stopped."""
    return f"fix the producer, then: areba resume {quote(stream)}"
