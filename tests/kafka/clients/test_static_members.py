"""Static members of a group: they return to their partitions at once, and give them up at once when they close."""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.errors import FencedError, TransactionAbortedError
from tests.contract.backends import Member, poll_until

pytestmark = pytest.mark.kafka

PARTITIONS = 4

SESSION_S = 20.0
"""The timeout of a session: far longer than anything that must not wait for it."""

AT_ONCE_S = 10.0
"""Less than the session, and enough for a rebalance on a busy machine."""


@pytest.fixture
def member(kafka: Any, prefix: str) -> Any:  # noqa: ANN401
    """Return a function that joins the group as an instance."""
    KafkaCluster(kafka.bootstrap_servers).create([TopicInfo(prefix + "in", PARTITIONS, {})], 1)
    with ExitStack() as stack:

        def join(instance: str) -> Member:
            settings = {
                "client.id": instance,
                "group.instance.id": instance,
                "session.timeout.ms": str(int(1000 * SESSION_S)),
            }
            source = KafkaSource(kafka.bootstrap_servers, prefix + "group", settings)
            stack.enter_context(closing(source))
            return Member(source, [prefix + "in"], PARTITIONS)

        yield join


def _assigned_at_once(members: Sequence[Member], partitions: int) -> None:
    begun_s = time.monotonic()
    poll_until(members, lambda: all(len(one.assigned) == partitions for one in members))
    assert time.monotonic() - begun_s < AT_ONCE_S


def test_a_member_that_closes_leaves_at_once(member: Any, kafka: Any, prefix: str) -> None:  # noqa: ANN401
    """Otherwise the tasks of a worker that was stopped wait until its session times out."""
    stays, leaves = member("stays"), member("leaves")
    poll_until([stays, leaves], lambda: len(stays.assigned) == len(leaves.assigned) == PARTITIONS // 2)
    leaves.source.close()
    _assigned_at_once([stays], PARTITIONS)
    stays.source.close()
    assert not KafkaCluster(kafka.bootstrap_servers).members(prefix + "group")


def test_an_instance_that_comes_back_takes_its_own_place(member: Any, kafka: Any, prefix: str) -> None:  # noqa: ANN401
    """A killed worker that is started again has its tasks at once; its former process, if it lives, commits nothing."""
    former = member("w")
    poll_until([former], lambda: len(former.assigned) == PARTITIONS)
    group = former.source.group_metadata()
    _assigned_at_once([member("w")], PARTITIONS)
    transaction = KafkaTransaction(kafka.bootstrap_servers, prefix + "id")
    with closing(transaction):
        transaction.initialise()
        transaction.begin()
        with pytest.raises((TransactionAbortedError, FencedError)):
            transaction.send_offsets({TopicPartition(prefix + "in", 0): 1}, group)
