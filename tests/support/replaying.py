"""Plans, a clock and a sender for tests of a replay without Kafka."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stream_app.backends.base import TopicPartition, Watermarks
from stream_app.errors import ArebaError, DeliveryError
from stream_app.producers.events import Sent
from stream_app.producers.faults import Faults
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.synthetic import parse_spec, synthetic
from stream_app.records import Example, Header, Label, Mark
from stream_app.serialization.codec import decode_one

NOW_MS = 1_700_000_000_000

ALL_FAULTS = Faults(duplicates=0.05, out_of_order=0.05, dropped=0.05, conflicting_labels=0.05, garbage=0.05)


class FakeClock:
    """A clock that advances only while it sleeps."""

    def __init__(self) -> None:
        self.s = 0.0

    def now_ms(self) -> int:
        """Return the wall time."""
        return NOW_MS + int(self.s * 1000)

    def monotonic_s(self) -> float:
        """Return the seconds slept."""
        return self.s

    def sleep(self, seconds: float) -> None:
        """Advance by this time."""
        self.s += seconds


class ListSender:
    """A sender that keeps records with their time, and fails from record `fail_at` on."""

    def __init__(self, clock: FakeClock | None = None, fail_at: int | None = None) -> None:
        self.clock = clock or FakeClock()
        self.fail_at = fail_at
        self.sent: list[Sent] = []
        self.times_s: list[float] = []
        self.closed = False

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> None:
        """Keep one record."""
        assert not headers
        assert partition is None
        assert key is not None
        assert value is not None
        if self.fail_at is not None and len(self.sent) >= self.fail_at:
            raise DeliveryError(f"1 of {len(self.sent)} records were not delivered; first: examples[0]: gone")
        self.sent.append(Sent(topic, key, value, timestamp_ms))
        self.times_s.append(self.clock.monotonic_s())

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:
        """Return offsets from 5 on."""
        assert timeout_s > 0
        counts = Counter(record.topic for record in self.sent)
        return {TopicPartition(topic, 0): Watermarks(5, 5 + count) for topic, count in counts.items()}

    def close(self) -> None:
        """Record the call."""
        self.closed = True


def stream_plan(text: str = "sine:length=500", name: str = "sine", **options: Any) -> StreamPlan:  # noqa: ANN401  (any field)
    """Return the plan of one synthetic stream."""
    return replace(StreamPlan(name, synthetic(parse_spec(text))), **options)


def plan_of(*streams: StreamPlan, **options: Any) -> Plan:  # noqa: ANN401  (any field)
    """Return a plan of these streams, by default of one."""
    return replace(Plan(streams or (stream_plan(),), start_ms=NOW_MS), **options)


def decoded(record: Sent) -> Example | Label | Mark | None:
    """Decode a record; None for garbage."""
    try:
        found = decode_one(record.value)
    except ArebaError:
        return None
    assert isinstance(found, Example | Label | Mark)
    return found
