"""Give a fresh run the records of a partition."""

from collections.abc import Iterator, Mapping
from functools import partial

from stream_app.backends.reading import Row
from stream_app.config import Config
from stream_app.pipeline.outputs import DEAD_LETTERS, OUTPUT_TOPICS
from stream_app.serialization.dead_letter import is_of_a_resend
from stream_app.verify.partition.deleted import Horizon
from stream_app.verify.results import Findings
from stream_app.verify.second_run.rerun import Rerun, RerunTopic
from stream_app.verify.second_run.start import Start
from stream_app.verify.topic_reader import PartitionReader


def open_rerun(
    reader: PartitionReader,
    config: Config,
    partition: int,
    findings: Findings,
    begin: tuple[int, int] | Start,
    horizons: Mapping[str, Horizon],
) -> Rerun:
    """Return a run of a task from its first input offsets on, or from a state."""
    topics = config.topics
    outputs = {}
    for name in OUTPUT_TOPICS:
        horizon = horizons[name.replace("-", "_")]
        read = partial(_letters, reader) if name == DEAD_LETTERS else reader.rows
        outputs[name] = RerunTopic(horizon.topic, partial(read, horizon.topic), horizon)
    begins = begin.ends if isinstance(begin, Start) else begin
    return Rerun(
        partition,
        inputs=(topics.examples, topics.labels),
        progress=topics.progress,
        sides=(reader.rows(topics.examples, begins[0]), reader.rows(topics.labels, begins[1])),
        outputs=outputs,
        findings=findings,
        decode=reader.content,
        begin=begin,
    )


def _letters(reader: PartitionReader, topic: str, first: int) -> Iterator[Row]:
    """Yield the dead letters; records of a resend are between them."""
    return (row for row in reader.rows(topic, first) if not is_of_a_resend(row.headers))
