"""The state of a learner that an operator imports into a task (`areba state import`): the text of an act in progress.

Progress holds the state itself, not a reference to a file, so every later reader of progress restores the same bits.
"""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.config import LearnerSettings
from stream_app.errors import StateError
from stream_app.snapshot.format import Arrays, checksum_of, pack, unpack

MAX_PARTS = 200
"""Parts of a state that an older version wrote: 90 MB, ten times the state of the paper's largest network."""


class Seed(NamedTuple):
    """A state that a learner starts from.

    Attributes:
        stream: Name of the stream that the learner belongs to.
        learner: Name of the learner.
        features: Number of features of an example.
        settings: Settings that the state was trained with.
        state: The learner's arrays by name, as in a snapshot.
    """

    stream: str
    learner: str
    features: int
    settings: LearnerSettings
    state: Arrays

    def text(self) -> str:
        """Return the text of the act, as `Seeds` reads it."""
        content = pack(self.state)
        plain = {
            "stream": self.stream,
            "learner": self.learner,
            "features": self.features,
            "settings": self.settings.model_dump(mode="json"),
            "checksum": checksum_of(content),
            "parts": 1,
            "part": 0,
            "content": base64.b64encode(content).decode(),
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


@dataclass(slots=True)
class Seeds:
    """Reads imported states, and joins those that an older version cut into several acts.

    Parts without an end are dropped with `clear` when other records follow.
    """

    parts: list[bytes] = field(default_factory=list)
    checksum: str = ""

    def add(self, text: str) -> Seed | None:
        """Take the text of the next act; return the state if it is complete, otherwise None.

        Raises:
            StateError: The text is not a part of an imported state, or not the next part.
        """
        try:
            data = json.loads(text)
            number, count, checksum = int(data["part"]), int(data["parts"]), str(data["checksum"])
            if number == 0:
                self.parts, self.checksum = [], checksum
            if number != len(self.parts) or checksum != self.checksum or not number < count <= MAX_PARTS:
                raise StateError(
                    f"part {number} of {count} of an imported state does not follow part {len(self.parts) - 1}"
                )
            self.parts.append(base64.b64decode(data["content"], validate=True))
            if len(self.parts) < count:
                return None
            content = b"".join(self.parts)
            if checksum_of(content) != checksum:
                raise StateError("the checksum of an imported state does not match its parts")
            self.clear()
            settings = LearnerSettings.model_validate(data["settings"], context={"stored": True})
            state = unpack(content, "imported state")
            return Seed(str(data["stream"]), str(data["learner"]), int(data["features"]), settings, state)
        except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as problem:
            raise StateError(f"an act is not a part of an imported state: {problem!r}") from None

    def clear(self) -> None:
        """Drop the parts read so far."""
        self.parts, self.checksum = [], ""
