"""Administration of the cluster: brokers, topics, permissions, and access to single partitions and groups."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from stream_app.backends.base import Committed, Ends, LogReader, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.certificate import certificate_problem
from stream_app.backends.kafka import consumer_groups, timeouts
from stream_app.backends.kafka.errors import (
    ALL_BROKERS_DOWN,
    CONNECTION_CAUSE_CODES,
    DENIED_CODES,
    SSL,
    failed_request,
    kafka_error,
    refusal_text,
)
from stream_app.backends.kafka.log_reader import KafkaLogFollower, KafkaLogReader
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.requests import (
    answer,
    query_ends,
    query_newest_timestamp,
    query_offsets_since,
    query_watermarks,
)
from stream_app.backends.kafka.settings import (
    CONSUMER_GUARANTEES,
    READER_GROUP,
    admin_settings,
    client_settings,
    create_client,
)
from stream_app.errors import ConfigurationError, TopicError

LOGGER = logging.getLogger("areba.kafka")

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""A topic id of zeros (KIP-516): the broker has no id for the topic."""


class _TopicSize(NamedTuple):
    partitions: int
    replication: int


class KafkaCluster:
    """`base.Cluster` over the admin client; its partitions can be followed (`following.FollowableCluster`).

    Args:
        bootstrap_servers: Addresses of brokers, separated by commas.
        settings: Further settings of librdkafka, for the admin client and for readers.
        reader_group: The group id that readers name; they do not join the group.
    """

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, str] | None = None, reader_group: str = READER_GROUP
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        self._reader_group = reader_group
        self._created: set[str] = set()
        self._connection_error: KafkaError | None = None  # the client's reason why it reaches no broker
        conf = client_settings(bootstrap_servers, Outages(), admin_settings(self._settings))
        conf["error_cb"] = self._on_client_error
        self._admin: AdminClient = create_client(AdminClient, conf)

    def _on_client_error(self, error: KafkaError) -> None:
        LOGGER.debug("Kafka client: %s", error.str())
        has_cause = self._connection_error is not None and self._connection_error.code() in CONNECTION_CAUSE_CODES
        if error.code() != ALL_BROKERS_DOWN and (not has_cause or error.code() in CONNECTION_CAUSE_CODES):
            self._connection_error = error

    def broker_count(self, timeout_s: float = timeouts.REQUEST_S) -> int:
        """Return the number of brokers that the cluster has now; 0 if no broker answers in time."""
        try:
            count = len(self._admin.list_topics(timeout=timeout_s).brokers)
        except KafkaException:
            self._admin.poll(0)  # calls `_on_client_error`
            return 0
        self._connection_error = None
        return count

    @property
    def no_answer_text(self) -> str:
        """One line that says that no broker answers, with the client's reason if it has given one."""
        line = f"no Kafka broker answers at {self._bootstrap_servers}"
        if self._connection_error is None:
            return line
        line += f": {self._connection_error.str()} ({self._connection_error.name()})"
        if self._connection_error.code() != SSL:
            return line
        problem = certificate_problem(self._bootstrap_servers, self._settings.get("ssl.ca.location"))
        return f"{line}: {problem}" if problem else line

    def require_broker(self) -> Self:
        """Return this object once a broker has answered; for tools, which do not wait for a broker to start.

        Raises:
            ConfigurationError: No broker answers.
        """
        if not self.broker_count():
            raise ConfigurationError(self.no_answer_text)
        return self

    def missing_rights(self, topics: Mapping[str, Sequence[str]], groups: Mapping[str, str]) -> list[str]:
        """Return one line for each operation that the broker does not permit; a broker may not say, then nothing.

        Args:
            topics: The operations that are needed on each topic, by Kafka's names; all topics exist.
            groups: The operation that is needed on each group.
        """
        collection = TopicCollection(list(topics))
        asked: dict[str, tuple[Future[Any], Sequence[str]]] = {
            f"topic {name}": (future, topics[name])
            for name, future in self._admin.describe_topics(
                collection, include_authorized_operations=True, request_timeout=timeouts.REQUEST_S
            ).items()
        }
        for group, operation in groups.items():
            answers = self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=timeouts.REQUEST_S
            )
            asked[f"group {group}"] = (answers[group], [operation])
        lines: list[str] = []
        for resource, (future, needed) in asked.items():
            lines += _missing_operations(resource, future, needed)
        return lines

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Return the named topics that exist; see `base.Cluster.topics`."""
        wanted = list(dict.fromkeys(names))
        deadline = time.monotonic() + timeouts.REQUEST_S
        existing = self._topic_sizes()
        while self._created.intersection(wanted) - existing.keys() and time.monotonic() < deadline:
            time.sleep(10 * timeouts.RETRY_PAUSE_S)  # the broker asked now may not yet know what `create` created
            existing = self._topic_sizes()
        found = [name for name in wanted if name in existing]
        self._refuse_hidden([name for name in wanted if name not in existing])
        if not found:
            return {}
        settings: dict[str, Mapping[str, str]] = {}
        ids: dict[str, str] = {}
        while len(ids) < len(found):
            try:  # answers that came before a failure are kept
                settings.update(self._topic_settings([name for name in found if name not in settings]))
                ids.update(self._topic_ids([name for name in found if name not in ids]))
            except KafkaException as problem:
                # Again the broker asked now may not yet know a new topic.
                if kafka_error(problem).code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                    known, operation = (
                        (settings, "DescribeConfigs") if len(settings) < len(found) else (ids, "Describe")
                    )
                    name = next(name for name in found if name not in known)  # answers come in the order of `found`
                    what = f"{name}: its settings cannot be read"
                    raise failed_request(problem, what, f"topic {name}", operation) from None
                time.sleep(10 * timeouts.RETRY_PAUSE_S)
        return {
            name: TopicInfo(name, existing[name].partitions, settings[name], ids[name], existing[name].replication)
            for name in found
        }

    def _refuse_hidden(self, names: Sequence[str]) -> None:
        """Ask for topics by name: a list of all topics leaves out those that we may not see.

        Raises:
            TopicError: We may not see a topic; the error names all of them.
        """
        if not names:
            return
        answers = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=timeouts.REQUEST_S)
        lines = [
            line
            for name, future in answers.items()
            for line in _missing_operations(f"topic {name}", future, ["Describe"])
        ]
        if lines:
            raise TopicError(lines)

    def _topic_settings(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield name and settings of each topic; raise at the first that the broker does not answer for."""
        if not names:
            return
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._admin.describe_configs(resources, request_timeout=timeouts.REQUEST_S)
        for resource, future in futures.items():
            entries = answer(future, timeouts.REQUEST_S)
            yield resource.name, {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def _topic_ids(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield name and id of each topic, as `_topic_settings` does; the id is empty for brokers before KIP-516."""
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=timeouts.REQUEST_S)
        for name, future in futures.items():
            found = str(answer(future, timeouts.REQUEST_S).topic_id)
            # Kafka's tools print the id in URL-safe base64.
            yield name, "" if found == NO_TOPIC_ID else found.replace("+", "-").replace("/", "_")

    def _topic_sizes(self) -> dict[str, _TopicSize]:
        """Return the sizes of all topics that we may see."""
        try:
            listed = self._admin.list_topics(timeout=timeouts.REQUEST_S)
        except KafkaException as problem:
            self._admin.poll(0)  # calls `_on_client_error`
            raise failed_request(problem, self.no_answer_text) from None
        return {
            name: _TopicSize(
                len(topic.partitions), min((len(one.replicas) for one in topic.partitions.values()), default=0)
            )
            for name, topic in listed.topics.items()
            if topic.error is None
        }

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics and wait until a broker knows them; `topics` waits for the other brokers.

        Args:
            topics: The topics with their partitions and settings.
            replication: Copies of each partition; -1: the broker's `default.replication.factor` (KIP-464).

        Raises:
            TopicError: The broker refused a topic (the error names all of them), or no broker knew them in time.
            UnknownOutcomeError: No broker answers.
        """
        wanted = [
            NewTopic(t.name, num_partitions=t.partitions, replication_factor=replication, config=dict(t.settings))
            for t in topics
        ]
        lines = []
        for name, future in self._admin.create_topics(wanted, request_timeout=timeouts.REQUEST_S).items():
            try:
                answer(future, timeouts.REQUEST_S)
            except KafkaException as problem:
                error = kafka_error(problem)
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    lines.append(refusal_text(error, f"{name}: cannot be created", f"topic {name}", "Create"))
        if lines:
            raise TopicError(lines)
        self._created |= {topic.name for topic in topics}
        deadline = time.monotonic() + timeouts.REQUEST_S
        while missing := sorted({topic.name for topic in topics} - self._topic_sizes().keys()):
            if time.monotonic() > deadline:
                raise TopicError(
                    f"topics created, but not visible after {timeouts.REQUEST_S:.0f} s: {', '.join(missing)}"
                )
            time.sleep(timeouts.RETRY_PAUSE_S)

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Return a reader of one partition, positioned at its first offset; see `base.Cluster.reader`."""
        return KafkaLogReader(
            self._bootstrap_servers, partition, self._admin, self._settings, self._reader_group, committed=committed
        )

    def follow(self, offsets: Mapping[TopicPartition, int]) -> KafkaLogFollower:
        """Return a follower of these partitions; see `following.FollowableCluster.follow`."""
        return KafkaLogFollower(self._bootstrap_servers, offsets, self._settings, self._reader_group)

    def offsets_since(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Ask the broker for offsets by timestamp; see `following.FollowableCluster.offsets_since`."""
        return query_offsets_since(self._admin, partitions, time_ms)

    def newest_timestamp_ms(self, partitions: Sequence[TopicPartition]) -> int | None:
        """Return the largest timestamp in these partitions; None if they are empty. Raises as `ends` does."""
        return query_newest_timestamp(self._admin, partitions)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Ask the broker for the first offset and the end of a partition's log; see `base.Cluster.watermarks`."""
        return query_watermarks(self._admin, partition)

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Ask the broker for the last stable offset and the end of each log; see `base.Cluster.ends`."""
        return query_ends(self._admin, partitions)

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed | None]:
        """Return the group's stable committed offsets; see `base.Cluster.committed`."""
        layers = (self._settings, CONSUMER_GUARANTEES, {"group.id": group_id})
        conf = client_settings(self._bootstrap_servers, Outages(), *layers)
        consumer: Consumer = create_client(Consumer, conf)
        try:
            return consumer_groups.committed_offsets(consumer, group_id, partitions)
        finally:
            consumer.close()

    def members(self, group_id: str) -> Sequence[str]:
        """Return the `client.id` of each member of the group; see `base.Cluster.members`."""
        return consumer_groups.member_client_ids(self._admin, group_id)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit offsets for a group without members; see `base.Cluster.commit_offsets`."""
        consumer_groups.commit_offsets(self._admin, group_id, offsets)

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete the records below this offset and return the new first offset; see `base.Cluster.delete_records`."""
        place = ClientPartition(*partition, before)
        future = self._admin.delete_records([place], request_timeout=timeouts.LEADER_REQUEST_S)[place]
        try:
            return int(answer(future, timeouts.LEADER_REQUEST_S).low_watermark)
        except KafkaException as problem:
            what = f"{partition.topic}[{partition.partition}]: records below offset {before} cannot be deleted"
            raise failed_request(problem, what, f"topic {partition.topic}", "Delete") from None


def _missing_operations(resource: str, future: Future[Any], needed: Sequence[str]) -> Iterator[str]:
    """Yield a line for each needed operation that the broker's description of a resource does not permit."""
    try:
        allowed = answer(future, timeouts.REQUEST_S).authorized_operations
    except KafkaException as problem:
        if kafka_error(problem).code() in DENIED_CODES:
            yield refusal_text(kafka_error(problem), resource, resource, " and ".join(needed))
        return  # any other error is reported by the next use of the resource
    names = {operation.name.replace("_", "") for operation in allowed or ()}
    for operation in needed if names else ():
        if operation.upper() not in names:
            yield f"{resource}: the broker denies it to us; {operation} on {resource} is missing"
