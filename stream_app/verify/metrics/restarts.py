"""When the figures of a learner began again: by an act, between two of its records of metrics; pure.

A record of metrics is compared with the one before it and with what predictions and outcomes give, so the checks must
know which acts lie between. The reference join says how many records each learner had published when an act came; the
number of a record in its topic then says which acts came before it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from stream_app.config import TaskSettings
from stream_app.verify.reference_drift import ExpectedDrift
from stream_app.verify.reference_state import ReferenceStream, Reported

Model: TypeAlias = tuple[str, str]
"""A stream and a learner."""


class ActsBefore(NamedTuple):
    """The acts before a record of metrics that concern its learner.

    Attributes:
        resets: Resets of the stream before it; the counts begin again with each.
        begun: How often a configuration has added the learner since the last reset; its prequential sums begin again.
        detectors: Changes of the change detector before it.
    """

    resets: int
    begun: int
    detectors: int


class _Reset(NamedTuple):
    """The labels of a stream when it was reset, and the records of metrics that each learner had published."""

    labelled: int
    reported: Mapping[str, int]


@dataclass
class FigureRestarts:
    """The acts of one task that let figures begin again, in the order of progress.

    `drifts` has by stream, learner and number of a record of metrics what it must say of drift.
    """

    drifts: dict[tuple[str, str, int], ExpectedDrift] = field(default_factory=dict)
    _reported: Counter[Model] = field(default_factory=Counter)
    _resets: defaultdict[str, list[_Reset]] = field(default_factory=lambda: defaultdict(list))
    _begun: defaultdict[Model, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    _detectors: defaultdict[Model, list[int]] = field(default_factory=lambda: defaultdict(list))

    def report(self, event: Reported) -> None:
        """Count a record of metrics that must have been published."""
        if event.drift is not None:
            self.drifts[event.stream, event.learner, self._reported[event.stream, event.learner]] = event.drift
        self._reported[event.stream, event.learner] += 1

    def reset(self, stream: ReferenceStream) -> None:
        """Note that a stream, which is as it was before, was reset."""
        reported = {learner: count for (name, learner), count in self._reported.items() if name == stream.name}
        self._resets[stream.name].append(_Reset(stream.labelled, reported))

    def configure(self, before: TaskSettings, after: TaskSettings, streams: Iterable[str]) -> None:
        """Note what another configuration lets begin again in these streams."""
        for name in streams:
            had, has = before.of_stream(name).learners, after.of_stream(name).learners
            for learner in has:
                model = name, learner
                if learner not in had:
                    self._begun[model].append((self._reported[model], len(self._resets.get(name, ()))))
                elif before.metrics.change_detector != after.metrics.change_detector:
                    self._detectors[model].append(self._reported[model])

    def labelled_at_resets(self, stream: str) -> list[int]:
        """Return how many labels the stream had had at each reset since the reset before it."""
        return [reset.labelled for reset in self._resets.get(stream, ())]

    def acts_before(self, stream: str, learner: str, number: int) -> ActsBefore:
        """Return which acts precede the learner's record of metrics with this number, from 0 on."""
        model = stream, learner
        resets = sum(number >= reset.reported.get(learner, 0) for reset in self._resets.get(stream, ()))
        begun = sum(number >= first and at == resets for first, at in self._begun.get(model, ()))
        return ActsBefore(resets, begun, sum(number >= first for first in self._detectors.get(model, ())))
