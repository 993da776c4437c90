"""Wait for open transactions in a worker's partitions to end, and for its own commits to become readable.

A task is restored only after every transaction that was open in its partitions has ended. A transaction that does not
end is hanging (see `lost_markers.hanging_transactions`): the worker ends it, under its own transactional id and under
the ids of processes that are gone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.questions import Question
from stream_app.config import Config
from stream_app.lost_markers.hanging_transactions import (
    GONE_AFTER_S,
    LOOK_INTERVAL_S,
    OpenTransactions,
    end_open,
    open_places,
    sweep,
    take_over,
    writers_of,
)
from stream_app.lost_markers.output_logs import MARKER_OFFSETS
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.round_transaction import Part, output_partition

UNREAD_INTERVAL_S = 1.0
"""Interval at which the worker asks whether its commits can be read; a snapshot takes two intervals."""

MARKER_WAIT_S = 0.005
"""Pause between two such questions while a worker saves its last snapshots."""


_PlacesOf: TypeAlias = Mapping[str, Sequence[TopicPartition]]


class _Gone(NamedTuple):
    """A question about processes that are gone.

    Attributes:
        question: Which transactional ids they have, and in which partitions they wrote.
        end: Ends what one of these ids has left there; says whether that was done.
    """

    question: Question[Cluster, _PlacesOf]
    end: Callable[[str, Sequence[TopicPartition]], bool]


class TransactionWatch:
    """Watches the partitions of a worker's tasks for open transactions, and ends those that hang.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Reports what hangs and what was ended.
    """

    def __init__(self, config: Config, ports: Ports, observer: Observer) -> None:
        self._config = config
        self._ports = ports
        self._observer = observer
        self._topics = config.topics
        self._open = OpenTransactions(ports.cluster, ports.clock)
        self._unread = OpenTransactions(ports.cluster, ports.clock)
        self._held: set[int] = set()  # tasks that wait for a hanging transaction
        self._ended: set[int] = set()  # new tasks whose hanging records of our own id were ended
        self._searched: set[int] = set()  # new tasks for which transactions of processes that are gone were ended
        self._gone: list[_Gone] = []  # questions that have no answer yet
        self._announced: set[int] = set()  # new tasks that have our transactional id in their progress

    # Starting and assigning -----------------------------------------------------------------------------------------

    def begin(self, partitions: int) -> None:
        """Wait for everything that is open in all partitions of the application, and end our own hanging records."""
        places = [TopicPartition(name, number) for name in self._written for number in range(partitions)]
        self.sweep(open_places(self._ports.cluster, places))

    def assigned(self) -> None:
        """Forget what was announced and ended for the tasks of the previous assignment."""
        self._announced.clear()
        self._ended.clear()
        self._searched.clear()
        self._gone.clear()

    def revoked(self) -> None:
        """Stop reporting tasks as held: another worker waits for them now, and ends what processes left there."""
        self._held.clear()
        self._gone.clear()

    def unannounced(self, numbers: Iterable[int]) -> Sequence[int]:
        """Return the new tasks that do not have our transactional id in their progress yet."""
        return [number for number in numbers if number not in self._announced]

    def announce(self, numbers: Sequence[int]) -> None:
        """Write our transactional id to the progress of these tasks: another worker may have to end what we leave."""
        partitions = [TopicPartition(self._topics.progress, number) for number in numbers]
        if sweep(self._ports.transaction, self._config.transactional_id, partitions):
            self._announced.update(numbers)
        for number in numbers:
            self.wait_for(number)

    def wait_for(self, number: int) -> None:
        """Hold a task until everything that is open in its partitions has ended."""
        self._open.add(TopicPartition(topic, number) for topic in self._written)

    def end_own(self, new: Sequence[int]) -> None:
        """End hanging records of our own id at once where new tasks wait; those of other ids only after a time."""
        held = {number for number in new if self._open.holds(number)} - self._ended
        if held:
            self._ended |= held
            self.sweep([place for place in self._open.places if place.partition in held])

    def progress_end(self, number: int) -> int:
        """Return the end of a task's progress when nothing was open there any more."""
        return self._open.end(TopicPartition(self._topics.progress, number))

    def is_open(self, number: int) -> bool:
        """Say whether a transaction may still be open in the partitions of a task."""
        return self._open.holds(number)

    def forget(self, number: int) -> None:
        """Forget the commits of a task that is restored again, and wait for the transactions that are open there."""
        self._unread.forget(number)
        self._ended.discard(number)
        self._searched.discard(number)
        self.wait_for(number)

    def forget_unread(self, number: int) -> None:
        """Forget the commits of a task that go on in a topic that was deleted and created again."""
        self._unread.forget(number)

    # Working --------------------------------------------------------------------------------------------------------

    def look(self, tasks: Callable[[], Sequence[OwnedTask]], new: Sequence[int], renew: Callable[[int], None]) -> None:
        """Ask how far the partitions can be read, name snapshots that have become readable, and end what hangs.

        Args:
            tasks: Returns the tasks of this worker.
            new: Numbers of the tasks that are assigned and not yet being restored; `renew` adds to it.
            renew: Restores a task of this worker from its beginning.
        """
        before = len(self._open.places)
        names = any(task.unnamed_ends is not None for task in tasks())
        unreadable = self._unread.look(LOOK_INTERVAL_S if names else UNREAD_INTERVAL_S)
        owned = {task.number for task in tasks()}
        for number in sorted({place.partition for place in unreadable} & owned):
            renew(number)
        hanging = [*self._open.look(), *unreadable]
        if hanging:
            self._end_hanging(list(dict.fromkeys(hanging)))
        self._ask_for_gone(new)
        self._end_gone()
        if self._held and len(self._open.places) < before:
            freed = {number for number in self._held if not self._open.holds(number)}
            self._held -= freed
            if freed:
                self._observer.emit(events.Unblocked(sorted(freed)))
        self.name_snapshots(tasks())

    def _ask_for_gone(self, new: Sequence[int]) -> None:
        """Ask which processes that have left the group wrote where new tasks wait, once in each assignment."""
        places = [place for place in self._open.held(GONE_AFTER_S) if place.partition in new]
        places = [place for place in places if place.partition not in self._searched]
        if places:
            self._searched.update(place.partition for place in places)
            self._gone.append(
                _Gone(self._question(places), lambda name, _: end_open(name, self._ports.open_transaction))
            )

    def _end_hanging(self, places: Sequence[TopicPartition]) -> None:
        """End hanging records in these partitions, of our own id and, later, of the ids of processes that are gone."""
        self._held |= {place.partition for place in places}
        self._observer.emit(events.Hanging(places))
        self.sweep(places)
        self._gone.append(
            _Gone(
                self._question(places),
                lambda name, chosen: take_over(name, self._ports.open_transaction, chosen),
            )
        )

    def _end_gone(self) -> None:
        """End what processes that are gone have left, where the cluster has said who is gone."""
        for one in tuple(self._gone):
            gone = one.question.answer()
            if gone is None:
                continue
            self._gone.remove(one)
            for name, chosen in gone.items():
                if one.end(name, chosen):
                    self._observer.emit(events.TakenOver(sorted({place.partition for place in chosen}), name))

    def _question(self, places: Sequence[TopicPartition]) -> "Question[Cluster, _PlacesOf]":
        """Ask which processes wrote to these partitions and have left the group."""
        config = self._config

        def gone(cluster: Cluster) -> _PlacesOf:
            places_of: dict[str, list[TopicPartition]] = {}
            for number in sorted({place.partition for place in places}):
                for name in writers_of(cluster, TopicPartition(config.topics.progress, number)):
                    chosen = [place for place in places if place.partition == number]
                    places_of.setdefault(name, []).extend(chosen)
            places_of.pop(config.transactional_id, None)
            if not places_of:
                return {}
            alive = {member.rpartition("/")[2] for member in cluster.members(config.group_id)}
            return {name: chosen for name, chosen in places_of.items() if name.rpartition("/")[2] not in alive}

        return Question(self._ports.cluster, gone)

    def sweep(self, places: Sequence[TopicPartition]) -> None:
        """End hanging records of our own id in these partitions, and wait for the end."""
        sweep(self._ports.transaction, self._config.transactional_id, places)
        self._open.add(places)

    # Commits --------------------------------------------------------------------------------------------------------

    def note_written(self, part: Part) -> None:
        """Remember how far the partitions of a task were written: the next commit record says so."""
        number = part.task.number
        for topic, offsets in part.written.items():
            if offsets:
                part.task.position.output_ends[topic] = offsets[-1] + 1
                part.task.position.marked.add(topic)
                self._unread.wrote(output_partition(self._topics, topic, number), offsets[-1] + 1)
        if part.progress_offsets:
            part.task.position.progress_end = part.progress_offsets[-1] + 1 + MARKER_OFFSETS
        changelog = part.task.live.snapshot_offsets if part.repair is None else []
        for name, offsets in (("progress", part.progress_offsets), ("changelog", changelog)):
            if offsets:
                self._unread.wrote(output_partition(self._topics, name, number), offsets[-1] + 1)

    def unread_ends(self, number: int) -> dict[TopicPartition, int]:
        """Return how far the partitions of a task were written, for those that could not be read at the last look."""
        return dict(self._unread.ends(number))

    def hurry(self) -> None:
        """Ask at the next look, without waiting for the interval: a snapshot waits for the answer."""
        self._unread.hurry()

    def wait_for_readers(self, tasks: Sequence[OwnedTask]) -> None:
        """Look once whether everything that was written can be read; pause if not."""
        self._unread.look(0.0)
        if self._unread.places:
            self._ports.clock.sleep(MARKER_WAIT_S)
        self.name_snapshots(tasks)

    def name_snapshots(self, tasks: Sequence[OwnedTask]) -> None:
        """Let tasks name their newest snapshot, where everything that the snapshot needs can be read."""
        for task in tasks:
            if task.unnamed_ends is not None and self._unread.is_readable(task.unnamed_ends):
                task.live.name_snapshot()

    @property
    def _written(self) -> Sequence[str]:
        """The topics that a transaction of this worker may write to: all but the two inputs."""
        return self._topics[2:]
