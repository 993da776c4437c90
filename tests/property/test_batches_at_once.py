"""Batches that were processed one after the other are processed again at once, as a restore does."""

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_app.config import TaskSettings
from stream_app.pipeline.output_parts import parts_of
from stream_app.pipeline.task import Task
from stream_app.records import Side
from stream_app.verify.reference_state import Record
from tests.support.rows import columns
from tests.support.tasks import FEW, PARTITION, TOPICS, one_side, task_settings


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
    expected = [
        one.step(columns(examples[start[0] : end[0]]), columns(labels[start[1] : end[1]])).topics
        for start, end in pairwise(ends.tolist())
    ]
    found = []
    counts = data.draw(st.lists(st.integers(1, 5), max_size=10))
    bounds = [0, *(end for end in accumulate(counts) if end < len(sizes)), len(sizes)]
    for first, last in pairwise(bounds):
        start, end = ends[first], ends[last]
        group = columns(examples[start[0] : end[0]]), columns(labels[start[1] : end[1]])
        own = ends[first + 1 : last + 1] - start
        found += [part.topics for part in parts_of(again.step(*group, ends=own), own)]
    assert found == expected
    assert again.model_digests() == one.model_digests()
