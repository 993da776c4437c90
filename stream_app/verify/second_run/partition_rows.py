"""Give a fresh run the records of a partition."""

from collections.abc import Callable, Iterator
from functools import partial

from stream_app.backends.reading import Row
from stream_app.config import Config
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.serialization.dead_letter import is_of_a_replay
from stream_app.verify.results import Findings
from stream_app.verify.second_run.rerun import Rerun
from stream_app.verify.second_run.start import Start
from stream_app.verify.topic_reader import PartitionReader


def open_rerun(
    reader: PartitionReader, config: Config, partition: int, findings: Findings, start: Start | None = None
) -> Rerun:
    """Return a run of a task from the first record on, or from a state."""
    topics = config.topics
    names = {name: getattr(topics, name.replace("-", "_")) for name in OUTPUT_TOPICS}
    outputs: dict[str, tuple[str, Callable[[int], Iterator[Row]]]] = {
        name: (full, partial(reader.rows, full)) for name, full in names.items()
    }
    outputs["dead-letters"] = (topics.dead_letters, partial(_letters, reader, topics.dead_letters))
    begins = (0, 0) if start is None else start.ends
    return Rerun(
        partition,
        inputs=(topics.examples, topics.labels),
        progress=topics.progress,
        sides=(reader.rows(topics.examples, begins[0]), reader.rows(topics.labels, begins[1])),
        outputs=outputs,
        findings=findings,
        decode=reader.content,
        start=start,
    )


def _letters(reader: PartitionReader, topic: str, first: int) -> Iterator[Row]:
    """Yield the dead letters; records of a replay are between them."""
    return (row for row in reader.rows(topic, first) if not is_of_a_replay(row.headers))
