"""What a replay sends: streams, their label delays and faults, and the pace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ConfigurationError
from stream_app.lanes import lane_names
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.faults import NO_FAULTS, Faults
from stream_app.producers.label_delay import NO_DELAY, LabelDelay, parse_label_delay
from stream_app.producers.sources import Source
from stream_app.records import MAX_STREAM_BYTES
from stream_app.serialization.wire_format import WireFormat, single_object

MAX_STREAMS = 1_000
"""The most streams of one replay; a task serves 100 by default."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream of a replay.

    Attributes:
        stream: The name of the stream.
        data: The examples and their classes.
        delay: The delay from each example to its label.
        unlabelled_share: The share of labels that are never sent, from 0 to 1.
        faults: Faults to inject.
        loops: How many times the data is sent, end to end.
        interval_ms: Event time from one example to the next; None: the interval of the data set. Data with times of
            its own keeps them.
        lanes: The number of its lanes; None: it has none.

    Raises:
        ConfigurationError: A value is out of bounds, or contradicts the data's own times or ids.
    """

    stream: str
    data: DataSet
    delay: LabelDelay = NO_DELAY
    unlabelled_share: float = 0.0
    faults: Faults = NO_FAULTS
    loops: int = 1
    interval_ms: int | None = None
    lanes: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.stream.encode()) <= MAX_STREAM_BYTES:
            raise ConfigurationError(
                f"stream {self.stream!r}: a name has 1 to {MAX_STREAM_BYTES} bytes, not {len(self.stream.encode())}"
            )
        if not len(self.data):
            raise ConfigurationError(f"{self.stream}: the data set has no example")
        if not 0.0 <= self.unlabelled_share <= 1.0:
            raise ConfigurationError(f"{self.stream}: unlabelled-share: {self.unlabelled_share:g} must be from 0 to 1")
        if self.loops < 1:
            raise ConfigurationError(f"{self.stream}: loops: {self.loops} must be at least 1")
        if self.interval < 1:
            raise ConfigurationError(f"{self.stream}: interval-ms: {self.interval} must be at least 1")
        if self.interval_ms is not None and self.data.times_ms is not None:
            raise ConfigurationError(f"{self.stream}: interval-ms: the data has times of its own")
        if self.loops > 1 and self.data.ids is not None:
            raise ConfigurationError(f"{self.stream}: loops: the data has ids of its own, which would come again")

    @property
    def interval(self) -> int:
        """Event time from one example to the next, in milliseconds."""
        return self.data.interval_ms if self.interval_ms is None else self.interval_ms

    @property
    def events(self) -> int:
        """The number of examples, loops included, before any is dropped."""
        return len(self.data) * self.loops

    @property
    def names(self) -> tuple[str, ...]:
        """What its records name as their stream: its lanes, or the stream itself."""
        return (self.stream,) if self.lanes is None else lane_names(self.stream, self.lanes)

    def classes(self, numbers: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the classes of these examples, int8 `[n]`; -1: the label is not known."""
        return np.asarray(self.data.labels[numbers % len(self.data)])

    def times_ms(self, numbers: NDArray[np.int64], origin_ms: int) -> NDArray[np.int64]:
        """Return the event times of these examples, int64 `[n]`, counted from `Plan.origin_ms`."""
        own = self.data.times_ms
        return numbers * self.interval if own is None else self._own(own, numbers, origin_ms)

    def label_times_ms(self, numbers: NDArray[np.int64], origin_ms: int) -> NDArray[np.int64] | None:
        """Return when the labels of these examples are known, as `times_ms`; None: after the delay."""
        own = self.data.label_times_ms
        return None if own is None else self._own(own, numbers, origin_ms)

    def _own(self, own_ms: NDArray[np.int64], numbers: NDArray[np.int64], origin_ms: int) -> NDArray[np.int64]:
        """Return the data's own times; a loop begins one interval after the end of the loop before."""
        loops, rows = np.divmod(numbers, len(self.data))
        found: NDArray[np.int64] = own_ms[rows] - origin_ms + loops * (self.data.length_ms + self.interval)
        return found


@dataclass(frozen=True, slots=True)
class Plan:
    """All streams of one replay.

    Attributes:
        streams: The streams; no two have the same name.
        seed: The seed of delays and faults.
        start_ms: Event time of the first examples; None: chosen at the replay so that the last event time is now.
        examples_topic: The full name of the topic of examples.
        labels_topic: The full name of the topic of labels.
        rate: Examples per second, of all streams together; None: not limited.
        speed: How many times faster than real time event time passes; None: not limited.
        options: The options of the command, as text, for the manifest.
        wire_format: How values begin; by default as Avro single objects.

    Raises:
        ConfigurationError: A value is out of bounds, or two streams have the same name.
    """

    streams: tuple[StreamPlan, ...]
    seed: int = 0
    start_ms: int | None = None
    examples_topic: str = "examples"
    labels_topic: str = "labels"
    rate: float | None = None
    speed: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    wire_format: WireFormat = field(default_factory=single_object)

    def __post_init__(self) -> None:
        names = [stream.stream for stream in self.streams]
        if not 1 <= len(names) <= MAX_STREAMS:
            raise ConfigurationError(f"a replay has 1 to {MAX_STREAMS} streams, not {len(names)}")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(f"{twice[0]}: two streams have this name; rename one with stream=NAME")
        if self.rate is not None and self.speed is not None:
            raise ConfigurationError("set rate or speed, not both")
        for name, value in (("rate", self.rate), ("speed", self.speed)):
            if value is not None and not 0.0 < value < float("inf"):
                raise ConfigurationError(f"{name}: {value:g} must be above 0")

    @property
    def start(self) -> int:
        """Event time of the first examples, in milliseconds since 1970.

        Raises:
            ValueError: It was not chosen yet.
        """
        if self.start_ms is None:
            raise ValueError("the plan has no start_ms")
        return self.start_ms

    @property
    def origin_ms(self) -> int:
        """The first event time of the data that has times of its own, which is sent at `start_ms`; 0 if none has."""
        own = (stream.data.times_ms for stream in self.streams)
        return min((int(times[0]) for times in own if times is not None), default=0)


def uniform_plan(
    sources: Sequence[Source],
    *,
    label_delay: str = "none",
    unlabelled_share: float = 0.0,
    faults: Faults = NO_FAULTS,
    loops: int = 1,
    interval_ms: int | None = None,
    seed: int = 0,
) -> Plan:
    """Return a plan that treats all streams alike. For the arguments, see `StreamPlan` and `Plan`.

    Raises:
        ConfigurationError: A value is out of bounds, or two streams have the same name.
    """
    delay = parse_label_delay(label_delay)
    streams = (
        StreamPlan(
            stream=source.stream,
            data=source.data,
            delay=delay,
            unlabelled_share=unlabelled_share,
            faults=faults,
            loops=loops,
            interval_ms=source.interval_ms or interval_ms,
            lanes=source.lanes,
        )
        for source in sources
    )
    return Plan(tuple(streams), seed=seed)
