"""One task: all work on one partition number, in seven steps: decode, merge, prepare, join, learn, evaluate, encode.

`Task.step` takes one batch, a range of `examples[p]` and a range of `labels[p]`, and returns its output records. It is
deterministic: the result depends on the records so far, never on the clock, the load of the machine, or where the
records were cut into batches.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.config import Running, StreamSettings, TaskSettings
from stream_app.errors import StateError
from stream_app.join.stream_join import NO_HASH_KEY
from stream_app.key_partition import partition_of
from stream_app.pipeline.batch import InputBatch, open_batch
from stream_app.pipeline.core_forms import CoreForms
from stream_app.pipeline.imported_learner import load_import
from stream_app.pipeline.leftovers import Leftovers, close
from stream_app.pipeline.model_digests import digests_of
from stream_app.pipeline.outputs import Collector, OutputForm, Outputs
from stream_app.pipeline.reconfigure import needs_rebuilding, rebuilt
from stream_app.pipeline.steps.prepare import prepare
from stream_app.pipeline.steps.routed import Routed, count_by_stream, judged, route_records, stopped_until
from stream_app.pipeline.stream import SeedOf, Stream, seed_of
from stream_app.pipeline.stream_set import Streams
from stream_app.pipeline.stream_state import StreamState, load_stream
from stream_app.pipeline.table_pool import TablePool
from stream_app.pipeline.transaction_bounds import Room, costs_of, fitting
from stream_app.progress_records import (
    ADOPT,
    ARRIVAL,
    CONFIGURATION,
    IMPORT,
    REPAIR,
    REPARTITION,
    RESET,
    SKIP,
    SNAPSHOT,
    STOP,
    Act,
)
from stream_app.record_columns import RawRecords
from stream_app.records import Cause, Reason
from stream_app.serialization.decode import DecodeLimits
from stream_app.serialization.names import Names
from stream_app.serialization.wire_format import WireFormat, format_of
from stream_app.snapshot.format import Columns, loading, named
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.snapshot.moved_stream import MovedStream, Repartition
from stream_app.snapshot.stops import Stop

COLUMNS_STATE = "(columns)"
"""Stands for a learner where a digest has what the columns of a stream have learned; no learner has such a name."""


def _decode_limits(settings: TaskSettings) -> DecodeLimits:
    return DecodeLimits(settings.limits.max_record_bytes, settings.limits.max_features, format_of(settings))


class Task:
    """The state of one task and its `step`.

    Args:
        partition: Its partition number.
        settings: Everything that changes a result.
        topics: Full names of the two input topics, `examples` first.
        hash_key: `HASH_KEY_BYTES` bytes that senders of records must not know, see `join.id_table`; no result depends
            on it.
        seed_of: Returns the seed of a learner.

    Attributes:
        settings: As given, or as a configuration changed them.
        stopped: The reasons of the streams that are stopped, by stream, the oldest stop first.
        partitions: The number of partitions to which the application moved last; 0: it never moved. From then on, a
            record of a stream that belongs to another partition is a dead letter.
        core_forms: By which the cores of streams are packed together.
    """

    def __init__(
        self,
        partition: int,
        settings: TaskSettings,
        topics: tuple[str, str],
        hash_key: bytes = NO_HASH_KEY,
        seed_of: SeedOf = seed_of,
    ) -> None:
        self.settings = settings
        self.stopped: dict[str, str] = {}
        self.partitions = 0
        self._topics, self._number = topics, partition
        self._limits = _decode_limits(settings)
        self._streams = Streams(settings, hash_key, seed_of)
        self.core_forms = CoreForms()
        self._changed: set[str] = set()  # since the last snapshot
        self._leftovers: list[Leftovers] = []  # of streams that were reset since the last batch

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The names of the streams that have state, in the order in which they were opened."""
        return tuple(self._streams.names)

    def stream(self, name: str) -> Stream:
        """Return the stream of a name, which the caller must not change.

        Raises:
            KeyError: There is no such stream.
        """
        if (number := self._streams.number_of(name)) < 0:
            raise KeyError(name)
        return self._streams[number]

    @property
    def pool(self) -> TablePool:
        """The tables of its streams, together."""
        return TablePool(self._streams, self.settings)

    @property
    def wire_format(self) -> WireFormat:
        """The format of its values."""
        return self._limits.wire_format

    @property
    def allocated_bytes(self) -> int:
        """The approximate bytes of the state; tables double as they grow, and never shrink."""
        return self._streams.allocated_bytes

    def apply(self, act: Act) -> None:
        """Apply an act, which changes results without being an input.

        Raises:
            StateError: This version does not know the act, or cannot read its text.
        """
        if act.kind == CONFIGURATION:
            self.apply_settings(TaskSettings.from_json(act.text))
        elif act.kind == IMPORT:
            imported = ImportedModel.from_text(act.text)
            load_import(imported, self._settings_of(imported.stream), self._streams, self.settings.limits.max_features)
            self._changed.add(imported.stream)
        elif act.kind == RESET:
            self._reset(act.text)
        elif act.kind == STOP:
            stop = Stop.from_text(act.text)
            self.stopped.setdefault(stop.stream, stop.reason)
        elif act.kind == REPARTITION:
            self._repartition(Repartition.from_text(act.text).after)
        elif act.kind == ARRIVAL:
            self._receive(MovedStream.from_text(act.text))
        elif act.kind not in (SKIP, REPAIR, ADOPT, SNAPSHOT):  # these change which records are processed
            raise StateError(f"this version does not know the act {act.kind!r}")

    def belongs_elsewhere(self, name: str) -> bool:
        """Say whether the application has moved to a number of partitions with which a stream belongs elsewhere."""
        return self.partitions > 0 and partition_of(name.encode(), self.partitions) != self._number

    def leaving(self, partitions: int) -> list[str]:
        """Return the streams that belong to another partition of so many."""
        return [name for name in self._streams.names if partition_of(name.encode(), partitions) != self._number]

    def moved(self, name: str) -> MovedStream:
        """Return the whole state of a stream, for the task to which it moves.

        Raises:
            KeyError: There is no such stream.
        """
        return MovedStream.of(StreamState(self.stream(name)))

    def _repartition(self, partitions: int) -> None:
        """Drop the streams that belong to another of so many partitions."""
        leaving = self.leaving(partitions)
        self.partitions = partitions
        self._streams.remove(leaving)
        self._changed.difference_update(leaving)
        self.stopped = {name: why for name, why in self.stopped.items() if not self.belongs_elsewhere(name)}

    def _receive(self, moved: MovedStream) -> None:
        """Open a stream that another task had, with its state.

        Raises:
            StateError: The state does not fit the configuration.
        """
        with loading(f"moved stream {moved.stream!r}"):
            self.load_stream(moved.stream, *moved.columns())
        self.stream(moved.stream).is_new = True  # no snapshot of this task has it
        self._changed.add(moved.stream)

    def _reset(self, name: str) -> None:
        """Begin a stream from the start; the next batch closes what the stream held.

        After a `skip`, the state may be older than the stream: then there is nothing to reset.
        """
        number = self._streams.number_of(name)
        if number < 0:
            return
        self._leftovers.append(Leftovers.of(self._streams[number]))
        self._streams.begin(number, self.settings.of_stream(name))

    def _settings_of(self, stream: str) -> StreamSettings | None:
        """Return the settings of a stream; None: it is not configured, and such streams have no model."""
        default = self.settings.default_stream if self.settings.unknown_streams == "model" else None
        return self.settings.streams.get(stream, default)

    def apply_settings(self, settings: TaskSettings) -> None:
        """Continue under other settings, which `config.changes` accepted."""
        before, self.settings = self.settings, settings
        self._limits = _decode_limits(settings)
        if needs_rebuilding(before, settings, self._streams.names):
            self._streams = rebuilt(self._streams, before, settings)

    def running(self) -> Mapping[str, Running]:
        """Return what `config.changes` must know of each stream that has state."""
        return {stream.name: stream.running() for stream in self._streams}

    # The seven steps -------------------------------------------------------------------------------------------------

    def step(self, examples: RawRecords, labels: RawRecords, *, ends: Longs | None = None) -> Outputs:
        """Carry a batch through all seven steps; a worker calls `open` and `run`, and cuts the batch between them.

        Args:
            examples: The range of examples.
            labels: The range of labels.
            ends: Where the ranges of several batches end that were processed before, see `merge.merge`: to repeat
                them at once has the same results, and takes a fraction of the time.
        """
        return self.run(self.open(examples, labels, ends=ends))

    def open(self, examples: RawRecords, labels: RawRecords, *, ends: Longs | None = None) -> InputBatch:
        """Carry one batch through the steps decode and merge; it must be the next to `run`."""
        return open_batch(examples, labels, self._limits, self._streams.names, self.settings.pass_headers, ends)

    def run(self, batch: InputBatch) -> Outputs:
        """Carry an opened batch through the other steps: prepare, join, learn, evaluate, encode.

        Join and learn are one compiled call over the streams in turn: a learner needs the examples of its stream while
        they are in the CPU's cache, and its answers complete the outcomes of the join. They are repeated for
        each stretch if the batch has control records.
        """
        collector = Collector(batch)
        for leftovers in self._leftovers:
            close(leftovers, self._streams, collector, 0, Cause.RESET)
        self._leftovers.clear()
        batch, routed = self._route(batch, collector)
        streams = routed.streams
        for part, level_at in self.pool.parts(batch, streams):
            for stretch in self._streams.stretches(batch, part, collector):
                result = self._streams.join_and_learn(batch, stretch)
                self._streams.evaluate(result, collector)
                self._streams.collect(batch, result, collector)
            if level_at is not None:
                self._changed.update(self.pool.level(batch, level_at, collector))
        records = count_by_stream(streams, len(self._streams))
        self._changed.update(map(self._streams.names.__getitem__, records.nonzero()[0].tolist()))
        names = Names(self._streams.names, self._streams.learner_names)
        form = OutputForm(
            self.wire_format, self._topics, self._number, self.settings.join, self.settings.dead_letter_bytes
        )
        return collector.encode(names, form, records, routed)

    def fitting(self, batch: InputBatch, room: Room) -> tuple[int, int]:
        """Return how many of its first examples and labels surely fit into this room of a transaction; 0 if none do."""
        new = {name for side in batch.decoded for name in side.stream_names}
        one, two = (self._streams.numbers_of(side.stream_names) for side in batch.decoded)
        longest = max((len(name.encode()) for name in new), default=0)
        costs = costs_of(
            batch,
            max(longest, self._streams.longest_name),
            self._topics,
            len(self.settings.metrics.fading_factors),
            is_json=self.wire_format.json is not None,
            passed_bytes=self._streams.passed_bytes,
        )
        reset_bytes = sum(leftovers.bytes(costs) for leftovers in self._leftovers)
        remaining = room.less(self.reset_records, reset_bytes)
        table, closings = self._streams.table, self.pool.closings(batch)
        return fitting(batch, (one, two), table, self.settings, costs, remaining, closings)

    @property
    def reset_records(self) -> int:
        """The number of outputs that the next batch begins with, for streams that were reset since the last batch."""
        return sum(leftovers.records for leftovers in self._leftovers)

    # State ----------------------------------------------------------------------------------------------------------

    def states(self) -> Sequence[StreamState]:
        """Return the streams in their order, as a snapshot sees them; valid until the next `step`."""
        return [StreamState(stream, has_changed=stream.name in self._changed) for stream in self._streams]

    def take_states(self) -> Sequence[StreamState]:
        """Return the `states` for a snapshot that is written: changes from now on are for the next snapshot."""
        states = self.states()
        self._changed.clear()
        for stream in self._streams:
            stream.amended, stream.is_new = set(), False
        return states

    def load_cores(self, names: Sequence[str], cores: Sequence[bytes]) -> int:
        """Open as many of the first of these streams as can be loaded together, and load them; return how many."""
        return self.core_forms.load(names, cores, self._streams, self.settings)

    def load_stream(self, name: str, core: Columns, pending: Columns, closed: Columns) -> None:
        """Open a stream and load its state from a snapshot; streams come in their order.

        Raises:
            StateError: The arrays do not belong to such a stream under these settings.
            KeyError, ValueError, IndexError, TypeError, OverflowError: The arrays have not even the form of a stream's.
        """
        features = int(core["features_count"][0])
        if not 0 <= features <= self.settings.limits.max_features or self._streams.number_of(name) >= 0:
            raise StateError(f"it has {features} features, or is in the snapshot twice")
        settings = self.settings.of_stream(name)
        if settings.columns and features != settings.features:
            raise StateError(f"it has {features} features, its columns have {settings.features}")
        stream = self._streams.open(name, settings, features, is_loaded=True)
        load_stream(stream, core, pending, closed)
        self._streams.passed_bytes = max(self._streams.passed_bytes, stream.passed.largest_bytes)
        stream.is_new = False
        self.core_forms.note(StreamState(stream))

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return all model state by `stream/learner/array`, for digests, with what the columns have learned."""
        arrays = {
            f"{stream.name}/{name}/{key}": array
            for stream in self._streams
            for name, learner in zip(stream.learner_names, stream.learners, strict=False)
            for key, array in learner.arrays().items()
        }
        for stream in self._streams:
            if stream.preparation is not None:
                arrays |= named(f"{stream.name}/{COLUMNS_STATE}/", stream.preparation.arrays())
        return arrays

    def model_digests(self) -> Mapping[str, str]:
        """Return the SHA-256 of each learner's state by `stream/learner`; the cut of the batches does not matter."""
        return digests_of(self.arrays())

    # Which stream ---------------------------------------------------------------------------------------------------

    def _route(self, batch: InputBatch, collector: Collector) -> tuple[InputBatch, Routed]:
        """Find the stream of each record, and prepare the examples that have values by column.

        The collector gets the dead letters. A `resume` mark ends a stop.
        """
        first = self._open_streams(batch) if any(side.stream_names for side in batch.decoded) else {}
        opened = np.zeros(len(self._streams), np.int32)
        for number, position in first.items():
            opened[number] = position
        number_of = self._streams.number_of
        stopped = stopped_until(batch, len(self._streams), self.stopped, opened, number_of)
        one, two = (self._streams.numbers_of(side.stream_names) for side in batch.decoded)
        known = self._streams.expected_counts
        dimensions = known.copy()
        max_features = self.settings.limits.max_features
        streams, reasons = route_records(batch, (one, two), opened, stopped, dimensions, max_features)
        for stream in (dimensions != known).nonzero()[0].tolist():
            self._streams.set_features(stream, int(dimensions[stream]))
        if self.partitions:
            for position in np.flatnonzero(reasons == int(Reason.UNKNOWN_STREAM)).tolist():
                if self.belongs_elsewhere(batch.stream_name(position) or ""):
                    reasons[position] = Reason.MOVED_STREAM
        batch, details = prepare(
            batch,
            streams,
            reasons,
            self._streams.preparations,
            self._streams.names,
            self._streams.costs if self._streams.has_costs else None,
        )
        for position in reasons.nonzero()[0].tolist():
            collector.bury(position, Reason(int(reasons[position])), detail=details.get(position, ""))
        configured = self.settings.streams.keys()
        pair = judged(batch, reasons, stopped, opened, (one, two), number_of, configured, self.stopped)
        numbers = {name: number for name in self.stopped if (number := number_of(name)) >= 0}
        resumed = [name for name, number in numbers.items() if stopped[number] < len(batch.times)]
        for name in resumed:
            del self.stopped[name]
        return batch, Routed(streams, pair, dict(self.stopped), resumed)

    def _open_streams(self, batch: InputBatch) -> Mapping[int, int]:
        """Open the streams that this batch is the first to name, if the settings and `max_streams_per_task` allow them.

        Returns:
            The position of the record that opened each new stream, by the stream's number.
        """
        every = self.settings.unknown_streams == "model"
        first = batch.openers(self.settings.streams.keys(), every=every)
        first = {name: position for name, position in first.items() if not self.belongs_elsewhere(name)}
        room = max(0, self.settings.limits.max_streams_per_task - len(self._streams))
        opened: dict[int, int] = {}
        for name in sorted(first, key=first.__getitem__)[:room]:
            opened[len(self._streams)] = first[name]
            self._streams.open(name, self.settings.of_stream(name))
        return opened
