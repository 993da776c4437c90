"""Which well-formed records `areba verify` expects as dead letters before the join looks at them."""

from typing import TYPE_CHECKING

from stream_app.records import Example, Label, Mark, MarkKind, Reason
from stream_app.verify.reference_columns import refused_example
from stream_app.verify.reference_state import Record

if TYPE_CHECKING:
    from stream_app.verify.reference_join import ReferenceJoin


def refused(join: "ReferenceJoin", record: Record, meaning: Example | Label | Mark) -> tuple[Reason, str] | None:
    """Return why a well-formed record is a dead letter, and the detail; None if its stream, open then, takes it."""
    if (reason := _refusal(record, meaning.stream)) is not None:
        return reason, ""
    if join.belongs_elsewhere(meaning.stream):
        return Reason.MOVED_STREAM, ""
    stream = join.stream(meaning)
    if stream is None:
        return Reason.UNKNOWN_STREAM, ""
    if stream.name in join.stopped and not (isinstance(meaning, Mark) and meaning.kind is MarkKind.RESUME):
        return Reason.STREAM_STOPPED, ""
    if isinstance(meaning, Example):
        settings = join.settings.of_stream(stream.name)
        stream.features = stream.features or len(meaning.features)
        return refused_example(meaning, settings, stream.features)
    return None


def _refusal(record: Record, stream: str) -> Reason | None:
    """Return why a record whose value can be read is a dead letter, whatever the state; None if it is not."""
    if record.key != stream.encode():
        return Reason.WRONG_KEY
    return Reason.BAD_TIME if record.time_ms <= 0 else None
