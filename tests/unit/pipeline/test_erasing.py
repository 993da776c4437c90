"""An `erase` mark leaves nothing of the ids that it names, and everything of the others."""

import numpy as np
import pytest

from stream_app.arrays import pack_id
from stream_app.config import JoinSettings, LearnerSettings, MetricSettings, StreamSettings
from stream_app.pipeline.outputs import Erased
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label, Mark, MarkKind, Side
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.snapshot import segments
from stream_app.snapshot.format import pack
from stream_app.verify.reference_state import Record
from tests.support.rows import columns
from tests.support.snapshots import Changelog
from tests.support.tasks import PARTITION, TOPICS, settings_of_task

LEARNERS = {
    "areba": LearnerSettings(method="areba", budget=20, hidden=(2,)),
    "qbr": LearnerSettings(method="qbr", budget=40, hidden=(2,)),
    "sliding": LearnerSettings(method="sliding", window=10, hidden=(2,)),
    "relay": LearnerSettings(method="relay", replay_per_class=12, hidden=(2,)),
    "baseline": LearnerSettings(method="baseline", scaler="standard", hidden=(2,)),
}
QUEUES = ("areba", "qbr", "sliding", "relay")
UNIQUE = np.float32(1234.5678)
"""A feature that only the erased examples have."""

SETTINGS = settings_of_task(
    join=JoinSettings(corrections="correct"),
    metrics=MetricSettings(every_labels=7),
    streams={"a": (stream := StreamSettings(features=2, champion="areba", learners=LEARNERS))},
    default_stream=stream,
)


def sent(side: Side, number: int, meaning: Example | Label | Mark) -> Record:
    """Return a record, whose time is its offset."""
    return Record(side, number, number + 1, meaning, b"a", codec.encode(meaning))


def batch(side: Side, records: list[Record]) -> tuple[RawRecords, RawRecords]:
    """Return a batch with records of one side."""
    one, nothing = columns(records), columns([])
    return (one, nothing) if side is Side.EXAMPLES else (nothing, one)


class Running:
    """A task whose records are given one after the other, and its snapshots."""

    def __init__(self) -> None:
        self.task = Task(PARTITION, SETTINGS, TOPICS)
        self.changelog = Changelog(SETTINGS)
        self.number = 0

    def example(self, id_: str, first: float = 0.5) -> None:
        """Send an example."""
        self._step(Side.EXAMPLES, Example("a", id_, (first, self.number % 5)))

    def label(self, id_: str, label: int, revision: int = 0) -> None:
        """Send a label."""
        self._step(Side.LABELS, Label("a", id_, label, revision))

    def erase(self, *ids: str) -> Erased:
        """Send a mark, and return what it has erased."""
        mark = Mark("a", MarkKind.ERASE, digests="".join(id_digest("a", id_) for id_ in ids))
        return self._step(Side.EXAMPLES, mark)

    def _step(self, side: Side, meaning: Example | Label | Mark) -> Erased:
        self.number += 1
        outputs = self.task.step(*batch(side, [sent(side, self.number, meaning)]))
        return outputs.erased[0] if outputs.erased else Erased("", 0, 0, 0, 0, 0)

    def saved(self) -> bytes:
        """Take a snapshot, continue from it, and return all bytes that it lists."""
        self.task = self.changelog.relay(self.task)
        return b"".join(self.changelog.contents[entry.key] for entry in self.changelog.entries)

    def queued(self, learner: str) -> list[list[bytes]]:
        """Return the ids in each queue of a learner, oldest first."""
        names = self.task.stream("a").learner_names
        state = self.task.stream("a").learners[names.index(learner)]._all.method.queues  # type: ignore[attr-defined]
        return [
            [state.ids[queue * state.rows + (first + age) % state.rows].tobytes() for age in range(length)]
            for queue, (first, length) in enumerate(zip(state.firsts, state.lengths, strict=True))
        ]


PERSON = ("person-closed", "person-pending", "person-waiting")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    """Return a task that has everything of a person, among others, in segments and blocks of its snapshots."""
    monkeypatch.setattr(segments, "CLOSED_ROWS", 4)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 200)
    monkeypatch.setattr(segments, "RING_ROWS", 2)
    made = Running()
    for number in range(24):
        made.example(f"id-{number}")
        made.label(f"id-{number}", int(number % 4 == 0))
        if number in {17, 19}:
            made.saved()
        if number == 18:
            made.example("person-closed", float(UNIQUE))
            made.label("person-closed", 0)
            made.example("person-pending", float(UNIQUE))
            made.label("person-waiting", 1)
            made.example("open")
            made.label("early", 0)
    return made


def test_no_byte_of_a_snapshot_or_of_a_model_is_left(running: Running) -> None:
    """Segments of older snapshots hold the person: they must not be listed again."""
    traces = [*(id_.encode() for id_ in PERSON), UNIQUE.tobytes()]
    before = running.saved()
    assert all(trace in before for trace in traces)
    erased = running.erase(*PERSON, "never-seen")
    assert (erased.ids, erased.pending, erased.waiting, erased.closed) == (4, 1, 1, 1)
    assert erased.queued == len(QUEUES)
    for _ in range(2):
        after = running.saved()
        models = pack(running.task.arrays())
        assert not [trace for trace in traces if trace in after or trace in models]
    assert b"id-17" in after
    assert b"early" in after


@pytest.mark.parametrize("learner", QUEUES)
def test_queues_keep_the_others_in_order(running: Running, learner: str) -> None:
    """The row is removed, later rows move up, and the places that a correction looks up stay right."""
    before, gone = running.queued(learner), pack_id("person-closed").tobytes()
    assert sum(queue.count(gone) for queue in before) == 1
    running.erase(*PERSON)
    assert running.queued(learner) == [[id_ for id_ in queue if id_ != gone] for queue in before]
    running.label("id-23", 1, revision=1)
    assert pack_id("id-23").tobytes() in running.queued(learner)[-1]
    running.example("next")
    running.label("next", 0)
    assert sum(queue.count(pack_id("next").tobytes()) for queue in running.queued(learner)) == 1


def test_an_areba_queue_that_becomes_empty_begins_again() -> None:
    """Otherwise the class would keep a capacity that it has not earned."""
    made = Running()
    for number in range(6):
        made.example(f"id-{number}")
        made.label(f"id-{number}", int(number < 3))
    made.erase("id-0", "id-1", "id-2")
    assert made.queued("areba")[1] == []
    assert made.task.arrays()["a/areba/capacities"].tolist()[1] == 1


def test_an_id_counts_as_new_afterwards_and_others_are_still_known(running: Running) -> None:
    """Repetitions of others are recognised after the closed ids have moved; a label of the erased id waits."""
    running.erase(*PERSON)
    stream = running.task.stream("a")
    sizes = stream.join.sizes
    assert (sizes.pending, sizes.waiting, sizes.closed) == (1, 1, 24)
    for number in range(24):
        running.label(f"id-{number}", int(number % 4 == 0))
    running.label("person-closed", 0)
    sizes = running.task.stream("a").join.sizes
    assert (sizes.pending, sizes.waiting, sizes.closed) == (1, 2, 24)
    running.label("open", 1)
    running.example("early")
    assert running.task.stream("a").join.sizes.pending == 0


def test_weights_and_sums_stay(running: Running) -> None:
    """They hold no single record, and the stream is not reset."""
    names = [name for name in running.task.arrays() if name.endswith(("/parameters", "/class_sizes"))]
    before = {name: array.tobytes() for name, array in running.task.arrays().items() if name in names}
    running.erase(*PERSON)
    assert names
    assert {name: running.task.arrays()[name].tobytes() for name in names} == before


def test_a_stream_that_was_configured_later_keeps_its_own_learners() -> None:
    """Otherwise it would get the learners of the default stream, without a word."""
    made = Running()
    own = StreamSettings(features=2, champion="own", learners={"own": LEARNERS["baseline"]})
    made.task.apply_settings(SETTINGS.model_copy(update={"streams": {**SETTINGS.streams, "b": own}}))
    made.task.step(*batch(Side.EXAMPLES, [sent(Side.EXAMPLES, 1, Example("b", "one", (0.5, 0.5)))._replace(key=b"b")]))
    mark = Mark("b", MarkKind.ERASE, digests=id_digest("b", "one"))
    made.task.step(*batch(Side.EXAMPLES, [sent(Side.EXAMPLES, 2, mark)._replace(key=b"b")]))
    assert made.task.stream("b").learner_names == ("own",)
