"""The ports of a worker: all that it uses of the world outside."""

from collections.abc import Callable
from dataclasses import dataclass

from stream_app.backends.base import NO_REGISTRY, Clock, Cluster, SchemaNames, Source, Transaction


def _never() -> bool:
    return False


def _no_silence() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Ports:
    """The world as the worker sees it.

    Attributes:
        source: Delivers the input records of the partitions that the group assigns.
        transaction: Writes under the worker's own transactional id.
        cluster: Answers questions about topics and groups, and opens readers.
        clock: Measures time and sleeps.
        open_transaction: Makes a producer of another transactional id.
        is_cut_off: Says whether no broker could be reached at the last attempt.
        silence_s: Returns the seconds since a broker last answered.
        schemas: Names the schemas of ids that the settings do not have.
    """

    source: Source
    transaction: Transaction
    cluster: Cluster
    clock: Clock
    open_transaction: Callable[[str], Transaction]
    is_cut_off: Callable[[], bool] = _never
    silence_s: Callable[[], float] = _no_silence
    schemas: SchemaNames = NO_REGISTRY
