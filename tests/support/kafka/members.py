"""Principals with one role each, whose permissions were applied as `areba acls` prints them."""

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ops.local_kafka.jars import kafka_jars
from stream_app.backends.acls import AclEntry, Role, acl_entries
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.main import cli
from stream_app.config import Config
from tests.support.kafka.application import App
from tests.support.kafka.secure_broker import ADMINISTRATOR, PASSWORD, SecureKafka
from tests.support.kafka.waiting import DEADLINE_S, wait_until

SCRIPT = """#!/bin/sh
exec java -Xmx128m -XX:TieredStopAtLevel=1 -cp '{library}/*' org.apache.kafka.tools.{tool} "$@"
"""
"""What `kafka-acls.sh` (AclCommand) and `kafka-transactions.sh` (TransactionsCommand) of the distribution do."""

JAVA_CLIENT = """security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""


@dataclass(frozen=True)
class Member:
    """A principal with one role, named after the role."""

    secure: SecureKafka
    role: Role
    app: App

    @cached_property
    def config(self) -> Config:
        """Its configuration."""
        return self.app.config_of(self.role.value)

    @cached_property
    def cluster(self) -> KafkaCluster:
        """The client for administration with its password."""
        return self._new_cluster()

    def _new_cluster(self) -> KafkaCluster:
        return KafkaCluster(self.secure.servers, self.config.kafka.all, self.config.log_reader_group_id)

    @property
    def entries(self) -> tuple[AclEntry, ...]:
        """Its permissions."""
        return acl_entries(self.config, self.role, f"User:{self.role}")

    def send(self, topic: str, value: bytes, key: bytes = b"alpha", time_ms: int = 0) -> None:
        """Send one record."""
        with closing(KafkaSender(self.secure.servers, self.config.kafka.all)) as sender:
            sender.send(topic, key, value, time_ms or int(time.time() * 1000))
            sender.flush(DEADLINE_S)

    def read(self, topic: str) -> None:
        """Read a partition without joining a group, with a new client, which asks for all that it needs."""
        with closing(self._new_cluster().reader(TopicPartition(topic, 0))) as reader:
            wait_until(lambda: reader.poll(1, 1.0) is not None, f"an answer about {topic}")

    def initialise(self, transactional_id: str) -> None:
        """Use a transactional id."""
        with closing(KafkaTransaction(self.secure.servers, transactional_id, self.config.kafka.all)) as transaction:
            transaction.initialise()

    def command(self, *words: str, status: int = 0) -> str:
        """Run a command of `areba`, which must end with this status; return its output."""
        done = CliRunner().invoke(cli, [*words, "-c", str(self.app.file(self.role.value))])
        assert done.exit_code == status, (words, done.output, done.exception)
        return done.output


def kafka_transactions(secure: SecureKafka, user: str, folder: Path, *words: str) -> str:
    """Run `kafka-transactions.sh` as a user; return what it prints, also about an error."""
    script, client = folder / "kafka-transactions.sh", folder / f"{user}.properties"
    _write_script(script, "TransactionsCommand")
    client.write_text(JAVA_CLIENT.format(user=user, password=PASSWORD, ca=secure.ca))
    command = [str(script), "--bootstrap-server", secure.servers, "--command-config", str(client), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def _write_script(path: Path, tool: str) -> None:
    path.write_text(SCRIPT.format(library=kafka_jars(), tool=tool))
    path.chmod(0o700)


def members_of(secure: SecureKafka, factory: pytest.TempPathFactory) -> Mapping[Role, Member]:
    """Give each role a user, and apply the printed commands as the administrator."""
    prefix = "secured-"
    found = {}
    for role in Role:
        secure.add_user(role)
        folder = factory.mktemp(role)
        kafka = {"bootstrap_servers": secure.servers, "all": secure.client(sasl_username=role.value)}
        sections: dict[str, Any] = {"kafka": kafka, "streams": {"alpha": {"features": 1}}}
        found[role] = Member(secure, role, App(secure.open_servers, prefix, folder, sections))
    secure.add_user(ADMINISTRATOR)
    folder = factory.mktemp("administrator")
    client = folder / "admin client.properties"
    client.write_text(JAVA_CLIENT.format(user=ADMINISTRATOR, password=PASSWORD, ca=secure.ca))
    _write_script(folder / "kafka-acls.sh", "AclCommand")
    text = "set -e\n"
    for role, member in found.items():
        text += member.command(
            "acls", "--role", role.value, "--principal", f"User:{role}", "--command-config", str(client)
        )
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/bash", "-c", text], env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    App(secure.open_servers, "strangers-", folder, {}).create_topics()
    found[Role.OPERATOR].command("topics", "create", "--partitions", "1")
    return found
