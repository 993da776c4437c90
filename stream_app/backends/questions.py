"""What a worker asks of a cluster, without waiting for the answer."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.errors import UnknownOutcomeError

LOGGER = logging.getLogger("areba.backends")

Asked = TypeVar("Asked", bound=Cluster)
Answer = TypeVar("Answer")


class Retention(NamedTuple):
    """How long a topic keeps records.

    Attributes:
        ms: `retention.ms`; negative: without limit.
        bytes: `retention.bytes` of each partition; negative: without limit.
    """

    ms: int
    bytes: int

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "Retention":
        """Return the retention of a topic with these settings; nothing is deleted unless `cleanup.policy` says so."""
        if "delete" not in settings.get("cleanup.policy", "delete"):
            return cls(-1, -1)
        return cls(int(settings.get("retention.ms", -1)), int(settings.get("retention.bytes", -1)))


class KeptRecords(NamedTuple):
    """What the brokers keep of some partitions.

    Attributes:
        retentions: The retention by topic.
        starts: The first offset of each partition.
    """

    retentions: Mapping[str, Retention]
    starts: Mapping[TopicPartition, int]


class RetentionCluster(Cluster, Protocol):
    """A cluster that also says what its brokers keep. Errors are those of `Cluster`."""

    def kept(self, partitions: Sequence[TopicPartition]) -> KeptRecords:
        """Return what is kept of these partitions."""


class Question(Generic[Asked, Answer]):
    """A question to a cluster. It is asked again as long as no broker answers in time.

    The answer describes the cluster at a time between the first call of `answer` and the call that returns the answer.
    Whoever asks must discard the question once such an answer would be too old.
    """

    def __init__(self, cluster: Asked, question: Callable[[Asked], Answer]) -> None:
        self._cluster = cluster
        self._question = question
        self._answer: Callable[[], Answer | None] | None = None

    def answer(self) -> Answer | None:
        """Return the answer, or None as long as there is none; never wait.

        Raises:
            TopicError: The broker refuses.
        """
        try:
            if self._answer is None:
                self._answer = self._cluster.ask(self._question)
            return self._answer()
        except UnknownOutcomeError as problem:
            LOGGER.debug("no answer; asking again: %s", problem)
            self._answer = None
            return None


def answered(cluster: Asked, question: Callable[[Asked], Answer]) -> Generator[bool, None, Answer]:
    """Ask a `Question`, yield False as long as there is no answer, and return the answer."""
    asked = Question(cluster, question)
    while (found := asked.answer()) is None:
        yield False
    return found
