"""Drift without labels, as the newest metric of a stream's champion has it, with the names of columns."""

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.config import StreamSettings
from stream_app.config.column_settings import column_of
from stream_app.records import Metric


@dataclass(frozen=True, slots=True)
class DriftSummary:
    """The figures of the last window of a stream.

    Attributes:
        feature: The feature that is farthest from its reference: the name of its column, or `feature 3`.
        feature_psi: Its population stability index.
        score_psi: That of the champion's scores; None while they have no reference.
        features_drifted: How many features are above the threshold.
        is_score_drifted: Whether the scores are.
    """

    feature: str
    feature_psi: float
    score_psi: float | None
    features_drifted: int
    is_score_drifted: bool

    @property
    def text(self) -> str | None:
        """The feature and the scores that have drifted, such as `amount 0.42, score 0.31`; None: nothing has."""
        parts = [f"{self.feature} {self.feature_psi:.2f}"] if self.features_drifted else []
        if self.features_drifted > 1:
            parts[0] += f" (largest of {self.features_drifted:,} features)"
        if self.is_score_drifted:
            parts.append(f"score {self.score_psi:.2f}")
        return ", ".join(parts) or None


@dataclass(frozen=True, slots=True)
class DriftReader:
    """Reads drift from metrics.

    Attributes:
        streams: The configured streams.
    """

    streams: Mapping[str, StreamSettings]

    def column(self, metric: Metric) -> str | None:
        """Return the column of the farthest feature; None: it is not known, or the stream has no columns."""
        settings = self.streams.get(metric.stream)
        number = metric.largest_feature
        if settings is None or number is None or not 0 <= number < sum(one.width for one in settings.columns.values()):
            return None  # the columns may have changed since
        return column_of(settings.columns, number)

    def read(self, metric: Metric) -> DriftSummary | None:
        """Return the drift that a metric has; None: its stream does not look for drift, or no window was compared."""
        if metric.largest_feature_psi is None or metric.features_drifted is None:
            return None
        settings = self.streams.get(metric.stream)
        drift = None if settings is None else settings.drift
        score = metric.score_psi
        return DriftSummary(
            feature=self.column(metric) or f"feature {metric.largest_feature}",
            feature_psi=metric.largest_feature_psi,
            score_psi=score,
            features_drifted=metric.features_drifted,
            is_score_drifted=drift is not None and score is not None and score > drift.threshold,
        )
