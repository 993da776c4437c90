"""How examples and labels end that an operator has taken out of a stream, as `areba verify` expects it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stream_app.records import Cause, Reason
from stream_app.verify.reference_state import Pending, ReferenceStream, Waiting

if TYPE_CHECKING:
    from stream_app.verify.reference_join import ReferenceJoin


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
