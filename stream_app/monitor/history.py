"""A learner's G-mean along its stream, in bounded memory."""

from dataclasses import dataclass, field

from stream_app.records import Metric


@dataclass(slots=True)
class Curve:
    """G-mean by number of examples; every second point is dropped whenever there are too many.

    Attributes:
        max_points: Most points that are kept.
        positions: Numbers of examples, ascending.
        gmeans: G-mean at each position; None until both classes were seen.
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
            self.gmeans.append(metric.gmean)
            if len(self.positions) > self.max_points:
                del self.positions[1::2], self.gmeans[1::2]
                self._every *= 2
        self._seen += 1
