"""The course of a world, from its first record to the clean stop of its last worker."""

from functools import partial

from tests.simulation.worlds.disasters import cause_disasters
from tests.simulation.worlds.maintenance import operate
from tests.simulation.worlds.producer import produce, send
from tests.simulation.worlds.supervisor import supervise
from tests.simulation.worlds.world import FORGOTTEN_S, SETTLE_S, World, rows

START_S = 1.0
"""Time for most processes to start: without work to disturb, faults would be wasted."""


def run(world: World) -> None:
    """Run all actors until everything is processed and all workers have stopped, or something is wrong."""
    send(world, world.shape.records[: world.shape.before])
    for number in range(world.shape.instances):
        world.wanted.add(f"w{number + 1}")
    for main in (supervise, produce, cause_disasters, operate, _subscribe, _conduct):
        world.scheduler.spawn(partial(main, world))
    try:
        world.scheduler.run(lambda: world.is_over or bool(world.wrong))
    finally:
        for process in world.processes:
            process.gate.is_dead = True
        world.scheduler.close()


def _subscribe(world: World) -> None:
    """Read all outputs as they come; what was read must not change."""
    readers = {place: world.cluster.reader(place) for place in world.seen}
    while True:
        for place, reader in readers.items():
            fetched = reader.poll(1000, 0.0)
            if fetched is not None:
                world.seen[place] += rows(fetched)
        world.scheduler.pause(5.0 * world.draw.random())


def _conduct(world: World) -> None:
    """Cause faults for a while; then let everything be processed, and stop all workers."""
    while not world.is_all_sent:
        world.scheduler.pause(SETTLE_S)
    world.scheduler.pause(START_S + world.shape.horizon_s * world.draw.random())
    world.say("no more faults")
    world.faults.is_calm = True
    _work_off(world)
    while world.left_work:  # a worker that ended with an error may leave a repair to the next worker
        world.left_work = False
        _work_off(world)
    world.scheduler.pause(FORGOTTEN_S)
    world.broker.expire()
    world.is_over = True


def _work_off(world: World) -> None:
    """Let everything be processed, and stop all workers."""
    world.wanted |= {"w1"} if not world.wanted else set()
    while _is_awaited(world) or world.is_closed or not world.is_settled():
        world.scheduler.pause(SETTLE_S)
    world.is_worked_off = True
    world.say("all is worked off")
    world.wanted.clear()
    for process in world.processes:
        process.is_asked_to_stop = True
        for task in process.worker.tasks if process.worker is not None else ():
            world.models[task.number] = task.live.model_digest()
    while world.processes:
        world.scheduler.pause(SETTLE_S)


def _is_awaited(world: World) -> bool:
    """Say whether the operator has something to do without which not everything is processed."""
    duties = world.duties
    return bool(duties.lost or duties.resets or duties.stopped or duties.will_run_commands)
