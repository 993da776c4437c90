"""The ports of a worker: all that it uses of the world outside."""

from collections.abc import Callable
from dataclasses import dataclass

from stream_app.backends.base import Clock, Source, Transaction
from stream_app.backends.questions import RetentionCluster
from stream_app.backends.schema_names import NO_REGISTRY, SchemaNames


def _never() -> bool:
    return False


def _no_silence() -> float:
    return 0.0


def _no_cause() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Ports:
    """The world as the worker sees it.

    Attributes:
        source: Delivers the input records of the partitions that the group assigns.
        transaction: Writes under the worker's own transactional id.
        cluster: Answers questions about topics and groups, and opens readers.
        clock: Measures time and sleeps.
        open_transaction: Makes a producer of another transactional id.
        is_cut_off: Says whether all brokers, or the coordinator of the group, may be out of reach.
        silence_s: Returns the seconds since a broker last answered.
        schemas: Names the schemas of ids that the settings do not have.
        outage_cause: Returns why no broker can be reached, as far as the clients say, after a colon.
    """

    source: Source
    transaction: Transaction
    cluster: RetentionCluster
    clock: Clock
    open_transaction: Callable[[str], Transaction]
    is_cut_off: Callable[[], bool] = _never
    silence_s: Callable[[], float] = _no_silence
    schemas: SchemaNames = NO_REGISTRY
    outage_cause: Callable[[], str] = _no_cause
