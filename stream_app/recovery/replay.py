"""Process recorded batches again, without publishing anything, and compare the digest after each of them."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stream_app import __version__
from stream_app.backends.base import Clock, pair
from stream_app.errors import ErrorCode, StateError
from stream_app.pipeline.outputs import OUTPUT_TOPICS, chain_digest
from stream_app.records import RESUME, SKIP, Act, Commit, Side
from stream_app.recovery.commit_point import HINT_SKIP, Anchor, CommitPoint
from stream_app.recovery.restore_request import RestoredState, RestoreReport, RestoreRequest
from stream_app.recovery.settle import Recorded
from stream_app.snapshot.identity import other_rules
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import read_gap

if TYPE_CHECKING:
    from stream_app.record_columns import OutputRecords


class Replay:
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
        self, request: RestoreRequest, state: RestoredState, clock: Clock, report: RestoreReport, engine: str
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
            str(max(records.last_offset + 1, offset))
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
            StateError: An input is gone, the digest differs, or this version cannot process the record.
        """
        record, progress_offset = script[0]
        if isinstance(record, Act):
            self._replay_act(record)
        elif not self._replay_commit(record, progress_offset, missing):
            return False
        script.popleft()
        return True

    def _replay_act(self, act: Act) -> None:
        position, state = self._position, self._state
        if act.kind == RESUME:
            state.breaker.reset()
            position.tripped = None
        try:
            whole = self._whole_acts.add(act)
            if whole is not None and state.task.apply(whole):
                state.snapshots.forget_older()
        except StateError as problem:
            raise problem.within(f"progress[{self._number}] sequence {act.sequence}") from problem
        self._engine = act.engine
        digest = read_gap(act.text).digest if act.kind == SKIP else position.point.digest
        position.point = CommitPoint(max(act.sequence, position.point.sequence), digest)

    def _replay_commit(self, commit: Commit, progress_offset: int, missing: Mapping[str, frozenset[int]]) -> bool:
        position, state = self._position, self._state
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        where = f"task {self._number}, sequence {commit.sequence}"
        problem = other_rules(commit.rules, commit.sequence, self._engine)
        if problem is not None:
            raise StateError(f"task {self._number}: {problem}", ErrorCode.OTHER_RULES)
        if (ranges[0], ranges[2]) != position.offsets:
            raise StateError(
                f"{where}: its ranges start at {ranges[0]}/{ranges[2]}, but {pair(position.offsets)} are next"
            )
        examples = self._rows_of_range(Side.EXAMPLES, *ranges[:2])
        labels = self._rows_of_range(Side.LABELS, *ranges[2:])
        if examples is None or labels is None:
            return False
        start_s = self._clock.monotonic_s()
        outputs = state.task.step(state.waiting[0].take(examples), state.waiting[1].take(labels))
        digest = chain_digest(position.point.digest, ranges, outputs)
        state.snapshots.worked(self._clock.monotonic_s() - start_s)
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
        position.point = CommitPoint(commit.sequence, digest)
        position.offsets = (commit.examples_end, commit.labels_end)
        position.anchor = Anchor(commit.sequence, digest, position.offsets, progress_offset)
        position.tripped = commit.tripped
        self._report.replayed_records += examples + labels
        state.breaker.count(outputs.unreadable)
        return True

    def _rows_of_range(self, side: Side, start: int, end: int) -> int | None:
        """Return how many waiting records a range takes; None until the last of them has been fetched."""
        if start == end:
            return 0
        try:
            return self._state.waiting[side].rows_below(end)
        except LookupError:
            topic = self._inputs[side].topic
            raise StateError(
                f"{topic}[{self._number}] offset {end - 1} was deleted, but is needed to restore the task. {HINT_SKIP}",
                ErrorCode.INPUTS_DELETED,
            ) from None
