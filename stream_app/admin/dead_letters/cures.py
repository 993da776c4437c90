"""Which dead letters a resend does not cure."""

from collections.abc import Iterable, Iterator

from stream_app.records import Reason

_INCURABLE = frozenset(reason.text for reason in (Reason.UNDECODABLE, Reason.NOT_FINITE, Reason.BAD_ID))
"""The record itself is wrong, under every configuration."""

_CONDITIONAL = frozenset(
    reason.text
    for reason in (
        Reason.WRONG_SCHEMA,
        Reason.WRONG_DIMENSION,
        Reason.TOO_LARGE,
        Reason.BAD_COLUMN,
        Reason.BAD_LABEL,  # a text that `serialization.label_classes` does not have
    )
)
"""The record is accepted only after a change of the configuration, the registered schemas or the stream's dimension."""


STOPPED = Reason.STREAM_STOPPED.text


def warnings(reasons: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each reason for which a resend makes the same dead letter again."""
    for reason in sorted(set(reasons)):
        if reason == STOPPED:
            yield f"warning: {reason}: a resend makes the same dead letter again until `areba resume STREAM`"
        if reason in _INCURABLE | _CONDITIONAL:
            unless = " unless the configuration, the schema or the stream has changed" if reason in _CONDITIONAL else ""
            yield (
                f"warning: {reason}: a resend makes the same dead letter again{unless}; correct the producer, and let "
                "it send the record again with the same id"
            )
