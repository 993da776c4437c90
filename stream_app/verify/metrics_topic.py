"""Check the metrics topic of one task with the recount of `metrics_check`."""

from collections.abc import Iterator, Mapping

from stream_app.config import Config
from stream_app.records import Metric, Outcome, Prediction
from stream_app.verify.metrics_check import Recount, change_fault
from stream_app.verify.results import MAX_FINDINGS, Code, Figures, Findings
from stream_app.verify.topic_reader import PartitionReader


class MetricsTopicCheck:
    """The metrics topic of one task, against predictions and outcomes and against itself."""

    def __init__(self, config: Config, partition: int, findings: Findings) -> None:
        self._config = config
        self._topic = config.topics.metrics
        self._partition = partition
        self._findings = findings
        self._wrong: list[tuple[int, str]] = []
        self._last: dict[tuple[str, str], tuple[int, Metric]] = {}

    def read(
        self,
        reader: PartitionReader,
        reset: frozenset[str],
        dropped: Mapping[tuple[str, str], int],
        *,
        is_counted: bool,
    ) -> Iterator[str]:
        """Compare each record with the one before it and with a recount; yield notes.

        Args:
            reader: Reads the topics.
            reset: Streams that were reset, which are not counted again.
            dropped: Learners that a configuration removed, with the stream's number of labels at the removal.
            is_counted: Whether the other streams are.
        """
        topics, join = self._config.topics, self._config.join
        recount = Recount(
            self._config.metrics.fading_factor,
            reader.decodable(topics.predictions, Prediction),
            reader.decodable(topics.outcomes, Outcome),
            join.max_closed_per_stream if join.corrections == "correct" else 0,
            join.closed_ttl_ms,
            dropped,
        )
        for output in reader.outputs(self._topic, Metric):
            metric = output.content
            if metric.stream in reset or not is_counted:
                continue
            name = f"{metric.stream}/{metric.learner}"
            _, before = self._last.get((metric.stream, metric.learner), (-1, None))
            if before is not None and (metric.labelled, metric.examples) < (before.labelled, before.examples):
                self._add(Code.DECREASED_METRIC, output.offset, f"counts of {name} went back")
            if fault := change_fault(metric, before):
                self._add(Code.WRONG_CHANGE, output.offset, f"change of {name}: {fault}")
            if fault := recount.fault(metric):
                self._wrong.append((output.offset, f"{name}: {fault}"))
            self._last[metric.stream, metric.learner] = output.offset, metric
        if recount.unknown:
            where = f"{self._topic}[{self._partition}]"
            text = "metrics are checked by the fresh run only: not every prediction of their learners is published"
            text = f"{recount.unknown:,} {text}"
            yield f"{where}: {text}"

    def finish(self, figures: Mapping[str, Figures]) -> None:
        """Add the findings of the recount, and compare the last metrics with the counts of outcomes."""
        for place, text in self._wrong[:MAX_FINDINGS]:
            self._add(Code.WRONG_METRIC, place, text)
        for (stream, learner), (offset, metric) in self._last.items():
            counts = figures.get(stream, Figures())
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
