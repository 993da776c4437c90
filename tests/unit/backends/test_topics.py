"""Start-up refuses topics that would break a guarantee later, with one line for each problem."""

from dataclasses import replace

import pytest

from stream_app.backends import base, topics
from stream_app.backends.base import TopicInfo
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.config import Config

CONFIG = Config.model_validate({"application": {"id": "app"}, "kafka": {"topic_prefix": "p-"}})
NAMES = CONFIG.topics


def _found(*changed: TopicInfo) -> dict[str, TopicInfo]:
    """Return the planned topics with the settings in effect, some of them changed."""
    cluster = EmbeddedCluster(EmbeddedBroker(ManualClock()))
    planned = {topic.name: topic for topic in topics.plan(NAMES, 4)} | {topic.name: topic for topic in changed}
    cluster.create(list(planned.values()), 1)
    return dict(cluster.topics(NAMES))


def _check(found: dict[str, TopicInfo]) -> list[str]:
    return topics.check(
        found,
        NAMES,
        max_clock_lead_ms=CONFIG.join.max_clock_lead_ms,
        max_record_bytes=CONFIG.limits.max_record_bytes,
    )


def _planned(name: str) -> TopicInfo:
    return next(topic for topic in topics.plan(NAMES, 4) if topic.name == name)


def test_created_topics_pass_the_check_of_a_start() -> None:
    """`areba topics create` and start-up must not disagree."""
    assert _check(_found()) == []
    assert {topic.name for topic in topics.plan(NAMES, 4)} == set(NAMES)


def test_the_plan_follows_the_configuration() -> None:
    """Larger records and stricter clocks are correct if the topics were created for them."""
    limits = {"max_clock_lead_ms": 1000, "max_record_bytes": 5_000_000}
    cluster = EmbeddedCluster(EmbeddedBroker(ManualClock()))
    cluster.create(topics.plan(NAMES, 1, **limits), 1)
    assert topics.check(cluster.topics(NAMES), NAMES, **limits) == []
    assert len(_check(dict(cluster.topics(NAMES)))) == 0, "what is stricter is right, too"
    assert len(topics.check(_found(), NAMES, **limits)) == 4, "the defaults are too loose and too small"


def test_missing_topics_are_all_named() -> None:
    """A single start names everything that has to be created."""
    lines = _check({})
    assert [line.split(":")[0] for line in lines] == list(NAMES)
    assert all("areba topics create" in line for line in lines)


OUTPUTS = ("predictions", "outcomes", "metrics", "dead_letters")


@pytest.mark.parametrize(
    ("topic", "setting", "value", "said"),
    [
        ("examples", "message.timestamp.type", "LogAppendTime", "must be CreateTime"),
        ("labels", "message.timestamp.type", "LogAppendTime", "must be CreateTime"),
        ("examples", "cleanup.policy", "compact", "must be delete"),
        ("labels", "cleanup.policy", "compact,delete", "must be delete"),
        ("examples", "message.timestamp.after.max.ms", "3600001", "must be at most 3600000 (join.max_clock_lead_ms)"),
        ("labels", "message.timestamp.after.max.ms", "9223372036854775807", "must be at most 3600000"),
        ("labels", "max.message.bytes", "1000000", "must be at least 1001024"),
        *((name, "message.timestamp.type", "CreateTime", "must be LogAppendTime") for name in OUTPUTS),
        ("outcomes", "cleanup.policy", "compact", "must be delete"),
        ("metrics", "max.message.bytes", "100000", "must be at least 1001024"),
        ("dead_letters", "max.message.bytes", "1001023", "must be at least 1001024"),
        ("predictions", "max.message.bytes", "1001023", "must be at least 1001024"),
        ("progress", "message.timestamp.type", "CreateTime", "must be LogAppendTime"),
        ("progress", "retention.ms", "604800000", "must be -1"),
        ("progress", "retention.bytes", "1000000000", "must be -1"),
        ("progress", "cleanup.policy", "compact", "must be delete"),
        ("changelog", "cleanup.policy", "delete", "must be compact"),
        ("changelog", "max.message.bytes", "100000", "must be at least 1001024"),
    ],
)
def test_each_wrong_setting_is_named(topic: str, setting: str, value: str, said: str) -> None:
    """The line has the topic, the setting, its value, and the required value."""
    name = getattr(NAMES, topic)
    planned = _planned(name)
    (line,) = _check(_found(replace(planned, settings={**planned.settings, setting: value})))
    assert line.startswith(f"{name}: {setting} is {value}, ")
    assert said in line
    if len(said.split()) == 3:
        command = "kafka-configs.sh --bootstrap-server SERVERS --alter --entity-type topics --entity-name"
        assert line.endswith(f"{command} {name} --add-config {setting}={said.split()[2]}")


@pytest.mark.parametrize("topic", [name for name in NAMES._fields if name != "progress"])
def test_another_number_of_partitions_is_refused(topic: str) -> None:
    """Task p is partition p of every topic, permanently: the progress topic records the number."""
    name = getattr(NAMES, topic)
    (line,) = _check(_found(replace(_planned(name), partitions=3)))
    assert line.startswith(f"{name}: has 3 partitions and p-app-progress has 4")


def test_inputs_of_unequal_partition_numbers_are_refused_before_there_is_progress() -> None:
    """A label would not be in the partition of its example."""
    found = _found(replace(_planned(NAMES.labels), partitions=3))
    del found[NAMES.progress]
    missing, unequal = _check(found)
    assert missing.startswith(f"{NAMES.progress}: the topic does not exist")
    assert unequal.startswith(f"{NAMES.labels}: has 3 partitions and {NAMES.examples} has 4")


def test_all_that_is_wrong_is_said_at_once() -> None:
    """A user should not have to start ten times to find ten mistakes."""
    found = _found(
        TopicInfo(NAMES.examples, 2, {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}),
        TopicInfo(NAMES.progress, 4, {}),
    )
    del found[NAMES.metrics]
    lines = _check(found)
    assert sorted({line.split(":")[0] for line in lines}) == sorted([NAMES.examples, NAMES.metrics, NAMES.progress])
    assert len(lines) == 6


def test_dead_letters_may_be_smaller_than_the_inputs() -> None:
    """A letter that does not fit leaves a part out; with the topic that `plan` creates, complete letters fit."""
    planned = _planned(NAMES.dead_letters)
    assert topics.largest_batch_bytes(planned) == topics.largest_batch_bytes(_planned(NAMES.examples)) + 16_384
    least = str(base.MAX_BATCH_BYTES + topics.RECORD_OVERHEAD_BYTES)
    assert not _check(_found(replace(planned, settings={**planned.settings, "max.message.bytes": least})))


def test_one_copy_is_warned_of() -> None:
    """On three brokers, the default of one copy voids exactly-once with the first broken disk."""
    plan = topics.plan(NAMES, 1)
    copies = {1: "replication is 1", 3: "", None: ""}
    for replication, warned in copies.items():
        lines = topics.warnings({topic.name: replace(topic, replication=replication) for topic in plan})
        assert len(lines) == bool(warned)
        assert all(warned in line and NAMES.progress in line for line in lines)


def test_a_changelog_that_keeps_erased_examples_for_long_is_named() -> None:
    """Compaction alone removes what was erased, and by default Kafka compacts a quiet topic after weeks."""
    planned = _planned(NAMES.changelog)
    assert not list(topics.slow_compactions({planned.name: planned}))
    slow = replace(planned, settings={**planned.settings, "max.compaction.lag.ms": str(2**63 - 1)})
    (line,) = topics.slow_compactions({planned.name: slow, NAMES.progress: _planned(NAMES.progress)})
    assert line.startswith(f"{NAMES.changelog}: max.compaction.lag.ms is ")
    assert "kafka-configs" in line
