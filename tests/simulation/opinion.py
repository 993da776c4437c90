"""A second computation of a task's outputs: the reference join along the recorded ranges, with a separate decoder."""

from stream_app.config import TaskSettings
from stream_app.pipeline.outputs import OUTPUT_TOPICS, Outputs
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label, Mark, MarkKind, Reason, Side
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.verify.reference_state import Meaning, Record
from tests.oracle_checks import SecondOpinion, rows_of
from tests.support.formats.avro_reference import judge
from tests.support.formats.wire_formats import SHORTER_BYTES, unframed


class Opinion:
    """The reference join of one task, batch by batch.

    Args:
        settings: Settings of the task.
        topics: Full names of the two input topics, `examples` first.
        number: Number of the task.

    Attributes:
        examples: The examples that it has read.
        left_due: How often a stream had examples or labels after a batch that were due to be closed.
    """

    def __init__(self, settings: TaskSettings, topics: tuple[str, str], number: int) -> None:
        self.examples: list[Example] = []
        self.left_due = 0
        self._settings = settings
        self._second = SecondOpinion(settings, topics, number)

    def reconfigure(self, settings: TaskSettings) -> None:
        """Continue with other settings."""
        self._settings = settings
        self._second.oracle.reconfigure(settings)

    def stop(self, stream: str, reason: str) -> None:
        """Stop a stream."""
        self._second.oracle.stopped.setdefault(stream, reason)

    def reset(self, stream: str) -> None:
        """Restart a stream."""
        self._second.oracle.reset(stream)

    def import_state(self, imported: ImportedModel) -> None:
        """Let a learner continue from a saved state."""
        self._second.oracle.import_state(imported)

    def check(self, examples: RawRecords, labels: RawRecords, outputs: Outputs) -> None:
        """Compare a task's outputs for a batch with the reference's.

        Raises:
            DiffersError: They differ.
        """
        rows = {topic: list(rows_of(outputs.topics[topic])) for topic in OUTPUT_TOPICS}
        self._second.check(self._records(Side.EXAMPLES, examples), self._records(Side.LABELS, labels), rows)
        for stream in self._second.oracle.streams.values():
            due_ms = max(stream.time_ms - self._settings.join.life_ms - 1, stream.advanced_ms or 0)
            self.left_due += stream.oldest_until(due_ms) is not None

    def _records(self, side: Side, raw: RawRecords) -> list[Record]:
        cells = zip(raw.offsets.tolist(), raw.timestamps.tolist(), raw.keys, raw.values, strict=True)
        return [
            Record(side, offset, time_ms, self._meaning(side, value), key, value, tuple(raw.headers.get(row, ())))
            for row, (offset, time_ms, key, value) in enumerate(cells)
        ]

    def _meaning(self, side: Side, value: bytes | None) -> Meaning:
        limits = self._settings.limits
        more = 0
        if self._settings.wire_format == "confluent" and value is not None:
            value, more = unframed(value), SHORTER_BYTES
        verdict = judge(value, side, limits.max_record_bytes + more, limits.max_features)
        if verdict.reason is not None:
            return Reason(verdict.reason)
        if verdict.name == "tombstone":
            return None
        if verdict.name == "mark":
            return Mark(**{**verdict.fields, "kind": MarkKind[verdict.fields["kind"].upper()]})
        if side is Side.LABELS:
            return Label(**verdict.fields)
        example = Example(**verdict.fields)
        self.examples.append(example)
        return example
