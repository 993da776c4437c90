"""Topics with names of their own, set in `kafka.topics`."""

from stream_app.config import Topics
from stream_app.verify.verify import verify
from tests.support.world import World, make_config, started, take_turns

NAMES = {topic: f"desk.{topic}.v1" for topic in Topics._fields}
COUNT = 10


def test_an_application_writes_to_its_own_names_and_is_verified_there() -> None:
    """No part of the application may assume the usual names."""
    world = World(make_config(kafka={"topics": NAMES}))
    world.send(COUNT)
    world.put("examples", 0, b"s0", b"no record", COUNT)
    worker = started(world.worker())
    take_turns(worker, until=lambda: sum(sum(task.offsets) for task in worker.tasks) == 4 * COUNT + 1)
    assert [len(world.rows(name, 0)) for name in ("predictions", "outcomes", "dead_letters")] == [COUNT, COUNT, 1]
    assert not verify(world.cluster, world.config, rerun=True).findings
