"""`InProcess`: send examples and labels to the real worker, and read its outputs, without Kafka."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from stream_app.admin.marks import erase, ids_by_name
from stream_app.admin.models import Application
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.reading import Row, rows_of
from stream_app.backends.retention import FOREVER
from stream_app.config import Config
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.records import Example, Label, Mark, MarkKind, Metric, Outcome, Prediction, Value
from stream_app.serialization.codec import decode_one, encode
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.wire_format import format_of
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

Output = TypeVar("Output", Prediction, Outcome, Metric)

_MAX_IDLE_TURNS = 1_000
"""Turns of the worker without progress before `run` gives up. A commit takes two or three turns, a restore a few."""

MAX_SILENCE_S = 301.0
"""The in-process log removes a member from the group when the member has not polled for five minutes."""


class InProcess:
    """An application with one worker and one partition over an in-process log.

    There is no wall clock: a record without a timestamp is one millisecond later than the record before it, and the
    worker's clock moves when the worker waits. Two runs of the same program give the same bits.

    Args:
        config: A configuration, as `stream_app.config.load` returns it. By default it is made from the sections.
        sections: Sections of the configuration file: `streams={"pumps": {"features": 2}}`.

    Raises:
        ConfigurationError: A setting is wrong.

    Example:
        >>> application = InProcess(streams={"pumps": {"features": 1}})
        >>> application.send_example("pumps", "pump-1", [0.5])
        >>> application.send_label("pumps", "pump-1", 1)
        >>> application.run()
        >>> [outcome.outcome for outcome in application.outcomes()]
        ['joined']
    """

    def __init__(self, config: Config | None = None, **sections: Any) -> None:  # noqa: ANN401  (sections of a file)
        self.config = _config(sections) if config is None else config
        self._wire_format = format_of(self.config.serialization)
        self._clock = ManualClock()
        self._time_ms = self._clock.now_ms()
        self._broker = EmbeddedBroker(self._clock)
        self._cluster = EmbeddedCluster(self._broker)
        topics = topic_plan.plan(
            self.config.topics,
            1,
            max_clock_lead_ms=self.config.join.max_clock_lead_ms,
            max_record_bytes=self.config.limits.max_record_bytes,
            retention_ms=FOREVER,  # there is no wall clock
        )
        self._cluster.create(topics, 1)
        self._sender = EmbeddedSender(self._broker)
        self._worker = self._started()

    def send_example(
        self, stream: str, id_: str, features: Sequence[float] | Mapping[str, Value], time_ms: int | None = None
    ) -> None:
        """Send an example.

        Args:
            stream: Its stream; if it has lanes, the id decides the lane.
            id_: Its id within the stream, 1 to 64 bytes.
            features: Its numbers, as many as in every example of the stream; or, if the stream has columns, its values
                by column, where None is a missing value.
            time_ms: Its event time in milliseconds since 1970; by default one millisecond after the last record.

        Raises:
            ValueError: The id or a feature cannot be sent as it stands; the message names the value.
        """
        name = self.config.name_of(stream, id_)
        if isinstance(features, Mapping):
            value = encode(Example(name, id_, values=features), self._wire_format)
        else:
            value = encode(Example(name, id_, features), self._wire_format)
        self._send(self.config.topics.examples, name, value, time_ms)

    def send_label(self, stream: str, id_: str, label: int, time_ms: int | None = None, revision: int = 0) -> None:
        """Send the class, 0 or 1, of the example with this id.

        Args:
            stream: The stream of the example.
            id_: The id of the example.
            label: The class. 1 is the positive class, usually the rare one.
            time_ms: As in `send_example`.
            revision: A higher one corrects an earlier label if `join.corrections` is `correct`.

        Raises:
            ValueError: The id or the label cannot be sent as it stands, such as a label of 0.98.
        """
        name = self.config.name_of(stream, id_)
        value = encode(Label(name, id_, label, revision), self._wire_format)
        self._send(self.config.topics.labels, name, value, time_ms)

    def end_stream(self, stream: str) -> None:
        """Close the pending examples of a stream and publish its metrics: send a pair of `advance` marks.

        It closes at most `join.max_closings_per_record`: if more are pending, call it again.
        """
        for name in self.config.names_of(stream):
            mark = encode(Mark(name, MarkKind.ADVANCE, time_ms=self._time_ms), self._wire_format)
            for topic in (self.config.topics.examples, self.config.topics.labels):
                self._send(topic, name, mark, self._time_ms)

    def resume(self, stream: str) -> None:
        """Let a stream continue that the breaker has stopped: send a `resume` mark, as `areba resume` does."""
        for name in self.config.names_of(stream):
            mark = encode(Mark(name, MarkKind.RESUME), self._wire_format)
            self._send(self.config.topics.examples, name, mark, self._time_ms)

    def erase(self, stream: str, ids: Sequence[str]) -> None:
        """Erase examples from what the application keeps, as `areba erase` does; call `run` afterwards.

        Raises:
            ConfigurationError: There is no such stream, or an id is empty or too long.
            StateError: The breaker has stopped the stream.
        """
        application = Application(self.config, self._cluster, self._clock, partial(EmbeddedTransaction, self._broker))
        for name, own in ids_by_name(self.config, stream, ids).items():
            erase(application, EmbeddedSender(self._broker), name, own, 0)

    def run(self) -> None:
        """Let the worker process everything that was sent.

        Raises:
            StateError: The worker does not continue; the log has the reason.
        """
        idle, reached = 0, self._committed()
        while reached != self._sent():
            self._worker.turn()
            before, reached = reached, self._committed()
            idle = idle + 1 if reached == before else 0
            if idle > _MAX_IDLE_TURNS:
                raise StateError(
                    f"the worker stopped at offsets {reached} of {self._sent()}; the log has the reason",
                    ErrorCode.NO_RECORDS,
                )

    def crash(self) -> None:
        """Drop the worker without a commit, as `kill -9` would, and start another, which restores the state."""
        self._clock.advance(MAX_SILENCE_S)
        self._worker = self._started()

    def predictions(self) -> list[Prediction]:
        """Return all predictions, in the order of the examples."""
        return self._outputs(self.config.topics.predictions, Prediction)

    def outcomes(self) -> list[Outcome]:
        """Return how each example was closed, in the order in which that happened."""
        return self._outputs(self.config.topics.outcomes, Outcome)

    def metrics(self) -> list[Metric]:
        """Return the metrics of all learners, oldest first."""
        return self._outputs(self.config.topics.metrics, Metric)

    def dead_letters(self) -> list[DeadLetterRecord]:
        """Return the records that could not be processed, each with its reason."""
        rows = self.rows(self.config.topics.dead_letters)
        letters = (DeadLetterRecord.read(row.key, row.value, row.headers) for row in rows)
        return [letter for letter in letters if letter is not None]

    def _started(self) -> Worker:
        ports = Ports(
            EmbeddedSource(self._broker, self.config.group_id),
            EmbeddedTransaction(self._broker, self.config.transactional_id),
            self._cluster,
            self._clock,
            partial(EmbeddedTransaction, self._broker),
        )
        worker = Worker(self.config, ports, Observer(self._clock))
        worker.start()
        return worker

    def _send(self, topic: str, stream: str, value: bytes, time_ms: int | None) -> None:
        self._time_ms = self._time_ms + 1 if time_ms is None else time_ms
        self._sender.send(topic, stream.encode(), value, self._time_ms)

    @property
    def _inputs(self) -> tuple[TopicPartition, TopicPartition]:
        return TopicPartition(self.config.topics.examples, 0), TopicPartition(self.config.topics.labels, 0)

    def _sent(self) -> tuple[int, ...]:
        return tuple(self._cluster.watermarks(partition).high for partition in self._inputs)

    def _committed(self) -> tuple[int, ...]:
        found = self._cluster.committed(self.config.group_id, self._inputs)
        return tuple(found[partition] or 0 for partition in self._inputs)

    def rows(self, topic: str) -> Iterator[Row]:
        """Yield all committed records of a topic as they are on the log."""
        yield from rows_of(self._cluster, TopicPartition(topic, 0))

    def _outputs(self, topic: str, kind: type[Output]) -> list[Output]:
        records = (decode_one(row.value or b"", self._wire_format) for row in self.rows(topic))
        return [record for record in records if isinstance(record, kind)]


def _config(sections: Mapping[str, Any]) -> Config:
    """Make a configuration of sections.

    Raises:
        ConfigurationError: One line for each wrong setting.
    """
    application = {"instance": "in-process", **sections.get("application", {})}
    try:
        return Config.model_validate({**sections, "application": application})
    except ValidationError as error:
        found = error.errors(include_url=False)
        lines = [f"{'.'.join(map(str, details['loc']))}: {details['msg']}".removeprefix(": ") for details in found]
        raise ConfigurationError(lines) from error
