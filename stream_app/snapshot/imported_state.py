"""A learner's state that an operator gives to a task: an act in progress.

Progress holds the state itself, not a name of it, so that whoever goes through progress later comes to the same bits.
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
"""Of a seed that an older version wrote: 90 MB, ten times the state of the paper's largest network."""


class Seed(NamedTuple):
    """What to begin with: the state of a learner, how it was made, and the numbers in an example."""

    stream: str
    learner: str
    features: int
    settings: LearnerSettings
    state: Arrays

    def text(self) -> str:
        """Write it as the text of an act."""
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
    """Read seeds, and put those together that an older version cut; forget parts without an end when records follow."""

    parts: list[bytes] = field(default_factory=list)
    checksum: str = ""

    def add(self, text: str) -> Seed | None:
        """Take the next part in; the seed, if it is whole.

        Raises:
            StateError: It is no part, or not the next one.
        """
        try:
            data = json.loads(text)
            number, count, checksum = int(data["part"]), int(data["parts"]), str(data["checksum"])
            if number == 0:
                self.parts, self.checksum = [], checksum
            if number != len(self.parts) or checksum != self.checksum or not number < count <= MAX_PARTS:
                raise StateError(f"part {number} of {count} of a seed does not follow part {len(self.parts) - 1}")
            self.parts.append(base64.b64decode(data["content"], validate=True))
            if len(self.parts) < count:
                return None
            content = b"".join(self.parts)
            if checksum_of(content) != checksum:
                raise StateError("a seed has another checksum than its parts tell")
            self.clear()
            settings = LearnerSettings.model_validate(data["settings"], context={"stored": True})
            state = unpack(content, "seed")
            return Seed(str(data["stream"]), str(data["learner"]), int(data["features"]), settings, state)
        except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as problem:
            raise StateError(f"an act is no part of a seed: {problem!r}") from None

    def clear(self) -> None:
        """Forget what there is."""
        self.parts, self.checksum = [], ""
