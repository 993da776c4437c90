"""Labels days later: they are joined by default, and the dead letter of one that is not says which setting decided."""

from dataclasses import replace
from typing import Any

import pytest

from stream_app.admin.recent.labels import StreamRecords
from stream_app.admin.recent.outputs import Buried, Recent
from stream_app.config import JoinSettings
from stream_app.pipeline.watched.label_flow import LabelFlow
from stream_app.records import Cause
from stream_app.serialization.label_causes import LATE, duration, explained
from stream_app.testing import InProcess

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS

TUTORIAL: dict[str, Any] = {
    "streams": {"pumps": {"features": 3, "learning_rate": 0.01}},
    "learners": {
        "areba": {"method": "areba", "budget": 20, "scaler": "standard"},
        "baseline": {"method": "baseline", "scaler": "standard"},
    },
}
"""The configuration of the tutorial's own programs."""


def run(days: float, count: int = 50, *, crash: bool = False, **join: Any) -> InProcess:  # noqa: ANN401  (settings)
    """Send an example each hour, and its label this many days later."""
    application = InProcess(**TUTORIAL, join=join)
    late = int(days * 24)
    for hour in range(count + late + 1):
        time_ms = NOW_MS + hour * 3_600_000
        application.send_example("pumps", f"p{hour}", [hour % 5, hour % 3, 1.0], time_ms)
        if 0 <= hour - late < count:
            application.send_label("pumps", f"p{hour - late}", hour % 2, time_ms + 1)
    application.run()
    if crash:
        application.crash()
        application.send_example("pumps", "last", [1, 2, 3], NOW_MS + 10_000 * 3_600_000)
        application.run()
    return application


def test_labels_three_days_late_are_joined_by_default() -> None:
    """The tutorial promises it; under a day, 49,113 of 50,000 labels became dead letters."""
    application = run(3)
    assert [outcome.outcome for outcome in application.outcomes()].count("joined") == 50
    assert application.dead_letters() == []


def test_the_dead_letter_says_how_late_and_which_setting() -> None:
    """With one day and nothing else changed, each label is `late-label`: its example came, and was closed."""
    application = run(3, ttl_ms=DAY_MS)
    letters = application.dead_letters()
    assert {letter.reason for letter in letters} == {"late-label"}
    assert len(letters) == 50
    assert all("came 1 d 2" in letter.message and f"join.ttl_ms is {DAY_MS}" in letter.message for letter in letters)


def test_the_log_reports_late_labels_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody looks into a dead letter before a line of the log says that there are any."""
    run(3, ttl_ms=DAY_MS)
    [line] = [message for message in caplog.messages if message.startswith("dead-letters")]
    assert "after its example was closed" in line
    assert "join.ttl_ms" in line


def test_inspect_reports_late_labels() -> None:
    """Its hint leads to a dead letter that names the setting, not to a row of dashes."""
    dead = (Buried("late-label", 7, 41, "pumps"),)
    flow = LabelFlow(None, None, 0.0, 0, 1.0)
    recent = Recent(0, dead, labels={"pumps": flow, "valves": flow}, max_unlabelled_share=0.9)
    one, two = map(str, recent.problems())
    assert "'pumps'" in one
    assert "areba dlq show 0:41" in one
    assert "dlq" not in two


@pytest.mark.parametrize(
    ("pending", "labelled", "delay_ms", "is_crowded"),
    [
        (89, 50, None, None),
        (90, 50, None, True),
        (90, 0, None, False),
        (95, 500, 60_000, True),
        (95, 500, 10_000, None),
    ],
)
def test_a_table_that_is_about_to_be_full(
    pending: int, labelled: int, delay_ms: int | None, is_crowded: bool | None
) -> None:
    """It is said before examples are evicted whose labels are still to come; without any label, nobody knows."""
    application = InProcess(streams={"pumps": {"features": 1}})
    application.send_example("pumps", "a", [1.0])
    application.end_stream("pumps")
    application.run()
    metric = replace(application.metrics()[0], pending=pending, labelled=labelled, delay_ms_p99=delay_ms)
    times = [1_000 * number for number in range(1, 200)]
    stream = StreamRecords(times, [metric], LabelFlow(None, None, 0.0, 0, None))
    join = JoinSettings(max_pending_per_stream=100)
    use = stream.use(join)
    assert use is not None
    crowding = use.crowding(join)
    assert (None if crowding is None else crowding.is_certain) is is_crowded
    making_room = use.crowding(JoinSettings(), is_pool_full=True)
    assert (making_room is not None and "join.max_table_bytes_per_task" in making_room.text) is (delay_ms != 10_000)


def test_an_evicted_example_names_the_other_bound() -> None:
    """A longer time to live would not help."""
    letters = run(3, max_pending_per_stream=10).dead_letters()
    assert {letter.reason for letter in letters} == {"late-label"}
    assert all("join.max_pending_per_stream is 10" in letter.message for letter in letters)


def test_a_forgotten_id_says_how_long_ids_are_remembered() -> None:
    """An operator must not look for an example that did come."""
    letters = run(9, ttl_ms=DAY_MS, closed_ttl_ms=2 * DAY_MS, crash=True).dead_letters()
    assert {letter.reason for letter in letters} == {"orphan-label"}
    assert all(f"join.closed_ttl_ms ({2 * DAY_MS})" in letter.message for letter in letters)


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.NONE])
def test_each_cause_names_what_decided(cause: Cause) -> None:
    """The text has a setting, a mark or a reset, and fits into the bytes that a transaction counts for it."""
    text = explained(cause, 3_653 * DAY_MS - 1, JoinSettings(ttl_ms=3_653 * DAY_MS, closed_ttl_ms=3_653 * DAY_MS))
    assert "join." in text or "advance mark" in text
    assert ("no example with its id" in text) == (cause not in LATE)
    assert len(text) <= 250


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (59_001, "59 s 1 ms"),
        (3_600_000, "1 h"),
        (86_460_000, "1 d"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_a_late_label_is_reported_with_its_delay(milliseconds: int, text: str) -> None:
    """Two units suffice to choose a setting."""
    assert duration(milliseconds) == text
