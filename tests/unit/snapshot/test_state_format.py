"""A stored snapshot of a task with every method is read, and the task continues with the same bits.

After a change of the format, write the file again: `python -m tests.unit.snapshot.test_state_format`.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from stream_app.config import METHODS, MetricSettings, TaskSettings
from stream_app.pipeline.outputs import chain_digest
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.snapshot.format import FORMAT, Entry, Manifest
from stream_app.snapshot.segments import Blob, Book
from stream_app.snapshot.task_loading import load_task
from tests.support.tasks import settings_of_task

FOLDER = Path(__file__).parents[2] / "golden"

TOPICS = ("examples", "labels")

EXPECTED = {
    1: "1c88d6be9569cfe9efb3d47108035234710f0494fffa9a868c286552b7179f6b3332ffc67db58fdc",
}
"""The digest of the outputs for 60 more records of each side, by format."""


def _records(first: int, count: int) -> tuple[RawRecords, RawRecords]:
    """Return examples of two streams in turns, every fifth positive; labels come three examples late."""
    numbers = range(first, first + count)
    examples = [Example("ab"[n % 2], f"id-{n}", [n % 7 / 4 - 1, (n % 5 == 0) - n % 3 / 8]) for n in numbers]
    labels = [Label("ab"[n % 2], f"id-{n}", int(n % 5 == 0)) for n in numbers]
    offsets = np.arange(first, first + count, dtype=np.int64)
    return (
        RawRecords.of(
            offsets,
            10 * offsets + 1,
            [record.stream.encode() for record in examples],
            list(map(codec.encode, examples)),
        ),
        RawRecords.of(
            offsets.copy(),
            10 * offsets + 35,
            [record.stream.encode() for record in labels],
            list(map(codec.encode, labels)),
        ),
    )


def _settings() -> TaskSettings:
    learners = {name: {"method": name} for name in METHODS}
    learners["scaled"] = {"method": "areba", "scaler": "standard"}
    stream = {"features": 2, "champion": "areba", "learners": learners}
    return settings_of_task(
        application_id="golden",
        metrics=MetricSettings(every_labels=20, fading_factors=(0.99, 1.0)),
        predictions="all",
        streams={"a": stream, "b": stream},
        default_stream=stream,
    )


def _continue(task: Task) -> str:
    outputs = task.step(*_records(60, 60))
    return (
        chain_digest(bytes(32), (60, 120, 60, 120), outputs).hex()
        + hashlib.sha256(repr(sorted(task.model_digests().items())).encode()).hexdigest()[:16]
    )


def _path(number: int) -> Path:
    return FOLDER / f"snapshot-format-{number}.safetensors"


@pytest.mark.parametrize("number", EXPECTED)
def test_a_snapshot_of_each_format_is_read(number: int) -> None:
    """An update must not cost an application its models."""
    contents = {name: array.tobytes() for name, array in load_file(_path(number)).items()}
    manifest = Manifest.from_bytes(contents.pop("manifest"), "golden")
    task = Task(0, TaskSettings.from_json(manifest.settings), TOPICS)
    load_task(task, manifest, contents, "golden")
    assert _continue(task) == EXPECTED[number]


def test_the_newest_format_is_written_as_it_was() -> None:
    """A change of the bytes without a new number of the format would be found by a user after an update."""
    blobs, _ = _snapshot()
    kept = load_file(_path(FORMAT))
    assert {blob.key: blob.content for blob in blobs} == {
        name: array.tobytes() for name, array in kept.items() if name != "manifest"
    }


def _snapshot() -> tuple[Sequence[Blob], Task]:
    task = Task(0, _settings(), TOPICS)
    task.step(*_records(0, 60))
    return [blob for blob in Book().draft(task.take_states(), "1") if isinstance(blob, Blob)], task


def _write() -> str:
    blobs, task = _snapshot()
    entries: tuple[Entry, ...] = tuple(blob.entry(number) for number, blob in enumerate(blobs))
    manifest = Manifest(
        format=FORMAT,
        engine="golden",
        partition=0,
        sequence=1,
        digest="0" * 64,
        offsets=(60, 60),
        settings=task.settings.to_json(),
        entries=entries,
    )
    tensors = {blob.key: np.frombuffer(blob.content, np.uint8) for blob in blobs}
    tensors["manifest"] = np.frombuffer(manifest.to_bytes(), np.uint8)
    save_file(tensors, _path(FORMAT))
    return _continue(task)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    sys.stdout.write(f"{FORMAT}: {_write()}\n")
