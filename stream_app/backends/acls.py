"""The access control lists of Kafka that each role needs, and no more; pure.

Some operations of Kafka include others: Read, Write and Delete each include Describe, which is not granted again. With
brokers of Kafka 2.8 and newer, a producer that may write to its topics may be idempotent (KIP-679), so no role needs an
operation on the cluster.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from stream_app.config import Config


class Role(StrEnum):
    """Who works with an application. Each role has its own principal."""

    WORKER = "worker"
    PRODUCER = "producer"
    SUBSCRIBER = "subscriber"
    OPERATOR = "operator"


class Resource(StrEnum):
    """The kinds of resources, as the options of `kafka-acls.sh` spell them."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


class Pattern(StrEnum):
    """How the name of an entry matches the names of resources."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One permission, from any host.

    Attributes:
        principal: Who gets the permission, such as `User:areba`.
        resource: The kind of the resource.
        name: Its name, or the beginning of its name.
        pattern: Which of the two `name` is.
        operation: The operation that is allowed, by Kafka's name.
        reason: What the role needs it for.
    """

    principal: str
    resource: Resource
    name: str
    pattern: Pattern
    operation: str
    reason: str

    def as_data(self) -> Mapping[str, str]:
        """Return the entry as plain data."""
        return {name: str(value) for name, value in asdict(self).items()}


class _Grant(NamedTuple):
    """The operations that are allowed on one resource, each with its reason."""

    resource: Resource
    name: str
    reasons: Mapping[str, str]
    pattern: Pattern = Pattern.LITERAL


def _topic(name: str, **reasons: str) -> _Grant:
    return _Grant(Resource.TOPIC, name, reasons)


_SETTINGS = "compare the topic's settings with those that the guarantees need"
_LOG_READER = "read single partitions: Kafka's client looks up the coordinator of this group without joining it"


def acl_entries(config: Config, role: Role, principal: str, group: str | None = None) -> tuple[AclEntry, ...]:
    """Return what a principal needs for its role.

    `group` is the consumer group of a subscriber; by default `<application.id>-subscribers`.
    """
    grants = {
        Role.WORKER: _worker,
        Role.PRODUCER: _producer,
        Role.SUBSCRIBER: lambda config: _subscriber(config, group or f"{config.application.id}-subscribers"),
        Role.OPERATOR: _operator,
    }
    return tuple(
        AclEntry(principal, grant.resource, grant.name, grant.pattern, operation, reason)
        for grant in grants[role](config)
        for operation, reason in grant.reasons.items()
    )


def _worker(config: Config) -> Iterator[_Grant]:
    names = config.topics
    for name in names.inputs:
        yield _topic(name, Read="take the inputs, and commit their offsets", DescribeConfigs=_SETTINGS)
    for name in (names.predictions, names.outcomes, names.metrics, names.dead_letters):
        reason = "find out in a restore which outputs were committed"
        yield _topic(name, Read=reason, Write="publish", DescribeConfigs=_SETTINGS)
    yield _topic(names.changelog, Read="load the newest snapshot", Write="write snapshots", DescribeConfigs=_SETTINGS)
    yield _topic(
        names.progress,
        Read="follow the commits in a restore",
        Write="record each commit",
        DescribeConfigs=_SETTINGS,
        Delete="delete the commits that no restore needs",
    )
    reason = "join the group, list its members, and commit offsets in transactions"
    yield _Grant(Resource.GROUP, config.group_id, {"Read": reason})
    yield _Grant(Resource.GROUP, config.log_reader_group_id, {"Describe": _LOG_READER})
    reason = "write in transactions, and end the hanging transactions of instances that are gone"
    yield _Grant(Resource.TRANSACTIONAL_ID, config.transactional_id_prefix, {"Write": reason}, Pattern.PREFIXED)


def _producer(config: Config) -> Iterator[_Grant]:
    reason = "areba-replay compares its event times with the retention; other producers do without"
    for name in config.topics.inputs:
        yield _topic(name, Write="send examples and labels", DescribeConfigs=reason)


def _subscriber(config: Config, group: str) -> Iterator[_Grant]:
    names = config.topics
    for name in (names.predictions, names.outcomes, names.metrics):
        reason = "areba tail looks up the topic; other subscribers do without"
        yield _topic(name, Read="read the records", DescribeConfigs=reason)
    yield _Grant(Resource.GROUP, group, {"Read": "join a group and commit its offsets"})
    reason = "areba tail; other subscribers do without"
    yield _Grant(Resource.GROUP, config.log_reader_group_id, {"Describe": reason})


def _operator(config: Config) -> Iterator[_Grant]:
    names = config.topics
    writes = {
        names.examples: "promote, resume, erase, dlq resend",
        names.labels: "dlq resend",
        names.dead_letters: "dlq resend marks what it has sent back",
        names.progress: "reset, repartition, state import, state skip",
    }
    reads = dict.fromkeys(names.inputs, "inspect, verify, explain; reset, repartition and state commit their offsets")
    for name in names:
        operations = {"Read": reads.get(name, "inspect, watch, tail, verify, explain, dlq, state")}
        if name in writes:
            operations["Write"] = writes[name]
        operations["Create"] = "topics create"
        operations["Alter"] = "repartition gives it more partitions"
        operations["DescribeConfigs"] = f"topics create, promote, resume, erase, dlq resend: {_SETTINGS}"
        yield _topic(name, **operations)
    reason = "read offsets and list members; reset, repartition and state commit offsets"
    yield _Grant(Resource.GROUP, config.group_id, {"Read": reason})
    yield _Grant(Resource.GROUP, config.log_reader_group_id, {"Describe": _LOG_READER})
    reason = "dlq resend sends each record once"
    yield _Grant(Resource.TRANSACTIONAL_ID, config.resend_transactional_id, {"Write": reason})
    reason = "reset, repartition, state import and state skip: one command at a time"
    yield _Grant(Resource.TRANSACTIONAL_ID, config.tools_transactional_id, {"Write": reason})


def commands(entries: Sequence[AclEntry], bootstrap_servers: str, client_file: str | None = None) -> list[str]:
    """Return one command line for each resource, quoted for a shell.

    `client_file` has settings of the administrator's Java client (`--command-config`).
    """
    operations: dict[tuple[str, Resource, str, Pattern], list[str]] = {}
    for entry in entries:
        place = (entry.principal, entry.resource, entry.name, entry.pattern)
        operations.setdefault(place, []).append(entry.operation)
    lines = []
    for (principal, resource, name, pattern), granted in operations.items():
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap_servers]
        words += ["--command-config", client_file] if client_file else []
        words += ["--add", "--allow-principal", principal]
        words += [word for operation in granted for word in ("--operation", operation)]
        words += [f"--{resource}", name, "--resource-pattern-type", pattern]
        lines.append(shlex.join(words))
    return lines
