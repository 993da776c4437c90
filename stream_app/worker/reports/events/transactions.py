"""Transactions: their end, and what hangs."""

from collections.abc import Sequence

from stream_app.backends.base import TopicPartition
from stream_app.worker.reports.events.base import INFO, WARNING, Event, event


@event()
class TransactionCommitted(Event):
    """A transaction was committed that began at this time."""

    began_s: float


@event("aborted", WARNING, ": {problem}")
class Aborted(Event):
    """A transaction was aborted; its tasks are restored."""

    problem: str


@event(
    "hanging",
    WARNING,
    ": in {partitions} a transaction does not end; it is aborted now, if its transactional id is known",
)
class Hanging(Event):
    """A transaction does not end, and tasks wait for it."""

    partitions: Sequence[TopicPartition]


@event("taken-over", WARNING, " tasks={tasks} transactional_id={transactional_id}: its open transaction was ended")
class TakenOver(Event):
    """The worker has ended a transaction that a process which is gone had left open."""

    tasks: Sequence[int]
    transactional_id: str


@event("unblocked", INFO, " tasks={tasks}")
class Unblocked(Event):
    """The transactions that these tasks were waiting for are no longer open."""

    tasks: Sequence[int]
