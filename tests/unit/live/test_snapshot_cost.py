"""An expensive snapshot is taken less often; time in which the process was frozen is no cost."""

from stream_app.config import StreamSettings
from stream_app.live.position import Anchor
from stream_app.live.snapshot_writer import COST_SHARE, SnapshotTimes, SnapshotWriter
from stream_app.pipeline.task import Task
from stream_app.snapshot.kept_snapshots import KeptSnapshots
from tests.support.tasks import LEARNERS, PARTITION, TOPICS, settings_of_task

WEEK_S = 7 * 86_400.0

AFTER_S = 0.5


class _Seconds:
    """A monotonic clock that jumps once, after it was read, by `frozen_s`."""

    def __init__(self) -> None:
        self.now_s = self.frozen_s = 0.0

    def __call__(self) -> float:
        now_s = self.now_s
        self.now_s += self.frozen_s
        self.frozen_s = 0.0
        return now_s


def _snapshot(writer: SnapshotWriter, seconds: _Seconds, takes_s: float) -> None:
    """Take a snapshot whose draft lasts this long, and let progress name it."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    task = Task(PARTITION, settings_of_task(streams={"s0": stream}), TOPICS)
    writer.begin(task, Anchor(1, bytes(32), (0, 0), 0), ({}, {}))
    seconds.frozen_s = takes_s
    writer.draft()
    written, whole = 0, None
    while whole is None:
        count = len(writer.next_records())
        writer.offsets.extend(range(written, written + count))
        written += count
        whole = writer.committed()
    writer.name()
    writer.committed()


def test_a_process_that_was_frozen_in_a_draft_takes_the_next_snapshot_soon() -> None:
    """Twenty frozen weeks without a snapshot: a restore would need inputs that retention has deleted by then."""
    seconds = _Seconds()
    writer = SnapshotWriter(PARTITION, SnapshotTimes(AFTER_S, 60.0), KeptSnapshots(), seconds)
    _snapshot(writer, seconds, WEEK_S)
    writer.worked(300.0, (), seconds())
    assert writer.is_due()


def test_a_draft_of_two_seconds_is_followed_by_the_next_after_forty() -> None:
    """Otherwise a large task would do little but save itself."""
    seconds = _Seconds()
    writer = SnapshotWriter(PARTITION, SnapshotTimes(AFTER_S, 60.0), KeptSnapshots(), seconds)
    _snapshot(writer, seconds, 2.0)
    writer.worked(2.0 * COST_SHARE - 1, (), seconds())
    assert not writer.is_due()
    writer.worked(2.0, (), seconds())
    assert writer.is_due()
