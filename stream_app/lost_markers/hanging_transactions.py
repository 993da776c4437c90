"""Wait for open transactions in the partitions of a worker's tasks to end, and end those that hang.

The first transaction of a process is a sweep, and so is the first transaction for each task that the process is given.
The latter sweep leaves the transactional id in the progress of the task, where readers of uncommitted records find it.
A task is restored only once everything that was open in its partitions has ended. What stays open for longer than a
transaction may last is swept by the owner of the task, under its own transactional id and under those that progress
names, unless a member of the group uses them. The new owner of a task does not wait so long for a process that has left
the group: it has the coordinator abort the open transaction of that process at once. `settle` then decides which of the
ended transactions had been committed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from stream_app.backends.base import Clock, Cluster, TopicPartition, Transaction
from stream_app.backends.held_back import open_ends
from stream_app.backends.questions import Question
from stream_app.config import Config
from stream_app.lost_markers.open_transactions import OpenTransactions
from stream_app.lost_markers.sweeps import end_left, sweep, writers_of

_GONE_AFTER_S = 0.5
"""A transaction that is open for this long where a task is to be restored, and whose process has left the group, was
left behind: the broker would abort it some 10 s later."""

_PlacesOf: TypeAlias = Mapping[str, Sequence[TopicPartition]]


class _Gone(NamedTuple):
    """A question about processes that are gone.

    Attributes:
        question: Which transactional ids they have, and in which partitions they wrote.
        hangs: Whether what they have left there hangs, so that a sweep has to end it.
    """

    question: Question[Cluster, _PlacesOf]
    hangs: bool


class _HangingObserver(Protocol):
    """Reports what hangs and what was ended."""

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """Report partitions in which a transaction hangs."""

    def taken_over(self, numbers: Sequence[int], transactional_id: str) -> None:
        """Report tasks in whose partitions the open transaction of a process that is gone was ended."""

    def freed(self, numbers: Sequence[int]) -> None:
        """Report tasks in whose partitions nothing hangs any more."""


class HangingTransactions:
    """Waits until no transaction is open in the partitions of a worker's tasks, and ends those that hang.

    Args:
        config: The whole configuration.
        cluster: Answers questions about topics and groups.
        clock: A monotonic clock.
        transaction: Writes under the worker's own transactional id.
        open_transaction: Makes a producer of another transactional id.
        observer: Reports what hangs and what was ended.
    """

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        clock: Clock,
        transaction: Transaction,
        open_transaction: Callable[[str], Transaction],
        observer: _HangingObserver,
    ) -> None:
        self._config = config
        self._topics = config.topics
        self._cluster = cluster
        self._transaction = transaction
        self._open_transaction = open_transaction
        self._observer = observer
        self._open = OpenTransactions(cluster, clock)
        self._held: set[int] = set()  # tasks that wait for a hanging transaction
        self._ended: set[int] = set()  # new tasks whose hanging records of our own id were ended
        self._searched: set[int] = set()  # new tasks for which transactions of processes that are gone were ended
        self._gone: list[_Gone] = []  # questions that have no answer yet
        self._announced: set[int] = set()  # new tasks that have our transactional id in their progress

    # Starting and assigning -----------------------------------------------------------------------------------------

    def begin(self, partitions: int) -> None:
        """Wait for everything that is open in all partitions of the application, and end our own hanging records."""
        places = [TopicPartition(name, number) for name in self._written for number in range(partitions)]
        self._sweep(tuple(open_ends(self._cluster, places)))

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
        if sweep(self._transaction, self._config.transactional_id, partitions):
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
            self._sweep([place for place in self._open.places if place.partition in held])

    def progress_end(self, number: int) -> int:
        """Return the end of a task's progress when nothing was open there any more."""
        return self._open.end(TopicPartition(self._topics.progress, number))

    def is_open(self, number: int) -> bool:
        """Say whether a transaction may still be open in the partitions of a task."""
        return self._open.holds(number)

    def forget(self, number: int) -> None:
        """Wait for the transactions that are open in the partitions of a task that is restored again."""
        self._ended.discard(number)
        self._searched.discard(number)
        self.wait_for(number)

    # Working --------------------------------------------------------------------------------------------------------

    def look(self, new: Sequence[int], unreadable: Sequence[TopicPartition]) -> None:
        """Ask how far the partitions can be read, and end what hangs.

        Args:
            new: Numbers of the tasks that are assigned and not yet being restored.
            unreadable: Partitions in which our own commits hang.
        """
        before = len(self._open.places)
        hanging = [*self._open.look(), *unreadable]
        if hanging:
            self._end_hanging(list(dict.fromkeys(hanging)))
        self._ask_for_gone(new)
        self._end_gone()
        if self._held and len(self._open.places) < before:
            freed = {number for number in self._held if not self._open.holds(number)}
            self._held -= freed
            if freed:
                self._observer.freed(sorted(freed))

    def _ask_for_gone(self, new: Sequence[int]) -> None:
        """Ask which processes that have left the group wrote where new tasks wait, once in each assignment."""
        places = [place for place in self._open.held(_GONE_AFTER_S) if place.partition in new]
        places = [place for place in places if place.partition not in self._searched]
        if places:
            self._searched.update(place.partition for place in places)
            self._gone.append(_Gone(self._question(places), hangs=False))

    def _end_hanging(self, places: Sequence[TopicPartition]) -> None:
        """End hanging records in these partitions, of our own id and, later, of the ids of processes that are gone."""
        self._held |= {place.partition for place in places}
        self._observer.hanging(places)
        self._sweep(places)
        self._gone.append(_Gone(self._question(places), hangs=True))

    def _end_gone(self) -> None:
        """End what processes that are gone have left, where the cluster has said who is gone."""
        for one in tuple(self._gone):
            gone = one.question.answer()
            if gone is None:
                continue
            self._gone.remove(one)
            for name, chosen in gone.items():
                if end_left(name, self._open_transaction, chosen if one.hangs else ()):
                    self._observer.taken_over(sorted({place.partition for place in chosen}), name)

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

        return Question(self._cluster, gone)

    def _sweep(self, places: Sequence[TopicPartition]) -> None:
        """End hanging records of our own id in these partitions, and wait for the end."""
        sweep(self._transaction, self._config.transactional_id, places)
        self._open.add(places)

    @property
    def _written(self) -> Sequence[str]:
        """The topics that a transaction of this worker may write to: all but the two inputs."""
        return self._topics[2:]
