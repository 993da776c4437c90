"""The choice of a Kafka: the given one, else a local one, else none, with one line that says why."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ops import broker, container
from ops.local_kafka import cluster, jars
from ops.local_kafka.plan import ClusterPlan, free_ports
from ops.local_kafka.processes import broker_pid
from stream_app.errors import ConfigurationError
from stream_app.producers.target_options import BOOTSTRAP_VARIABLES


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without Java, Maven and containers."""
    for name in BOOTSTRAP_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jars, "missing_tools", lambda: ["java", "mvn"])
    monkeypatch.setattr(container, "engine_answers", lambda: False)


class _Cluster:
    bootstrap_servers = "127.0.0.1:1"


@contextmanager
def _start(_: int) -> Iterator[_Cluster]:
    yield _Cluster()


@pytest.mark.parametrize("variable", BOOTSTRAP_VARIABLES)
def test_a_named_broker_is_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting another broker would be wrong where the user names one, by option or by environment."""
    monkeypatch.setattr(jars, "missing_tools", list)
    monkeypatch.setenv(variable, "elsewhere:9092")
    messages: list[str] = []
    with broker.choose("here:9092", tell=messages.append) as chosen:
        assert chosen.bootstrap_servers == "here:9092"
        assert messages == [chosen.reason] == ["Kafka: the cluster at here:9092, because it was given"]
    with broker.choose() as chosen:
        assert chosen.bootstrap_servers == "elsewhere:9092"
        assert variable in chosen.reason


def test_one_of_our_own_with_java_and_maven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start takes some seconds, during which a user should know what happens."""
    messages: list[str] = []

    @contextmanager
    def start(brokers: int) -> Iterator[_Cluster]:
        assert messages, "nothing was said before"
        with _start(brokers) as cluster:
            yield cluster

    monkeypatch.setattr(jars, "missing_tools", list)
    monkeypatch.setattr(cluster, "start", start)
    with broker.choose(tell=messages.append) as chosen:
        assert chosen.bootstrap_servers == "127.0.0.1:1"
        assert messages == [chosen.reason]
        assert "because Java and Maven are here" in chosen.reason


def test_no_kafka_at_all() -> None:
    """A user must not mistake the in-process log for a Kafka."""
    with broker.choose() as chosen:
        assert chosen.bootstrap_servers is None
        assert chosen.reason.startswith(
            "Kafka: none, an in-process log, because java and mvn not on the PATH; no container"
        )


def test_one_of_our_own_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a broker cannot start, for example offline, the next choice is used and the reason is shown."""

    def start(_: int) -> None:
        raise ConfigurationError(["Maven could not fetch Kafka's jars (exit status 1):", "details"])

    monkeypatch.setattr(jars, "missing_tools", list)
    monkeypatch.setattr(cluster, "start", start)
    messages: list[str] = []
    with broker.choose(tell=messages.append) as chosen:
        assert chosen.bootstrap_servers is None
        assert "Maven could not fetch" in chosen.reason
    assert messages[-1] == chosen.reason


def test_a_container_if_the_jars_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build server often has an engine and no Java; where both are missing, the reason names both."""

    @contextmanager
    def in_container() -> Iterator[str]:
        yield "127.0.0.1:2"

    def refuse() -> None:
        raise ConfigurationError("the image is not there")

    monkeypatch.setattr(container, "engine_answers", lambda: True)
    monkeypatch.setattr(container, "start", in_container)
    with broker.choose() as no_jars:
        assert no_jars.bootstrap_servers == "127.0.0.1:2"
    monkeypatch.setattr(container, "start", refuse)
    with broker.choose() as neither:
        assert neither.bootstrap_servers is None
    assert "java and mvn not on the PATH; the image is not there" in neither.reason


def test_without_java_the_launcher_says_what_is_missing() -> None:
    """A traceback about a missing file would mislead a user who lacks Java."""
    with pytest.raises(ConfigurationError, match="a local Kafka needs java and mvn on the PATH"):
        cluster.start(1)


def test_jars_that_others_may_change_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who can write to the folder of jars can run programs as us."""
    monkeypatch.setattr(jars, "missing_tools", list)
    monkeypatch.setenv("AREBA_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigurationError, match="other users may write"):
        jars.kafka_jars()


def test_a_pid_that_is_somebody_elses_is_none_of_ours(tmp_path: Path) -> None:
    """Process ids are reused, and `down` would end another user's process."""
    (tmp_path / "broker-1.pid").write_text("1\n", encoding="utf-8")
    assert broker_pid(tmp_path, 1) is None


def test_ports_are_free_and_not_those_of_outgoing_connections() -> None:
    """A client that retries the port of a dead broker could be given that port and connect to itself."""
    ports = free_ports(6, [])
    assert len(set(ports)) == 6
    assert all(20_000 <= port < 32_768 for port in ports)
    assert free_ports(6, ports) == ports


def test_a_plan_outlives_its_process(tmp_path: Path) -> None:
    """`status` and `down` run in another process and would not find the brokers."""
    plan = cluster.prepare_plan(tmp_path, 3)
    assert ClusterPlan.load(tmp_path) == plan
    assert cluster.prepare_plan(tmp_path, 3).cluster_id == plan.cluster_id
    with pytest.raises(ConfigurationError, match="1 to 3 brokers"):
        cluster.prepare_plan(tmp_path / "more", 4)
