"""The records of progress that a restore follows, read and checked as they are needed.

Progress is read from the commit record of the loaded snapshot on, or from the first record. Once it is read to its end,
`settle` finds out what became of the last transactions, and the records of those that were committed and cannot be read
are added. A limited number of records is held; the rest is read while the first are processed again.
"""

from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import TypeAlias

from stream_app.backends.progress import Recorded, progress_record
from stream_app.errors import ErrorCode, ForeignRecordsError, OffsetGoneError, StateError
from stream_app.live.position import Anchor, Position
from stream_app.live.task_request import TaskRequest
from stream_app.lost_markers.output_logs import deleted_outputs
from stream_app.lost_markers.settle import Settled, settle
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.progress_records import CONFIGURATION, REPARTITION, SKIP, Act, Commit
from stream_app.recovery.refusals import check_topic_ids, progress_lost
from stream_app.recovery.restore_request import Logs, RestoreReport
from stream_app.snapshot.skipped_inputs import Gap

PROGRESS_RECORDS_PER_POLL = 1000
"""Progress records have a few hundred bytes; a poll of this many takes well under a second."""

SCRIPT_RECORDS = 100_000
"""Progress records that are held at once: some 50 MB, a quarter of an hour of commits; the rest is read while these are
processed again."""


Script: TypeAlias = deque[Recorded]
"""Records of progress that are still to be processed again, in order."""


class ProgressScript:
    """The records of progress that are still to be processed again, and the known facts about their end.

    Args:
        request: The task.
        logs: The task's own topics.
        position: The position of the loaded snapshot, or the first one. Reading moves it where it finds the commit
            record of the snapshot, or a gap that an operator accepted.
        report: Takes the goal, once it is known, and the damage.
        records: Takes the records that are to be processed again, in order.
        has_unused_snapshot: Whether the changelog has a snapshot that was not loaded, so that something was committed.

    Attributes:
        settled: What became of the last transactions.
        newest: The rules and the number of partitions in the newest commit or configuration; zeros before the first.
        first: The offset and the time of the first record that was read; None before it was read.
        is_whole: Whether nothing of the script is missing.
        is_reprocessing: Whether records of the script were processed again.
    """

    def __init__(
        self,
        request: TaskRequest,
        logs: Logs,
        position: Position,
        report: RestoreReport,
        records: Script,
        has_unused_snapshot: bool,
    ) -> None:
        self.settled = Settled()
        self.newest = (0, 0)
        self.first: tuple[int, int] | None = None
        self.is_whole = False
        self.is_reprocessing = False
        self._request = request
        self._logs = logs
        self._position = position
        self._report = report
        self._records = records
        self._has_unused_snapshot = has_unused_snapshot
        self._recent: deque[Recorded] = deque(maxlen=SCRIPT_RECORDS)
        self._read_to = max(-1, report.loaded_sequence - 1)  # the sequence of the last record that was read
        self._misfit: StateError | None = None
        self._reader = logs.progress()
        if position.anchor.progress_offset >= 0:
            self._reader.seek(position.anchor.progress_offset)
        self._steps = self._read_all()

    @property
    def is_full(self) -> bool:
        """Whether the number of records that wait to be processed again has reached its limit."""
        return len(self._records) >= SCRIPT_RECORDS

    @property
    def wants_more(self) -> bool:
        """Whether more of the script is to be read while it is processed."""
        return len(self._records) < SCRIPT_RECORDS // 2 and not self.is_whole

    @property
    def state(self) -> str:
        """How far progress was read; part of an error."""
        return f"progress was read up to sequence {self._read_to}"

    @property
    def next_goal(self) -> str:
        """What the restore waits for; part of an error."""
        if self._records and isinstance(record := self._records[0].record, Commit):
            return f"the next range ends at {record.examples_end}/{record.labels_end}"
        return self.state

    def close(self) -> None:
        """Release the readers."""
        self._steps.close()
        self._reader.close()

    def read_more(self) -> bool:
        """Read a poll of progress without waiting, and say whether there was news.

        Raises:
            StateError: Progress contradicts itself or the loaded snapshot.
            ForeignRecordsError: Another application writes to the output topics.
        """
        return next(self._steps, True)

    def check_gap(self) -> None:
        """Refuse a gap that an operator accepted for another snapshot than the loaded one.

        Raises:
            StateError: The last gap is such a gap.
        """
        if self._misfit is not None:
            raise self._misfit

    def _read_all(self) -> Generator[bool, None, None]:
        """Read progress to its end and settle the last transactions; yield after each poll whether it had news."""
        at_end = False
        while not at_end:
            try:
                fetched = self._reader.poll(PROGRESS_RECORDS_PER_POLL, 0.0)
            except OffsetGoneError as error:
                raise progress_lost(self._request.number, error.message) from error
            if fetched is not None:
                at_end = fetched.at_end
                if self.first is None and len(fetched.records):
                    self.first = int(fetched.records.offsets[0]), fetched.records.first_log_time_ms
                for offset, value in zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True):
                    where = f"progress[{self._request.number}] offset {offset}"
                    self._take(Recorded(progress_record(value, where), offset), where)
            yield fetched is not None
        self._reader.close()  # the next readers take over its client
        self._take_settled((yield from self._settle()))
        self.is_whole = True

    # Records ----------------------------------------------------------------------------------------------------------

    def _take(self, recorded: Recorded, where: str) -> None:
        """Check the next record of progress, and add it to the script."""
        record, loaded_sequence = recorded.record, self._report.loaded_sequence
        if isinstance(record, Commit):
            self._check_commit(record)
        if isinstance(record, Commit) or record.kind in (CONFIGURATION, REPARTITION):
            self.newest = (record.rules, record.partitions)
        if record.sequence != self._read_to + 1:
            raise self._out_of_order(record.sequence).within(where)
        self._read_to = record.sequence
        if record.sequence == 0 and not (isinstance(record, Act) and record.kind == CONFIGURATION):
            raise StateError(f"{where}: the first record is not a configuration")
        self._recent.append(recorded)
        if record.sequence == loaded_sequence:
            self._check_anchor(recorded, where)
            return
        if isinstance(record, Commit):
            self._report.goal = record.examples_end, record.labels_end
        elif record.kind == SKIP:
            self._leave_out(record, where)
        self._records.append(recorded)

    def _check_commit(self, commit: Commit) -> None:
        """Refuse a commit of input topics that were deleted since."""
        request = self._request
        check_topic_ids(request.inputs, (commit.examples_topic_id, commit.labels_topic_id), request.identity.topic_ids)

    def _out_of_order(self, sequence: int) -> StateError:
        """Return why a record of this sequence cannot be the next record."""
        loaded_sequence, needed = self._report.loaded_sequence, self._read_to + 1
        if sequence < needed or needed != max(loaded_sequence, 0):
            return StateError(f"sequence {sequence} follows {self._read_to}")
        begin = f"progress begins with sequence {sequence}, but sequence {needed} is needed"
        if loaded_sequence >= 0:
            reason = " for the snapshot. Use another application.id to start from the beginning"
        elif self._report.damage:
            reason = (
                f": older records were deleted with their inputs, and no snapshot can be read "
                f"({'; '.join(self._report.damage)}). Use another application.id to start from the beginning"
            )
        else:
            reason = ", and progress names no snapshot. Use another application.id to start from the beginning"
        return StateError(begin + reason, ErrorCode.PROGRESS_LOST)

    def _check_anchor(self, recorded: Recorded, where: str) -> None:
        """Check the commit record after which the snapshot was taken."""
        record, position = recorded.record, self._position
        if not isinstance(record, Commit) or record.digest != position.point.digest:
            raise StateError(f"{where}: the snapshot was not taken after this record of sequence {record.sequence}")
        position.anchor = Anchor(record.sequence, record.digest, position.offsets, recorded.offset)

    def _leave_out(self, act: Act, where: str) -> None:
        """Leave out the commits after the snapshot, whose inputs are gone: an operator accepted this gap.

        A gap after another snapshot counts only if a gap after the loaded one follows.
        """
        gap, loaded_sequence = _gap_of(act, where), self._report.loaded_sequence
        self._misfit = None
        if gap.state_sequence != loaded_sequence or self.is_reprocessing:
            found = f"the snapshot after sequence {loaded_sequence}" if loaded_sequence >= 0 else "no snapshot"
            self._misfit = StateError(
                f"{where}: a gap was accepted after sequence {gap.state_sequence}, but {found} was loaded. "
                "`areba state skip` says what can be done; another application.id starts from the beginning",
                ErrorCode.SKIP_MISFIT,
            )
        acts = [recorded for recorded in self._records if isinstance(recorded.record, Act)]
        self._records.clear()
        self._records.extend(acts)
        self._position.offsets = gap.end
        self._report.goal = gap.end

    # The end of progress ----------------------------------------------------------------------------------------------

    def _settle(self) -> Generator[bool, None, Settled]:
        """Find out which transactions were committed, and which of their records nobody can read.

        Raises:
            StateError: The readable records contradict each other.
        """
        if self._logs.outputs is None:
            return Settled(ends=dict.fromkeys(OUTPUT_TOPICS, 0))
        is_anchored = bool(self._recent) and self._recent[0].record.sequence == self._report.loaded_sequence
        return (
            yield from settle(
                self._logs.outputs,
                lambda value: progress_record(value, f"progress[{self._request.number}]"),
                self._recent,
                self._read_to,
                is_anchored=is_anchored,
            )
        )

    def _take_settled(self, settled: Settled) -> None:
        """Add the lost records, and let the restore reach the last transaction that was committed.

        Raises:
            StateError: Progress is empty, and a snapshot shows that something was committed.
            ForeignRecordsError: Another application writes to the output topics.
        """
        if self.first is None and not settled.lost and self._has_unused_snapshot:
            raise progress_lost(self._request.number, "it is empty, and the changelog has a snapshot")
        if settled.foreign and self._logs.outputs is not None and not self._request.writer.adopts:
            topic, offset = next(iter(settled.foreign.items()))
            raise ForeignRecordsError(*self._logs.outputs.places[topic], offset)
        if any(isinstance(one.record, Act) and one.record.kind == SKIP for one in self._recent):
            settled = self._without_skipped(settled)
        self.settled = settled
        self._position.output_ends.update(settled.ends)
        last = next((one.record for one in reversed(self._recent) if isinstance(one.record, Commit)), None)
        for topic in deleted_outputs(last, self._request.identity.output_ids) if last is not None else ():
            self._report.replaced.append(
                f"{topic} was deleted and created again: its records up to sequence {self._read_to} are gone"
            )
        for record in settled.lost:
            self._read_to = record.sequence
            self._records.append(Recorded(record, -1))
            if isinstance(record, Commit):
                self._report.goal = record.examples_end, record.labels_end

    def _without_skipped(self, settled: Settled) -> Settled:
        """Leave out the outputs of skipped commits: their inputs are gone, so they cannot be computed again."""
        known = {one.record.sequence for one in self._records} | {record.sequence for record in settled.lost}
        missing = {topic: left for topic, found in settled.missing.items() if (left := found & known)}
        for topic, found in settled.missing.items():
            if gone := sorted(found - known):
                self._report.damage.append(
                    f"{topic} of sequences {gone}: nobody can read them, and their inputs are gone"
                )
        return replace(settled, missing=missing)


def _gap_of(act: Act, where: str) -> Gap:
    try:
        return Gap.from_text(act.text)
    except StateError as problem:
        raise problem.within(where) from problem
