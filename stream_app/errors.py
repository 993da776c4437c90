"""Every error that areba raises on purpose.

    ArebaError
     +-- ConfigurationError     a setting is wrong; `lines` has one line for each          exit 2
     |    +-- TopicError        a topic is missing or set up in a way we cannot serve      exit 2
     |    +-- ForeignRecordsError   somebody else writes to the output topics              exit 2
     |    +-- OwnCodeError      a user's own learner or network failed (in a worker: its task is parked)
     |    +-- DataSetError      a data set is missing or is not what its checksum says     exit 2
     +-- StateError             a task cannot be restored                                  exit 3
     |    +-- OffsetGoneError   an offset that was to be read was deleted                  exit 3
     +-- RestartNeededError     whoever started the process should start it again          exit 4
     |    +-- UnknownOutcomeError   nobody can say whether the transaction was committed
     |    |    +-- UnstableOffsetsError   an open transaction holds the group's offsets
     |    |    +-- OutageError       no broker could be reached meanwhile
     |    +-- FencedError           a newer producer has our transactional id
     +-- FencedAgainError       fenced at once after a start: another instance has our name exit 5
     +-- TransactionAbortedError    a transaction was given up; its tasks are restored
     |    +-- RecordTooLargeError   a topic does not take a record, or a batch, of this size
     +-- DeliveryError          records were not accepted by the broker                    exit 1
     +-- BooksError             what the topics hold does not add up                       exit 1
     +-- UndecodableError       one value that a tool reads is not a record of its schema  exit 1
     +-- WrongSchemaError       one value that a tool reads names no schema of ours        exit 1

A malformed input record is no error of ours: it is a dead letter with a `records.Reason`. The last two are for readers
of single values.
"""

import traceback
from collections.abc import Iterable
from pathlib import Path

_OURS = (str(Path(__file__).parent), "site-packages", "dist-packages")


def raised_at(error: BaseException) -> str:
    """Where a user's own code raised an error, and what: `FILE:LINE: TYPE: MESSAGE`.

    The place is the innermost that is neither in this package nor in an installed one, if there is such a place.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _OURS)]
    place = (own or frames)[-1:]
    where = "".join(f"{frame.filename}:{frame.lineno}: " for frame in place)
    return f"{where}{type(error).__name__}: {error}"


class ArebaError(Exception):
    """The root; `exit_code` is the status of a process that ends with it, `lines` are for people."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        self.lines: tuple[str, ...] = (message,)
        super().__init__(message)


class ConfigurationError(ArebaError):
    """Settings are wrong.

    Args:
        lines: One line for each wrong setting, ready to be printed.
    """

    exit_code = 2

    def __init__(self, lines: str | Iterable[str]) -> None:
        every = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(every))
        self.lines = every


class TopicError(ConfigurationError):
    """A topic is missing, or its settings would break a promise."""


class ForeignRecordsError(ConfigurationError):
    """An output partition has a record that this application did not write.

    Args:
        topic: The output topic.
        partition: Its partition.
        offset: Of the first such record.
    """

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"{topic}[{partition}] offset {offset}: this application did not write this record. Set "
            "kafka.output_prefix to a prefix that no other application has, or accept what is there with --adopt"
        )


class OwnCodeError(ConfigurationError):
    """A user's own learner or network raised an error, or gave what it must not."""


class DataSetError(ConfigurationError):
    """A data set is missing, or its bytes are not those of its checksum."""


class StateError(ArebaError):
    """The state of a task cannot be rebuilt; the message has both numbers and the way on."""

    exit_code = 3


class OffsetGoneError(StateError):
    """A record that was to be read is not there any more (retention).

    Args:
        message: With both offsets.
        partition: Topic and number.
    """

    def __init__(self, message: str, partition: tuple[str, int]) -> None:
        self.partition = partition
        super().__init__(message)


class RestartNeededError(ArebaError):
    """The process must start afresh: the path that a `kill -9` takes."""

    exit_code = 4


class UnknownOutcomeError(RestartNeededError):
    """The broker did not say whether the transaction was committed."""


class UnstableOffsetsError(UnknownOutcomeError):
    """An open transaction holds committed offsets of the group, or no broker answers."""


class OutageError(UnknownOutcomeError):
    """No broker could be reached: it starts afresh as often as it takes."""


class FencedError(RestartNeededError):
    """A newer producer has our transactional id, or the transaction timed out (both look alike)."""


class FencedAgainError(ArebaError):
    """Fenced within `transaction.timeout.ms` of a start: another instance of this name runs."""

    exit_code = 5


class TransactionAbortedError(ArebaError):
    """The transaction was given up; the state of its tasks is void, and the group's offsets say what was committed."""


class RecordTooLargeError(TransactionAbortedError):
    """It was aborted because a topic takes less than was read of its settings: they are to be read again."""


class DeliveryError(ArebaError):
    """Records were handed to the client, but the broker did not accept them."""


class BooksError(ArebaError):
    """`areba verify` found something off; `lines` names each."""

    def __init__(self, lines: Iterable[str]) -> None:
        every = tuple(lines)
        super().__init__("\n".join(every))
        self.lines = every


class UndecodableError(ArebaError):
    """The bytes of a value are not those of a record of the schema that they name."""


class WrongSchemaError(ArebaError):
    """A value does not begin with the fingerprint of a schema of ours."""
