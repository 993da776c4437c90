"""The state of a learner that an operator imports into a task (`areba state import`): the text of an act in progress.

Progress holds the state itself, not a reference to a file, so every later reader of progress restores the same bits.
"""

import base64
import binascii
import json
from typing import NamedTuple, Self

from stream_app.config import LearnerSettings
from stream_app.errors import StateError
from stream_app.snapshot.format import Arrays, checksum_of, named, pack, unpack, without_prefix


class SavedColumns(NamedTuple):
    """The columns of the stream that a learner belongs to, since its weights belong to their features.

    Attributes:
        text: The columns, see `config.column_settings.columns_text`.
        state: What was learned of them, by name; empty without columns.
    """

    text: str
    state: Arrays


NO_COLUMNS = SavedColumns("[]", {})

_PREFIX = "(columns)."
"""How the names of what was learned of columns begin, beside those of the learner's arrays."""


class ImportedModel(NamedTuple):
    """A state that a learner starts from.

    Attributes:
        stream: Name of the stream that the learner belongs to.
        learner: Name of the learner.
        features: Number of features of an example.
        settings: Settings that the state was trained with.
        state: The learner's arrays by name, as in a snapshot.
        columns: The columns of the stream that it was exported from.
    """

    stream: str
    learner: str
    features: int
    settings: LearnerSettings
    state: Arrays
    columns: SavedColumns = NO_COLUMNS

    def text(self) -> str:
        """Return the text of the act, as `from_text` reads it."""
        content = pack({**self.state, **named(_PREFIX, self.columns.state)})
        plain = {
            "stream": self.stream,
            "learner": self.learner,
            "features": self.features,
            "settings": self.settings.model_dump(mode="json"),
            "columns": self.columns.text,
            "checksum": checksum_of(content),
            "content": base64.b64encode(content).decode(),
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the state in the text of an act.

        Raises:
            StateError: The text is not an imported state.
        """
        try:
            data = json.loads(text)
            content = base64.b64decode(data["content"], validate=True)
            if checksum_of(content) != str(data["checksum"]):
                raise StateError("the checksum of an imported state does not match its content")
            settings = LearnerSettings.model_validate(data["settings"])
            every = unpack(content, "imported state")
            state = {name: array for name, array in every.items() if not name.startswith(_PREFIX)}
            columns = SavedColumns(str(data["columns"]), without_prefix(every, _PREFIX))
            return cls(str(data["stream"]), str(data["learner"]), int(data["features"]), settings, state, columns)
        except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as problem:
            raise StateError(f"an act is not an imported state: {problem!r}") from None
