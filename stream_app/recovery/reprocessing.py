"""Process recorded batches again, without publishing anything, and compare the digest after each of them.

Batches that follow one another are processed at once: an application with few records commits many small batches, of
which each would take a millisecond, whatever it holds.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stream_app import __version__
from stream_app.backends.base import Clock, pair
from stream_app.backends.progress import Recorded
from stream_app.errors import ErrorCode, StateError
from stream_app.live.position import Anchor, CommitPoint
from stream_app.live.restored_state import RestoredState
from stream_app.live.task_request import TaskRequest
from stream_app.pipeline.output_parts import parts_of
from stream_app.pipeline.outputs import OUTPUT_TOPICS, Outputs, chain_digest
from stream_app.progress_records import REPAIR, SKIP, SNAPSHOT, STOP, Act, Commit
from stream_app.recovery.restore_request import RestoreReport
from stream_app.snapshot.identity import other_rules
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import Gap
from stream_app.snapshot.stops import Stop

if TYPE_CHECKING:
    from stream_app.record_columns import OutputRecords

MAX_RECORDS = 2_000
"""Input records from which on no further batch is processed at once with those before: some milliseconds of work."""


class _Batch(NamedTuple):
    """A recorded batch: its commit, the offset of the commit in progress, and the waiting rows before which it ends."""

    commit: Commit
    progress_offset: int
    rows: tuple[int, int]


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
        """Process the next records of the script again, and remove them: an act, or commits that follow one another.

        Args:
            script: Records of progress, in order.
            missing: By output topic, the sequences of the commits whose outputs are to be kept.

        Returns:
            Whether any was processed; False until the inputs of the next commit have been fetched.

        Raises:
            StateError: The digest differs, or this version cannot process the record.
        """
        record = script[0].record
        if isinstance(record, Act):
            self._act(record)
            script.popleft()
            return True
        batches = self._fetched_batches(script)
        if batches:
            self._process(batches, missing)
        for _ in batches:
            script.popleft()
        return bool(batches)

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

    def _fetched_batches(self, script: deque[Recorded]) -> Sequence[_Batch]:
        """Return the next commits whose inputs have been fetched, up to `MAX_RECORDS` input records together.

        Raises:
            StateError: The first record of the script is a commit that cannot be processed.
        """
        found: list[_Batch] = []
        offsets, rows = self._position.offsets, (0, 0)
        for commit, progress_offset in script:
            if isinstance(commit, Act) or sum(rows) >= MAX_RECORDS:
                break
            problem = self._problem(commit, offsets)
            if problem is not None and not found:
                raise problem
            ends = commit.examples_end, commit.labels_end
            examples, labels = (
                before if start == end else waiting.rows_below(end)  # where nothing was taken, nothing may come
                for waiting, start, end, before in zip(self._state.waiting, offsets, ends, rows, strict=True)
            )
            if problem is not None or examples is None or labels is None:
                break
            offsets, rows = ends, (examples, labels)
            found.append(_Batch(commit, progress_offset, rows))
        return found

    def _problem(self, commit: Commit, offsets: tuple[int, int]) -> StateError | None:
        """Return why a commit cannot be processed after these input offsets; None if it can."""
        problem = other_rules(commit.rules, commit.sequence, self._engine)
        if problem is not None:
            return StateError(f"task {self._number}: {problem}", ErrorCode.OTHER_VERSION)
        starts = commit.examples_start, commit.labels_start
        if starts != offsets:
            where = f"task {self._number}, sequence {commit.sequence}"
            return StateError(f"{where}: its ranges start at {pair(starts)}, but {pair(offsets)} are next")
        return None

    def _process(self, batches: Sequence[_Batch], missing: Mapping[str, frozenset[int]]) -> None:
        """Process batches again, and compare the digest of each.

        Raises:
            StateError: A digest differs.
        """
        state, start_s = self._state, self._clock.monotonic_s()
        ends = np.array([batch.rows for batch in batches])
        examples, labels = ends[-1].tolist()
        inputs = state.waiting[0].take(examples), state.waiting[1].take(labels)
        outputs = state.task.step(*inputs, ends=ends)
        for (commit, progress_offset, _), part in zip(batches, parts_of(outputs, ends), strict=True):
            digest = self._checked_digest(commit, part)
            for topic, sequences in missing.items():
                if commit.sequence in sequences:
                    self.kept[topic].append(part.topics[topic])
            offsets = commit.examples_end, commit.labels_end
            self._position.move_to(Anchor(commit.sequence, digest, offsets, progress_offset))
        now_s = self._clock.monotonic_s()
        state.snapshots.worked(now_s - start_s, inputs, now_s)
        self._report.reprocessed_records += examples + labels
        if outputs.erased:
            state.snapshots.purge()
        state.breaker.count(outputs.judged, outputs.stream_names)

    def _checked_digest(self, commit: Commit, outputs: Outputs) -> bytes:
        """Return the digest of a commit.

        Raises:
            StateError: It is another digest than the recorded one.
        """
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        digest = chain_digest(self._position.point.digest, ranges, outputs)
        if digest != commit.digest:
            raise StateError(
                f"task {self._number}, sequence {commit.sequence}: re-processing up to offsets {ranges[1]}/{ranges[3]} "
                f"gave digest {digest.hex()[:16]}, but areba {self._engine} committed {commit.digest.hex()[:16]}; this "
                f"is areba {__version__}. Continue with that version, or use another application.id to start from the "
                "beginning",
                ErrorCode.DIGEST_DIFFERS,
            )
        return digest
