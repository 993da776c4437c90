"""Check one task: progress, outputs, metrics, dead letters that were sent back and, if asked for, a fresh run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from stream_app.backends.base import Cluster, Committed, TopicPartition
from stream_app.backends.reading import Row
from stream_app.config import Config
from stream_app.errors import StateError
from stream_app.records import REPAIR, RESET, Act, Commit, Outcome, Prediction, Side
from stream_app.serialization.dead_letter import read_replay, read_sent_back
from stream_app.snapshot.identity import RULES
from stream_app.verify.audit import PartitionAudit
from stream_app.verify.manifest_check import ManifestCheck
from stream_app.verify.metrics_topic import MetricsTopicCheck
from stream_app.verify.output_checks import Names
from stream_app.verify.progress_check import ProgressCheck, Step
from stream_app.verify.reference_state import Record
from stream_app.verify.results import Code, Figures, Findings, Scope
from stream_app.verify.topic_reader import Inputs, PartitionReader

if TYPE_CHECKING:
    from stream_app.verify.second_run.checkpoint import Ended
    from stream_app.verify.second_run.rerun import Rerun
    from stream_app.verify.second_run.start import Start


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

    figures: Mapping[str, Figures]
    notes: Sequence[str]
    scope: Scope
    commits: int = 0
    records: int = 0
    models: str | None = None
    ended: "Ended | None" = None


@dataclass
class SentBack:
    """Dead letters that were sent back to their input, against the records of the replay tool that say so."""

    topic: str
    partition: int
    findings: Findings
    marks: dict[int, int] = field(default_factory=dict)  # by dead letter, the record that says it was sent back
    inputs: dict[int, tuple[str, int]] = field(default_factory=dict)  # by dead letter, the input record

    def observe_input(self, topic: str, end: int) -> Callable[[Record], None]:
        """Return what takes the records of an input, of which those below `end` are processed."""

        def observe(record: Record) -> None:
            replay = read_replay(record.headers)
            if replay is None or record.offset >= end:
                return
            if (replay.topic, replay.partition) != (self.topic, self.partition):
                return  # a dead letter of another application
            where = f"{replay.topic}[{replay.partition}] offset {replay.offset}"
            before = self.inputs.setdefault(replay.offset, (topic, record.offset))
            if before != (topic, record.offset):
                first = f"{before[0]}[{self.partition}] offset {before[1]}"
                text = f"is the dead letter {where}, sent back a second time: {first} was it"
                self.findings.add(Code.SENT_BACK_TWICE, topic, self.partition, record.offset, text)

        return observe

    def observe_mark(self, row: Row) -> None:
        """Take a record of the dead-letters topic that a replay wrote."""
        letter = read_sent_back(row.headers)
        if letter is None:
            return
        before = self.marks.setdefault(letter, row.offset)
        if before != row.offset:
            text = f"says that offset {letter} was sent back, as offset {before} does"
            self.findings.add(Code.SENT_BACK_TWICE, self.topic, self.partition, row.offset, text)

    def finish(self) -> Iterator[str]:
        """Add a finding for every dead letter that was sent back unmarked; yield a note for those not yet processed."""
        where = f"{self.topic}[{self.partition}]"
        for letter, (topic, offset) in self.inputs.items():
            if letter not in self.marks:
                text = f"is the dead letter {where} offset {letter}, but no record there says that it was sent back"
                self.findings.add(Code.SENT_BACK_UNMARKED, topic, self.partition, offset, text)
        if newer := len(self.marks.keys() - self.inputs.keys()):
            yield f"{where}: {newer:,} dead letters that were sent back are not yet processed again"


class PartitionCheck:
    """The check of one task.

    Args:
        cluster: Where the topics are.
        config: The configuration of the application.
        partition: Number of the task.
        findings: Where findings are added.
        manifests: What replayers sent.
        wanted_models: Digest of the final models that a worker logged; only a fresh run compares it.
        rerun: Whether to run all stages again.
        checkpoint: Where an earlier run ended; None to begin with the oldest state that is left.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        partition: int,
        findings: Findings,
        manifests: Sequence[ManifestCheck],
        *,
        wanted_models: str | None,
        rerun: bool,
        checkpoint: "Ended | None" = None,
    ) -> None:
        topics = config.topics
        self._checkpoint = checkpoint
        self._cluster = cluster
        self._config = config
        self._partition = partition
        self._findings = findings
        self._manifests = manifests
        self._wanted_models = wanted_models
        self._reruns = rerun
        self._names = Names((topics.examples, topics.labels), topics.predictions, topics.outcomes, topics.dead_letters)
        self._progress = topics.progress
        self._notes: list[str] = []
        self._reset: set[str] = set()
        self._commits = 0
        self._promised = 0
        self._has_other_rules = False
        self._has_gap = False
        self._is_complete = True  # no input is gone

    def run(self) -> Checked:
        """Read and check everything."""
        with ExitStack() as stack:
            reader = PartitionReader(
                self._cluster, self._partition, self._findings, stack, self._config.task_settings()
            )
            committed = self._committed()
            if self._has_passed(reader):
                return self._unchecked(reader, committed)
            start = self._start(reader, committed)
            if start is not None:
                return self._continue(reader, start, committed)
            if self._is_trimmed(reader):
                return self._unchecked(reader, committed)
            return self._run(reader, committed)

    def _run(self, reader: PartitionReader, committed: tuple[Committed | None, Committed | None]) -> Checked:
        progress = ProgressCheck(self._progress, self._names.inputs, self._partition, committed, self._findings)
        sent_back = SentBack(self._names.dead_letters, self._partition, self._findings)
        audit = PartitionAudit(
            self._partition,
            names=self._names,
            settings=self._config.task_settings(),
            predictions=reader.outputs(self._names.predictions, Prediction),
            outcomes=reader.outputs(self._names.outcomes, Outcome),
            dead_letters=reader.dead_letters(self._names.dead_letters, sent_back.observe_mark),
            findings=self._findings,
        )
        rerun = self._open_rerun(reader) if self._reruns else None
        inputs = [self._inputs(reader, side, progress.ends[side], sent_back) for side in Side]
        self._is_complete = not any(
            end and reader.watermarks(name).low for name, end in zip(self._names.inputs, progress.ends, strict=True)
        )
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
        metrics = MetricsTopicCheck(self._config, self._partition, self._findings)
        dropped = audit.dropped_learners()
        self._notes += metrics.read(reader, frozenset(self._reset), dropped, is_counted=not self._has_gap)
        running = self._committed() != committed
        figures = audit.finish(running=running) if self._is_complete else {}
        if running:
            self._notes.append(f"partition {self._partition}: the group is at work; newer outputs were left alone")
        elif self._is_complete:
            metrics.finish(figures)
            self._check_count(reader)
            self._notes += sent_back.finish()
        models = ended = None
        if rerun is not None:
            rerun.finish(running=running)
            models = self._take_models(rerun.models(), rerun.stopped)
            ended = self._ended(rerun)
        for source in inputs:
            source.read_rest(audit.settings)
        end = progress.ends if self._is_complete else (0, 0)
        scope = Scope((0, 0), (0, 0), end, progress.ends, self._lows(reader))
        return Checked(figures, self._notes, scope, self._commits, reader.written.total(), models, ended)

    # From a state on --------------------------------------------------------------------------------------------------

    def _lows(self, reader: PartitionReader) -> tuple[int, int]:
        """Return the first offsets that are left of the inputs."""
        return reader.watermarks(self._names.inputs[0]).low, reader.watermarks(self._names.inputs[1]).low

    def _has_passed(self, reader: PartitionReader) -> bool:
        """Say whether records after the checkpoint are gone; that is then the only finding of the partition."""
        if self._checkpoint is None:
            return False
        position = self._checkpoint.position
        topics = (self._progress, *self._names.inputs)
        for topic, next_ in zip(topics, (position.progress_offset + 1, *position.manifest.offsets), strict=True):
            low = reader.watermarks(topic).low
            if low > next_:
                text = (
                    f"starts at offset {low}, the checkpoint ended at {next_}: the records between were never checked; "
                    "this partition was not checked"
                )
                self._add(Code.DELETED_RECORDS, topic, None, text)
                return True
        return False

    def _start(self, reader: PartitionReader, committed: tuple[Committed | None, Committed | None]) -> "Start | None":
        """Return the state from which the check begins; None to begin with the first record."""
        lows = (reader.watermarks(self._progress).low, *self._lows(reader))
        if self._checkpoint is None and (not self._reruns or not any(lows) or self._manifests):
            return None
        from stream_app.verify.second_run.start import at_checkpoint, at_oldest_snapshot  # noqa: PLC0415  (see _open_rerun)

        if self._checkpoint is not None:
            return at_checkpoint(self._checkpoint, self._names.inputs, f"checkpoint of partition {self._partition}")
        changelog = TopicPartition(self._config.topics.changelog, self._partition)
        metadata = committed[0].metadata if committed[0] else ""
        return at_oldest_snapshot(self._cluster, changelog, self._names.inputs, metadata, lows)

    def _continue(
        self, reader: PartitionReader, start: "Start", committed: tuple[Committed | None, Committed | None]
    ) -> Checked:
        """Check everything after a state."""
        from stream_app.verify.second_run.continued_check import ContinuedCheck  # noqa: PLC0415  (see _open_rerun)

        check = ContinuedCheck(self._config, self._partition, start, reader, self._findings)
        found = check.run(committed, lambda: self._committed() != committed)
        kind = "checkpoint" if start.is_checkpoint else "oldest snapshot that is left"
        place = f"offsets {start.ends[0]:,}/{start.ends[1]:,} of examples/labels"
        text = f"began at the {kind}, {place}; all stages were run from there, and each output was compared"
        self._notes.append(f"partition {self._partition}: {text}")
        models = self._take_models(found.models, found.stopped)
        ends = (committed[0].offset if committed[0] else 0, committed[1].offset if committed[1] else 0)
        scope = Scope(start.since, start.ends, found.end, ends, self._lows(reader))
        return Checked({}, self._notes, scope, found.commits, found.records, models, found.ended)

    def _unchecked(self, reader: PartitionReader, committed: tuple[Committed | None, Committed | None]) -> Checked:
        """Return what is known of a partition that was not checked."""
        ends = (committed[0].offset if committed[0] else 0, committed[1].offset if committed[1] else 0)
        return Checked({}, self._notes, Scope(ends, ends, ends, ends, self._lows(reader)))

    def _ended(self, rerun: "Rerun") -> "Ended | None":
        """Return what a checkpoint holds of a run that began with the first record."""
        from stream_app.verify.second_run.checkpoint import ended  # noqa: PLC0415  (see _open_rerun)

        state = rerun.state()
        return None if state is None else ended(self._partition, state, (0, 0), rerun.output_ends())

    def _is_trimmed(self, reader: PartitionReader) -> bool:
        """Say whether the beginning of progress is gone; that is then the only finding of the partition."""
        low, *lows = [reader.watermarks(topic).low for topic in (self._progress, *self._names.inputs)]
        if low:
            inputs = " and ".join(f"{name} at {first}" for name, first in zip(self._names.inputs, lows, strict=True))
            text = (
                f"starts at offset {low}, {inputs}: the audit needs every record, older records are gone (retention); "
                "this partition was not checked"
            )
            self._add(Code.DELETED_RECORDS, self._progress, None, text)
        return bool(low)

    def _committed(self) -> tuple[Committed | None, Committed | None]:
        """Return the committed offsets of both inputs."""
        pair = [TopicPartition(name, self._partition) for name in self._names.inputs]
        found = self._cluster.committed(self._config.group_id, pair)
        return found.get(pair[0]), found.get(pair[1])

    # Progress ---------------------------------------------------------------------------------------------------------

    def _take(self, step: Step, audit: PartitionAudit, inputs: Sequence[Inputs]) -> None:
        """Let the audit follow one commit or act."""
        record = step.record
        if isinstance(record, Commit):
            self._commits += 1
            self._promised += record.records
            self._note_rules(step.offset, record)
            self._take_range(audit, inputs, (record.examples_end, record.labels_end))
            return
        where = f"{self._progress}[{self._partition}] offset {step.offset}"
        try:
            if step.gap is not None:
                self._has_gap, self._is_complete = True, False
                text = f"inputs are gone, and an operator accepted it: the task continues {step.gap.words()}"
                self._notes.append(f"{where}: {text}; outputs and metrics of the task were not checked")
            audit.apply(record)
        except StateError as problem:
            self._add(Code.INVALID_ACT, self._progress, step.offset, str(problem))
        if record.kind == RESET:
            self._reset.add(record.text)
            text = f"stream {record.text!r} was reset: its metrics were not counted again; a fresh run compares them"
            self._notes.append(f"{where}: {text}")
        elif record.kind == REPAIR:
            self._notes.append(f"{where}: outputs whose commit markers were lost were published again")

    def _take_range(self, audit: PartitionAudit, inputs: Sequence[Inputs], ends: tuple[int, int]) -> None:
        """Compare the outputs of one range, unless inputs are gone: then the correct outputs cannot be known."""
        examples, labels = (source.below(end, audit.settings) for source, end in zip(inputs, ends, strict=True))
        if self._is_complete:
            audit.take(examples, labels)
        else:
            for _ in chain(examples, labels):
                pass  # the observers see them

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

    def _inputs(self, reader: PartitionReader, side: Side, end: int, sent_back: SentBack) -> Inputs:
        """Open an input, up to the last record that is committed or that a manifest names."""
        topic = self._names.inputs[side]
        manifests = [manifest for manifest in self._manifests if manifest.end(topic, self._partition)]
        last = max([end, *(manifest.end(topic, self._partition) for manifest in manifests)])
        if last > end:
            text = f"{topic}[{self._partition}]: {last - end:,} records of the manifests are not yet processed"
            self._notes.append(text)
        counters = [manifest.counter(topic, self._partition, side) for manifest in manifests]
        return Inputs(side, reader.inputs(topic, last), [sent_back.observe_input(topic, end), *counters])

    # A fresh run ------------------------------------------------------------------------------------------------------

    def _open_rerun(self, reader: PartitionReader) -> "Rerun":
        from stream_app.verify.second_run.partition_rows import open_rerun  # noqa: PLC0415  (Torch takes seconds to import)

        return open_rerun(reader, self._config, self._partition, self._findings)

    def _take_models(self, models: str | None, stopped: str | None) -> str | None:
        """Compare the digest of the final models, and return it; note why a run ended early."""
        if stopped is not None:
            self._notes.append(f"partition {self._partition}: was not run again to its end: {stopped}")
        if models is not None and self._wanted_models not in (None, models):
            text = f"the final models have digest {self._wanted_models}, those of a fresh run {models}"
            self._add(Code.WRONG_MODELS, self._progress, None, text)
        return models

    def _add(self, code: Code, topic: str, offset: int | None, text: str) -> None:
        self._findings.add(code, topic, self._partition, offset, text)
