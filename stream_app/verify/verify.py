"""`areba verify`: are the books balanced? Told from the topics alone, with readers of our own.

For each partition: the group's committed offsets, the chain of commit records, then inputs below the committed offsets
and all outputs, which `books.PartitionBooks` judges; metrics are counted again from predictions and outcomes
(`recount.Recount`); what replayers say they sent is held against the inputs (`tally.Tally`). The state of a worker is
not asked, and neither the task nor the join is imported.

With `rerun`, all stages are run again besides, and every output, the digests and the final models have to be those of
this fresh run, to the bit (`rerun.Rerun`).

A group that is at work is checked up to what it had committed when its partition's turn came; whatever it wrote
meanwhile is left alone. Memory: see `books`, `recount` and `rerun`, and one byte for each example of a manifest.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich import box
from rich.table import Table

from stream_app.backends.base import Cluster, Committed, TopicPartition
from stream_app.backends.partition_count import partitions_of
from stream_app.backends.partitioner import split_text
from stream_app.backends.reading import Row, read_rows
from stream_app.config import Config, TaskSettings
from stream_app.errors import StateError, TopicError, UndecodableError, WrongSchemaError
from stream_app.records import (
    CONFIGURATION,
    MAX_ID_BYTES,
    MAX_STREAM_BYTES,
    REPAIR,
    RESET,
    RESUME,
    SKIP,
    Act,
    Commit,
    Example,
    Label,
    Mark,
    MarkKind,
    Metric,
    Outcome,
    Prediction,
    Reason,
    Side,
)
from stream_app.serialization.avro import HEADER_BYTES, Record, catalogue, newest
from stream_app.serialization.codec import decode_one
from stream_app.serialization.dead_letter import (
    DEAD_LETTER_HEADERS,
    DeadLetterRecord,
    is_of_a_replay,
    read_dead_letter,
    read_replay,
    read_sent_back,
)
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import read_gap
from stream_app.terminal import Terminal
from stream_app.verify.audit import (
    MAX_FINDINGS,
    Expected,
    Figures,
    Findings,
    Input,
    Names,
    Output,
    PartitionBooks,
    Rules,
)
from stream_app.verify.manifest_check import Sent, Tally
from stream_app.verify.metrics_check import Recount

if TYPE_CHECKING:
    from stream_app.verify.rerun import Rerun

OUTPUT_TOPICS = ("predictions", "outcomes", "metrics", "dead-letters")
"""Those that a fresh run writes, by the names that it has for them."""

METADATA_FIELDS = 3
"""The least of a committed offset: format, sequence, digest; snapshots come behind these."""

SIDE_TYPES = {Side.EXAMPLES: (Example, Mark), Side.LABELS: (Label, Mark)}


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found.

    Attributes:
        figures: Counts by stream, over all partitions.
        findings: A line for everything off; the first thousand.
        finding_count: All of them.
        notes: What was not checked, and why; nothing is off because of it.
        partitions: Tasks that were checked.
        commits: Commit records.
        records: Output records.
        models: By partition, the digest of all models after a fresh run, as workers log it at a clean stop.
    """

    figures: Mapping[str, Figures]
    findings: Sequence[str]
    finding_count: int
    notes: Sequence[str]
    partitions: int
    commits: int
    records: int
    models: Mapping[int, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is off."""
        return self.finding_count == 0

    def show(self, console: Terminal | None = None) -> None:
        """Print the books, and everything off."""
        console = console or Terminal()
        for table in self.tables():
            console.print(table)
        for line in self.dead_letter_lines():
            console.print(line)
        for partition, digest in self.models.items():
            console.print(f"models of task {partition} after a fresh run: {digest}", soft_wrap=True)
        for note in self.notes:
            console.print(f"note: {note}", soft_wrap=True)
        for finding in self.findings:
            console.print(finding, soft_wrap=True, style="red")
        if self.finding_count > len(self.findings):
            console.print(f"and {self.finding_count - len(self.findings):,} more", style="red")
        scope = f"{self.partitions} partitions, {self.commits:,} commits, {self.records:,} output records"
        verdict = "the books balance" if self.ok else f"the books are off: {self.finding_count:,} findings"
        console.print(f"{verdict} ({scope})", style="bold green" if self.ok else "bold red")

    def tables(self) -> Iterator[Table]:
        """The three equations of the books, a row for each stream."""
        yield self._table(
            ("examples", "= marks", "+ predicted", "+ duplicates", "+ dead letters"),
            lambda f: (
                f.examples,
                f.example_marks,
                f.champion_predictions,
                f.example_duplicates,
                f.example_dead_letters.total(),
            ),
        )
        yield self._table(
            ("predicted", "= joined", "+ unlabelled", "+ evicted", "+ pending"),
            lambda f: (f.champion_predictions, f.joined, f.unlabelled, f.evicted, f.pending),
        )
        yield self._table(
            ("labels", "= marks", "+ joined", "+ corrections", "+ duplicates", "+ dead letters", "+ waiting"),
            lambda f: (
                f.labels,
                f.label_marks,
                f.joined,
                f.corrections,
                f.label_duplicates,
                f.label_dead_letters.total(),
                f.waiting,
            ),
        )

    def dead_letter_lines(self) -> Iterator[str]:
        """Dead letters by stream, topic and reason."""
        for stream, figures in sorted(self.figures.items()):
            for side, counts in (("examples", figures.example_dead_letters), ("labels", figures.label_dead_letters)):
                if counts:
                    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))
                    yield f"dead letters of {stream} from {side}: {reasons}"

    def _table(self, headings: Sequence[str], cells: Callable[[Figures], Sequence[int]]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("stream", no_wrap=True)
        for heading in headings:
            table.add_column(heading, justify="right")
        for stream, figures in sorted(self.figures.items()):
            table.add_row(stream, *(f"{count:,}" for count in cells(figures)))
        return table


def _nothing(done: int, total: int) -> None:
    del done, total


def verify(
    cluster: Cluster,
    config: Config,
    manifests: Sequence[Path] = (),
    *,
    rerun: bool = False,
    models: Mapping[int, str] | None = None,
    on_progress: Callable[[int, int], None] = _nothing,
) -> Report:
    """Check the books of an application.

    Args:
        cluster: Where the topics are.
        config: The application's configuration.
        manifests: What replayers wrote of what they sent.
        rerun: Whether to run all stages again and compare every output and the final models.
        models: By partition, the digest of the final models that a worker told; needs `rerun`.
        on_progress: Told how many partitions are done, of how many.

    Raises:
        TopicError: A topic is missing, or the inputs' partition counts differ.
        ConfigurationError: A manifest cannot be read.
        UnknownOutcomeError: A broker did not answer in time.
    """
    tallies = [Tally.load(path) for path in manifests]
    checker = _Checker(cluster, config, tallies, _partitions(cluster, config), rerun=rerun, models=models or {})
    for partition in range(checker.partitions):
        on_progress(partition, checker.partitions)
        _PartitionCheck(checker, partition).run()
    on_progress(checker.partitions, checker.partitions)
    checker.check_unread()
    for tally in tallies:
        checker.check_digest(tally)
    return checker.report()


def _partitions(cluster: Cluster, config: Config) -> int:
    """The number of tasks."""
    topics = config.topics
    needed = (*(topics[place] for place in range(6)), topics.progress)
    found = cluster.topics(needed)
    missing = [name for name in needed if name not in found]
    if missing:
        raise TopicError([f"{name}: there is no such topic" for name in missing])
    partitions = partitions_of(cluster, topics)
    if small := [topic for topic in found.values() if topic.partitions < partitions]:
        raise TopicError(
            [f"{topic.name}: {topic.partitions} partitions, the application has {partitions}" for topic in small]
        )
    return partitions


class _Checker:
    """What all partitions share."""

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        tallies: Sequence[Tally],
        partitions: int,
        *,
        rerun: bool,
        models: Mapping[int, str],
    ) -> None:
        self.rerun = rerun
        self.wanted_models = models
        self.models: dict[int, str] = {}
        self.cluster = cluster
        self.config = config
        self.tallies = tallies
        self.partitions = partitions
        self.findings = Findings()
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.figures: dict[str, Figures] = {}
        self.homes: dict[str, list[int]] = {}
        self.commits = 0
        self.records = 0

    def rules(self, stream: str) -> Rules:
        """The settings of a stream."""
        join = self.config.join
        known = self.config.streams.get(stream)
        return Rules(
            life_ms=join.ttl_ms + join.max_clock_lead_ms,
            closed_ttl_ms=join.closed_ttl_ms,
            max_pending=join.max_pending_per_stream,
            max_waiting=join.max_waiting_per_stream,
            max_waiting_bytes=join.max_waiting_bytes_per_stream,
            max_closed=join.max_closed_per_stream,
            max_open_marks=join.max_open_marks_per_stream,
            corrections=join.corrections == "correct",
            features=(known.features if known is not None else None) or 0,
        )

    def committed(self, partition: int) -> tuple[Committed | None, Committed | None]:
        """The committed offsets of both inputs."""
        topics = self.config.topics
        pair = [TopicPartition(topics.examples, partition), TopicPartition(topics.labels, partition)]
        found = self.cluster.committed(self.config.group_id, pair)
        return found.get(pair[0]), found.get(pair[1])

    def check_unread(self) -> None:
        """Find what lies in input partitions that no task reads: topics may have grown."""
        topics = self.config.topics
        for topic in self.cluster.topics((topics.examples, topics.labels)).values():
            for number in range(self.partitions, topic.partitions):
                low, high = self.cluster.watermarks(TopicPartition(topic.name, number))
                if high > low:
                    text = (
                        f"{high - low:,} records from here on are not read: the application has {self.partitions} tasks"
                    )
                    self.findings.add(topic.name, number, low, f"{text} for good; they have to be sent again")

    def check_digest(self, tally: Tally) -> None:
        """Compare the digest of what was sent with that of what the topics hold, where their order can be told."""
        if not tally.order_is_known:
            self.notes.append(f"{tally.path.name}: its digest was not checked: it sent records out of order")
            return
        with ExitStack() as stack:
            partitions = [self._sent(stack, *place) for place in tally.ranges]
            digest = tally.digest_of(partitions)
        if digest is None:
            self.notes.append(f"{tally.path.name}: its digest was not checked: others wrote between its records")
        elif digest != tally.digest:
            self.faults.append(f"{tally.path.name}: digest {digest} on the topics, {tally.digest} was sent")

    def _sent(self, stack: ExitStack, topic: str, partition: int, first: int, end: int) -> Iterator[Sent]:
        """The records of a range, undecoded."""
        reader = self.cluster.reader(TopicPartition(topic, partition))
        stack.callback(reader.close)
        side = Side.EXAMPLES if topic == self.config.topics.examples else Side.LABELS
        mark = newest()[Mark].header
        reader.seek(first)
        for row in read_rows(reader, f"{topic}[{partition}]"):
            if row.offset >= end:
                return
            value = row.value or b""
            yield Sent(topic, side, row.offset, row.timestamp_ms, row.key or b"", value, value.startswith(mark))

    def report(self) -> Report:
        """Everything, with the manifests."""
        lines = [str(finding) for finding in self.findings.kept]
        split = (split_text(stream, homes) for stream, homes in sorted(self.homes.items()) if len(homes) > 1)
        faults = [*self.faults, *split, *(fault for tally in self.tallies for fault in tally.faults())]
        return Report(
            figures=self.figures,
            findings=(*lines, *faults),
            finding_count=self.findings.count + len(faults),
            notes=tuple(self.notes),
            partitions=self.partitions,
            commits=self.commits,
            records=self.records,
            models=self.models,
        )


Decoded = TypeVar("Decoded")


def _is_without_effect(act: Act, sequence: int, *, is_new: bool) -> bool:
    """An operator may say a thing twice, and a task may be given models before its first worker."""
    return is_new or (act.kind in (RESUME, SKIP, REPAIR) and act.sequence <= sequence)


class _PartitionCheck:
    """One task."""

    def __init__(self, checker: _Checker, partition: int) -> None:
        self._checker = checker
        self._partition = partition
        topics = checker.config.topics
        self._names = Names((topics.examples, topics.labels), topics.predictions, topics.outcomes, topics.dead_letters)
        self._progress = topics.progress
        self._metrics_topic = topics.metrics
        self._sent_back: dict[int, int] = {}  # by dead letter, what says so
        self._replayed: dict[int, tuple[str, int]] = {}  # by dead letter, the input record
        self._miscounted: list[tuple[int, str]] = []
        self._reset: set[str] = set()
        self._rerun: Rerun | None = None
        self._written: Counter[str] = Counter()
        self._whole_acts = WholeActs()
        self._stack = ExitStack()

    def run(self) -> None:
        """Read and judge all of it."""
        checker = self._checker
        if self._is_trimmed():
            return
        committed = checker.committed(self._partition)
        ends = (committed[0].offset if committed[0] else 0, committed[1].offset if committed[1] else 0)
        with self._stack:
            self._rerun = self._open_rerun() if checker.rerun else None
            inputs = (self._inputs(Side.EXAMPLES, ends[0]), self._inputs(Side.LABELS, ends[1]))
            books = PartitionBooks(
                self._partition,
                names=self._names,
                rules=checker.rules,
                ends=ends,
                predictions=self._outputs(self._names.predictions, Prediction),
                outcomes=self._outputs(self._names.outcomes, Outcome),
                dead_letters=self._dead_letters(),
                findings=checker.findings,
            )
            promised = 0
            for commit in self._commits(committed, ends, books):
                reached = (commit.examples_end, commit.labels_end)
                books.take(inputs[0].below(reached[0]), inputs[1].below(reached[1]), reached)
                promised += commit.records
            books.take(inputs[0].below(ends[0]), inputs[1].below(ends[1]), ends)
            metrics = self._metrics()
            running = checker.committed(self._partition) != committed
            figures = books.finish(running=running)
            if running:
                checker.notes.append(
                    f"partition {self._partition}: the group is at work; newer outputs were left alone"
                )
            else:
                self._check_metrics(metrics, figures)
                self._check_count(promised)
                self._check_replays()
            if self._rerun is not None:
                self._finish_rerun(self._rerun, running=running)
            for source in inputs:
                source.count_rest()
        for stream, counts in figures.items():
            checker.figures.setdefault(stream, Figures()).add(counts)
            if counts.accepted:
                checker.homes.setdefault(stream, []).append(self._partition)

    def _is_trimmed(self) -> bool:
        """Whether the beginning of progress is gone: then nothing can be told of the rest, and that is what is off."""
        lows = [
            self._checker.cluster.watermarks(TopicPartition(topic, self._partition)).low
            for topic in (self._progress, *self._names.inputs)
        ]
        if lows[0]:
            inputs = " and ".join(f"{name} at {low}" for name, low in zip(self._names.inputs, lows[1:], strict=True))
            text = (
                f"starts at offset {lows[0]}, {inputs}: the books need every record, older ones are gone (retention); "
                "this partition was not checked"
            )
            self._off(self._progress, None, text)
        return bool(lows[0])

    # Commit records ---------------------------------------------------------------------------------------------------

    def _commits(
        self, committed: tuple[Committed | None, Committed | None], ends: tuple[int, int], books: PartitionBooks
    ) -> Iterator[Commit]:
        """The commit records up to the committed one; everything off in their chain is told."""
        target = self._target(committed)
        sequence, last = -1, None
        for row in self._rows(self._progress):
            record = self._decoded(self._progress, row, (Commit, Act))
            if not isinstance(record, Commit | Act):
                continue
            if isinstance(record, Act) and _is_without_effect(record, sequence, is_new=target is None):
                continue
            if target is None:
                self._off(self._progress, row.offset, "a record of the task, but the group has committed no offsets")
                break
            if sequence >= target[0]:
                break
            self._check_sequence(row.offset, sequence, record)
            sequence = record.sequence
            whole = self._whole(row.offset, record)
            if isinstance(whole, Act):
                last = self._take_act(row.offset, whole, last, books)
            if self._rerun is not None and whole is not None:
                self._rerun.take(row.offset, whole)
            if isinstance(record, Commit):
                self._check_ranges(row.offset, last, record)
                last = record
                self._checker.commits += 1
                yield record
        if target is not None:
            self._check_end(target, sequence, last, ends)

    def _whole(self, offset: int, record: Commit | Act) -> Commit | Act | None:
        """The commit record, or the act whose last part this is."""
        try:
            return self._whole_acts.add(record) if isinstance(record, Act) else record
        except StateError as problem:
            self._off(self._progress, offset, str(problem))
            return None

    def _take_act(self, offset: int, act: Act, last: Commit | None, books: PartitionBooks) -> Commit | None:
        """The last commit, as the next one has to follow it."""
        if act.kind == CONFIGURATION:
            self._configure(offset, act, books)
        elif act.kind == RESET:
            self._note_reset(offset, act.text, books)
        elif act.kind == REPAIR:
            where = f"{self._progress}[{self._partition}] offset {offset}"
            self._checker.notes.append(f"{where}: outputs whose commit markers were lost were published again")
        return self._accept_gap(offset, act, last) if act.kind == SKIP else last

    def _note_reset(self, offset: int, stream: str, books: PartitionBooks) -> None:
        books.reset(stream)
        self._reset.add(stream)
        self._checker.notes.append(
            f"{self._progress}[{self._partition}] offset {offset}: stream {stream!r} was reset: its metrics were not "
            "counted again; a fresh run compares them"
        )

    def _configure(self, offset: int, act: Act, books: PartitionBooks) -> None:
        try:
            settings = TaskSettings.from_json(act.text)
        except StateError as problem:
            self._off(self._progress, offset, str(problem))
            return
        every = settings.predictions == "all"

        def expected(stream: str) -> Expected:
            return Expected(frozenset(settings.of_stream(stream).learners), every)

        books.configure(expected)

    def _accept_gap(self, offset: int, act: Act, last: Commit | None) -> Commit | None:
        """What was deleted and left out, as an operator said; the last commit as if it had ended behind the gap."""
        try:
            gap = read_gap(act.text)
        except StateError as problem:
            self._off(self._progress, offset, str(problem))
            return last
        where = f"{self._progress}[{self._partition}] offset {offset}"
        self._checker.notes.append(
            f"{where}: inputs are gone, and an operator accepted it: the task goes on {gap.words()}"
        )
        return last and replace(last, examples_end=gap.end[0], labels_end=gap.end[1])

    def _check_end(self, target: tuple[int, str], sequence: int, last: Commit | None, ends: tuple[int, int]) -> None:
        """The last commit record is the one that the committed offsets name."""
        wanted, digest = target
        if last is None or sequence != wanted:
            self._off(self._progress, None, f"ends at sequence {sequence}; {wanted} is committed")
        elif last.digest.hex() != digest:
            self._off(self._progress, None, f"sequence {wanted}: its digest is not that of the committed offsets")
        elif (last.examples_end, last.labels_end) != ends:
            text = f"sequence {wanted} ends at {last.examples_end}/{last.labels_end}, committed are {ends[0]}/{ends[1]}"
            self._off(self._progress, None, text)

    def _target(self, committed: tuple[Committed | None, Committed | None]) -> tuple[int, str] | None:
        """Sequence and digest of the committed record, from the metadata of the offsets."""
        examples, labels = committed
        if examples is None and labels is None:
            return None
        texts = {offset.metadata for offset in committed if offset is not None}
        words = texts.pop().split()
        if texts or examples is None or labels is None:
            self._off(
                self._names.inputs[0], None, "the committed offsets of examples and labels do not belong together"
            )
        if len(words) < METADATA_FIELDS or not words[1].isdecimal():
            self._off(
                self._names.inputs[0], None, "the committed offset has no metadata of areba; was the group reset?"
            )
            return None
        return int(words[1]), words[2]

    def _check_sequence(self, offset: int, sequence: int, record: Commit | Act) -> None:
        if record.sequence != sequence + 1:
            self._off(self._progress, offset, f"sequence {record.sequence} follows {sequence}")
        if sequence == -1 and not (isinstance(record, Act) and record.kind == CONFIGURATION):
            self._off(self._progress, offset, "the first record is no configuration")

    def _check_ranges(self, offset: int, last: Commit | None, record: Commit) -> None:
        if last is None:
            return
        for topic, start, end in (
            (self._names.inputs[0], record.examples_start, last.examples_end),
            (self._names.inputs[1], record.labels_start, last.labels_end),
        ):
            if start != end:
                text = f"sequence {record.sequence} starts at {start} of {topic}, the commit before it ended at {end}"
                self._off(self._progress, offset, text)

    # Inputs -----------------------------------------------------------------------------------------------------------

    def _inputs(self, side: Side, end: int) -> "_Inputs":
        topic = self._names.inputs[side]
        tallies = [tally for tally in self._checker.tallies if tally.end(topic, self._partition)]
        last = max([end, *(tally.end(topic, self._partition) for tally in tallies)])
        if last > end:
            text = f"{topic}[{self._partition}]: {last - end:,} records of the manifests are not yet processed"
            self._checker.notes.append(text)

        limits = self._checker.config.limits
        return _Inputs(
            side=side,
            rows=self._input_rows(topic, last),
            counters=[self._note_replay(topic, end), *(t.counter(topic, self._partition, side) for t in tallies)],
            max_record_bytes=limits.max_record_bytes,
            max_features=limits.max_features,
        )

    def _input_rows(self, topic: str, end: int) -> Iterator[Row]:
        """The records below `end`; a hole at either end of the partition is told."""
        following = 0
        if not end:
            return
        low = self._checker.cluster.watermarks(TopicPartition(topic, self._partition)).low
        if low:
            self._off(topic, None, f"starts at offset {low}: the books need every record, older ones are gone")
        for row in self._rows(topic):
            if row.offset >= end:
                return
            following = row.offset + 1
            yield row
            if following >= end:
                return
        self._off(topic, None, f"ends at offset {following}, but the records below {end} were there once")

    # Replays ----------------------------------------------------------------------------------------------------------

    def _note_replay(self, topic: str, end: int) -> Callable[[Input], None]:
        """What looks at an input record below the committed offset: is it a dead letter that was sent back?"""

        def note(record: Input) -> None:
            replay = read_replay(record.headers)
            if replay is None or record.offset >= end:
                return
            if (replay.topic, replay.partition) != (self._names.dead_letters, self._partition):
                return  # of another application
            where = f"{replay.topic}[{replay.partition}] offset {replay.offset}"
            before = self._replayed.setdefault(replay.offset, (topic, record.offset))
            if before != (topic, record.offset):
                first = f"{before[0]}[{self._partition}] offset {before[1]}"
                self._off(topic, record.offset, f"is the dead letter {where}, sent back a second time: {first} was it")

        return note

    def _note_sent_back(self, row: Row) -> None:
        """A record of a replay among the dead letters."""
        letter = read_sent_back(row.headers)
        if letter is None:
            return
        before = self._sent_back.setdefault(letter, row.offset)
        if before != row.offset:
            text = f"says that offset {letter} was sent back, as offset {before} does"
            self._off(self._names.dead_letters, row.offset, text)

    def _check_replays(self) -> None:
        """A dead letter that came back is marked, in the same transaction."""
        for letter, (topic, offset) in self._replayed.items():
            if letter not in self._sent_back:
                where = f"{self._names.dead_letters}[{self._partition}] offset {letter}"
                self._off(topic, offset, f"is the dead letter {where}, but no record there says that it was sent back")
        newer = len(self._sent_back.keys() - self._replayed.keys())
        if newer:
            where = f"{self._names.dead_letters}[{self._partition}]"
            self._checker.notes.append(f"{where}: {newer:,} that were sent back are not yet processed again")

    # A fresh run ------------------------------------------------------------------------------------------------------

    def _open_rerun(self) -> "Rerun":
        from stream_app.verify.rerun import Rerun  # noqa: PLC0415  (Torch takes seconds; the books do without)

        topics = self._checker.config.topics
        names = {name: getattr(topics, name.replace("-", "_")) for name in OUTPUT_TOPICS}
        outputs = {name: (full, self._rows(full)) for name, full in names.items() if name != "dead-letters"}
        letters = (row for row in self._rows(topics.dead_letters) if not is_of_a_replay(row.headers))
        return Rerun(
            self._partition,
            inputs=self._names.inputs,
            progress=self._progress,
            sides=(self._rows(topics.examples), self._rows(topics.labels)),
            outputs={**outputs, "dead-letters": (topics.dead_letters, letters)},
            findings=self._checker.findings,
        )

    def _finish_rerun(self, rerun: "Rerun", *, running: bool) -> None:
        rerun.finish(running=running)
        models, wanted = rerun.models(), self._checker.wanted_models.get(self._partition)
        if rerun.stopped is not None:
            self._checker.notes.append(f"partition {self._partition}: was not run again to its end: {rerun.stopped}")
        if models is not None:
            self._checker.models[self._partition] = models
            if wanted is not None and wanted != models:
                self._off(self._progress, None, f"the final models have digest {wanted}, those of a fresh run {models}")

    # Outputs ----------------------------------------------------------------------------------------------------------

    def _outputs(self, topic: str, kind: type[Decoded]) -> Iterator[Output[Decoded]]:
        for row in self._rows(topic):
            self._written[topic] += 1
            record = self._decoded(topic, row, (kind,))
            if isinstance(record, kind):
                yield Output(row.offset, row.timestamp_ms, row.key, record)

    def _again(self, topic: str, kind: type[Decoded]) -> Iterator[Output[Decoded]]:
        """The same, for a second look: what is wrong with them was told at the first."""
        for row in self._rows(topic):
            try:
                record = decode_one(row.value or b"")
            except (UndecodableError, WrongSchemaError):
                continue
            if isinstance(record, kind):
                yield Output(row.offset, row.timestamp_ms, row.key, record)

    def _dead_letters(self) -> Iterator[Output[DeadLetterRecord]]:
        topic = self._names.dead_letters
        for row in self._rows(topic):
            if is_of_a_replay(row.headers):
                self._note_sent_back(row)
                continue
            self._written[topic] += 1
            letter = read_dead_letter(row.key, row.value, row.headers)
            if letter is None:
                self._off(topic, row.offset, f"lacks the headers of a dead letter: {', '.join(DEAD_LETTER_HEADERS)}")
            else:
                yield Output(row.offset, row.timestamp_ms, row.key, letter)

    def _metrics(self) -> dict[tuple[str, str], tuple[int, Metric]]:
        """The last metric of each stream and learner, with its offset; their counts never go back."""
        last: dict[tuple[str, str], tuple[int, Metric]] = {}
        join = self._checker.config.join
        recount = Recount(
            self._checker.config.metrics.fading_factor,
            self._again(self._names.predictions, Prediction),
            self._again(self._names.outcomes, Outcome),
            join.max_closed_per_stream if join.corrections == "correct" else 0,
            join.closed_ttl_ms,
        )
        for output in self._outputs(self._metrics_topic, Metric):
            metric = output.content
            if metric.stream in self._reset:
                continue
            before = last.get((metric.stream, metric.learner))
            if before is not None and (metric.labelled, metric.examples) < (before[1].labelled, before[1].examples):
                self._off(self._metrics_topic, output.offset, f"counts of {metric.stream}/{metric.learner} went back")
            if fault := change_fault(metric, before[1] if before is not None else None):
                self._off(self._metrics_topic, output.offset, f"change of {metric.stream}/{metric.learner}: {fault}")
            if fault := recount.fault(metric):
                self._miscounted.append((output.offset, f"{metric.stream}/{metric.learner}: {fault}"))
            last[metric.stream, metric.learner] = output.offset, metric
        if recount.unknown:
            where = f"{self._metrics_topic}[{self._partition}]"
            text = f"{recount.unknown:,} records of learners whose predictions are not published were not counted again"
            self._checker.notes.append(f"{where}: {text}")
        return last

    def _check_metrics(
        self, metrics: Mapping[tuple[str, str], tuple[int, Metric]], figures: Mapping[str, Figures]
    ) -> None:
        """What metrics counted is never more than the books have, and what predictions and labels give."""
        for place, text in self._miscounted[:MAX_FINDINGS]:
            self._off(self._metrics_topic, place, text)
        for (stream, learner), (offset, metric) in metrics.items():
            books = figures.get(stream, Figures())
            for what, counted, most in (
                ("labelled", metric.labelled, books.joined),
                ("examples", metric.examples, books.champion_predictions),
                ("unlabelled", metric.unlabelled, books.unlabelled),
                ("evicted", metric.evicted, books.evicted),
                ("duplicates", metric.duplicates, books.example_duplicates + books.label_duplicates),
            ):
                if counted > most:
                    text = f"{what} of {stream}/{learner} is {counted:,}, the books have {most:,}"
                    self._off(self._metrics_topic, offset, text)

    def _check_count(self, promised: int) -> None:
        """The commit records say how many outputs there are."""
        written = self._written.total()
        self._checker.records += written
        if written != promised:
            parts = ", ".join(f"{topic} {count:,}" for topic, count in sorted(self._written.items()))
            text = f"the commit records tell of {promised:,} output records, the topics have {written:,} ({parts})"
            self._off(self._progress, None, text)

    # Reading ----------------------------------------------------------------------------------------------------------

    def _rows(self, topic: str) -> Iterator[Row]:
        """All records of this partition up to its end as it is met first."""
        reader = self._checker.cluster.reader(TopicPartition(topic, self._partition))
        self._stack.callback(reader.close)
        return read_rows(reader, f"{topic}[{self._partition}]")

    def _decoded(self, topic: str, row: Row, kinds: tuple[type, ...]) -> Record | None:
        """The record, if it is one of these kinds."""
        try:
            record = decode_one(row.value or b"")
        except (UndecodableError, WrongSchemaError) as error:
            self._off(topic, row.offset, f"cannot be decoded: {error}")
            return None
        if not isinstance(record, kinds):
            self._off(topic, row.offset, f"is a {type(record).__name__}, which has no place here")
            return None
        return record

    def _off(self, topic: str, offset: int | None, text: str) -> None:
        self._checker.findings.add(topic, self._partition, offset, text)


class _Inputs:
    """The records of one input partition, given out in slices."""

    def __init__(
        self,
        side: Side,
        rows: Iterator[Row],
        counters: Sequence[Callable[[Input], None]],
        max_record_bytes: int,
        max_features: int,
    ) -> None:
        self._side = side
        self._rows = rows
        self._counters = counters
        self._max_record_bytes = max_record_bytes
        self._max_features = max_features
        self._ahead: Input | None = None

    def below(self, end: int) -> Iterator[Input]:
        """Those that come next and lie below this offset."""
        while (record := self._ahead or self._next()) is not None:
            if record.offset >= end:
                self._ahead = record
                return
            self._ahead = None
            yield record

    def count_rest(self) -> None:
        """Read what only the manifests know of."""
        while self._next() is not None:
            pass

    def _next(self) -> Input | None:
        row = next(self._rows, None)
        if row is None:
            return None
        content = read_value(row.value, self._side, self._max_record_bytes, self._max_features)
        if isinstance(content, Reason) or row.key == content.stream.encode():
            record = Input(*row, content)
        else:
            record = Input(*row, Reason.WRONG_KEY, content.stream)
        for count in self._counters:
            count(record)
        return record


def read_value(
    value: bytes | None, side: Side, max_record_bytes: int, max_features: int
) -> Example | Label | Mark | Reason:
    """What an input value says, or the reason why it says nothing that is allowed; see `codec` for the rules."""
    if value is None:
        return Reason.UNDECODABLE
    if len(value) > max_record_bytes:
        return Reason.TOO_LARGE
    schema = catalogue().get(value[:HEADER_BYTES])
    if schema is None or schema.record not in SIDE_TYPES[side]:
        return Reason.WRONG_SCHEMA
    try:
        record = decode_one(value)
    except UndecodableError:
        return Reason.UNDECODABLE
    if not isinstance(record, Example | Label | Mark):
        return Reason.WRONG_SCHEMA
    return _fault(record, max_features) or record


def _fault(record: Example | Label | Mark, max_features: int) -> Reason | None:
    if not 1 <= len(record.stream.encode()) <= MAX_STREAM_BYTES:
        return Reason.BAD_ID
    if isinstance(record, Mark):
        if record.kind is MarkKind.ADVANCE:
            allowed = record.time_ms is not None and record.time_ms >= 0
        else:
            allowed = bool(record.learner)
        return None if allowed else Reason.UNDECODABLE
    if not 1 <= len(record.id.encode()) <= MAX_ID_BYTES:
        return Reason.BAD_ID
    if isinstance(record, Label):
        return None if record.label in (0, 1) and record.revision >= 0 else Reason.BAD_LABEL
    if not 1 <= len(record.features) <= max_features:
        return Reason.WRONG_DIMENSION
    return None if math.isfinite(sum(record.features)) else Reason.NOT_FINITE


def change_fault(metric: Metric, before: Metric | None) -> str | None:
    """What cannot be in the figures about changes, by themselves or behind the learner's metric before; else None."""
    flagged, began, took = metric.change_flagged, metric.change_began, metric.labels_to_recover
    fault = None
    if not metric.changes:
        if (flagged, began, metric.gmean_before, took) != (None, None, None, None):
            fault = "there was none, but it is described"
    elif flagged is None or began is None or not 0 < began <= flagged <= metric.labelled:
        fault = f"flagged at {flagged}, begun at {began}, of {metric.labelled} labels"
    elif took is not None and not 0 <= took <= metric.labelled - began:
        fault = f"recovered in {took} of the {metric.labelled - began} labels since"
    return fault or (_sequel_fault(metric, before) if before is not None else None)


def _sequel_fault(metric: Metric, before: Metric) -> str | None:
    """The same, of two metrics of a learner: the count goes up, and a change that was flagged stays what it was."""
    if metric.changes < before.changes:
        return f"{metric.changes} after {before.changes}"
    if metric.changes > before.changes:
        flagged = metric.change_flagged or 0
        here = f"a new one was flagged at {flagged}, but not yet there after {before.labelled} labels"
        return here if flagged <= before.labelled else None
    names = ("change_flagged", "change_began", "gmean_before")
    same = all(getattr(metric, name) == getattr(before, name) for name in names)
    return None if same else "the last one is another than before"
