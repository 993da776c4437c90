"""Read the committed records of a topic."""

import contextlib
import time
from collections.abc import Iterator

from stream_app.backends.base import LogReader, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.live.buffers import concatenate
from stream_app.record_columns import RawRecords
from tests.support.kafka.waiting import DEADLINE_S
from tests.support.rows import Read


@contextlib.contextmanager
def reading(cluster: KafkaCluster, place: TopicPartition) -> Iterator[LogReader]:
    """Yield a reader, and close it after the block."""
    reader = cluster.reader(place)
    try:
        yield reader
    finally:
        reader.close()


def read_raw(cluster: KafkaCluster, place: TopicPartition) -> RawRecords:
    """Return all committed records of a partition in columns."""
    chunks: list[RawRecords] = []
    deadline = time.monotonic() + DEADLINE_S
    with reading(cluster, place) as reader:
        at_end = False
        while not at_end:
            assert time.monotonic() < deadline, f"{place}: no end within {DEADLINE_S:g} s"
            fetched = reader.poll(10_000, 0.1)
            if fetched is not None:
                chunks.append(fetched.records)
                at_end = fetched.at_end
    return concatenate(chunks)


def read_topic(cluster: KafkaCluster, place: TopicPartition) -> list[Read]:
    """Return all committed records of a partition, one by one."""
    raw = read_raw(cluster, place)
    rows = zip(raw.offsets.tolist(), raw.timestamps.tolist(), raw.keys, raw.values, strict=True)
    return [Read(*row, tuple(raw.headers.get(number, ()))) for number, row in enumerate(rows)]
