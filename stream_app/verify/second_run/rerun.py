"""Run a task again along the recorded ranges, and compare every output with what the topics have.

`audit` and `metrics.recount` compute outputs by rules of their own, without the scores. Here all stages of the
application are run again from the first record on, or from a state of the task, and every output must be equal to the
bit, so that the scores and the models of all learners are compared too. After a difference the comparison continues.

Memory: one task, and the lookahead of the comparison of each output topic.
"""

import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from stream_app.backends.reading import Row, columns_of
from stream_app.config import TaskSettings, Topics
from stream_app.errors import StateError
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.pipeline.outputs import DEAD_LETTERS, GENESIS, OUTPUT_TOPICS, chain_digest
from stream_app.pipeline.task import Task
from stream_app.progress_records import ARRIVAL, CONFIGURATION, REPARTITION, SKIP, Act, Commit
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.records import Header
from stream_app.serialization.dead_letter import is_of_a_resend
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.moved_stream import MovedStream, Repartition
from stream_app.verify.moved_streams import MovedStreams
from stream_app.verify.partition.deleted import Fate, Horizon
from stream_app.verify.results import Code, Findings
from stream_app.verify.second_run.checkpoint import Ended, ended
from stream_app.verify.second_run.start import Start
from stream_app.verify.sequence_check import SequenceCheck
from stream_app.verify.topic_reader import PartitionReader

_MAX_DIFFERENCES = 100
"""Differences after which a topic of a partition is plainly another log, and is compared no further."""


class _Cells(NamedTuple):
    """An output record without its offset and its time in the log."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class _OutputHandler:
    """Takes what a comparison of whole records finds in one output topic.

    Attributes:
        last: The offset of the newest record that was compared.
        differences: Number of findings.
    """

    def __init__(
        self,
        name: str,
        partition: int,
        findings: Findings,
        decode: Callable[[bytes | None], object],
        last: int,
    ) -> None:
        self._name = name
        self._partition = partition
        self._findings = findings
        self._decode = decode
        self.last = last
        self.differences = 0

    def key_of_expected(self, expected: _Cells) -> Hashable:
        """Return the whole record."""
        return expected

    def key_of_found(self, found: Row) -> Hashable:
        """Return the whole record, without its offset and its time in the log."""
        return _cells(found)

    def on_match(self, expected: _Cells, found: Row) -> None:
        """Report a record that differs from the one of the same place."""
        self.last, here = found.offset, _cells(found)
        if here != expected:
            text = ", ".join(self._differences(here, expected))
            self._off(Code.NOT_REPRODUCED, found.offset, f"{self._named(here)} is not that of a fresh run: {text}")

    def on_missing(self, expected: _Cells, previous: Row | None) -> None:
        """Report a missing record."""
        after = self.last if previous is None else previous.offset
        text = f"after offset {after} a fresh run writes {self._named(expected)}, which is missing"
        self._off(Code.MISSING_FROM_TOPIC, None, text)

    def on_misplaced(self, _: _Cells, found: Row) -> None:
        """Report a record that comes too early."""
        text = f"{self._named(_cells(found))} is not what a fresh run writes here"
        self._off(Code.NOT_WRITTEN_BY_RERUN, found.offset, text)

    def on_unexpected(self, found: Row) -> None:
        """Report a record that a fresh run does not write."""
        text = f"{self._named(_cells(found))} is not among what a fresh run writes"
        self._off(Code.NOT_WRITTEN_BY_RERUN, found.offset, text)

    def _off(self, code: Code, offset: int | None, text: str) -> None:
        self.differences += 1
        self._findings.add(code, self._name, self._partition, offset, text)

    def _named(self, cells: _Cells) -> str:
        """Name a record by stream, id and learner."""
        record = self._decode(cells.value)
        names = [f"{name} {getattr(record, name)}" for name in ("stream", "id", "learner") if hasattr(record, name)]
        return f"the record of {', '.join(names)}" if names else "a record"

    def _differences(self, here: _Cells, fresh: _Cells) -> Iterator[str]:
        """Yield what differs between the topic and a fresh run."""
        for name in ("key", "headers"):
            one, two = getattr(here, name), getattr(fresh, name)
            if one != two:
                yield f"{name} {one!r}, not {two!r}"
        if here.value == fresh.value:
            return
        one, two = self._decode(here.value), self._decode(fresh.value)
        if one is None or type(one) is not type(two) or not is_dataclass(one):
            yield "its bytes are others"
            return
        for each in fields(one):
            mine, theirs = getattr(one, each.name), getattr(two, each.name)
            if repr(mine) != repr(theirs):
                yield f"{each.name} {mine}, not {theirs}"


class _Comparison(NamedTuple):
    """The comparison of one output topic, and what takes its results."""

    check: SequenceCheck[_Cells, Row]
    results: _OutputHandler

    def expect(self, records: OutputRecords, fate: Fate) -> None:
        """Add the records that a fresh run writes, unless the topic is plainly another log by now."""
        rows = enumerate(zip(records.keys, records.values, strict=True))
        if self.results.differences < _MAX_DIFFERENCES:
            self.check.expect((_Cells(*cells, tuple(records.headers.get(row, ()))) for row, cells in rows), fate)


def _cells(row: Row) -> _Cells:
    return _Cells(row.key, row.value, tuple(row.headers))


class _Side:
    """One input, read in ranges."""

    def __init__(self, rows: Iterator[Row], begin: int) -> None:
        self._rows = rows
        self._ahead: Row | None = None
        self.end = begin

    def below(self, end: int) -> RawRecords:
        """Return the next records below this offset."""
        rows: list[Row] = []
        while end > self.end and (row := self._ahead or next(self._rows, None)) is not None:
            self._ahead = None
            if row.offset >= end:
                self._ahead = row
                break
            rows.append(row)
        self.end = max(end, self.end)
        return columns_of(rows)


class Rerun:
    """A task that is run again.

    Args:
        reader: Reads the topics of the partition.
        topics: Full names of the topics.
        partition: Number of the task.
        findings: Where findings are added.
        begin: The first input offsets (examples, labels), or the state with which the run begins.
        horizons: Where the output topics begin by now.
        moved: The streams that have left other partitions; this run adds and takes some.

    Attributes:
        stopped: Why the run ended early; None if it did not.
    """

    def __init__(
        self,
        reader: PartitionReader,
        topics: Topics,
        partition: int,
        findings: Findings,
        begin: tuple[int, int] | Start,
        horizons: Mapping[str, Horizon],
        moved: MovedStreams,
    ) -> None:
        self._moved = moved
        self.stopped: str | None = None
        self._reader = reader
        self._partition = partition
        self._inputs, self._progress = topics.inputs, topics.progress
        self._findings = findings
        self._horizons = {name: horizons[name.replace("-", "_")] for name in OUTPUT_TOPICS}
        self._topics: dict[str, _Comparison] = {}  # empty after a snapshot, until a commit says where its outputs are
        self._task: Task | None = None
        self._digests = [GENESIS, GENESIS]  # of this run, and the recorded one
        self._last: tuple[int, Commit] | None = None
        self._before_acts: Ended | None = None
        if isinstance(begin, Start):
            ends, self._since = begin.ends, begin.since
            self._task, self._last = begin.task, (begin.progress_offset, begin.commit)
            self._digests = [begin.commit.digest, begin.commit.digest]
            if begin.outputs:
                self._open({name: begin.outputs[horizon.topic] for name, horizon in self._horizons.items()})
        else:
            ends = self._since = begin
            self._open(dict.fromkeys(OUTPUT_TOPICS, 0))
        self._sides = [_Side(reader.rows(name, end), end) for name, end in zip(topics.inputs, ends, strict=True)]

    def _open(self, firsts: Mapping[str, int]) -> None:
        """Begin to read the output topics at these offsets; a topic that is newer than them, at its beginning."""
        for name, horizon in self._horizons.items():
            first = 0 if horizon.is_of_older else firsts[name]
            rows = self._reader.rows(horizon.topic, first)
            if name == DEAD_LETTERS:
                rows = (row for row in rows if not is_of_a_resend(row.headers))
            results = _OutputHandler(horizon.topic, self._partition, self._findings, self._reader.content, first - 1)
            self._topics[name] = _Comparison(SequenceCheck(rows, results), results)

    def take(self, offset: int, record: Commit | Act) -> None:
        """Process a progress record at this offset."""
        if self.stopped is not None:
            return
        if isinstance(record, Commit):
            self._commit(offset, record)
            return
        self._keep_state()
        if self._task is None and record.kind == CONFIGURATION:
            settings, key = TaskSettings.from_json(record.text), secrets.token_bytes(HASH_KEY_BYTES)
            self._task = Task(self._partition, settings, self._inputs, key)
        elif record.kind == SKIP:
            self.stopped = f"{self._progress}[{self._partition}] offset {offset}: inputs are gone here"
        elif self._task is not None:
            try:
                if record.kind == REPARTITION:
                    self._leave(self._task, Repartition.from_text(record.text).after)
                self._task.apply(self._own_state(offset, record) if record.kind == ARRIVAL else record)
            except StateError as problem:
                self.stopped = f"{self._progress}[{self._partition}] offset {offset}: {problem}"

    def _leave(self, task: Task, partitions: int) -> None:
        """Keep the streams that are about to leave the task."""
        leaving = task.leaving(partitions)
        self._moved.names.update(leaving)
        self._moved.states |= {name: task.moved(name) for name in leaving}

    def _own_state(self, offset: int, arrival: Act) -> Act:
        """Return an arrival with the state that the fresh run of the former partition has; without one, as it is."""
        recorded = MovedStream.from_text(arrival.text)
        own = self._moved.states.pop(recorded.stream, None)
        if own is None:
            return arrival
        text = own.text()
        if text != arrival.text:
            what = f"the state of stream {recorded.stream!r} that came is not that which a fresh run has"
            self._findings.add(Code.WRONG_MODELS, self._progress, self._partition, offset, what)
        return replace(arrival, text=text)

    def _commit(self, offset: int, commit: Commit) -> None:
        if self._task is None:
            self.stopped = f"{self._progress}[{self._partition}]: there is no configuration before offset {offset}"
            return
        if commit.rules != RULES:
            self.stopped = (
                f"{self._progress}[{self._partition}] offset {offset}: sequence {commit.sequence} was processed under "
                f"rules {commit.rules}, this version has rules {RULES}"
            )
            return
        examples, labels = (
            side.below(end) for side, end in zip(self._sides, (commit.examples_end, commit.labels_end), strict=True)
        )
        if not self._topics:
            firsts = {name: getattr(commit, f"{name.replace('-', '_')}_start") for name in OUTPUT_TOPICS}
            if min(firsts.values()) < 0:
                self.stopped = (
                    f"{self._progress}[{self._partition}] offset {offset}: does not say where its outputs are"
                )
                return
            self._open(firsts)
        outputs = self._task.step(examples, labels)
        for name, topic in self._topics.items():
            topic.expect(outputs.topics[name], self._horizons[name].fate(commit))
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        links = [chain_digest(digest, ranges, outputs) for digest in self._digests]
        if commit.digest not in links:
            text = (
                f"sequence {commit.sequence}: digest {commit.digest.hex()[:16]}, a fresh run has {links[0].hex()[:16]}"
            )
            self._findings.add(Code.WRONG_DIGEST, self._progress, self._partition, offset, text)
        self._digests = [links[0], commit.digest]
        self._last, self._before_acts = (offset, commit), None

    def _keep_state(self) -> None:
        """Keep the state after the last commit record, which an act is about to change."""
        if self._before_acts is None and self._task is not None and self._last is not None:
            offset, commit = self._last
            self._before_acts = ended(self._partition, self._task, commit, offset, self._since)

    def ended(self) -> Ended | None:
        """Return what a checkpoint holds of this run; None without a commit record, or if the run ended early."""
        if self.stopped is None:
            self._keep_state()
        if self.stopped is not None or self._before_acts is None:
            return None
        position, blobs = self._before_acts
        ends = {self._horizons[name].topic: topic.results.last + 1 for name, topic in self._topics.items()}
        return Ended(position.model_copy(update={"outputs": ends}), blobs)

    def finish(self, explains_more: Callable[[], bool]) -> None:
        """Compare what is left after the last progress record; see `SequenceCheck.finish`."""
        for topic in self._topics.values():
            if topic.results.differences < _MAX_DIFFERENCES:
                topic.check.finish(lambda: self.stopped is not None or explains_more())

    def models(self) -> str | None:
        """Return the SHA-256 of all models, as a worker logs it at a clean stop; None if the run ended early."""
        if self._task is None or self.stopped is not None:
            return None
        return sha256(repr(sorted(self._task.model_digests().items())).encode()).hexdigest()
