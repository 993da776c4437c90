"""The colour of each method, the same on the dashboard and in the figures of the study."""

from collections.abc import Mapping
from types import MappingProxyType

from stream_app.config import METHOD_FACTS

METHOD_COLOURS: Mapping[str, str] = MappingProxyType({name: facts.colour for name, facts in METHOD_FACTS.items()})

MORE_COLOURS = ("#1b9e9e", "#6baed6", "#5b2a86", "#e08214", "#3a8f6f", "#8f5ea8", "#d1495b", "#b8860b", "#7fbf5b")
"""Colours of methods that have none, and of a second learner with the same method."""


class LearnerColours:
    """Gives each learner of an application one colour.

    Args:
        methods: The method of each configured learner.
    """

    def __init__(self, methods: Mapping[str, str]) -> None:
        self._colours: dict[str, str] = {}
        for learner, method in methods.items():
            colour = METHOD_COLOURS.get(method)
            if colour is not None and colour not in self._colours.values():
                self._colours[learner] = colour
        self._given = len(self._colours)
        for learner in methods:
            self.of(learner)

    def of(self, learner: str) -> str:
        """Return the colour of a learner; a name that is not configured takes the next free colour."""
        known = self._colours.get(learner)
        if known is not None:
            return known
        taken = set(self._colours.values())
        more = MORE_COLOURS[len(self._colours) % len(MORE_COLOURS)]
        colour = next((colour for colour in MORE_COLOURS if colour not in taken), more)
        if len(self._colours) < _MAX_LEARNER_NAMES:
            self._colours[learner] = colour
        return colour


_MAX_LEARNER_NAMES = 256
"""Learners whose colour is remembered: names come from records, which any program may write."""
