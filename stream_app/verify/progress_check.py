"""Check the chain of progress records of one task: sequences, ranges, and the committed offsets that name its end."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from stream_app.backends.base import Committed
from stream_app.errors import StateError
from stream_app.records import CONFIGURATION, REPAIR, RESUME, SKIP, Act, Commit
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import Gap, read_gap
from stream_app.verify.results import Code, Findings

METADATA_FIELDS = 3
"""The least that the metadata of a committed offset has: format, sequence and digest. Snapshots may follow."""


class Target(NamedTuple):
    """The last progress record, as the metadata of the committed offsets names it."""

    sequence: int
    digest: str


class Step(NamedTuple):
    """A progress record at its offset; a whole act has the offset of its last part. `gap` belongs to an act `skip`."""

    offset: int
    record: Commit | Act
    gap: Gap | None = None


class ProgressCheck:
    """The progress records of one task up to the committed one.

    Args:
        topic: Full name of the progress topic.
        inputs: Full names of the inputs.
        partition: Number of the task.
        committed: The committed offsets of both inputs.
        findings: Where findings are added.
        start: The commit record after which the check begins; None to begin with the first record.
    """

    def __init__(
        self,
        topic: str,
        inputs: tuple[str, str],
        partition: int,
        committed: tuple[Committed | None, Committed | None],
        findings: Findings,
        start: Commit | None = None,
    ) -> None:
        self._start = start
        self._topic = topic
        self._inputs = inputs
        self._partition = partition
        self._ends = (committed[0].offset if committed[0] else 0, committed[1].offset if committed[1] else 0)
        self._committed = committed
        self._findings = findings
        self._whole_acts = WholeActs()

    @property
    def ends(self) -> tuple[int, int]:
        """The committed offsets, 0 where nothing is committed."""
        return self._ends

    def steps(self, records: Iterator[tuple[int, Commit | Act]]) -> Iterator[Step]:
        """Yield the commits and whole acts up to the committed sequence, and add a finding for every fault."""
        target = self._target()
        sequence, last = (-1 if self._start is None else self._start.sequence), self._start
        for offset, record in records:
            if isinstance(record, Act) and _is_without_effect(record, sequence, is_new=target is None):
                continue
            if target is None:
                text = "a record of the task, but the group has committed no offsets"
                self._add(Code.WRONG_COMMITTED_OFFSETS, offset, text)
                break
            if sequence >= target.sequence:
                break
            self._check_sequence(offset, sequence, record)
            sequence = record.sequence
            step = self._step(offset, record)
            if isinstance(record, Commit):
                self._check_ranges(offset, last, record)
                last = record
            elif step is not None and step.gap is not None and last is not None:
                last = replace(last, examples_end=step.gap.end[0], labels_end=step.gap.end[1])
            if step is not None:
                yield step
        if target is not None:
            self._check_end(target, sequence, last)
        elif self._start is not None:
            text = f"sequence {self._start.sequence} was checked before, but the group has committed no offsets"
            self._add(Code.WRONG_COMMITTED_OFFSETS, None, text)

    def _step(self, offset: int, record: Commit | Act) -> Step | None:
        """Return the commit, or the act whose last part this is."""
        if isinstance(record, Commit):
            return Step(offset, record)
        try:
            whole = self._whole_acts.add(record)
            if whole is None:
                return None
            return Step(offset, whole, read_gap(whole.text) if whole.kind == SKIP else None)
        except StateError as problem:
            self._add(Code.INVALID_ACT, offset, str(problem))
            return None

    def _target(self) -> Target | None:
        """Return what the metadata of the committed offsets names; None where nothing is committed."""
        examples, labels = self._committed
        if examples is None and labels is None:
            return None
        texts = {offset.metadata for offset in self._committed if offset is not None}
        words = texts.pop().split()
        if texts or examples is None or labels is None:
            self._add_to_inputs("the committed offsets of examples and labels do not belong together")
        if len(words) < METADATA_FIELDS or not words[1].isdecimal():
            self._add_to_inputs("the committed offset has no metadata of areba; was the group reset?")
            return None
        return Target(int(words[1]), words[2])

    def _check_sequence(self, offset: int, sequence: int, record: Commit | Act) -> None:
        if record.sequence != sequence + 1:
            self._add(Code.WRONG_SEQUENCE, offset, f"sequence {record.sequence} follows {sequence}")
        if sequence == -1 and not (isinstance(record, Act) and record.kind == CONFIGURATION):
            self._add(Code.MISSING_CONFIGURATION, offset, "the first record is no configuration")

    def _check_ranges(self, offset: int, last: Commit | None, record: Commit) -> None:
        if last is None:
            return
        for topic, start, end in (
            (self._inputs[0], record.examples_start, last.examples_end),
            (self._inputs[1], record.labels_start, last.labels_end),
        ):
            if start != end:
                text = f"sequence {record.sequence} starts at {start} of {topic}, the commit before it ended at {end}"
                self._add(Code.WRONG_RANGE, offset, text)

    def _check_end(self, target: Target, sequence: int, last: Commit | None) -> None:
        """Compare the last commit record with the committed offsets."""
        if last is None or sequence != target.sequence:
            text = f"ends at sequence {sequence}; {target.sequence} is committed"
            self._add(Code.WRONG_SEQUENCE, None, text)
        elif last.digest.hex() != target.digest:
            text = f"sequence {sequence}: its digest is not that of the committed offsets"
            self._add(Code.WRONG_DIGEST, None, text)
        elif (last.examples_end, last.labels_end) != self._ends:
            text = (
                f"sequence {sequence} ends at {last.examples_end}/{last.labels_end}, "
                f"committed are {self._ends[0]}/{self._ends[1]}"
            )
            self._add(Code.WRONG_COMMITTED_OFFSETS, None, text)

    def _add(self, code: Code, offset: int | None, text: str) -> None:
        self._findings.add(code, self._topic, self._partition, offset, text)

    def _add_to_inputs(self, text: str) -> None:
        self._findings.add(Code.WRONG_COMMITTED_OFFSETS, self._inputs[0], self._partition, None, text)


def _is_without_effect(act: Act, sequence: int, *, is_new: bool) -> bool:
    """Say whether an act changes nothing: an operator may repeat it, and a new task may be given models first."""
    return is_new or (act.kind in (RESUME, SKIP, REPAIR) and act.sequence <= sequence)
