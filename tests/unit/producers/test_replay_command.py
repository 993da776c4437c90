"""The command `areba-replay`: what it sends, and its errors."""

import errno
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner, Result

from stream_app.backends.base import TopicInfo
from stream_app.errors import ConfigurationError, TopicError
from stream_app.producers import cli, datasets
from stream_app.producers.manifest import Manifest
from stream_app.producers.schedule import schedule
from stream_app.producers.target import check_topics, read_client_config
from stream_app.producers.target_options import BOOTSTRAP_VARIABLES, TOPIC_PREFIX_VARIABLES, take_target
from stream_app.records import Example
from stream_app.serialization.codec import decode_one
from tests.support.replaying import ListSender, plan_of, stream_plan


class FakeCluster:
    """A cluster with both topics and these settings; the topic `missing` does not exist."""

    def __init__(self, partitions: int = 4, missing: str = "", **settings: str) -> None:
        self.partitions, self.missing, self.settings = partitions, missing, settings

    def require_broker(self) -> Self:
        """Return this cluster: there is a broker."""
        return self

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        """Return the named topics that exist."""
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
    for variable in (*BOOTSTRAP_VARIABLES, *TOPIC_PREFIX_VARIABLES, "AREBA_DATA_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cli, "KafkaCluster", lambda *_: cluster or FakeCluster(retention_ms="604800000"))
    monkeypatch.setattr(cli, "KafkaSender", lambda *_: sender or ListSender())
    return CliRunner().invoke(cli.main, ["run", *arguments], env={"COLUMNS": "200"})


INPUTS = ("examples", "labels")
KAFKA = ("--bootstrap-servers", "broker:9092")


def test_run_sends_and_says_what(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The complete command prints a table for people and writes a manifest for programs."""
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
        (("sine", "--rate", "fast"), "--rate fast: must be a number or `max`"),
        (("sine", "--rate", "5", "--speed", "5"), "set rate or speed, not both"),
        (("sine", "sine"), "sine: two streams have this name"),
        (("sine", "--manifest", "/nowhere/at/all.json"), "--manifest /nowhere/at/all.json: no such folder"),
        (("sine", "--client-config", "/nowhere.properties"), "--client-config /nowhere.properties:"),
        (("sine", "--interval-ms", "1000000"), "the streams span 58.0 days of event time; the topics accept and keep"),
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
    assert result.stderr.startswith("areba-replay: no Kafka: give -c FILE or --bootstrap-servers")


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
    assert check_topics(cluster, INPUTS) == 500  # type: ignore[arg-type]
    kept["labels"] = "-1"
    assert check_topics(cluster, INPUTS) == 1_000  # type: ignore[arg-type]


def test_a_replay_heeds_the_event_times_that_topics_refuse() -> None:
    """Otherwise the first record of a long replay would be refused, with INVALID_TIMESTAMP."""
    cluster = FakeCluster()
    settings = {"retention.ms": "1000", "message.timestamp.before.max.ms": "300"}
    cluster.topics = lambda names: {name: TopicInfo(name, 4, settings) for name in names}  # type: ignore[method-assign]
    assert check_topics(cluster, INPUTS) == 300  # type: ignore[arg-type]
    settings |= {"retention.ms": "-1", "message.timestamp.before.max.ms": str(2**63 - 1)}
    assert check_topics(cluster, INPUTS) == -1  # type: ignore[arg-type]


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
    planned = schedule(plan_of(stream_plan("sea:length=100000", loops=2)))
    assert len(planned) == 400_002


PAYMENTS = "id,at,amount,fraud,known\na,2013-09-24,1.5,no,2013-09-26\nb,2013-09-25,2.5,yes,2013-09-27\n"
COLUMNS = ("--id=id", "--time=at", "--label=fraud", "--positive=yes", "--label-time=known")


def test_a_file_is_sent_as_a_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command of the README: a file with times, ids, labels and their times."""
    file, sender, manifest = tmp_path / "payments.csv", ListSender(), tmp_path / "manifest.json"
    file.write_text(PAYMENTS)
    result = _run(monkeypatch, str(file), *COLUMNS, "--manifest", str(manifest), *KAFKA, sender=sender)
    assert result.exit_code == 0, result.output
    assert [record.topic for record in sender.sent] == [*["examples"] * 2, *["labels"] * 2, "examples", "labels"]
    assert {record.key for record in sender.sent} == {b"payments"}
    assert "areba-replay: payments.csv: at: times are in ISO 8601, without a zone, so UTC" in result.stderr
    assert "areba-replay: the event times begin at 2013-09-24T00:00:00Z; the topics accept" in result.stderr
    assert Manifest.load(manifest).streams[0].label_delay == "own times"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("payments.csv", "--label-time=known"), "--label-time needs --time and --label"),
        (("payments.csv", "--positive=yes"), "--positive and --negative need --label"),
        (("payments.csv", "--delimiter=ab"), "--delimiter 'ab': must be one character, or `tab`"),
        (("sine", "--label=fraud"), "options about files need a file: sine is none"),
        (("sine", "sea", "--stream=x"), "--stream is the name of one stream"),
        (("missing.csv",), "missing.csv: no such file"),
        (("payments.csv", "--time=att"), "--time att: the file has no such column; did you mean at?"),
        (("payments.csv", *COLUMNS, "--keep-times"), "--keep-times: the event times begin at 2013-09-24T00:00:00Z"),
        (("payments.csv", "--id=id", "--loops=2"), "payments: loops: the data has ids of its own"),
        (("payments.csv:limits=2",), "payments.csv:limits=2: no option limits; did you mean limit?"),
    ],
)
def test_wrong_options_about_files_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], line: str
) -> None:
    """Nothing is sent, and the last line says why."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payments.csv").write_text(PAYMENTS)
    sender = ListSender()
    result = _run(monkeypatch, *arguments, *KAFKA, sender=sender)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"areba-replay: {line}")
    assert not sender.sent


def test_the_name_of_a_file_may_have_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Several files, or a file beside a data set, need names of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payments.csv").write_text(PAYMENTS)
    sender = ListSender()
    result = _run(monkeypatch, "payments.csv:stream=eu,limit=1", "sine:length=2", *COLUMNS, *KAFKA, sender=sender)
    assert result.exit_code == 0, result.output
    assert sorted(record.key for record in sender.sent if record.topic == "examples") == [*[b"eu"] * 2, *[b"sine"] * 3]


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The temporary files of a large file may not fit; the user reads which folder is full."""

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "TemporaryFile", is_full)
    (tmp_path / "payments.csv").write_text(PAYMENTS)
    result = _run(monkeypatch, "payments.csv", *COLUMNS, *KAFKA)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("areba-replay: no space is left in /")


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ([], ("examples", "labels")),
        (["--topic-prefix", "bank."], ("bank.examples", "bank.labels")),
        (["--topic-prefix", "bank.", "--examples-topic", "payments.v1"], ("payments.v1", "bank.labels")),
    ],
)
def test_topics_have_a_prefix_or_names_of_their_own(options: list[str], topics: tuple[str, str]) -> None:
    """Records that go to other topics than those of `kafka.topics` are never predicted."""
    with cli.main.commands["run"].make_context("run", ["sine", *options, *KAFKA]) as context:
        assert take_target(dict(context.params)).topics == topics


CONFIGURATION = """
kafka: {bootstrap_servers: "broker:1", topics: {examples: payments.v1}, all: {client.id: a}, producer: {linger.ms: 1}}
streams:
  payments:
    columns: {amount: number, country: {category: {most: 2}, missing: mean}}
  arrays: {features: 1}
"""


def _configured(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "my.yaml").write_text(CONFIGURATION)
    (tmp_path / "payments.csv").write_text("amount,country\n1.5,DE\n2,\n")
    return "-c", str(tmp_path / "my.yaml")


def test_a_configuration_says_the_target_and_the_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What `my.yaml` says is not said again: brokers, topics, and which values an example has."""
    sender, option = ListSender(), _configured(tmp_path)
    result = _run(monkeypatch, str(tmp_path / "payments.csv"), *option, sender=sender)
    assert result.exit_code == 0, result.output
    sent = [(record.topic, decode_one(record.value)) for record in sender.sent]
    values = [(topic, dict(record.values or {})) for topic, record in sent if isinstance(record, Example)]
    assert values == [
        ("payments.v1", {"amount": 1.5, "country": "DE"}),
        ("payments.v1", {"amount": 2.0, "country": None}),
    ]
    with cli.main.commands["run"].make_context("run", ["sine", *option]) as context:
        target = take_target(dict(context.params))
    assert (target.bootstrap_servers, target.topics) == ("broker:1", ("payments.v1", "labels"))
    assert target.settings == {"client.id": "a"}
    assert target.sender_settings == {"client.id": "a", "linger.ms": "1"}


def test_values_have_the_ids_of_the_configuration(tmp_path: Path) -> None:
    """An application with Confluent's format would refuse anything else."""
    path = tmp_path / "my.yaml"
    path.write_text(
        "serialization: {wire_format: confluent, schema_ids: {example.v1: [7], label.v1: [8], mark.v1: [9]}}"
    )
    with cli.main.commands["run"].make_context("run", ["sine", "-c", str(path)]) as context:
        wire_format = take_target(dict(context.params)).wire_format()
    assert wire_format.header(Example) == b"\0\0\0\0\x07"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("payments.csv", "--topic-prefix=x"), "--topic-prefix: my.yaml says it (-c)"),
        (("payments.csv", *KAFKA), "--bootstrap-servers: my.yaml says it (-c)"),
        (("payments.csv:stream=paymnts",), "the configuration has no stream 'paymnts'"),
        (
            ("sine:stream=payments",),
            "sine:stream=payments: has arrays of features, and the stream payments has columns",
        ),
        (("payments.csv", "--features=amount"), "--features: the configuration has the columns of the stream"),
    ],
)
def test_what_contradicts_the_configuration_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], line: str
) -> None:
    """Records for another cluster, stream or form would be dead letters, or never read."""
    monkeypatch.chdir(tmp_path)
    _configured(tmp_path)
    sender = ListSender()
    result = _run(monkeypatch, *arguments, "-c", "my.yaml", sender=sender)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"areba-replay: {line}")
    assert not sender.sent
