"""Measure what a stream costs besides its records: opening it, drafting it for a snapshot, and loading it in a restore.

`python -m benchmarks.opening STREAMS` prints the rows for another number of streams.
"""

import sys

import numpy as np

from benchmarks.rows import Row, below, median_cpu_us
from stream_app.config import Config, TaskSettings
from stream_app.live.snapshot_draft import SnapshotDraft
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.snapshot.format import FORMAT, Manifest
from stream_app.snapshot.segments import Blob, Book
from stream_app.snapshot.task_loading import load_task

STREAMS = 10_000
LABELS = 20
BATCH = 500
FEATURES = 3
REPETITIONS = 3
MOST_US = 300.0
MOST_DRAFT_US = 100.0
MOST_LOAD_US = 400.0
TIME_MS = 1_700_000_000_000
TOPICS = ("examples", "labels")
NO_RECORDS = RawRecords.of(np.zeros(0, np.int64), np.zeros(0, np.int64), [], [])


def _batch(start: int, turn: int = 0, *, labels: bool = False) -> RawRecords:
    """Return an example, or its label, of each stream of a batch; a turn has other features."""
    offsets = np.arange(start, start + BATCH)
    names = [f"shop-{number:05}" for number in offsets.tolist()]
    rows = np.random.default_rng(turn).normal(size=(BATCH, FEATURES))
    values = [
        codec.encode(Label(name, f"e{turn}", int(row[0] > 0)) if labels else Example(name, f"e{turn}", row.tolist()))
        for name, row in zip(names, rows, strict=True)
    ]
    return RawRecords.of(offsets, np.full(BATCH, TIME_MS + turn), [name.encode() for name in names], values)


def _settings(methods: tuple[str, ...]) -> TaskSettings:
    learners = {method: {"method": method} for method in methods}
    sections = {"unknown_streams": "model", "learners": learners, "limits": {"max_streams_per_task": 100_000}}
    return Config.model_validate(sections).task_settings()


def _opened(methods: tuple[str, ...], streams: int) -> Row:
    settings = _settings(methods)
    batches = [_batch(start) for start in range(0, streams, BATCH)]

    def run() -> int:
        task = Task(0, settings, TOPICS)
        for batch in batches:
            task.step(batch, NO_RECORDS)
        return streams

    run()
    name = f"open {streams:,} streams with {', '.join(methods)}, a stream and its first example"
    return below(name, FEATURES, median_cpu_us(run, REPETITIONS), "us", MOST_US)


def active_task(methods: tuple[str, ...], streams: int) -> Task:
    """Return a task whose streams have had `LABELS` labelled examples each, and an example that waits for its label."""
    task = Task(0, _settings(methods), TOPICS)
    for turn in range(LABELS + 1):
        for start in range(0, streams, BATCH):
            labels = _batch(start, turn, labels=True) if turn < LABELS else NO_RECORDS
            task.step(_batch(start, turn), labels)
    return task


def _saved(methods: tuple[str, ...], streams: int) -> list[Row]:
    """Measure draft and load of a task with active streams."""
    task = active_task(methods, streams)
    what = f"{streams:,} streams of {LABELS} labels with {', '.join(methods)}, a stream"
    blobs: list[Blob] = []

    def draft() -> int:
        blobs[:] = SnapshotDraft(Book(), task.states(), "1", task.core_forms.pack).some(lambda: True)
        return streams

    drafted = median_cpu_us(draft, REPETITIONS)
    manifest = Manifest(
        format=FORMAT,
        engine="benchmark",
        partition=0,
        sequence=1,
        digest="0" * 64,
        offsets=(0, 0),
        settings=task.settings.to_json(),
        entries=tuple(blob.entry(number) for number, blob in enumerate(blobs)),
    )
    contents = {blob.key: blob.content for blob in blobs}

    def load() -> int:
        load_task(Task(0, task.settings, TOPICS), manifest, contents, "benchmark")
        return streams

    loaded = median_cpu_us(load, REPETITIONS)
    return [
        below(f"draft a snapshot of {what}", FEATURES, drafted, "us", MOST_DRAFT_US),
        below(f"load {what}", FEATURES, loaded, "us", MOST_LOAD_US),
    ]


def rows(streams: int = STREAMS) -> list[Row]:
    """Measure with AREBA, with the learners of the default configuration, and with RELAY."""
    opened = [_opened(methods, streams) for methods in (("areba",), ("areba", "baseline"), ("relay",))]
    saved = [row for methods in (("areba",), ("relay",)) for row in _saved(methods, streams)]
    return opened + saved


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS):
        sys.stdout.write(f"{row.ours_us:8.1f} us  {row.name}\n")
