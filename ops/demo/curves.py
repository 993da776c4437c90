"""The curves of the demo's figure: each learner's G-mean along its stream, in bounded memory."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from stream_app.monitor.model import LiveModel
from stream_app.records import Metric


@dataclass(slots=True)
class Curve:
    """G-mean by number of examples; every second point is dropped whenever there are too many.

    Attributes:
        max_points: Most points that are kept.
        positions: Numbers of examples, ascending.
        gmeans: G-mean of the main window at each position; None until both classes were seen.
    """

    max_points: int
    positions: list[int] = field(default_factory=list)
    gmeans: list[float | None] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, metric: Metric) -> None:
        """Add the next metric of the learner."""
        if self._seen % self._every == 0:
            self.positions.append(metric.examples)
            self.gmeans.append(metric.main_window.gmean)
            if len(self.positions) > self.max_points:
                del self.positions[1::2], self.gmeans[1::2]
                self._every *= 2
        self._seen += 1


class CurveModel(LiveModel):
    """The figures of an application, and the curve of each learner.

    Args:
        streams: Names of the streams that are known already.
        max_points: How many points are kept of each curve.
    """

    def __init__(self, streams: Iterable[str], max_points: int) -> None:
        super().__init__(streams)
        self._max_points = max_points
        self._curves: dict[tuple[str, str], Curve] = {}

    def add_metric(self, metric: Metric, task: int) -> None:
        """Add a metric to the figures and to the curve of its learner."""
        super().add_metric(metric, task)
        self.curve(metric.stream, metric.learner).add(metric)

    def curve(self, stream: str, learner: str) -> Curve:
        """Return the curve of a learner; it is empty if there was no metric."""
        return self._curves.setdefault((stream, learner), Curve(self._max_points))
