"""The reference join together with the memories of AREBA and QBR: the engine without the networks' arithmetic."""

from collections.abc import Callable
from typing import NamedTuple

from stream_app.config import TaskSettings
from stream_app.records import Example, Metric
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.verify.reference_join import ReferenceJoin
from stream_app.verify.reference_state import Pending, ReferenceStream
from tests.learner_oracle import NEGATIVE, POSITIVE, Kept, Queues


class Memory(NamedTuple):
    """The memory of a learner as a metric reports it: lengths and capacities of both queues, and both class sizes."""

    negative_queue: int
    positive_queue: int
    negative_capacity: int
    positive_capacity: int
    negative_size: float
    positive_size: float

    @classmethod
    def of(cls, queues: Queues) -> "Memory":
        """Return what a metric should report."""
        negative, positive = queues.of[NEGATIVE], queues.of[POSITIVE]
        lengths = len(negative.examples), len(positive.examples)
        return cls(*lengths, negative.capacity, positive.capacity, *queues.sizes)

    @classmethod
    def of_metric(cls, metric: Metric) -> "Memory":
        """Return what a metric reports."""
        return cls(*(getattr(metric, name) for name in cls._fields))


class EngineOracle(ReferenceJoin):
    """Processes all records of a task in merge order, and keeps what AREBA and QBR keep.

    Args:
        settings: Settings of the task.
        queues: Creates the memory of a learner.

    Attributes:
        learners: The memories by stream and learner; other methods have none.
        features: Of each stream's examples that were predicted, by id.
        memories: Their content at each event `Reported`, in order; None for other methods.
    """

    def __init__(self, settings: TaskSettings, queues: Callable[..., Queues] = Queues) -> None:
        super().__init__(settings)
        self.learners: dict[tuple[str, str], Queues] = {}
        self.features: dict[tuple[str, str], tuple[float, ...]] = {}
        self.memories: list[Memory | None] = []
        self._queues = queues

    def begin(self, stream: ReferenceStream, learner: str) -> None:
        """Start with empty queues."""
        settings = stream.learners[learner]
        self.learners.pop((stream.name, learner), None)
        if settings.method in {"areba", "qbr"}:
            queues = self._queues(settings.method, settings.budget, settings.theta)
            self.learners[stream.name, learner] = queues

    def import_state(self, imported: ImportedModel) -> None:
        """Let a learner continue from a saved state; what its queues have is not compared from then on."""
        self.import_learner(imported.stream, imported.features)
        stream = self.streams[imported.stream]
        stream.begun[imported.learner] = stream.labelled - int(imported.state["updates"].sum())
        self.learners.pop((imported.stream, imported.learner), None)

    def predict(self, stream: ReferenceStream, example: Example, pending: Pending) -> None:
        """Store the features, from which the label will be learned."""
        self.features[stream.name, example.id] = tuple(example.features)
        super().predict(stream, example, pending)

    def learn(self, stream: ReferenceStream, learner: str, id_: str, label: int) -> None:
        """Do one time step of the paper."""
        if queues := self.learners.get((stream.name, learner)):
            queues.learn(Kept(id_, self.features[stream.name, id_]), label)

    def correct(self, stream: ReferenceStream, learner: str, id_: str, label: int) -> None:
        """Move the example to the other queue."""
        if queues := self.learners.get((stream.name, learner)):
            queues.correct(id_, label)

    def forget(self, stream: ReferenceStream, digests: frozenset[str]) -> None:
        """Take the examples out of the queues."""
        for queues in [held for (name, _), held in self.learners.items() if name == stream.name]:
            every = [kept.id for queue in queues.of for kept in queue.examples]
            queues.forget([id_ for id_ in every if stream.digest(id_) in digests])

    def report(self, stream: ReferenceStream) -> None:
        """Store the current memories."""
        super().report(stream)
        for learner in stream.learners:
            queues = self.learners.get((stream.name, learner))
            self.memories.append(Memory.of(queues) if queues else None)
