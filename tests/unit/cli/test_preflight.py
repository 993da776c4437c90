"""`areba topics check` finds what would stop or endanger a worker before one is started."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.cli import preflight as module
from stream_app.cli.clients import try_consumer, with_source
from stream_app.cli.preflight import CLOCK_TOLERANCE_MS, Level, Result, preflight
from stream_app.config import Config, load
from stream_app.errors import ConfigurationError, TopicError
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from tests.support.brokers import AdministeredBroker

CONFIG = Config.model_validate({"application": {"id": "app", "instance": "w"}})
CHECKS = [
    "connection",
    "topics",
    "replication",
    "retention",
    "unread records",
    "rights",
    "reading",
    "tasks",
    "clock",
    "memory",
    "consumer",
    "identity",
    "compile cache",
]


class _Cluster(EmbeddedCluster):
    """A cluster of one process that answers as a broker may."""

    no_answer_text = "no answer"

    def __init__(self, broker: AdministeredBroker) -> None:
        super().__init__(broker)
        self.brokers = 1
        self.denied: list[str] = []
        self.newest_ms: int | None = None
        self.workers: Sequence[str] = ()

    def broker_count(self) -> int:
        return self.brokers

    def missing_rights(self, topics: Mapping[str, Sequence[str]], groups: Mapping[str, str]) -> list[str]:
        del groups
        return [line for line in self.denied if any(line.split()[0] in needed for needed in topics.values())]

    def newest_timestamp_ms(self, partitions: Sequence[TopicPartition]) -> int | None:
        assert {place.topic for place in partitions} == {CONFIG.topics.progress}
        return self.newest_ms

    def members(self, group_id: str) -> Sequence[str]:
        assert group_id == CONFIG.group_id
        return self.workers


@pytest.fixture
def broker() -> AdministeredBroker:
    """Return a broker with the topics of the application."""
    broker = AdministeredBroker(SystemClock())
    for topic in topic_plan.plan(CONFIG.topics, 2):
        broker.create_topic(topic)
    return broker


@pytest.fixture
def cluster(broker: AdministeredBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Cluster:
    """Return its cluster; the folder of compiled code is a new one, on a disk with enough room."""
    monkeypatch.setenv("AREBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module, "SPARE_BYTES", 1)
    return _Cluster(broker)


def _fine() -> None:
    """Initialise a producer without any problem."""


def _found(cluster: _Cluster, level: Level) -> list[str]:
    results: list[Result] = list(preflight(CONFIG, cluster, _fine, _fine))
    return [result.check for result in results if result.level is level]


def test_a_sound_application_passes_all_checks(cluster: _Cluster) -> None:
    """A check that is left out finds nothing."""
    assert _found(cluster, Level.OK) == CHECKS


@pytest.mark.parametrize(("lanes", "level"), [(2, Level.OK), (3, Level.OK), (7, Level.WARNING)])
def test_lanes_that_lie_unevenly_are_named(cluster: _Cluster, lanes: int, level: Level) -> None:
    """Otherwise somebody starts eight workers for eight lanes, and three of them have nothing to do."""
    config = Config.model_validate({**CONFIG.model_dump(), "streams": {"clicks": {"lanes": lanes}, "pumps": {}}})
    (found,) = [result for result in preflight(config, cluster, _fine, _fine) if result.check == "lanes"]
    assert found.level is level
    assert found.text.startswith(f"the {lanes} lanes of clicks are in 2 of 2 partitions")


def test_a_model_beside_the_lanes_is_named(cluster: _Cluster) -> None:
    """A producer that does not know of the lanes would train it, and its labels would look as if they were used."""
    sections = {"streams": {"clicks": {"lanes": 2}}, "unknown_streams": "model"}
    config = Config.model_validate({**CONFIG.model_dump(), **sections})
    found = [result for result in preflight(config, cluster, _fine, _fine) if result.check == "lanes"]
    assert [result.level for result in found] == [Level.OK, Level.WARNING]
    assert "a record of clicks itself would begin a model" in found[1].text


def test_no_broker(cluster: _Cluster) -> None:
    """Everything else would only repeat that no broker answers, except what concerns this machine."""
    cluster.brokers = 0
    assert [tuple(result)[:2] for result in preflight(CONFIG, cluster, _fine, _fine)] == [
        (Level.WRONG, "connection"),
        (Level.OK, "compile cache"),
    ]


def test_topics_that_are_missing_or_wrong(cluster: _Cluster, broker: AdministeredBroker) -> None:
    """All faults are reported together, each on its own line."""
    broker.alter_topic(CONFIG.topics.examples, {"cleanup.policy": "compact"})
    broker.alter_topic(CONFIG.topics.labels, {"message.timestamp.type": "LogAppendTime"})
    assert _found(cluster, Level.WRONG) == ["topics", "topics"]
    broker.delete_topic(CONFIG.topics.metrics)
    assert _found(cluster, Level.WRONG) == ["topics", "topics", "topics"]


def test_a_retention_of_a_minute(cluster: _Cluster, broker: AdministeredBroker) -> None:
    """Examples that wait a day for their labels vanish after a minute, acknowledged."""
    broker.alter_topic(CONFIG.topics.examples, {"retention.ms": "60000"})
    assert _found(cluster, Level.WRONG) == ["retention"]


def test_topics_check_warns_of_retention_by_size(cluster: _Cluster, broker: AdministeredBroker) -> None:
    """How long it lasts depends on the traffic, which nobody knows beforehand."""
    broker.alter_topic(CONFIG.topics.labels, {"retention.bytes": "1000000"})
    assert (_found(cluster, Level.WRONG), _found(cluster, Level.WARNING)) == ([], ["retention"])


def _commit(broker: AdministeredBroker, place: TopicPartition) -> None:
    """Commit that everything was read."""
    commit = Commit(0, 0, broker.watermarks(place).high, 0, 0, bytes(32), 0)
    progress = TopicPartition(CONFIG.topics.progress, place.partition)
    broker.append(progress, [(None, codec.encode(commit), time.time_ns() // 1_000_000, ())])


def _wrong(cluster: _Cluster) -> Sequence[str]:
    """Return what is wrong; the commits of this test come from no worker, so the tasks cannot be restored either."""
    return [name for name in _found(cluster, Level.WRONG) if name != "tasks"]


def test_unread_records_that_are_about_to_be_deleted(cluster: _Cluster, broker: AdministeredBroker) -> None:
    """Examples of 2013: acknowledged, and gone at the broker's next check; then they are gone unread."""
    place, days_7 = TopicPartition(CONFIG.topics.examples, 1), 7 * 86_400_000
    broker.alter_topic(place.topic, {"retention.ms": str(days_7), "message.timestamp.before.max.ms": str(2**63 - 1)})
    now_ms = time.time_ns() // 1_000_000
    for age_ms, warned in ((days_7 // 2, False), (days_7 - 3_600_000, True)):
        broker.append(place, [(b"s", b"v", now_ms - age_ms, ())])
        assert _wrong(cluster) == ["retention"]
        assert _found(cluster, Level.WARNING) == ["unread records"] * warned
        broker.delete_before(place, broker.watermarks(place).high)
        _commit(broker, place)
    broker.append(place, [(b"s", b"v", 1_380_000_000_000, ())] * 3)
    assert _wrong(cluster) == ["retention", "unread records"]
    broker.retain()
    assert _wrong(cluster) == ["retention", "unread records"], "gone, and nobody has read them"
    _commit(broker, place)
    assert _wrong(cluster) == ["retention"]


def test_rights(cluster: _Cluster) -> None:
    """A worker that may not write would end at its first commit; without Delete, progress only grows."""
    cluster.denied = ["Write on topic metrics is missing"]
    assert _found(cluster, Level.WRONG) == ["rights"]
    cluster.denied = ["Delete on topic progress is missing"]
    assert (_found(cluster, Level.WRONG), _found(cluster, Level.WARNING)) == ([], ["rights"])


def test_the_clock_of_the_broker(cluster: _Cluster) -> None:
    """A broker whose clock is ahead accepts event times that the worker takes for the future."""
    now_ms = time.time_ns() // 1_000_000
    cluster.newest_ms = now_ms - 3_600_000
    assert _found(cluster, Level.WRONG) == []
    cluster.newest_ms = now_ms + 10 * CLOCK_TOLERANCE_MS
    assert _found(cluster, Level.WRONG) == ["clock"]


def test_a_running_worker_is_not_fenced(cluster: _Cluster) -> None:
    """A check that stops what it checks must never run in production."""

    def fence() -> None:
        raise AssertionError("it would fence the worker")

    cluster.workers = ("areba/1",)
    assert [result.level for result in preflight(CONFIG, cluster, fence, _fine)] == [Level.OK] * len(CHECKS)


@pytest.mark.parametrize("error", [ConfigurationError("Write on it is missing"), TopicError(["one", "two"])])
def test_a_transactional_id_that_is_refused(cluster: _Cluster, error: ConfigurationError) -> None:
    """The broker's reason is in the report, and the checks after it still run."""

    def refuse() -> None:
        raise error

    results = list(preflight(CONFIG, cluster, refuse, _fine))
    assert [result.text for result in results if result.level is Level.WRONG] == list(error.lines)
    assert results[-1].check == "compile cache"


def test_a_setting_that_the_consumer_does_not_know(tmp_path: Path) -> None:
    """A worker would end with status 2; the line names the setting and its place in the file."""
    path = tmp_path / "my.yaml"
    path.write_text("kafka:\n  consumer:\n    fetch.max.byte: 1000\n")
    with pytest.raises(ConfigurationError) as caught:
        try_consumer(load(path, {}))
    line = with_source(caught.value.lines[0], path)
    assert line.startswith(f"{path}:3: kafka.consumer.fetch.max.byte: ")
    assert with_source("another line", path) == "another line"


def test_a_machine_that_is_too_small(cluster: _Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would end the worker once its tables are full; full disks stop it at the first compilation."""
    monkeypatch.setattr(module, "memory_limit_bytes", lambda: (1 << 20, "the machine"))
    monkeypatch.setattr(module, "SPARE_BYTES", 1 << 60)
    assert _found(cluster, Level.WARNING) == ["memory", "compile cache"]


@pytest.mark.parametrize(("bound", "level"), [(1 << 28, Level.WARNING), (1 << 33, Level.OK)])
def test_more_pending_examples_than_the_tables_have_room_for(cluster: _Cluster, bound: int, level: Level) -> None:
    """Otherwise five million are allowed, and the pool evicts all but some hundred thousand."""
    join = {"max_pending_per_stream": 5_000_000, "max_table_bytes_per_task": bound}
    config = Config.model_validate({**CONFIG.model_dump(), "streams": {"payments": {"features": 30}}, "join": join})
    (found,) = [result for result in preflight(config, cluster, _fine, _fine) if result.check == "tables"]
    assert found.level is level
    assert found.text.startswith("5,000,000 pending examples of stream 'payments' count ")
    assert "join.max_table_bytes_per_task" in found.text


def test_a_cache_that_others_may_write(cluster: _Cluster, tmp_path: Path) -> None:
    """A user who can write there can run code as this user."""
    (tmp_path / "compiled-code").mkdir()
    (tmp_path / "compiled-code").chmod(0o777)
    assert _found(cluster, Level.WRONG) == ["compile cache"]


def test_a_cache_that_is_part_of_an_image(cluster: _Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker runs with a read-only cache; a check that refuses it would keep the composition's replayer waiting."""
    monkeypatch.setattr(module, "is_read_only", lambda _: True)
    assert _found(cluster, Level.WRONG) == _found(cluster, Level.WARNING) == []
