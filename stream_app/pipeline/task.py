"""One task: all work of one partition number, the stages in order: decode, order, join, learn, evaluate, encode.

`Task.step` takes one batch (a range of `examples[p]` and a range of `labels[p]`) and returns what it makes of it. It is
deterministic: the result depends on the records before it, never on the clock, the machine's load or where a batch was
cut.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.config import Running, StreamSettings, TaskSettings, begins_afresh
from stream_app.errors import StateError
from stream_app.jit.compiler import compiled
from stream_app.join.stream_join import NO_HASH_KEY, JoinInput
from stream_app.pipeline.batch import Batch, open_batch
from stream_app.pipeline.leftovers import Leftovers, close, leftovers_of
from stream_app.pipeline.outputs import Collector, InputTopics, Names, Outputs
from stream_app.pipeline.reconfigure import needs_rebuilding, rebuilt
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_set import Streams
from stream_app.pipeline.stream_state import SEEN, StreamState, learner_state, load_stream
from stream_app.pipeline.transaction_bounds import Room, Rules, columns_of, costs_of, fitting
from stream_app.records import (
    ADOPT,
    CONFIGURATION,
    REPAIR,
    RESET,
    RESUME,
    SEED,
    SKIP,
    Act,
    Bytes,
    Integers,
    Kind,
    RawRecords,
    Reason,
    Side,
)
from stream_app.serialization.decode import DecodeLimits
from stream_app.snapshot.format import Columns
from stream_app.snapshot.imported_state import Seed, Seeds

BY_SLOT = "seen"
"""A learner's array by the join's slots, whose numbers depend on where batches were cut; no result does."""

_DATA = int(Kind.DATA)
_MALFORMED = int(Kind.MALFORMED)
_WRONG_DIMENSION = int(Reason.WRONG_DIMENSION)
_BAD_TIME = int(Reason.BAD_TIME)
_UNKNOWN_STREAM = int(Reason.UNKNOWN_STREAM)


@compiled
def _sort_out(
    batch: JoinInput,
    kinds: tuple[Bytes, Bytes],
    reasons: tuple[Bytes, Bytes],
    streams: tuple[Integers, Integers],
    counts: Integers,
    names: tuple[Integers, Integers],
    known: int,
    opened: Integers,
    dimensions: Integers,
    max_features: int,
) -> tuple[Integers, Bytes]:
    """The stream of each position (-1: a dead letter) and, where it is dead, the reason.

    The first `known` numbers of the decoder's streams are the task's own; `names` has the task's (-1: unknown) of the
    others. `opened` is the position from which on a stream is there. `dimensions` is fixed by a stream's first example.
    """
    of = np.empty(len(batch.sides), np.int32)
    why = np.zeros(len(batch.sides), np.uint8)
    for position in range(len(batch.sides)):
        row = batch.rows[position]
        example = batch.sides[position] == 0
        of[position] = -1
        kind = kinds[0][row] if example else kinds[1][row]
        time = batch.example_times[row] if example else batch.label_times[row]
        if kind == _MALFORMED:
            why[position] = reasons[0][row] if example else reasons[1][row]
            continue
        if time <= 0:
            why[position] = _BAD_TIME
            continue
        stream = streams[0][row] if example else streams[1][row]
        if stream >= known:
            stream = names[0][stream - known] if example else names[1][stream - known]
        if stream < 0 or position < opened[stream]:
            why[position] = _UNKNOWN_STREAM
            continue
        if example and kind == _DATA:
            if dimensions[stream] == 0 and counts[row] <= max_features:
                dimensions[stream] = counts[row]
            if dimensions[stream] != counts[row]:
                why[position] = _WRONG_DIMENSION
                continue
        of[position] = stream
    return of, why


class Task:
    """The state of one task and its `step`.

    Args:
        partition: Its number.
        settings: Everything that changes a result.
        topics: Full names of the two input topics, `examples` first.
        hash_key: 16 bytes that senders of records must not know, see `join`; no result depends on it.
    """

    def __init__(
        self, partition: int, settings: TaskSettings, topics: tuple[str, str], hash_key: bytes = NO_HASH_KEY
    ) -> None:
        self.settings = settings
        self._inputs = InputTopics(topics, partition)
        self._limits = DecodeLimits(settings.limits.max_record_bytes, settings.limits.max_features)
        self._streams = Streams(settings, hash_key)
        self._seeds = Seeds()
        self._changed: set[str] = set()  # since the last snapshot
        self._leftovers: list[Leftovers] = []  # of streams that were reset since the last batch

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The streams that have state here."""
        return tuple(self._streams.names)

    def stream(self, name: str) -> Stream:
        """One of them; not to be changed.

        Raises:
            KeyError: There is none of this name.
        """
        number = self._streams.number_of(name)
        if number < 0:
            raise KeyError(name)
        return self._streams[number]

    @property
    def allocated_bytes(self) -> int:
        """What the state has allocated, about; tables double as they grow, and never shrink."""
        return self._streams.allocated_bytes

    def apply(self, act: Act) -> bool:
        """Go through an act that changes results and is no input; whether older snapshots have nothing to add to.

        Raises:
            StateError: This version knows no such act, or its text is none.
        """
        if act.kind == CONFIGURATION:
            return self.apply_settings(TaskSettings.from_json(act.text))
        if act.kind == SEED:
            seed = self._seeds.add(act.text)
            if seed is not None:
                self._sow(seed)
        elif act.kind == RESET:
            self._reset(act.text)
            return True
        elif act.kind not in (RESUME, SKIP, REPAIR, ADOPT):  # these change what is processed, not a model
            raise StateError(f"there is no act {act.kind!r} in this version")
        return False

    def _reset(self, name: str) -> None:
        """Let a stream begin anew; what it held is closed by the next batch.

        After a `skip`, the state may be older than the stream: then there is nothing to reset.
        """
        number = self._streams.number_of(name)
        if number < 0:
            return
        self._leftovers.append(leftovers_of(self._streams[number]))
        self._streams.begin(number, self.settings.of_stream(name))
        self._changed.add(name)

    def _sow(self, seed: Seed) -> None:
        """Let a learner go on from a state that comes from elsewhere."""
        where = f"a seed for learner {seed.learner!r} of stream {seed.stream!r}"
        settings = self._settings_of(seed.stream)
        if settings is None or seed.learner not in settings.learners:
            raise StateError(f"{where}: the configuration has no such learner")
        if begins_afresh(seed.settings, settings.learners[seed.learner]):
            raise StateError(f"{where}: it was made with other settings than this learner has")
        if not 0 < seed.features <= self.settings.limits.max_features:
            raise StateError(
                f"{where}: {seed.features} features; limits.max_features {self.settings.limits.max_features}"
            )
        if self._streams.number_of(seed.stream) < 0:
            self._streams.open(seed.stream, settings)
        number = self._streams.number_of(seed.stream)
        if not self._streams.dimensions[number]:
            self._streams.set_features(number, seed.features)
        if self._streams.dimensions[number] != seed.features:
            raise StateError(f"{where}: it has {seed.features} features, the stream {self._streams.dimensions[number]}")
        stream = self._streams[number]
        learner = stream.learners[stream.learner_names.index(seed.learner)]
        mine = learner.arrays()
        seen = {SEEN: mine[SEEN]} if SEEN in mine else {}
        try:
            learner.load(learner_state(mine, dict(seed.state), seen))
        except StateError as problem:
            raise StateError(f"{where}: {problem}") from problem
        self._changed.add(seed.stream)

    def _settings_of(self, stream: str) -> StreamSettings | None:
        """None: it is not configured, and streams that are not have no model."""
        default = self.settings.default_stream if self.settings.unknown_streams == "model" else None
        return self.settings.streams.get(stream, default)

    def apply_settings(self, settings: TaskSettings) -> bool:
        """Go on under other settings (`config.changes` refused what cannot be); whether streams were rebuilt."""
        before, self.settings = self.settings, settings
        if not needs_rebuilding(before, settings, self._streams.names):
            return False
        self._streams = rebuilt(self._streams, before, settings)
        self._changed = set(self._streams.names)
        return True

    def running(self) -> Mapping[str, Running]:
        """The streams that have state, as `config.changes` asks for them."""
        return {stream.name: stream.running() for stream in self._streams}

    def step(self, examples: RawRecords, labels: RawRecords) -> Outputs:
        """Carry one batch through all stages."""
        return self.run(self.open(examples, labels))

    def open(self, examples: RawRecords, labels: RawRecords) -> Batch:
        """Decode and merge one batch; the next that is to `run`."""
        return open_batch(examples, labels, self._limits, self._streams.names)

    def fitting(self, batch: Batch, room: Room) -> tuple[int, int]:
        """How many of its first examples and labels surely fit into this room of a transaction; perhaps none."""
        new = {name for side in batch.decoded for name in side.stream_names}
        rules = Rules(
            max((len(self.settings.of_stream(name).learners) for name in new), default=0),
            self.settings.metrics.every_labels,
            self.settings.predictions == "all",
        )
        one, two = (self._streams.numbers_of(side.stream_names) for side in batch.decoded)
        longest = max((len(name.encode()) for name in new), default=0)
        costs = costs_of(batch, max(longest, self._streams.longest_name), self._inputs.names)
        left = room.less(self.reset_records, sum(left.bytes(costs) for left in self._leftovers))
        return fitting(batch, columns_of(batch, (one, two)), self._streams.held, rules, costs, left)

    @property
    def reset_records(self) -> int:
        """The number of outputs with which the next batch begins: what streams held that were reset since the last."""
        return sum(left.records for left in self._leftovers)

    def run(self, batch: Batch) -> Outputs:
        """Carry an opened batch through all other stages."""
        self._seeds.clear()
        collector = Collector(batch)
        for left in self._leftovers:
            close(left, self._streams, collector)
        self._leftovers.clear()
        streams, reasons = self._sort_out(batch)
        for position in np.flatnonzero(reasons).tolist():
            collector.bury(position, Reason(int(reasons[position])))
        self._streams.run(batch, streams, collector)
        records = np.bincount(streams[streams >= 0], minlength=len(self._streams))
        self._changed.update(map(self._streams.names.__getitem__, np.flatnonzero(records).tolist()))
        names = Names(self._streams.names, self._streams.learner_names)
        return collector.encode(names, self._inputs, records, self.settings.dead_letter_bytes)

    def states(self) -> Sequence[StreamState]:
        """The streams in their order, as a snapshot sees them; until the next `step`."""
        return [StreamState(stream, has_changed=stream.name in self._changed) for stream in self._streams]

    def take_states(self) -> Sequence[StreamState]:
        """The same, for a snapshot that is written: what changes from now on is for the next one."""
        states = self.states()
        self._changed.clear()
        for stream in self._streams:
            stream.amended = set()
        return states

    def load_stream(self, name: str, core: Columns, pending: Columns, closed: Columns) -> None:
        """Open a stream and let it go on where a snapshot was taken; streams come in their order.

        Raises:
            StateError: The arrays are not those of such a stream under these settings.
            KeyError, ValueError, IndexError, TypeError, OverflowError: They have not even the form of any.
        """
        features = int(core["features_count"][0])
        if not 0 <= features <= self.settings.limits.max_features or self._streams.number_of(name) >= 0:
            raise StateError(f"a stream with {features} features, or one that is there already")
        load_stream(self._streams.open(name, self.settings.of_stream(name), features), core, pending, closed)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """All model state by `stream/learner/array`, for digests and snapshots."""
        return {
            f"{stream.name}/{name}/{key}": array
            for stream in self._streams
            for name, learner in zip(stream.learner_names, stream.learners, strict=False)
            for key, array in learner.arrays().items()
        }

    def model_digests(self) -> Mapping[str, str]:
        """SHA-256 of each learner's state, by `stream/learner`, in order; equal whatever the cut of the batches."""
        digests: dict[str, hashlib._Hash] = {}
        for name, array in self.arrays().items():
            stream, learner, key = name.rsplit("/", 2)
            if key == BY_SLOT:
                continue
            digest = digests.setdefault(f"{stream}/{learner}", hashlib.sha256())
            digest.update(f"{key} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return {name: digest.hexdigest() for name, digest in digests.items()}

    # Which stream -------------------------------------------------------------------------------------------------

    def _sort_out(self, batch: Batch) -> tuple[Integers, Bytes]:
        first = self._meet_streams(batch) if any(side.stream_names for side in batch.decoded) else {}
        opened = np.zeros(len(self._streams), np.int32)
        for number, position in first.items():
            opened[number] = position
        names = [self._streams.numbers_of(side.stream_names) for side in batch.decoded]
        known = self._streams.dimensions
        dimensions = known.copy()
        one, two = batch.decoded
        streams, reasons = _sort_out(
            batch.merged,
            (one.kinds, two.kinds),
            (one.reasons, two.reasons),
            (one.streams, two.streams),
            one.feature_counts,
            (names[0], names[1]),
            one.known,
            opened,
            dimensions,
            self.settings.limits.max_features,
        )
        for stream in np.flatnonzero(dimensions != known).tolist():
            self._streams.set_features(stream, int(dimensions[stream]))
        return streams, reasons

    def _meet_streams(self, batch: Batch) -> Mapping[int, int]:
        """Open the streams that this batch names first, as far as the policy and the bound allow.

        A stream that is not configured is opened by its first example: names made up by whoever sends labels or marks
        must not use up `max_streams_per_task`.

        Returns:
            By number of each new stream, the position of the record that opened it.
        """
        configured = self.settings.streams.keys()
        first: dict[str, int] = {}
        for side in Side:
            for name, position in batch.first_seen(side, (Kind.DATA, Kind.MARK)).items():
                if name in configured:
                    first[name] = min(position, first.get(name, position))
        if self.settings.unknown_streams == "model":
            for name, position in batch.first_seen(Side.EXAMPLES, (Kind.DATA,)).items():
                first.setdefault(name, position)
        room = max(0, self.settings.limits.max_streams_per_task - len(self._streams))
        opened: dict[int, int] = {}
        for name in sorted(first, key=first.__getitem__)[:room]:
            opened[len(self._streams)] = first[name]
            self._streams.open(name, self.settings.of_stream(name))
        return opened
