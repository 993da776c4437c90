"""The commands of `areba acls`, applied as printed, let each role do its own work and nothing else."""

import json
import os
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from ops.keeper import KeptProcess
from ops.local_kafka.plan import free_ports
from stream_app.admin.progress.reading import last_commit, progress_tail
from stream_app.backends.acls import AclEntry, Pattern, Resource, Role
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.cli.checks import wait_for_topics
from stream_app.cli.clients import open_transaction
from stream_app.cli.preflight import Level
from stream_app.cli.start import run_worker
from stream_app.cli.topic_setup import create_topics
from stream_app.client import Prediction, decode
from stream_app.config import load
from stream_app.errors import ArebaError, TopicError
from stream_app.monitor.tail import TOPIC_NAMES, topic_named
from stream_app.monitor.watcher import Watcher
from stream_app.serialization import codec
from stream_app.snapshot.stops import stopped_text
from tests.support.kafka.application import App
from tests.support.kafka.members import Member, kafka_transactions, members_of
from tests.support.kafka.processes import ROOT
from tests.support.kafka.records import example, label
from tests.support.kafka.secure_broker import ADMINISTRATOR, PASSWORD, SecureKafka
from tests.support.kafka.waiting import DEADLINE_S, START_DEADLINE_S, wait_until

pytestmark = [pytest.mark.ops, pytest.mark.slow(180), pytest.mark.timeout(580)]

KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
PATTERNS = {Pattern.LITERAL: ResourcePatternType.LITERAL, Pattern.PREFIXED: ResourcePatternType.PREFIXED}
IMPLYING = {"Read", "Write", "Delete"}
"""Operations that permit Describe too."""


@pytest.fixture(scope="module")
def members(secure: SecureKafka, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Role, Member]:
    """Give each role a user, and apply the printed commands as the administrator."""
    return members_of(secure, tmp_path_factory)


def _binding(entry: AclEntry) -> tuple[Any, ...]:
    operation = {"DescribeConfigs": "DESCRIBE_CONFIGS"}.get(entry.operation, entry.operation.upper())
    place = (KINDS[entry.resource], entry.name, PATTERNS[entry.pattern], entry.principal)
    return (*place, "*", AclOperation[operation], AclPermissionType.ALLOW)


def _consume(member: Member, topic: str) -> list[bytes]:
    """Read a topic as a subscriber, with plain confluent-kafka; raise the client's error."""
    consumer = Consumer(
        {
            **member.config.kafka.all,
            "bootstrap.servers": member.secure.servers,
            "group.id": f"{member.config.application.id}-subscribers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    with closing(consumer):
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        if message.error() is not None:
            raise KafkaException(message.error())
        return [message.value() or b""]


def test_each_role_can_do_its_work(members: Mapping[Role, Member]) -> None:
    """An application whose roles have these permissions alone runs from its topics to its subscribers."""
    operator, producer, worker = (members[role] for role in (Role.OPERATOR, Role.PRODUCER, Role.WORKER))
    topics, now_ms = operator.config.topics, int(time.time() * 1000)
    assert set(producer.cluster.topics(topics[:2])) == set(topics[:2])
    for sent, topic in (
        (example("alpha", "a-1", [1.0], now_ms), topics.examples),
        (label("alpha", "a-1", 1, now_ms), topics.labels),
    ):
        producer.send(topic, sent.value or b"", time_ms=sent.time_ms)
    producer.send(topics.examples, b"garbage")
    end = time.monotonic() + DEADLINE_S
    places = [TopicPartition(topics.examples, 0), TopicPartition(topics.labels, 0)]

    def is_done() -> bool:
        assert time.monotonic() < end, "no commit with all permissions"
        found = operator.cluster.committed(operator.config.group_id, places)
        return list(found.values()) == [2, 1]

    run_worker(worker.config, is_done)
    (value,) = _consume(members[Role.SUBSCRIBER], topics.predictions)
    prediction = decode(value)
    assert isinstance(prediction, Prediction)
    assert prediction.id == "a-1"
    _operate(operator, members[Role.SUBSCRIBER])


def _operate(operator: Member, subscriber: Member) -> None:
    """Run each command that reads or writes, while no worker is running."""
    file = str(operator.app.folder / "alpha.safetensors")
    letter = json.loads(operator.command("dlq", "show", "--json"))["dead_letters"][0]
    for words in (
        ("verify",),
        ("acls", "--role", "worker", "--principal", "User:worker"),
        ("config", "--check"),
        ("explain", "alpha", "a-1"),
        ("watch", "--once", "--interval", "0"),
        ("dlq", "show", f"{letter['partition']}:{letter['offset']}"),
        ("dlq", "resend", "--all", "--dry-run"),
        ("state", "list"),
        ("state", "export", "alpha", "areba", file),
        ("state", "skip"),
        ("promote", "alpha", "areba"),
    ):
        operator.command(*words)
    for topic in TOPIC_NAMES:
        found = {json.loads(line)["topic"] for line in operator.command("tail", topic).splitlines()}
        assert found <= {topic_named(operator.config.topics, topic)}
    assert json.loads(operator.command("inspect", "--json", status=1))["tasks"][0]["state"] == "idle"
    with pytest.raises(
        AssertionError, match=r"nothing to resume.*\[stream-state"
    ):  # its mark needs what that of promote needs
        operator.command("resume", "alpha")
    checks = [json.loads(line) for line in operator.command("topics", "check", "--json", status=1).splitlines()]
    wrong = {one["check"] for one in checks if one["level"] == Level.WRONG}
    assert wrong == {"rights", "identity"}, "those of a worker: the command runs as the worker's principal"
    operator.command("reset", "alpha")
    operator.command("state", "import", file, "alpha", "areba")
    assert "1" in operator.command("dlq", "resend", "--all")
    assert subscriber.command("tail", "predictions")
    with pytest.raises(TopicError, match=f"topic {subscriber.config.topics.examples}"):  # it reads all topics
        Watcher(subscriber.cluster, subscriber.config, SystemClock())


def test_the_operator_finds_what_holds_an_input_back(members: Mapping[Role, Member], tmp_path: Path) -> None:
    """The commands of the incident "An input is held back", each as the role that the page names."""
    operator = members[Role.OPERATOR]
    topic, secure = operator.config.topics.labels, operator.secure
    outside = {"bootstrap.servers": secure.open_servers, "transactional.id": "other-producer"}
    other = Producer(outside | {"transaction.timeout.ms": "120000"})
    other.init_transactions(DEADLINE_S)
    other.begin_transaction()
    other.produce(topic, b"held", b"alpha", 0)
    assert other.flush(DEADLINE_S) == 0
    found = json.loads(operator.command("inspect", "--json", status=1))["tasks"][0]
    held = found["labels"]["held_from"]
    assert (found["examples"]["held_from"], held) == (None, found["labels"]["end"] - 1)
    words = ("describe-producers", "--topic", topic, "--partition", "0")
    lines = kafka_transactions(secure, "operator", tmp_path, *words).splitlines()
    [row] = [line.split() for line in lines if line.split()[-1:] == [str(held)]]
    assert "other-producer" not in kafka_transactions(secure, "operator", tmp_path, "list")
    [listed] = [
        line.split()
        for line in kafka_transactions(secure, ADMINISTRATOR, tmp_path, "list").splitlines()
        if line.startswith("other-producer")
    ]
    assert row[0] in listed, "the id of the producer leads to its transactional id"
    other.abort_transaction(DEADLINE_S)


def test_no_role_can_do_more(members: Mapping[Role, Member]) -> None:
    """What a role was not granted, on any topic, group or transactional id, the broker denies it."""
    names = [*members[Role.WORKER].config.topics, "strangers-examples"]
    application = members[Role.WORKER].config.application.id
    groups = [application, f"{application}/log-reader", f"{application}-subscribers", "strangers-group"]
    for member in members.values():
        admin = member.cluster._admin
        found = admin.describe_topics(TopicCollection(names), include_authorized_operations=True)
        allowed = {("topic", name): _allowed(future.result) for name, future in found.items()}
        for group in groups:
            (future,) = admin.describe_consumer_groups([group], include_authorized_operations=True).values()
            allowed["group", group] = _allowed(future.result)
        wanted: dict[tuple[str, str], set[str]] = {place: set() for place in allowed}
        for entry in member.entries:
            if entry.resource is not Resource.TRANSACTIONAL_ID:
                operations = {entry.operation, "Describe"} if entry.operation in IMPLYING else {entry.operation}
                wanted[entry.resource.value, entry.name] |= {name.upper() for name in operations}
        hidden = {place for place, operations in wanted.items() if "DESCRIBE" not in operations}
        assert allowed == {place: set() if place in hidden else wanted[place] for place in wanted}, member.role
        cluster = admin.describe_cluster(include_authorized_operations=True).result(DEADLINE_S)
        assert not cluster.authorized_operations, member.role
        ids = {f"{application}/another", f"{application}/dlq/resend", "strangers/w"}
        own = {"worker": ids - {"strangers/w"}, "operator": {f"{application}/dlq/resend"}}.get(member.role, set())
        for name in ids - own:
            assert f"Write on transactional id {name} is missing" in _error(partial(member.initialise, name))


def _allowed(result: Callable[[float], object]) -> set[str]:
    try:
        operations = result(DEADLINE_S).authorized_operations  # type: ignore[attr-defined]
    except KafkaException as problem:
        denied = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
        if problem.args[0].code() not in denied:
            raise
        return set()
    return {operation.name.replace("_", "") for operation in operations or ()}


def _error(work: Callable[[], object]) -> str:
    try:
        work()
    except ArebaError as error:
        return str(error)
    except KafkaException as problem:
        return str(problem.args[0])
    return ""


def _commit_offsets(member: Member, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets as the commands of the operator do."""
    config = member.config
    with closing(open_transaction(config, config.tools_transactional_id)) as transaction:
        transaction.initialise()
        transaction.begin()
        transaction.send_offsets(offsets, member.cluster.empty_group(config.group_id))
        transaction.commit()


def _works(member: Member, entry: AclEntry) -> Callable[[], object]:
    """Return a part of the role's own work that needs a permission."""
    config, cluster = member.config, member.cluster
    if entry.resource is Resource.TRANSACTIONAL_ID:
        own = config.transactional_id if entry.pattern is Pattern.PREFIXED else entry.name
        return partial(member.initialise, own)
    if member.role is Role.SUBSCRIBER and entry.operation == "Read":
        topic = entry.name if entry.resource is Resource.TOPIC else config.topics.predictions
        return partial(_consume, member, topic)
    if member.role is Role.WORKER and entry.operation != "Delete":
        return lambda: wait_for_topics(config, cluster, lambda: False, restarted=False)
    offsets = {TopicPartition(config.topics.examples, 0): 2}
    work: dict[tuple[Resource, str], Callable[[], object]] = {
        (Resource.TOPIC, "Delete"): lambda: cluster.delete_records(TopicPartition(entry.name, 0), 0),
        (Resource.TOPIC, "Read"): lambda: member.read(entry.name),
        (Resource.TOPIC, "Write"): lambda: member.send(entry.name, b"probe"),
        (Resource.TOPIC, "Create"): lambda: create_topics(config, 1),
        (Resource.TOPIC, "Alter"): lambda: cluster.grow([entry.name], 2),
        (Resource.TOPIC, "DescribeConfigs"): lambda: cluster.topics([entry.name]),
        (Resource.GROUP, "Read"): partial(_commit_offsets, member, offsets),
        (Resource.GROUP, "Describe"): lambda: member.read(
            config.topics.predictions if member.role is Role.SUBSCRIBER else config.topics.examples
        ),
    }
    return work[entry.resource, entry.operation]


def _named(member: Member, entry: AclEntry) -> Iterator[str]:
    """Yield the texts of which an error has to have one."""
    kind = entry.resource.value.replace("-", " ")
    name = member.config.transactional_id if entry.pattern is Pattern.PREFIXED else entry.name
    if member.role is Role.SUBSCRIBER and entry.operation == "Read":  # the consumer is Kafka's own
        yield (
            f"{name}: Broker: Topic authorization failed" if entry.resource is Resource.TOPIC else "Group authorization"
        )
        return
    yield f"{entry.operation} on {kind} {name} is missing"
    others = {one.operation for one in member.entries if (one.resource, one.name) == (entry.resource, entry.name)}
    if entry.resource is Resource.TOPIC and not (others - {entry.operation}) & IMPLYING:
        yield f"Describe on {kind} {name} is missing"  # went with it


def _get(port: int, page: str) -> str:
    """Return a page, or the error that the server or its absence gives."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return f"{answer.status} {answer.headers} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.headers} {error.read().decode()}"
    except OSError as error:
        return str(error)


def test_nothing_shows_the_secret(members: Mapping[Role, Member], tmp_path: Path) -> None:
    """A password in a log, on a page or in a traceback is known to everybody who may read those."""
    worker = members[Role.WORKER]
    data = yaml.safe_load(worker.app.file("worker").read_text())
    del data["kafka"]["all"]["sasl.password"]
    (port,) = free_ports(1, [])
    data["worker"] |= {"http_port": port}
    file, secret = tmp_path / "areba.yaml", tmp_path / "password"
    file.write_text(yaml.safe_dump(data))
    secret.write_text(f"{PASSWORD}\n")
    variables = {"AREBA__KAFKA__ALL__SASL_PASSWORD_FILE": str(secret), "AREBA_LOG_LEVEL": "DEBUG"}
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "stream_app.cli", "run", "-c", str(file)]
    log = tmp_path / "log.txt"
    with log.open("w") as out:
        process = KeptProcess(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:

            def is_ready() -> bool:
                assert process.poll() is None, log.read_text()
                return _get(port, "ready").startswith("200")

            wait_until(is_ready, "a worker that is ready", START_DEADLINE_S)
            seen = [_get(port, page) for page in ("alive", "ready", "metrics", "", "config")]
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
            process.wait()
    text = log.read_text()
    assert "areba_task_state" in seen[2]
    assert "DEBUG" in text
    wrong = {**environment, "AREBA__KAFKA__ALL__SSL_CA_LOCATION": "/no/such/file"}
    failed = subprocess.run(command, cwd=ROOT, env=wrong, capture_output=True, text=True, timeout=120, check=False)
    assert failed.returncode == 2, failed.stderr
    with pytest.raises(ArebaError) as caught:
        run_worker(load(file, wrong), lambda: False)
    seen += [
        text,
        failed.stdout,
        failed.stderr,
        "".join(traceback.format_exception(caught.value)),
        repr(load(file, wrong)),
    ]
    assert [place for place in seen if PASSWORD in place] == []


def test_the_operator_resumes_a_stream(members: Mapping[Role, Member]) -> None:
    """The commit that stops the stream is made up, so no worker could continue after this test."""
    operator = members[Role.OPERATOR]
    progress = TopicPartition(operator.config.topics.progress, 0)
    last = last_commit(progress_tail(operator.cluster, progress))
    assert last is not None
    stops = {"made up": "for this test"}
    stopped = replace(last, sequence=last.sequence + 1_000, stopped_streams=1, stopped=stopped_text(stops))
    with closing(KafkaSender(operator.secure.open_servers)) as sender:
        sender.send(progress.topic, None, codec.encode(stopped), int(time.time() * 1000), partition=0)
        sender.flush(DEADLINE_S)
    operator.command("resume", "made up")


@pytest.mark.parametrize("role", Role)
def test_each_permission_is_needed_and_named(members: Mapping[Role, Member], role: Role) -> None:
    """An administrator who forgot one permission reads which one; and none is granted without need.

    It is the last test here: it commits offsets as a probe, and no worker could start from them.
    """
    member = members[role]
    admin = member.secure.admin
    if role is Role.SUBSCRIBER:  # it waits for a record of each topic
        operator_free = App(member.secure.open_servers, member.app.prefix, member.app.folder, {})
        with closing(KafkaSender(operator_free.servers)) as sender:
            for name in member.config.topics[2:5]:
                sender.send(name, b"alpha", b"value", 1)
            sender.flush(DEADLINE_S)
    for entry in sorted(member.entries, key=lambda one: one.operation == "Alter"):  # no other work fits larger topics
        work = _works(member, entry)
        texts = tuple(_named(member, entry))
        binding = _binding(entry)
        for future in admin.delete_acls([AclBindingFilter(*binding)]).values():
            assert len(future.result(DEADLINE_S)) == 1
        seen: list[str] = []

        def is_named(work: Callable[[], object] = work, seen: list[str] = seen, texts: tuple[str, ...] = texts) -> bool:
            seen[:] = [_error(work)]
            return any(text in seen[0] for text in texts)

        try:
            wait_until(is_named, f"{entry}: an error with one of {texts}", 20.0)
        except AssertionError:
            pytest.fail(f"{entry}: wanted {texts}, last error {seen}")
        for future in admin.create_acls([AclBinding(*binding)]).values():
            future.result(DEADLINE_S)

        def works_again(work: Callable[[], object] = work) -> bool:
            return not _error(work)

        wait_until(works_again, f"the work of {replace(entry, reason='')} again", 20.0)
