"""The port of a schema registry, as a worker uses it."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class SchemaNames(Protocol):
    """Looks up schema ids that a task meets for the first time."""

    def names_of(self, schema_ids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the names of the application's schemas by id, without waiting; None: there is no answer yet."""


class _NoRegistry:
    """Knows no schema id."""

    def names_of(self, schema_ids: Sequence[int]) -> Mapping[int, str]:  # noqa: ARG002  (part of the Protocol)
        """Return nothing."""
        return {}


NO_REGISTRY: SchemaNames = _NoRegistry()
"""For tasks whose settings have all numbers, or no need of any."""
