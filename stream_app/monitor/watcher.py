"""Read the topics of a running application into the model, from their ends on and in bounded steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from stream_app.backends.base import Clock, Fetched, TopicPartition
from stream_app.backends.following import FollowableCluster
from stream_app.config import Config
from stream_app.errors import TopicError, UndecodableError, UnknownOutcomeError, WrongSchemaError
from stream_app.monitor.drift import DriftReader
from stream_app.monitor.figures import LiveFigures
from stream_app.monitor.lanes import Lanes
from stream_app.monitor.model import LiveModel
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import RawRecords
from stream_app.records import Metric, Outcome, Prediction, stream_of_key
from stream_app.serialization.avro import Record
from stream_app.serialization.codec import decode_one
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.wire_format import format_of

TAILS: Mapping[str, int] = {
    "examples": 1_000,
    "predictions": 1_000,
    "outcomes": 200,
    "metrics": 2_000,
    "dead_letters": 2_000,
    "progress": 20,
}
"""The topics that are read, and how many records at the end of each partition are read first."""

POLL_RECORDS = 2_000
"""Records in one poll: some MB with the largest values, and some 20 ms of work."""

MAX_POLLS = 10
"""Polls in one update, so that an update ends."""

MAX_FULL_UPDATES = 3
"""After this many updates that did not reach the ends, the watcher continues at the ends, to show the present."""

_CATCH_UP_S = 30.0
"""The longest time to read the tails; after that, the watcher shows what it has."""

POLL_S = 0.1

TOPICS_CHECKED_S = 30.0
"""Time between two questions whether all topics still exist: a client does not report soon that one was deleted. As for
the worker's own (`worker/retention/topic_watch.py`), the memory of each answer is never freed."""


class Watcher:
    """Follows one application.

    Args:
        cluster: Where the topics are.
        config: The application's configuration.
        clock: Measures rates.
        model: What reads into it; by default a new one.
        tails: By kind of topic, how many records at the end of each partition are read first.

    Raises:
        TopicError: A topic does not exist, or the broker refuses to let us read it.
        UnknownOutcomeError: The broker did not answer in time.

    Attributes:
        model: What was read so far.
        tasks: Number of partitions of the progress topic.
    """

    def __init__(
        self,
        cluster: FollowableCluster,
        config: Config,
        clock: Clock,
        *,
        model: LiveModel | None = None,
        tails: Mapping[str, int] = TAILS,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._wire_format = format_of(config.serialization)
        self._kinds = {getattr(config.topics, kind): kind for kind in TAILS}
        self._tails = tails
        drift = DriftReader(config.task_settings().streams)
        known = LiveModel(config.record_streams, drift=drift, lanes=Lanes.of(config))
        self.model = known if model is None else model
        found = cluster.topics(self._kinds)
        missing = [f"{name}: there is no such topic" for name in self._kinds if name not in found]
        if missing:
            raise TopicError(missing)
        self.tasks = found[config.topics.progress].partitions
        partitions = [
            TopicPartition(name, number) for name, topic in found.items() for number in range(topic.partitions)
        ]
        ends = {partition: end.stable for partition, end in cluster.ends(partitions).items()}
        starts = {partition: max(0, end - self._tail(partition)) for partition, end in ends.items()}
        if any(starts[one] for one in partitions if one.topic == config.topics.dead_letters):
            self.model.note_older_dead_letters()
        self._ends_at_start = ends
        self._positions = starts
        self._full_updates = 0
        self._unreadable = 0
        self._gone: tuple[str, ...] = ()
        self._checked_s = clock.monotonic_s()
        self._adding: Mapping[str, Callable[[TopicPartition, RawRecords], None]] = {
            "examples": self._add_examples,
            "predictions": self._add_predictions,
            "outcomes": self._add_outcomes,
            "metrics": self._add_metrics,
            "dead_letters": self._add_dead_letters,
            "progress": self._add_progress,
        }
        self._follower = cluster.follow(starts)

    def _tail(self, partition: TopicPartition) -> int:
        return self._tails[self._kinds[partition.topic]]

    def catch_up(self, on_progress: Callable[[float], None] = lambda _: None) -> None:
        """Read what was in the topics when the watcher was made; from then on, rates are measured.

        Args:
            on_progress: Is called after each poll with the part that was read, from 0 to 1.
        """
        waiting = {partition for partition, end in self._ends_at_start.items() if self._positions[partition] < end}
        total = self._left(waiting)
        deadline_s = self._clock.monotonic_s() + _CATCH_UP_S
        while waiting and self._clock.monotonic_s() < deadline_s:
            for fetched in self._follower.poll(POLL_RECORDS, POLL_S):
                self._take(fetched)
                place = fetched.partition
                if fetched.at_end or self._positions[place] >= self._ends_at_start[place]:
                    waiting.discard(place)
            on_progress(1 - self._left(waiting) / total)
        self.model.tick(self._clock.monotonic_s())

    def _left(self, waiting: Iterable[TopicPartition]) -> int:
        """Return the number of offsets from the positions to the ends that these partitions had at the start."""
        return sum(self._ends_at_start[partition] - self._positions[partition] for partition in waiting)

    def update(self) -> None:
        """Read what has arrived since, without waiting."""
        now_s = self._clock.monotonic_s()
        self.model.tick(now_s)
        if now_s - self._checked_s >= TOPICS_CHECKED_S and not self._follower.problems:
            self._checked_s = now_s
            with suppress(TopicError, UnknownOutcomeError):
                existing = self._cluster.topics(self._kinds)
                self._gone = tuple(name for name in self._kinds if name not in existing)
        for _ in range(MAX_POLLS):
            found = self._follower.poll(POLL_RECORDS, 0.0)
            if not found:
                self._full_updates = 0
                return
            for fetched in found:
                self._take(fetched)
        self._full_updates += 1
        if self._full_updates >= MAX_FULL_UPDATES:
            with suppress(TopicError, UnknownOutcomeError):
                self._skip()

    def _skip(self) -> None:
        """Continue near the ends where more has come than can be read."""
        self._full_updates = 0
        starts = {
            partition: max(self._positions[partition], end.stable - self._tail(partition))
            for partition, end in self._cluster.ends(list(self._positions)).items()
            if end.stable - self._positions[partition] > POLL_RECORDS
        }
        self.model.note_skipped(sum(start - self._positions[partition] for partition, start in starts.items()))
        self._positions.update(starts)
        self._follower.start_at(starts)

    def figures(self) -> LiveFigures:
        """Return the figures of this moment."""
        return self.model.figures(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from (f"{name}: the topic was deleted" for name in self._gone)
        yield from (line for line in self._follower.problems if line.partition(":")[0] not in self._gone)
        if self._unreadable:
            yield f"records that are not of this application: {self._unreadable:,}"

    def close(self) -> None:
        """Release the clients."""
        self._follower.close()

    # Records ----------------------------------------------------------------------------------------------------------

    def _take(self, fetched: Fetched) -> None:
        records = fetched.records
        if len(records):
            self._adding[self._kinds[fetched.partition.topic]](fetched.partition, records)
            self._positions[fetched.partition] = int(records.offsets[-1]) + 1

    def _add_examples(self, place: TopicPartition, records: RawRecords) -> None:
        rows = zip(records.keys, records.offsets.tolist(), records.timestamps.tolist(), strict=True)
        for key, offset, time_ms in rows:
            self.model.add_example(stream_of_key(key), place.partition, offset, time_ms)

    def _add_predictions(self, place: TopicPartition, records: RawRecords) -> None:
        for _, record in self._decoded(records):
            if isinstance(record, Prediction):
                self.model.add_prediction(record, place.partition)

    def _add_outcomes(self, place: TopicPartition, records: RawRecords) -> None:
        for _, record in self._decoded(records):
            if isinstance(record, Outcome):
                self.model.add_outcome(record, place.partition)

    def _add_metrics(self, place: TopicPartition, records: RawRecords) -> None:
        for _, record in self._decoded(records):
            if isinstance(record, Metric):
                self.model.add_metric(record, place.partition)

    def _add_dead_letters(self, place: TopicPartition, records: RawRecords) -> None:
        for row, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
            letter = DeadLetterRecord.read(key, value, records.headers.get(row, ()))
            if letter is not None:
                self.model.add_dead_letter(stream_of_key(key), letter.reason, place.partition)

    def _add_progress(self, place: TopicPartition, records: RawRecords) -> None:
        for _, record in self._decoded(records):
            if isinstance(record, Commit | Act):
                self.model.add_progress(place.partition, record)

    def _decoded(self, records: RawRecords) -> Iterator[tuple[int, Record]]:
        """Yield the number and the record of each row that can be decoded; count the other rows."""
        for row, value in enumerate(records.values):
            try:
                yield row, decode_one(value or b"", self._wire_format)
            except (UndecodableError, WrongSchemaError):
                self._unreadable += 1
