"""Which streams lack labels or room in their tables, and the lines of the log about it: one for many streams."""

import logging

from stream_app import events
from stream_app.pipeline.watched.table_use import Crowding

NAMED_STREAMS = 5
"""Streams that one line names."""

INTERVAL_S = 60.0
"""Seconds between two warnings of one kind."""


class StreamWarnings:
    """Collects the streams whose problem is new, and warns of them at most once in `INTERVAL_S`.

    Args:
        event: The kind of line; its field `streams` has the names and the problems.
        logger: Writes the lines.
    """

    def __init__(self, event: events.Event, logger: logging.Logger) -> None:
        self._event = event
        self._logger = logger
        self._new: dict[str, str] = {}  # no warning logged yet
        self._warned_s = -INTERVAL_S

    def add(self, stream: str, problem: str) -> None:
        """Warn of a stream with the next line."""
        self._new[stream] = problem

    def discard(self, stream: str) -> bool:
        """Warn of a stream no more; say whether no line has named it yet."""
        return self._new.pop(stream, None) is not None

    def warn(self, now_s: float) -> None:
        """Log the new streams, unless the last line was a moment ago."""
        if not self._new or now_s - self._warned_s < INTERVAL_S:
            return
        named = "; ".join(f"{stream!r}: {why}" for stream, why in [*self._new.items()][:NAMED_STREAMS])
        more = len(self._new) - NAMED_STREAMS
        streams = f"{named}; and of {more} more streams" if more > 0 else named
        events.log(self._event, self._logger, streams=streams)
        self._new.clear()
        self._warned_s = now_s


class MissingLabels:
    """Remembers the streams without labels by task.

    Args:
        logger: Writes the lines.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._missing: dict[int, dict[str, int]] = {}  # by task: the streams, and how many labels they had had
        self._warnings = StreamWarnings(events.LABELS_MISSING, logger)

    def look(self, task: int, stream: str, problem: str | None, labelled: int) -> bool:
        """Take what a look at a stream has found; say whether its labels are missing. See `Observer.labels`."""
        missing = self._missing.setdefault(task, {})
        joins = missing.get(stream)
        if problem is not None and joins is None:
            self._warnings.add(stream, problem)
            missing[stream] = labelled
        elif problem is None and joins is not None and labelled != joins:
            del missing[stream]
            if not self._warnings.discard(stream) and labelled > joins:
                events.log(events.LABELS_RETURNED, self._logger, task=task, stream=stream)
        return stream in missing

    def streams(self, task: int) -> int:
        """Return how many streams of a task lack labels."""
        return len(self._missing.get(task, ()))

    def forget(self, task: int) -> None:
        """Forget the streams of a task."""
        for stream in self._missing.pop(task, {}):
            self._warnings.discard(stream)

    def warn(self, now_s: float) -> None:
        """Warn of the streams that are new, unless the last warning was a moment ago."""
        self._warnings.warn(now_s)


class CrowdedStreams:
    """Remembers the crowded streams by task; see `pipeline.watched.table_use`.

    Args:
        logger: Writes the lines.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._crowded: dict[int, dict[str, Crowding]] = {}
        self._warnings = StreamWarnings(events.TABLE_NEAR_BOUND, logger)

    def look(self, task: int, stream: str, crowding: Crowding | None) -> None:
        """Take what a look at a stream has found."""
        known = self._crowded.setdefault(task, {})
        if crowding is None:
            known.pop(stream, None)
            self._warnings.discard(stream)
            return
        if stream not in known:
            self._warnings.add(stream, crowding.text)
        known[stream] = crowding

    def streams(self, task: int) -> int:
        """Return how many streams of a task certainly lose something."""
        return sum(crowding.is_certain for crowding in self._crowded.get(task, {}).values())

    def forget(self, task: int) -> None:
        """Forget the streams of a task."""
        for stream in self._crowded.pop(task, {}):
            self._warnings.discard(stream)

    def warn(self, now_s: float) -> None:
        """Warn of the streams that are new, unless the last warning was a moment ago."""
        self._warnings.warn(now_s)
