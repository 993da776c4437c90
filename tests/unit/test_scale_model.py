"""The model of a large application: its constants are those of the code, and the page shows what it computes."""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks import scale_model
from benchmarks.scale_model import Application, lines, table
from stream_app.config import Config
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.snapshot.format import FORMAT, Manifest
from stream_app.snapshot.segments import Blob, Book
from tests.support.documents import ROOT

STREAMS, LABELS = 50, 20
TIME_MS = 1_700_000_000_000

APPROXIMATELY = 0.03


def _young_task() -> Task:
    """Return a task whose streams have had some labelled examples each."""
    sections = {"unknown_streams": "model", "learners": {"areba": {"method": "areba"}}}
    task = Task(0, Config.model_validate(sections).task_settings(), ("examples", "labels"))
    names = [f"shop-{number:05}" for number in range(STREAMS)]
    keys = [name.encode() for name in names]
    values = np.random.default_rng(1).normal(size=(1 + LABELS, STREAMS, 3))
    for turn, rows in enumerate(values):
        offsets = np.arange(STREAMS) + turn * STREAMS
        times = np.full(STREAMS, TIME_MS + turn)
        examples = [
            codec.encode(Example(name, f"e{turn}", row.tolist())) for name, row in zip(names, rows, strict=True)
        ]
        labels = [codec.encode(Label(name, f"e{turn}", int(row[0] > 0))) for name, row in zip(names, rows, strict=True)]
        task.step(RawRecords.of(offsets, times, keys, examples), RawRecords.of(offsets, times, keys, labels))
    return task


def test_the_bytes_of_a_stream_are_those_of_a_real_snapshot() -> None:
    """Otherwise an operator plans disks and networks for the state of another version."""
    task = _young_task()
    blobs = [blob for blob in Book().draft(task.states(), "1234567") if isinstance(blob, Blob)]
    assert len(blobs) == STREAMS
    assert sum(len(blob.content) for blob in blobs) / STREAMS == pytest.approx(scale_model.SNAPSHOT, rel=APPROXIMATELY)
    assert task.allocated_bytes / STREAMS == pytest.approx(scale_model.ALLOCATED, rel=APPROXIMATELY)

    def size(count: int) -> int:
        entries = tuple(blob.entry(12_345_678) for blob in blobs[:count])
        manifest = Manifest(
            format=FORMAT,
            engine="1.0.0",
            partition=0,
            sequence=1,
            digest="0" * 64,
            offsets=(1, 2),
            settings="{}",
            entries=entries,
        )
        return len(manifest.to_bytes())

    assert (size(STREAMS) - size(0)) / STREAMS == pytest.approx(scale_model.MANIFEST_ENTRY, rel=APPROXIMATELY)


def test_twice_the_workers_need_twice_the_commits() -> None:
    """The figures follow from the size of the application, not from one example."""
    small, large = ({line.what: line.figure for line in lines(Application(workers=count))} for count in (1_000, 2_000))
    assert large["commits of one group"] == 2 * small["commits of one group"]
    assert large["a worker's streams are loaded"] == small["a worker's streams are loaded"] / 2
    assert small["group metadata"] < large["group metadata"] < 2 * small["group metadata"]


def test_the_page_has_the_table_that_the_program_prints() -> None:
    """If it fails, copy what `python -m benchmarks.scale_model` prints into docs/scale.md."""
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- python -m benchmarks.scale_model -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == table(Application())


def test_the_program_takes_another_size() -> None:
    """An operator asks it about an application of their own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale_model",
        "--workers",
        "3",
        "--partitions",
        "12",
        "--streams",
        "90",
    ]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "| replicas | 288 |" in printed
    assert printed.rstrip() == table(Application(3, 12, 90))
