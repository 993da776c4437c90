"""Administration of the cluster: brokers, topics, permissions, and access to single partitions and groups."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from stream_app.backends.base import Answer, Ends, LogReader, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.kafka import consumer_groups, timeouts
from stream_app.backends.kafka.blocking_calls import start_call
from stream_app.backends.kafka.errors import DENIED_CODES, failed_request, kafka_error, refusal_text
from stream_app.backends.kafka.librdkafka.group_metadata import empty_group
from stream_app.backends.kafka.log_reader import KafkaLogFollower, KafkaLogReader, ReadingClients
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.requests import (
    answer,
    query_ends,
    query_kept,
    query_newest_timestamp,
    query_offsets_since,
    query_watermarks,
    topic_id_text,
    wait_for_leaders,
)
from stream_app.backends.kafka.settings import (
    CONSUMER_GUARANTEES,
    READER_GROUP,
    admin_settings,
    client_settings,
    create_client,
)
from stream_app.backends.questions import KeptRecords
from stream_app.errors import ConfigurationError, TopicError, UnknownOutcomeError


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
        ca_location = self._settings.get("ssl.ca.location")
        self._outages = Outages(bootstrap_servers, ca_location, logs_refusals=False)  # of these clients alone
        self._conf = client_settings(bootstrap_servers, self._outages, admin_settings(self._settings))
        self._admin = self._new_admin()
        self._reading_clients = ReadingClients(bootstrap_servers, self._settings, reader_group, self._outages)

    def _new_admin(self) -> AdminClient:
        """Return a new client; one of its own for each request to the coordinator of a group, released after it.

        If such a request has timed out in an outage, librdkafka 2.16 ends the process once the coordinator is back
        (assertion in `rd_kafka_enq_once_del_source_return`), unless the client is gone.
        """
        return create_client(AdminClient, self._conf)

    def broker_count(self, timeout_s: float = timeouts.REQUEST_S) -> int:
        """Return the number of brokers that the cluster has now; 0 if no broker answers in time."""
        try:
            count = len(self._admin.list_topics(timeout=timeout_s).brokers)
        except KafkaException:
            self._admin.poll(0)  # the client hands over its errors
            return 0
        self._outages.end()
        return count

    @property
    def no_answer_text(self) -> str:
        """One line that says that no broker answers, with the client's reason if it has given one."""
        self._outages.look_at_certificate()
        return f"no Kafka broker answers at {self._bootstrap_servers}{self._outages.because}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add the client's reason to an error that says that no broker has answered."""
        try:
            yield
        except UnknownOutcomeError as error:
            self._admin.poll(0)  # the client hands over its errors
            if not self._outages.because:
                raise
            self._outages.look_at_certificate()
            raise type(error)(f"{error}{self._outages.because}") from None

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
        lines: list[str] = []
        with self._new_admin() as admin:
            for group, operation in groups.items():
                answers = admin.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=timeouts.REQUEST_S
                )
                asked[f"group {group}"] = (answers[group], [operation])
            for resource, (future, needed) in asked.items():
                lines += _missing_operations(resource, future, needed)
        return lines

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Ask a question in a thread of its own, which ends with the last bound of a request; see `base.Cluster.ask`.

        After a request without an answer, the next question has a new client: a client can lose all its brokers.
        """

        def asked() -> Answer:
            try:
                return question(self)
            except UnknownOutcomeError:
                self._admin = self._new_admin()
                raise

        future = start_call(asked)
        return lambda: future.result() if future.done() else None

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
            yield name, topic_id_text(answer(future, timeouts.REQUEST_S).topic_id)

    def _topic_sizes(self) -> dict[str, _TopicSize]:
        """Return the sizes of all topics that we may see."""
        try:
            listed = self._admin.list_topics(timeout=timeouts.REQUEST_S)
        except KafkaException as problem:
            self._admin.poll(0)  # the client hands over its errors
            raise failed_request(problem, self.no_answer_text) from None
        return {
            name: _TopicSize(
                len(topic.partitions), min((len(one.replicas) for one in topic.partitions.values()), default=0)
            )
            for name, topic in listed.topics.items()
            if topic.error is None
        }

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create the missing topics, and wait until each of their partitions is served.

        `topics` waits for brokers that do not know them yet.

        Args:
            topics: The topics with their partitions and settings.
            replication: Copies of each partition; -1: the broker's `default.replication.factor` (KIP-464).

        Raises:
            TopicError: The broker refused a topic (the error names all of them).
            UnknownOutcomeError: No broker answers, or a partition has no leader in time.
        """
        wanted = [
            NewTopic(t.name, num_partitions=t.partitions, replication_factor=replication, config=dict(t.settings))
            for t in topics
        ]
        lines, new = [], {topic.name: topic.partitions for topic in topics}
        for name, future in self._admin.create_topics(wanted, request_timeout=timeouts.REQUEST_S).items():
            try:
                answer(future, timeouts.REQUEST_S)
            except KafkaException as problem:
                del new[name]
                error = kafka_error(problem)
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    lines.append(refusal_text(error, f"{name}: cannot be created", f"topic {name}", "Create"))
        if lines:
            raise TopicError(lines)
        self._created |= {topic.name for topic in topics}
        self._wait_for_leaders(new)

    def grow(self, names: Sequence[str], partitions: int) -> None:
        """Give topics this number of partitions, and wait until each partition is served."""
        small = [name for name, size in self._topic_sizes().items() if name in names and size.partitions < partitions]
        lines = []
        wanted = [NewPartitions(name, partitions) for name in small]
        asked = self._admin.create_partitions(wanted, request_timeout=timeouts.REQUEST_S) if wanted else {}
        for name, future in asked.items():
            try:
                answer(future, timeouts.REQUEST_S)
            except KafkaException as problem:
                error = kafka_error(problem)
                lines.append(refusal_text(error, f"{name}: cannot get more partitions", f"topic {name}", "Alter"))
        if lines:
            raise TopicError(lines)
        self._wait_for_leaders(dict.fromkeys(small, partitions))

    def _wait_for_leaders(self, sizes: Mapping[str, int]) -> None:
        """Wait until a broker serves each partition of these topics."""
        places = [TopicPartition(name, number) for name, size in sizes.items() for number in range(size)]
        if places:
            wait_for_leaders(self._admin, places)

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Return a reader of one partition, positioned at its first offset; see `base.Cluster.reader`."""
        return KafkaLogReader(partition, self._admin, self._reading_clients, committed=committed)

    def follow(self, offsets: Mapping[TopicPartition, int]) -> KafkaLogFollower:
        """Return a follower of these partitions; see `following.FollowableCluster.follow`."""
        return KafkaLogFollower(self._bootstrap_servers, offsets, self._settings, self._reader_group)

    def offsets_since(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Ask the broker for offsets by timestamp; see `following.FollowableCluster.offsets_since`."""
        with self._explained():
            return query_offsets_since(self._admin, partitions, time_ms)

    def newest_timestamp_ms(self, partitions: Sequence[TopicPartition]) -> int | None:
        """Return the largest timestamp in these partitions; None if they are empty. Raises as `ends` does."""
        with self._explained():
            return query_newest_timestamp(self._admin, partitions)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Ask the broker for the first offset and the end of a partition's log; see `base.Cluster.watermarks`."""
        with self._explained():
            return query_watermarks(self._admin, partition)

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Ask the broker for the last stable offset and the end of each log; see `base.Cluster.ends`."""
        with self._explained():
            return query_ends(self._admin, partitions)

    def kept(self, partitions: Sequence[TopicPartition]) -> KeptRecords:
        """Return what is kept of these partitions; see `questions.RetentionCluster`."""
        with self._explained():
            return query_kept(self._admin, partitions)

    def committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the group's committed offsets; see `base.Cluster.committed`."""
        own = {"group.id": group_id, "isolation.level": "read_uncommitted"}
        layers = (self._settings, CONSUMER_GUARANTEES, own)
        conf = client_settings(self._bootstrap_servers, self._outages, *layers)
        consumer: Consumer = create_client(Consumer, conf)
        with self._explained(), closing(consumer):
            return consumer_groups.committed_offsets(consumer, group_id, partitions)

    def members(self, group_id: str) -> Sequence[str]:
        """Return the `client.id` of each member of the group; see `base.Cluster.members`."""
        with self._explained(), self._new_admin() as admin:
            return consumer_groups.member_client_ids(admin, group_id)

    def empty_group(self, group_id: str) -> object:
        """Return the metadata of a group without members; see `base.Cluster.empty_group`."""
        return empty_group(group_id)

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete the records below this offset and return the new first offset; see `base.Cluster.delete_records`."""
        place = ClientPartition(*partition, before)
        future = self._admin.delete_records([place], request_timeout=timeouts.LEADER_REQUEST_S)[place]
        with self._explained():
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
