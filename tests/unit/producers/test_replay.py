"""The records of a replay, their times, and the manifest about them."""

import hashlib
import json
import struct
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from click.testing import CliRunner, Result

from producers import cli, datasets
from producers.datasets.base import DataSet
from producers.events import Sent, events, id_prefix
from producers.faults import Faults
from producers.label_delay import parse_label_delay
from producers.manifest import Manifest
from producers.plan import Plan, StreamPlan
from producers.replay import replay
from producers.schedule import fit_to_retention, schedule, span_ms
from producers.synthetic import parse_spec, synthetic
from producers.target import check_topics, read_client_config
from stream_app.backends.base import TopicInfo, TopicPartition, Watermarks
from stream_app.errors import ArebaError, ConfigurationError, DeliveryError, TopicError
from stream_app.records import MAX_ID_BYTES, Example, Header, Label, Mark, MarkKind
from stream_app.serialization.codec import decode_one

NOW_MS = 1_700_000_000_000

ALL_FAULTS = Faults(duplicates=0.05, out_of_order=0.05, dropped=0.05, conflicting_labels=0.05, garbage=0.05)


class FakeClock:
    """A clock that sleeping moves."""

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
        """Note the call."""
        self.closed = True


def _stream(text: str = "sine:length=500", name: str = "sine", **options: Any) -> StreamPlan:  # noqa: ANN401  (any field)
    return replace(StreamPlan(name, synthetic(parse_spec(text))), **options)


def _plan(*streams: StreamPlan, **options: Any) -> Plan:  # noqa: ANN401  (any field)
    return replace(Plan(streams or (_stream(),), start_ms=NOW_MS), **options)


def _decoded(record: Sent) -> Example | Label | Mark | None:
    """Decode a record; None for garbage."""
    try:
        found = decode_one(record.value)
    except ArebaError:
        return None
    assert isinstance(found, Example | Label | Mark)
    return found


# What is sent ---------------------------------------------------------------------------------------------------------


def test_examples_and_labels_are_the_data_sets() -> None:
    """Features, classes, times and keys must be those of the data, in order, each label right after its example."""
    stream = _stream()
    records = list(events(_plan(stream)))
    assert len(records) == 2 * 500 + 2
    for number, (first, second) in enumerate(zip(records[:-2:2], records[1:-2:2], strict=True)):
        example, label = _decoded(first), _decoded(second)
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
    fast = _stream("sea:length=400", "fast", interval_ms=10)
    slow = _stream("circle:length=40", "slow", interval_ms=100)
    records = list(events(_plan(fast, slow, topic_prefix="t-")))
    assert {record.topic for record in records} == {"t-examples", "t-labels"}
    times = [record.timestamp_ms for record in records]
    assert times == sorted(times)
    head = [record.key for record in records[:44]]
    assert head.count(b"slow") == 2 * 2
    first = [record[:2] for record in records if record.timestamp_ms == NOW_MS]
    assert first == [(topic, key) for topic in ("t-examples", "t-labels") for key in (b"fast", b"slow")]


def test_labels_come_when_their_delay_says() -> None:
    """The timestamp of a label is when the class became known."""
    stream = _stream(delay=parse_label_delay("fixed:3ev"))
    records = list(events(_plan(stream)))
    labels = [record.timestamp_ms for record in records if record.topic == "labels"]
    assert labels[:500] == [NOW_MS + (number + 3) * 1_000 for number in range(500)]


def test_a_stream_ends_with_a_pair_of_marks() -> None:
    """The marks let a join close what is pending; they come last, at the last event time, not in the future."""
    short = _stream("sea:length=20", "short")
    late = _stream("sine:length=50", "late", delay=parse_label_delay("uniform:0s-90s"), faults=ALL_FAULTS)
    records = list(events(_plan(short, late)))
    for name in (b"short", b"late"):
        mine = [record for record in records if record.key == name]
        end_ms = max(record.timestamp_ms for record in mine)
        marks = mine[-2:]
        assert [record.topic for record in marks] == ["examples", "labels"]
        for record in marks:
            assert record.timestamp_ms == end_ms
            assert _decoded(record) == Mark(name.decode(), MarkKind.ADVANCE, time_ms=end_ms)
        assert not any(isinstance(_decoded(record), Mark) for record in mine[:-2])


def test_a_stream_of_which_nothing_is_left_still_ends() -> None:
    """Faults may drop everything; a reader that waits for the end of the stream would wait forever."""
    stream = _stream("sine:length=2", unlabelled_share=1.0, faults=Faults(dropped=0.999))
    records = list(events(_plan(stream)))
    assert [_decoded(record) for record in records] == [Mark("sine", MarkKind.ADVANCE, time_ms=NOW_MS + 1_000)] * 2


def test_the_clock_ends_now() -> None:
    """Kafka deletes old records at once and refuses records from the future."""
    sender = ListSender()
    manifest = replay(_plan(_stream(delay=parse_label_delay("exponential:60s")), start_ms=None), sender, sender.clock)
    times = [record.timestamp_ms for record in sender.sent]
    assert max(times) == NOW_MS == manifest.end_ms
    assert min(times) == manifest.start_ms


def test_ids_are_short_and_belong_to_one_run() -> None:
    """A second replay onto the same topics would repeat the ids of the first, and its examples would be duplicates."""
    plan = _plan(_stream(loops=2))
    ids = [found.id for record in events(plan) if isinstance(found := _decoded(record), Example)]
    assert len(set(ids)) == len(ids) == 1_000
    assert max(len(text.encode()) for text in ids) <= MAX_ID_BYTES
    others = [replace(plan, seed=1), replace(plan, start_ms=NOW_MS + 1)]
    prefixes = {id_prefix(other, other.streams[0]) for other in (plan, *others)}
    prefixes.add(id_prefix(plan, replace(plan.streams[0], stream="other")))
    assert len(prefixes) == 4


def test_loops_send_the_data_again() -> None:
    """A soak test runs longer than its data."""
    records = [_decoded(record) for record in events(_plan(_stream(loops=3)))]
    features = [tuple(record.features) for record in records if isinstance(record, Example)]
    assert features[:500] == features[500:1_000] == features[1_000:]


def test_equal_plans_give_equal_bytes() -> None:
    """A failure could not be reproduced from seed and start."""
    plan = _plan(_stream(delay=parse_label_delay("lognormal:5s,1"), faults=ALL_FAULTS, unlabelled_share=0.1))
    first = list(events(plan))
    assert first == list(events(plan))
    assert first != list(events(replace(plan, seed=1)))


# Faults ---------------------------------------------------------------------------------------------------------------


def test_unlabelled_share_keeps_labels_back() -> None:
    """Missing labels are the everyday case."""
    labels = [record for record in events(_plan(_stream(unlabelled_share=0.2))) if record.topic == "labels"]
    assert 340 < len(labels) - 1 < 460
    assert len([record for record in events(_plan(_stream(unlabelled_share=1.0))) if record.topic == "labels"]) == 1


def test_each_fault_is_on_the_topics_as_often_as_the_manifest_says() -> None:
    """`areba verify` compares the topics with the manifest, so each count and each listed number must be true."""
    stream = _stream("sine:length=3000", faults=ALL_FAULTS, delay=parse_label_delay("exponential:5s"), loops=2)
    sender = ListSender()
    manifest = replay(_plan(stream), sender, sender.clock)
    (said,) = manifest.streams

    values: dict[str, dict[int, list[bytes]]] = {"examples": defaultdict(list), "labels": defaultdict(list)}
    classes: dict[int, list[int]] = defaultdict(list)
    garbage: Counter[str] = Counter()
    for record in sender.sent:
        found = _decoded(record)
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
    assert counts.pop("out_of_order") == sum(_behind_later(sender.sent, topic) for topic in ("examples", "labels"))
    assert counts.pop("garbage_examples") == garbage["examples"]
    assert counts.pop("garbage_labels") == garbage["labels"]
    assert counts == {name: len(getattr(numbers, name)) for name in counts}
    assert all(200 < count < 400 for count in counts.values())
    assert 200 < garbage.total() < 400
    assert said.faults.out_of_order > 100
    assert said.never_labelled == 0


def _behind_later(records: Sequence[Sent], topic: str) -> int:
    latest, count = 0, 0
    for record in records:
        if record.topic == topic:
            count += record.timestamp_ms < latest
            latest = max(latest, record.timestamp_ms)
    return count


@pytest.mark.parametrize("name", ["duplicates", "out_of_order", "dropped", "conflicting_labels", "garbage"])
@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_fault_is_a_share(name: str, share: float) -> None:
    """100 would be taken for a percentage."""
    with pytest.raises(ConfigurationError, match=f"{name.replace('_', '-')}: .* is not a share"):
        Faults(**{name: share})


# Manifest -------------------------------------------------------------------------------------------------------------


def test_the_manifest_has_digest_offsets_and_drift() -> None:
    """A reader computes the digest as the module describes it, and finds a drift by its event time."""
    stream = _stream(
        "sea:drift=posterior,length=100,imbalance=40", "sea", interval_ms=10, loops=2, unlabelled_share=0.3
    )
    sender = ListSender()
    manifest = replay(_plan(stream, options={"rate": "max"}), sender, sender.clock)
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
    manifest = replay(_plan(_stream("sine:drift=prior,length=50", faults=ALL_FAULTS)), sender, sender.clock)
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
    replace(replay(_plan(), sender, sender.clock), format=2).save(path)
    with pytest.raises(ConfigurationError, match="format 2"):
        Manifest.load(path)


# Pace and span --------------------------------------------------------------------------------------------------------


def test_rate_is_examples_a_second() -> None:
    """500 examples at 100 per second take 5 seconds, evenly; their labels come in between."""
    sender = ListSender()
    replay(_plan(rate=100.0), sender, sender.clock, sleep=sender.clock.sleep)
    examples = [
        time_s for record, time_s in zip(sender.sent, sender.times_s, strict=True) if record.topic == "examples"
    ]
    assert np.allclose(examples[:500], np.arange(500) / 100, atol=1e-6)


def test_speed_is_event_time() -> None:
    """At 60 times the clock an event per second is sent 60 times per second."""
    sender = ListSender()
    replay(_plan(speed=60.0), sender, sender.clock, sleep=sender.clock.sleep)
    assert np.allclose(sender.times_s, [(record.timestamp_ms - NOW_MS) / 60_000 for record in sender.sent], atol=1e-6)


def test_progress_is_told_up_to_the_end() -> None:
    """A progress bar that stops before its end looks like a failure."""
    sender = ListSender()
    told: list[tuple[int, int]] = []
    replay(_plan(_stream("sea:length=5000")), sender, sender.clock, lambda sent, total: told.append((sent, total)))
    assert told[-1] == (10_002, 10_002)
    assert len(told) > 2


def test_a_failed_delivery_ends_the_replay() -> None:
    """Half a stream with a manifest of the whole would make `areba verify` report losses."""
    sender = ListSender(fail_at=100)
    with pytest.raises(DeliveryError, match="not delivered"):
        replay(_plan(), sender, sender.clock)


def test_a_span_is_made_to_fit_what_the_topics_keep() -> None:
    """Streams without an interval are compressed so that retention does not delete them."""
    plan = _plan(_stream("sine:length=5000"))
    assert fit_to_retention(plan, -1) == plan
    assert fit_to_retention(plan, 10_000_000) == plan
    close = fit_to_retention(plan, 1_000_000)
    assert close.streams[0].interval == 125
    assert span_ms(close) <= 900_000


def test_a_span_that_cannot_fit_is_refused() -> None:
    """The broker would delete the records before anybody read them."""
    asked = _plan(_stream("sine:length=5000", interval_ms=1_000))
    with pytest.raises(ConfigurationError, match=r"span 83\.3 minutes .* keep 16\.7 minutes \(retention\.ms\)"):
        fit_to_retention(asked, 1_000_000)
    late = _plan(_stream("sine:length=50", delay=parse_label_delay("fixed:8d")))
    with pytest.raises(ConfigurationError, match=r"span 8\.0 days .* keep 7\.0 days"):
        fit_to_retention(late, 7 * 86_400_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loops": 0}, "loops: 0 is less than 1"),
        ({"interval_ms": 0}, "differ by at least 1 ms"),
        ({"unlabelled_share": 1.5}, "is not a share"),
        ({"stream": ""}, "1 to 249 bytes"),
        ({"stream": "x" * 250}, "1 to 249 bytes"),
    ],
)
def test_wrong_streams_are_refused(options: dict[str, Any], message: str) -> None:
    """The error comes before a record is sent, not when the topic is half full."""
    with pytest.raises(ConfigurationError, match=message):
        _stream(**options)


def test_wrong_plans_are_refused() -> None:
    """Two streams of one name would be mixed, and two paces contradict each other."""
    with pytest.raises(ConfigurationError, match="sine: two streams have this name"):
        _plan(_stream(), _stream())
    with pytest.raises(ConfigurationError, match="only one of them"):
        _plan(rate=1.0, speed=1.0)
    with pytest.raises(ConfigurationError, match="rate: 0 is not above 0"):
        _plan(rate=0.0)
    with pytest.raises(ConfigurationError, match="at most 20000000 examples"):
        _plan(_stream(loops=100_000))


def test_a_data_set_of_ones_own_can_be_sent() -> None:
    """The README shows how users replay their own arrays."""
    data = DataSet("own", np.eye(3, dtype=np.float32), np.array([0, 1, 0], np.int8), None, "none", "synthetic", 0.01)
    assert len(list(events(_plan(StreamPlan("own", data))))) == 8
    with pytest.raises(ConfigurationError, match="no example"):
        StreamPlan("own", data.prefix(0))


# The command ----------------------------------------------------------------------------------------------------------


class FakeCluster:
    """A cluster with both topics and these settings; the topic `missing` does not exist."""

    def __init__(self, partitions: int = 4, missing: str = "", **settings: str) -> None:
        self.partitions, self.missing, self.settings = partitions, missing, settings

    def require_broker(self) -> Self:
        """Return this cluster: there is a broker."""
        return self

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        """Return those of the named topics that exist."""
        settings = {name.replace("_", "."): value for name, value in self.settings.items()}
        found = {name: TopicInfo(name, self.partitions, settings) for name in names if name != self.missing}
        if "labels" in found and self.partitions == 0:
            found["labels"] = TopicInfo("labels", 1, settings)
        return found


def _run(
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    cluster: FakeCluster | None = None,
    sender: ListSender | None = None,
) -> Result:
    """Run `areba-replay run` on a cluster in memory."""
    for variable in (*cli.BOOTSTRAP_VARIABLES, *cli.TOPIC_PREFIX_VARIABLES, "AREBA_DATA_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cli, "KafkaCluster", lambda *_: cluster or FakeCluster(retention_ms="604800000"))
    monkeypatch.setattr(cli, "KafkaSender", lambda *_: sender or ListSender())
    return CliRunner().invoke(cli.main, ["run", *arguments], env={"COLUMNS": "200"})


KAFKA = ("--bootstrap-servers", "broker:9092")


def test_run_sends_and_says_what(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The whole command prints a table for people and writes a manifest for programs."""
    sender, path = ListSender(), tmp_path / "manifest.json"
    arguments = ("credit:limit=100", "sine:length=50,stream=waves", "--seed", "3", "--manifest", str(path))
    result = _run(monkeypatch, *arguments, *KAFKA, sender=sender)
    assert result.exit_code == 0, result.output
    manifest = Manifest.load(path)
    assert [stream.stream for stream in manifest.streams] == ["credit", "waves"]
    assert manifest.records == len(sender.sent) == 2 * 150 + 4
    assert manifest.options["names"] == "credit:limit=100 sine:length=50,stream=waves"
    assert "waves" in result.output
    assert manifest.digest in result.output
    assert sender.closed


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("froud",), "froud: no such data set; did you mean fraud?"),
        (("sine", "--label-delay", "fixd:3s"), "label delay fixd:3s: fixd is not one of"),
        (("sine", "--rate", "fast"), "--rate fast: neither a number nor `max`"),
        (("sine", "--rate", "5", "--speed", "5"), "rate and speed: only one of them"),
        (("sine", "sine"), "sine: two streams have this name"),
        (("sine", "--manifest", "/nowhere/at/all.json"), "--manifest /nowhere/at/all.json: no such folder"),
        (("sine", "--client-config", "/nowhere.properties"), "--client-config /nowhere.properties:"),
        (("sine", "--interval-ms", "1000000"), "the streams span 58.0 days of event time; the topics keep 7.0 days"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    """A user who mistypes an argument needs to read what was wrong, not a traceback."""
    sender = ListSender()
    result = _run(monkeypatch, *arguments, *KAFKA, sender=sender)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"areba-replay: {line}")
    assert len(result.stderr.splitlines()) == 1
    assert not sender.sent


def test_no_kafka_is_one_line_and_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a default address, data could go to any server that listens there."""
    result = _run(monkeypatch, "sine")
    assert result.exit_code == 2
    assert result.stderr.startswith("areba-replay: no Kafka: give --bootstrap-servers")


@pytest.mark.parametrize("name", ["cervical", "fraud"])
def test_a_missing_data_set_is_one_line_and_exit_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """The folder is given, but the file is not in it."""
    monkeypatch.setattr(cli, "KafkaCluster", lambda *_: FakeCluster())
    environment = {"AREBA_DATA_DIR": str(tmp_path)}
    result = CliRunner().invoke(cli.main, ["run", name, *KAFKA], env=environment)
    assert result.exit_code == 2
    assert "no such file" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (FakeCluster(missing="labels"), "topic labels: it does not exist"),
        (FakeCluster(partitions=0), "have 0 and 1 partitions"),
        (
            FakeCluster(message_timestamp_type="LogAppendTime"),
            "topic examples: message.timestamp.type is LogAppendTime",
        ),
    ],
)
def test_topics_that_cannot_serve_are_refused(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, message: str
) -> None:
    """Labels would never meet their examples, or event times would be lost."""
    result = _run(monkeypatch, "sine", *KAFKA, cluster=cluster)
    assert result.exit_code == TopicError.exit_code == 2
    assert message in result.stderr


def test_the_shorter_retention_time_counts() -> None:
    """An example whose label was deleted is as useless as a deleted example."""
    cluster = FakeCluster()
    kept = {"examples": "1000", "labels": "500"}
    cluster.topics = lambda names: {  # type: ignore[method-assign]
        name: TopicInfo(name, 4, {"retention.ms": kept[name]}) for name in names
    }
    assert check_topics(cluster, _plan()) == 500  # type: ignore[arg-type]
    kept["labels"] = "-1"
    assert check_topics(cluster, _plan()) == 1_000  # type: ignore[arg-type]


def test_a_failed_delivery_exits_1_with_the_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lost records must be reported, and no manifest may claim that they were sent."""
    sender, path = ListSender(fail_at=10), tmp_path / "manifest.json"
    result = _run(monkeypatch, "sine", "--manifest", str(path), *KAFKA, sender=sender)
    assert result.exit_code == 1
    assert "areba-replay: 1 of 10 records were not delivered" in result.stderr
    assert not path.exists()
    assert sender.closed


def test_client_settings_come_from_a_file_and_are_never_shown(tmp_path: Path) -> None:
    """All users of a machine see its command lines, so passwords come from a file and are never printed."""
    path = tmp_path / "client.properties"
    path.write_text("# ours\n\nsasl.username = areba\nsasl.password=a=b\n")
    assert read_client_config(path) == {"sasl.username": "areba", "sasl.password": "a=b"}
    path.write_text("sasl.password hunter2\n")
    with pytest.raises(ConfigurationError, match="line 1 is not name=value") as caught:
        read_client_config(path)
    assert "hunter2" not in str(caught.value)


def test_list_names_everything_that_run_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user should need nothing but the command to learn its options."""
    monkeypatch.delenv("AREBA_DATA_DIR", raising=False)
    monkeypatch.setattr(datasets, "RECIPES", {name: datasets.RECIPES[name] for name in ("cervical", "credit")})
    output = CliRunner().invoke(cli.main, ["list"]).output
    for word in ("cervical", "858", "credit", "sine, circle, sea", "drift_at", "interval_ms", "[smallest, largest]"):
        assert word in output


def test_the_schedule_is_made_without_bytes() -> None:
    """Planning a million examples must not encode them; it makes columns only."""
    planned = schedule(_plan(_stream("sea:length=100000", loops=2)))
    assert len(planned) == 400_002
