"""The access control lists of Kafka that each role needs, and no more; pure.

Some operations of Kafka include others: Read, Write and Delete each include Describe, which is not granted again. With
brokers of Kafka 2.8 and newer, a producer that may write to its topics may be idempotent (KIP-679), so no role needs an
operation on the cluster.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class _Grants:
    """Makes entries of one principal."""

    principal: str

    def on(
        self, resource: Resource, name: str, pattern: Pattern = Pattern.LITERAL, **reasons: str
    ) -> Iterator[AclEntry]:
        """Yield an entry for each operation; `reasons` has the operations by name."""
        for operation, reason in reasons.items():
            yield AclEntry(self.principal, resource, name, pattern, operation, reason)

    def on_topic(self, name: str, **reasons: str) -> Iterator[AclEntry]:
        """Yield an entry for each operation on one topic."""
        yield from self.on(Resource.TOPIC, name, Pattern.LITERAL, **reasons)


_SETTINGS = "compare the topic's settings with those that the guarantees need"
_LOG_READER = "read single partitions: Kafka's client looks up the coordinator of this group without joining it"


def acl_entries(config: Config, role: Role, principal: str, group: str | None = None) -> tuple[AclEntry, ...]:
    """Return what a principal needs for its role.

    `group` is the consumer group of a subscriber; by default `<application.id>-subscribers`.
    """
    grants = _Grants(principal)
    if role is Role.WORKER:
        return tuple(_worker(config, grants))
    if role is Role.PRODUCER:
        return tuple(_producer(config, grants))
    if role is Role.SUBSCRIBER:
        return tuple(_subscriber(config, grants, group or f"{config.application.id}-subscribers"))
    return tuple(_operator(config, grants))


def _worker(config: Config, grants: _Grants) -> Iterator[AclEntry]:
    names = config.topics
    for name in (names.examples, names.labels):
        yield from grants.on_topic(name, Read="take the inputs, and commit their offsets", DescribeConfigs=_SETTINGS)
    for name in (names.predictions, names.outcomes, names.metrics, names.dead_letters):
        yield from grants.on_topic(
            name,
            Read="find out in a restore which outputs were committed",
            Write="publish",
            DescribeConfigs=_SETTINGS,
        )
    yield from grants.on_topic(
        names.changelog, Read="load the newest snapshot", Write="write snapshots", DescribeConfigs=_SETTINGS
    )
    yield from grants.on_topic(
        names.progress,
        Read="follow the commits in a restore",
        Write="record each commit",
        DescribeConfigs=_SETTINGS,
        Delete="delete the commits that no restore needs",
    )
    yield from grants.on(
        Resource.GROUP, config.group_id, Read="join the group, list its members, and commit offsets in transactions"
    )
    yield from grants.on(Resource.GROUP, config.log_reader_group_id, Describe=_LOG_READER)
    reason = "write in transactions, and end the hanging transactions of instances that are gone"
    yield from grants.on(Resource.TRANSACTIONAL_ID, config.transactional_id_prefix, Pattern.PREFIXED, Write=reason)


def _producer(config: Config, grants: _Grants) -> Iterator[AclEntry]:
    for name in (config.topics.examples, config.topics.labels):
        yield from grants.on_topic(
            name,
            Write="send examples and labels",
            DescribeConfigs="areba-replay compares its event times with the retention; other producers do without",
        )


def _subscriber(config: Config, grants: _Grants, group: str) -> Iterator[AclEntry]:
    names = config.topics
    for name in (names.predictions, names.outcomes, names.metrics):
        yield from grants.on_topic(
            name, Read="read the records", DescribeConfigs="areba tail looks up the topic; other subscribers do without"
        )
    yield from grants.on(Resource.GROUP, group, Read="join a group and commit its offsets")
    yield from grants.on(
        Resource.GROUP, config.log_reader_group_id, Describe="areba tail; other subscribers do without"
    )


def _operator(config: Config, grants: _Grants) -> Iterator[AclEntry]:
    names = config.topics
    writes = {
        names.examples: "promote, resume, erase, dlq resend",
        names.labels: "dlq resend",
        names.dead_letters: "dlq resend marks what it has sent back",
        names.progress: "reset, state import, state skip",
    }
    purpose = "inspect, verify, explain; reset and state commit their offsets"
    reads = dict.fromkeys((names.examples, names.labels), purpose)
    for name in names:
        operations = {"Read": reads.get(name, "inspect, watch, tail, verify, explain, dlq, state")}
        if name in writes:
            operations["Write"] = writes[name]
        operations["Create"] = "topics create"
        operations["DescribeConfigs"] = f"topics create, promote, resume, erase, dlq resend: {_SETTINGS}"
        yield from grants.on_topic(name, **operations)
    yield from grants.on(
        Resource.GROUP, config.group_id, Read="read offsets and list members; reset and state commit offsets"
    )
    yield from grants.on(Resource.GROUP, config.log_reader_group_id, Describe=_LOG_READER)
    yield from grants.on(
        Resource.TRANSACTIONAL_ID, config.resend_transactional_id, Write="dlq resend sends each record once"
    )
    reason = "reset, state import and state skip: one command at a time"
    yield from grants.on(Resource.TRANSACTIONAL_ID, config.tools_transactional_id, Write=reason)


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
