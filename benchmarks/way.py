"""The pure way, decode to encode: ours against a plain loop of fastavro, a dict join and eager Torch."""

import io
import json
from collections.abc import Callable
from typing import Any, cast

import fastavro
import numpy as np
from fastavro.types import Schema
from numpy.typing import NDArray

import schemas
from benchmarks.eager import BUDGET, Areba, Stream
from benchmarks.rows import Row, faster, median_cpu_us
from producers import datasets
from stream_app import codec
from stream_app.config import Config
from stream_app.network import require_one_thread
from stream_app.records import Label, RawRecords
from stream_app.task import Task

# isort: split
import torch

BATCH = 1000
"""Examples of one batch, and as many labels: what a worker has at hand under load."""

DELAY_EXAMPLES = 100
"""A label comes this many examples after its own."""

REACH_US = 3.5
HEADER_BYTES = 10


def fraud(count: int) -> Stream:
    """The first examples of the shipped Fraud set, in order."""
    data = datasets.load("fraud").prefix(count)
    return Stream("fraud", data.features, data.labels, data.learning_rate, data.hidden, data.l2)


class Inputs:
    """A stream as it lies on the two input topics, batch by batch."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        count = len(stream.labels)
        ids = [f"{stream.name}-{number:08d}" for number in range(count)]
        self.examples = codec.encode_examples(stream.name, ids, stream.examples)
        self.labels = [
            codec.encode(Label(stream.name, name, int(label))) for name, label in zip(ids, stream.labels, strict=True)
        ]

    def batch(self, number: int) -> tuple[RawRecords, RawRecords]:
        """One batch; a label's time is that of an example further on, so that the merge has work."""
        start = number * BATCH
        numbers = np.arange(start, start + BATCH, dtype=np.int64)
        key = self.stream.name.encode()

        def raw(values: list[bytes], times: NDArray[np.int64]) -> RawRecords:
            return RawRecords(numbers, times, [key] * BATCH, values)

        return (
            raw(self.examples[start : start + BATCH], numbers * 10),
            raw(self.labels[start : start + BATCH], (numbers + DELAY_EXAMPLES) * 10 + 5),
        )


def ours(inputs: Inputs) -> Callable[[], int]:
    """One batch after the other through the stages, again from the first when the stream is over."""
    stream = inputs.stream
    config = Config.model_validate(
        {
            "learners": {"areba": {"method": "areba", "budget": BUDGET}},
            "streams": {
                stream.name: {
                    "features": stream.examples.shape[1],
                    "learning_rate": stream.learning_rate,
                    "hidden": list(stream.hidden),
                }
            },
        }
    )
    batches = [inputs.batch(number) for number in range(len(inputs.examples) // BATCH)]
    task = Task(0, config.task_settings(), ("examples", "labels"))
    at = iter(batches)

    def run(count: int = 10) -> int:
        for _ in range(count):
            task.step(*next(at))
        return count * BATCH

    return run


def plain(inputs: Inputs, steps: int) -> Callable[[], int]:
    """The same as one writes it with fastavro, a dict and Torch."""
    texts = schemas.sources()
    example_schema, label_schema, prediction_schema, outcome_schema = (
        fastavro.parse_schema(json.loads(texts[name, 1])) for name in ("example", "label", "prediction", "outcome")
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
        return write(prediction_schema, {**head, "score": score, "label": int(score > 0.5), "model_version": 0})

    def on_label(value: bytes) -> bytes:
        record = read(label_schema, value)
        features, score = pending.pop(record["id"])
        model.learn(features, record["label"])
        head = {"stream": record["stream"], "id": record["id"], "outcome": "joined", "label": record["label"]}
        rest = {"learner": "areba", "score": score, "delay_ms": 1, "example_offset": 1, "label_offset": 1}
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
    """CPU microseconds a labelled example: two records in, two out."""
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
    return [faster(name, 30, ours_us, reference_us, 60.0), bound]
