"""Measure the cost of a new stream: creating its join and its learners, and processing its first example."""

import numpy as np

from benchmarks.rows import Row, below, median_cpu_us
from stream_app.config import Config
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example
from stream_app.serialization import codec

STREAMS = 10_000
BATCH = 500
FEATURES = 3
REPETITIONS = 3
MOST_US = 300.0
TIME_MS = 1_700_000_000_000
NO_RECORDS = RawRecords.of(np.zeros(0, np.int64), np.zeros(0, np.int64), [], [])


def _batch(start: int) -> RawRecords:
    """Return one example of each of the new streams of a batch."""
    offsets = np.arange(start, start + BATCH)
    names = [f"shop-{number:05}" for number in offsets.tolist()]
    values = [codec.encode(Example(name, "first", [1.0] * FEATURES)) for name in names]
    return RawRecords.of(offsets, np.full(BATCH, TIME_MS), [name.encode() for name in names], values)


def _opened(methods: tuple[str, ...]) -> Row:
    learners = {method: {"method": method} for method in methods}
    sections = {"unknown_streams": "model", "learners": learners, "limits": {"max_streams_per_task": STREAMS}}
    settings = Config.model_validate(sections).task_settings()
    batches = [_batch(start) for start in range(0, STREAMS, BATCH)]

    def run() -> int:
        task = Task(0, settings, ("examples", "labels"))
        for batch in batches:
            task.step(batch, NO_RECORDS)
        return STREAMS

    run()
    name = f"open {STREAMS:,} streams with {', '.join(methods)}, a stream and its first example"
    return below(name, FEATURES, median_cpu_us(run, REPETITIONS), "us", MOST_US)


def rows() -> list[Row]:
    """Measure with AREBA alone, and with the learners of the default configuration."""
    return [_opened(("areba",)), _opened(("areba", "baseline"))]
