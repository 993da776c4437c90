"""What operators do in an ordinary year: promote, send dead letters back, take a learner out and in again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stream_app.admin.dead_letters.resend import resend
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.marks import decide, promote
from stream_app.admin.models import Application
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.errors import ConfigurationError, DeliveryError
from tests.simulation.faults import Event
from tests.simulation.worlds.commands import run_command

if TYPE_CHECKING:
    from tests.simulation.worlds.world import World

PAUSE_S = 0.5

PATIENCE = 60
"""Looks, `PAUSE_S` apart, until all workers have the other configuration."""


def look_after(world: "World") -> None:
    """Do some of what has waited until now."""
    for act in (_promote, _send_back, _change_learners):
        if world.draw.random() < 0.5:
            act(world)


def _promote(world: "World") -> None:
    """Promote any learner of a stream, and a threshold that the place of the mark decides."""
    config, number = world.config("w1"), world.draw.randrange(world.shape.partitions)
    stream, learner = f"s{number}", world.draw.choice(sorted(config.learners))
    try:
        place, offset = promote(world.application(), EmbeddedSender(world.broker), stream, learner, number)
    except (ConfigurationError, DeliveryError) as refused:  # nothing was ever sent there, or its time is too old
        world.say(f"the operator: {refused}")
        return
    world.say(f"the operator promotes {learner} of {stream}: {place.topic}[{number}] offset {offset}")
    world.faults.events[Event.PROMOTED_BY_COMMAND] += 1
    threshold = ("probability: 0.3", "alerts: 0.2", "score: 0.5", "majority")[offset % 4]
    place, offset, _ = decide(world.application(), EmbeddedSender(world.broker), stream, threshold, number)
    world.say(f"the operator promotes the threshold {threshold!r} of {stream}: {place.topic}[{number}] offset {offset}")


def _send_back(world: "World") -> None:
    """Send all dead letters back, once each; the command may be killed or refused."""

    def command(place: Application) -> Iterator[str]:
        result = resend(place, Selection())
        world.faults.events[Event.SENT_BACK] += result.sent.total()
        yield f"{result.sent.total()} dead letters are sent back"

    run_command(world, command)


def _change_learners(world: "World") -> None:
    """Take a learner out, and put it in again later; workers with either configuration run at the same time."""
    name = [*world.config("w1").learners][-1]
    if len(world.config("w1").learners) < 2:
        return
    for without in (name, ""):
        world.say(f"the operator deploys a configuration {f'without {without}' if without else f'with {name} again'}")
        world.without = without
        for process in world.processes:
            process.is_asked_to_stop = True
        for _ in range(PATIENCE):
            world.scheduler.pause(PAUSE_S)
            if world.is_settled() and all(process.without == without for process in world.processes):
                break
