"""The operator of a world: resumes and resets streams, accepts lost inputs, erases examples, and raises a limit."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from stream_app.admin.marks import erase, resume
from stream_app.admin.models import Application
from stream_app.admin.reset import reset
from stream_app.admin.skip import skip
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.task_state import TaskState
from tests.simulation.faults import Event, Fault
from tests.simulation.worlds.commands import run_at_once
from tests.simulation.worlds.world import World


def operate(world: World) -> None:
    """Do what waits for the operator, again and again."""
    while True:
        world.is_busy = False
        world.scheduler.pause(world.draw.choice((0.3, 4.0)) * world.draw.random() + 0.05)
        if world.year.is_quiet or world.is_worked_off:  # what is sent now would stay unread
            continue
        world.is_busy = True
        if world.duties.will_run_commands:
            run_at_once(world)
            world.duties.will_run_commands = False
        for stream in sorted(world.duties.stopped):
            _resume(world, stream)
        if world.duties.erasure is not None:
            _erase(world, *world.duties.erasure)
            world.duties.erasure = None
        if world.duties.lost or world.duties.resets:
            world.scheduler.pause(10.0 * world.draw.random())
            _maintain(world)


def _maintain(world: World) -> None:
    """Stop all workers, accept lost inputs, reset streams, and start the workers again."""
    world.stop_all()
    lost, application = sorted(world.duties.lost), world.application()
    for line in _insist(world, lambda: skip(application, lost)) if lost else ():
        world.faults.events[Event.SKIPPED] += ": continues " in line
        world.say(f"the operator: {line}")
    for stream in world.duties.resets:
        _reset(world, application, stream)
    world.duties.lost.clear()
    world.duties.resets.clear()
    world.is_closed = False


def _insist(world: World, command: Callable[[], Iterator[str]]) -> list[str]:
    """Run a command and return its lines; where its own transaction hangs, end it and run the command again."""
    while True:
        try:
            return list(command())
        except StateError as problem:
            if problem.code is not ErrorCode.HELD_BACK or not world.broker.hanging:
                raise
            world.settle_transactions()


def _reset(world: World, place: Application, stream: str) -> None:
    """Reset a stream in each task that has it."""
    for number in range(world.shape.partitions):
        try:
            for line in _insist(world, partial(reset, place, stream, number)):
                world.say(f"the operator: {line}")
        except (ConfigurationError, StateError) as problem:  # the task has no such stream, or never committed anything
            world.say(f"the operator: {problem}")
        else:
            world.faults.events[Event.RESET] += 1


def _resume(world: World, stream: str) -> None:
    """Resume a stream as `areba resume` does."""
    for _ in range(2 if world.faults.hit(Fault.RESUMED_TWICE) else 1):
        try:
            found = resume(world.application(), EmbeddedSender(world.broker), stream)
        except StateError:  # the stop cannot be read yet, or a frozen worker has reported it after its end
            if not _is_stopped(world, stream):
                world.duties.stopped.discard(stream)
            return
        for place, _, offset, _ in found:
            world.say(f"the operator resumes stream {stream}: {place.topic}[{place.partition}] offset {offset}")
    world.duties.stopped.discard(stream)


def _is_stopped(world: World, stream: str) -> bool:
    workers = [process.worker for process in world.processes if process.worker is not None]
    live = [task.live for worker in workers for task in worker.tasks if task.state is TaskState.LIVE]
    return any(stream in one.task.stopped for one in live)


def _erase(world: World, stream: str, ids: Sequence[str]) -> None:
    """Erase examples as `areba erase` does."""
    try:
        place, offsets = erase(world.application(), EmbeddedSender(world.broker), stream, ids, int(stream[1:]))
    except (StateError, ConfigurationError) as problem:  # stopped, never sent, or not configured
        world.say(f"an operator: {problem}")
        return
    world.say(f"the operator erases {', '.join(ids)}: {place.topic}[{place.partition}] offset {offsets[-1]}")


def raise_limit(world: World) -> None:
    """Give the topic of dead letters its limit back, and start the workers again, as a parked task asks for."""
    name = world.config("w1").topics.dead_letters
    world.say(f"the operator: {name} takes {world.shape.dead_letter_bytes} bytes again")
    world.broker.alter_topic(name, {"max.message.bytes": str(world.shape.dead_letter_bytes)})
    for process in world.processes:
        process.is_asked_to_stop = True
