"""Counts what a replay sends, chunk by chunk, for the manifest."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.events import id_prefix
from stream_app.producers.manifest import Counts, DriftPoint, FaultCounts, FaultNumbers, StreamManifest
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.schedule import DATA, GARBAGE, MARK, Extent, Schedule
from stream_app.records import Side


@dataclass(slots=True)
class StreamTally:
    """What was sent of one stream so far.

    Attributes:
        plan: The plan of the replay.
        index: The stream's index in it.
        extent: The extent of the replay.
        sent: Distinct examples or labels, by side and by class: negative, positive, not known.
        unmet: Labels whose example is dropped.
        marks: Marks on both topics.
        garbage: Records of random bytes, by side.
        out_of_order: Records with a smaller time than an earlier record of their topic.
        latest: The largest time so far, by side.
        again: Numbers of the records that came again, by kind.
    """

    plan: Plan
    index: int
    extent: Extent
    sent: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(Side), 3), np.int64))
    unmet: int = 0
    marks: int = 0
    garbage: list[int] = field(default_factory=lambda: [0] * len(Side))
    out_of_order: int = 0
    latest: list[int] = field(default_factory=lambda: [-(2**63)] * len(Side))
    again: dict[str, list[int]] = field(
        default_factory=lambda: {"duplicate_examples": [], "duplicate_labels": [], "conflicting_labels": []}
    )

    def add(self, chunk: Schedule) -> None:
        """Count the stream's records of a chunk."""
        mine = chunk.streams == self.index
        sides, contents, repeats = chunk.sides[mine], chunk.contents[mine], chunk.repeats[mine]
        numbers, labels, times = chunk.numbers[mine], chunk.labels[mine], chunk.times[mine]
        self.marks += int((contents == MARK).sum())
        stream = self.plan.streams[self.index]
        for side in Side:
            of_side = sides == side
            self.garbage[side] += int((contents[of_side] == GARBAGE).sum())
            self._add_times(side, times[of_side])
            first = numbers[of_side & (contents == DATA) & ~repeats]
            self.sent[side] += np.bincount(stream.classes(first) % 3, minlength=3)
            if side == Side.LABELS:
                self.unmet += int(np.isin(first, self.extent.dropped[self.index]).sum())
        again = (contents == DATA) & repeats
        is_same = labels == stream.classes(numbers)
        self.again["duplicate_examples"] += numbers[again & (sides == Side.EXAMPLES)].tolist()
        self.again["duplicate_labels"] += numbers[again & (sides == Side.LABELS) & is_same].tolist()
        self.again["conflicting_labels"] += numbers[again & (sides == Side.LABELS) & ~is_same].tolist()

    def _add_times(self, side: Side, times: NDArray[np.int64]) -> None:
        latest = np.maximum.accumulate(np.concatenate([[self.latest[side]], times]))
        self.out_of_order += int((times < latest[1:]).sum())
        self.latest[side] = int(latest[-1])

    def manifest(self) -> StreamManifest:
        """Return the stream's part of the manifest."""
        plan, stream = self.plan, self.plan.streams[self.index]
        first_ms = stream.times_ms(np.zeros(1, np.int64), plan.origin_ms)
        dropped = self.extent.dropped[self.index].tolist()
        examples, labels = (_counts(self.sent[side]) for side in Side)
        again = {name: tuple(sorted(numbers)) for name, numbers in self.again.items()}
        return StreamManifest(
            stream=stream.stream,
            data=stream.data.name,
            source=stream.data.source,
            features=stream.data.dimension,
            loops=stream.loops,
            id_prefix=id_prefix(plan, stream),
            start_ms=plan.start + int(first_ms[0]),
            interval_ms=stream.interval,
            end_ms=plan.start + self.extent.ends_ms[self.index],
            label_delay=str(stream.delay) if stream.data.label_times_ms is None else "own times",
            unlabelled_share=stream.unlabelled_share,
            examples=examples,
            labels=labels,
            never_labelled=examples.sent - (labels.sent - self.unmet),
            marks_per_topic=self.marks // len(Side),
            faults=FaultCounts(
                **{name: len(numbers) for name, numbers in again.items()},
                dropped_examples=len(dropped),
                garbage_examples=self.garbage[Side.EXAMPLES],
                garbage_labels=self.garbage[Side.LABELS],
                out_of_order=self.out_of_order,
            ),
            fault_numbers=FaultNumbers(**again, dropped_examples=tuple(dropped)),
            drifts=_drifts(stream, plan.start),
            lanes=stream.lanes,
        )


def _counts(by_class: NDArray[np.int64]) -> Counts:
    return Counts(sent=int(by_class.sum()), positive=int(by_class[1]), negative=int(by_class[0]))


def _drifts(stream: StreamPlan, start_ms: int) -> tuple[DriftPoint, ...]:
    kind, step = stream.data.drift_kind, stream.data.drift_step
    if kind is None or step is None:
        return ()
    steps = (step + loop * len(stream.data) for loop in range(stream.loops))
    return tuple(DriftPoint(kind, at, start_ms + at * stream.interval) for at in steps)
