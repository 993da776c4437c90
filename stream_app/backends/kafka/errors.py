"""What follows from an error of the client.

An error of a transaction allows one of three reactions: try again within a bound, abort the transaction, or restart the
process. No other package needs to know librdkafka's error codes.
"""

from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException

from stream_app.errors import ConfigurationError, TopicError, UnknownOutcomeError

# The client's names for its own errors begin with an underscore, although they are public.
PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
AUTO_OFFSET_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
TIMED_OUT = KafkaError._TIMED_OUT  # noqa: SLF001
ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
WRONG_STATE = KafkaError._STATE  # noqa: SLF001
SSL = KafkaError._SSL  # noqa: SLF001

FENCED_CODES = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
"""A newer producer has the same transactional id.

INVALID_PRODUCER_ID_MAPPING is not among them: after a pause of `transactional.id.expiration.ms` the broker has
forgotten the id, and a new client gets it back. A rival that has taken the id meanwhile is fenced by that."""

REFUSED_CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)
"""No retry helps: an operator must change a setting or grant a permission."""

DENIED_CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""A permission is missing."""

CONNECTION_CAUSE_CODES = frozenset(
    {
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        SSL,
        KafkaError._RESOLVE,  # noqa: SLF001
    }
)
"""The cause why no broker can be reached. The client also reports the broken connection, which is only the effect."""

GROUP_CHANGED_CODES = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,  # the answer to offsets from outside of a group that has members
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
    }
)
"""The group has other members, or another generation, than the request assumes."""

NO_LEADER_CODES = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # a broker that has just returned knows less than the client
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # or does not know its topics yet
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001  (no leader is known)
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001  (a new partition, of which the client does not know yet)
        KafkaError._TIMED_OUT,  # noqa: SLF001
    }
)
"""The partition has no leader for a moment, because it is new or its leader has just died: ask again."""

NO_COORDINATOR_CODES = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
"""The coordinator of the group is new or has just started: ask again."""

_MISSING_OPERATIONS: Mapping[int, str] = MappingProxyType(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "Write",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "Read",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IdempotentWrite",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write",
    }
)
"""The operation that is missing where the broker denies something to a transaction or to a member of a group."""


def kafka_error(problem: KafkaException) -> KafkaError:
    """Return the error that the exception carries."""
    error: KafkaError = problem.args[0]
    return error


def error_text(problem: BaseException) -> str:
    """Return one line about an exception: for an error of Kafka its text and the name of its code."""
    error = problem.args[0] if problem.args else problem
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(error)


def refusal_text(error: KafkaError, what: str, resource: str, operation: str = "") -> str:
    """Return one line about a refusal: the request, the broker's reason, and the permission that is missing.

    Args:
        error: The broker's answer.
        what: The request, in words.
        resource: Where the permission is missing, such as `topic examples`.
        operation: The missing operation; if empty, the operation that the error code implies.
    """
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"{what}: the topic or the partition does not exist; `areba topics create` creates missing topics"
    line = f"{what}: {error.str()} ({error.name()})"
    if error.code() not in DENIED_CODES:
        return line
    return f"{line}; {operation or _MISSING_OPERATIONS[error.code()]} on {resource} is missing"


def failed_request(
    problem: KafkaException, what: str, resource: str = "it", operation: str = ""
) -> ConfigurationError | UnknownOutcomeError:
    """Return what to raise when a request was not fulfilled. For the arguments see `refusal_text`.

    Returns:
        A `TopicError` where the broker refused, else an `UnknownOutcomeError`: a restart may help.
    """
    error = kafka_error(problem)
    if error.code() in REFUSED_CODES:
        return TopicError(refusal_text(error, what, resource, operation))
    return UnknownOutcomeError(f"{what}: {error_text(problem)}")
