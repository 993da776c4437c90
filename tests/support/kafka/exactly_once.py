"""A second computation of all outputs: the recorded ranges of the inputs, processed by the pure stages.

It uses neither the worker's loop nor the restore.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.backends.base import TopicPartition
from stream_app.config import TaskSettings
from stream_app.pipeline.outputs import OUTPUT_TOPICS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import RawRecords
from stream_app.serialization import codec
from stream_app.snapshot.parts import WholeActs
from tests.support.kafka.application import App
from tests.support.kafka.topics import read_raw
from tests.support.rows import Read, range_of


@dataclass
class Reprocessed:
    """The results of the pure stages for one task's inputs along its recorded ranges."""

    outputs: dict[str, list[Read]] = field(default_factory=lambda: {name: [] for name in OUTPUT_TOPICS})
    offsets: tuple[int, int] = (0, 0)
    models: str = ""
    commits: int = 0


def read_inputs(app: App, number: int) -> list[RawRecords]:
    """Return the examples and the labels of one partition."""
    return [read_raw(app.cluster, TopicPartition(name, number)) for name in app.input_topics]


def reprocess(
    app: App,
    number: int,
    inputs: Sequence[RawRecords] | None = None,
    progress: Sequence[bytes | None] | None = None,
) -> Reprocessed:
    """Process the inputs of one partition with a new task along its progress, and check the chain of digests.

    `inputs`, from `read_inputs`, and `progress` were read before any record was deleted.
    """
    topics, cluster, names = app.config.topics, app.cluster, app.input_topics
    inputs = inputs or read_inputs(app, number)
    result = Reprocessed()
    task: Task | None = None
    acts, digest = WholeActs(), bytes(32)
    progress = progress or read_raw(cluster, TopicPartition(topics.progress, number)).values
    for sequence, value in enumerate(progress):
        record = codec.decode_one(value or b"")
        assert isinstance(record, Commit | Act)
        assert record.sequence == sequence, f"sequence {record.sequence} at place {sequence}"
        if isinstance(record, Act):
            act = acts.add(record)
            if act is not None:
                task = task or Task(number, TaskSettings.from_json(act.text), names)
                task.apply(act)
            continue
        assert task is not None
        ranges = (record.examples_start, record.examples_end, record.labels_start, record.labels_end)
        assert (ranges[0], ranges[2]) == result.offsets, "every range starts where the one before ended"
        outputs = task.step(range_of(inputs[0], *ranges[:2]), range_of(inputs[1], *ranges[2:]))
        digest = chain_digest(digest, ranges, outputs)
        assert record.digest == digest, f"task {number}: the digest of sequence {sequence} is another one"
        for topic, records in outputs.topics.items():
            for row, cells in enumerate(zip(records.keys, records.values, strict=True)):
                result.outputs[topic].append(Read(-1, -1, *cells, tuple(records.headers.get(row, ()))))
        result.offsets = (record.examples_end, record.labels_end)
        result.commits += 1
    if task is not None:
        result.models = hashlib.sha256(repr(sorted(task.model_digests().items())).encode()).hexdigest()
    return result


def same(found: Sequence[Read], expected: Sequence[Read], what: str) -> None:
    """Compare key, value, headers and order. Control records take offsets, and the log sets the timestamps."""
    assert len(found) == len(expected), f"{what}: {len(found)} records, expected {len(expected)}"
    for number, (one, two) in enumerate(zip(found, expected, strict=True)):
        assert one[2:] == two[2:], f"{what}: record {number} differs"


def check_exactly_once(
    app: App,
    inputs: Mapping[int, Sequence[RawRecords]] | None = None,
    progress: Mapping[int, Sequence[bytes | None]] | None = None,
) -> dict[int, Reprocessed]:
    """Check that the outputs equal the pure stages' outputs."""
    result = {}
    inputs, progress = inputs or {}, progress or {}
    for number in range(app.partitions):
        expected = reprocess(app, number, inputs.get(number), progress.get(number))
        for topic, records in app.outputs(number).items():
            same(records, expected.outputs[topic], f"{topic}[{number}]")
        result[number] = expected
    return result
