"""Wait until the commits of a worker can be read: a snapshot is named only after that, and a lost marker is noticed."""

from collections.abc import Callable, Sequence

from stream_app.backends.base import TopicPartition
from stream_app.config import Config
from stream_app.lost_markers.hanging_transactions import HangingTransactions
from stream_app.lost_markers.open_transactions import LOOK_INTERVAL_S, OpenTransactions
from stream_app.lost_markers.output_logs import MARKER_OFFSETS
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.round_transaction import Part, output_partition

_UNREAD_INTERVAL_S = 1.0
"""Interval at which the worker asks whether its commits can be read; a snapshot takes two intervals."""

_MARKER_WAIT_S = 0.005
"""Pause between two such questions while a worker saves its last snapshots."""


class _HangingReports:
    """Reports what hangs as events."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """Report partitions in which a transaction hangs."""
        self._observer.emit(events.Hanging(places))

    def taken_over(self, numbers: Sequence[int], transactional_id: str) -> None:
        """Report tasks in whose partitions the open transaction of a process that is gone was ended."""
        self._observer.emit(events.TakenOver(numbers, transactional_id))

    def freed(self, numbers: Sequence[int]) -> None:
        """Report tasks in whose partitions nothing hangs any more."""
        self._observer.emit(events.Unblocked(numbers))


class TransactionWatch:
    """Watches how far what the worker wrote can be read.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Reports what hangs and what was ended.

    Attributes:
        hanging: Waits for the transactions that were open before the worker had its tasks, and ends those that hang.
    """

    def __init__(self, config: Config, ports: Ports, observer: Observer) -> None:
        self._ports = ports
        self._topics = config.topics
        self.hanging = HangingTransactions(
            config, ports.cluster, ports.clock, ports.transaction, ports.open_transaction, _HangingReports(observer)
        )
        self._unread = OpenTransactions(ports.cluster, ports.clock)

    def forget(self, number: int) -> None:
        """Forget the commits of a task that is restored again, and wait for the transactions that are open there."""
        self.forget_unread(number)
        self.hanging.forget(number)

    def forget_unread(self, number: int) -> None:
        """Forget the commits of a task that continue in a topic that was deleted and created again."""
        self._unread.forget(number)

    def look(self, tasks: Callable[[], Sequence[OwnedTask]], new: Sequence[int], renew: Callable[[int], None]) -> None:
        """Ask how far the partitions can be read, name snapshots that have become readable, and end what hangs.

        Args:
            tasks: Returns the tasks of this worker.
            new: Numbers of the tasks that are assigned and not yet being restored; `renew` adds to it.
            renew: Restores a task of this worker from its beginning.
        """
        names = any(task.unnamed_ends is not None for task in tasks())
        unreadable = self._unread.look(LOOK_INTERVAL_S if names else _UNREAD_INTERVAL_S)
        owned = {task.number for task in tasks()}
        for number in sorted({place.partition for place in unreadable} & owned):
            renew(number)
        self.hanging.look(new, unreadable)
        self.name_snapshots(tasks())

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

    def is_progress_read(self, number: int, offset: int) -> bool:
        """Say whether the record of progress at this offset could be read at the last look, if this worker wrote it."""
        return self._unread.is_readable({TopicPartition(self._topics.progress, number): offset + 1})

    def hurry(self) -> None:
        """Ask at the next look, without waiting for the interval: a snapshot waits for the answer."""
        self._unread.hurry()

    def wait_for_readers(self, tasks: Sequence[OwnedTask]) -> None:
        """Look once whether everything that was written can be read; pause if not."""
        self._unread.look(0.0)
        if self._unread.places:
            self._ports.clock.sleep(_MARKER_WAIT_S)
        self.name_snapshots(tasks)

    def name_snapshots(self, tasks: Sequence[OwnedTask]) -> None:
        """Let tasks name their newest snapshot, where everything that the snapshot needs can be read."""
        for task in tasks:
            if task.unnamed_ends is not None and self._unread.is_readable(task.unnamed_ends):
                task.live.name_snapshot()
