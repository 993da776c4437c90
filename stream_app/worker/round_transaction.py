"""One transaction of a worker: outputs, progress, snapshot chunks and offsets of several tasks, all or nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, NoReturn

from stream_app.backends.base import Cluster, Committed, Ends, TopicPartition
from stream_app.config import Topics
from stream_app.errors import ForeignRecordsError, TransactionAbortedError
from stream_app.pipeline.outputs import OUTPUT_TOPICS, bytes_of
from stream_app.record_columns import OutputRecords
from stream_app.records import Act, Commit
from stream_app.recovery.live_task import ProcessedBatch
from stream_app.recovery.output_logs import OutputLogs
from stream_app.recovery.restore import Repair
from stream_app.recovery.restore_request import Logs
from stream_app.recovery.snapshot_writer import TRANSACTION_BYTES as SNAPSHOT_BYTES
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import is_of_a_replay
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports

GAP_TIMEOUT_S = 5.0
"""Longest wait for the end of a transaction that wrote to an output partition before ours did."""

GAP_POLL_S = 0.05
"""Interval at which the worker asks whether that transaction has ended."""

GAP_POLL_RECORDS = 10_000
"""Records read at once when the worker reads the records between two of its commits."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one task in a transaction: a batch, a repair, or only chunks of a snapshot.

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


class _Content(NamedTuple):
    """What a transaction writes, so that writing it reads nothing that the next batch of a task changes.

    Attributes:
        group: The membership of the consumer group.
        offsets: The input offsets that it commits, with their metadata.
        records: The records, in order.
    """

    group: object
    offsets: Mapping[TopicPartition, Committed]
    records: Sequence[_Records]


class StartedRound(NamedTuple):
    """A transaction that was started.

    Attributes:
        parts: Its parts.
        offsets: The input offsets that it commits, with their metadata.
        is_full: Whether chunks of snapshots use up their share of it.
        is_committed: Waits until it is written; says whether it is committed, or its gaps have to be read first.
    """

    parts: Sequence[Part]
    offsets: Mapping[TopicPartition, Committed]
    is_full: bool
    is_committed: Callable[[], bool]


def output_partition(topics: Topics, topic: str, number: int) -> TopicPartition:
    """Return the partition of a task in one of its own topics, by the topic's name without prefix."""
    return TopicPartition(getattr(topics, topic.replace("-", "_")), number)


def logs_of(cluster: Cluster, topics: Topics, number: int) -> Logs:
    """Return the readers of a task's own topics."""
    places = {topic: output_partition(topics, topic, number) for topic in (*OUTPUT_TOPICS, "progress")}

    def ends() -> dict[str, Ends]:
        found = cluster.ends(list(places.values()))
        return {topic: found[place] for topic, place in places.items()}

    outputs = OutputLogs(
        places,
        ends,
        lambda topic: cluster.watermarks(places[topic]).low,
        lambda topic: cluster.reader(places[topic]),
        lambda: cluster.reader(places["progress"], committed=False),
    )
    changelog = TopicPartition(topics.changelog, number)
    return Logs(lambda: cluster.reader(places["progress"]), lambda: cluster.reader(changelog), outputs)


def _offsets(parts: Sequence[Part]) -> dict[TopicPartition, Committed]:
    """Return the input offsets that a transaction of these parts commits."""
    offsets: dict[TopicPartition, Committed] = {}
    for part in parts:
        task, batch, repair = part.task, part.batch, part.repair
        metadata = task.live.metadata(batch) if repair is None else repair.metadata
        for partition, offset in zip(task.inputs, batch.offsets if batch else task.offsets, strict=True):
            offsets[partition] = Committed(offset, metadata)
    return offsets


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
                chunks = part.task.live.snapshot_records(room)
                room -= bytes_of(chunks)
                changelog = TopicPartition(self._topics.changelog, part.task.number)
                records.append(_Records(changelog, chunks, part.task.live.snapshot_offsets))
        content = _Content(group, _offsets(parts), [one for one in records if len(one.records)])
        write = partial(self._write, parts, content)
        return StartedRound(
            parts, content.offsets, room <= 0, self._ports.transaction.start(write) if overlaps else write
        )

    def _records(
        self, part: Part, outputs: Mapping[str, OutputRecords], progress: Sequence[Commit | Act]
    ) -> Sequence[_Records]:
        """Return the outputs of a part, then its progress records."""
        number = part.task.number
        values = [codec.encode(record) for record in progress]
        last = OutputRecords.of([None] * len(values), values, [0] * len(values))
        return [
            *(
                _Records(output_partition(self._topics, topic, number), records, part.written[topic])
                for topic, records in outputs.items()
            ),
            _Records(TopicPartition(self._topics.progress, number), last, part.progress_offsets),
        ]

    def _write(self, parts: Sequence[Part], content: _Content) -> bool:
        """Write everything in one transaction, and commit it unless a gap must be read; say whether it is committed.

        This may run in another thread: it uses no port but the transaction.
        """
        transaction = self._ports.transaction
        transaction.initialise()  # a client that had to be replaced is a new one
        transaction.begin()
        # First the offsets: the client waits 1 ms for the transaction before, not 20 ms.
        transaction.send_offsets(content.offsets, content.group)
        for partition, records, offsets in content.records:
            transaction.produce(partition, records, offsets)
        transaction.flush()
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
        """Yield the output partitions in which others may have written, with the bounds of the gap."""
        for part in parts:
            for topic, offsets in part.written.items():
                start = part.task.position.output_ends[topic]
                if offsets and offsets[0] > start + 1:  # where there is room for more than a marker
                    yield output_partition(self._topics, topic, part.task.number), start, offsets[0]

    def _read_gap(self, partition: TopicPartition, start: int, first: int) -> None:
        """Refuse records of another application from offset `start` to our record at offset `first`."""
        where = f"{partition.topic}[{partition.partition}]"
        until_s = self._ports.clock.monotonic_s() + GAP_TIMEOUT_S
        cluster = self._ports.cluster
        with closing(cluster.reader(partition)) as reader:
            while cluster.ends([partition])[partition].stable < first:
                self._ports.clock.sleep(GAP_POLL_S)
                if self._ports.clock.monotonic_s() > until_s:
                    self._abort(f"{where}: another transaction is open there")
            reader.seek(start)
            is_read = False
            while not is_read:
                fetched = reader.poll(GAP_POLL_RECORDS, GAP_TIMEOUT_S)
                if fetched is None:
                    self._abort(f"{where}: records before offset {first} were not read in time")
                offsets = fetched.records.offsets.tolist()
                for row, offset in enumerate(offsets):
                    if offset < first and not self._adopts and not is_of_a_replay(fetched.records.headers.get(row, ())):
                        self._ports.transaction.abort()
                        raise ForeignRecordsError(partition.topic, partition.partition, offset)
                is_read = fetched.at_end or max(offsets, default=-1) >= first - 1

    def _abort(self, reason: str) -> NoReturn:
        self._ports.transaction.abort()
        raise TransactionAbortedError(reason)
