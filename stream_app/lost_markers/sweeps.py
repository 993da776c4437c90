"""End hanging transactions: those that are still open in a partition although their coordinator has ended them.

The next transaction of the same transactional id in the same partition ends the hanging records together with its own
records: it commits or aborts both. So a hanging transaction is ended by a transaction that aborts: a sweep. A sweep
ends all hanging records of its transactional id in the partitions that it writes to.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from stream_app import log_lines
from stream_app.backends.base import Cluster, TopicPartition, Transaction
from stream_app.errors import (
    FencedError,
    TransactionAbortedError,
    UndecodableError,
    UnknownOutcomeError,
    WrongSchemaError,
)
from stream_app.progress_records import Commit
from stream_app.record_columns import OutputRecords
from stream_app.serialization import codec

LOGGER = logging.getLogger("areba.recovery")

SWEEP_KEY = b"sweep"
"""The key of the records of a sweep, which are never committed."""

TAIL_RECORDS = 1_000
"""The last offsets of progress that are searched for transactional ids: every hanging record is among them."""

_TAIL_POLLS = 500
"""Polls of 10 ms for these records; a broker that is silent for longer is asked again at the next check."""


def sweep(transaction: Transaction, transactional_id: str, places: Iterable[TopicPartition]) -> bool:
    """End the hanging records of a transactional id in these partitions, by aborting another transaction of that id.

    Args:
        transaction: A producer of this id, without an open transaction.
        transactional_id: The id; it is the value of each record.
        places: The partitions; each gets one record, which is aborted.

    Returns:
        Whether every partition got its record.

    Raises:
        FencedError: A newer producer has this id.
        UnknownOutcomeError: The broker did not answer in time.
    """
    record = OutputRecords.of([SWEEP_KEY], [transactional_id.encode()], [0])
    try:
        transaction.initialise()  # in case a lost client was replaced by a new one
        transaction.begin()
        for place in places:
            transaction.produce(place, record)
        transaction.flush()
        transaction.abort()
    except TransactionAbortedError as error:
        LOGGER.debug("a sweep was aborted before it was complete: %s", error)
        return False
    return True


def writers_of(cluster: Cluster, progress: TopicPartition) -> Sequence[str]:
    """Return the transactional ids whose transactions can hang in a task's partitions, oldest first.

    These are the id of the last commit that can be read in progress, and all ids that wrote after it: a task commits
    nothing while a transaction is open in its partitions.

    Raises:
        UnknownOutcomeError: The broker does not answer.
    """
    (stable, high) = cluster.ends([progress])[progress]
    found: dict[str, None] = {}
    with closing(cluster.reader(progress, committed=False)) as reader:
        reader.seek(max(cluster.watermarks(progress).low, stable - TAIL_RECORDS))
        for _ in range(_TAIL_POLLS):
            fetched = reader.poll(TAIL_RECORDS, 0.01)
            if fetched is None:
                continue
            records = fetched.records
            for offset, key, value in zip(records.offsets.tolist(), records.keys, records.values, strict=True):
                for name, is_commit in _writer_of(key, value):
                    if is_commit and offset < stable:
                        found.clear()
                    found[name] = None
            if fetched.at_end or (len(records) and records.offsets[-1] >= high - 1):
                break
    return tuple(name for name in found if name)


def _writer_of(key: bytes | None, value: bytes | None) -> Iterator[tuple[str, bool]]:
    if key == SWEEP_KEY:
        yield (value or b"").decode(errors="replace"), False
        return
    try:
        record = codec.decode_one(value or b"")
    except (UndecodableError, WrongSchemaError):
        return
    if isinstance(record, Commit):
        yield record.transactional_id, True


def end_left(
    transactional_id: str, open_transaction: Callable[[str], Transaction], places: Sequence[TopicPartition] = ()
) -> bool:
    """End what a process that is gone has left open, by a newer producer of its id; return whether that was done.

    Without partitions, this asks the coordinator alone, not the leaders of the partitions, of which one may be away.
    Another worker may do the same at the same time: then the broker fences the worker that began first, and the other
    worker ends the rest.

    Args:
        transactional_id: The id of the process.
        open_transaction: Returns a producer of an id.
        places: The partitions in which records of the id hang.
    """
    transaction = open_transaction(transactional_id)
    try:
        transaction.initialise()
        return not places or sweep(transaction, transactional_id, places)
    except (FencedError, UnknownOutcomeError) as problem:
        log_lines.TAKEOVER_POSTPONED.log(LOGGER, transactional_id=transactional_id, problem=problem)
        return False
    finally:
        transaction.close()
