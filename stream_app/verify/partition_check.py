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
from stream_app.records import REPAIR, RESET, Act, Commit, Metric, Outcome, Prediction, Side
from stream_app.serialization.dead_letter import is_of_a_replay, read_replay, read_sent_back
from stream_app.snapshot.identity import RULES
from stream_app.verify.audit import PartitionAudit
from stream_app.verify.manifest_check import ManifestCheck
from stream_app.verify.metrics_check import Recount, change_fault
from stream_app.verify.output_checks import Names
from stream_app.verify.progress_check import ProgressCheck, Step
from stream_app.verify.reference_state import Record
from stream_app.verify.results import MAX_FINDINGS, Code, Figures, Findings
from stream_app.verify.topic_reader import Inputs, PartitionReader

if TYPE_CHECKING:
    from stream_app.verify.rerun import Rerun

OUTPUT_TOPICS = ("predictions", "outcomes", "metrics", "dead-letters")
"""The topics that a fresh run writes, by the names that the task has for them."""


class Checked(NamedTuple):
    """What was found in one partition, apart from the findings.

    Attributes:
        figures: Counts by stream.
        notes: What was not checked, and why.
        commits: Number of commit records.
        records: Number of output records.
        models: Digest of all models after a fresh run.
    """

    figures: Mapping[str, Figures]
    notes: Sequence[str]
    commits: int = 0
    records: int = 0
    models: str | None = None


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


class MetricsTopicCheck:
    """The metrics topic of one task, against predictions and outcomes and against itself."""

    def __init__(self, config: Config, partition: int, findings: Findings) -> None:
        self._config = config
        self._topic = config.topics.metrics
        self._partition = partition
        self._findings = findings
        self._wrong: list[tuple[int, str]] = []
        self._last: dict[tuple[str, str], tuple[int, Metric]] = {}

    def read(self, reader: PartitionReader, reset: frozenset[str], *, is_counted: bool) -> Iterator[str]:
        """Compare each record with the one before it and with a recount; yield notes.

        Args:
            reader: Reads the topics.
            reset: Streams that were reset, which are not counted again.
            is_counted: Whether the other streams are.
        """
        topics, join = self._config.topics, self._config.join
        recount = Recount(
            self._config.metrics.fading_factor,
            reader.decodable(topics.predictions, Prediction),
            reader.decodable(topics.outcomes, Outcome),
            join.max_closed_per_stream if join.corrections == "correct" else 0,
            join.closed_ttl_ms,
        )
        for output in reader.outputs(self._topic, Metric):
            metric = output.content
            if metric.stream in reset or not is_counted:
                continue
            name = f"{metric.stream}/{metric.learner}"
            _, before = self._last.get((metric.stream, metric.learner), (-1, None))
            if before is not None and (metric.labelled, metric.examples) < (before.labelled, before.examples):
                self._add(Code.DECREASED_METRIC, output.offset, f"counts of {name} went back")
            if fault := change_fault(metric, before):
                self._add(Code.WRONG_CHANGE, output.offset, f"change of {name}: {fault}")
            if fault := recount.fault(metric):
                self._wrong.append((output.offset, f"{name}: {fault}"))
            self._last[metric.stream, metric.learner] = output.offset, metric
        if recount.unknown:
            where = f"{self._topic}[{self._partition}]"
            text = f"{recount.unknown:,} records of learners whose predictions are not published were not counted again"
            yield f"{where}: {text}"

    def finish(self, figures: Mapping[str, Figures]) -> None:
        """Add the findings of the recount, and compare the last metrics with the counts of outcomes."""
        for place, text in self._wrong[:MAX_FINDINGS]:
            self._add(Code.WRONG_METRIC, place, text)
        for (stream, learner), (offset, metric) in self._last.items():
            counts = figures.get(stream, Figures())
            for what, counted, most in (
                ("labelled", metric.labelled, counts.joined),
                ("examples", metric.examples, counts.champion_predictions),
                ("unlabelled", metric.unlabelled, counts.unlabelled),
                ("evicted", metric.evicted, counts.evicted),
                ("duplicates", metric.duplicates, counts.example_duplicates + counts.label_duplicates),
            ):
                if counted > most:
                    text = f"{what} of {stream}/{learner} is {counted:,}, the outputs have {most:,}"
                    self._add(Code.WRONG_METRIC, offset, text)

    def _add(self, code: Code, offset: int, text: str) -> None:
        self._findings.add(code, self._topic, self._partition, offset, text)


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
    ) -> None:
        topics = config.topics
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
            reader = PartitionReader(self._cluster, self._partition, self._findings, stack)
            if self._is_trimmed(reader):
                return Checked({}, self._notes)
            return self._run(reader)

    def _run(self, reader: PartitionReader) -> Checked:
        committed = self._committed()
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
            if rerun is not None:
                rerun.take(step.offset, step.record)
        self._take_range(audit, inputs, progress.ends)
        metrics = MetricsTopicCheck(self._config, self._partition, self._findings)
        self._notes += metrics.read(reader, frozenset(self._reset), is_counted=not self._has_gap)
        running = self._committed() != committed
        figures = audit.finish(running=running) if self._is_complete else {}
        if running:
            self._notes.append(f"partition {self._partition}: the group is at work; newer outputs were left alone")
        elif self._is_complete:
            metrics.finish(figures)
            self._check_count(reader)
            self._notes += sent_back.finish()
        models = self._finish_rerun(rerun, running=running) if rerun is not None else None
        for source in inputs:
            source.read_rest(audit.settings)
        return Checked(figures, self._notes, self._commits, reader.written.total(), models)

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
        """Compare the outputs of one range, unless inputs are gone: then nobody can say what they must be."""
        examples, labels = (source.below(end, audit.settings) for source, end in zip(inputs, ends, strict=True))
        if self._is_complete:
            audit.take(examples, labels)
        else:
            for _ in chain(examples, labels):
                pass  # the observers see them

    def _note_rules(self, offset: int, commit: Commit) -> None:
        """Note once that other rules decided results than those of the reference join."""
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
        from stream_app.verify.rerun import Rerun  # noqa: PLC0415  (Torch takes seconds to import; the audit needs none)

        topics = self._config.topics
        names = {name: getattr(topics, name.replace("-", "_")) for name in OUTPUT_TOPICS}
        outputs = {name: (full, reader.rows(full)) for name, full in names.items() if name != "dead-letters"}
        letters = (row for row in reader.rows(topics.dead_letters) if not is_of_a_replay(row.headers))
        return Rerun(
            self._partition,
            inputs=self._names.inputs,
            progress=self._progress,
            sides=(reader.rows(topics.examples), reader.rows(topics.labels)),
            outputs={**outputs, "dead-letters": (topics.dead_letters, letters)},
            findings=self._findings,
        )

    def _finish_rerun(self, rerun: "Rerun", *, running: bool) -> str | None:
        """Compare the rest and the final models; return the digest of the models."""
        rerun.finish(running=running)
        models = rerun.models()
        if rerun.stopped is not None:
            self._notes.append(f"partition {self._partition}: was not run again to its end: {rerun.stopped}")
        if models is not None and self._wanted_models not in (None, models):
            text = f"the final models have digest {self._wanted_models}, those of a fresh run {models}"
            self._add(Code.WRONG_MODELS, self._progress, None, text)
        return models

    def _add(self, code: Code, topic: str, offset: int | None, text: str) -> None:
        self._findings.add(code, topic, self._partition, offset, text)
