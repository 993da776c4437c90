"""Read the topics in a thread, and keep the newest documents for any number of browsers."""

import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from stream_app.backends.base import Clock
from stream_app.backends.following import FollowableCluster
from stream_app.config import Config
from stream_app.dashboard import documents
from stream_app.dashboard.model import DashboardModel
from stream_app.errors import ArebaError
from stream_app.log_lines import VIEW_COMPLETE, VIEW_INCOMPLETE
from stream_app.monitor.colours import LearnerColours
from stream_app.monitor.drift import DriftReader
from stream_app.monitor.lanes import Lanes
from stream_app.monitor.watcher import TAILS, Watcher

logger = logging.getLogger("areba.dashboard")

_HISTORY: Mapping[str, int] = {
    **TAILS,
    "predictions": 5_000,
    "outcomes": 5_000,
    "metrics": 50_000,
    "dead_letters": 20_000,
}
"""Records at the end of each partition that are read first: for the metrics, a second or two of work."""

_UPDATE_S = 1.0

NUMBER = re.compile(r" \d[\d,]*\b")
"""A number in a problem; names of topics begin a line, so that digits in them are not meant."""


@dataclass(frozen=True, slots=True)
class Published:
    """The documents of one moment.

    Attributes:
        number: How many moments were published before.
        overview: Of all streams.
        details: By stream, for the streams that are being viewed.
    """

    number: int = 0
    overview: str = "{}"
    details: Mapping[str, str] = field(default_factory=dict)


class Feed:
    """Follows an application, and publishes documents about it.

    One thread calls `step` or `run`; all other methods may be called by other threads. `drifts` are known drifts of
    each stream, as the number of its examples before the drift. Lanes of streams are shown if `lanes` says so.

    Raises:
        TopicError: A topic does not exist, or the broker refuses to let us read it.
        UnknownOutcomeError: The broker did not answer in time.
    """

    def __init__(
        self,
        cluster: FollowableCluster,
        config: Config,
        clock: Clock,
        drifts: Mapping[str, Sequence[int]] = MappingProxyType({}),
        *,
        lanes: bool = False,
    ) -> None:
        self._shows_lanes = lanes
        self._application = config.application.id
        self._clock = clock
        reader = DriftReader(config.task_settings().streams)
        self._model = DashboardModel(config.record_streams, drifts, reader, Lanes.of(config))
        self._watcher = Watcher(cluster, config, clock, model=self._model, tails=_HISTORY)
        self._colours = LearnerColours({name: learner.method for name, learner in config.learners.items()})
        self._lock = threading.Lock()
        self._viewed: Counter[str] = Counter()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._problems: frozenset[str] = frozenset()
        self.published = Published()
        self._publish_reading(0.0)

    def catch_up(self) -> None:
        """Read the history, and publish how much was read until it is complete."""
        self._watcher.catch_up(self._publish_reading)
        self._publish()

    def step(self) -> None:
        """Read what has arrived, and publish."""
        self._watcher.update()
        self._publish()

    def run(self) -> None:
        """Read the history, and continue until `end` is called."""
        try:
            self.catch_up()
            while not self._ended.is_set():
                self._wake.wait(_UPDATE_S)
                self._wake.clear()
                try:
                    self.step()
                except ArebaError as error:  # the page shows its age; the next step may succeed
                    VIEW_INCOMPLETE.log(logger, problem="; ".join(error.lines))
        finally:
            self._watcher.close()

    def end(self) -> None:
        """Let `run` return."""
        self._ended.set()
        self._wake.set()

    @contextmanager
    def viewing(self, stream: str | None) -> Iterator[None]:
        """Have the details of a stream published as long as the context is open."""
        if stream is None:
            yield
            return
        with self._lock:
            self._viewed[stream] += 1
        self._wake.set()
        try:
            yield
        finally:
            with self._lock:
                self._viewed[stream] -= 1
                if not self._viewed[stream]:
                    del self._viewed[stream]

    def _publish_reading(self, share: float) -> None:
        self.published = Published(self.published.number + 1, documents.reading(self._application, share))

    def _publish(self) -> None:
        wall_ms = self._clock.now_ms()
        every = self._watcher.figures()
        self._model.sample(every.streams, wall_ms)
        figures = every.only((), lanes=self._shows_lanes)
        with self._lock:
            viewed = set(self._viewed)
        details = {
            stream.stream: documents.details(self._model, stream, self._colours)
            for stream in figures.streams
            if stream.stream in viewed
        }
        overview = documents.overview(self._application, self._model, figures, wall_ms)
        self.published = Published(self.published.number + 1, overview, details)
        self._log_problems(figures.problems)

    def _log_problems(self, problems: Sequence[str]) -> None:
        """Log a problem when it begins, not again because a duration or a count in it has grown."""
        kinds = {NUMBER.sub("", problem): problem for problem in problems}
        for kind, problem in kinds.items():
            if kind not in self._problems:
                VIEW_INCOMPLETE.log(logger, problem=problem)
        if self._problems and not kinds:
            VIEW_COMPLETE.log(logger)
        self._problems = frozenset(kinds)
