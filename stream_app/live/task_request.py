"""A task as its owner was given it: its inputs, the configuration in force, and who writes its records."""

from dataclasses import dataclass
from typing import NamedTuple

from stream_app.backends.base import TopicPartition
from stream_app.backends.schema_names import NO_REGISTRY, SchemaNames
from stream_app.config import TaskSettings
from stream_app.snapshot.identity import UNKNOWN, Identity


class Writer(NamedTuple):
    """The writer of a task's records.

    Attributes:
        transactional_id: The id that each commit record states.
        adopts: Whether records of other writers in the output topics are accepted.
    """

    transactional_id: str
    adopts: bool = False


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task that is to be restored up to the end of its progress, and then takes new records.

    Attributes:
        inputs: The task's partitions of examples and labels.
        settings: The configuration in force; the restore itself runs under the recorded ones.
        first: The first offsets of the inputs (examples, labels), where a new task begins.
        writer: The writer of the task's records.
        identity: The application as the broker knows it now; an unknown identity is not compared.
        schemas: Names the schemas of ids that the settings do not have.
    """

    inputs: tuple[TopicPartition, TopicPartition]
    settings: TaskSettings
    first: tuple[int, int]
    writer: Writer
    identity: Identity = UNKNOWN
    schemas: SchemaNames = NO_REGISTRY

    @property
    def number(self) -> int:
        """The number of the task."""
        return self.inputs[0].partition

    @property
    def topics(self) -> tuple[str, str]:
        """The names of the input topics (examples, labels)."""
        return self.inputs[0].topic, self.inputs[1].topic
