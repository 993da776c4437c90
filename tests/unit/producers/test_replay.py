"""The records of a replay, and their times."""

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_app.errors import ConfigurationError, DeliveryError
from stream_app.lanes import lane_names, lane_of
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.events import Sent, events, id_prefix
from stream_app.producers.faults import Faults
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.plan import StreamPlan
from stream_app.producers.replay import replay
from stream_app.producers.retention import fit_to_retention
from stream_app.producers.schedule import span_ms
from stream_app.records import MAX_ID_BYTES, Example, Label, Mark, MarkKind
from tests.support.replaying import ALL_FAULTS, NOW_MS, ListSender, decoded, plan_of, stream_plan

# What is sent ---------------------------------------------------------------------------------------------------------


def test_examples_and_labels_are_the_data_sets() -> None:
    """Features, classes, times and keys must equal the data's, in order, each label right after its example."""
    stream = stream_plan()
    records = list(events(plan_of(stream)))
    assert len(records) == 2 * 500 + 2
    for number, (first, second) in enumerate(zip(records[:-2:2], records[1:-2:2], strict=True)):
        example, label = decoded(first), decoded(second)
        time_ms = NOW_MS + number * 1_000
        assert first[:2] == ("examples", b"sine")
        assert second[:2] == ("labels", b"sine")
        assert (first.timestamp_ms, second.timestamp_ms) == (time_ms, time_ms)
        assert isinstance(example, Example)
        assert isinstance(label, Label)
        assert example.stream == label.stream == "sine"
        assert example.id == label.id
        assert np.array_equal(np.array(example.features, np.float32), stream.data.features[number])
        assert (label.label, label.revision) == (stream.data.labels[number], 0)


def test_streams_go_side_by_side_on_one_clock() -> None:
    """With streams one after another the later ones would lie outside each other's event time."""
    fast = stream_plan("sea:length=400", "fast", interval_ms=10)
    slow = stream_plan("circle:length=40", "slow", interval_ms=100)
    records = list(events(plan_of(fast, slow, examples_topic="t-examples", labels_topic="t-labels")))
    assert {record.topic for record in records} == {"t-examples", "t-labels"}
    times = [record.timestamp_ms for record in records]
    assert times == sorted(times)
    head = [record.key for record in records[:44]]
    assert head.count(b"slow") == 2 * 2
    first = [record[:2] for record in records if record.timestamp_ms == NOW_MS]
    assert first == [(topic, key) for topic in ("t-examples", "t-labels") for key in (b"fast", b"slow")]


def test_labels_come_when_their_delay_says() -> None:
    """The timestamp of a label is when the class became known."""
    stream = stream_plan(delay=parse_label_delay("fixed:3ev"))
    records = list(events(plan_of(stream)))
    labels = [record.timestamp_ms for record in records if record.topic == "labels"]
    assert labels[:500] == [NOW_MS + (number + 3) * 1_000 for number in range(500)]


def test_a_stream_ends_with_a_pair_of_marks() -> None:
    """The marks let a join close what is pending; they come last, at the last event time, not in the future."""
    short = stream_plan("sea:length=20", "short")
    late = stream_plan("sine:length=50", "late", delay=parse_label_delay("uniform:0s-90s"), faults=ALL_FAULTS)
    records = list(events(plan_of(short, late)))
    for name in (b"short", b"late"):
        mine = [record for record in records if record.key == name]
        end_ms = max(record.timestamp_ms for record in mine)
        marks = mine[-2:]
        assert [record.topic for record in marks] == ["examples", "labels"]
        for record in marks:
            assert record.timestamp_ms == end_ms
            assert decoded(record) == Mark(name.decode(), MarkKind.ADVANCE, time_ms=end_ms)
        assert not any(isinstance(decoded(record), Mark) for record in mine[:-2])


def test_lanes_get_the_records_of_their_ids() -> None:
    """A label in another lane than its example never meets it; a lane without marks never closes its examples."""
    plain, lanes = (plan_of(stream_plan(faults=ALL_FAULTS, lanes=number)) for number in (None, 4))
    sent, records = list(events(plain)), list(events(lanes))
    names = lane_names("sine", 4)
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        one = decoded(record)
        assert record.key.decode() in names
        if one is not None:
            assert one.stream == record.key.decode()
        if isinstance(one, Example | Label):
            found[one.id].add(one.stream)
    assert found == {id_: {lane_of("sine", 4, id_)} for id_ in found}
    assert {stream for streams in found.values() for stream in streams} == set(names)
    ends = [(record.topic, one.stream) for record in records if isinstance(one := decoded(record), Mark)]
    assert sorted(ends) == sorted((topic, name) for topic in ("examples", "labels") for name in names)
    assert len(records) == len(sent) + 2 * 3, "the same records, and the marks of three further lanes"

    def content(records: list[Sent]) -> Counter[object]:
        data = [(record, decoded(record)) for record in records]
        return Counter(
            (record.topic, record.timestamp_ms, one.id, one.label if isinstance(one, Label) else one.features)
            for record, one in data
            if isinstance(one, Example | Label)
        )

    assert content(records) == content(sent)
    manifest = replay(replace(lanes, start_ms=None), sender := ListSender(), sender.clock)
    (stream,) = manifest.streams
    assert (stream.stream, stream.lanes, stream.marks_per_topic) == ("sine", 4, 4)
    assert manifest.records == len(sender.sent)


def test_a_stream_of_which_nothing_is_left_still_ends() -> None:
    """Faults may drop everything; a reader that waits for the end of the stream would wait forever."""
    stream = stream_plan("sine:length=2", unlabelled_share=1.0, faults=Faults(dropped=0.999))
    records = list(events(plan_of(stream)))
    assert [decoded(record) for record in records] == [Mark("sine", MarkKind.ADVANCE, time_ms=NOW_MS + 1_000)] * 2


def test_the_clock_ends_now() -> None:
    """Kafka deletes old records immediately and refuses records from the future."""
    sender = ListSender()
    manifest = replay(
        plan_of(stream_plan(delay=parse_label_delay("exponential:60s")), start_ms=None), sender, sender.clock
    )
    times = [record.timestamp_ms for record in sender.sent]
    assert max(times) == NOW_MS == manifest.end_ms
    assert min(times) == manifest.start_ms


def test_ids_are_short_and_belong_to_one_run() -> None:
    """A second replay onto the same topics would repeat the ids of the first, and its examples would be duplicates."""
    plan = plan_of(stream_plan(loops=2))
    ids = [found.id for record in events(plan) if isinstance(found := decoded(record), Example)]
    assert len(set(ids)) == len(ids) == 1_000
    assert max(len(text.encode()) for text in ids) <= MAX_ID_BYTES
    others = [replace(plan, seed=1), replace(plan, start_ms=NOW_MS + 1)]
    prefixes = {id_prefix(other, other.streams[0]) for other in (plan, *others)}
    prefixes.add(id_prefix(plan, replace(plan.streams[0], stream="other")))
    assert len(prefixes) == 4


def test_loops_send_the_data_again() -> None:
    """A soak test runs longer than its data."""
    records = [decoded(record) for record in events(plan_of(stream_plan(loops=3)))]
    features = [tuple(record.features) for record in records if isinstance(record, Example)]
    assert features[:500] == features[500:1_000] == features[1_000:]


def test_equal_plans_give_equal_bytes() -> None:
    """A failure could not be reproduced from seed and start."""
    plan = plan_of(stream_plan(delay=parse_label_delay("lognormal:5s,1"), faults=ALL_FAULTS, unlabelled_share=0.1))
    first = list(events(plan))
    assert first == list(events(plan))
    assert first != list(events(replace(plan, seed=1)))


# Faults ---------------------------------------------------------------------------------------------------------------


def test_unlabelled_share_keeps_labels_back() -> None:
    """Missing labels are the everyday case."""
    labels = [record for record in events(plan_of(stream_plan(unlabelled_share=0.2))) if record.topic == "labels"]
    assert 340 < len(labels) - 1 < 460
    assert (
        len([record for record in events(plan_of(stream_plan(unlabelled_share=1.0))) if record.topic == "labels"]) == 1
    )


@pytest.mark.parametrize("name", ["duplicates", "out_of_order", "dropped", "conflicting_labels", "garbage"])
@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_fault_is_a_share(name: str, share: float) -> None:
    """100 would be taken for a percentage."""
    with pytest.raises(ConfigurationError, match=f"{name.replace('_', '-')}: .* must be from 0"):
        Faults(**{name: share})


# Pace and span --------------------------------------------------------------------------------------------------------


def test_rate_is_examples_a_second() -> None:
    """500 examples at 100 per second take 5 seconds, evenly; their labels come in between."""
    sender = ListSender()
    replay(plan_of(rate=100.0), sender, sender.clock, sleep=sender.clock.sleep)
    examples = [
        time_s for record, time_s in zip(sender.sent, sender.times_s, strict=True) if record.topic == "examples"
    ]
    assert np.allclose(examples[:500], np.arange(500) / 100, atol=1e-6)


def test_speed_is_event_time() -> None:
    """At 60 times the clock an event per second is sent 60 times per second."""
    sender = ListSender()
    replay(plan_of(speed=60.0), sender, sender.clock, sleep=sender.clock.sleep)
    assert np.allclose(sender.times_s, [(record.timestamp_ms - NOW_MS) / 60_000 for record in sender.sent], atol=1e-6)


def test_progress_is_reported_up_to_the_end() -> None:
    """A progress bar that stops before its end looks like a failure."""
    sender = ListSender()
    reported: list[tuple[int, int]] = []
    replay(
        plan_of(stream_plan("sea:length=5000")),
        sender,
        sender.clock,
        lambda sent, total: reported.append((sent, total)),
    )
    assert reported[-1] == (10_002, 10_002)
    assert len(reported) > 2


def test_a_failed_delivery_ends_the_replay() -> None:
    """Half a stream with a manifest of the complete stream would look like a loss."""
    sender = ListSender(fail_at=100)
    with pytest.raises(DeliveryError, match="not delivered"):
        replay(plan_of(), sender, sender.clock)


def test_a_span_is_made_to_fit_what_the_topics_keep() -> None:
    """Streams without an interval are compressed so that retention does not delete them."""
    plan = plan_of(stream_plan("sine:length=5000"))
    assert fit_to_retention(plan, -1) == plan
    assert fit_to_retention(plan, 10_000_000) == plan
    close = fit_to_retention(plan, 1_000_000)
    assert close.streams[0].interval == 125
    assert span_ms(close) <= 900_000


def test_a_span_that_cannot_fit_is_refused() -> None:
    """The broker would delete the records before a worker reads them."""
    asked = plan_of(stream_plan("sine:length=5000", interval_ms=1_000))
    with pytest.raises(ConfigurationError, match=r"span 83\.3 minutes .* up to 16\.7 minutes old"):
        fit_to_retention(asked, 1_000_000)
    late = plan_of(stream_plan("sine:length=50", delay=parse_label_delay("fixed:8d")))
    with pytest.raises(ConfigurationError, match=r"span 8\.0 days .* up to 7\.0 days old"):
        fit_to_retention(late, 7 * 86_400_000)
    begun = replace(plan_of(), start_ms=1_380_000_000_000)
    with pytest.raises(ConfigurationError, match=r"--start-ms 1380000000000: .* `areba topics create --retention`"):
        fit_to_retention(begun, 7 * 86_400_000, 1_700_000_000_000)
    assert fit_to_retention(begun, -1, 1_700_000_000_000) == begun


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loops": 0}, "loops: 0 must be at least 1"),
        ({"interval_ms": 0}, "interval-ms: 0 must be at least 1"),
        ({"unlabelled_share": 1.5}, "must be from 0 to 1"),
        ({"stream": ""}, "1 to 249 bytes"),
        ({"stream": "x" * 250}, "1 to 249 bytes"),
    ],
)
def test_wrong_streams_are_refused(options: dict[str, Any], message: str) -> None:
    """The error comes before a record is sent, not when the topic is half full."""
    with pytest.raises(ConfigurationError, match=message):
        stream_plan(**options)


def test_wrong_plans_are_refused() -> None:
    """Two streams of one name would be mixed, and two paces contradict each other."""
    with pytest.raises(ConfigurationError, match="sine: two streams have this name"):
        plan_of(stream_plan(), stream_plan())
    with pytest.raises(ConfigurationError, match="not both"):
        plan_of(rate=1.0, speed=1.0)
    with pytest.raises(ConfigurationError, match="rate: 0 must be above 0"):
        plan_of(rate=0.0)


def test_a_data_set_of_ones_own_can_be_sent() -> None:
    """The README shows how users replay their own arrays."""
    data = DataSet("own", np.eye(3, dtype=np.float32), np.array([0, 1, 0], np.int8), None, "none", "synthetic", 0.01)
    assert len(list(events(plan_of(StreamPlan("own", data))))) == 8
    with pytest.raises(ConfigurationError, match="no example"):
        StreamPlan("own", data.prefix(0))
