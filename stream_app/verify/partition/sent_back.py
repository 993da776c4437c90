"""Dead letters that were sent back to their input, against the records of the resend tool that say so."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from stream_app.backends.reading import Row
from stream_app.serialization.dead_letter import Resend, read_sent_back
from stream_app.verify.reference_state import Record
from stream_app.verify.results import Code, Findings


@dataclass
class SentBack:
    """Dead letters that were sent back to their input, against the records of the resend tool that say so."""

    topic: str
    partition: int
    findings: Findings
    low: int = 0  # the first dead letter that is left; what says that an older one was sent back may be gone as well
    marks: dict[int, int] = field(default_factory=dict)  # by dead letter, the record that says it was sent back
    inputs: dict[int, tuple[str, int]] = field(default_factory=dict)  # by dead letter, the input record

    def observe_input(self, topic: str) -> Callable[[Record], None]:
        """Return what takes the processed records of an input."""

        def observe(record: Record) -> None:
            resend = Resend.read(record.headers)
            if resend is None or (resend.topic, resend.partition) != (self.topic, self.partition):
                return  # or a dead letter of another application
            where = f"{resend.topic}[{resend.partition}] offset {resend.offset}"
            before = self.inputs.setdefault(resend.offset, (topic, record.offset))
            if before != (topic, record.offset):
                first = f"{before[0]}[{self.partition}] offset {before[1]}"
                text = f"is the dead letter {where}, sent back a second time: {first} was it"
                self.findings.add(Code.SENT_BACK_TWICE, topic, self.partition, record.offset, text)

        return observe

    def observe_mark(self, row: Row) -> None:
        """Take a record of the dead-letters topic that a resend wrote."""
        letter = read_sent_back(row.headers)
        if letter is None:
            return
        before = self.marks.setdefault(letter, row.offset)
        if before != row.offset:
            text = f"says that offset {letter} was sent back, as offset {before} does"
            self.findings.add(Code.SENT_BACK_TWICE, self.topic, self.partition, row.offset, text)

    def finish(self, elsewhere: Collection[int] = ()) -> Iterator[str]:
        """Add a finding for every dead letter that was sent back unmarked; yield a note for those not yet processed.

        Those `elsewhere` were sent to another partition.
        """
        where = f"{self.topic}[{self.partition}]"
        for letter, (topic, offset) in self.inputs.items():
            if letter not in self.marks and letter >= self.low:
                text = f"is the dead letter {where} offset {letter}, but no record there says that it was sent back"
                self.findings.add(Code.SENT_BACK_UNMARKED, topic, self.partition, offset, text)
        if newer := len(self.marks.keys() - self.inputs.keys() - set(elsewhere)):
            yield f"{where}: {newer:,} dead letters that were sent back are not yet processed again"
