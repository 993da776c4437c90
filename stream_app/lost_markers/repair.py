"""Publish again what was committed and cannot be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_app import __version__
from stream_app.errors import ErrorCode, StateError
from stream_app.lost_markers.output_logs import Window, repair_text
from stream_app.lost_markers.settle import Settled
from stream_app.progress_records import REPAIR, SNAPSHOT, Act, Commit
from stream_app.record_columns import OutputRecords, concatenated, concatenated_headers


@dataclass(frozen=True, slots=True)
class Repair:
    """Records that have to be published again, in one transaction.

    Attributes:
        outputs: Records by output topic.
        progress: The records of progress that were lost, then the act `repair`.
    """

    outputs: Mapping[str, OutputRecords]
    progress: tuple[Commit | Act, ...]

    @property
    def names_snapshot(self) -> bool:
        """Whether a record of progress that was lost named a snapshot, which the restore could not load."""
        return any(isinstance(record, Act) and record.kind == SNAPSHOT for record in self.progress)


def repair_of(
    settled: Settled, computed: Mapping[str, Sequence[OutputRecords]], sequence: int, topic_ids: Mapping[str, str]
) -> Repair | None:
    """Return the committed records that nobody can read; None if all can be read.

    Args:
        settled: What became of the last transactions.
        computed: By output topic, the outputs of the commits that `settled` says are missing there, in order.
        sequence: The sequence of the last record of progress, with those that were lost.
        topic_ids: The ids of the output topics.

    Raises:
        StateError: The outputs of a commit are missing and were not computed again.
    """
    missing = settled.missing
    if not (missing or settled.lost):
        return None
    if any(len(computed[topic]) != len(sequences) for topic, sequences in missing.items()):
        lost = ", ".join(f"{topic} from sequence {min(found)}" for topic, found in missing.items())
        raise StateError(f"outputs are missing ({lost}), and cannot be computed again", ErrorCode.OUTPUTS_LOST)
    outputs = {topic: _joined(computed[topic]) for topic in missing}
    windows = {topic: Window(settled.ends[topic], len(records)) for topic, records in outputs.items()}
    act = Act(sequence + 1, REPAIR, __version__, repair_text(windows, missing, topic_ids))
    return Repair(outputs, (*settled.lost, act))


def _joined(parts: Sequence[OutputRecords]) -> OutputRecords:
    """Return all records, in order."""
    return OutputRecords(
        concatenated([part.keys for part in parts]),
        concatenated([part.values for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        concatenated_headers(parts),
    )
