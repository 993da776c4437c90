"""Check the chain of progress records of one task: sequences and ranges."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from stream_app.errors import StateError
from stream_app.progress_records import CONFIGURATION, REPARTITION, SKIP, Act, Commit
from stream_app.snapshot.parts import WholeActs
from stream_app.snapshot.skipped_inputs import Gap
from stream_app.verify.results import Code, Findings


class ProgressStep(NamedTuple):
    """A progress record at its offset; a whole act has the offset of its last part. `gap` belongs to an act `skip`."""

    offset: int
    record: Commit | Act
    gap: Gap | None = None


class ProgressCheck:
    """The progress records of one task up to its last commit, and the acts after it.

    It begins after the commit record `start`, or with the first record, and ends at `last`, the last commit when it
    began, or at a `repartition` after it.
    """

    def __init__(
        self,
        topic: str,
        inputs: tuple[str, str],
        partition: int,
        last: Commit | None,
        findings: Findings,
        start: Commit | None = None,
    ) -> None:
        self._start = start
        self._topic = topic
        self._inputs = inputs
        self._partition = partition
        self._last = last
        self._findings = findings
        self._whole_acts = WholeActs()

    @property
    def ends(self) -> tuple[int, int]:
        """The input offsets after the last commit, 0 where nothing is committed."""
        return ends_of(self._last)

    def steps(self, records: Iterator[tuple[int, Commit | Act]]) -> Iterator[ProgressStep]:
        """Yield commits and whole acts up to the last commit or `repartition`, and add a finding for each fault."""
        target = self._last
        if self._start is not None and (target is None or target.sequence < self._start.sequence):
            self._check_start(target)
            return
        after: list[ProgressStep] = []
        sequence, last = (-1 if self._start is None else self._start.sequence), self._start
        for offset, record in records:
            is_after_target = target is None or (last is not None and last.sequence >= target.sequence)
            if is_after_target and isinstance(record, Commit):
                break  # the group is at work
            self._check_sequence(offset, sequence, record)
            sequence = record.sequence
            step = self._step(offset, record)
            if isinstance(record, Commit):
                self._check_ranges(offset, last, record)
                last = record
            elif step is not None and step.gap is not None and last is not None:
                last = replace(last, examples_end=step.gap.end[0], labels_end=step.gap.end[1])
            if step is not None and is_after_target:
                after.append(step)
            if step is not None and (not is_after_target or _is_repartition(step.record)):
                yield from after or [step]
                after.clear()

    def _check_start(self, last: Commit | None) -> None:
        """Find that progress ends before the state after which the check begins."""
        if self._start is not None:
            end = "has no commit" if last is None else f"ends at sequence {last.sequence}"
            text = f"{end}, but sequence {self._start.sequence} was checked before"
            self._add(Code.WRONG_SEQUENCE, None, text)

    def _step(self, offset: int, record: Commit | Act) -> ProgressStep | None:
        """Return the commit, or the act whose last part this is."""
        if isinstance(record, Commit):
            return ProgressStep(offset, record)
        try:
            whole = self._whole_acts.add(record)
            if whole is None:
                return None
            return ProgressStep(offset, whole, Gap.from_text(whole.text) if whole.kind == SKIP else None)
        except StateError as problem:
            self._add(Code.INVALID_ACT, offset, str(problem))
            return None

    def _check_sequence(self, offset: int, sequence: int, record: Commit | Act) -> None:
        """Check that a record follows the record before it."""
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

    def _add(self, code: Code, offset: int | None, text: str) -> None:
        self._findings.add(code, self._topic, self._partition, offset, text)


def _is_repartition(record: Commit | Act) -> bool:
    return isinstance(record, Act) and record.kind == REPARTITION


def ends_of(last: Commit | None) -> tuple[int, int]:
    """Return the input offsets (examples, labels) after the last commit; 0 before the first commit."""
    return (last.examples_end, last.labels_end) if last is not None else (0, 0)
