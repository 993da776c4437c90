"""The administration of the cluster, with everything that may happen at a question."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from stream_app.backends.base import (
    Answer,
    Ends,
    Fetched,
    LogReader,
    TopicInfo,
    TopicPartition,
    Watermarks,
)
from stream_app.backends.following import LogFollower
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.questions import KeptRecords
from stream_app.errors import UnknownOutcomeError
from tests.simulation.faults import Fault
from tests.simulation.ports import Gate

LATEST_ANSWER_S = 17.0
"""The latest answer to a question: requests have bounds of 3 to 17 s. Most late answers come within seconds."""


class SimulatedReader:
    """A reader of one partition of a topic."""

    def __init__(self, gate: Gate, inner: LogReader) -> None:
        self._gate = gate
        self._inner = inner

    def seek(self, offset: int) -> None:
        """Continue at this offset."""
        self._gate.enter("reader.seek")
        self._inner.seek(offset)

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return records, fewer than there are, or none."""
        gate, faults = self._gate, self._gate.faults
        gate.enter("reader.poll")
        if gate.is_cut_off or faults.hit(Fault.LATE_RECORDS):
            gate.rest(timeout_s)
            return None
        if faults.hit(Fault.SHORT_POLL):
            max_records = 1 + int(3 * faults.draw.random())
        fetched = self._inner.poll(max_records, timeout_s)
        gate.enter("reader.poll")
        return fetched

    def close(self) -> None:
        """Release the reader; a dead process, whose restore Python collects later, releases nothing."""
        if not self._gate.is_dead:
            self._gate.enter("reader.close")
            self._inner.close()


class SimulatedCluster:
    """Administration."""

    def __init__(self, gate: Gate, inner: EmbeddedCluster) -> None:
        self._gate = gate
        self._inner = inner

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Ask a question, whose answer may be late: then it says what was true at any time since.

        The broker does what it is asked to do, even if the process is killed meanwhile.
        """
        gate, faults = self._gate, self._gate.faults
        gate.enter("ask")
        is_lost, due_s, known = faults.hit(Fault.UNANSWERED), gate.scheduler.now_s, list[Answer]()
        inner: Any = self._inner
        if faults.hit(Fault.LATE_ANSWER):
            due_s += LATEST_ANSWER_S * faults.draw.random() ** 3
        if gate.is_cut_off or is_lost:
            gate.say("ask: no answer yet")
        elif due_s == gate.scheduler.now_s or faults.draw.random() < 0.5:
            known.append(question(inner))

        def answer() -> Answer | None:
            gate.enter("answer")
            if gate.is_cut_off or gate.scheduler.now_s < due_s:
                return None
            if is_lost:
                raise UnknownOutcomeError("a question: no answer")
            if not known:
                known.append(question(inner))
            return known[0]

        return answer

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Return the named topics that exist."""
        return self._gate.ask("topics", lambda: self._inner.topics(names))

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics."""
        self._gate.call("create", lambda: self._inner.create(topics, replication))

    def grow(self, names: Sequence[str], partitions: int) -> None:
        """Give topics more partitions."""
        self._gate.call("grow", lambda: self._inner.grow(names, partitions))

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Return a reader of one partition."""
        return self._gate.call(
            "reader", lambda: SimulatedReader(self._gate, self._inner.reader(partition, committed=committed))
        )

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return the first offset, and the offset after the last record."""
        return self._gate.ask("watermarks", lambda: self._inner.watermarks(partition))

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Return the last stable offset and the end of each log."""
        return self._gate.ask("ends", lambda: self._inner.ends(partitions))

    def kept(self, partitions: Sequence[TopicPartition]) -> KeptRecords:
        """Return what is kept of these partitions."""
        return self._gate.ask("kept", lambda: self._inner.kept(partitions))

    def committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return a group's committed offsets."""
        return self._gate.ask("committed", lambda: self._inner.committed(group_id, partitions))

    def offsets_since(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Return the first offset whose record is not older than this time."""
        return self._gate.ask("offsets_since", lambda: self._inner.offsets_since(partitions, time_ms))

    def follow(self, offsets: Mapping[TopicPartition, int]) -> LogFollower:
        """Follow partitions from these offsets."""
        return self._gate.call("follow", lambda: self._inner.follow(offsets))

    def members(self, group_id: str) -> Sequence[str]:
        """Return the client ids of a group's members."""
        return self._gate.ask("members", lambda: self._inner.members(group_id))

    def empty_group(self, group_id: str) -> object:
        """Return the metadata of a group without members."""
        return self._inner.empty_group(group_id)

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete the records below this offset."""
        return self._gate.ask("delete_records", lambda: self._inner.delete_records(partition, before))
