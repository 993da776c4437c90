"""The supervisor of a world's processes: starts each configured process that is not alive, as an init system does."""

from collections.abc import Sequence
from functools import partial

from stream_app.cli.restart import RESTART_WINDOW_S
from stream_app.errors import (
    ArebaError,
    ConfigurationError,
    ErrorCode,
    FencedAgainError,
    FencedError,
    RestartNeededError,
    StateError,
)
from stream_app.errors import TopicError as WrongTopicError
from tests.simulation.faults import Event
from tests.simulation.worlds.processes import Process
from tests.simulation.worlds.world import World


def supervise(world: World) -> None:
    """Start each wanted process that is not alive, again and again."""
    while True:
        for instance in sorted(world.wanted):
            is_alive = any(process.instance == instance for process in world.processes)
            if not is_alive and not world.is_closed:
                world.faults.events[Event.STARTED] += 1
                start(world, instance)
        world.scheduler.pause(world.draw.choice((0.1, 1.0, 8.0)) * world.draw.random())


def start(world: World, instance: str, restarted_at: Sequence[float] = (), *, was_fenced: bool = False) -> None:
    """Start a process, even if another one of this name is alive."""
    world.processes.append(Process(world, instance, restarted_at, was_fenced, partial(_ended, world)))


def _ended(world: World, process: Process, error: ArebaError | None) -> None:
    """Handle the end of a process: do what `areba run` itself does then, and leave the rest to the supervisor."""
    world.processes.remove(process)
    world.faults.events[Event.CUT] += process.worker.cuts if process.worker is not None else 0
    if error is None:
        process.say("is gone")
        return
    process.say(f"ends with status {error.exit_code}: {type(error).__name__}: {error}")
    world.left_work |= world.is_worked_off
    if isinstance(error, RestartNeededError):
        _restart(world, process, error)
    elif isinstance(error, FencedAgainError):
        world.faults.events[Event.FENCED_AGAIN] += 1
    elif isinstance(error, ConfigurationError) and not isinstance(error, WrongTopicError):
        world.faults.events[Event.REFUSED_OLD_CONFIGURATION] += 1
        is_refused_removal = process.without  # of the champion, or of a learner whose examples wait for labels
        if process.version == world.version and not is_refused_removal:
            world.wrong.append(f"{process.name}: {error}")
    elif not (isinstance(error, StateError) and (world.duties.lost or error.code is ErrorCode.RECORD_TOO_LARGE)):
        world.wrong.append(f"{process.name} ended with {type(error).__name__}: {error}")


def _restart(world: World, process: Process, error: RestartNeededError) -> None:
    """Restart a process as `stream_app.cli.restart` does."""
    now_s = world.scheduler.now_s
    recent = [moment for moment in process.restarted_at if now_s - moment < RESTART_WINDOW_S]
    if process.is_asked_to_stop or world.is_closed or len(recent) >= process.config.worker.max_restarts:
        return
    world.faults.events[Event.RESTARTED] += 1
    start(world, process.instance, (*recent, now_s), was_fenced=isinstance(error, FencedError))
