"""Decoding and encoding in batches against fastavro, one value at a time, on the same values in the same process."""

import io
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import fastavro
import numpy as np

from benchmarks.rows import Row, faster, median_cpu_us
from stream_app.record_columns import BinaryColumn
from stream_app.records import (
    Example,
    Longs,
    OutcomeKind,
    Side,
    pack_id,
)
from stream_app.serialization import avro, codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.encode import (
    OutcomeColumns,
    PredictionColumns,
    encode_examples,
    encode_outcomes,
    encode_predictions,
)

BATCH = 1_000
BATCHES = 20
"""Batches, each with other values: 4 MB of examples, which do not fit into the processor's fastest caches."""

FEATURES = 30
REPETITIONS = 11
SEED = 1


def _ids(generator: np.random.Generator) -> list[str]:
    """Return ids as most producers make them: UUIDs of 36 bytes."""
    return [str(uuid.UUID(bytes=generator.bytes(16))) for _ in range(BATCH)]


def decode_examples(generator: np.random.Generator) -> Row:
    """Measure decoding from a list of bytes to columns; the reference returns dictionaries and checks less."""
    batches = [
        encode_examples("fraud", _ids(generator), generator.standard_normal((BATCH, FEATURES)).astype(np.float32))
        for _ in range(BATCHES)
    ]
    schema = avro.newest()[Example].parsed
    limits = DecodeLimits()

    def ours() -> int:
        for batch in batches:
            decode(batch, Side.EXAMPLES, limits)
        return BATCH * BATCHES

    def reference() -> int:
        for value in batches[0]:
            fastavro.schemaless_reader(io.BytesIO(value[avro.HEADER_BYTES :]), schema, None)
        return BATCH

    ours()
    name = f"decode examples, batches of {BATCH:,}, against fastavro one by one"
    return faster(name, FEATURES, median_cpu_us(ours, REPETITIONS), median_cpu_us(reference, REPETITIONS), 15.0)


def _predictions(generator: np.random.Generator, ids: Sequence[str]) -> PredictionColumns:
    """Return a batch of the champion's predictions."""
    return PredictionColumns(
        stream_names=("fraud",),
        learner_names=("areba",),
        streams=np.zeros(BATCH, np.int32),
        learners=np.zeros(BATCH, np.int32),
        ids=np.array([pack_id(each) for each in ids]),
        champions=np.ones(BATCH, np.bool_),
        scores=generator.random(BATCH, np.float32),
        labels=generator.integers(0, 2, BATCH).astype(np.int8),
        model_versions=np.arange(BATCH) + 100_000,
        event_times_ms=np.arange(BATCH) + 1_767_225_600_000,
    )


def _outcomes(predictions: PredictionColumns) -> OutcomeColumns:
    """Return a batch of outcomes of joined examples."""
    places: Longs = np.arange(BATCH) + 1_000_000
    return OutcomeColumns(
        stream_names=predictions.stream_names,
        learner_names=predictions.learner_names,
        streams=predictions.streams,
        outcomes=np.full(BATCH, OutcomeKind.JOINED, np.uint8),
        ids=predictions.ids,
        labels=predictions.labels,
        learners=predictions.learners,
        scores=predictions.scores,
        delays_ms=places % 100_000,
        example_offsets=places,
        label_offsets=places,
        event_times_ms=predictions.event_times_ms,
    )


def encode_columns(name: str, encode: Callable[[], BinaryColumn]) -> Row:
    """Measure encoding from columns to a column of bytes; the reference starts from dictionaries."""
    records = codec.decode_many(value or b"" for value in encode())
    schema = avro.newest()[type(records[0])]
    plain: list[Mapping[str, Any]] = [
        {field.name: getattr(record, field.name) for field in fields(record)} for record in records
    ]

    def ours() -> int:
        for _ in range(BATCHES):
            encode()
        return BATCH * BATCHES

    def reference() -> int:
        for record in plain:
            out = io.BytesIO()
            out.write(schema.header)
            fastavro.schemaless_writer(out, schema.parsed, record)
            out.getvalue()
        return BATCH

    ours_us, reference_us = median_cpu_us(ours, REPETITIONS), median_cpu_us(reference, REPETITIONS)
    title = f"encode {name}, batches of {BATCH:,}, against fastavro one by one"
    return Row(title, 0, ours_us, reference_us, reference_us / ours_us, "", None)


def rows() -> list[Row]:
    """Return the rows of the table that are about the codec."""
    generator = np.random.default_rng(SEED)
    predictions = _predictions(generator, _ids(generator))
    outcomes = _outcomes(predictions)
    return [
        decode_examples(generator),
        encode_columns("predictions", lambda: encode_predictions(predictions)),
        encode_columns("outcomes", lambda: encode_outcomes(outcomes)),
    ]
