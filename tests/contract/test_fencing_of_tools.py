"""A command that writes to progress commits as of an empty group: a worker that has joined meanwhile refuses it."""

from collections.abc import Callable

import pytest

from stream_app.backends.base import CLIENT_NAME, TopicPartition
from stream_app.errors import FencedError, TransactionAbortedError
from tests.contract.backends import Backend, Member, numbered, outputs, poll_until, wait_for_offsets, wait_for_values


def test_offsets_as_of_an_empty_group(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """An operator may repair offsets, but not while members rely on them: then nothing of the transaction counts."""
    name, out, group, cluster = topic("in", partitions=2), topic("out"), prefix + "group", backend.cluster()
    one, two = (TopicPartition(name, number) for number in range(2))
    place = TopicPartition(out, 0)
    transaction = backend.transaction(prefix + "a/tools")

    def write(value: bytes, offsets: dict[TopicPartition, int]) -> None:
        transaction.initialise()
        transaction.begin()
        transaction.produce(place, outputs([value]))
        transaction.send_offsets(offsets, cluster.empty_group(group))
        transaction.commit()

    assert cluster.committed(group, [one, two]) == {one: None, two: None}  # a new broker has a coordinator only now
    first = {one: 3, two: 4}
    write(b"0", first)  # nobody has used the group yet
    wait_for_offsets(cluster, group, first)
    write(b"1", {two: 0})
    wait_for_offsets(cluster, group, {one: first[one], two: 0})
    member = Member(backend.source(group), [name])
    poll_until([member], lambda: len(member.assigned) == 2)
    assert list(cluster.members(group)) == [CLIENT_NAME]
    with pytest.raises(TransactionAbortedError):
        write(b"refused", {one: 9})
    assert cluster.committed(group, [one])[one] == first[one]
    member.source.close()
    assert not cluster.members(group)
    write(b"2", {one: 9})
    wait_for_offsets(cluster, group, {one: 9})
    wait_for_values(cluster, place, numbered(3))


def test_the_second_command_fences_the_first(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Two commands that both wrote would write two acts with one sequence."""
    place, group = TopicPartition(topic("out"), 0), prefix + "group"
    first = backend.transaction(prefix + "a/tools")
    first.begin()
    first.produce(place, outputs([b"first"]))
    second = backend.transaction(prefix + "a/tools")
    with pytest.raises(FencedError):
        first.send_offsets({place: 1}, backend.cluster().empty_group(group))
    second.begin()
    second.produce(place, outputs([b"0"]))
    second.commit()
    wait_for_values(backend.cluster(), place, numbered(1))
