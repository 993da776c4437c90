"""A refusal of the broker is reported at start: its reason, the resource and the missing operation, but no secret."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # re-exported, but not marked so

from ops.keeper import KeptProcess
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.cli.start import run_worker
from stream_app.cli.topic_setup import create_topics
from stream_app.config import Config
from stream_app.errors import ConfigurationError
from tests.support.kafka.application import App
from tests.support.kafka.processes import ROOT
from tests.support.kafka.records import example
from tests.support.kafka.secure_broker import PASSWORD, SecureKafka
from tests.support.kafka.waiting import DEADLINE_S, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow(20)]

START_TIMEOUT_MS = 4_500
WRONG_PASSWORD = "a-secret-that-nobody-may-read"  # noqa: S105  (no account has it)
EXIT_S = 180.0
"""A worker ends in seconds; on a busy machine the interpreter alone may take a minute."""


def _file(folder: Path, servers: str, settings: Mapping[str, str]) -> Path:
    data: dict[str, Any] = {
        "kafka": {"bootstrap_servers": servers, "all": dict(settings)},
        "worker": {"start_timeout_ms": START_TIMEOUT_MS},
    }
    folder.mkdir()
    path = folder / "areba.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_broker_that_lets_nobody_in_says_why(secure: SecureKafka, tmp_path: Path) -> None:
    """A worker that no broker lets in ends in time with status 2 and the reason, without the password."""
    cases = {
        "_AUTHENTICATION": (secure.servers, secure.client(sasl_password=WRONG_PASSWORD)),
        "self-signed certificate": (secure.servers, secure.client(ssl_ca_location=str(secure.other_ca))),
        "certificate has expired": (secure.expired_servers, secure.client(ssl_ca_location=str(secure.expired_ca))),
    }
    command = [sys.executable, "-m", "stream_app.cli", "run", "-c"]
    environment = {**os.environ, "AREBA_LOG_LEVEL": "DEBUG"}
    running = {
        reason: KeptProcess(
            [*command, str(_file(tmp_path / str(number), servers, settings))],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, (reason, (servers, settings)) in enumerate(cases.items())
    }
    try:
        for reason, process in running.items():
            text, _ = process.communicate(timeout=EXIT_S)
            lines = text.splitlines()
            assert process.returncode == 2, text
            assert lines[-1].startswith("kafka.bootstrap_servers: no Kafka broker answers at")
            assert reason in lines[-1]
            assert lines[-1].endswith(f"(waited {START_TIMEOUT_MS} ms)")
            waiting = [line for line in lines if "WARNING areba waiting for Kafka: " in line]
            assert waiting, "a line at once; the others every five seconds"
            assert all(reason in line for line in waiting)
            assert not any(secret in text for secret in (PASSWORD, WRONG_PASSWORD))
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def _refused(config: Config) -> str:
    """Return the text with which a worker ends, with status 2: one line for each missing permission."""
    begin = time.monotonic()
    with pytest.raises(ConfigurationError) as caught:
        run_worker(config, lambda: time.monotonic() - begin > DEADLINE_S)
    return str(caught.value)


def test_each_missing_permission_is_named(secure: SecureKafka, prefix: str, tmp_path: Path) -> None:
    """Each missing permission is named with its operation; with the documented permissions the worker runs."""
    client = {"bootstrap_servers": secure.servers, "all": secure.client()}
    app = App(secure.servers, prefix, tmp_path, {"kafka": client})
    config = app.config
    create_topics(App(secure.open_servers, prefix, tmp_path, {}).config_of("administrator"), 1)
    names, cluster = config.topics, KafkaCluster(secure.servers, secure.client())
    assert _refused(config).splitlines() == [
        f"topic {name}: Broker: Topic authorization failed (TOPIC_AUTHORIZATION_FAILED); "
        f"Describe on topic {name} is missing"
        for name in names
    ]
    rights = topic_plan.rights(names)
    spelled = {"Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE", "DescribeConfigs": "DESCRIBE_CONFIGS"}
    secure.allow(
        *(
            (ResourceType.TOPIC, name, spelled[operation])
            for name, operations in rights.items()
            for operation in operations
            if (name, operation) != (names.labels, "Read")
        )
    )
    groups = {config.group_id: "Read", config.log_reader_group_id: "Describe"}
    missing = [
        f"topic {names.labels}: the broker denies it to us; Read on topic {names.labels} is missing",
        *(
            f"group {group}: Broker: Group authorization failed (GROUP_AUTHORIZATION_FAILED); "
            f"{operation} on group {group} is missing"
            for group, operation in groups.items()
        ),
    ]
    wait_until(lambda: cluster.missing_rights(rights, groups) == missing, "the permissions")
    assert _refused(config).splitlines() == missing
    secure.allow(
        (ResourceType.TOPIC, names.labels, "READ"),
        *((ResourceType.GROUP, name, operation.upper()) for name, operation in groups.items()),
    )
    wait_until(lambda: not cluster.missing_rights(rights, groups), "the permissions")
    [line] = _refused(config).splitlines()
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in line
    assert line.endswith(f"Write on transactional id {config.transactional_id} is missing")
    secure.allow((ResourceType.TRANSACTIONAL_ID, config.transactional_id, "WRITE"))
    App(secure.open_servers, prefix, tmp_path, {}).send([example("alpha", "a-1", [1.0], int(time.time() * 1000))])
    end = time.monotonic() + DEADLINE_S
    place = TopicPartition(names.examples, 0)

    def has_committed() -> bool:
        assert time.monotonic() < end, "no commit with all permissions"
        return KafkaCluster(secure.open_servers).committed(config.group_id, [place])[place] is not None

    run_worker(config, has_committed)
