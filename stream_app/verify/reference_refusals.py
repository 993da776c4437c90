"""Which well-formed records `areba verify` expects as dead letters before the join looks at them."""

from typing import TYPE_CHECKING

from stream_app.config import StreamSettings
from stream_app.records import Example, Label, Mark, MarkKind, Reason, ThresholdKind
from stream_app.verify.reference_columns import refused_example
from stream_app.verify.reference_state import Record, ReferenceStream

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
    return _misfit(meaning, stream, join.settings.of_stream(stream.name))


def _refusal(record: Record, stream: str) -> Reason | None:
    """Return why a record whose value can be read is a dead letter, whatever the state; None if it is not."""
    if record.key != stream.encode():
        return Reason.WRONG_KEY
    return Reason.BAD_TIME if record.time_ms <= 0 else None


def _misfit(
    meaning: Example | Label | Mark, stream: ReferenceStream, settings: StreamSettings
) -> tuple[Reason, str] | None:
    """Return why a record does not fit its stream, and the detail; None if it fits."""
    if isinstance(meaning, Example):
        stream.features = stream.features or len(meaning.features)
        return refused_example(meaning, settings, stream.features)
    if isinstance(meaning, Mark):
        if meaning.kind is MarkKind.PROMOTE and meaning.learner not in settings.learners:
            return Reason.UNKNOWN_LEARNER, ""
        if (
            meaning.threshold_kind == ThresholdKind.COSTS.text
            and meaning.kind is MarkKind.DECIDE
            and not settings.costs
        ):
            return Reason.UNKNOWN_COSTS, ""
    return None
