"""The command `areba-replay`: what it sends, and its errors."""

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
    for variable in (*cli.BOOTSTRAP_VARIABLES, *cli.TOPIC_PREFIX_VARIABLES, "AREBA_DATA_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cli, "KafkaCluster", lambda *_: cluster or FakeCluster(retention_ms="604800000"))
    monkeypatch.setattr(cli, "KafkaSender", lambda *_: sender or ListSender())
    return CliRunner().invoke(cli.main, ["run", *arguments], env={"COLUMNS": "200"})


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
    assert check_topics(cluster, plan_of()) == 500  # type: ignore[arg-type]
    kept["labels"] = "-1"
    assert check_topics(cluster, plan_of()) == 1_000  # type: ignore[arg-type]


def test_a_replay_heeds_the_event_times_that_topics_refuse() -> None:
    """Otherwise the first record of a long replay would be refused, with INVALID_TIMESTAMP."""
    cluster = FakeCluster()
    settings = {"retention.ms": "1000", "message.timestamp.before.max.ms": "300"}
    cluster.topics = lambda names: {name: TopicInfo(name, 4, settings) for name in names}  # type: ignore[method-assign]
    assert check_topics(cluster, plan_of()) == 300  # type: ignore[arg-type]
    settings |= {"retention.ms": "-1", "message.timestamp.before.max.ms": str(2**63 - 1)}
    assert check_topics(cluster, plan_of()) == -1  # type: ignore[arg-type]


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
