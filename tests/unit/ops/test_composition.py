"""docker-compose.yml and the files that it mounts, without a container engine (`make test-ops` runs them)."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.composition import compose, trial
from ops.demo.streams import SPAN_MS, STREAMS, configuration, replay_plan
from ops.local_kafka.jars import KAFKA_VERSION
from stream_app import __version__
from stream_app.config import load
from stream_app.producers.label_delay import parse_label_delay

FOLDER = Path(compose.__file__).parent


@pytest.fixture(scope="module")
def services() -> Mapping[str, Mapping[str, Any]]:
    """Return the services as they are with the defaults of all variables."""
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(compose.FILE.read_text(encoding="utf-8"))["services"]
    return found


def test_ports_are_on_the_loopback_interface(services: Mapping[str, Mapping[str, Any]]) -> None:
    """Kafka and the workers' pages ask for no password."""
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) >= 5
    assert all(port.startswith("127.0.0.1:") for port in ports)
    hosts = {address.removeprefix("http://").rstrip("/") for address in (*trial.PAGES.values(), trial.DASHBOARD)}
    assert hosts <= {port.rpartition(":")[0] for port in ports}


def test_every_image_has_a_version(services: Mapping[str, Mapping[str, Any]]) -> None:
    """What a user starts next year should be what was tested."""
    images = {name: service["image"].rpartition(":")[2] for name, service in services.items()}
    assert "latest" not in images.values()
    assert images["kafka"] == KAFKA_VERSION
    ours = {name for name, service in services.items() if "build" in service}
    assert ours == {"topics", "worker-1", "worker-2", "replayer", "dashboard"}
    assert {images[name] for name in ours} == {__version__}


def test_our_containers_cannot_write_and_have_no_rights(services: Mapping[str, Mapping[str, Any]]) -> None:
    """Only so does the trial show that the image works with a read-only file system."""
    for service in services.values():
        if "build" in service:
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]


def test_the_configuration_is_that_of_the_demo(tmp_path: Path) -> None:
    """The replayer would send streams that no worker knows."""
    ours, demos = load(FOLDER / "areba.yaml", {}), configuration(tmp_path, None)
    assert ours.streams == demos.streams
    assert ours.learners == demos.learners


def test_the_replayer_sends_what_the_demo_sends() -> None:
    """Two lists of the same streams differ one day."""
    lines = re.findall("^replay (.+)$", (FOLDER / "replay.sh").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == len(STREAMS) == trial.STREAMS
    for line, spec in zip(lines, STREAMS, strict=True):
        source, examples, interval_ms, delay, unlabelled_share = shlex.split(line)
        assert source == spec.source.format(length=spec.length).removesuffix(f":limit={spec.length}")
        assert int(examples) == spec.length
        assert int(interval_ms) == SPAN_MS // spec.length
        assert parse_label_delay(delay) == parse_label_delay(spec.delay)
        assert float(unlabelled_share) == spec.unlabelled_share


@pytest.mark.slow(5)
def test_the_dashboard_marks_the_drifts_that_the_replayer_sends(
    services: Mapping[str, Mapping[str, Any]], tmp_path: Path
) -> None:
    """A mark where nothing changed would make every learner look wrong."""
    command = services["dashboard"]["command"]
    marked = {command[at + 1] for at, word in enumerate(command) if word == "--drift"}
    plan = replay_plan(configuration(tmp_path, None), short=False)
    assert marked == {f"{one.stream}:{one.data.drift_step}" for one in plan.streams if one.data.drift_step is not None}
