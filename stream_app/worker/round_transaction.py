"""One transaction of a worker: outputs, progress, snapshot chunks and offsets of several tasks, all or nothing."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, NoReturn

from stream_app.backends.base import Cluster, Ends, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.questions import answered
from stream_app.config import Topics
from stream_app.errors import ForeignRecordsError, TransactionAbortedError
from stream_app.live.live_task import ProcessedBatch
from stream_app.live.snapshot_writer import TRANSACTION_BYTES as SNAPSHOT_BYTES
from stream_app.lost_markers.open_transactions import OpenTransactions
from stream_app.lost_markers.output_logs import OutputLogs
from stream_app.lost_markers.repair import Repair
from stream_app.pipeline.outputs import OUTPUT_TOPICS, bytes_of
from stream_app.progress_records import SNAPSHOT, Act, Commit
from stream_app.record_columns import OutputRecords
from stream_app.recovery.changelog import find_snapshots
from stream_app.recovery.restore_request import Logs
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import is_of_a_resend
from stream_app.snapshot.format import SNAPSHOT_KEY, Snapshot
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports

_GAP_TIMEOUT_S = 5.0
"""Longest wait for the end of a transaction that wrote to an output partition before ours did."""

_GAP_POLL_S = 0.05
"""Interval at which the worker asks whether that transaction has ended."""

_GAP_POLL_RECORDS = 10_000
"""Records read at once when the worker reads the records between two of its commits."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one task in a transaction: a batch, a repair, or only chunks of a snapshot or its name.

    Attributes:
        task: The task.
        batch: New outputs and the commit record; None if the part has no batch.
        repair: Committed records that must be published again, or None.
        written: The offsets of the records by output topic, filled in as they are delivered.
        progress_offsets: The offsets of the progress records, filled in in the same way.
    """

    task: OwnedTask
    batch: ProcessedBatch | None = None
    repair: Repair | None = None
    written: dict[str, list[int]] = field(default_factory=lambda: {topic: [] for topic in OUTPUT_TOPICS})
    progress_offsets: list[int] = field(default_factory=list)


class _Records(NamedTuple):
    """Records for one partition, and the list that gets their offsets."""

    partition: TopicPartition
    records: OutputRecords
    offsets: list[int]


class StartedRound(NamedTuple):
    """A transaction that was started.

    Attributes:
        parts: Its parts.
        is_full: Whether chunks of snapshots use up their share of it.
        is_committed: Waits until it is written; says whether it is committed, or its gaps have to be read first.
    """

    parts: Sequence[Part]
    is_full: bool
    is_committed: Callable[[], bool]


def output_partition(topics: Topics, topic: str, number: int) -> TopicPartition:
    """Return the partition of a task in one of its own topics, by the topic's name without prefix."""
    return TopicPartition(getattr(topics, topic.replace("-", "_")), number)


def output_ids(found: Mapping[str, TopicInfo], topics: Topics) -> Mapping[str, str]:
    """Return the ids of the output topics, by their names without prefix."""
    names = {topic: output_partition(topics, topic, 0).topic for topic in OUTPUT_TOPICS}
    return {topic: found[name].topic_id for topic, name in names.items() if name in found and found[name].topic_id}


def logs_of(cluster: Cluster, topics: Topics, number: int, topic_ids: Mapping[str, str]) -> Logs:
    """Return the readers of a task's topics; `topic_ids` are those of the output topics."""
    places = {topic: output_partition(topics, topic, number) for topic in (*OUTPUT_TOPICS, "progress")}

    inputs = tuple(TopicPartition(name, number) for name in topics[:2])

    def ends() -> Generator[bool, None, dict[str, Ends]]:
        found = yield from answered(cluster, lambda asked: asked.ends(list(places.values())))
        return {topic: found[place] for topic, place in places.items()}

    def input_ends() -> Generator[bool, None, Mapping[TopicPartition, Watermarks]]:
        return answered(cluster, lambda asked: {place: asked.watermarks(place) for place in inputs})

    outputs = OutputLogs(
        places,
        ends,
        lambda topic: answered(cluster, lambda asked: asked.watermarks(places[topic]).low),
        lambda topic: cluster.reader(places[topic]),
        lambda: cluster.reader(places["progress"], committed=False),
        topic_ids,
    )
    changelog = TopicPartition(topics.changelog, number)

    def snapshots() -> Generator[bool, None, tuple[Snapshot, ...]]:
        ends = yield from answered(cluster, lambda asked: asked.watermarks(places["progress"]))
        with closing(cluster.reader(places["progress"])) as reader:
            return (yield from find_snapshots(reader, ends))

    return Logs(
        snapshots, lambda: cluster.reader(places["progress"]), lambda: cluster.reader(changelog), outputs, input_ends
    )


def _offsets(parts: Sequence[Part]) -> dict[TopicPartition, int]:
    """Return the input offsets that a transaction of these parts commits."""
    return {
        place: offset
        for part in parts
        for place, offset in zip(part.task.inputs, part.batch.offsets if part.batch else part.task.offsets, strict=True)
    }


class RoundTransaction:
    """Writes the parts of several tasks in one transaction.

    Args:
        ports: The world.
        topics: Full names of the topics.
        adopts: Whether records of other writers in the output topics are accepted.
    """

    def __init__(self, ports: Ports, topics: Topics, *, adopts: bool) -> None:
        self._ports = ports
        self._topics = topics
        self._adopts = adopts

    def start(self, parts: Sequence[Part], group: object, *, overlaps: bool) -> StartedRound:
        """Start to write all parts together with the input offsets; `finish` must follow.

        Args:
            parts: At most one for each task.
            group: Membership of the consumer group, which fences members of an older generation.
            overlaps: Whether to write while the caller computes the next batches; otherwise `finish` writes.
        """
        records: list[_Records] = []
        room = SNAPSHOT_BYTES
        for part in parts:
            if part.batch is not None:
                records += self._records(part, part.batch.outputs.topics, (*part.batch.acts, part.batch.commit))
            if part.repair is not None:
                records += self._records(part, part.repair.outputs, part.repair.progress)
            else:
                if part.batch is None:
                    records += self._records(part, {}, part.task.live.snapshot_acts())
                chunks = part.task.live.snapshot_records(room)
                room -= bytes_of(chunks)
                changelog = TopicPartition(self._topics.changelog, part.task.number)
                records.append(_Records(changelog, chunks, part.task.live.snapshot_offsets))
        written = [one for one in records if len(one.records)]
        write = partial(self._write, parts, written, _offsets(parts), group)
        return StartedRound(
            parts,
            room <= 0,
            self._ports.transaction.start(write) if overlaps else write,
        )

    def _records(
        self, part: Part, outputs: Mapping[str, OutputRecords], progress: Sequence[Commit | Act]
    ) -> Sequence[_Records]:
        """Return the outputs of a part, then its progress records."""
        number = part.task.number
        values = [codec.encode(record) for record in progress]
        keys = [SNAPSHOT_KEY if isinstance(record, Act) and record.kind == SNAPSHOT else None for record in progress]
        last = OutputRecords.of(keys, values, [0] * len(values))
        return [
            *(
                _Records(output_partition(self._topics, topic, number), records, part.written[topic])
                for topic, records in outputs.items()
            ),
            _Records(TopicPartition(self._topics.progress, number), last, part.progress_offsets),
        ]

    def _write(
        self,
        parts: Sequence[Part],
        records: Sequence[_Records],
        input_offsets: Mapping[TopicPartition, int],
        group: object,
    ) -> bool:
        """Write everything in one transaction, and commit it unless a gap must be read; say whether it is committed.

        This may run in another thread while the next batches are computed. So it uses no port but the transaction, and
        nothing of a task that a batch changes.
        """
        transaction = self._ports.transaction
        transaction.initialise()  # a client that had to be replaced is a new one
        transaction.begin()
        for partition, columns, offsets in records:
            transaction.produce(partition, columns, offsets)
        transaction.flush()
        # The offsets come last. A worker that has lost a task is refused here. If it is not refused, all of its records
        # are in the partitions before the group gives the task away: the next owner finds them there, open or ended.
        transaction.send_offsets(input_offsets, group)
        if list(self._gaps(parts)):
            return False
        transaction.commit()
        return True

    def finish(self, started: StartedRound) -> None:
        """Wait until a transaction is committed.

        The worker looks for records of other writers after its own records are delivered and before it commits: only
        then no record can come between them.

        Raises:
            ForeignRecordsError: Another application writes to the output topics; our transaction is aborted.
            TransactionAbortedError: Nothing was committed.
            FencedError: A newer producer has the transactional id.
            UnknownOutcomeError: The broker did not answer in time.
        """
        if started.is_committed():
            return
        for gap in self._gaps(started.parts):
            self._read_gap(*gap)
        self._ports.transaction.commit()

    def _gaps(self, parts: Sequence[Part]) -> Iterator[tuple[TopicPartition, int, int]]:
        """Yield the partitions in which others may have written, with the bounds of the gap.

        The end is before the start in a topic that was deleted and created again.
        """
        for part in parts:
            anchor = part.task.position.anchor
            if part.progress_offsets and part.progress_offsets[0] <= anchor.progress_offset:
                place = TopicPartition(self._topics.progress, part.task.number)
                yield place, anchor.progress_offset + 1, part.progress_offsets[0]
            for topic, offsets in part.written.items():
                position = part.task.position
                if offsets and not position.output_ends[topic] <= offsets[0] <= position.next_output(topic):
                    place = output_partition(self._topics, topic, part.task.number)
                    yield place, position.output_ends[topic], offsets[0]

    def _read_gap(self, partition: TopicPartition, start: int, first: int) -> None:
        """Refuse records of another application from offset `start` to our record at offset `first`."""
        where = f"{partition.topic}[{partition.partition}]"
        if first < start:
            self._abort(f"{where}: {start} was the next offset, not {first}: the topic was deleted and created again")
        until_s = self._ports.clock.monotonic_s() + _GAP_TIMEOUT_S
        cluster = self._ports.cluster
        before = OpenTransactions(cluster, self._ports.clock)
        before.wrote(partition, first)
        with closing(cluster.reader(partition)) as reader:
            while not before.look(_GAP_POLL_S) and before.places:
                self._ports.clock.sleep(_GAP_POLL_S)
                if self._ports.clock.monotonic_s() > until_s:
                    self._abort(f"{where}: another transaction is open there")
            reader.seek(start)
            is_read = False
            while not is_read:
                fetched = reader.poll(_GAP_POLL_RECORDS, _GAP_TIMEOUT_S)
                if fetched is None:
                    self._abort(f"{where}: records before offset {first} were not read in time")
                offsets = fetched.records.offsets.tolist()
                for row, offset in enumerate(offsets):
                    if offset < first and not self._adopts and not is_of_a_resend(fetched.records.headers.get(row, ())):
                        self._ports.transaction.abort()
                        raise ForeignRecordsError(partition.topic, partition.partition, offset)
                is_read = fetched.at_end or max(offsets, default=-1) >= first - 1

    def _abort(self, reason: str) -> NoReturn:
        self._ports.transaction.abort()
        raise TransactionAbortedError(reason)
