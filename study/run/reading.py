"""What a task answered: the values of its topic of predictions, brought back into columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Longs
from stream_app.errors import StateError
from stream_app.jit.compiler import compiled
from stream_app.records import Prediction
from stream_app.serialization import avro


@dataclass(frozen=True, slots=True)
class Answered:
    """Every learner's answer to each of n examples.

    Attributes:
        classes: int8 `[learners, n]`, the class it said on the example's arrival.
        scores: float32 `[learners, n]`, its P(class 1).
    """

    classes: NDArray[np.int8]
    scores: Floats

    @classmethod
    def empty(cls, learners: int, examples: int) -> "Answered":
        """Nothing answered yet: class -1."""
        return cls(np.full((learners, examples), -1, np.int8), np.full((learners, examples), np.nan, np.float32))


@compiled
def _read(
    buffer: Bytes,
    ends: Longs,
    header: int,
    prefix: int,
    names: Bytes,
    name_ends: Longs,
    classes: NDArray[np.int8],
    bits: NDArray[np.uint32],
) -> int:
    """Put each row where it belongs; the first row that has no place, or -1."""
    learners = len(name_ends) - 1
    start = 0
    for row in range(len(ends)):
        end = int(ends[row])
        position = start + header
        length, position = avro.read_long(buffer, position, end)  # the stream's name
        position += length
        length, position = avro.read_long(buffer, position, end)  # the id: the prefix, then the example's number
        number = np.int64(0)
        for place in range(position + prefix, position + length):
            number = 10 * number + np.int64(buffer[place]) - 48
        position += length
        length, position = avro.read_long(buffer, position, end)  # the learner's name
        learner = row % learners
        first = name_ends[learner]
        if length != name_ends[learner + 1] - first or number < 0 or number >= classes.shape[1]:
            return row
        for k in range(length):
            if buffer[position + k] != names[first + k]:
                return row
        position += length + 1
        bits[learner, number] = avro.read_float_bits(buffer, position)
        position += 2 * avro.FLOAT_BYTES  # the score, and its probability
        label, position = avro.read_long(buffer, position, end)
        classes[learner, number] = label
        start = int(end)
    return -1


def read_predictions(values: Sequence[bytes | None], learners: Sequence[str], id_prefix: str, into: Answered) -> None:
    """Read the predictions of a batch, in merge order, of a task that publishes those of all learners.

    Args:
        values: What the task made for the topic of predictions.
        learners: Their names, in the configured order.
        id_prefix: What ids begin with; the example's number follows.
        into: Where the answers are put.

    Raises:
        StateError: A value is not the prediction that its place calls for.
    """
    present = [value for value in values if value is not None]
    if not present:
        return
    encoded = [name.encode() for name in learners]
    row = _read(
        np.frombuffer(b"".join(present), np.uint8).copy(),
        np.cumsum([len(value) for value in present], dtype=np.int64),
        len(avro.newest()[Prediction].header),
        len(id_prefix.encode()),
        np.frombuffer(b"".join(encoded), np.uint8).copy(),
        np.cumsum([0, *(len(name) for name in encoded)], dtype=np.int64),
        into.classes,
        into.scores.view(np.uint32),
    )
    if row >= 0:
        raise StateError(f"prediction {row} of a batch was not made by {learners[row % len(learners)]}")
