"""The other ports: sending, reading a log from any offset, asking for topics and creating them."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.partitioner import partition_of
from stream_app.backends.questions import KeptRecords, Question, Retention
from stream_app.errors import ArebaError, DeliveryError, ErrorCode, StateError, TopicError
from tests.contract.backends import (
    DEADLINE_S,
    START_MS,
    Backend,
    numbered,
    outputs,
    read_log,
    wait_for_records,
    wait_for_values,
)
from tests.support.kafka.waiting import wait_until


def test_a_key_goes_where_java_sends_it(backend: Backend, topic: Callable[..., str]) -> None:
    """A label from a Java producer would miss its example from ours if the two hashed the key differently."""
    name = topic("in", partitions=5)
    keys = [f"stream-{number}".encode() for number in range(60)] + [b"", b"\x00", "ключ".encode(), b"x" * 1000]
    sender = backend.sender()
    for key in keys:
        sender.send(name, key, key, START_MS)
    sender.flush(DEADLINE_S)
    for number in range(5):
        expected = [key for key in keys if partition_of(key, 5) == number]
        wait_for_values(backend.cluster(), TopicPartition(name, number), expected)


def test_a_sender_knows_what_it_has_written(backend: Backend, topic: Callable[..., str]) -> None:
    """The manifest of a resend names the offsets, and `areba verify` relies on them."""
    name = topic("in", partitions=3)
    other, sender = backend.sender(), backend.sender()
    other.send(name, b"k", b"not ours", START_MS, partition=0)
    other.flush(DEADLINE_S)
    for number in range(10):
        sender.send(name, None, b"v", START_MS, partition=number % 2)
    assert sender.flush(DEADLINE_S) == {TopicPartition(name, 0): (1, 6), TopicPartition(name, 1): (0, 5)}
    sender.send(name, None, None, START_MS, [("a", b"1"), ("b", None)], partition=1)
    assert sender.flush(DEADLINE_S) == {TopicPartition(name, 0): (1, 6), TopicPartition(name, 1): (0, 6)}


def test_a_record_that_cannot_be_delivered_is_an_error(backend: Backend, topic: Callable[..., str]) -> None:
    """A resend that lost records silently would look like a model that never saw them."""
    name = topic("in", settings={"max.message.bytes": "2000"})
    sender = backend.sender()

    def send_all() -> None:
        sender.send(name, b"k", b"fits", START_MS)
        sender.flush(DEADLINE_S)
        sender.send(name, b"k", b"x" * 3000, START_MS)
        sender.flush(DEADLINE_S)

    with pytest.raises(DeliveryError, match=name):
        send_all()


def test_a_reader_of_an_empty_partition_comes_to_its_end(backend: Backend, topic: Callable[..., str]) -> None:
    """A first start has no progress to restore, and would wait forever for the first record."""
    place = TopicPartition(topic("log"), 0)
    reader = backend.cluster().reader(place)
    (only,) = read_log(reader)
    assert (only.partition, len(only.records), only.at_end) == (place, 0, True)
    assert reader.poll(10, 0.05) is None, "no news"
    reader.close()


def test_a_reader_comes_to_the_end_after_aborted_records(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """A tool that counts records up to the last offset would wait forever for records that no reader may see."""
    place = TopicPartition(topic("log"), 0)
    transaction = backend.transaction(prefix + "a")
    transaction.begin()
    transaction.produce(place, outputs(numbered(3)))
    transaction.commit()
    transaction.begin()
    transaction.produce(place, outputs(numbered(500, "aborted-")))
    wait_for_records(backend, place, 504)
    transaction.abort()
    wait_for_records(backend, place, 505)
    reader = backend.cluster().reader(place)
    assert [v for fetched in read_log(reader) for v in fetched.records.values] == numbered(3)
    for offset in (2, 100, 505):  # the last record, an aborted one, the end
        reader.seek(offset)
        assert [v for fetched in read_log(reader) for v in fetched.records.values] == numbered(3)[offset:3]
    reader.close()


def test_a_reader_continues_at_the_given_offset(backend: Backend, topic: Callable[..., str]) -> None:
    """A snapshot names offsets of the changelog; other records would make another state."""
    place = TopicPartition(topic("log"), 0)
    sender = backend.sender()
    for number in range(2_000):
        sender.send(place.topic, b"k", str(number).encode(), START_MS, partition=0)
    sender.flush(DEADLINE_S)
    backend.delete_before(place, 100)
    reader = backend.cluster().reader(place)
    for offset, first in ((0, 100), (1_500, 1_500), (50, 100), (700, 700), (1_999, 1_999), (2_000, 2_000)):
        reader.seek(offset)
        found = read_log(reader, max_records=300)
        assert [n for fetched in found for n in fetched.records.offsets.tolist()] == list(range(first, 2_000))
    reader.close()


def test_a_reader_that_asked_for_a_deleted_offset_continues_elsewhere(
    backend: Backend, topic: Callable[..., str]
) -> None:
    """The answer to the first request comes after the seek.

    A restore on a busy machine took it for an answer about the new offset, and parked its task.
    """
    place = TopicPartition(topic("log"), 0)
    sender = backend.sender()
    for number in range(6):
        sender.send(place.topic, None, b"%d" % number, START_MS)
    sender.flush(DEADLINE_S)
    backend.delete_before(place, 3)
    reader, other = backend.cluster().reader(place), backend.cluster().reader(place)
    for one in (reader, other):
        one.seek(0)
    read_log(other)  # when it was refused and has read what is left, the first reader was refused, too
    reader.seek(4)
    assert [value for fetched in read_log(reader) for value in fetched.records.values] == [b"4", b"5"]
    for one in (reader, other):
        one.close()


def test_a_reader_reads_only_its_own_partition_after_another_was_closed(
    backend: Backend, topic: Callable[..., str]
) -> None:
    """Readers of one cluster take over its clients, also a client that has fetched records which nobody took."""
    first, second = TopicPartition(topic("first"), 0), TopicPartition(topic("second"), 0)
    sender = backend.sender()
    for number in range(50):
        sender.send(first.topic, None, b"first %d" % number, START_MS)
        sender.send(second.topic, None, b"second %d" % number, START_MS)
    sender.flush(DEADLINE_S)
    cluster = backend.cluster()
    for place in (first, second, first):
        stopped = cluster.reader(place)
        assert stopped.poll(1, DEADLINE_S) is not None
        stopped.close()
        stopped.close()
        readers = {b"first": cluster.reader(first), b"second": cluster.reader(second)}
        for reader in readers.values():
            reader.seek(10)
            assert reader.poll(5, DEADLINE_S) is not None
        for name, reader in readers.items():
            values = [value for fetched in read_log(reader) for value in fetched.records.values]
            assert values == [b"%s %d" % (name, number) for number in range(50 - len(values), 50)]
            assert len(values) >= 35
            reader.close()


def test_a_reader_hears_of_what_is_appended(backend: Backend, topic: Callable[..., str]) -> None:
    """A restore reads progress to its end, which may not have been readable yet."""
    place = TopicPartition(topic("log"), 0)
    sender, reader = backend.sender(), backend.cluster().reader(place)
    read_log(reader)
    for number in range(3):
        sender.send(place.topic, b"k", str(number).encode(), START_MS, partition=0)
        sender.flush(DEADLINE_S)
        assert [v for f in read_log(reader) for v in f.records.values] == [str(number).encode()]
    reader.close()


def test_an_offset_after_the_end_is_an_error(backend: Backend, topic: Callable[..., str]) -> None:
    """The log is shorter than it was: records were lost, and waiting would hide that."""
    reader = backend.cluster().reader(TopicPartition(topic("log"), 0))

    def read_beyond() -> None:
        reader.seek(7)
        read_log(reader)

    with pytest.raises(StateError, match=ErrorCode.OFFSET_GONE):
        read_beyond()
    reader.close()


def test_a_cluster_knows_first_and_last_offset(backend: Backend, topic: Callable[..., str]) -> None:
    """`areba promote` looks at the end of a partition; reading all of it would take hours."""
    place, cluster = TopicPartition(topic("log"), 0), backend.cluster()
    assert cluster.watermarks(place) == (0, 0)
    sender = backend.sender()
    for _ in range(10):
        sender.send(place.topic, b"k", b"v", START_MS, partition=0)
    sender.flush(DEADLINE_S)
    backend.delete_before(place, 4)
    assert cluster.watermarks(place) == (4, 10)


def test_questions_about_a_deleted_topic_do_not_create_it(
    backend: Backend, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers create a topic that a client asks for, by default, with one partition: the application would be another.

    A worker asks about its topics while somebody deletes them, to begin again.
    """
    monkeypatch.setattr(timeouts, "REQUEST_S", 1.0)
    cluster, place = backend.cluster(), TopicPartition(f"{prefix}deleted", 0)
    questions: Sequence[Callable[[], object]] = (
        lambda: cluster.watermarks(place),
        lambda: cluster.ends([place]),
        lambda: cluster.committed("a-group", [place]),
        lambda: cluster.delete_records(place, 0),
        lambda: cluster.reader(place).poll(1, 3.0),
    )
    for ask in questions:
        with suppress(ArebaError):
            ask()
    assert not cluster.topics([place.topic])


def test_records_below_an_offset_are_deleted(backend: Backend, topic: Callable[..., str]) -> None:
    """Progress has no time limit and would grow forever; a record at or after the offset must stay."""
    place, cluster = TopicPartition(topic("log"), 0), backend.cluster()
    sender = backend.sender()
    for number in range(10):
        sender.send(place.topic, b"k", str(number).encode(), START_MS, partition=0)
    sender.flush(DEADLINE_S)
    assert cluster.delete_records(place, 6) == 6
    assert cluster.delete_records(place, 3) == 6, "what is gone is gone"
    wait_for_values(cluster, place, [b"6", b"7", b"8", b"9"])
    assert cluster.watermarks(place) == (6, 10)


def test_a_question_is_answered_later(backend: Backend, prefix: str) -> None:
    """The loop of a worker asks, continues, and takes the answer, or the refusal, in a later turn."""
    cluster, name = backend.cluster(), prefix + "a"
    cluster.create([TopicInfo(name, 1, {})], 1)
    answer = cluster.ask(lambda asked: asked.ends([TopicPartition(name, 0)]))
    wait_until(lambda: answer() == {TopicPartition(name, 0): (0, 0)}, "no answer")

    def refused(_: object) -> bool:
        raise TopicError("no")

    asked = Question(cluster, refused)
    with pytest.raises(TopicError):
        wait_until(lambda: bool(asked.answer()), "no refusal")


def test_the_retention_of_a_topic_is_known(backend: Backend, prefix: str) -> None:
    """A worker saves its tasks before retention deletes their inputs."""
    cluster, name = backend.cluster(), prefix + "a"
    cluster.create([TopicInfo(name, 2, {"retention.ms": "7200000", "retention.bytes": "5000"})], 1)
    places = [TopicPartition(name, number) for number in range(2)]
    sender = backend.sender()
    for number in range(5):
        sender.send(name, b"k", b"v", START_MS + number, partition=0)
    sender.flush(DEADLINE_S)
    backend.delete_before(places[0], 3)
    assert cluster.kept(places) == KeptRecords({name: Retention(7_200_000, 5_000)}, {places[0]: 3, places[1]: 0})


def test_topics_are_described_with_the_settings_in_force(backend: Backend, prefix: str) -> None:
    """Start-up refuses topics by their settings, so it must see Kafka's defaults and the topic's own."""
    cluster = backend.cluster()
    names = [prefix + "a", prefix + "b"]
    assert cluster.topics(names) == {}
    cluster.create([TopicInfo(names[0], 3, {"cleanup.policy": "compact"})], 1)
    found = cluster.topics([*names, names[0]])
    assert list(found) == [names[0]]
    assert (found[names[0]].name, found[names[0]].partitions) == (names[0], 3)
    settings = found[names[0]].settings
    assert settings["cleanup.policy"] == "compact"
    assert settings["message.timestamp.type"] == "CreateTime"
    assert int(settings["message.timestamp.after.max.ms"]) >= 3_600_000  # the default of Kafka 4; 3.9 has no limit
    assert settings["max.message.bytes"] == "1048588"


def test_creating_a_topic_that_is_there_changes_nothing(backend: Backend, prefix: str) -> None:
    """`areba topics create` may be run again, and adds only what is missing."""
    cluster, name = backend.cluster(), prefix + "a"
    cluster.create([TopicInfo(name, 3, {})], 1)
    cluster.create([TopicInfo(name, 5, {"cleanup.policy": "compact"}), TopicInfo(prefix + "b", 1, {})], 1)
    found = cluster.topics([name, prefix + "b"])
    assert [found[n].partitions for n in (name, prefix + "b")] == [3, 1]
    assert found[name].settings["cleanup.policy"] == "delete"


def test_a_topic_that_is_refused_is_named(backend: Backend, prefix: str) -> None:
    """An operator needs the name of the topic and the reason in one line."""
    with pytest.raises(TopicError, match=f"{prefix}a: cannot be created"):
        backend.cluster().create([TopicInfo(prefix + "a", 0, {})], 1)
