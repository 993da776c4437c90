"""Downtime of a task whose worker is killed, with every timeout at its default."""

import random
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ops.local_kafka import cluster as local_kafka
from stream_app.cli.warm_up import warm_up
from tests.chaos.commits import Watch
from tests.chaos.members import ChaosError, Member, state_of
from tests.chaos.plan import BROKERS
from tests.chaos.trial import CALM_DEADLINE_S, Replay, ended
from tests.support.kafka.application import App
from tests.support.kafka.processes import spawn
from tests.support.kafka.records import StreamOf

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 30), StreamOf("gamma", 2, 5))

PAUSE_S = 0.02


class Times(NamedTuple):
    """Milliseconds from SIGKILL until every task of the worker has committed again.

    Attributes:
        same_ms: For the only worker of a group, which is restarted immediately.
        other_ms: For a worker whose tasks the others of its group take over; it is started again afterwards.
    """

    same_ms: list[int]
    other_ms: list[int]


def measure(folder: Path, restarts: int) -> Times:
    """Measure two applications on three brokers, one after the other; workers of each are killed this many times.

    Raises:
        ChaosError: A task did not continue.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with local_kafka.start(BROKERS, folder / "kafka") as kafka:
        found = [
            _measured(
                App(kafka.bootstrap_servers, name, folder, _sections(), len(STREAMS), replication=BROKERS),
                instances,
                restarts,
            )
            for name, instances in (("same-", ["solo"]), ("other-", ["ada", "bob", "cyd"]))
        ]
    shutil.rmtree(folder)
    return Times(*found)


def _measured(app: App, instances: Sequence[str], restarts: int) -> list[int]:
    """Return the downtimes of an application that is alone on the brokers."""
    halt = threading.Event()
    with ExitStack() as stack:
        app.create_topics()
        warm_up(app.config.task_settings())
        watch = stack.enter_context(Watch(app))
        members = [Member(app, instance, halt, spawn) for instance in instances]
        stack.enter_context(ended(members))
        for member in members:
            member.start()
        stack.enter_context(Replay(app, STREAMS, seed=1))
        return _strike(members, watch, restarts, halt)


def _sections() -> dict[str, dict[str, object]]:
    return {
        "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
        "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100},
        "kafka": {"consumer": {}},
    }


def _strike(members: Sequence[Member], watch: Watch, restarts: int, halt: threading.Event) -> list[int]:
    """Kill one worker after the other; restart a lone worker immediately, others once they have been replaced."""
    draw = random.Random(len(members))
    found = []
    try:
        for number in range(restarts):
            victim = members[number % len(members)]
            while not (tasks := _tasks_of(victim)):
                victim.wait_for(partial(_tasks_of, victim), CALM_DEADLINE_S, "tasks")
                halt.wait(draw.uniform(0.2, 1.2))  # the worker may lose its tasks in the meantime
            killed_s = time.time()
            victim.kill()
            if len(members) == 1:
                victim.start()
            found.append(_first_ms(watch, tasks, killed_s) - int(killed_s * 1000))
            if len(members) > 1:
                victim.start()
    except BaseException:
        halt.set()
        raise
    return found


def _tasks_of(member: Member) -> frozenset[int]:
    """Return the tasks that the worker processes; none before all are restored."""
    state = state_of(member.log)
    return state.tasks if state.stage == "live" else frozenset()


def _first_ms(watch: Watch, tasks: frozenset[int], time_s: float) -> int:
    deadline = time.monotonic() + CALM_DEADLINE_S
    while (found := watch.first_after_ms(tasks, time_s)) is None:
        if time.monotonic() > deadline:
            raise ChaosError(f"tasks {sorted(tasks)} made no commit within {CALM_DEADLINE_S:g} s of a kill")
        time.sleep(PAUSE_S)
    return found
