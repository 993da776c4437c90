"""The pending examples and waiting labels of a stream that an operator has reset, and the outputs that close them.

A reset itself cannot write outputs. So the next batch begins with them: examples are `evicted`, labels become dead
letters `orphan-label`, both in order of time and arrival, as if the first record of that batch had closed them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_app.join.constants import SlotState
from stream_app.pipeline.batch import OriginalRecord, size_of
from stream_app.pipeline.outputs import Collector, DeadLetterRow, OutcomeRows
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_set import Streams
from stream_app.pipeline.transaction_bounds import Costs
from stream_app.records import NO_LONG, Floats, Integers, Longs, OutcomeKind, Reason, Words


class Leftovers(NamedTuple):
    """The k pending examples and the waiting labels of a stream that was reset.

    Attributes:
        stream: Its name.
        learners: Names of its learners.
        ids: uint64 `[k, ID_WORDS]`.
        offsets: int64 `[k]`, input offsets of the examples.
        champions: int32 `[k]`, index into `learners`: the champion when the example was predicted.
        scores: float32 `[k]`, the champion's score.
        labels: The waiting labels, as they came.
    """

    stream: str
    learners: Sequence[str]
    ids: Words
    offsets: Longs
    champions: Integers
    scores: Floats
    labels: Sequence[OriginalRecord]

    @property
    def records(self) -> int:
        """The number of outputs that close them."""
        return len(self.offsets) + len(self.labels)

    def bytes(self, costs: Costs) -> int:
        """Return an upper bound of the bytes of these outputs."""
        return len(self.offsets) * costs.outcome + sum(size_of(label) + costs.letter for label in self.labels)


def leftovers_of(stream: Stream) -> Leftovers:
    """Return copies of the open records of a stream."""
    state = stream.join.arrays()

    def slots(kind: int) -> Integers:
        found = np.flatnonzero(state["states"] == kind)
        order = np.lexsort((state["arrivals"][found], state["times"][found]))
        by_time: Integers = found[order].astype(np.int32)
        return by_time

    pending = slots(SlotState.PENDING)
    champions = state["champions"][pending]
    return Leftovers(
        stream.name,
        stream.learner_names,
        state["ids"][pending],
        state["offsets"][pending],
        champions,
        state["scores"][champions, pending],
        [stream.waiting[slot] for slot in slots(SlotState.WAITING).tolist()],
    )


def close(left: Leftovers, streams: Streams, collector: Collector) -> None:
    """Add the outputs that close the leftovers, at the first position of a batch."""
    count = len(left.offsets)
    numbers = np.array([streams.number_of_learner(name) for name in left.learners], np.int32)
    collector.outcomes(
        OutcomeRows(
            positions=np.zeros(count, np.int32),
            streams=np.full(count, streams.numbers_of([left.stream])[0]),
            kinds=np.full(count, OutcomeKind.EVICTED, np.uint8),
            ids=left.ids,
            labels=np.full(count, -1, np.int8),
            learners=numbers[left.champions],
            scores=left.scores,
            delays=np.full(count, NO_LONG),
            examples=left.offsets,
            label_offsets=np.full(count, NO_LONG),
        )
    )
    for label in left.labels:
        collector.dead(0, DeadLetterRow(Reason.ORPHAN_LABEL, label, left.stream))
