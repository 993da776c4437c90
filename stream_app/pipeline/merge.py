"""The deterministic merge of a task's two inputs.

Of the next example and the next label, the record with the smaller timestamp goes first, the example on a tie. If the
next record of one side is not known, the other side waits, unless the first side was read to its end. `cut` decides
once which two ranges a batch has; a process that repeats the batch merges the same ranges with `merge` and gets the
same sequence. It can repeat several batches at once, whose sequences follow one another.
"""

import numpy as np

from stream_app.arrays import Bytes, Integers, Longs
from stream_app.jit.compiler import compiled


@compiled
def _cut(
    example_times: Longs, label_times: Longs, examples_at_end: bool, labels_at_end: bool, limit: int
) -> tuple[int, int]:
    examples, labels = len(example_times), len(label_times)
    example, label = 0, 0
    while example + label < limit:
        if example < examples and label < labels:
            if example_times[example] <= label_times[label]:
                example += 1
            else:
                label += 1
        elif example < examples and labels_at_end:
            example += 1
        elif label < labels and examples_at_end:
            label += 1
        else:
            break
    return example, label


@compiled
def _merge(example_times: Longs, label_times: Longs, ends: Longs) -> tuple[Bytes, Integers]:
    total = len(example_times) + len(label_times)
    sides = np.empty(total, np.uint8)
    rows = np.empty(total, np.int32)
    example, label, batch = 0, 0, 0
    for position in range(total):
        while example == ends[batch, 0] and label == ends[batch, 1]:
            batch += 1
        examples, labels = ends[batch, 0], ends[batch, 1]
        if label == labels or (example < examples and example_times[example] <= label_times[label]):
            sides[position] = 0
            rows[position] = example
            example += 1
        else:
            sides[position] = 1
            rows[position] = label
            label += 1
    return sides, rows


def cut(
    example_times: Longs, label_times: Longs, *, examples_at_end: bool, labels_at_end: bool, limit: int
) -> tuple[int, int]:
    """Return how many records of each side the next batch takes.

    Args:
        example_times: int64 `[n]`, timestamps of the examples that were read and not taken yet, in offset order.
        label_times: int64 `[m]`, timestamps of the labels.
        examples_at_end: Whether the topic has no examples after these.
        labels_at_end: Whether the topic has no labels after these.
        limit: The largest number of records in a batch.
    """
    taken_examples, taken_labels = _cut(example_times, label_times, examples_at_end, labels_at_end, limit)
    return int(taken_examples), int(taken_labels)


def merge(example_times: Longs, label_times: Longs, ends: Longs | None = None) -> tuple[Bytes, Integers]:
    """Merge the two ranges of a batch, or of k batches one after the other.

    Args:
        example_times: int64 `[n]`, timestamps of the examples, in offset order.
        label_times: int64 `[m]`, timestamps of the labels.
        ends: int64 `[k, 2]`, the rows of examples and labels before which each batch ends, the last being n and m;
            None: they are one batch.

    Returns:
        uint8 `[n + m]`, the `Side` of each position, and int32 `[n + m]`, its row on that side.
    """
    if ends is None:
        ends = np.array([[len(example_times), len(label_times)]])
    sides, rows = _merge(example_times, label_times, ends)
    return sides, rows
