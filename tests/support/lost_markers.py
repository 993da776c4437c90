"""An in-process log that loses markers of transactions, as Kafka does (docs/lost_markers.md)."""

import threading
from collections.abc import Callable, Hashable, Sequence

from stream_app.backends.base import Clock
from stream_app.backends.memory.broker import MAX_POLL_INTERVAL_S
from stream_app.backends.memory.log import LogTransaction, TransactionState
from tests.support.brokers import AdministeredBroker


class MarkerLosingBroker(AdministeredBroker):
    """The in-process log, in which transactions end without markers where the test says so.

    Attributes:
        loses_markers: Says whether the aborted transaction of an id gets no markers at all.
        loses_commit_markers: Returns the partitions, and groups, that get no marker of the committed transaction of an
            id, among those that it wrote to.
        swept: Is called when a later transaction has ended what was hanging.
    """

    def __init__(
        self,
        clock: Clock,
        max_poll_interval_s: float = MAX_POLL_INTERVAL_S,
        changed: threading.Condition | None = None,
    ) -> None:
        super().__init__(clock, max_poll_interval_s, changed)
        self._hanging: dict[str, list[LogTransaction]] = {}
        self.loses_markers: Callable[[str], bool] = lambda _: False
        self.loses_commit_markers: Callable[[str, Sequence[Hashable]], set[Hashable]] = lambda *_: set()
        self.swept: Callable[[], None] = lambda: None

    @property
    def hanging(self) -> Sequence[str]:
        """The transactional ids with hanging transactions."""
        return sorted(self._hanging)

    def hangs(self) -> bool:
        """Say whether any records hang; nobody reads offsets that do."""
        return any(part.partitions for parts in self._hanging.values() for part in parts)

    def end(self, transactional_id: str, state: TransactionState) -> None:
        """End a transaction and the hanging ones of this id in the same partitions; or leave it hanging."""
        transaction = self._open.get(transactional_id)
        if transaction is not None and state is TransactionState.ABORTED and self.loses_markers(transactional_id):
            self._hang(transactional_id, self._open.pop(transactional_id))
        elif transaction is not None:
            if state is TransactionState.COMMITTED:
                places: list[Hashable] = [*transaction.partitions, *transaction.offsets]
                self._leave_out(transactional_id, transaction, self.loses_commit_markers(transactional_id, places))
            self._end_hanging(transactional_id, transaction, state)
        super().end(transactional_id, state)

    def end_by_hand(self, transactional_id: str) -> None:
        """Abort the hanging transactions of an id that does not return, as an operator does."""
        with self.changed:
            for hanging in self._hanging.pop(transactional_id, []):
                self._end_part(hanging, TransactionState.ABORTED)

    def _hang(self, transactional_id: str, transaction: LogTransaction) -> None:
        """Leave a transaction hanging; its parts in each partition, and each group's offsets, may end differently."""
        self._leave_out(transactional_id, transaction, {*transaction.partitions, *transaction.offsets})

    def _leave_out(self, transactional_id: str, transaction: LogTransaction, lost: set[Hashable]) -> None:
        """Write no marker to these partitions and for the offsets of these groups."""
        if not lost:
            return
        parts = self._hanging.setdefault(transactional_id, [])
        for partition in [one for one in transaction.partitions if one in lost]:
            first = transaction.partitions.pop(partition)
            part = LogTransaction(transaction.started_s, transaction.timeout_s, partitions={partition: first})
            log = self._log(partition)
            log.entries[:] = [e._replace(transaction=part) if e.transaction is transaction else e for e in log.entries]
            log.open[part] = log.open.pop(transaction)
            parts.append(part)
        for group_id in [one for one in transaction.offsets if one in lost]:
            offsets = transaction.offsets.pop(group_id)
            parts.append(LogTransaction(transaction.started_s, transaction.timeout_s, offsets={group_id: offsets}))

    def _end_hanging(self, transactional_id: str, transaction: LogTransaction, state: TransactionState) -> None:
        touched = {*transaction.partitions, *transaction.offsets}
        parts = self._hanging.pop(transactional_id, [])
        left = [part for part in parts if touched.isdisjoint((*part.partitions, *part.offsets))]
        if left:
            self._hanging[transactional_id] = left
        for part in parts:
            if part not in left:
                self._end_part(part, state)
                self.swept()

    def _end_part(self, part: LogTransaction, state: TransactionState) -> None:
        part.state = state
        for partition in part.partitions:
            del self._log(partition).open[part]
        for group_id, offsets in part.offsets.items():
            if state is TransactionState.COMMITTED:
                self.groups.group(group_id).offsets.update(offsets)
        self.changed.notify_all()
