"""Process recorded batches again, without publishing anything, and compare the digest after each of them."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stream_app import __version__
from stream_app.backends.base import Clock, pair
from stream_app.backends.progress import Recorded
from stream_app.errors import ErrorCode, StateError
from stream_app.live.position import Anchor, CommitPoint
from stream_app.live.restored_state import RestoredState
from stream_app.live.task_request import TaskRequest
from stream_app.pipeline.outputs import OUTPUT_TOPICS, chain_digest
from stream_app.progress_records import REPAIR, SKIP, SNAPSHOT, STOP, Act, Commit
from stream_app.recovery.restore_request import RestoreReport
from stream_app.snapshot.identity import other_rules
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import Gap
from stream_app.snapshot.stops import Stop

if TYPE_CHECKING:
    from stream_app.record_columns import OutputRecords


class Reprocessing:
    """The records of a script, processed again one by one.

    Args:
        request: The task.
        state: The state of the loaded snapshot, or of a new task; each record moves it.
        clock: A monotonic clock, to measure the cost of processing.
        report: Counts the records that are processed again.
        engine: The version that wrote the snapshot; "unknown" without a snapshot.

    Attributes:
        kept: By output topic, the outputs that `next` was asked to keep, in order.
    """

    def __init__(
        self, request: TaskRequest, state: RestoredState, clock: Clock, report: RestoreReport, engine: str
    ) -> None:
        self.kept: dict[str, list[OutputRecords]] = {topic: [] for topic in OUTPUT_TOPICS}
        self._inputs = request.inputs
        self._number = request.number
        self._state = state
        self._position = state.position
        self._clock = clock
        self._report = report
        self._engine = engine
        self._whole_acts = WholeActs()

    @property
    def fetched_to(self) -> str:
        """The input offsets up to which records were fetched; part of an error."""
        return "/".join(
            str(max(records.fetched_to, offset))
            for records, offset in zip(self._state.waiting, self._position.offsets, strict=True)
        )

    def next(self, script: deque[Recorded], missing: Mapping[str, frozenset[int]]) -> bool:
        """Process the next record of the script again, and remove it.

        Args:
            script: Records of progress, in order.
            missing: By output topic, the sequences of the commits whose outputs are to be kept.

        Returns:
            Whether it was processed; False until its inputs have been fetched.

        Raises:
            StateError: The digest differs, or this version cannot process the record.
        """
        record, progress_offset = script[0]
        if isinstance(record, Act):
            self._act(record)
        elif not self._commit(record, progress_offset, missing):
            return False
        script.popleft()
        return True

    def _act(self, act: Act) -> None:
        position, state = self._position, self._state
        try:
            whole = self._whole_acts.add(act)
            if whole is not None and whole.kind == STOP:
                state.breaker.forget(Stop.from_text(whole.text).stream)
            if whole is not None:
                state.task.apply(whole)
        except StateError as problem:
            raise problem.within(f"progress[{self._number}] sequence {act.sequence}") from problem
        position.has_changed |= act.kind not in (REPAIR, SNAPSHOT)
        self._engine = act.engine
        digest = Gap.from_text(act.text).digest if act.kind == SKIP else position.point.digest
        position.point = CommitPoint(max(act.sequence, position.point.sequence), digest)

    def _commit(self, commit: Commit, progress_offset: int, missing: Mapping[str, frozenset[int]]) -> bool:
        position, state = self._position, self._state
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        where = f"task {self._number}, sequence {commit.sequence}"
        problem = other_rules(commit.rules, commit.sequence, self._engine)
        if problem is not None:
            raise StateError(f"task {self._number}: {problem}", ErrorCode.OTHER_VERSION)
        if (ranges[0], ranges[2]) != position.offsets:
            raise StateError(
                f"{where}: its ranges start at {ranges[0]}/{ranges[2]}, but {pair(position.offsets)} are next"
            )
        examples, labels = (
            0 if start == end else waiting.rows_below(end)
            for waiting, start, end in zip(state.waiting, ranges[::2], ranges[1::2], strict=True)
        )
        if examples is None or labels is None:
            return False
        start_s = self._clock.monotonic_s()
        inputs = state.waiting[0].take(examples), state.waiting[1].take(labels)
        outputs = state.task.step(*inputs)
        digest = chain_digest(position.point.digest, ranges, outputs)
        now_s = self._clock.monotonic_s()
        state.snapshots.worked(now_s - start_s, inputs, now_s)
        if digest != commit.digest:
            raise StateError(
                f"{where}: re-processing up to offsets {ranges[1]}/{ranges[3]} gave digest {digest.hex()[:16]}, "
                f"but areba {self._engine} committed {commit.digest.hex()[:16]}; this is areba {__version__}. "
                "Continue with that version, or use another application.id to start from the beginning",
                ErrorCode.DIGEST_DIFFERS,
            )
        for topic, sequences in missing.items():
            if commit.sequence in sequences:
                self.kept[topic].append(outputs.topics[topic])
        ends = commit.examples_end, commit.labels_end
        position.move_to(Anchor(commit.sequence, digest, ends, progress_offset))
        self._report.reprocessed_records += examples + labels
        if outputs.erased:
            state.snapshots.purge()
        state.breaker.count(outputs.judged, outputs.stream_names)
        return True
