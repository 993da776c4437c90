"""Exactly-once depends on these tests: committed records are read completely and once, aborted records never."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.errors import FencedError, RecordTooLargeError, TransactionAbortedError
from stream_app.record_columns import OutputRecords
from stream_app.records import UNREADABLE_HEADERS, Header
from tests.contract.backends import (
    DEADLINE_S,
    START_MS,
    Backend,
    Member,
    log_values,
    numbered,
    outputs,
    poll_until,
    read,
    read_log,
    to_end,
    wait_for_offsets,
    wait_for_records,
    wait_for_values,
)
from tests.support.raw import RawRecord


def test_a_transaction_is_read_whole_and_only_once_it_is_committed(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """A reader that saw half of a round would see a prediction whose outcome is not there."""
    name = topic("out", partitions=2)
    transaction = backend.transaction(prefix + "a")
    transaction.begin()
    transaction.produce(TopicPartition(name, 0), outputs(numbered(3)))
    transaction.produce(TopicPartition(name, 1), outputs(numbered(2)))
    assert log_values(backend.cluster(), TopicPartition(name, 0)) == []
    transaction.commit()
    wait_for_values(backend.cluster(), TopicPartition(name, 0), numbered(3))
    wait_for_values(backend.cluster(), TopicPartition(name, 1), numbered(2))


def test_work_that_was_started_ends_with_its_result(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A worker that takes an aborted transaction for a committed one loses records."""
    place = TopicPartition(topic("out"), 0)
    transaction = backend.transaction(prefix + "a")

    def write(values: list[bytes | None]) -> bool:
        transaction.begin()
        transaction.produce(place, outputs(values))
        transaction.commit()
        return False

    assert transaction.start(lambda: write(numbered(3)))() is False
    wait_for_values(backend.cluster(), place, numbered(3))

    def fail() -> bool:
        transaction.begin()
        transaction.produce(place, outputs(numbered(2, "lost-")))
        transaction.abort()
        raise TransactionAbortedError("a reason")

    result = transaction.start(fail)
    with pytest.raises(TransactionAbortedError, match="a reason"):
        result()
    transaction.start(lambda: write(numbered(2, "last-")))
    transaction.close()  # waits for the end
    wait_for_values(backend.cluster(), place, [*numbered(3), *numbered(2, "last-")])


def test_offsets_are_known_once_it_is_committed(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A snapshot's manifest lists where its chunks are: a wrong offset would be another chunk."""
    place = TopicPartition(topic("out"), 0)
    transaction = backend.transaction(prefix + "a")
    known: dict[int, bytes | None] = {}
    for number in range(3):
        offsets: list[int] = []
        values = numbered(400, f"{number}-")
        transaction.begin()
        transaction.produce(place, outputs(numbered(7, f"other-{number}-")))
        transaction.produce(place, outputs(values), offsets)
        transaction.commit()
        known.update(zip(offsets, values, strict=True))
    found: dict[int, bytes | None] = {}
    reader = backend.cluster().reader(place)
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < 3 * 407 and time.monotonic() < deadline:
        fetched = reader.poll(10_000, 1.0)
        if fetched is not None:
            found.update(zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True))
    reader.close()
    assert {offset: found.get(offset) for offset in known} == known


def test_an_aborted_record_is_never_read(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Aborted records are computed again; a reader of both would learn from them twice."""
    name = topic("out")
    transaction = backend.transaction(prefix + "a")
    for number in range(6):
        transaction.begin()
        transaction.produce(TopicPartition(name, 0), outputs(numbered(5, f"{number}-")))
        if number % 2:
            transaction.commit()
        else:
            transaction.abort()
    expected = [value for number in (1, 3, 5) for value in numbered(5, f"{number}-")]
    wait_for_values(backend.cluster(), TopicPartition(name, 0), expected)


def test_an_open_transaction_holds_back_what_comes_after_it(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """A later record that overtakes one that may still be committed would change the order of a partition."""
    place = TopicPartition(topic("out"), 0)
    first, second = backend.transaction(prefix + "a"), backend.transaction(prefix + "b")
    first.begin()
    first.produce(place, outputs([b"first"]))
    first.send_offsets({}, _member(backend, prefix, place).source.group_metadata())
    wait_for_records(backend, place, 1)
    second.begin()
    second.produce(place, outputs([b"second"]))
    second.commit()
    assert log_values(backend.cluster(), place) == []
    first.commit()
    wait_for_values(backend.cluster(), place, [b"first", b"second"])


def _member(backend: Backend, prefix: str, place: TopicPartition) -> Member:
    member = Member(backend.source(prefix + "group"), [place.topic])
    poll_until([member], lambda: bool(member.assigned))
    return member


def test_partitions_with_an_open_transaction_are_known(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """A commit to a partition where a dead transaction of the same id is open would commit that transaction too."""
    name = topic("out", partitions=2)
    one, two = TopicPartition(name, 0), TopicPartition(name, 1)
    transaction, cluster = backend.transaction(prefix + "a"), backend.cluster()
    assert cluster.ends([one, two]) == {one: (0, 0), two: (0, 0)}
    transaction.begin()
    transaction.produce(two, outputs(numbered(3)))
    transaction.flush()
    assert cluster.ends([one, two]) == {one: (0, 0), two: (0, 3)}
    transaction.abort()
    deadline = time.monotonic() + DEADLINE_S
    while cluster.ends([two])[two] != (4, 4):
        assert time.monotonic() < deadline, "the transaction has not ended"


def test_offsets_and_their_metadata_are_part_of_the_transaction(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """Offsets that are stored without their outputs would skip records permanently."""
    name = topic("in", partitions=2)
    member = _member(backend, prefix, TopicPartition(name, 0))
    source, partitions = member.source, [TopicPartition(name, 0), TopicPartition(name, 1)]
    cluster, group = backend.cluster(), prefix + "group"
    assert cluster.committed(group, partitions) == dict.fromkeys(partitions)
    transaction = backend.transaction(prefix + "a")
    transaction.begin()
    transaction.send_offsets({partitions[0]: 5}, source.group_metadata())
    assert cluster.committed(group, partitions) == dict.fromkeys(partitions), "it is open"
    transaction.commit()
    wait_for_offsets(cluster, group, {partitions[0]: 5, partitions[1]: None})
    transaction.begin()
    transaction.send_offsets({partitions[0]: 9}, source.group_metadata())
    transaction.abort()
    assert cluster.committed(group, partitions) == {partitions[0]: 5, partitions[1]: None}


def test_a_newer_producer_of_the_same_name_fences_the_older(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """An instance that was presumed dead and wakes up would duplicate the outputs of its successor."""
    place = TopicPartition(topic("out"), 0)
    zombie = backend.transaction(prefix + "a")
    zombie.begin()
    zombie.produce(place, outputs(numbered(10, "zombie-")))
    successor = backend.transaction(prefix + "a")
    with pytest.raises(FencedError):
        zombie.commit()
    successor.begin()
    successor.produce(place, outputs(numbered(3)))
    successor.commit()
    wait_for_values(backend.cluster(), place, numbered(3))


def test_a_fenced_producer_stays_fenced(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A loop that continues after the error must not succeed in writing anything."""
    place = TopicPartition(topic("out"), 0)
    zombie = backend.transaction(prefix + "a")
    backend.transaction(prefix + "a")

    def one_more() -> None:
        zombie.begin()
        zombie.produce(place, outputs(numbered(10, "zombie-")))
        zombie.commit()

    for _ in range(2):
        with pytest.raises(FencedError):
            one_more()
    assert log_values(backend.cluster(), place) == []


def test_a_restarted_instance_ends_its_open_transaction(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """A stable transactional id: readers need not wait for the timeout of an abandoned transaction."""
    place = TopicPartition(topic("out"), 0)
    dead = backend.transaction(prefix + "a", timeout_s=4 * DEADLINE_S)
    dead.begin()
    dead.produce(place, outputs([b"lost"]))
    wait_for_records(backend, place, 1)
    backend.transaction(prefix + "a")
    backend.sender().send(place.topic, b"key", b"later", 1_700_000_000_000, partition=0)
    reader = backend.cluster().reader(place)
    deadline = time.monotonic() + DEADLINE_S  # a quarter of what the dead one's transaction may take
    while not (found := reader.poll(10, 0.1)) or not len(found.records):
        assert time.monotonic() < deadline
    reader.close()
    assert found.records.values == [b"later"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_owner_fenced(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """Readers wait for an open transaction, so it has a time limit; a later commit must fail, not pretend."""
    place = TopicPartition(topic("out"), 0)
    slow = backend.transaction(prefix + "a", timeout_s=1.0)
    slow.begin()
    slow.produce(place, outputs([b"slow"]))
    wait_for_records(backend, place, 2)  # the record, and the marker that ends its transaction
    with pytest.raises((FencedError, TransactionAbortedError)):
        slow.commit()
    assert log_values(backend.cluster(), place) == []


def test_offsets_of_an_older_generation_are_refused(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """The group has assigned the partitions to another member: committing would process records twice."""
    name, out = topic("in", partitions=2), topic("out")
    member = _member(backend, prefix, TopicPartition(name, 0))
    old = member.source.group_metadata()
    other = Member(backend.source(prefix + "group"), [name])
    poll_until([member, other], lambda: len(member.assigned) == len(other.assigned) == 1)
    transaction = backend.transaction(prefix + "a")

    def late() -> None:
        transaction.begin()
        transaction.produce(TopicPartition(out, 0), outputs([b"late"]))
        transaction.send_offsets({TopicPartition(name, 0): 4}, old)
        transaction.commit()

    with pytest.raises(TransactionAbortedError):
        late()
    assert log_values(backend.cluster(), TopicPartition(out, 0)) == []
    place = TopicPartition(name, 0)
    assert backend.cluster().committed(prefix + "group", [place]) == {place: None}
    transaction.begin()  # the producer itself is as good as before
    transaction.produce(TopicPartition(out, 0), outputs([b"good"]))
    transaction.send_offsets({TopicPartition(name, 0): 1}, member.source.group_metadata())
    transaction.commit()
    wait_for_values(backend.cluster(), TopicPartition(out, 0), [b"good"])


def test_closing_gives_an_open_transaction_up(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A clean stop inside a round must not leave a transaction open that readers wait for."""
    place = TopicPartition(topic("out"), 0)
    transaction = backend.transaction(prefix + "a", timeout_s=4 * DEADLINE_S)
    transaction.begin()
    transaction.produce(place, outputs([b"unfinished"]))
    transaction.close()
    backend.sender().send(place.topic, b"key", b"later", 1_700_000_000_000, partition=0)
    wait_for_values(backend.cluster(), place, [b"later"])


def test_a_record_that_is_too_large_is_an_error_of_its_own(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """The caller reads the topic's limit again; the transaction is aborted, and the producer remains usable.

    Headers count, as they do for a broker. A single record that is too large would otherwise stop the whole group.
    """
    place = TopicPartition(topic("out", settings={"max.message.bytes": "2000"}), 0)
    transaction = backend.transaction(prefix + "a")
    large: Mapping[int, Sequence[Header]] = {0: [("large", b"x" * 2_000)]}

    def attempt(records: OutputRecords) -> None:
        transaction.begin()
        transaction.produce(place, outputs([b"small"]))
        transaction.produce(place, records)
        transaction.commit()

    for records in (outputs([b"x" * 2_000]), outputs([b"x"], headers=large)):
        with pytest.raises(RecordTooLargeError):
            attempt(records)
    for _ in range(5):  # the broker may ask for a new epoch of the producer first (KIP-360), which is an abort
        with contextlib.suppress(TransactionAbortedError):
            attempt(outputs([b"x" * 1_500]))
            break
    wait_for_values(backend.cluster(), place, [b"small", b"x" * 1_500])


def test_a_header_name_may_be_any_bytes(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """The headers of such a record cannot be read, but a member and a reader can read the record and its neighbours.

    Otherwise the worker would end with the client's error, and so would each member of the group that takes over.
    """
    place = TopicPartition(topic("in"), 0)
    names: Sequence[tuple[bytes, bytes | None]] = [(b"ok", b"\xff"), (b"\xff\xfename", b"v"), (b"\xc3\x28", None)]
    backend.send_raw(
        place,
        [
            RawRecord(START_MS + number, b"key", b"%d" % number, [names[number % 3], (b"last", b"")][: number % 4])
            for number in range(40)
        ],
    )
    member = Member(backend.source(prefix + "group"), [place.topic])
    poll_until([member], lambda: bool(member.assigned))
    member.source.start_at({place: 0})
    found: dict[int, Sequence[Header]] = {}
    values: list[bytes | None] = []
    while len(values) < 40:
        for fetched in member.source.poll(7, 0.1):
            found |= {len(values) + row: cells for row, cells in fetched.records.headers.items()}
            values += fetched.records.values
    assert values == numbered(40)
    for number in range(40):
        count = min(number % 4, 2)
        readable = [("ok", b"\xff"), ("last", b"")][:count] if number % 3 == 0 else UNREADABLE_HEADERS
        assert list(found.get(number, ())) == (list(readable) if count else [])
    assert log_values(backend.cluster(), place) == values


def test_aborting_nothing_is_no_error(backend: Backend, prefix: str) -> None:
    """Code that cleans up after an error does not know whether a transaction is open."""
    transaction = backend.transaction(prefix + "a")
    transaction.abort()
    transaction.begin()
    transaction.abort()
    transaction.abort()


def test_everything_in_a_record_is_kept(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A dead letter must equal its record to be sent again: null and empty keys, repeated headers, any byte."""
    place = TopicPartition(topic("out"), 0)
    records = outputs([b"", None, bytes(range(256)), b"x"], [1_700_000_000_123, 1, 2, 1_700_000_000_124])
    headers: dict[int, Sequence[Header]] = {
        0: [("a", b"1"), ("a", None), ("traceparent", b"\xff\x00")],
        3: [("b", b"")],
    }
    keys = [None, b"", b"\xff", "ключ".encode()]
    transaction = backend.transaction(prefix + "a")
    transaction.begin()
    transaction.produce(place, OutputRecords.of(keys, records.values, records.timestamps, headers))
    transaction.commit()
    reader = backend.cluster().reader(place)
    found = [fetched.records for fetched in read_log(reader) if len(fetched.records)]
    reader.close()
    assert [key for records_ in found for key in records_.keys] == keys
    assert [value for records_ in found for value in records_.values] == list(records.values)
    assert [int(time_) for records_ in found for time_ in records_.timestamps] == list(records.timestamps)
    assert {row: [tuple(h) for h in cells] for row, cells in found[0].headers.items()} == headers


def test_a_large_round_comes_through_in_order(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Records of a transaction that takes several batches must not be lost, duplicated or reordered."""
    name = topic("out", partitions=2)
    transaction = backend.transaction(prefix + "a")
    values = numbered(30_000)
    transaction.begin()
    for number in (0, 1):
        transaction.produce(TopicPartition(name, number), outputs(values))
    transaction.commit()
    member = Member(backend.source(prefix + "group"), [name])
    poll_until([member], lambda: bool(member.assigned))
    member.source.start_at(dict.fromkeys(member.assigned, 0))
    seen = read(member.source, to_end(*member.assigned), max_records=7_000)
    assert seen.values == dict.fromkeys(member.assigned, values)
