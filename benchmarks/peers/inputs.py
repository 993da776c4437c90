"""The records that all programs read."""

import time

import numpy as np

from benchmarks.eager import Stream
from benchmarks.way import DELAY_EXAMPLES, fraud
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.config import Config
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples

STREAM = "fraud"
FLUSH_S = 120.0

EXAMPLES_BY_ID = "examples-by-id"
LABELS_BY_ID = "labels-by-id"
"""Topics with the same values, whose keys are ids: the other programs join by key, and are spared a second topic."""


def tiled(count: int) -> Stream:
    """Return the Fraud set, repeated until it has this many examples."""
    data = fraud(count)
    rows = np.arange(count) % len(data.labels)
    return Stream(data.name, data.examples[rows], data.labels[rows], data.learning_rate, data.hidden, data.l2)


def send(servers: str, config: Config, count: int) -> None:
    """Send each example and label twice: with the stream's name as the key for areba, with the id for the others.

    The label of an example is a hundred examples late.
    """
    stream = tiled(count)
    ids = [f"e{number:08d}" for number in range(count)]
    values = encode_examples(STREAM, ids, stream.examples)
    sender = KafkaSender(servers)
    begin_ms = int(time.time() * 1000) - 2 * count
    for number, (id_, value) in enumerate(zip(ids, values, strict=True)):
        label = codec.encode(Label(STREAM, id_, int(stream.labels[number])))
        sent_ms, known_ms = begin_ms + 2 * number, begin_ms + 2 * (number + DELAY_EXAMPLES) + 1
        for topic, key, content, when_ms in (
            (config.topics.examples, STREAM.encode(), value, sent_ms),
            (config.topics.labels, STREAM.encode(), label, known_ms),
            (EXAMPLES_BY_ID, id_.encode(), value, sent_ms),
            (LABELS_BY_ID, id_.encode(), label, known_ms),
        ):
            sender.send(topic, key, content, when_ms)
    sender.flush(FLUSH_S)
    sender.close()
