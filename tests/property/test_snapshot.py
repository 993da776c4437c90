"""A task that was loaded from a snapshot continues with the same bits."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from stream_app.config import Corrections, LearnerSettings, StreamSettings, TaskSettings
from stream_app.pipeline.task import Task
from stream_app.records import Example, Label, Metric, Side
from stream_app.serialization import codec
from stream_app.snapshot import segments
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Record
from tests.support.rows import columns
from tests.support.snapshots import Changelog, exported
from tests.support.tasks import (
    FACTORS,
    FEW,
    LEARNERS,
    PARTITION,
    SMALL,
    TOPICS,
    cut_at,
    fixed_input,
    one_side,
    run,
    task_settings,
)


@pytest.mark.slow(10)
@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS), st.data())
def test_a_loaded_task_continues_to_the_same_bits(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record], data: st.DataObject
) -> None:
    """Anything that a snapshot leaves out would appear later as another prediction or outcome."""
    sequence = list(merge(examples, labels))
    ends = data.draw(st.lists(st.integers(0, len(sequence)), max_size=6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_BYTES", data.draw(st.sampled_from([0, 200, 262_144])))
        patch.setattr(segments, "CLOSED_ROWS", data.draw(st.sampled_from([1, 3, 4_096])))
        loaded = run(task_settings, cut_at(sequence, ends), Changelog(task_settings).relay)
    assert loaded == run(task_settings, [(examples, labels)])


@pytest.mark.parametrize(("segment_bytes", "corrections"), [(1_000, "first"), (262_144, "first"), (1_000, "correct")])
def test_loaded_after_every_record(
    segment_bytes: int, corrections: Corrections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is loaded after every record of a fixed input that reaches every kind of output."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", segment_bytes)
    monkeypatch.setattr(segments, "CLOSED_ROWS", 4)
    chosen, examples, labels = fixed_input(120, join=SMALL.model_copy(update={"corrections": corrections}))
    sequence = list(merge(examples, labels))
    whole = run(chosen, [(examples, labels)])
    assert run(chosen, cut_at(sequence, range(len(sequence))), Changelog(chosen).relay) == whole


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_long_queues_are_loaded_after_every_record(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELAY's queues are stored in blocks: a row that came back in another place would be learned with another age."""
    monkeypatch.setattr(segments, "RING_ROWS", rows)
    chosen, examples, labels = fixed_input(120, join=SMALL.model_copy(update={"corrections": "correct"}))
    learners = {**LEARNERS, "two": LearnerSettings(method="relay", replay_per_class=5)}
    stream = chosen.default_stream.model_copy(update={"learners": learners})
    chosen = chosen.model_copy(update={"streams": {"a": stream, "b": stream}, "default_stream": stream})
    sequence = list(merge(examples, labels))
    changelog = Changelog(chosen)
    assert run(chosen, cut_at(sequence, range(len(sequence))), changelog.relay) == run(chosen, [(examples, labels)])
    assert any(entry.kind == "ring" for entry in changelog.entries)


def test_a_new_example_changes_one_block_of_a_long_queue() -> None:
    """A thousand streams with long queues must not write all of their examples again for each label."""
    chosen, _, _ = fixed_input(1, join=SMALL.model_copy(update={"max_pending_per_stream": 2_000}))
    stream = StreamSettings(features=2, champion="one", learners={"one": LearnerSettings(method="relay")})
    chosen = chosen.model_copy(update={"streams": {"a": stream}, "default_stream": stream})
    changelog, task = Changelog(chosen), Task(PARTITION, chosen, TOPICS)
    for first, end in ((0, 1_300), (1_300, 1_301)):
        examples, labels = [], []
        for number in range(first, end):
            example, label = Example("a", str(number), (number / 7 % 1, 0.5)), Label("a", str(number), number % 2)
            examples.append(Record(Side.EXAMPLES, number, number + 1, example, b"a", codec.encode(example)))
            labels.append(Record(Side.LABELS, number, number + 1, label, b"a", codec.encode(label)))
        task.step(columns(examples), columns(labels))
        changelog.write(task)
    assert [(blob.kind, blob.number) for blob in changelog.written if blob.kind == "ring"] == [("ring", 1)]
    assert sum(entry.kind == "ring" for entry in changelog.entries) == 10
    assert exported(changelog.relay(task)) == exported(task)


def test_a_snapshot_writes_only_streams_that_have_changed() -> None:
    """A thousand quiet streams next to a busy one must cost nothing."""
    chosen, examples, labels = fixed_input(120)
    changelog = Changelog(chosen)
    task = Task(PARTITION, chosen, TOPICS)
    task.step(columns(examples), columns(labels))
    changelog.write(task)
    assert {blob.stream for blob in changelog.written} == {stream.name for stream in task.states()}
    before = changelog.entries
    changelog.write(task)
    assert changelog.written == []
    assert changelog.entries == before
    label = Label("a", "new", 1)
    late = max(record.time_ms for record in [*examples, *labels])
    more = Record(Side.LABELS, labels[-1].offset + 1, late, label, b"a", codec.encode(label))
    task.step(columns([]), columns([more]))
    changelog.write(task)
    assert {blob.stream for blob in changelog.written} == {"a"}


def test_a_segment_is_written_again_when_one_of_its_ids_was_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old class would return with the next restart; the other segments have not changed."""
    monkeypatch.setattr(segments, "CLOSED_ROWS", 4)
    chosen, _, _ = fixed_input(
        1, join=SMALL.model_copy(update={"corrections": "correct", "max_pending_per_stream": 99})
    )
    examples, labels = [], []
    for number in range(30):
        example, label = Example("a", str(number), (0.5, 0.5)), Label("a", str(number), 1)
        examples.append(Record(Side.EXAMPLES, number, number + 1, example, b"a", codec.encode(example)))
        labels.append(Record(Side.LABELS, number, number + 1, label, b"a", codec.encode(label)))
    changelog, task = Changelog(chosen), Task(PARTITION, chosen, TOPICS)
    task.step(columns(examples), columns(labels))
    changelog.write(task)
    corrected = Label("a", "9", 0, 1)
    record = Record(Side.LABELS, 30, 31, corrected, b"a", codec.encode(corrected))
    task.step(columns([]), columns([record]))
    changelog.write(task)
    assert [(blob.kind, blob.number) for blob in changelog.written] == [("core", 0), ("closed", 2)]
    assert exported(changelog.relay(task)) == exported(task)


def test_corrected_classes_are_counted_after_a_restore() -> None:
    """This count decides whether a class ran empty: without it, the recall of a class with an example would be lost."""
    chosen, _, _ = fixed_input(1, join=SMALL.model_copy(update={"corrections": "correct", "ttl_ms": 1_000}))
    said = [("x", 0, 0), ("y", 1, 0), ("x", 1, 1), ("x", 0, 2), ("z", 0, 0)]
    examples, labels = [], []
    for number, (id_, class_, revision) in enumerate(said):
        label = Label("a", id_, class_, revision)
        labels.append(Record(Side.LABELS, number, 10 * number + 5, label, b"a", codec.encode(label)))
    for number, id_ in enumerate("xyz"):
        example = Example("a", id_, (0.5, 0.5))
        examples.append(Record(Side.EXAMPLES, number, number + 1, example, b"a", codec.encode(example)))
    chosen = chosen.model_copy(update={"metrics": chosen.metrics.model_copy(update={"every_labels": 3})})
    sequence = list(merge(examples, labels))
    restored = run(chosen, cut_at(sequence, range(len(sequence))), Changelog(chosen).relay)
    assert restored == run(chosen, [(examples, labels)])
    metric = codec.decode_one(restored.rows["metrics"][-1].value or b"")
    assert isinstance(metric, Metric)
    for window, fading in zip(metric.windows, FACTORS, strict=True):
        assert window.positive_total == pytest.approx(1.0), "y"
        assert window.negative_total == pytest.approx(1.0 + fading), "x and z"
