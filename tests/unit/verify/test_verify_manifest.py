"""`areba verify --manifest`: what a replayer says that it sent is on the topics, or the difference is named."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.errors import ConfigurationError
from stream_app.producers.faults import Faults
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.replay import replay
from stream_app.producers.sources import parse_source
from stream_app.records import (
    Example,
    Mark,
)
from stream_app.serialization import codec
from stream_app.verify import verify
from stream_app.verify.results import Code
from tests.support.verified_log import (
    CONFIG,
    TOPICS,
    Log,
    lines,
)


@dataclass(frozen=True)
class Replay:
    """Streams that were sent to an in-process log, and their manifest."""

    broker: EmbeddedBroker
    path: Path

    def report(self) -> verify.Report:
        """Verify the topics against the manifest; no worker ever ran."""
        return verify.verify(EmbeddedCluster(self.broker), CONFIG, [self.path])

    def entries(self, topic: str) -> list[Any]:
        """Return all entries of the topic's one partition, for a test to damage."""
        return self.broker._logs[TopicPartition(topic, 0)].entries


def replayed(folder: Path, faults: Faults) -> Replay:
    """Two short streams with late labels and with these faults."""
    broker = EmbeddedBroker(ManualClock())
    for topic in topic_plan.plan(TOPICS, 1):
        broker.create_topic(topic)
    sources = [parse_source(name) for name in ("sine:length=120,imbalance=20", "sea:length=90,imbalance=20")]
    plan = Plan(
        tuple(
            StreamPlan(source.stream, source.data, parse_label_delay("uniform:1ev-30ev"), 0.1, faults)
            for source in sources
        )
    )
    manifest = replay(plan, EmbeddedSender(broker), broker.clock)
    path = folder / "manifest.json"
    manifest.save(path)
    return Replay(broker, path)


def test_verify_finds_every_record_of_the_manifest(tmp_path: Path) -> None:
    """The replayer's manifest and the topics agree, with any injected faults."""
    faults = Faults(duplicates=0.1, dropped=0.1, conflicting_labels=0.1, garbage=0.1)
    report = replayed(tmp_path, faults).report()
    assert list(report.findings) == []
    assert [note.split(": ")[1] for note in report.notes] == [
        f"{len(replayed(tmp_path, faults).entries(topic))} records of the manifests are not yet processed"
        for topic in (TOPICS.examples, TOPICS.labels)
    ]


def test_records_out_of_order_have_no_digest(tmp_path: Path) -> None:
    """The topics do not show the order of sending then; everything else is checked."""
    report = replayed(tmp_path, Faults(out_of_order=0.2)).report()
    assert list(report.findings) == []
    assert report.notes[-1] == "manifest.json: its digest was not checked: it sent records out of order"


def test_a_record_that_was_sent_and_is_not_there(tmp_path: Path) -> None:
    """A record that the broker acknowledged to the replayer is missing from its topic."""
    sent = replayed(tmp_path, Faults())
    for topic, place in ((TOPICS.examples, 31), (TOPICS.labels, 47)):
        del sent.entries(topic)[place]
    text = lines(sent.report())
    assert re.search(r"manifest\.json: stream (sine|sea): examples missing: [0-9a-f]{10}-\d+$", text, re.MULTILINE)
    assert re.search(r"manifest\.json: stream (sine|sea): distinct labels: \d+ found, \d+ sent", text)


def test_a_record_that_is_there_twice(tmp_path: Path) -> None:
    """A retry of a producer that was not idempotent."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.examples)
    entries[40] = entries[39]._replace(offset=40)
    text = lines(sent.report())
    assert re.search(r"examples missing: [0-9a-f]{10}-\d+$", text, re.MULTILINE)
    assert re.search(r"examples too many: [0-9a-f]{10}-\d+", text)


def test_a_record_with_other_bytes(tmp_path: Path) -> None:
    """All counts are right, but the features are not the ones that were sent."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.examples)
    example = codec.decode_one(entries[5].value)
    assert isinstance(example, Example)
    entries[5] = entries[5]._replace(value=codec.encode(replace(example, features=[0.0, *example.features[1:]])))
    (finding,) = sent.report().findings
    assert finding.code == Code.WRONG_MANIFEST_DIGEST
    assert re.fullmatch(r"manifest\.json: digest [0-9a-f]{64} on the topics, [0-9a-f]{64} was sent", finding.text)


def test_missing_marks(tmp_path: Path) -> None:
    """Without its closing marks a finite stream stays open for a day."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.labels)
    places = [place for place, entry in enumerate(entries) if isinstance(codec.decode_one(entry.value), Mark)]
    del entries[places[0]]
    assert "closing marks of labels: 0 found, 1 sent" in lines(sent.report())


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    """The error names the file and has no traceback."""
    path = tmp_path / "manifest.json"
    for text in ("{}", "[]", "\0", '{"format": 1}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=r"manifest\.json: not a manifest of a replay"):
            verify.verify(Log(), CONFIG, [path])
    path.write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="a manifest of format 2"):
        verify.verify(Log(), CONFIG, [path])
    with pytest.raises(ConfigurationError, match=r"nowhere\.json: No such file"):
        verify.verify(Log(), CONFIG, [tmp_path / "nowhere.json"])
