"""Input records: single ones, and streams with every case that can occur."""

import bisect
import random
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from stream_app.records import Example, Label, Mark, MarkKind, Side
from stream_app.serialization import codec
from tests.support.rows import Sent


def example(stream: str, id_: str, features: Sequence[float], time_ms: int, partition: int = 0) -> Sent:
    """Return an example."""
    return Sent(
        Side.EXAMPLES, partition, time_ms, stream.encode(), codec.encode_unchecked(Example(stream, id_, features))
    )


def label(stream: str, id_: str, label_: int, time_ms: int, partition: int = 0) -> Sent:
    """Return a label."""
    return Sent(Side.LABELS, partition, time_ms, stream.encode(), codec.encode_unchecked(Label(stream, id_, label_)))


def advance(stream: str, side: Side, to_ms: int, time_ms: int, partition: int = 0) -> Sent:
    """Return one half of an `advance` pair."""
    mark = Mark(stream, MarkKind.ADVANCE, time_ms=to_ms)
    return Sent(side, partition, time_ms, stream.encode(), codec.encode_unchecked(mark))


def stream_records(
    stream: str, partition: int, features: int, examples: int, start_ms: int, seed: int
) -> Iterator[tuple[Sent, ...]]:
    """Yield a stream with every case: late, missing, repeated and conflicting labels, garbage, disorder.

    Yields:
        The records of one moment, in the order of arrival: about one example and one label each.
    """
    draw = random.Random(f"{seed}/{stream}")
    due: list[Sent] = []
    for number in range(examples):
        now_ms = start_ms + 10 * number
        id_ = f"{stream}-{number}"
        positive = draw.random() < 0.1
        row = [draw.gauss(1.0 if positive else 0.0, 1.0) for _ in range(features)]
        now = _examples_of(draw, stream, id_, row, now_ms, partition)
        if draw.random() < 0.01:
            side = draw.choice((Side.EXAMPLES, Side.LABELS))
            now.append(Sent(side, partition, now_ms, stream.encode(), draw.randbytes(20), (("source", b"a scale"),)))
        due += _labels_of(draw, stream, id_, int(positive), now_ms, partition)
        due.sort(key=lambda record: record.time_ms)
        come = bisect.bisect_right(due, now_ms, key=lambda record: record.time_ms)
        yield (*now, *due[:come])
        del due[:come]
    yield tuple(due)


def _examples_of(
    draw: random.Random, stream: str, id_: str, row: list[float], now_ms: int, partition: int
) -> list[Sent]:
    """Return the records of an example; most are on time and are sent once."""
    sent = example(stream, id_, row, now_ms - draw.choice((0, 0, 0, 0, 25)), partition)
    if draw.random() < 0.1:
        sent = sent._replace(headers=(("traceparent", f"00-{now_ms:032x}-{now_ms:016x}-01".encode()),))
    found = [sent]
    if draw.random() < 0.02:
        found.append(sent._replace(time_ms=now_ms))
    if draw.random() < 0.02:
        found.append(example(stream, id_, [value + 1 for value in row], now_ms, partition))
    return found


def _labels_of(draw: random.Random, stream: str, id_: str, truth: int, now_ms: int, partition: int) -> list[Sent]:
    """Return the labels of an example; most are sent, up to two seconds later."""
    found = []
    if draw.random() < 0.9:
        time_ms = now_ms + draw.randrange(0, 2_000)
        found.append(label(stream, id_, truth, time_ms, partition))
        if draw.random() < 0.03:
            found.append(label(stream, id_, truth ^ draw.randrange(2), time_ms + 5, partition))
    if draw.random() < 0.01:
        found.append(label(stream, f"{id_}-nobody", 0, now_ms, partition))
    return found


def closing(stream: str, partition: int, to_ms: int, time_ms: int) -> tuple[Sent, Sent]:
    """Return the pair of marks that ends a finite stream."""
    return (
        advance(stream, Side.EXAMPLES, to_ms, time_ms, partition),
        advance(stream, Side.LABELS, to_ms, time_ms, partition),
    )


class StreamOf(NamedTuple):
    """A stream of a test: its name, its partition, and its number of features."""

    name: str
    partition: int
    features: int


def all_records(streams: Sequence[StreamOf], examples: int, start_ms: int, seed: int) -> list[Sent]:
    """Return the records of all streams, moment by moment, and their closing marks."""
    sources = [stream_records(*stream, examples, start_ms, seed) for stream in streams]
    records = [record for moments in zip_longest(*sources, fillvalue=()) for moment in moments for record in moment]
    end_ms = max(record.time_ms for record in records)
    for stream in streams:
        records += closing(stream.name, stream.partition, end_ms, end_ms)
    return records
