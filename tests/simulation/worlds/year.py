"""An ordinary year: quiet weeks, records that come an hour apart, and what the brokers delete and forget meanwhile.

Nothing happens in a quiet week, so the clock is moved instead of simulating a million polls. Before that the workers
have a minute in which nobody sends anything, as in a week: what they have not saved then is lost when they are killed.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stream_app.backends.base import TopicPartition
from stream_app.task_state import TaskState
from stream_app.worker.reports.log import RETENTION_WARNING_SHARE
from stream_app.worker.reports.metrics import RETENTION_USED
from tests.simulation.faults import COSTLY, DISASTERS, Event, Fault
from tests.simulation.worlds.upkeep import look_after
from tests.support.rows import Sent

if TYPE_CHECKING:
    from tests.simulation.worlds.world import World

DAY_S = 86_400.0

IDLE_S = 65.0
"""More than the least time between two snapshots of an idle task."""

SAVE_S = 40.0
"""Time in which an undisturbed worker notices that a task is idle and has written its snapshot."""

SETTLE_S = 0.5

PATIENCE = 120
"""Looks, `SETTLE_S` apart, until everything is processed; without an end the pause does not take place."""

LONGEST = 2
"""Quiet times of one seed: each costs as much as the rest of a seed."""

SLOW_RETENTION_S = 6_000.0
"""Retention of the inputs while records come slowly: longer than all stalls of a seed, and the time to save a task."""

SLOW_STEP_S = 600.0
"""Time between two of these records."""

SLOW_STEPS = 16
"""Records that come slowly: in all, more time than their retention."""

LOOK_S = 12.0
"""The worker asks the brokers every ten seconds what they keep."""


class Year:
    """The quiet times of a world, and the shift of event times that they cause.

    Args:
        world: The world.

    Attributes:
        shift_ms: How much later the records are that have not been sent yet.
        is_quiet: Whether a quiet time is running: operators are on holiday, too.
    """

    def __init__(self, world: "World") -> None:
        self.shift_ms = 0
        self.is_quiet = False
        self._world = world
        self._times = 0

    def shifted(self, sent: Sent) -> Sent:
        """Return a record as it is sent now; without an event time of its own, or of another year, it is as it was."""
        return sent._replace(time_ms=sent.time_ms + self.shift_ms) if sent.time_ms > 0 else sent

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which members poll and nothing else happens; then the brokers delete what is too old."""
        world = self._world
        world.broker.pass_time(seconds, world.config("w1").group_id)
        self.shift_ms += int(seconds * 1000)
        world.broker.retain()

    # Quiet weeks ----------------------------------------------------------------------------------------------------

    def pass_weeks(self) -> None:
        """Let up to six weeks pass after everything was processed, with workers or without."""
        world = self._world
        if self._times >= LONGEST or not self._begins():
            return
        self._times += 1
        draw = world.draw
        try:
            if not self._is_saved():
                return
            end = draw.choice((self._stay, self._kill, self._stop))
            end()
            for _ in range(draw.choice((1, 1, 2))):
                days = draw.choice((0.1, 1.0, 3.0, 8.0, 10.0, 20.0, 40.0))
                world.say(f"{days:g} days pass ({end.__name__})")
                self.pass_time(days * DAY_S)
                world.faults.events[Event.QUIET_DAYS] += 1
                self._forget(days)
                if not world.is_closed:
                    world.scheduler.pause(2.0 * draw.random())
        finally:
            world.is_closed = self.is_quiet = False
        look_after(world)

    def _begins(self) -> bool:
        """Wait until everything is processed and no operator is at work; say whether that was so in time."""
        world = self._world
        for _ in range(PATIENCE):
            if not (world.is_closed or world.is_busy) and world.is_settled():
                self.is_quiet = True
                return True
            world.scheduler.pause(SETTLE_S)
        return False

    def _is_saved_enough(self) -> bool:
        """Wait until no record that a restore needs has used half of its retention; say whether that came about."""
        world = self._world
        before, known = self._disturbances(), self._live()
        world.scheduler.pause(LOOK_S)  # for a question to the brokers, and a snapshot
        until_s = world.scheduler.now_s + SAVE_S
        while world.is_settled() and (used := self._used()) >= RETENTION_WARNING_SHARE:
            if world.scheduler.now_s > until_s:
                if self._disturbances() == before and self._live() == known:
                    world.wrong.append(f"nothing is saved although {used:.0%} of the retention is used")
                return False
            world.scheduler.pause(SETTLE_S)
        return world.is_settled()

    def _used(self) -> float:
        """Return the largest share of a retention that a needed record has used, as `/metrics` says it."""
        all_values = [one.observer.figures.values() for one in self._world.processes if one.observer is not None]
        return max((used for values in all_values for used in values.get(RETENTION_USED, {}).values()), default=0.0)

    def _is_saved(self) -> bool:
        """Let a minute pass, and say whether every task is saved; undisturbed workers have to save them."""
        world = self._world
        config = world.config("w1")
        idle_s = IDLE_S + config.worker.snapshot_when_idle_ms / 1000
        world.broker.pass_time(idle_s, config.group_id)
        self.shift_ms += int(idle_s * 1000)
        before, known = self._disturbances(), self._live()
        until_s = world.scheduler.now_s + SAVE_S
        while world.scheduler.now_s < until_s:
            world.scheduler.pause(SETTLE_S)
            if world.is_settled() and not self._unsaved():
                world.faults.events[Event.SAVED_IN_TIME] += 1
                return True
        if self._disturbances() == before and self._live() == known and world.is_settled():
            world.wrong.append(f"tasks {self._unsaved()} saved nothing in {SAVE_S:g} quiet seconds")
        return False

    def _disturbances(self) -> int:
        hits = self._world.faults.hits
        return sum(hits[fault] for fault in (*COSTLY, *DISASTERS, Fault.EMPTY_POLL, Fault.LATE_RECORDS))

    def _live(self) -> Sequence[int]:
        return [id(task) for process in self._world.processes for task in process.tasks]

    def _unsaved(self) -> list[int]:
        tasks = [task for process in self._world.processes for task in process.tasks if task.state is TaskState.LIVE]
        return [
            task.number
            for task in tasks
            if task.live.snapshots.is_busy or task.live.unnamed_ends or task.live.snapshots.is_due(ending=True)
        ]

    def _stay(self) -> None:
        """Let the workers poll all the time."""

    def _kill(self) -> None:
        """Kill all workers, and start none."""
        world = self._world
        world.is_closed = True
        while world.processes:
            for process in list(world.processes):
                process.kill()
            world.scheduler.pause(SETTLE_S)
        world.settle_transactions()

    def _stop(self) -> None:
        """Stop all workers."""
        self._world.stop_all()

    def _forget(self, days: float) -> None:
        """Let the brokers forget what they keep for seven days, and compact the changelog."""
        world, draw = self._world, self._world.draw
        if days > 7.0:
            world.broker.forget_ids()
            if world.is_closed:
                world.say("the group's offsets have expired")
                world.broker.groups.group(world.config("w1").group_id).offsets.clear()
                world.faults.events[Event.OFFSETS_EXPIRED] += 1
        if draw.random() < 0.5:
            topic = world.config("w1").topics.changelog
            for number in range(world.shape.partitions):
                world.broker.compact(TopicPartition(topic, number))

    # Slow records ---------------------------------------------------------------------------------------------------

    def send_slowly(self, records: Sequence[Sent], send: Callable[[Sequence[Sent]], None]) -> int:
        """Send records minutes apart, while the inputs are kept for less time than they take; return how many."""
        world = self._world
        topics = world.config("w1").topics
        before = {name: world.broker.topic(name).settings["retention.ms"] for name in topics[:2]}
        count = 0
        try:
            for sent in records[:SLOW_STEPS]:
                if not self._begins():
                    break
                for name in before:
                    world.broker.alter_topic(name, {"retention.ms": str(int(1000 * SLOW_RETENTION_S))})
                if not self._is_saved_enough():
                    break
                self.pass_time(SLOW_STEP_S)
                send([sent])
                count += 1
                self.is_quiet = False
                world.faults.events[Event.SLOW_RECORDS] += 1
        finally:
            self.is_quiet = False
            for name, kept_ms in before.items():
                world.broker.alter_topic(name, {"retention.ms": kept_ms})
        return count
