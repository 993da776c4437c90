"""One writer of progress at a time: how every command that records acts writes them.

A worker reads progress when it restores a task, and numbers its records from there on. So nothing may be written
between the reading and the writing of a command, by another command or by a worker. Kafka sees to that:

    another command   all commands have one transactional id. A command initialises it before it reads, and so fences
                      each command that began earlier: that command can write nothing any more
    a worker          the transaction also commits an offset, which nobody reads, as of a group without members
                      (KIP-447). The broker refuses it while the group has members. A worker that joins later finds
                      the records of this transaction in progress, and waits for its end
    all in between    the transaction is aborted if progress has grown since it was read

The records come first, and then the offset: a worker that joined before the offset was accepted makes the broker
refuse it, and a worker that joins later finds the records in its progress, still open, and waits for their end.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import TypeVar

from stream_app.admin.models import Application
from stream_app.backends.base import Clock, TopicPartition, Transaction
from stream_app.backends.progress import last_records, progress_record
from stream_app.backends.reading import READ_TIMEOUT_S, rows_of
from stream_app.errors import ErrorCode, FencedError, StateError, TransactionAbortedError, UnknownOutcomeError
from stream_app.lost_markers.settle import settle
from stream_app.lost_markers.sweeps import sweep
from stream_app.progress_records import Act
from stream_app.record_columns import OutputRecords
from stream_app.recovery.restore import OPEN_TRANSACTION_S
from stream_app.serialization import codec
from stream_app.worker.round_transaction import logs_of, output_ids

PAUSE_S = 0.05
"""Interval at which progress is asked whether a transaction is still open there."""

Answer = TypeVar("Answer")


@contextmanager
def progress_writer(application: Application, *, dry_run: bool = False) -> Iterator["ProgressWriter"]:
    """Yield the only writer of progress, before anything is read.

    Args:
        application: The application.
        dry_run: Whether nothing is to be written: then no other command is fenced, and workers may run.

    Raises:
        StateError: Workers are running, or another command has started.
        UnknownOutcomeError: The broker did not answer in time.
        ConfigurationError: The broker refuses.
    """
    if dry_run:
        yield ProgressWriter(application, None)
        return
    with closing(application.open_transaction(application.config.tools_transactional_id)) as transaction:
        try:
            transaction.initialise()
            writer = ProgressWriter(application, transaction)
            writer.refuse_workers()
            yield writer
        except FencedError as error:  # before anything was written, see `write`
            raise StateError(f"{error}. {_AGAIN}", ErrorCode.IN_USE) from error


class ProgressWriter:
    """Writes acts to the progress of tasks.

    Without a transaction, nothing is written (a dry run).
    """

    def __init__(self, application: Application, transaction: Transaction | None) -> None:
        self._application = application
        self._transaction = transaction
        self._ends: dict[int, int] = {}

    def refuse_workers(self) -> None:
        """Refuse to write while workers run; the broker would refuse it too, after the command has read everything.

        Raises:
            StateError: The group has members.
        """
        group = self._application.config.group_id
        members = self._application.cluster.members(group)
        if members:
            raise StateError(
                f"{group}: workers are running ({len(members)}): stop all of them, and run this command again",
                ErrorCode.IN_USE,
            )

    def begin(self, task: int) -> None:
        """Note the end of a task's progress; the caller reads progress after this.

        Raises:
            StateError: A transaction is open in progress, or the last transaction has to be repaired by a worker first.
            UnknownOutcomeError: The broker did not answer in time.
        """
        if self._transaction is None:
            return
        # A worker that meets a hanging transaction of this command finds its id in progress, and ends it.
        sweep(self._transaction, self._application.config.tools_transactional_id, [self._progress(task)])
        self._ends[task] = self._stable_end(task)
        if self._lost(task):
            raise StateError(
                f"task {task}: the brokers have lost the end of its last transaction. Start a worker, which repairs "
                "the task, stop it with SIGTERM, and run this command again",
                ErrorCode.HELD_BACK,
            )

    def write(self, task: int, acts: Sequence[Act]) -> None:
        """Append acts to a task's progress, all or nothing.

        Args:
            task: Number of the task, after `begin`.
            acts: The acts, with the next sequences.

        Raises:
            StateError: A worker or another command has begun meanwhile; nothing was written.
            UnknownOutcomeError: The broker did not answer in time.
        """
        transaction = self._transaction
        if transaction is None:
            return
        values = [codec.encode(act) for act in acts]
        problem: StateError | TransactionAbortedError = StateError(
            f"task {task}: the brokers have lost the end of the transaction, and nothing of it counts. Run this "
            "command again",
            ErrorCode.HELD_BACK,
        )
        try:
            self._send(transaction, task, values)
        except FencedError as error:
            problem = StateError(f"{error}. {_AGAIN}", ErrorCode.IN_USE)
        except TransactionAbortedError as error:
            problem = error
            transaction.initialise()  # ends the transaction, if the client had to be replaced
        self._check_outcome(task, values, problem)

    def _send(
        self,
        transaction: Transaction,
        task: int,
        values: Sequence[bytes],
    ) -> None:
        progress, now_ms = self._progress(task), self._application.clock.now_ms()
        written: list[int] = []
        transaction.begin()
        transaction.produce(progress, OutputRecords.of([None] * len(values), values, [now_ms] * len(values)), written)
        transaction.flush()
        # The broker looks at the group only when it gets an offset; nobody reads the offset of progress.
        group = self._application.cluster.empty_group(self._application.config.group_id)
        transaction.send_offsets({progress: self._ends[task]}, group)
        if written[0] != self._ends[task]:
            transaction.abort()
            raise StateError(f"task {task}: its progress has grown since it was read. {_AGAIN}", ErrorCode.IN_USE)
        transaction.commit()

    def _check_outcome(
        self,
        task: int,
        values: Sequence[bytes],
        problem: StateError | TransactionAbortedError,
    ) -> None:
        """Return if what was to be written can be read, whatever answer our client got; else raise the problem."""
        self._stable_end(task)
        end = self._ends[task]  # our records would be there: an equal command writes its id first
        found = islice(rows_of(self._application.cluster, self._progress(task), end), len(values))
        if [(row.offset, row.value) for row in found] == list(enumerate(values, end)):
            return
        self.refuse_workers()
        raise problem

    def _progress(self, task: int) -> TopicPartition:
        return TopicPartition(self._application.config.topics.progress, task)

    def _stable_end(self, task: int) -> int:
        """Return the end of progress once no transaction is open there."""
        progress, clock = self._progress(task), self._application.clock
        until_s = clock.monotonic_s() + OPEN_TRANSACTION_S
        while (ends := self._application.cluster.ends([progress])[progress]).stable < ends.high:
            if clock.monotonic_s() > until_s:
                raise StateError(
                    f"{progress.topic}[{task}]: a transaction is open. Start a worker, which ends it, stop the worker "
                    "with SIGTERM, and run this command again",
                    ErrorCode.HELD_BACK,
                )
            clock.sleep(PAUSE_S)
        return ends.high

    def _lost(self, task: int) -> bool:
        """Say whether records of progress were committed that nobody can read: they have the next sequences."""
        application = self._application
        readable = last_records(application.cluster, self._progress(task))
        ids = output_ids(application.cluster.topics(application.config.topics), application.config.topics)
        outputs = logs_of(application.cluster, application.config.topics, task, ids).outputs
        if outputs is None:
            raise AssertionError("a worker's logs include its outputs")
        steps = settle(
            outputs,
            lambda value: progress_record(value, f"progress[{task}]"),
            readable,
            readable[-1].record.sequence if readable else -1,
            is_anchored=False,
        )
        return bool(_finished(steps, application.clock).lost)


_AGAIN = "Another command or a worker has started meanwhile, and nothing was written. Run this command again"


def _finished(steps: Generator[bool, None, Answer], clock: Clock) -> Answer:
    """Run a generator that yields after each poll whether it had news, and return its result.

    Raises:
        UnknownOutcomeError: There was no news for too long.
    """
    silent_since_s = clock.monotonic_s()
    while clock.monotonic_s() - silent_since_s < READ_TIMEOUT_S:
        try:
            has_news = next(steps)
        except StopIteration as done:
            answer: Answer = done.value
            return answer
        if has_news:
            silent_since_s = clock.monotonic_s()
        else:
            clock.sleep(PAUSE_S)
    raise UnknownOutcomeError(f"the broker did not answer for {READ_TIMEOUT_S:g} s")
