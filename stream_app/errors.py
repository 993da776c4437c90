"""Every error that areba raises on purpose, and the exit status of a process that ends with it.

    ArebaError
     +-- ConfigurationError     settings are wrong; `lines` has one line for each          exit 2
     |    +-- TopicError        a topic is missing, or its settings are wrong              exit 2
     |    +-- ForeignRecordsError   another application writes to the output topics        exit 2
     |    +-- OwnCodeError      a user's own learner or network failed (a worker parks its task)
     |    +-- DataSetError      a data set is missing, or its checksum is wrong            exit 2
     +-- StateError             a task cannot be restored                                  exit 3
     |    +-- OffsetGoneError   a record that must be read was deleted                     exit 3
     +-- RestartNeededError     the process must be started again                          exit 4
     |    +-- UnknownOutcomeError   it is unknown whether the transaction was committed
     |    |    +-- UnstableOffsetsError   an open transaction holds the group's offsets
     |    |    +-- OutageError       no broker could be reached
     |    +-- FencedError           a newer producer has the same transactional id
     +-- FencedAgainError       fenced soon after a start: another instance has this name  exit 5
     +-- TransactionAbortedError    a transaction was aborted; its tasks are restored
     |    +-- RecordTooLargeError   a topic does not accept a record or batch of this size
     +-- DeliveryError          the broker did not accept records                          exit 1
     +-- BooksError             the contents of the topics contradict one another          exit 1
     +-- UndecodableError       a value is not a record of its schema                      exit 1
     +-- WrongSchemaError       a value does not name a schema of this package             exit 1

A malformed input record is not an error: it becomes a dead letter with a `records.Reason`. `UndecodableError` and
`WrongSchemaError` are for readers of single values, such as tools.
"""

import traceback
from collections.abc import Iterable
from pathlib import Path

_OURS = (str(Path(__file__).parent), "site-packages", "dist-packages")


def raised_at(error: BaseException) -> str:
    """Return where a user's own code raised an error, and the error: `FILE:LINE: TYPE: MESSAGE`.

    The place is the innermost frame outside this package and the installed ones, or the innermost frame of all.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _OURS)]
    place = (own or frames)[-1:]
    where = "".join(f"{frame.filename}:{frame.lineno}: " for frame in place)
    return f"{where}{type(error).__name__}: {error}"


class ArebaError(Exception):
    """Base class: `exit_code` is the exit status of a process that ends with the error, `lines` are printed."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        self.lines: tuple[str, ...] = (message,)
        super().__init__(message)


class ConfigurationError(ArebaError):
    """Settings are wrong.

    Args:
        lines: One line for each wrong setting.
    """

    exit_code = 2

    def __init__(self, lines: str | Iterable[str]) -> None:
        every = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(every))
        self.lines = every


class TopicError(ConfigurationError):
    """A topic is missing, or its settings would break a guarantee."""


class ForeignRecordsError(ConfigurationError):
    """An output partition has a record that this application did not write.

    Args:
        topic: The output topic.
        partition: Its partition.
        offset: The offset of the first such record.
    """

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"{topic}[{partition}] offset {offset}: this application did not write this record. Set "
            "kafka.output_prefix to a prefix that no other application has, or accept the records with --adopt"
        )


class OwnCodeError(ConfigurationError):
    """A user's own learner or network raised an error, or returned a wrong value."""


class DataSetError(ConfigurationError):
    """A data set is missing, or its checksum is wrong."""


class StateError(ArebaError):
    """The state of a task cannot be restored; the message says why, and what to do."""

    exit_code = 3


class OffsetGoneError(StateError):
    """A record that must be read was deleted by retention.

    Args:
        message: The message, with the offset that is needed and the first offset that is left.
        partition: The topic and the number of the partition.
    """

    def __init__(self, message: str, partition: tuple[str, int]) -> None:
        self.partition = partition
        super().__init__(message)


class RestartNeededError(ArebaError):
    """The process must be started again, as after a `kill -9`."""

    exit_code = 4


class UnknownOutcomeError(RestartNeededError):
    """The broker did not say whether the transaction was committed."""


class UnstableOffsetsError(UnknownOutcomeError):
    """An open transaction holds committed offsets of the group, or no broker answers."""


class OutageError(UnknownOutcomeError):
    """No broker could be reached; the process restarts until one answers."""


class FencedError(RestartNeededError):
    """A newer producer has the same transactional id, or the transaction timed out; the broker answers both alike."""


class FencedAgainError(ArebaError):
    """The worker was fenced within `transaction.timeout.ms` of a restart: another instance has this name."""

    exit_code = 5


class TransactionAbortedError(ArebaError):
    """The transaction was aborted: the state of its tasks is invalid; the group's offsets say what was committed."""


class RecordTooLargeError(TransactionAbortedError):
    """The transaction was aborted because a topic accepts less than it did at the start: read its settings again."""


class DeliveryError(ArebaError):
    """The client took records, but the broker did not accept them."""


class BooksError(ArebaError):
    """`areba verify` found contradictions; `lines` has one line for each."""

    def __init__(self, lines: Iterable[str]) -> None:
        every = tuple(lines)
        super().__init__("\n".join(every))
        self.lines = every


class UndecodableError(ArebaError):
    """The bytes of a value are not a record of the schema that it names."""


class WrongSchemaError(ArebaError):
    """A value does not begin with the fingerprint of a schema of this package."""
