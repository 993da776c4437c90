"""The JSON documents that the page shows."""

import json
import math
from dataclasses import asdict
from typing import Any

from stream_app.dashboard.model import (
    LEARNER_COLUMNS,
    STALLED_S,
    STREAM_COLUMNS,
    WORK_COLUMNS,
    DashboardModel,
)
from stream_app.dashboard.series import Series, gaps
from stream_app.monitor.colours import LearnerColours
from stream_app.monitor.figures import LiveFigures, StreamFigures


def reading(application: str, share: float) -> str:
    """Return what the page shows until the history is read; `share` is the part that was read, from 0 to 1."""
    return _json({"application": application, "reading": share})


def overview(application: str, model: DashboardModel, figures: LiveFigures, wall_ms: int) -> str:
    """Return what the page shows of all streams."""
    return _json(
        {
            "application": application,
            "time_ms": wall_ms,
            "stalled_s": STALLED_S,
            "notes": figures.notes(),
            "streams": [_row(model, stream) for stream in figures.streams],
        }
    )


def _row(model: DashboardModel, figures: StreamFigures) -> dict[str, Any]:
    champion = figures.learners[0] if figures.learners else None
    return {
        "name": figures.stream,
        "task": figures.task,
        "state": model.state(figures.stream),
        "champion": None if champion is None else champion.learner,
        "gmean": None if champion is None else champion.main_window.gmean,
        "labelled_per_s": figures.labelled_per_s,
        "lag_ms": figures.lag_ms,
        "dead_letters": figures.dead_letters,
        "dead_letters_are_all": figures.dead_letters_are_all,
    }


def details(model: DashboardModel, figures: StreamFigures, colours: LearnerColours) -> str:
    """Return what the page shows of one stream."""
    history = model.history(figures.stream)
    return _json(
        {
            **_row(model, figures),
            "pending": figures.pending,
            "learners": [
                {
                    "metric": asdict(learner),
                    "time_ms": learner.event_time_ms,
                    "colour": colours.of(learner.learner),
                    "curve": _curve(LEARNER_COLUMNS, history.learners.get(learner.learner)),
                }
                for learner in figures.learners
            ],
            "course": _curve(STREAM_COLUMNS, history.course),
            "work": _curve(WORK_COLUMNS, history.work),
            "decisions": {
                "alerts": [one._asdict() for one in history.decisions.alerts()],
                "missed": [one._asdict() for one in history.decisions.missed()],
                "reliability": [group._asdict() for group in history.decisions.reliability()],
            },
            "marks": [mark._asdict() for mark in history.marks],
            "found_drifts": [
                entry._asdict() for kind in (history.feature_drifts, history.score_drifts) for entry in kind.entries
            ],
            "drifts": [drift._asdict() for drift in history.drifts],
            "reasons": dict(history.reasons.most_common()),
            "is_cut": history.is_cut,
        }
    )


def _curve(names: tuple[str, ...], series: Series | None) -> dict[str, list[float | None] | list[int]]:
    columns = series.columns() if series is not None else [[] for _ in names]
    return {**dict(zip(names, columns, strict=True)), "gaps": gaps(columns[0])}


def _json(document: dict[str, Any]) -> str:
    """Encode a document; JSON has no NaN and no infinity, which other programs may write into a metric."""
    return json.dumps(_finite(document), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:  # noqa: ANN401  (JSON)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
