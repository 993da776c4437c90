"""Batches that were processed one after the other are processed again at once, as a restore does."""

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_app.config import BreakerSettings, TaskSettings
from stream_app.live.breaker import Breaker
from stream_app.pipeline.output_parts import parts_of
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Side
from stream_app.serialization import codec
from stream_app.verify.reference_state import Record
from tests.support.rows import columns
from tests.support.tasks import FEW, PARTITION, TOPICS, one_side, settings_of_task, task_settings


@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS), st.data())
def test_batches_at_once_have_the_outputs_of_each(
    chosen: TaskSettings, examples: list[Record], labels: list[Record], data: st.DataObject
) -> None:
    """Any ranges may follow one another: records came late, or a side was at its end, so no single merge has them."""
    cuts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)
    sizes = [*data.draw(cuts), (len(examples), len(labels))]
    ends = np.minimum(np.cumsum([(0, 0), *sizes], axis=0), (len(examples), len(labels)))
    one, again = Task(PARTITION, chosen, TOPICS), Task(PARTITION, chosen, TOPICS)
    counts = Breaker(BreakerSettings()), Breaker(BreakerSettings())
    expected, found = [], []
    for start, end in pairwise(ends.tolist()):
        outputs = one.step(columns(examples[start[0] : end[0]]), columns(labels[start[1] : end[1]]))
        counts[0].count(outputs.judged, outputs.stream_names)
        expected.append(outputs.topics)
    groups = data.draw(st.lists(st.integers(1, 5), max_size=10))
    bounds = [0, *(end for end in accumulate(groups) if end < len(sizes)), len(sizes)]
    for first, last in pairwise(bounds):
        start, end = ends[first], ends[last]
        group = columns(examples[start[0] : end[0]]), columns(labels[start[1] : end[1]])
        own = ends[first + 1 : last + 1] - start
        outputs = again.step(*group, ends=own)
        counts[1].count(outputs.judged, outputs.stream_names)
        found += [part.topics for part in parts_of(outputs, own)]
    assert found == expected
    assert counts[1].counts == counts[0].counts
    assert again.model_digests() == one.model_digests()


def test_the_breaker_counts_the_same_records_of_a_stream_that_opens_among_them() -> None:
    """A stream that is not configured begins with its first example; malformed records before it count nowhere."""
    first = codec.encode(Example("new", "1", (0.5, 0.5)))
    values = [b"malformed", first, b"malformed"]
    examples = RawRecords.of(np.arange(3), np.arange(1, 4), [b"new"] * 3, values)
    ends = np.array([(1, 0), (3, 0)])
    chosen = settings_of_task(unknown_streams="model")
    one, again = Task(PARTITION, chosen, TOPICS), Task(PARTITION, chosen, TOPICS)
    counts = Breaker(BreakerSettings()), Breaker(BreakerSettings())
    for outputs in (one.step(examples.rows(0, 1), columns([])), one.step(examples.rows(1, 3), columns([]))):
        counts[0].count(outputs.judged, outputs.stream_names)
    outputs = again.step(examples, columns([]), ends=ends)
    counts[1].count(outputs.judged, outputs.stream_names)
    assert counts[1].counts == counts[0].counts
    assert counts[0].counts[Side.EXAMPLES] == {"new": (1, 1, 1, 1)}
