"""A worker warns once of a stream whose records the broker deletes soon, because their event times are old."""

import logging
from collections.abc import Callable

import pytest

from stream_app.records import Example
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker.reports import metrics
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from stream_app.worker.worker import Worker
from tests.support.world import World, started

DAY_S = 86_400


class _Running:
    """A worker, and inputs that are kept for ten days."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, logger="areba.worker")
        self._log = caplog
        self.world = World()
        for name in self.world.config.topics[:2]:
            self.world.broker.alter_topic(name, {"retention.ms": str(10 * DAY_S * 1_000)})
        self.member = self.start()
        self.sent = 0

    def start(self) -> Worker:
        member = started(self.world.worker())
        self._turn(member, lambda: all(task.state is TaskState.LIVE for task in member.tasks) and bool(member.tasks))
        self._turn(member, lambda: member._retention_watch.kept_ms() > 0)
        return member

    def _turn(self, member: Worker, until: Callable[[], bool]) -> None:
        for _ in range(200):
            if until():
                return
            self.world.clock.advance(0.5)
            member.turn()
        raise AssertionError("it never came to that")

    def send(self, age_s: float, time_ms: int | None = None) -> None:
        """Send three examples of this age to task 0, and let the worker process and look."""
        time_ms = self.world.clock.now_ms() - int(1_000 * age_s) if time_ms is None else time_ms
        for number in range(3):
            value = codec.encode(Example("s0", f"{self.sent}-{number}", [1.0]))
            self.world.put("examples", 0, b"s0", value, time_ms + number)
        self.sent += 3
        self._turn(self.member, lambda: self.member.tasks[0].offsets[0] == self.sent)
        self.wait(WARNING_INTERVAL_S + 5)

    def wait(self, seconds: float) -> None:
        """Let time pass without new records."""
        for _ in range(int(2 * seconds)):
            self.world.clock.advance(0.5)
            self.member.turn()

    def warnings(self) -> list[str]:
        """Return the lines so far, and begin again."""
        lines = [
            record.getMessage() for record in self._log.records if getattr(record, "event", "") == "old-event-times"
        ]
        self._log.clear()
        return lines

    @property
    def figure(self) -> float:
        return self.member._observer.figures.values()[metrics.OLD_STREAMS].get(("0",), 0.0)


def test_records_of_today_are_not_old(caplog: pytest.LogCaptureFixture) -> None:
    """Neither after a month in which nothing came."""
    running = _Running(caplog)
    running.send(DAY_S)
    running.world.clock.advance(30 * DAY_S)
    running.send(0)
    assert (running.warnings(), running.figure) == ([], 0)


def test_old_times_are_named_once_until_they_are_newer(caplog: pytest.LogCaptureFixture) -> None:
    """50,000 examples of September were learned while the broker deleted them, and the worker had no line."""
    running = _Running(caplog)
    running.send(60 * DAY_S)
    (line,) = running.warnings()
    assert "'s0': " in line
    assert running.figure == 1
    running.send(59 * DAY_S)
    assert running.warnings() == []
    running.send(DAY_S)
    assert (running.warnings(), running.figure) == ([], 0)


def test_seconds_in_place_of_milliseconds_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Inputs without a limit accept them, and the join would close each pair at once."""
    running = _Running(caplog)
    for name in running.world.config.topics[:2]:
        running.world.broker.alter_topic(name, {"retention.ms": "-1"})
    running.wait(15)
    running.send(0, time_ms=running.world.clock.now_ms() // 1_000)
    (line,) = running.warnings()
    assert "looks like seconds" in line


def test_a_quiet_stream_is_not_old(caplog: pytest.LogCaptureFixture) -> None:
    """Its last records have long been processed: that they expire is what retention is for."""
    running = _Running(caplog)
    running.send(DAY_S)
    running.world.clock.advance(40 * DAY_S)
    running.wait(WARNING_INTERVAL_S)
    assert running.warnings() == []
    running.member = running.start()
    running.wait(WARNING_INTERVAL_S)
    assert running.warnings() == []
