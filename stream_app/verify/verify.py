"""`areba verify`: check from the topics alone that every record is accounted for and every result is right.

Each partition is checked separately (`partition_check`): the chain of progress records, then all outputs against the
reference join along the recorded ranges (`audit`), and the metrics against predictions and outcomes (`metrics`).
No worker is asked, and neither the task nor its join is imported. With `rerun`, all stages are run again besides, and
every output, the digests and the final models must be equal to the bit (`second_run`).

While a group is at work, it is checked up to its last commit when the check of a partition began.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.partitioner import split_text
from stream_app.backends.progress import partitions_of
from stream_app.config import Config
from stream_app.errors import ConfigurationError, TopicError
from stream_app.terminal import Terminal, simple_table
from stream_app.verify.moved_streams import MovedStreams
from stream_app.verify.partition.partition_check import How, PartitionCheck
from stream_app.verify.results import EQUATIONS, Code, Finding, Findings, Scope, StreamTotals
from stream_app.verify.second_run.checkpoint import CheckedApplication, CheckpointFile, Ended


@dataclass(slots=True)
class Report:
    """What `verify` found.

    Attributes:
        partitions: Number of tasks.
        figures: Counts by stream, over all partitions.
        found: What is wrong; of the partitions the first thousand.
        notes: What was not checked, and why; a note is no finding.
        commits: Number of commit records.
        records: Number of output records.
        models: By partition, the digest of all models after a fresh run, as workers log it at a clean stop.
        scopes: By partition, which inputs were checked.
    """

    partitions: int
    figures: dict[str, StreamTotals] = field(default_factory=dict)
    found: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    commits: int = 0
    records: int = 0
    models: dict[int, str] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong, as far as it was kept."""
        return tuple(self.found.kept)

    @property
    def finding_count(self) -> int:
        """Number of all findings."""
        return self.found.count

    @property
    def is_partial(self) -> bool:
        """Whether inputs are left that neither this run nor the runs before it covered."""
        return any(scope.is_partial for scope in self.scopes.values())

    def scope_line(self) -> str:
        """Return which commits and offsets were checked, and what share of the history is covered."""
        checked = sum(sum(scope.end) - sum(scope.start) for scope in self.scopes.values())
        covered, history = self._coverage()
        earlier = "with earlier runs that is" if covered > checked else "that is"
        return (
            f"checked {self.commits:,} commits and {checked:,} input offsets; {earlier} "
            f"{covered:,} of {history:,} offsets, {_percent(covered, history)} of the history"
        )

    def _coverage(self) -> tuple[int, int]:
        """Return how many input offsets this run and the runs before it covered, and how many the history has."""
        scopes = self.scopes.values()
        covered = sum(sum(scope.end) - sum(scope.since) for scope in scopes)
        return covered, sum(sum(scope.committed) for scope in scopes)

    def verdict(self) -> str:
        """Return the last line of the text: what the findings say about which part of the history."""
        covered, history = self._coverage()
        partitions = (
            f"{len(self.scopes)} of {self.partitions}" if len(self.scopes) < self.partitions else self.partitions
        )
        scope = f"{partitions} partitions, {self.commits:,} commits, {self.records:,} output records"
        if not self.ok:
            return f"{self.finding_count:,} findings ({scope})"
        if covered < history:
            left = "; inputs are left that were not checked" if self.is_partial else ""
            return f"all checked records are accounted for, {_percent(covered, history)} of the history{left} ({scope})"
        return f"all records are accounted for ({scope})"

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return self.finding_count == 0

    def show(self, console: Terminal | None = None) -> None:
        """Print the counts, the notes and the findings."""
        console = console or Terminal()
        console.print(self.scope_line(), soft_wrap=True)
        for table in self.tables() if self.figures else ():
            console.print(table)
        for line in self.dead_letter_lines():
            console.print(line)
        for partition, digest in self.models.items():
            console.print(f"models of task {partition} after a fresh run: {digest}", soft_wrap=True)
        for note in self.notes:
            console.print(f"note: {note}", soft_wrap=True)
        for finding in self.findings:
            console.print(str(finding), soft_wrap=True, style="red")
        if self.finding_count > len(self.findings):
            console.print(f"and {self.finding_count - len(self.findings):,} more", style="red")
        style = "bold red" if not self.ok else "bold yellow" if self.is_partial else "bold green"
        console.print(self.verdict(), soft_wrap=True, style=style)

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return {
            "ok": self.ok,
            "is_partial": self.is_partial,
            "partitions": self.partitions,
            "commits": self.commits,
            "records": self.records,
            "findings": [asdict(finding) for finding in self.findings],
            "finding_count": self.finding_count,
            "notes": list(self.notes),
            "streams": {name: figures.to_plain() for name, figures in sorted(self.figures.items())},
            "models": dict(self.models),
            "scopes": {partition: scope._asdict() for partition, scope in self.scopes.items()},
        }

    def tables(self) -> Iterator[Table]:
        """Yield a table for each of the equations that account for all records; it has a row for each stream.

        Few applications have tombstones, so their column is left out where it has only zeros.
        """
        rows = sorted(self.figures.items())
        for equation in EQUATIONS:
            shown = {
                heading: column
                for heading, column in equation.items()
                if "tombstones" not in column or any(figures.count(column) for _, figures in rows)
            }
            table = simple_table("", ("stream", *shown))
            for stream, figures in rows:
                table.add_row(stream, *(f"{figures.count(column):,}" for column in shown.values()))
            yield table

    def dead_letter_lines(self) -> Iterator[str]:
        """Yield lines that count dead letters by stream, topic and reason."""
        for stream, figures in sorted(self.figures.items()):
            for side, counts in (("examples", figures.example_dead_letters), ("labels", figures.label_dead_letters)):
                if counts:
                    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))
                    yield f"dead letters of {stream} from {side}: {reasons}"


def _percent(part: int, whole: int) -> str:
    """Return a share, rounded down, so that only the whole is 100 %."""
    return f"{math.floor(1_000 * part / whole) / 10 if whole else 100:g} %"


def verify(
    cluster: Cluster,
    config: Config,
    *,
    rerun: bool = False,
    models: Mapping[int, str] | None = None,
    checkpoint: Path | None = None,
    partial: bool = False,
    tasks: Collection[int] = (),
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Check all records of an application, or those of some tasks.

    A checkpoint is written only if nothing is wrong: after a finding, the next run begins where this one began, and
    finds it again.

    Args:
        cluster: Where the topics are.
        config: The configuration of the application.
        rerun: Whether to run all stages again and compare every output and the final models.
        models: By partition, the digest of the final models that a worker logged; needs `rerun`.
        checkpoint: The file in which a run keeps where it ended; needs `rerun`.
        partial: Whether records that were deleted are accepted: then they are a note, and no finding.
        tasks: The tasks to check; none: all.
        on_progress: Takes the number of partitions that are done and the number of those to check.

    Raises:
        TopicError: A topic is missing, or the inputs' partition counts differ.
        ConfigurationError: The checkpoint cannot be read or written, or there is no such task.
        UnknownOutcomeError: A broker did not answer in time.
    """
    if checkpoint is not None and not rerun:
        raise ConfigurationError("a checkpoint needs the second run: omit --no-rerun")
    partitions = _partitions(cluster, config)
    file = None if checkpoint is None else CheckpointFile(checkpoint, _identity(cluster, config))
    before = {} if file is None else file.read()
    checker = _Checker(cluster, config, partitions, accepts_deleted=partial)
    wanted_tasks = sorted(set(tasks)) or range(partitions)
    if wanted_tasks[-1] >= partitions:
        raise ConfigurationError(f"there is no task {wanted_tasks[-1]}: the application has {partitions}")
    for done, partition in enumerate(wanted_tasks):
        on_progress(done, len(wanted_tasks))
        wanted = (models or {}).get(partition)
        checker.check(partition, wanted_models=wanted, rerun=rerun, checkpoint=before.get(partition))
    on_progress(len(wanted_tasks), len(wanted_tasks))
    checker.check_unread()
    checker.check_split()
    report = checker.report
    if file is not None and report.ok:
        file.write([part for _, part in sorted({**before, **checker.ended}.items())])
    return report


def _identity(cluster: Cluster, config: Config) -> CheckedApplication:
    """Return the application that a checkpoint belongs to."""
    topics = config.topics
    found = cluster.topics(topics.inputs)
    ids = (found[topics.examples].topic_id, found[topics.labels].topic_id)
    return CheckedApplication(config.application.id, topics.progress, ids)


def _partitions(cluster: Cluster, config: Config) -> int:
    """Return the number of tasks.

    Raises:
        TopicError: A topic is missing, or has fewer partitions than the application.
    """
    topics = config.topics
    needed = (*(topics[place] for place in range(6)), topics.progress)
    found = cluster.topics(needed)
    missing = [name for name in needed if name not in found]
    if missing:
        raise TopicError([f"{name}: the topic does not exist" for name in missing])
    partitions = partitions_of(cluster, topics)
    if small := [topic for topic in found.values() if topic.partitions < partitions]:
        raise TopicError(
            [f"{topic.name}: {topic.partitions} partitions, the application has {partitions}" for topic in small]
        )
    return partitions


class _Checker:
    """The checks of all partitions, and what they share.

    Attributes:
        report: What was found so far.
        ended: By partition, what a checkpoint holds.
    """

    def __init__(self, cluster: Cluster, config: Config, partitions: int, *, accepts_deleted: bool) -> None:
        self.report = Report(partitions)
        self.ended: dict[int, Ended] = {}
        self._cluster = cluster
        self._config = config
        self._accepts_deleted = accepts_deleted
        self._homes: dict[str, list[int]] = {}
        self._moved = MovedStreams()

    def check(self, partition: int, *, wanted_models: str | None, rerun: bool, checkpoint: Ended | None) -> None:
        """Check one partition."""
        how = How(rerun, wanted_models, checkpoint, self._accepts_deleted)
        report = self.report
        checked = PartitionCheck(self._cluster, self._config, partition, report.found, how, self._moved).run()
        report.notes += checked.notes
        report.scopes[partition] = checked.scope
        report.commits += checked.commits
        report.records += checked.records
        if checked.ended is not None:
            self.ended[partition] = checked.ended
        if checked.models is not None:
            report.models[partition] = checked.models
        for stream, figures in checked.figures.items():
            report.figures.setdefault(stream, StreamTotals()).add(figures)
            if figures.accepted:
                self._homes.setdefault(stream, []).append(partition)

    def check_unread(self) -> None:
        """Find records in input partitions that no task reads, since topics may have grown."""
        topics = self._config.topics
        for topic in self._cluster.topics(topics.inputs).values():
            for number in range(self.report.partitions, topic.partitions):
                low, high = self._cluster.watermarks(TopicPartition(topic.name, number))
                if high > low:
                    text = (
                        f"{high - low:,} records from here on will never be read: the application has "
                        f"{self.report.partitions} tasks; they have to be sent again"
                    )
                    self.report.found.add(Code.UNREAD_PARTITION, topic.name, number, low, text)

    def check_split(self) -> None:
        """Find streams with records in several partitions."""
        for stream, places in sorted(self._homes.items()):
            if len(places) > 1 and stream not in self._moved.names:
                text = f"stream {stream!r} {split_text(places)}"
                self.report.found.add_always(Finding(Code.SPLIT_STREAM, text))
