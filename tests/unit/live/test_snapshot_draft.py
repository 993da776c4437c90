"""A snapshot is drafted stream by stream while the task continues, and holds the state at its commit record."""

import numpy as np
import pytest

from stream_app.config import StreamSettings, TaskSettings
from stream_app.live import snapshot_draft
from stream_app.live.snapshot_draft import SnapshotDraft
from stream_app.pipeline.task import Task
from stream_app.records import Example, Label, Side
from stream_app.serialization import codec
from stream_app.snapshot.format import FORMAT, Manifest
from stream_app.snapshot.segments import Blob, Book
from stream_app.snapshot.task_loading import load_task
from stream_app.verify.reference_state import Record
from tests.support.rows import columns as raw
from tests.support.snapshots import exported
from tests.support.tasks import LEARNERS, PARTITION, SMALL, TOPICS, settings_of_task

NAMES = tuple(f"s{number}" for number in range(6))


def step(task: Task, names: tuple[str, ...], first: int) -> None:
    """Process an example of each stream, and the label of an earlier example."""
    sides: tuple[list[Record], list[Record]] = ([], [])
    for place, name in enumerate(names):
        number = 10 * first + place
        features = np.random.default_rng(number).normal(size=2).astype(np.float32).tolist()
        for side, meaning in (
            (Side.EXAMPLES, Example(name, f"e{first}", features)),
            (Side.LABELS, Label(name, f"e{first - 3}", number % 2)),
        ):
            sides[side].append(Record(side, number, 10 * first + 1, meaning, name.encode(), codec.encode(meaning), ()))
    task.step(raw(sides[0]), raw(sides[1]))


def settings() -> TaskSettings:
    """Return the settings of a task with these streams."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    return settings_of_task(streams=dict.fromkeys(NAMES, stream), join=SMALL.model_copy(update={"ttl_ms": 1000}))


def loaded(draft: SnapshotDraft, contents: dict[str, bytes], task_settings: TaskSettings) -> Task:
    """Return a task that continues from a snapshot whose blobs are these."""
    for number, key in enumerate(contents):
        draft.note_written(key, number)
    manifest = Manifest(
        format=FORMAT, engine="test", partition=PARTITION, sequence=1, digest="0" * 64, offsets=(0, 0),
        settings=task_settings.to_json(), entries=draft.entries(),
    )  # fmt: skip
    fresh = Task(PARTITION, task_settings, TOPICS)
    load_task(fresh, manifest, contents, "test")
    return fresh


def test_streams_are_drafted_before_they_change() -> None:
    """A snapshot with the state of different moments would restore a task that never existed."""
    chosen, book = settings(), Book()
    task, first = Task(PARTITION, chosen, TOPICS), 0
    contents: dict[str, bytes] = {}
    for number in range(3):  # later snapshots list blobs of earlier ones
        for _ in range(5):
            first += 1
            step(task, NAMES[: 4 + number], first)
        expected = exported(task)
        draft = SnapshotDraft(book, task.take_states(), str(number), task.core_forms.pack)
        blobs: list[Blob] = []
        for turn in range(6):
            names = (NAMES[turn], NAMES[5 - turn])
            blobs += draft.keep(names)
            first += 1
            step(task, names, first)
            assert draft.is_complete == (turn >= 2)  # a pair each turn
        contents |= {blob.key: blob.content for blob in blobs}
        assert exported(loaded(draft, contents, chosen)) == expected
        assert exported(task) != expected


def test_a_slice_has_a_bounded_number_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot must end, however slow a stream is, and a round must not wait for thousands of streams."""
    monkeypatch.setattr(snapshot_draft, "AT_ONCE", 4)
    task = Task(PARTITION, settings(), TOPICS)
    step(task, NAMES, 1)
    draft = SnapshotDraft(Book(), task.take_states(), "1", task.core_forms.pack)
    assert len(draft.some(lambda: False)) == 4
    assert len(draft.some(lambda: False)) == 2
    assert draft.is_complete
    assert not draft.some(lambda: True)
