"""Check the topic `metrics` of one task: each record against the record before it, and against `recount`."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from stream_app.config import Config
from stream_app.records import Metric, Outcome, Prediction
from stream_app.verify.metrics.changes import change_fault
from stream_app.verify.metrics.drift import DriftScores, drift_faults
from stream_app.verify.metrics.joined_costs import JoinedCosts
from stream_app.verify.metrics.recount import Recount
from stream_app.verify.metrics.restarts import ActsBefore, FigureRestarts
from stream_app.verify.results import MAX_FINDINGS, Code, Findings, StreamTotals
from stream_app.verify.topic_reader import PartitionReader


class MetricsTopicCheck:
    """The metrics topic of one task, against predictions and outcomes and against itself.

    The metrics of a stream that `arrived` from another partition also count what is published there, so only the fresh
    run checks them.
    """

    def __init__(self, config: Config, partition: int, findings: Findings, arrived: Collection[str] = ()) -> None:
        self._arrived = arrived
        self._config = config
        self._topic = config.topics.metrics
        self._partition = partition
        self._findings = findings
        self._wrong: list[tuple[int, str]] = []
        self._last: dict[tuple[str, str], tuple[int, Metric]] = {}

    def read(
        self,
        reader: PartitionReader,
        restarts: FigureRestarts,
        corrections: Mapping[int, int],
        costs: JoinedCosts | None,
    ) -> Iterator[str]:
        """Compare each record with the one before it and with a recount; yield notes.

        `corrections` has, by the offset of the label that corrects a joined example, the offset of the example;
        `costs` those of the joined examples, None if inputs are gone: then drift is not computed again either.
        """
        topics = self._config.topics
        recount = Recount(
            self._config.metrics,
            reader.decodable(topics.predictions, Prediction),
            reader.decodable(topics.outcomes, Outcome),
            corrections,
            restarts,
            costs,
        )
        scores = DriftScores(reader.decodable(topics.predictions, Prediction))
        numbers: Counter[tuple[str, str]] = Counter()
        places: dict[tuple[str, str], ActsBefore] = {}
        for output in reader.outputs(self._topic, Metric):
            metric = output.content
            name, model = f"{metric.stream}/{metric.learner}", (metric.stream, metric.learner)
            place = restarts.acts_before(*model, numbers[model])
            drift = restarts.drifts.get((*model, numbers[model]))
            numbers[model] += 1
            is_known = costs is not None and metric.stream not in self._arrived
            if is_known and (wrong := "; ".join(drift_faults(metric, drift, scores))):
                self._wrong.append((output.offset, f"{name}: {wrong}"))
            _, before = self._last.get(model, (-1, None))
            had = places.setdefault(model, place)
            places[model] = place
            counts = (metric.labelled, metric.examples)
            if before is not None and had.resets == place.resets and counts < (before.labelled, before.examples):
                self._add(Code.DECREASED_METRIC, output.offset, f"counts of {name} went back")
            if fault := change_fault(metric, before if had == place else None):
                self._add(Code.WRONG_CHANGE, output.offset, f"change of {name}: {fault}")
            if metric.stream in self._arrived:
                recount.unknown += 1
            elif fault := recount.fault(metric, place):
                self._wrong.append((output.offset, f"{name}: {fault}"))
            self._last[metric.stream, metric.learner] = output.offset, metric
        if recount.unknown:
            where = f"{self._topic}[{self._partition}]"
            text = "metrics are checked by the fresh run only: not every prediction of their learners is published"
            text = f"{recount.unknown:,} {text}"
            yield f"{where}: {text}"

    def finish(self, figures: Mapping[str, StreamTotals]) -> None:
        """Add the findings of the recount, and compare the last metrics with the counts of outcomes."""
        for place, text in self._wrong[:MAX_FINDINGS]:
            self._add(Code.WRONG_METRIC, place, text)
        for (stream, learner), (offset, metric) in self._last.items():
            if stream in self._arrived:
                continue  # it also counts what another partition has published
            counts = figures.get(stream, StreamTotals())
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
