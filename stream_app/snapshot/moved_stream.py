"""The state of a stream that another task had (`areba repartition`): the text of an act in progress.

Progress holds the state itself, as it does for imported models: the changelog of the former task loses the state with
the snapshots that follow, and a restore, `areba verify` and `areba explain` of the new task must begin with it.
"""

import base64
import binascii
import json
import zlib
from typing import NamedTuple, Self

from stream_app.errors import StateError
from stream_app.snapshot.format import Arrays, Columns, checksum_of, named, pack, unpack, without_prefix
from stream_app.snapshot.segments import CLOSED, CORE, PENDING, Exporting


class MovedStream(NamedTuple):
    """A stream and its whole state, as `Task.load_stream` takes it.

    Attributes:
        stream: Its name.
        core: All state but the rows of pending examples and closed ids.
        pending: The rows of all pending examples.
        closed: The rows of all remembered closed ids.
    """

    stream: str
    core: Arrays
    pending: Arrays
    closed: Arrays

    @classmethod
    def of(cls, stream: Exporting) -> Self:
        """Return the whole state of a stream."""
        pending = stream.pending_rows(stream.pending_arrivals())
        return cls(stream.name, stream.core_state(), pending, stream.closed_rows(*stream.closed_span()))

    def columns(self) -> tuple[Columns, Columns, Columns]:
        """Return the state in the order of `Task.load_stream`."""
        return dict(self.core), dict(self.pending), dict(self.closed)

    def text(self) -> str:
        """Return the text of the act, as `from_text` reads it."""
        parts = {CORE: self.core, PENDING: self.pending, CLOSED: self.closed}
        arrays: Columns = {}
        for kind, columns in parts.items():
            arrays |= named(f"{kind}.", columns)
        content = pack(arrays)
        packed = base64.b64encode(zlib.compress(content, 1)).decode()
        return json.dumps({"stream": self.stream, "checksum": checksum_of(content), "content": packed})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the state in the text of an act.

        Raises:
            StateError: The text is not the state of a stream.
        """
        try:
            data = json.loads(text)
            content = zlib.decompress(base64.b64decode(data["content"], validate=True))
            if checksum_of(content) != str(data["checksum"]):
                raise StateError("the checksum of a moved stream does not match its content")
            arrays, name = unpack(content, "moved stream"), str(data["stream"])
        except (ValueError, TypeError, KeyError, RecursionError, binascii.Error, zlib.error) as problem:
            raise StateError(f"an act is not a moved stream: {problem!r}") from None
        return cls(name, *(without_prefix(arrays, f"{kind}.") for kind in (CORE, PENDING, CLOSED)))


class Repartition(NamedTuple):
    """From how many to how many partitions an application moved: the text of an act `repartition`."""

    before: int
    after: int

    def text(self) -> str:
        """Return the text of the act, as `from_text` reads it."""
        return json.dumps({"from": self.before, "to": self.after})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return what the text of an act says.

        Raises:
            StateError: The text is not that of a repartition.
        """
        try:
            data = json.loads(text)
            found = cls(int(data["from"]), int(data["to"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise StateError(f"the text of a repartition is {text[:80]!r}") from None
        if not 0 < found.before < found.after or found.after % found.before:
            raise StateError(f"the text of a repartition is {text[:80]!r}")
        return found
