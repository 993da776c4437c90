"""Committed points of a task: their text in the metadata of committed offsets, and the errors if they disagree.

Every transaction commits the input offsets of its tasks. The metadata of these offsets holds the sequence and the
digest of the last commit record, the ids of both input topics, and the two newest snapshots. A restore needs nothing
else to begin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.backends.base import Committed, TopicPartition
from stream_app.errors import ErrorCode, StateError, UndecodableError, WrongSchemaError
from stream_app.pipeline.outputs import GENESIS
from stream_app.records import Act, Commit
from stream_app.serialization import codec
from stream_app.snapshot.format import Snapshot, parse_snapshot
from stream_app.snapshot.identity import UNKNOWN, created_again

METADATA_FORMAT = "3"

READABLE_FORMATS = ("1", "2", METADATA_FORMAT)
"""Format 1 had no snapshots, format 2 had no topic ids."""

HINT_SKIP = "`areba state skip` continues without the deleted records; another application.id starts from the beginning"
"""What an operator can do when inputs that a restore needs were deleted."""

HINT_RECOMMIT = "`areba state recommit` restores them from progress; another application.id starts from the beginning"
"""What an operator can do when the group's offsets were lost, or changed from outside."""


class CommitPoint(NamedTuple):
    """A committed point of a task: the sequence of a record of progress, and the digest of all outputs up to there."""

    sequence: int
    digest: bytes

    def metadata(self, snapshots: Sequence[Snapshot] = (), topic_ids: tuple[str, str] = UNKNOWN.topic_ids) -> str:
        """Return the metadata that is committed with the offsets.

        Args:
            snapshots: The snapshots from which this point can be restored, newest first.
            topic_ids: The ids of both input topics.
        """
        ids = ",".join(topic_ids)
        return " ".join([METADATA_FORMAT, str(self.sequence), self.digest.hex(), ids, *map(str, snapshots)])


NOTHING_COMMITTED = CommitPoint(-1, GENESIS)
"""The point of a task before its first record of progress."""


class RestoreTarget(NamedTuple):
    """What a restore has to reach: a point, the snapshots that lead to it, newest first, and the ids of both inputs."""

    point: CommitPoint
    snapshots: tuple[Snapshot, ...] = ()
    topic_ids: tuple[str, str] = UNKNOWN.topic_ids


class Anchor(NamedTuple):
    """The newest commit record of a task; a snapshot holds the state after it.

    Attributes:
        sequence: Its sequence; -1 before the first commit record.
        digest: Its digest.
        offsets: The input offsets (examples, labels) at which its ranges end.
        progress_offset: Its offset in progress; -1 while nobody can read it there.
    """

    sequence: int
    digest: bytes
    offsets: tuple[int, int]
    progress_offset: int

    @property
    def point(self) -> CommitPoint:
        """The point that this record committed."""
        return CommitPoint(self.sequence, self.digest)


@dataclass(slots=True)
class Position:
    """Where the state of a task is: in its inputs, its progress and its outputs. A restore moves it, then each batch.

    Attributes:
        offsets: The next input offsets (examples, labels).
        anchor: The newest commit record.
        point: The newest record of progress; it is the anchor's point unless acts came later.
        tripped: Why the breaker stopped the task after the anchor; None where the task was not stopped, or was resumed.
        output_ends: By output topic, the end offset of the task's own partition.
    """

    offsets: tuple[int, int]
    anchor: Anchor
    point: CommitPoint = NOTHING_COMMITTED
    tripped: str | None = None
    output_ends: dict[str, int] = field(default_factory=dict)


def first_position(offsets: tuple[int, int]) -> Position:
    """Return the position of a task that has processed nothing, before these input offsets."""
    return Position(offsets, Anchor(*NOTHING_COMMITTED, offsets, -1))


def parse_metadata(text: str, where: str) -> RestoreTarget:
    """Return what the metadata of a committed offset names.

    Raises:
        StateError: The text is not our metadata, or has a format that this version cannot read.
    """
    fields = text.split()
    try:
        version, sequence, digest, *rest = fields
        if version not in READABLE_FORMATS:
            raise StateError(
                f"{where}: offset metadata has format {version!r}; this version reads {METADATA_FORMAT}",
                ErrorCode.FORMAT_UNKNOWN,
            )
        ids, *snapshots = rest if version == METADATA_FORMAT else [",", *rest]
        examples_id, labels_id = ids.split(",")
        point = CommitPoint(int(sequence), bytes.fromhex(digest))
        return RestoreTarget(point, tuple(map(parse_snapshot, snapshots)), (examples_id, labels_id))
    except ValueError:
        raise StateError(
            f"{where}: the committed offset has no metadata of areba ({text!r}): the group was reset. {HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        ) from None


def committed_target(
    inputs: tuple[TopicPartition, TopicPartition],
    committed: Mapping[TopicPartition, Committed | None],
    topic_ids: tuple[str, str] = UNKNOWN.topic_ids,
) -> RestoreTarget | None:
    """Return what the group committed for a task, or None for a task that never committed.

    Args:
        inputs: The task's partitions of examples and labels.
        committed: The committed offsets of the group.
        topic_ids: The ids that the input topics have now; empty ids are not compared.

    Raises:
        StateError: The offsets of the two partitions contradict each other, or an input topic was deleted and created
            again.
    """
    examples, labels = (committed.get(partition) for partition in inputs)
    where = f"task {inputs[0].partition}"
    if examples is None and labels is None:
        return None
    for known in (examples, labels):  # Kafka deletes the offsets of the topic that was deleted, and keeps the others
        if known is not None:
            check_topic_ids(inputs, parse_metadata(known.metadata, where).topic_ids, topic_ids)
    if examples is None or labels is None or examples.metadata != labels.metadata:
        raise StateError(
            f"{where}: committed offsets of {inputs[0].topic} and {inputs[1].topic} do not belong together. "
            f"{HINT_RECOMMIT}",
            ErrorCode.OFFSETS_RESET,
        )
    return parse_metadata(examples.metadata, where)


def check_topic_ids(
    inputs: tuple[TopicPartition, TopicPartition], recorded: tuple[str, str], found: tuple[str, str]
) -> None:
    """Refuse inputs that were deleted and created again.

    Raises:
        StateError: An input topic has another id than the recorded one; no offset or model belongs to the new topic.
    """
    problem = created_again((inputs[0].topic, inputs[1].topic), recorded, found)
    if problem is not None:
        raise StateError(f"task {inputs[0].partition}: {problem}", ErrorCode.INPUTS_REPLACED)


def offsets_lost(recorded: int) -> StateError:
    """Return the error of a task whose progress has this commit record, while the group has no offsets."""
    return StateError(
        f"sequence {recorded} is recorded, but the group has no committed offsets: they were deleted or have expired. "
        f"{HINT_RECOMMIT}",
        ErrorCode.OFFSETS_LOST,
    )


def offsets_reset(recorded: int, committed: int) -> StateError:
    """Return the error of a task whose committed offsets name an older commit record than its last one."""
    return StateError(
        f"sequence {recorded} is recorded, {committed} is committed: the group's offsets were reset. {HINT_RECOMMIT}",
        ErrorCode.OFFSETS_RESET,
    )


def progress_record(value: bytes | None, where: str) -> Commit | Act:
    """Decode a value of the progress topic.

    Raises:
        StateError: The value is not a record of progress.
    """
    try:
        record = codec.decode_one(value or b"")
    except (UndecodableError, WrongSchemaError) as error:
        raise StateError(f"{where}: not a progress record: {error}") from error
    if not isinstance(record, Commit | Act):
        raise StateError(f"{where}: {type(record).__name__} is not a progress record")
    return record
