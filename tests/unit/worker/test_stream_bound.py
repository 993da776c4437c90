"""A task reports that it has nearly as many streams as it may have, before records of further streams are refused."""

import logging

import pytest

from stream_app.records import Example
from stream_app.serialization import codec
from tests.support.world import PARTITIONS, World, make_config, started, take_turns

STREAMS = 10


@pytest.mark.parametrize(("unknown", "reported"), [("model", ["task=0"]), ("dead-letter", [])])
def test_a_task_with_nearly_all_its_streams_is_reported_once(
    caplog: pytest.LogCaptureFixture, unknown: str, reported: list[str]
) -> None:
    """Half of ten thousand devices became dead letters, and no line had said that a bound was near."""
    caplog.set_level(logging.WARNING)
    world = World(make_config(unknown_streams=unknown, limits={"max_streams_per_task": STREAMS}))
    member = started(world.worker())
    take_turns(member, until=lambda: len(member.tasks) == PARTITIONS)
    for number in range(STREAMS - 1):
        name = f"device-{number}"
        world.put("examples", 0, name.encode(), codec.encode(Example(name, "e", [1.0])))
        for _ in range(10):
            world.clock.advance(1.0)
            member.turn()
    lines = [record for record in caplog.records if getattr(record, "event", None) == "streams-near-bound"]
    assert [record.getMessage().split()[1] for record in lines] == reported
