"""The port of a schema registry, as a worker uses it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from stream_app.serialization.registered_schemas import Registered


class SchemaNames(Protocol):
    """Looks up schema ids that a task meets for the first time."""

    def registered(self, schema_ids: Sequence[int]) -> Mapping[int, Registered] | None:
        """Return what is known of these ids, without waiting; None: there is no answer yet.

        Ids that the registry does not have are left out.
        """


class _NoRegistry:
    """Knows no schema id."""

    def registered(self, schema_ids: Sequence[int]) -> Mapping[int, Registered]:  # noqa: ARG002  (part of the Protocol)
        """Return nothing."""
        return {}


NO_REGISTRY: SchemaNames = _NoRegistry()
"""For tasks whose settings have all numbers, or no need of any."""
