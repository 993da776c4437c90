"""Operators who run commands at once, and workers that start at the same time."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from stream_app.admin.models import Application
from stream_app.admin.reset import reset
from stream_app.admin.saved_models.export_models import export
from stream_app.admin.saved_models.import_model import import_model
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import (
    ConfigurationError,
    FencedError,
    StateError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from tests.simulation.faults import Event
from tests.simulation.ports import TRANSACTION_TIMEOUT_S, Gate, Pace, SimulatedClock
from tests.simulation.schedule import KilledError
from tests.simulation.transactions import SimulatedTransaction
from tests.simulation.worlds.cluster import SimulatedCluster

if TYPE_CHECKING:
    from tests.simulation.worlds.world import World

REFUSALS = (StateError, ConfigurationError, UnknownOutcomeError, TransactionAbortedError, FencedError)
"""Clear answers of a command, after which an operator runs it again."""

PAUSE_S = 0.2

Command = Callable[[Application], Iterator[str]]


def run_at_once(world: "World") -> None:
    """Stop all workers and run two commands at once; half of the times, the workers start meanwhile."""
    world.stop_all()
    with TemporaryDirectory(prefix="areba-simulation-") as folder:
        running = [_draw(world, Path(folder) / "model") for _ in range(2)]
        if world.draw.random() < 0.5:
            world.is_closed = False
        actors = [
            world.scheduler.spawn(
                partial(run_command, world, command), world.draw.choice((0.0, 0.3)) * world.draw.random()
            )
            for command in running
        ]
        while not all(actor.thread.dead for actor in actors):
            world.scheduler.pause(PAUSE_S)
    world.is_closed = False


def _draw(world: "World", file: Path) -> Command:
    """Draw a command: a reset, or a model that is put back."""
    number = world.draw.randrange(world.shape.partitions)
    stream = f"s{number}"
    if world.draw.random() < 0.5 and not world.broker.hanging:
        try:
            if not file.exists():
                export(world.application(), stream, "areba", file, number, None)
        except REFUSALS as problem:
            world.say(f"an operator: {problem}")
        else:
            return lambda place: import_model(place, file, stream, "areba", number)
    return lambda place: reset(place, stream, number)


def run_command(world: "World", command: Command) -> None:
    """Run one command, which may be stopped, refused or killed like any process."""
    pace = Pace(world.draw.choice((0.002, 0.05, 0.4)), 0.5)  # a person's computer is far from the brokers
    gate = Gate(world.scheduler, world.faults, pace, lambda what: world.say(f"an operator: {what}"))

    def open_transaction(transactional_id: str) -> SimulatedTransaction:
        make = partial(EmbeddedTransaction, world.broker, transactional_id, TRANSACTION_TIMEOUT_S)
        return SimulatedTransaction(gate, make, world.later, lambda: None)

    clock = SimulatedClock(gate, world.clock)
    place = Application(world.config("w1"), SimulatedCluster(gate, world.cluster), clock, open_transaction)
    try:
        for line in command(place):
            world.say(f"an operator: {line}")
            world.faults.events[Event.COMMAND_DONE] += 1
    except KilledError:
        world.faults.events[Event.COMMAND_KILLED] += 1
    except REFUSALS as problem:
        world.say(f"an operator: {type(problem).__name__}: {problem}")
        world.faults.events[Event.COMMAND_REFUSED] += 1
