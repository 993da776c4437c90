"""How examples and labels end by their age, or because of an operator, as `areba verify` expects it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stream_app.records import Cause, Reason, Side
from stream_app.verify.reference_state import Pending, ReferenceStream, Waiting

if TYPE_CHECKING:
    from stream_app.verify.reference_join import ReferenceJoin


EXPIRED = Cause.EXPIRED_EXAMPLE, Cause.EXPIRED_LABEL
ADVANCED = Cause.ADVANCED_EXAMPLE, Cause.ADVANCED_LABEL
"""Why examples and labels are closed by their age."""


def close_advanced(join: "ReferenceJoin", stream: ReferenceStream, most: int) -> int:
    """Close what `advance` marks close, until all of it is closed; return how many more the record may close."""
    if stream.advanced_ms is not None:
        most = close_until(join, stream, stream.advanced_ms, ADVANCED, most)
        if stream.oldest_until(stream.advanced_ms) is None:
            stream.advanced_ms = None
    return most


def close_until(
    join: "ReferenceJoin", stream: ReferenceStream, time_ms: int, why: tuple[Cause, Cause], most: int
) -> int:
    """Close what has a timestamp up to this one, the oldest first; return how many more the record may close."""
    while most > 0 and (oldest := stream.oldest_until(time_ms)) is not None:
        if oldest[0] is Side.EXAMPLES:
            join.close_oldest_example(stream, why[0])
        else:
            join.bury_oldest_label(stream, why[1])
        most -= 1
    return most


def end_all(
    join: "ReferenceJoin",
    stream: ReferenceStream,
    examples: Iterable[tuple[str, Pending]],
    labels: Iterable[Waiting],
    why: Cause,
) -> None:
    """Evict examples that an operator has taken out of a stream; the labels become orphans."""
    for id_, example in examples:
        stream.evicted += 1
        join.expect_outcome(stream, id_, "evicted", **example.cells)
    for label in labels:
        join.bury(label.record, Reason.ORPHAN_LABEL, why)
