"""Every error that areba raises on purpose, and the exit status of a process that ends with it.

    ArebaError
     +-- ConfigurationError     settings are wrong; `lines` has one line for each          exit 2
     |    +-- TopicError        a topic is missing, or its settings are wrong              exit 2
     |    +-- ForeignRecordsError   another application writes to the output topics        exit 2
     |    +-- OwnCodeError      a user's own learner or network failed (a worker parks its task)
     |    +-- DataSetError      a data set or file of rows is missing or wrong             exit 2
     +-- StateError             a task cannot be restored; see `ErrorCode`                 exit 3
     |    +-- OffsetGoneError   a record that must be read was deleted                     exit 3
     +-- RestartNeededError     the process must be started again                          exit 4
     |    +-- UnknownOutcomeError   it is unknown whether the transaction was committed
     |    |    +-- OutageError       no broker could be reached
     |    +-- FencedError           a newer producer has the same transactional id
     +-- FencedAgainError       fenced soon after a start: another worker has this name    exit 5
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
from enum import StrEnum
from pathlib import Path


class ErrorCode(StrEnum):
    """What is wrong with the state of a task, or why a command refuses the state.

    Attributes:
        STATE_UNUSABLE: Something stored is damaged, or does not fit the configuration or this version. Restore what the
            message names, such as the former configuration or an intact backup; otherwise, start another application.
        OTHER_VERSION: Another version wrote the snapshot, or processed the last commits under other rules. Start that
            version.
        OFFSET_GONE: The next offset of a partition was deleted, or is larger than the end of the partition. Run the
            command again; `areba topics check` says whether the topic was created again.
        INPUTS_DELETED: Input records that the restore needs were deleted. Stop the workers with SIGTERM, then run
            `areba state skip`.
        INPUTS_REPLACED: An input topic was deleted and created again, so it is not the topic that was read. Start
            another application, and import the models that you saved.
        PROGRESS_LOST: Records of progress are gone, and no snapshot takes their place. Start another application, and
            import the models that you saved; a command that asks for the past: ask for a later commit.
        DIGEST_DIFFERS: Processing the inputs again gave other outputs than were committed. Start the version and the
            learners of your own that made these commits; otherwise, start another application.
        OUTPUTS_LOST: Committed outputs are missing and cannot be computed again. Start another application.
        SKIP_MISFIT: A skip does not fit: it was accepted for another snapshot than the loaded one, or would leave out
            too many records of progress. Run `areba state skip`; if it refuses, start another application.
        NO_RECORDS: No record came, or none was processed, for too long. Read the worker's log, see whether the brokers
            answer, and try again.
        RECORD_TOO_LARGE: Committed records must be published again, but their topic no longer accepts their size. Raise
            the topic's `max.message.bytes`, and start the worker again.
        OWN_CODE_FAILED: A user's own learner or network failed. Correct it, and start the worker again.
        NOT_FOUND: The task has committed nothing, or nothing at these offsets, or the input has no such example. Check
            what you asked for, or wait for the commit.
        STREAM_STATE: The command does not fit the stream: `erase` needs a stream that runs, and `resume` a stream that
            the breaker has stopped. `areba inspect` says which streams are stopped.
        IN_USE: Workers run, or another command has written meanwhile, so this command wrote nothing. Stop all workers,
            and run the command again.
        HELD_BACK: A transaction whose end is missing hides the end of a partition, or hid what the command wrote. The
            message says who ends it: a worker, the producer that left it open, or the next run of the command.
        MOVE_UNFINISHED: `areba repartition` was ended before all tasks had moved. Run the command again.
        MOVE_REFUSED: `areba repartition` cannot move a task exactly, for the reason that the message names.
    """

    STATE_UNUSABLE = "state-unusable"
    OTHER_VERSION = "other-version"
    OFFSET_GONE = "offset-gone"
    INPUTS_DELETED = "inputs-deleted"
    INPUTS_REPLACED = "inputs-replaced"
    PROGRESS_LOST = "progress-lost"
    DIGEST_DIFFERS = "digest-differs"
    OUTPUTS_LOST = "outputs-lost"
    SKIP_MISFIT = "skip-misfit"
    NO_RECORDS = "no-records"
    RECORD_TOO_LARGE = "record-too-large"
    OWN_CODE_FAILED = "own-code-failed"
    NOT_FOUND = "not-found"
    STREAM_STATE = "stream-state"
    IN_USE = "in-use"
    HELD_BACK = "held-back"
    MOVE_UNFINISHED = "move-unfinished"
    MOVE_REFUSED = "move-refused"


_OURS = (str(Path(__file__).parent), "site-packages", "dist-packages")


def raised_at(error: BaseException) -> str:
    """Return where a user's own code raised an error, and the error: `FILE:LINE: TYPE: MESSAGE`.

    The place is the innermost frame outside this package and the installed packages, or else the innermost frame.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _OURS)]
    place = (own or frames)[-1:]
    where = "".join(f"{frame.filename}:{frame.lineno}: " for frame in place)
    return f"{where}{type(error).__name__}: {error}"


class ArebaError(Exception):
    """Base class of areba's errors. `exit_code` is the exit status of the process, and `lines` are printed."""

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
    """A data set or a file of rows is missing or wrong."""


class StateError(ArebaError):
    """The state of a task cannot be restored, or a command refuses it; the message says why, and what to do.

    Args:
        message: What is wrong.
        code: The kind of error, for scripts and tests; the text of the error ends with it, in square brackets.
    """

    exit_code = 3

    def __init__(self, message: str, code: ErrorCode = ErrorCode.STATE_UNUSABLE) -> None:
        self.message = message
        self.code = code
        super().__init__(f"{message} [{code}]")

    def within(self, where: str) -> "StateError":
        """Return this error with its message preceded by the place where it was found."""
        return StateError(f"{where}: {self.message}", self.code)


class OffsetGoneError(StateError):
    """A record that must be read was deleted by retention.

    Args:
        message: The message, with the offset that is needed and the first offset that is left.
        partition: The topic and the number of the partition.
    """

    def __init__(self, message: str, partition: tuple[str, int]) -> None:
        self.partition = partition
        super().__init__(message, ErrorCode.OFFSET_GONE)


class RestartNeededError(ArebaError):
    """The process must be started again, as after a `kill -9`."""

    exit_code = 4


class UnknownOutcomeError(RestartNeededError):
    """The broker did not say whether the transaction was committed."""


class OutageError(UnknownOutcomeError):
    """No broker could be reached; the process restarts until one answers."""


class FencedError(RestartNeededError):
    """A newer producer has the same transactional id, or the transaction timed out; the broker does not say which."""


class FencedAgainError(ArebaError):
    """The worker was fenced twice within five minutes, and not by a timeout: another worker has its name."""

    exit_code = 5


class TransactionAbortedError(ArebaError):
    """The transaction was aborted: the state of its tasks is invalid; progress says what was committed."""


class RecordTooLargeError(TransactionAbortedError):
    """The transaction was aborted because a topic accepts less than at the start: read its settings again."""


class DeliveryError(ArebaError):
    """The client accepted records, but the broker did not."""


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
