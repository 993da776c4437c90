"""What an event is: a frozen dataclass with a line of the log."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

from stream_app.log_lines import LogLine

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


class Event:
    """Something that happened in a worker. A line without a name is not written."""

    __slots__ = ()
    line: ClassVar[LogLine]


_Kind = TypeVar("_Kind", bound=Event)

Handler: TypeAlias = Callable[[Any], object]

Handlers: TypeAlias = Mapping[type[Event], Handler]
"""What a subscriber does with each kind of event. Its rows are made by `on`."""


def on(kind: type[_Kind], handler: Callable[[_Kind], object]) -> tuple[type[Event], Handler]:
    """Return a row of `Handlers`, for which a type checker knows that the handler takes this kind of event."""
    return kind, handler


@dataclass_transform(frozen_default=True)
def event(
    name: str = "", level: int = INFO, text: str = "", *, has_traceback: bool = False
) -> Callable[[type[_Kind]], type[_Kind]]:
    """Make a class a frozen dataclass with a line of the log."""

    def declared_as(kind: type[_Kind]) -> type[_Kind]:
        kind.line = LogLine(name, level, text, " ".join((kind.__doc__ or "").split()), has_traceback)
        return dataclass(frozen=True, slots=True)(kind)

    return declared_as


@event()
class TaskEvent(Event):
    """Something that happened to a task."""

    task: int
