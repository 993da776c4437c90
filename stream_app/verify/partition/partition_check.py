"""Check one task: progress, outputs, metrics, dead letters that were sent back and, if asked for, a fresh run."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import NamedTuple

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.config import Config
from stream_app.errors import StateError
from stream_app.progress_records import ARRIVAL, CONFIGURATION, REPAIR, RESET, Act, Commit
from stream_app.records import Metric, Outcome, Prediction, Side
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.moved_stream import MovedStream
from stream_app.snapshot.stops import stopped_text
from stream_app.verify.audit import NOTHING_DELETED, PartitionAudit
from stream_app.verify.metrics.topic_check import MetricsTopicCheck
from stream_app.verify.moved_streams import MovedStreams
from stream_app.verify.partition.deleted import DeletedRecords, Fate, Horizon
from stream_app.verify.partition.newer_commits import NewerCommits
from stream_app.verify.partition.sent_back import SentBack
from stream_app.verify.progress_check import ProgressCheck, ProgressStep, ends_of
from stream_app.verify.results import Code, Findings, Scope, StreamTotals
from stream_app.verify.second_run.checkpoint import Ended
from stream_app.verify.second_run.continued_check import check_ends, progress_after
from stream_app.verify.second_run.rerun import Rerun
from stream_app.verify.second_run.start import Start, at_checkpoint, at_oldest_snapshot
from stream_app.verify.topic_reader import InputReader, PartitionReader


class Checked(NamedTuple):
    """What was found in one partition, apart from the findings.

    Attributes:
        figures: Counts by stream.
        notes: What was not checked, and why.
        scope: Which inputs were checked.
        commits: Number of commit records.
        records: Number of output records.
        models: Digest of all models after a fresh run.
        ended: What a checkpoint holds; None where no fresh run came to its end.
    """

    figures: Mapping[str, StreamTotals]
    notes: Sequence[str]
    scope: Scope
    commits: int = 0
    records: int = 0
    models: str | None = None
    ended: Ended | None = None


class How(NamedTuple):
    """How a partition is checked.

    Attributes:
        rerun: Whether to run all stages again.
        wanted_models: Digest of the final models that a worker logged; only a fresh run compares it.
        checkpoint: Where an earlier run ended; None to begin with the oldest state that is left.
        accepts_deleted: Whether records that were deleted are a note, and no finding.
    """

    rerun: bool
    wanted_models: str | None = None
    checkpoint: Ended | None = None
    accepts_deleted: bool = False


class PartitionCheck:
    """The check of one task."""

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        partition: int,
        findings: Findings,
        how: How,
        moved: MovedStreams,
    ) -> None:
        self._moved = moved
        topics = config.topics
        self._how = how
        self._cluster = cluster
        self._config = config
        self._partition = partition
        self._findings = findings
        self._names = topics
        self._progress = topics.progress
        self._notes: list[str] = []
        self._deleted = DeletedRecords(partition, topics, findings, self._notes, is_accepted=how.accepts_deleted)
        self._commits = 0
        self._promised = 0
        self._has_other_rules = False
        self._has_gap = False
        self._is_complete = True  # no input that was processed is gone
        self._configurations = self._resets = 0
        self._horizons: Mapping[str, Horizon] = {}

    def run(self) -> Checked:
        """Read and check everything."""
        with ExitStack() as stack:
            settings = self._config.task_settings()
            reader = PartitionReader(self._cluster, self._partition, self._findings, stack, settings)
            with self._deleted.watching(lambda topic: reader.watermarks(topic).low):
                return self._check(reader)

    def _check(self, reader: PartitionReader) -> Checked:
        last = reader.last_commit(self._progress)
        if self._how.checkpoint is not None and self._deleted.has_passed(self._how.checkpoint.position):
            return self._unchecked(reader, last)
        first = reader.first_commit(self._progress)
        begin = (first.examples_start, first.labels_start) if first else (0, 0)
        start = self._start(reader, begin)
        if start is not None:
            return self._continue(reader, start, last)
        if self._deleted.is_trimmed():
            return self._unchecked(reader, last)
        return self._run(reader, begin, last)

    def _run(self, reader: PartitionReader, begin: tuple[int, int], last: Commit | None) -> Checked:
        lows = self._lows(reader)
        self._is_complete = all(low <= first for low, first in zip(lows, begin, strict=True))
        self._horizons, lacks_outputs = reader.horizons(self._names)
        progress = ProgressCheck(self._progress, self._names.inputs, self._partition, last, self._findings)
        low = reader.watermarks(self._names.dead_letters).low
        sent_back = SentBack(self._names.dead_letters, self._partition, self._findings, low)
        audit = PartitionAudit(
            self._partition,
            names=self._names,
            settings=self._config.task_settings(),
            predictions=reader.outputs(self._names.predictions, Prediction),
            outcomes=reader.outputs(self._names.outcomes, Outcome),
            dead_letters=reader.dead_letters(self._names.dead_letters, sent_back.observe_mark),
            findings=self._findings,
        )
        rerun = None
        if self._how.rerun and self._is_complete:
            rerun = Rerun(reader, self._names, self._partition, self._findings, begin, self._horizons, self._moved)
        inputs = [self._inputs(reader, side, progress.ends[side], sent_back) for side in Side]
        records = (
            (row.offset, record)
            for row, record in reader.decoded(self._progress, (Commit, Act))
            if isinstance(record, Commit | Act)  # for the type checker
        )
        for step in progress.steps(records):
            self._take(step, audit, inputs)
            if isinstance(step.record, Act):
                reader.learn(audit.settings)
            if rerun is not None:
                rerun.take(step.offset, step.record)
        self._take_range(audit, inputs, progress.ends)
        metrics = self._read_metrics(reader, audit, lacks_outputs=lacks_outputs)
        newer = NewerCommits(last, lambda: reader.last_commit(self._progress))
        self._deleted.report_inputs(lows, begin, progress.ends, 0 if self._has_gap else self._commits)
        if lacks_outputs and self._is_complete:
            self._deleted.report_outputs(self._horizons.values())
        figures = audit.finish(newer.explain_output, is_whole=not lacks_outputs) if self._is_complete else {}
        models = ended = None
        if rerun is not None:
            rerun.finish(newer.explain_output)
            models, ended = self._take_models(rerun), rerun.ended()
        is_running = newer.exist()
        self._notes += audit.notes()
        self._hand_over(audit, is_running=is_running)
        if is_running:
            self._notes.append(f"partition {self._partition}: the group is at work; newer outputs were left alone")
        elif self._is_complete:
            if not lacks_outputs:
                metrics.finish(figures)
                self._check_count(reader)
            self._notes += sent_back.finish(audit.moved_letters)
        scope = self._scope(begin, progress.ends, lows)
        return Checked(figures, self._notes, scope, self._commits, reader.written.total(), models, ended)

    def _read_metrics(
        self, reader: PartitionReader, audit: PartitionAudit, *, lacks_outputs: bool
    ) -> MetricsTopicCheck:
        """Check the metrics, unless it is unknown between which of them figures began again.

        Where inputs are gone, nobody knows which streams a reset or another configuration has met.
        """
        began_again = self._resets or self._configurations > 1
        metrics = MetricsTopicCheck(self._config, self._partition, self._findings, audit.arrived)
        if not lacks_outputs and not self._has_gap and (self._is_complete or not began_again):
            self._notes += metrics.read(
                reader, audit.restarts, audit.corrections, audit.costs if self._is_complete else None
            )
        else:
            for _ in reader.outputs(self._config.topics.metrics, Metric):
                pass  # a value that cannot be read is a finding in any case
        return metrics

    def _scope(self, begin: tuple[int, int], ends: tuple[int, int], lows: tuple[int, int]) -> Scope:
        """Return which inputs were checked."""
        if not any(ends):  # nothing was committed, and what was deleted was never checked
            return Scope(lows, lows, lows, lows, lows)
        return Scope(begin, begin, ends if self._is_complete else begin, ends, lows)

    # From a state on --------------------------------------------------------------------------------------------------

    def _lows(self, reader: PartitionReader) -> tuple[int, int]:
        """Return the first offsets that are left of the inputs."""
        return reader.watermarks(self._names.inputs[0]).low, reader.watermarks(self._names.inputs[1]).low

    def _start(self, reader: PartitionReader, begin: tuple[int, int]) -> Start | None:
        """Return the state from which the check begins; None to begin with the first record that was processed."""
        lows = (reader.watermarks(self._progress).low, *self._lows(reader))
        is_whole = all(low <= first for low, first in zip(lows, (0, *begin), strict=True))
        if self._how.checkpoint is None and (not self._how.rerun or is_whole):
            return None
        if self._how.checkpoint is not None:
            return at_checkpoint(self._how.checkpoint, self._names.inputs, f"checkpoint of partition {self._partition}")
        changelog = TopicPartition(self._config.topics.changelog, self._partition)
        snapshots = reader.snapshots(self._progress)
        return at_oldest_snapshot(self._cluster, changelog, self._names.inputs, snapshots, lows)

    def _continue(self, reader: PartitionReader, start: Start, last: Commit | None) -> Checked:
        """Check everything after a state."""
        where = (reader, self._names, self._partition)
        horizons, lacks_outputs = reader.horizons(self._names, start.progress_offset)
        progress = ProgressCheck(
            self._progress, self._names.inputs, self._partition, last, self._findings, start.commit
        )
        rerun = Rerun(*where, self._findings, start, horizons, self._moved)
        records = progress_after(reader, self._progress, self._partition, start, self._findings)
        for step in progress.steps(records):
            if isinstance(step.record, Commit):
                self._commits += 1
                self._promised += step.record.records
            rerun.take(step.offset, step.record)
        check_ends(*where, progress.ends, self._findings)
        rerun.finish(NewerCommits(last, lambda: reader.last_commit(self._progress)).explain_output)
        if lacks_outputs:
            self._deleted.report_outputs(horizons.values())
        kind = "checkpoint" if start.is_checkpoint else "oldest snapshot that is left, since inputs were deleted"
        place = f"offsets {start.ends[0]:,}/{start.ends[1]:,} of examples/labels"
        text = f"began at the {kind}, {place}; all stages were run from there, and each output was compared"
        self._notes.append(f"partition {self._partition}: {text}")
        end = progress.ends if rerun.stopped is None else start.ends
        scope = Scope(start.since, start.ends, end, progress.ends, self._lows(reader))
        models = self._take_models(rerun)
        return Checked({}, self._notes, scope, self._commits, self._promised, models, rerun.ended())

    def _unchecked(self, reader: PartitionReader, last: Commit | None) -> Checked:
        """Return what is known of a partition that was not checked."""
        ends = ends_of(last)
        return Checked({}, self._notes, Scope(ends, ends, ends, ends, self._lows(reader)))

    # Progress ---------------------------------------------------------------------------------------------------------

    def _take(self, step: ProgressStep, audit: PartitionAudit, inputs: Sequence[InputReader]) -> None:
        """Let the audit follow one commit or act."""
        record = step.record
        if isinstance(record, Commit):
            self._commits += 1
            self._promised += record.records
            self._note_rules(step.offset, record)
            fates = {name: horizon.fate(record) for name, horizon in self._horizons.items()}
            self._take_range(audit, inputs, (record.examples_end, record.labels_end), fates)
            if self._is_complete:
                self._check_stopped(step.offset, record, audit.stopped)
            return
        where = f"{self._progress}[{self._partition}] offset {step.offset}"
        try:
            if step.gap is not None:
                self._has_gap, self._is_complete = True, False
                text = f"inputs are gone, and an operator accepted it: the task continues {step.gap.words()}"
                self._notes.append(f"{where}: {text}; outputs and metrics of the task were not checked")
            self._configurations += record.kind == CONFIGURATION
            self._resets += record.kind == RESET
            audit.apply(record)
            if record.kind == ARRIVAL:
                self._arrive(MovedStream.from_text(record.text).stream, audit)
        except StateError as problem:
            self._add(Code.INVALID_ACT, self._progress, step.offset, str(problem))
        if record.kind == REPAIR:
            self._notes.append(f"{where}: outputs whose commit markers were lost were published again")

    def _hand_over(self, audit: PartitionAudit, *, is_running: bool) -> None:
        """Keep what is known of the streams that have left this partition, for the check of the others."""
        departed = audit.departed()
        self._moved.names.update(departed)
        if self._is_complete and not is_running:
            self._moved.departed |= departed

    def _arrive(self, name: str, audit: PartitionAudit) -> None:
        """Let the audit continue with a stream that has left another partition."""
        departed = self._moved.departed.pop(name, None)
        if departed is not None:
            audit.arrive(departed)
        elif self._is_complete:
            self._is_complete = False
            text = f"stream {name!r} came from a partition that was not checked from its beginning; only a fresh run"
            self._notes.append(f"partition {self._partition}: {text} compares the outputs of this partition")

    def _take_range(
        self,
        audit: PartitionAudit,
        inputs: Sequence[InputReader],
        ends: tuple[int, int],
        fates: Mapping[str, Fate] = NOTHING_DELETED,
    ) -> None:
        """Compare the outputs of one range, unless inputs are gone: then the correct outputs cannot be known."""
        examples, labels = (source.below(end, audit.settings) for source, end in zip(inputs, ends, strict=True))
        if self._is_complete:
            audit.take(examples, labels, fates)
        else:
            for _ in chain(examples, labels):
                pass  # the observers see them

    def _check_stopped(self, offset: int, commit: Commit, stopped: Mapping[str, str]) -> None:
        """Compare the stopped streams that a commit record names with those of the acts and the marks so far."""
        if (commit.stopped_streams, commit.stopped) != (len(stopped), stopped_text(stopped)):
            text = (
                f"sequence {commit.sequence}: says that {commit.stopped_streams} streams are stopped "
                f"({commit.stopped}), not {len(stopped)} ({stopped_text(stopped)})"
            )
            self._add(Code.WRONG_STOPPED_STREAMS, self._progress, offset, text)

    def _note_rules(self, offset: int, commit: Commit) -> None:
        """Note once that the results follow other rules than the reference join's."""
        if commit.rules != RULES and not self._has_other_rules:
            self._has_other_rules = True
            where = f"{self._progress}[{self._partition}] offset {offset}"
            text = f"was processed under rules {commit.rules}; the audit applies rules {RULES} to it"
            self._notes.append(f"{where}: sequence {commit.sequence} {text}")

    def _check_count(self, reader: PartitionReader) -> None:
        """Compare the number of outputs with what the commit records say."""
        written = reader.written.total()
        if written != self._promised:
            parts = ", ".join(f"{topic} {count:,}" for topic, count in sorted(reader.written.items()))
            text = (
                f"the commit records tell of {self._promised:,} output records, the topics have {written:,} ({parts})"
            )
            self._add(Code.WRONG_RECORD_COUNT, self._progress, None, text)

    # Inputs -----------------------------------------------------------------------------------------------------------

    def _inputs(self, reader: PartitionReader, side: Side, end: int, sent_back: SentBack) -> InputReader:
        """Open an input, up to the last record that is committed."""
        topic = self._names.inputs[side]
        return InputReader(side, reader.inputs(topic, end), sent_back.observe_input(topic))

    # A fresh run ------------------------------------------------------------------------------------------------------

    def _take_models(self, rerun: Rerun) -> str | None:
        """Compare the digest of the final models, and return it; note why a run ended early."""
        models = rerun.models()
        if rerun.stopped is not None:
            self._notes.append(f"partition {self._partition}: was not run again to its end: {rerun.stopped}")
        if models is not None and self._how.wanted_models not in (None, models):
            text = f"the final models have digest {self._how.wanted_models}, those of a fresh run {models}"
            self._add(Code.WRONG_MODELS, self._progress, None, text)
        return models

    def _add(self, code: Code, topic: str, offset: int | None, text: str) -> None:
        self._findings.add(code, topic, self._partition, offset, text)
