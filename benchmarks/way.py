"""The pure pipeline, from decode to encode: ours against a plain loop of fastavro, a dict join and eager Torch."""

import io
import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any, cast

import fastavro
import numpy as np
from fastavro.types import Schema
from numpy.typing import NDArray

from benchmarks.eager import BUDGET, Areba, Stream
from benchmarks.rows import Row, at_most, faster, median_cpu_us
from stream_app import schemas
from stream_app.config import Config
from stream_app.learners.networks.autograd import require_one_thread
from stream_app.pipeline.task import Task
from stream_app.producers import datasets
from stream_app.record_columns import RawRecords
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples, encode_labels

# isort: split
import torch

BATCH = 1000
"""Examples of one batch, and as many labels: as many as a worker has buffered under load."""

DELAY_EXAMPLES = 100
"""The number of examples between an example and its label."""

STREAMS = 1_000
LARGE_BATCH = 5_000
"""Examples of one batch, and as many labels: the default of `worker.max_batch_records`."""

WARM_EXAMPLES = 150
"""Examples of each stream, on average: enough to fill both queues, in any order of the classes."""

DEALT_REPETITIONS = 7
DEALT_BATCHES = 5

REACH_US = 3.5
HEADER_BYTES = 10


def fraud(count: int) -> Stream:
    """Return the first examples of the shipped Fraud set, in order."""
    data = datasets.load("fraud").prefix(count)
    return Stream("fraud", data.features, data.labels, data.learning_rate, data.hidden, data.l2)


class Inputs:
    """A stream as the two input topics have it, in batches."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        count = len(stream.labels)
        ids = [f"{stream.name}-{number:08d}" for number in range(count)]
        self.examples = encode_examples(stream.name, ids, stream.examples)
        self.labels = [
            codec.encode(Label(stream.name, name, int(label))) for name, label in zip(ids, stream.labels, strict=True)
        ]

    def batch(self, number: int) -> tuple[RawRecords, RawRecords]:
        """Return a batch; a label's time lies between the times of later examples, so that the merge has work."""
        start = number * BATCH
        numbers = np.arange(start, start + BATCH, dtype=np.int64)
        key = self.stream.name.encode()

        def raw(values: list[bytes], times: NDArray[np.int64]) -> RawRecords:
            return RawRecords.of(numbers, times, [key] * BATCH, values)

        return (
            raw(self.examples[start : start + BATCH], numbers * 10),
            raw(self.labels[start : start + BATCH], (numbers + DELAY_EXAMPLES) * 10 + 5),
        )


class Dealt:
    """Examples dealt at random to this many streams; each label comes `DELAY_EXAMPLES` examples after its own example.

    The events are the same for any number of streams. In the first `WARM_EXAMPLES` of each stream both classes are
    equally frequent: they fill all queues, and then every label costs the same in one stream and in many.
    """

    def __init__(self, stream: Stream, streams: int, count: int) -> None:
        generator = np.random.default_rng(1)
        rows = np.arange(count) % len(stream.labels)
        labels = np.where(
            np.arange(count) < WARM_EXAMPLES * STREAMS, generator.random(count) < 0.5, stream.labels[rows]
        )
        ids = [f"{stream.name}-{number:08d}" for number in range(count)]
        self.names = [f"{stream.name}-{number:04d}" for number in range(streams)]
        self._of = generator.integers(streams, size=count)
        self._examples: list[bytes] = [b""] * count
        self._labels: list[bytes] = [b""] * count
        for number, name in enumerate(self.names):
            own = np.flatnonzero(self._of == number)
            own_ids = [ids[k] for k in own]
            examples = encode_examples(name, own_ids, stream.examples[rows[own]])
            for k, example, label in zip(
                own, examples, encode_labels(name, own_ids, labels[own].astype(np.int8)), strict=True
            ):
                self._examples[k], self._labels[k] = example, label
        # adjacent in memory, as they come from a broker
        self._examples, self._labels = ([bytes(bytearray(v)) for v in side] for side in (self._examples, self._labels))

    def batch(self, number: int) -> tuple[RawRecords, RawRecords]:
        """Return a batch of as many examples and labels as the worker takes at most."""
        part = slice(number * LARGE_BATCH, (number + 1) * LARGE_BATCH)
        numbers = np.arange(part.start, part.stop, dtype=np.int64)
        keys = [self.names[stream].encode() for stream in self._of[part]]
        return (
            RawRecords.of(numbers, numbers * 10, keys, self._examples[part]),
            RawRecords.of(numbers, (numbers + DELAY_EXAMPLES) * 10 + 5, keys, self._labels[part]),
        )


def task_of(stream: Stream, names: Sequence[str]) -> Task:
    """Return a task that is configured for these streams."""
    own = {
        "features": stream.examples.shape[1],
        "learning_rate": stream.learning_rate,
        "hidden": list(stream.hidden),
    }
    config = Config.model_validate(
        {
            "learners": {"areba": {"method": "areba", "budget": BUDGET}},
            "streams": dict.fromkeys(names, own),
            "limits": {"max_streams_per_task": max(100, len(names))},
        }
    )
    return Task(0, config.task_settings(), ("examples", "labels"))


def dealt_us() -> tuple[float, float]:
    """Return the median CPU microseconds per labelled example with `STREAMS` streams, and with one; in turns."""
    warm = WARM_EXAMPLES * STREAMS // LARGE_BATCH
    batches = warm + DEALT_REPETITIONS * DEALT_BATCHES
    stream = fraud(60_000)

    def way(streams: int) -> Callable[[], Callable[[], int]]:
        """Return a function that prepares the next batches, untimed, and returns a function that processes them."""
        inputs = Dealt(stream, streams, batches * LARGE_BATCH)
        task = task_of(stream, inputs.names)
        for number in range(warm):
            task.step(*inputs.batch(number))
        at = iter(range(warm, batches))

        def run() -> int:
            for pair in ready:
                task.step(*pair)
            return DEALT_BATCHES * LARGE_BATCH

        ready: list[tuple[RawRecords, RawRecords]] = []

        def prepare() -> Callable[[], int]:
            ready[:] = [inputs.batch(next(at)) for _ in range(DEALT_BATCHES)]
            return run

        return prepare

    many, one = way(STREAMS), way(1)
    figures = [(median_cpu_us(many(), 1), median_cpu_us(one(), 1)) for _ in range(DEALT_REPETITIONS)]
    return statistics.median(us for us, _ in figures), statistics.median(us for _, us in figures)


def ours(inputs: Inputs) -> Callable[[], int]:
    """Return a function that processes the next batches of the stream."""
    batches = [inputs.batch(number) for number in range(len(inputs.examples) // BATCH)]
    task = task_of(inputs.stream, [inputs.stream.name])
    at = iter(batches)

    def run(count: int = 10) -> int:
        for _ in range(count):
            task.step(*next(at))
        return count * BATCH

    return run


def plain(inputs: Inputs, steps: int) -> Callable[[], int]:
    """Return the reference: the same work as people write it with fastavro, a dict and Torch."""
    texts = schemas.sources()
    example_schema, label_schema, prediction_schema, outcome_schema = (
        fastavro.parse_schema(json.loads(texts[name]))
        for name in (("example", 1), ("label", 1), ("prediction", 1), ("outcome", 1))
    )
    model = Areba(inputs.stream)
    pending: dict[str, tuple[torch.Tensor, float]] = {}
    position = 0

    def write(schema: Schema, record: dict[str, object]) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, record)
        return buffer.getvalue()

    def read(schema: Schema, value: bytes) -> dict[str, Any]:
        record = fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), schema, None)
        return cast("dict[str, Any]", record)

    def on_example(value: bytes) -> bytes:
        record = read(example_schema, value)
        features = torch.tensor(record["features"])
        score = model.predict(features)
        pending[record["id"]] = features, score
        head = {"stream": record["stream"], "id": record["id"], "learner": "areba", "champion": True}
        rest = {
            "score": score,
            "probability": score,
            "predicted_class": int(score > 0.5),
            "model_version": 0,
            "event_time_ms": 1,
            "threshold_kind": "majority",
            "threshold": None,
        }
        return write(prediction_schema, {**head, **rest})

    def on_label(value: bytes) -> bytes:
        record = read(label_schema, value)
        features, score = pending.pop(record["id"])
        model.learn(features, record["label"])
        head = {"stream": record["stream"], "id": record["id"], "outcome": "joined", "label": record["label"]}
        offsets = {"example_offset": 1, "label_offset": 1}
        rest = {
            "learner": "areba",
            "score": score,
            "probability": score,
            "predicted_class": 0,
            "delay_ms": 1,
            **offsets,
            "event_time_ms": 1,
        }
        return write(outcome_schema, {**head, **rest})

    def run() -> int:
        nonlocal position
        for number in range(position, position + steps):
            on_example(inputs.examples[number])
            on_label(inputs.labels[number])
        position += steps
        return steps

    return run


def rows() -> list[Row]:
    """Measure the CPU microseconds per labelled example: two records in, two out."""
    require_one_thread()
    inputs = Inputs(fraud(61_000))
    reference = plain(inputs, 500)
    reference()
    reference_us = median_cpu_us(reference, 5)
    run = ours(inputs)
    run()
    ours_us = median_cpu_us(run, 5)
    name = "decode to encode, one learner, CPU a labelled example, against fastavro + dict + eager Torch"
    bound = Row(f"{name}: absolute", 30, ours_us, None, None, f"<= {REACH_US} us", ours_us <= REACH_US)
    what = f"decode to encode, {STREAMS:,} streams in one task, batches of {2 * LARGE_BATCH:,}, against one stream"
    return [faster(name, 30, ours_us, reference_us, 60.0), bound, at_most(what, 30, *dealt_us(), 1.3)]
