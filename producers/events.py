"""The records of a plan as bytes, and their digest. Equal plans give equal bytes."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.lanes import lane_number
from stream_app.producers.draws import Draws
from stream_app.producers.faults import GARBAGE_MAX_BYTES
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.schedule import GARBAGE, MARK, Schedule, sorted_schedule
from stream_app.records import Example, Mark, MarkKind, Side
from stream_app.serialization.codec import encode
from stream_app.serialization.encode import encode_examples, encode_labels

CHUNK_RECORDS = 4_096
"""Records encoded in one call: 13 MB of MNIST images; the progress bar moves about ten times per second."""

ID_HASH_CHARACTERS = 10
"""Characters of a replay's hash in its ids: 40 bits, so that two replays onto one topic do not share ids."""


class Sent(NamedTuple):
    """One record, ready for the sender."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int


def id_prefix(plan: Plan, stream: StreamPlan) -> str:
    """Return the beginning of a stream's ids, which is the same only for the same seed, start and name.

    Ids of the data itself have no such beginning.
    """
    if stream.data.ids is not None:
        return ""
    digest = hashlib.sha256(f"{plan.seed}/{plan.start}/{stream.stream}".encode()).hexdigest()
    return f"{digest[:ID_HASH_CHARACTERS]}-"


def events(plan: Plan) -> Iterator[Sent]:
    """Yield every record of a plan that has a `start_ms`, in the order of sending."""
    with sorted_schedule(plan) as planned:
        for chunk in planned.chunks(CHUNK_RECORDS):
            yield from encode_rows(plan, chunk)


def encode_rows(plan: Plan, planned: Schedule) -> list[Sent]:
    """Return consecutive rows of a plan's schedule as records."""
    values, keys = [b""] * len(planned), [b""] * len(planned)
    kinds = planned.contents * len(Side) + planned.sides
    groups = planned.streams.astype(np.int64) * 3 * len(Side) + kinds
    for group in np.unique(groups):
        stream_index, kind = divmod(int(group), 3 * len(Side))
        rows = np.flatnonzero(groups == group)
        stream = plan.streams[stream_index]
        end_ms = plan.start + planned.ends_ms[stream_index]
        for name, own in _by_name(plan, stream, planned.numbers, rows):
            encoded = _values(plan, stream, name, planned, own, *divmod(kind, len(Side)), end_ms)
            for row, value in zip(own.tolist(), encoded, strict=True):
                values[row], keys[row] = value, name.encode()
    topics = (plan.examples_topic, plan.labels_topic)
    times = (planned.times + plan.start).tolist()
    columns = (planned.sides.tolist(), keys, values, times)
    return [Sent(topics[side], key, value, time) for side, key, value, time in zip(*columns, strict=True)]


def _by_name(
    plan: Plan, stream: StreamPlan, numbers: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield the rows of a stream by the names that its records have: those of its lanes, or its own.

    Random bytes go to the lane of the example whose number they have.
    """
    if stream.lanes is None:
        yield stream.stream, rows
        return
    lanes = -1 - numbers[rows]  # of marks
    data = np.flatnonzero(numbers[rows] >= 0)
    lanes[data] = [lane_number(id_, stream.lanes) for id_ in _ids(plan, stream, numbers[rows[data]])]
    for lane in np.unique(lanes).tolist():
        yield stream.names[lane], rows[lanes == lane]


def _values(
    plan: Plan,
    stream: StreamPlan,
    name: str,
    planned: Schedule,
    rows: NDArray[np.int64],
    content: int,
    side: int,
    end_ms: int,
) -> list[bytes]:
    """Return the values of rows that share the name in their records, content and side."""
    if content == MARK:
        return [encode(Mark(name, MarkKind.ADVANCE, time_ms=end_ms), plan.wire_format)] * len(rows)
    numbers = planned.numbers[rows]
    if content == GARBAGE:
        return _garbage(Draws("replay", plan.seed, stream.stream, "garbage bytes"), numbers.tolist())
    ids = _ids(plan, stream, numbers)
    if side == Side.EXAMPLES and stream.data.values is not None:
        rows_of_values = stream.data.values.rows(numbers % len(stream.data))
        examples = (Example(name, id_, values=values) for id_, values in zip(ids, rows_of_values, strict=True))
        return [encode(example, plan.wire_format) for example in examples]
    if side == Side.EXAMPLES:
        features = stream.data.features[numbers % len(stream.data)]
        return encode_examples(name, ids, features, plan.wire_format)
    return encode_labels(name, ids, planned.labels[rows], wire_format=plan.wire_format)


def _ids(plan: Plan, stream: StreamPlan, numbers: NDArray[np.int64]) -> list[str]:
    if stream.data.ids is not None:
        return [id_.decode() for id_ in stream.data.ids[numbers].tolist()]
    prefix = id_prefix(plan, stream)
    return [f"{prefix}{number}" for number in numbers.tolist()]


def _garbage(draws: Draws, numbers: Sequence[int]) -> list[bytes]:
    """Return 1 to `GARBAGE_MAX_BYTES` random bytes for each number."""
    words = 1 + GARBAGE_MAX_BYTES // 8
    blocks = (draws.words(number * words, words) for number in numbers)
    return [block[1:].astype("<u8").tobytes()[: 1 + int(block[0]) % GARBAGE_MAX_BYTES] for block in blocks]


class RecordsDigest:
    """SHA-256 over records in order, as `manifest` defines it."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, records: Sequence[Sent]) -> None:
        """Add records."""
        parts: list[bytes] = []
        for topic, key, value, timestamp_ms in records:
            parts += (
                topic.encode(),
                struct.pack("<xqI", timestamp_ms, len(key)),
                key,
                struct.pack("<I", len(value)),
                value,
            )
        self._hash.update(b"".join(parts))

    def hexdigest(self) -> str:
        """Return the digest of the records so far."""
        return self._hash.hexdigest()
