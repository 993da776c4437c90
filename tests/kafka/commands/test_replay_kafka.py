"""A replay on a real Kafka: the topics have the records that the manifest lists."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.broker import Broker
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.producers import cli
from stream_app.producers.events import Sent, events
from stream_app.producers.faults import Faults
from stream_app.producers.manifest import Manifest
from stream_app.producers.plan import uniform_plan
from stream_app.producers.sources import parse_source

pytestmark = pytest.mark.kafka

PARTITIONS = 4
READ_TIMEOUT_S = 30.0


def _create(kafka: Broker, prefix: str, **settings: str) -> KafkaCluster:
    assert kafka.bootstrap_servers is not None
    cluster = KafkaCluster(kafka.bootstrap_servers)
    named = {name.replace("_", "."): value for name, value in settings.items()}
    cluster.create([TopicInfo(f"{prefix}{name}", PARTITIONS, named) for name in ("examples", "labels")], replication=1)
    return cluster


def _run(kafka: Broker, prefix: str, *arguments: str) -> tuple[int, str]:
    servers = ("--bootstrap-servers", str(kafka.bootstrap_servers))
    result = CliRunner().invoke(cli.main, ["run", *arguments, *servers, "--topic-prefix", prefix])
    return result.exit_code, result.stderr


def _read(cluster: KafkaCluster, place: TopicPartition, first: int, end: int) -> list[Sent]:
    reader = cluster.reader(place)
    reader.seek(first)
    found: list[Sent] = []
    while len(found) < end - first:
        fetched = reader.poll(10_000, READ_TIMEOUT_S)
        assert fetched is not None, f"{place}: only {len(found)} of {end - first} records came"
        records = fetched.records
        for key, value, time_ms in zip(records.keys, records.values, records.timestamps.tolist(), strict=True):
            assert key is not None
            assert value is not None
            found.append(Sent(place.topic, key, value, time_ms))
    reader.close()
    return found


def test_the_topics_hold_what_the_manifest_says(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Every record of the plan is there once, with its timestamp and in order; a stream is in one partition."""
    cluster = _create(kafka, prefix)
    path = tmp_path / "manifest.json"
    faults = (
        "--duplicates=0.05",
        "--out-of-order=0.05",
        "--dropped=0.05",
        "--conflicting-labels=0.05",
        "--garbage=0.05",
    )
    names = ("credit", "sine:length=2000", "sea:length=2000,interval_ms=700")
    code, output = _run(kafka, prefix, *names, *faults, "--label-delay", "exponential:30s", "--manifest", str(path))
    assert code == 0, output
    manifest = Manifest.load(path)

    found: list[Sent] = []
    homes: dict[bytes, set[int]] = {}
    for place in manifest.ranges:
        records = _read(cluster, TopicPartition(place.topic, place.partition), place.first, place.end)
        found += records
        for record in records:
            homes.setdefault(record.key, set()).add(place.partition)
    assert {key: len(places) for key, places in homes.items()} == {b"credit": 1, b"sine": 1, b"sea": 1}

    expected = _expected(manifest, names)
    assert len(found) == manifest.records
    assert Counter(found) == Counter(expected)
    for topic in (manifest.examples_topic, manifest.labels_topic):
        for key in homes:
            mine = [record for record in found if (record.topic, record.key) == (topic, key)]
            assert mine == [record for record in expected if (record.topic, record.key) == (topic, key)]


def _expected(manifest: Manifest, names: tuple[str, ...]) -> list[Sent]:
    """Make the records of the plan again, from the manifest alone."""
    plan = uniform_plan(
        [parse_source(name) for name in names],
        label_delay=manifest.options["label_delay"],
        faults=Faults(0.05, 0.05, 0.05, 0.05, 0.05),
    )
    sent = replace(plan, examples_topic=manifest.examples_topic, labels_topic=manifest.labels_topic)
    return list(events(replace(sent, start_ms=manifest.start_ms)))


def test_topics_that_are_not_there_are_named(kafka: Broker, prefix: str) -> None:
    """A topic that is created automatically would have one partition and the broker's settings."""
    code, output = _run(kafka, prefix, "sine:length=5")
    assert code == 2
    assert f"topic {prefix}examples: it does not exist" in output
    assert f"topic {prefix}labels: it does not exist" in output


def test_a_span_above_the_retention_time_is_refused(kafka: Broker, prefix: str) -> None:
    """The broker's own setting counts, not a default."""
    _create(kafka, prefix, retention_ms="60000")
    code, output = _run(kafka, prefix, "sine:length=500", "--interval-ms", "1000")
    assert code == 2
    assert "up to 60.0 seconds old" in output


def test_a_record_that_the_broker_refuses_ends_the_run(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The command ends with status 1 and a count, and writes no manifest."""
    _create(kafka, prefix, max_message_bytes="1000")
    path = tmp_path / "manifest.json"
    code, output = _run(kafka, prefix, "mnist:limit=50", "--manifest", str(path))
    assert code == 1
    assert "records were not delivered" in output
    assert not path.exists()
