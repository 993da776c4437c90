"""Labels that are missing not at random: a learner's own predictions decide which labels it gets.

Predicted positives are checked, and so are all examples at the beginning: their true label follows within
`BATCH_EXAMPLES`. All other examples count as negative after a time-out, unless a complaint shows that they are
positive. A complaint before the time-out is the example's first label; a complaint after it corrects the label. Since
what a learner predicts decides what it learns, each learner has a task of its own, and is its champion.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.pipeline.task import Task
from stream_app.producers.datasets.base import DataSet
from stream_app.record_columns import RawRecords
from stream_app.serialization.encode import encode_examples, encode_labels
from study.run.experiment import Checks
from study.run.reading import Answered, read_predictions

BATCH_EXAMPLES = 50
"""Examples of a batch: a predicted positive is checked after at most as many examples."""


class DueLabel(NamedTuple):
    """A label that is sent after a later example.

    Attributes:
        number: The number of its example.
        label: The class.
        revision: 1 for a correction.
        checked: Whether a check shows it.
    """

    number: int
    label: int
    revision: int
    checked: bool = False


def labels_of(
    number: int, truth: int, predicted: int, checks: Checks, checked_at: int
) -> Iterator[tuple[int, DueLabel]]:
    """Yield the labels of an example, each with the number of the example after which it is sent.

    Args:
        number: The example's number.
        truth: Its class.
        predicted: The class that the learner predicted.
        checks: When labels are sent.
        checked_at: The number of the example after which predicted positives of this batch are checked.
    """
    if predicted == 1 or number < checks.labelled_examples:
        yield checked_at, DueLabel(number, truth, 0, checked=True)
        return
    complaint, timeout = checks.complaint_examples, checks.timeout_examples
    if truth == 1 and complaint is not None and complaint <= timeout:
        yield number + complaint, DueLabel(number, 1, 0)
        return
    yield number + timeout, DueLabel(number, 0, 0)
    if truth == 1 and complaint is not None:
        yield number + complaint, DueLabel(number, 1, 1)


def answer(
    task: Task, learner: str, stream: str, data: DataSet, checks: Checks, start_ms: int
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Send a stream to a task in small batches, and decide from its predictions which labels follow.

    Args:
        task: A new task whose only learner is `learner`; it must accept corrections.
        learner: The name of the learner.
        stream: The name of the stream.
        data: The examples, and the labels that a check or a complaint shows.
        checks: When labels are sent.
        start_ms: Event time of the first example.

    Returns:
        The learner's classes, int8 `[n]`, and scores, float32 `[n]`.
    """
    count = len(data)
    ids = [str(number) for number in range(count)]
    times = start_ms + data.interval_ms * np.arange(count, dtype=np.int64)
    answered = Answered.empty(1, count)
    due: dict[int, list[DueLabel]] = defaultdict(list)
    sent = 0
    for first in range(0, count, BATCH_EXAMPLES):
        last = min(first + BATCH_EXAMPLES, count)
        after = [(place, label) for place in range(first - 1, last - 1) for label in due.pop(place, ())]
        examples = encode_examples(stream, ids[first:last], data.features[first:last])
        outputs = task.step(
            _raw(stream, examples, times[first:last], first),
            _raw(stream, _encoded(stream, ids, after), times[[place for place, _ in after]] + 1, sent),
        )
        sent += len(after)
        read_predictions(outputs.topics["predictions"].values, (learner,), "", answered)
        for number in range(first, last):
            predicted = int(answered.classes[0, number])
            for place, label in labels_of(number, int(data.labels[number]), predicted, checks, last - 1):
                due[place].append(label)
    return answered.classes[0], answered.scores[0]


def _encoded(stream: str, ids: Sequence[str], after: Sequence[tuple[int, DueLabel]]) -> list[bytes]:
    labels = np.array([label.label for _, label in after], np.int8)
    revisions = np.array([label.revision for _, label in after], np.int64)
    return encode_labels(stream, [ids[label.number] for _, label in after], labels, revisions)


def _raw(stream: str, values: list[bytes], times: NDArray[np.int64], first_offset: int) -> RawRecords:
    return RawRecords.of(
        offsets=np.arange(first_offset, first_offset + len(values), dtype=np.int64),
        timestamps=times,
        keys=[stream.encode()] * len(values),
        values=values,
    )
