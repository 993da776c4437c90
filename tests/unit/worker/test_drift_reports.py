"""Drift without labels has lines in the log and gauges: begun, ended, and at most a line of each kind a minute."""

from collections.abc import Sequence
from typing import Any

import pytest

from stream_app.config.column_settings import column_of
from stream_app.records import Example, Metric
from stream_app.serialization import codec
from stream_app.worker.reports import metrics
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.world import World, make_config, reaches, started, take_turns

WINDOW = 40
COLUMNS = {"hour": {"cyclic": 24}, "amount": "number"}
GAUGES = {
    metrics.SCORE_PSI: "score_psi",
    metrics.LARGEST_FEATURE_PSI: "largest_feature_psi",
    metrics.FEATURES_DRIFTED: "features_drifted",
}


class _Feed:
    """A stream with columns and without any label, and the worker that predicts it."""

    def __init__(self) -> None:
        drift = {"reference_examples": WINDOW, "window_examples": WINDOW, "threshold": 1.5}
        self.world = World(make_config(streams={"s0": {"columns": COLUMNS, "drift": drift}}))
        self.observer = Observer(self.world.clock, publishes=True)
        self.member = self.started()
        self._sent = 0

    def started(self) -> Worker:
        """Return a worker that has the tasks."""
        return started(self.world.worker(observer=self.observer))

    def window(self, shift: float = 0.0, *, wait_s: float = 0.0) -> None:
        """Send a window of examples whose amounts are larger by `shift`, and process it."""
        for number in range(self._sent, self._sent + WINDOW):
            values = {"hour": float(number % 24), "amount": number % WINDOW + shift}
            self.world.put("examples", 0, b"s0", codec.encode(Example("s0", str(number), values=values)), number + 1)
        self._sent += WINDOW
        take_turns(self.member, until=lambda: reaches(self.member, (self._sent, 0)))
        self.look()
        self.world.clock.advance(wait_s)
        self.look()

    def look(self) -> None:
        """Let the worker look at all streams."""
        for _ in range(3):
            self.world.clock.advance(1.0)
            self.member.turn()

    @property
    def newest(self) -> Metric:
        """The newest metric."""
        found = codec.decode_one(self.world.rows("metrics", 0)[-1][1])
        assert isinstance(found, Metric)
        return found


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any]]:
    found = [record.__dict__ for record in caplog.records]
    return [(one["event"], one["fields"]["streams"]) for one in found if one.get("event", "").startswith("drift-")]


def test_a_drift_has_a_line_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """The line names the column: a number says nothing to the people who own the feed."""
    caplog.set_level("INFO", "areba")
    feed = _Feed()
    feed.window()
    feed.window(wait_s=WARNING_INTERVAL_S)
    assert _lines(caplog) == []
    feed.window(100.0, wait_s=WARNING_INTERVAL_S)
    feed.window(100.0, wait_s=WARNING_INTERVAL_S)
    [(event, text)] = _lines(caplog)
    assert event == "drift-began"
    assert text.startswith(f"'s0': PSI of column 'amount' {feed.newest.largest_feature_psi:.2f}")
    assert text.endswith("features drifted: 1")
    feed.window(wait_s=WARNING_INTERVAL_S)
    assert [event for event, _ in _lines(caplog)] == ["drift-began", "drift-ended"]
    assert _lines(caplog)[1][1].endswith("features drifted: 0")


@pytest.mark.parametrize(
    ("waits_s", "events"),
    [
        ((0, 0, 0, 0, WARNING_INTERVAL_S), ["drift-began", "drift-ended"]),
        ((0, 30, 0, 30, 0, WARNING_INTERVAL_S), ["drift-began", "drift-ended", "drift-began"]),
    ],
)
def test_a_stream_at_the_threshold_writes_few_lines(
    caplog: pytest.LogCaptureFixture, waits_s: Sequence[float], events: Sequence[str]
) -> None:
    """A stream that drifts and returns with each window would fill the log; a drift of some seconds has no line."""
    caplog.set_level("INFO", "areba")
    feed = _Feed()
    for number, wait_s in enumerate(waits_s):
        feed.window(100.0 * (number % 2), wait_s=wait_s)
    assert [event for event, _ in _lines(caplog)] == events


def test_the_gauges_are_the_figures_of_the_metrics() -> None:
    """An alert on a figure that differs from the topic cannot be explained; a figure that is not known has no value."""
    feed = _Feed()
    feed.window()
    assert not any(feed.observer.figures.values()[gauge] for gauge in GAUGES)
    feed.window(100.0)
    for gauge, name in GAUGES.items():
        value = getattr(feed.newest, name)
        expected = {} if value is None else {("0", "s0"): value}
        assert feed.observer.figures.values()[gauge] == expected, name
    assert feed.newest.features_drifted == 1


def test_a_gauge_without_a_value_is_deleted() -> None:
    """After another champion, the old figure of the scores would stay for ever."""
    feed = _Feed()
    feed.window()
    feed.window()
    feed.observer.figures.set(metrics.SCORE_PSI, 0.5, task=0, stream="s0")
    feed.look()
    assert feed.observer.figures.values()[metrics.SCORE_PSI] == {}


def test_a_feature_belongs_to_the_column_that_it_was_made_of() -> None:
    """A name beside the right one sends people to a feed that is well."""
    columns = make_config(streams={"s0": {"columns": COLUMNS}}).streams["s0"].columns
    assert [column_of(columns, feature) for feature in range(3)] == ["hour", "hour", "amount"]
    with pytest.raises(IndexError):
        column_of(columns, 3)
