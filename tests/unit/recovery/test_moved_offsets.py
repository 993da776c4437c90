"""Offsets whose commit marker was lost block their task on every worker, and only their writer can end them."""

from collections.abc import Mapping, Sequence

import pytest

from stream_app.backends.base import Committed, TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import UnstableOffsetsError
from stream_app.recovery.hanging_transactions import HANGS_AFTER_S
from tests.support.world import World, _all_at, _config, _started, _turns


class _Transaction(EmbeddedTransaction):
    """Keeps the partitions of all offsets that it was given."""

    def __init__(self, world: World) -> None:
        super().__init__(world.broker, world.config.transactional_id)
        self.sent: list[set[TopicPartition]] = []

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: object) -> None:
        """Keep them."""
        self.sent.append(set(offsets))
        super().send_offsets(offsets, group)


def test_offsets_of_a_task_that_has_moved_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new owner waits for these offsets, and only the old one, which has nothing else to commit, can end them."""
    world = World()
    transaction = _Transaction(world)
    one = _started(world.worker(transaction=transaction))
    world.send(10)
    _turns(one, until=_all_at(one, 10))
    two = _started(world.worker(_config(application={"instance": "two"}), joins=True))
    _turns(one, two, until=lambda: len(one.tasks) == len(two.tasks) == 1)
    [moved] = [task.inputs for task in two.tasks]

    def committed(places: Sequence[TopicPartition], _: float) -> Mapping[TopicPartition, Committed | None]:
        if set(moved) & set(places):
            raise UnstableOffsetsError("the marker of a commit was lost")
        return world.cluster.committed(world.config.group_id, places)

    monkeypatch.setattr(one._ports.source, "committed", committed)
    transaction.sent.clear()
    for _ in range(int(HANGS_AFTER_S) + 5):
        world.clock.advance(1.0)
        one.turn()
        two.turn()
    mark = {TopicPartition(world.config.topics.progress, 0)}
    assert mark in transaction.sent
    assert not [places for places in transaction.sent if places & set(moved)], "they are the new owner's to commit"
