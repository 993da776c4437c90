"""Decoding and encoding in batches against fastavro, one value at a time, on the same values in the same process."""

import io
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import fastavro
import numpy as np

from benchmarks.rows import Row, faster, median_cpu_us
from stream_app.arrays import pack_id
from stream_app.record_columns import OUTCOME_ROW, PREDICTION_ROW, BinaryColumn, Rows
from stream_app.records import Example, Outcome, OutcomeKind, Prediction, Side
from stream_app.serialization import avro, codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.encode import encode_examples, encode_rows
from stream_app.serialization.names import NameList, Names

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


NAMES = Names(NameList(["fraud"]), NameList(["areba"]))


def _predictions(generator: np.random.Generator, ids: Sequence[str]) -> Rows:
    """Return a batch of the champion's predictions."""
    rows = np.zeros(BATCH, PREDICTION_ROW)
    rows["id"] = [pack_id(each) for each in ids]
    rows["champion"] = True
    rows["score"] = generator.random(BATCH, np.float32)
    rows["predicted_class"] = generator.integers(0, 2, BATCH)
    rows["model_version"] = np.arange(BATCH) + 100_000
    rows["event_time_ms"] = np.arange(BATCH) + 1_767_225_600_000
    return rows


def _outcomes(predictions: Rows) -> Rows:
    """Return a batch of outcomes of joined examples."""
    rows = np.zeros(BATCH, OUTCOME_ROW)
    for name in ("id", "score", "event_time_ms"):
        rows[name] = predictions[name]
    rows["outcome"] = OutcomeKind.JOINED
    rows["label"] = predictions["predicted_class"]
    rows["example_offset"] = rows["label_offset"] = np.arange(BATCH) + 1_000_000
    rows["delay_ms"] = rows["example_offset"] % 100_000
    return rows


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
        encode_columns("predictions", lambda: encode_rows(Prediction, predictions, NAMES)),
        encode_columns("outcomes", lambda: encode_rows(Outcome, outcomes, NAMES)),
    ]
