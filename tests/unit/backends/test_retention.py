"""The inputs are kept for a join and a pause, however old a record is on arrival; other settings are named."""

from collections.abc import Mapping

import pytest

from stream_app.backends import retention
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.retention import FOREVER, PAUSE_MS, UNLIMITED_MS, input_times, parse_retention, risks
from stream_app.config.values import DAY_MS
from stream_app.errors import ConfigurationError, DeliveryError, TransactionAbortedError
from stream_app.record_columns import OutputRecords
from tests.support.brokers import AdministeredBroker

TTL_MS = 30 * DAY_MS
PLACE = TopicPartition("examples", 0)


def _topic(settings: Mapping[str, str]) -> TopicInfo:
    return TopicInfo("examples", 1, settings)


@pytest.mark.parametrize("kept_ms", [None, 365 * DAY_MS, TTL_MS + PAUSE_MS + DAY_MS])
def test_an_accepted_record_outlives_a_join_and_a_pause(kept_ms: int | None) -> None:
    """However old it was on arrival: what the broker would delete sooner, it refuses to the producer."""
    times = input_times(TTL_MS, kept_ms)
    assert times.retention_ms - times.before_max_ms == TTL_MS + PAUSE_MS
    assert times.before_max_ms >= DAY_MS
    assert list(risks([_topic(times.settings())], TTL_MS)) == []


def test_a_retention_without_a_limit_accepts_any_time() -> None:
    """For history: records of ten years ago stay, with their own times."""
    assert input_times(TTL_MS, FOREVER) == (FOREVER, UNLIMITED_MS)
    assert list(risks([_topic(input_times(TTL_MS, FOREVER).settings())], TTL_MS)) == []


@pytest.mark.parametrize(
    ("text", "kept_ms"), [("365d", 365 * DAY_MS), ("52w", 364 * DAY_MS), ("48h", 2 * DAY_MS), ("unlimited", FOREVER)]
)
def test_retention_as_users_write_it(text: str, kept_ms: int) -> None:
    """The largest unit that a person thinks in."""
    assert parse_retention(text) == kept_ms


@pytest.mark.parametrize("text", ["", "d", "365", "-1", "1.5d", "٣d", "365D", "-3d"])
def test_a_wrong_retention_is_refused(text: str) -> None:
    """A number without a unit could be taken for days or for milliseconds."""
    with pytest.raises(ConfigurationError, match="--retention"):
        parse_retention(text)


def test_a_retention_that_does_not_cover_a_join_and_a_pause_is_refused() -> None:
    """The topics would be wrong from the first day on."""
    with pytest.raises(ConfigurationError, match="must be at least 45 days"):
        input_times(TTL_MS, 44 * DAY_MS)


@pytest.mark.parametrize(
    ("settings", "is_wrong", "named"),
    [
        ({"retention.ms": "60000"}, True, "retention.ms is 1 minute"),
        ({"retention.ms": "604800000"}, True, "message.timestamp.before.max.ms is unlimited"),
        ({"retention.ms": str(29 * DAY_MS), "message.timestamp.before.max.ms": "0"}, True, "shorter than join.ttl_ms"),
        ({"retention.ms": str(40 * DAY_MS), "message.timestamp.before.max.ms": "0"}, False, "a pause of 14 days"),
        ({"retention.ms": str(50 * DAY_MS)}, True, "are accepted and deleted"),
        (
            {"retention.ms": str(50 * DAY_MS), "message.timestamp.before.max.ms": str(50 * DAY_MS)},
            False,
            "message.timestamp.before.max.ms is 50 days",
        ),
        ({"retention.bytes": "1000000"}, False, "retention.bytes is 1000000"),
    ],
)
def test_each_danger_is_named_with_the_command_that_corrects_it(
    settings: Mapping[str, str], *, is_wrong: bool, named: str
) -> None:
    """The command's settings, put into effect, leave nothing to say."""
    (risk,) = risks([_topic(settings)], TTL_MS)
    assert (risk.is_wrong, named in risk.text, risk.text.startswith("examples: ")) == (is_wrong, True, True)
    pairs = risk.text.rpartition("--add-config ")[2].split(",")
    corrected = {**settings, **dict(pair.split("=") for pair in pairs)}
    assert list(risks([_topic(corrected)], TTL_MS)) == []


def test_the_correction_keeps_a_retention_that_suffices() -> None:
    """An operator who keeps a year of inputs must not lose them by following our advice."""
    (risk,) = risks([_topic({"retention.ms": str(365 * DAY_MS)})], TTL_MS)
    assert f"retention.ms={365 * DAY_MS}," in risk.text


def test_an_unread_record_near_its_deletion() -> None:
    """Wrong once the broker may delete it, a warning while there is time left."""
    now_ms = 100 * DAY_MS

    def level(age_days: float, kept_ms: int) -> bool | None:
        risk = retention.age_risk(PLACE, 7, now_ms - int(age_days * DAY_MS), now_ms, kept_ms)
        return None if risk is None else risk.is_wrong

    assert [level(age, 10 * DAY_MS) for age in (0, 7, 8, 11)] == [None, None, False, True]
    assert level(99, FOREVER) is None


def test_the_in_process_broker_refuses_old_records_as_kafka_does() -> None:
    """Otherwise neither the simulation nor a test could meet the refusal."""
    clock = ManualClock()
    broker = AdministeredBroker(clock)
    broker.create_topic(_topic(input_times(TTL_MS).settings()))
    sender, oldest_ms = EmbeddedSender(broker), clock.now_ms() - retention.LATE_MS
    sender.send("examples", b"s", b"v", oldest_ms)
    for time_ms in (oldest_ms - 1, clock.now_ms() // 1_000):  # seconds for milliseconds
        with pytest.raises(DeliveryError, match="INVALID_TIMESTAMP"):
            sender.send("examples", b"s", b"v", time_ms)
    transaction = EmbeddedTransaction(broker, "t")
    transaction.initialise()
    transaction.begin()
    with pytest.raises(TransactionAbortedError, match="INVALID_TIMESTAMP"):
        transaction.produce(PLACE, OutputRecords.of([b"s"], [b"v"], [1], {}))
    assert broker.watermarks(PLACE) == (0, 1)


def test_the_in_process_broker_deletes_by_timestamp_and_by_size() -> None:
    """Kafka deletes from the start, up to the first segment that it keeps."""
    clock = ManualClock()
    broker = AdministeredBroker(clock)
    broker.create_topic(_topic({"retention.ms": "1000"}))
    now_ms = clock.now_ms()
    broker.append(PLACE, [(None, b"0123456789", now_ms - age, ()) for age in (5_000, 1_001, 1_000, 0)])
    broker.retain()
    assert broker.watermarks(PLACE) == (2, 4)
    broker.alter_topic("examples", {"retention.bytes": "10"})
    broker.retain()
    assert broker.watermarks(PLACE) == (3, 4)
    clock.advance(3_600)
    broker.retain()
    assert broker.watermarks(PLACE) == (4, 4)
