"""Inputs, read as a member of a consumer group."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from stream_app.backends.base import CLIENT_NAME, Fetched, TopicPartition, given_partitions
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.groups import GroupMetadata
from stream_app.errors import OffsetGoneError


class EmbeddedSource:
    """`base.Source` over an `EmbeddedBroker`.

    `members` lists this member under its `client_id`.
    """

    def __init__(self, broker: EmbeddedBroker, group_id: str, client_id: str = CLIENT_NAME) -> None:
        self._broker = broker
        self._group_id = group_id
        self._client_id = client_id
        self._topics: tuple[str, ...] = ()
        self._partitions = 0
        self._name = ""
        self._generation = 0
        self._on_assign: Callable[[Sequence[TopicPartition]], None] = lambda _: None
        self._on_revoke: Callable[[Sequence[TopicPartition]], None] = lambda _: None
        self._assigned: tuple[TopicPartition, ...] = ()
        self._has_assignment = False
        self._next: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._reported_ends: dict[TopicPartition, int] = {}
        self._turn = 0

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group; see `base.Source.subscribe`."""
        self._topics = tuple(topics)
        self._partitions = partitions
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._name = self._broker.groups.join(self._group_id, topics, self._client_id)

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these assigned partitions from these offsets; see `base.Source.start_at`.

        Raises:
            ValueError: A partition is not assigned.
        """
        strangers = sorted(set(offsets) - set(self._assigned))
        if strangers:
            raise ValueError(f"not assigned: {strangers}")
        self._next.update(offsets)
        self._paused.difference_update(offsets)
        for partition in offsets:
            self._reported_ends.pop(partition, None)

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions until `start_at` is called for them."""
        for partition in partitions:
            self._next.pop(partition, None)
            self._paused.discard(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions for now."""
        self._paused.update(partition for partition in partitions if partition in self._next)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue after the last record that `poll` returned of these partitions."""
        for partition in partitions:
            self._paused.discard(partition)
            self._reported_ends.pop(partition, None)

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return at most `max_records` records; see `base.Source.poll`."""
        deadline_s = self._broker.clock.monotonic_s() + timeout_s
        while True:
            self._follow_group()
            with self._broker.changed:
                fetched = self._fetch(max_records)
                left_s = deadline_s - self._broker.clock.monotonic_s()
                if fetched or left_s <= 0:
                    return fetched
                if not self._has_group_work():
                    self._broker.wait(left_s)

    def _has_group_work(self) -> bool:
        """Say whether this member has to join again, or has an assignment to take."""
        if not self._topics:
            return False
        if self._broker.groups.must_rejoin(self._group_id, self._name):
            return True
        return not self._has_assignment and self._broker.groups.assignment(self._group_id, self._name) is not None

    def _follow_group(self) -> None:
        """Revoke, join again and take an assignment, as far as the group requires it now."""
        if not self._topics:
            return
        if self._broker.groups.must_rejoin(self._group_id, self._name):
            self._revoke()
            self._name = self._broker.groups.rejoin(self._group_id, self._name, self._topics, self._client_id)
        if not self._has_assignment:
            given = self._broker.groups.assignment(self._group_id, self._name)
            if given is not None:
                self._generation, assigned = given
                self._assigned = tuple(given_partitions(assigned, self._topics, self._partitions))
                self._has_assignment = True
                self._on_assign(self._assigned)

    def _revoke(self) -> None:
        if self._has_assignment:
            self._has_assignment = False
            try:
                self._on_revoke(self._assigned)
            finally:
                self._assigned = ()
                self._next.clear()
                self._paused.clear()
                self._reported_ends.clear()

    def _fetch(self, max_records: int) -> list[Fetched]:
        """Read each partition once; each call begins with another partition."""
        reading = sorted(partition for partition in self._next if partition not in self._paused)
        self._turn += 1
        result: list[Fetched] = []
        left = max_records
        for place in range(len(reading)):
            partition = reading[(place + self._turn) % len(reading)]
            if left <= 0:
                break
            try:
                records, following, at_end = self._broker.read(partition, self._next[partition], left)
            except OffsetGoneError:
                if not result:
                    raise
                break  # return the records of the other partitions first; the next call raises
            is_new_end = at_end and self._reported_ends.get(partition) != following
            self._next[partition] = following
            if len(records) or is_new_end:
                left -= max(1, len(records))
                result.append(Fetched(partition, records, at_end=at_end, position=following))
                self._reported_ends[partition] = following if at_end else -1
        return result

    def finds_group(self, partition: TopicPartition, timeout_s: float) -> bool:  # noqa: ARG002  (of the port)
        """Return True: the group is in this process."""
        return True

    def known_end(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition's log."""
        return self._broker.watermarks(partition).high

    def group_metadata(self) -> object:
        """Return our name and generation, for `EmbeddedTransaction.send_offsets`."""
        return GroupMetadata(self._group_id, self._name, self._generation)

    def close(self) -> None:
        """Leave the group; `on_revoke` is called first."""
        self._revoke()
        self._broker.groups.leave(self._group_id, self._name)
        self._topics = ()
