"""Consumer groups: members, generations, assignments and committed offsets.

Rebalances are eager, as with Kafka's classic protocol: when members come or go, each member gives up all partitions at
its next `poll` and joins again. When the last member has joined, a new generation gets its assignment (`range`).
"""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stream_app.backends.base import CLIENT_NAME, TopicPartition


class GroupMetadata(NamedTuple):
    """The member and the generation of a group that offsets come from."""

    group_id: str
    member: str
    generation: int


class _GroupMember:
    """One member of a group.

    Attributes:
        name: Its name, unique within the group.
        client_id: Its `client.id`.
        topics: The topics that it subscribed to.
        polled_s: When it last polled, by the monotonic clock.
        joined: The number of the last rebalance that it joined.
        assigned: Its partitions.
    """

    def __init__(self, name: str, topics: Sequence[str], polled_s: float, client_id: str) -> None:
        self.name = name
        self.client_id = client_id
        self.topics = tuple(topics)
        self.polled_s = polled_s
        self.joined = 0
        self.assigned: tuple[TopicPartition, ...] = ()


class _ConsumerGroup:
    """One group.

    Attributes:
        members: Its members by name.
        names: How many names were given to members so far.
        rebalance: How many changes so far made the members join again.
        generation: How many assignments were made so far.
        completed: The value of `rebalance` that the last assignment answered; equal to it unless a rebalance runs.
        offsets: The committed offsets.
    """

    def __init__(self) -> None:
        self.members: dict[str, _GroupMember] = {}
        self.names = 0
        self.rebalance = 0
        self.generation = 0
        self.completed = 0
        self.offsets: dict[TopicPartition, int] = {}


class GroupCoordinator:
    """All groups of a broker.

    Args:
        now_s: Returns the time by a monotonic clock, in seconds; it times silent members out.
        changed: The broker's lock; it is notified of every change.
        partition_count: Returns the number of partitions of a topic.
        max_poll_interval_s: A member that does not poll for this long is removed from its group.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        changed: threading.Condition,
        partition_count: Callable[[str], int],
        max_poll_interval_s: float,
    ) -> None:
        self._now_s = now_s
        self._changed = changed
        self._partition_count = partition_count
        self._max_poll_interval_s = max_poll_interval_s
        self._groups: dict[str, _ConsumerGroup] = {}

    def group(self, group_id: str) -> _ConsumerGroup:
        """Return the group of this id; create it first if nobody has used the id."""
        return self._groups.setdefault(group_id, _ConsumerGroup())

    def join(self, group_id: str, topics: Sequence[str], client_id: str = CLIENT_NAME) -> str:
        """Add a member, start a rebalance and return the name of the member."""
        with self._changed:
            group = self.group(group_id)
            group.names += 1
            name = f"member-{group.names:06d}"
            group.members[name] = _GroupMember(name, topics, self._now_s(), client_id)
            group.rebalance += 1
            self._changed.notify_all()
            return name

    def leave(self, group_id: str, name: str) -> None:
        """Remove a member and start a rebalance; a name that is no member's is ignored."""
        with self._changed:
            group = self.group(group_id)
            if group.members.pop(name, None) is not None:
                group.rebalance += 1
                self._changed.notify_all()

    def must_rejoin(self, group_id: str, name: str) -> bool:
        """Record that this member polled, remove silent members, and say whether this one has to join again."""
        with self._changed:
            group = self.group(group_id)
            if name in group.members:
                group.members[name].polled_s = self._now_s()
            self._remove_silent(group_id)
            member = group.members.get(name)
            return member is None or member.joined != group.rebalance

    def _remove_silent(self, group_id: str) -> None:
        now_s = self._now_s()
        members = self.group(group_id).members.values()
        for name in [member.name for member in members if now_s - member.polled_s > self._max_poll_interval_s]:
            self.leave(group_id, name)

    def rejoin(self, group_id: str, name: str, topics: Sequence[str], client_id: str) -> str:
        """Join the running rebalance; the last member to join completes it.

        Returns:
            The name of the member: a new name if it had been removed from the group.
        """
        with self._changed:
            group = self.group(group_id)
            if name not in group.members:
                name = self.join(group_id, topics, client_id)
            group.members[name].joined = group.rebalance
            if all(member.joined == group.rebalance for member in group.members.values()):
                self._assign(group)
            return name

    def _assign(self, group: _ConsumerGroup) -> None:
        group.generation += 1
        group.completed = group.rebalance
        given: dict[str, list[TopicPartition]] = {name: [] for name in group.members}
        for topic in sorted({topic for member in group.members.values() for topic in member.topics}):
            takers = sorted(name for name, member in group.members.items() if topic in member.topics)
            share, more = divmod(self._partition_count(topic), len(takers))
            start = 0
            for place, name in enumerate(takers):
                stop = start + share + (place < more)
                given[name] += [TopicPartition(topic, number) for number in range(start, stop)]
                start = stop
        for name, partitions in given.items():
            group.members[name].assigned = tuple(partitions)
        self._changed.notify_all()

    def assignment(self, group_id: str, name: str) -> tuple[int, tuple[TopicPartition, ...]] | None:
        """Return the generation and the partitions of a member; None during a rebalance or for a removed member."""
        with self._changed:
            group = self.group(group_id)
            if group.completed != group.rebalance or name not in group.members:
                return None
            return group.generation, group.members[name].assigned

    def offsets_problem(self, metadata: GroupMetadata) -> str | None:
        """Say why offsets of this member and generation are refused; None if they are accepted."""
        with self._changed:
            group = self.group(metadata.group_id)
            if metadata.generation < 0:
                self._remove_silent(metadata.group_id)
                if not group.members:
                    return None
            if metadata.member:  # as in Kafka, a producer that was never a member is not fenced
                if metadata.member not in group.members:
                    return f"{metadata.member} is no member of {metadata.group_id}"
                if metadata.generation != group.generation:
                    return f"generation {metadata.generation} of {metadata.group_id} is over, now {group.generation}"
            return None

    def members(self, group_id: str) -> Sequence[str]:
        """Return the `client.id` of each member that a group has now."""
        with self._changed:
            self._remove_silent(group_id)
            return [member.client_id for member in self.group(group_id).members.values()]

    def topic_deleted(self, name: str) -> None:
        """Forget the offsets that groups have committed of this topic."""
        for group in self._groups.values():
            group.offsets = {place: known for place, known in group.offsets.items() if place.topic != name}

    def topic_grew(self, name: str) -> None:
        """Start a rebalance of each group that reads this topic."""
        for group in self._groups.values():
            group.rebalance += any(name in member.topics for member in group.members.values())
