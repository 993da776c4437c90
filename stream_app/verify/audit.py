"""Compare what one task has published with what the reference join says; pure.

The audit takes the input records along the recorded ranges, as the task did, and the acts between them. From each range
the reference join makes the predictions, outcomes and dead letters that must follow, in order; a record of an output
topic that is missing, additional, at another place or different is a finding. What the join does not decide, the
scores, is compared between the topics: an outcome has the score of the champion's prediction.

Memory: the state of the reference join, one range, and the lookahead of three comparisons.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from stream_app.config import TaskSettings, Topics
from stream_app.progress_records import CONFIGURATION, IMPORT, REPARTITION, RESET, STOP, Act
from stream_app.records import Mark, Outcome, Prediction, Side
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.snapshot.moved_stream import Repartition
from stream_app.snapshot.stops import Stop
from stream_app.verify.metrics.joined_costs import JoinedCosts
from stream_app.verify.metrics.restarts import FigureRestarts
from stream_app.verify.moved_streams import Departed
from stream_app.verify.output_checks import (
    ChampionScores,
    Context,
    DeadLetterHandler,
    Due,
    OutcomeHandler,
    Output,
    PredictionHandler,
)
from stream_app.verify.partition.deleted import Fate
from stream_app.verify.reference_join import ReferenceJoin
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Dead, ExpectedOutcome, Predicted, Record, ReferenceStream, Reported
from stream_app.verify.results import EQUATIONS, Code, Findings, StreamTotals
from stream_app.verify.sequence_check import SequenceCheck

NOTHING_DELETED: Mapping[str, Fate] = MappingProxyType({})


class PartitionAudit:
    """The audit of one task.

    Attributes:
        restarts: When figures began again.
        corrections: By the offset of each label that corrects a joined example, the offset of the example.
        arrived: The streams that came from other partitions.
        moved_letters: The offsets of dead letters that a resend sends to another partition; whole after `finish`.
    """

    def __init__(
        self,
        partition: int,
        *,
        names: Topics,
        settings: TaskSettings,
        predictions: Iterable[Output[Prediction]],
        outcomes: Iterable[Output[Outcome]],
        dead_letters: Iterable[Output[DeadLetterRecord]],
        findings: Findings,
    ) -> None:
        self._context = context = Context(names, partition, findings)
        self._is_configured = False
        self._reference = ReferenceJoin(settings, partition)
        self.restarts = FigureRestarts()
        self.corrections: dict[int, int] = {}
        self.costs = JoinedCosts()
        self.arrived: set[str] = set()
        self._departed: list[ReferenceStream] = []
        self._scores = scores = ChampionScores(context)
        handler = PredictionHandler(context, scores)
        self._alerts = handler.alerts
        self._predictions = SequenceCheck(predictions, handler)
        self._outcomes = SequenceCheck(outcomes, OutcomeHandler(context, scores))
        letters = DeadLetterHandler(context)
        self.moved_letters = letters.moved
        self._dead_letters = SequenceCheck(dead_letters, letters)

    def apply(self, act: Act) -> None:
        """Apply a configuration, the stop, reset or move of streams, or the import of a learner; others change no join.

        Raises:
            StateError: The text of the act cannot be read.
        """
        if act.kind == CONFIGURATION:
            settings = TaskSettings.from_json(act.text)
            if self._is_configured:
                self.restarts.configure(self.settings, settings, self._reference.streams)
                self._reference.reconfigure(settings)
            else:
                self._reference = ReferenceJoin(settings, self._context.partition)
            self._is_configured = True
        elif act.kind == RESET:
            if act.text in self._reference.streams:
                self.restarts.reset(self._reference.streams[act.text])
            self._reference.reset(act.text)
        elif act.kind == STOP:
            self._reference.stopped.setdefault(*Stop.from_text(act.text))
        elif act.kind == IMPORT:
            imported = ImportedModel.from_text(act.text)
            self._reference.import_learner(imported.stream, imported.features)

        elif act.kind == REPARTITION:
            for stream in self._reference.repartition(Repartition.from_text(act.text).after):
                self._count_open(stream, 1)
                self._departed.append(stream)

    def arrive(self, departed: Departed) -> None:
        """Take over a stream that has left another partition."""
        name = departed.stream.name
        self._reference.arrive(departed.stream)
        self.arrived.add(name)
        self._count_open(departed.stream, -1)
        self._scores.carry(name, departed.predictions)

    def departed(self) -> Mapping[str, Departed]:
        """Return the streams that have left this partition; call `finish` before."""
        return {stream.name: Departed(stream, self._scores.left(stream.name)) for stream in self._departed}

    def _count_open(self, stream: ReferenceStream, sign: int) -> None:
        """Count what is open of a stream: in the partition that it leaves, and not again where it arrives."""
        figures = self._context.figures_of(stream.name)
        figures.pending += sign * len(stream.pending)
        figures.waiting += sign * len(stream.waiting)

    @property
    def stopped(self) -> Mapping[str, str]:
        """The reasons of the streams that are stopped, by stream, the oldest stop first."""
        return self._reference.stopped

    def notes(self) -> Iterator[str]:
        """Yield what was not compared."""
        if unknown := self._alerts.unknown:
            where = f"{self._context.names.predictions}[{self._context.partition}]"
            text = "thresholds are checked by the fresh run only: not every prediction before them is in the topic"
            yield f"{where}: {unknown:,} {text}"

    @property
    def settings(self) -> TaskSettings:
        """The settings in force."""
        return self._reference.settings

    def take(
        self, examples: Iterable[Record], labels: Iterable[Record], fates: Mapping[str, Fate] = NOTHING_DELETED
    ) -> None:
        """Process the records of the next range, and compare their outputs with the published outputs.

        A topic without a fate keeps all outputs.
        """
        reference = self._reference
        causes: list[Record] = []
        begin = reference.position + 1
        for record in merge(examples, labels):
            self._count_input(record)
            causes.append(record)
            reference.apply(record)
        due: dict[type, list[Due[Any]]] = {Predicted: [], ExpectedOutcome: [], Dead: []}
        for event in reference.take_events():
            if isinstance(event, Reported):
                self.restarts.report(event)
            elif isinstance(event, ExpectedOutcome) and event.corrects is not None and event.label_offset is not None:
                self.corrections[event.label_offset] = event.corrects
            if isinstance(event, ExpectedOutcome) and event.outcome == "joined":
                self.costs.add(event.stream, event.costs)
            if type(event) in due:
                due[type(event)].append(Due(event, causes[event.position - begin]))
            if isinstance(event, Dead) and isinstance(event.record.meaning, Mark):
                figures = self._context.figures_of(event.record.stream)
                figures.count_mark(event.record.side, -1)
        self._predictions.expect(due[Predicted], fates.get("predictions", "kept"))
        self._outcomes.expect(due[ExpectedOutcome], fates.get("outcomes", "kept"))
        self._dead_letters.expect(due[Dead], fates.get("dead_letters", "kept"))

    def finish(self, explains_more: Callable[[], bool], *, is_whole: bool = True) -> dict[str, StreamTotals]:
        """Compare what is left.

        Args:
            explains_more: See `SequenceCheck.finish`.
            is_whole: Whether the topics still have all outputs; else the records cannot add up.

        Returns:
            Counts by stream.
        """
        for check in (self._predictions, self._outcomes, self._dead_letters):
            check.finish(explains_more)
        if not is_whole:
            return {}
        for stream in (*self._reference.leftovers, *self._reference.streams.values()):
            self._count_open(stream, 1)
        for name, figures in self._context.figures.items():
            for equation in EQUATIONS:
                left, *others = map(figures.count, equation.values())
                if left != (right := sum(others)):
                    text = f"stream {name}: off by {left - right:+,}: {' '.join(equation)}; {left:,}, not {right:,}"
                    self._context.add(Code.WRONG_TOTALS, self._context.names.inputs[0], None, text)

        return self._context.figures

    def _count_input(self, record: Record) -> None:
        figures = self._context.figures_of(record.stream)
        if record.side is Side.EXAMPLES:
            figures.examples += 1
        else:
            figures.labels += 1
        if record.meaning is None:
            figures.count_tombstone(record.side)
        if isinstance(record.meaning, Mark):
            figures.count_mark(record.side, 1)
