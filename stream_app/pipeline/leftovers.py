"""Pending examples and waiting labels that an operator takes out of the join, and the outputs that close them.

Examples are `evicted`, labels become dead letters `orphan-label`, both in order of time and arrival. The `erase` mark
closes what it names. A reset is no record and cannot write outputs, so the first record of the next batch closes what
the stream held.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Integers, Longs, Words
from stream_app.join.constants import SlotState
from stream_app.pipeline.batch import OriginalRecord, size_of
from stream_app.pipeline.outputs import Collector, DeadLetterRow
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.transaction_bounds import Costs
from stream_app.record_columns import NO_OUTCOME
from stream_app.records import Cause, Header, OutcomeKind, Reason


class _NameNumbers(Protocol):
    """The port through which the outputs get the numbers of streams and learners: `stream_set.Streams`."""

    def number_of(self, name: str) -> int:
        """Return the number of a stream."""

    def number_of_learner(self, name: str) -> int:
        """Return the number of a learner."""


class Leftovers(NamedTuple):
    """The k pending examples and the waiting labels of a stream that end without each other.

    Attributes:
        stream: Its name.
        learners: Names of its learners.
        ids: uint64 `[k, ID_WORDS]`.
        offsets: int64 `[k]`, input offsets of the examples.
        champions: int32 `[k]`, index into `learners`: the champion when the example was predicted.
        scores: float32 `[k]`, the champion's score.
        probabilities: float32 `[k]`, the champion's probability.
        classes: int8 `[k]`, the champion's class.
        labels: The waiting labels, as they came.
        passed: The headers that the examples pass on, by row; examples without any are absent.
    """

    stream: str
    learners: Sequence[str]
    ids: Words
    offsets: Longs
    champions: Integers
    scores: Floats
    probabilities: Floats
    classes: NDArray[np.int8]
    labels: Sequence[OriginalRecord]
    passed: Mapping[int, Sequence[Header]]

    @property
    def records(self) -> int:
        """The number of outputs that close them."""
        return len(self.offsets) + len(self.labels)

    def bytes(self, costs: Costs) -> int:
        """Return an upper bound of the bytes of these outputs."""
        return len(self.offsets) * costs.outcome + sum(size_of(label) + costs.letter for label in self.labels)

    @classmethod
    def of(cls, stream: Stream, chosen: NDArray[np.bool_] | None = None) -> Self:
        """Return copies of the open records of a stream; bool `[slots]` chooses some of them."""
        state = stream.join.arrays()
        among = np.True_ if chosen is None else chosen

        def slots(kind: int) -> Integers:
            found = np.flatnonzero((state["states"] == kind) & among)
            order = np.lexsort((state["arrivals"][found], state["times"][found]))
            by_time: Integers = found[order].astype(np.int32)
            return by_time

        pending = slots(SlotState.PENDING)
        champions = state["champions"][pending]
        return cls(
            stream.name,
            stream.learner_names,
            state["ids"][pending],
            state["offsets"][pending],
            champions,
            state["scores"][champions, pending],
            state["probabilities"][champions, pending],
            state["classes"][champions, pending],
            [stream.waiting[slot] for slot in slots(SlotState.WAITING).tolist()],
            {row: headers for row, headers in enumerate(stream.passed.of(pending.tolist())) if headers},
        )


def close(left: Leftovers, names: _NameNumbers, collector: Collector, position: int, cause: Cause) -> None:
    """Add the outputs that close the leftovers.

    Args:
        left: The leftovers.
        names: The numbers of the task's streams and learners.
        collector: Takes the outputs.
        position: The position that causes them.
        cause: The cause for waiting labels.
    """
    numbers = np.array([names.number_of_learner(name) for name in left.learners], np.int32)
    rows = np.repeat(NO_OUTCOME, len(left.offsets))
    rows["position"] = position
    rows["stream"] = names.number_of(left.stream)
    rows["id"] = left.ids
    rows["outcome"] = OutcomeKind.EVICTED
    rows["learner"] = numbers[left.champions]
    rows["score"] = left.scores
    rows["probability"] = left.probabilities
    rows["predicted_class"] = left.classes
    rows["example_offset"] = left.offsets
    collector.outcomes(rows, left.passed)
    for label in left.labels:
        collector.dead(position, DeadLetterRow(Reason.ORPHAN_LABEL, label, left.stream, cause))
