"""The manifest of a replay: what it says about the records that were sent, and its file."""

import hashlib
import json
import struct
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from stream_app.errors import ConfigurationError
from stream_app.producers.events import Sent
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.manifest import Manifest
from stream_app.producers.replay import replay
from stream_app.records import Label, Mark
from tests.support.replaying import ALL_FAULTS, NOW_MS, ListSender, decoded, plan_of, stream_plan


def test_each_fault_is_on_the_topics_as_often_as_the_manifest_says() -> None:
    """A reader compares the topics with the manifest, so each count and each listed number must be true."""
    stream = stream_plan("sine:length=3000", faults=ALL_FAULTS, delay=parse_label_delay("exponential:5s"), loops=2)
    sender = ListSender()
    manifest = replay(plan_of(stream), sender, sender.clock)
    (said,) = manifest.streams

    values: dict[str, dict[int, list[bytes]]] = {"examples": defaultdict(list), "labels": defaultdict(list)}
    classes: dict[int, list[int]] = defaultdict(list)
    garbage: Counter[str] = Counter()
    for record in sender.sent:
        found = decoded(record)
        if found is None:
            garbage[record.topic] += 1
        elif not isinstance(found, Mark):
            number = int(found.id.removeprefix(said.id_prefix))
            values[record.topic][number].append(record.value)
            if isinstance(found, Label):
                classes[number].append(found.label)

    examples, labels = values["examples"], values["labels"]
    numbers = said.fault_numbers
    assert said.examples.sent == len(examples)
    assert said.labels.sent == len(labels) == 6_000
    assert numbers.dropped_examples == tuple(number for number in range(6_000) if number not in examples)
    assert numbers.duplicate_examples == tuple(sorted(number for number in examples if len(examples[number]) == 2))
    assert all(len(set(copies)) == 1 for copies in examples.values())
    twice = {number for number in labels if len(labels[number]) > len(set(labels[number]))}
    assert set(numbers.duplicate_labels) == twice
    assert set(numbers.conflicting_labels) == {number for number in classes if len(set(classes[number])) == 2}
    truth = np.tile(stream.data.labels, 2)
    assert all(found[0] == truth[number] for number, found in classes.items())

    counts = asdict(said.faults)
    assert counts.pop("out_of_order") == sum(_out_of_order(sender.sent, topic) for topic in ("examples", "labels"))
    assert counts.pop("garbage_examples") == garbage["examples"]
    assert counts.pop("garbage_labels") == garbage["labels"]
    assert counts == {name: len(getattr(numbers, name)) for name in counts}
    assert all(200 < count < 400 for count in counts.values())
    assert 200 < garbage.total() < 400
    assert said.faults.out_of_order > 100
    assert said.never_labelled == 0


def _out_of_order(records: Sequence[Sent], topic: str) -> int:
    latest, count = 0, 0
    for record in records:
        if record.topic == topic:
            count += record.timestamp_ms < latest
            latest = max(latest, record.timestamp_ms)
    return count


def test_the_manifest_has_digest_offsets_and_drift() -> None:
    """A reader computes the digest as the module describes it, and finds a drift by its event time."""
    stream = stream_plan(
        "sea:drift=posterior,length=100,imbalance=40", "sea", interval_ms=10, loops=2, unlabelled_share=0.3
    )
    sender = ListSender()
    manifest = replay(plan_of(stream, options={"rate": "max"}), sender, sender.clock)
    digest = hashlib.sha256()
    for topic, key, value, timestamp_ms in sender.sent:
        digest.update(topic.encode() + b"\0" + struct.pack("<q", timestamp_ms))
        digest.update(struct.pack("<I", len(key)) + key + struct.pack("<I", len(value)) + value)
    assert manifest.digest == digest.hexdigest()
    assert manifest.records == len(sender.sent)
    ranges = {(place.topic, place.partition): (place.first, place.end) for place in manifest.ranges}
    assert ranges["examples", 0] == (5, 5 + 201)
    (said,) = manifest.streams
    assert [(drift.kind, drift.step, drift.time_ms) for drift in said.drifts] == [
        ("posterior", 50, NOW_MS + 500),
        ("posterior", 150, NOW_MS + 1_500),
    ]
    positives = 2 * int(stream.data.labels.sum())
    assert (said.examples.sent, said.examples.positive, said.examples.negative) == (200, positives, 200 - positives)
    assert said.labels.sent + said.never_labelled == 200
    assert said.labels.positive + said.labels.negative == said.labels.sent


def test_the_manifest_reads_back(tmp_path: Path) -> None:
    """A later verification of a replay has nothing but the file."""
    sender = ListSender()
    manifest = replay(plan_of(stream_plan("sine:drift=prior,length=50", faults=ALL_FAULTS)), sender, sender.clock)
    path = tmp_path / "manifest.json"
    manifest.save(path)
    assert json.loads(path.read_text())["format"] == 1
    assert Manifest.load(path) == manifest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not a manifest of a replay"),
        (b"{}", "format: Field required"),
        (None, "No such file"),
    ],
)
def test_a_wrong_manifest_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    """One line with the file and what is wrong."""
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        Manifest.load(path)
    assert len(caught.value.lines) == 1


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    """In a later format the same names may have other meanings."""
    sender = ListSender()
    path = tmp_path / "manifest.json"
    replace(replay(plan_of(), sender, sender.clock), format=2).save(path)
    with pytest.raises(ConfigurationError, match="format 2"):
        Manifest.load(path)
