"""Pass the events of a worker to those who report them: the log, the figures of `/metrics`, and the health."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from stream_app.backends.base import Clock
from stream_app.worker.reports.counting import Counting
from stream_app.worker.reports.events import Event, Handler, StepBegan, StepEnded
from stream_app.worker.reports.figures import Figures
from stream_app.worker.reports.health import Health, HealthWatch
from stream_app.worker.reports.log import EventLog

STEP_LIMIT_S = 60.0
"""Longest step of a worker that counts as alive: a batch takes 0.2 s, a restore slice one second."""

_Kind = TypeVar("_Kind", bound=Event)


_STEP_ENDED = StepEnded()


class _Step(AbstractContextManager[None]):
    """Emits an event before and after a piece of work. A round has several, so it is no generator, which is slower."""

    __slots__ = ("_began", "_emit")

    def __init__(self, emit: Callable[[Event], None], began: StepBegan) -> None:
        self._emit = emit
        self._began = began

    def __enter__(self) -> None:
        self._emit(self._began)

    def __exit__(self, *_: object) -> None:
        self._emit(_STEP_ENDED)


class Observer:
    """Receives each event of a worker, and passes it to all subscribers, in the thread of the worker.

    Args:
        clock: Measures time for all subscribers.
        logger: Receives the lines; by default `areba.worker`.
        publishes: Whether the figures can be read; if not, the worker does not sample any.

    Attributes:
        figures: What `/metrics` publishes.
        publishes: As above.
    """

    def __init__(self, clock: Clock, logger: logging.Logger | None = None, *, publishes: bool = False) -> None:
        self.publishes = publishes
        self.figures = Figures()
        self._health = HealthWatch(clock)
        self._handlers: dict[type[Event], list[Handler]] = {}
        for subscriber in (EventLog(clock, logger), Counting(self.figures, clock), self._health):
            for kind, handler in subscriber.handlers.items():
                self._handlers.setdefault(kind, []).append(handler)

    def subscribe(self, kind: type[_Kind], handler: Callable[[_Kind], object]) -> None:
        """Call a function at each event of a kind, after the log, the figures and the health."""
        self._handlers.setdefault(kind, []).append(handler)

    def emit(self, event: Event) -> None:
        """Pass an event to its subscribers."""
        for handler in self._handlers.get(type(event), ()):
            handler(event)

    def step(self, what: str, limit_s: float = STEP_LIMIT_S) -> AbstractContextManager[None]:
        """Enclose a piece of work that does not wait for a broker, such as a batch or a restore slice."""
        return _Step(self.emit, StepBegan(what, limit_s))

    def health(self) -> Health:
        """Return what the worker is at; any thread may ask."""
        return self._health.now()
