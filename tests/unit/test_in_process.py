"""`InProcess`: the shortest program of the tutorial, and the basis of users' own tests."""

import random

import pytest

from stream_app.config import Config
from stream_app.errors import ConfigurationError, StateError
from stream_app.records import Metric, Outcome, Prediction
from stream_app.testing import InProcess

STREAMS = {"pumps": {"features": 2, "learning_rate": 0.01}}
LEARNERS = {"areba": {"method": "areba"}}


def _application(count: int, crash_at: int = -1) -> InProcess:
    """Run an application on this many labelled examples; with `crash_at`, drop the worker at that example."""
    application = InProcess(streams=STREAMS, learners=LEARNERS, metrics={"every_labels": 50})
    numbers = random.Random(1)
    for number in range(count):
        features = [numbers.gauss(0, 1), numbers.gauss(0, 1)]
        application.send_example("pumps", f"pump-{number}", features)
        application.send_label("pumps", f"pump-{number}", features[0] > 1)
        if number == crash_at:
            application.run()
            application.crash()
    application.run()
    return application


def test_every_example_is_predicted_learned_and_counted() -> None:
    """Otherwise a newcomer's first ten lines would print nothing, or something else than with Kafka."""
    application = _application(200)
    predictions, outcomes, metrics = application.predictions(), application.outcomes(), application.metrics()
    assert all(isinstance(prediction, Prediction) for prediction in predictions)
    assert [prediction.id for prediction in predictions] == [f"pump-{number}" for number in range(200)]
    assert [outcome.outcome for outcome in outcomes if isinstance(outcome, Outcome)] == ["joined"] * 200
    assert [metric.labelled for metric in metrics if isinstance(metric, Metric)] == [50, 100, 150, 200]
    assert (metrics[-1].main_window.gmean or 0) > 0.7
    assert application.dead_letters() == []


def test_a_crash_changes_no_output() -> None:
    """A user who tests a learner's recovery with `crash` must see what the README promises."""
    undisturbed, crashed = _application(120), _application(120, crash_at=57)
    assert crashed.predictions() == undisturbed.predictions()
    assert crashed.outcomes() == undisturbed.outcomes()
    assert crashed.metrics() == undisturbed.metrics()


def test_the_end_of_a_stream_closes_what_is_pending() -> None:
    """Otherwise an example without a label would have no outcome, and a short stream no metric."""
    application = InProcess(streams=STREAMS, learners=LEARNERS)
    application.send_example("pumps", "a", [1, 2])
    application.send_example("pumps", "b", [1, 2])
    application.send_label("pumps", "b", 1)
    application.end_stream("pumps")
    application.run()
    assert [(outcome.id, outcome.outcome) for outcome in application.outcomes()] == [
        ("b", "joined"),
        ("a", "unlabelled"),
    ]
    assert [metric.labelled for metric in application.metrics()] == [1]


def test_records_that_cannot_be_processed_are_shown() -> None:
    """A trial that swallows its dead letters would hide why nothing was learned."""
    application = InProcess(streams=STREAMS, learners=LEARNERS)
    application.send_example("pumps", "a", [1, 2, 3])
    application.send_example("fans", "a", [1, 2])
    application.run()
    assert [letter.reason for letter in application.dead_letters()] == ["wrong-dimension", "unknown-stream"]
    assert application.predictions() == []


def test_time_is_that_of_the_records() -> None:
    """Delays and expiry can be tried without waiting for them."""
    application = InProcess(streams=STREAMS, learners=LEARNERS)
    application.send_example("pumps", "a", [1, 2], time_ms=1_700_000_000_000)
    application.send_label("pumps", "a", 0, time_ms=1_700_000_060_000)
    application.run()
    assert application.outcomes()[0].delay_ms == 60_000


def test_wrong_settings_are_named() -> None:
    """The error has the key, as the errors of a configuration file have."""
    with pytest.raises(ConfigurationError, match=r"streams\.pumps\.features"):
        InProcess(streams={"pumps": {"features": -1}})
    assert InProcess(Config()).config == Config()


def test_a_worker_that_stops_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise `run` would wait forever."""
    application = InProcess(streams=STREAMS, learners=LEARNERS)
    application.send_example("pumps", "a", [1, 2])
    monkeypatch.setattr(application._worker, "turn", lambda: None)
    with pytest.raises(StateError, match=r"the worker stopped.*\[no-records"):
        application.run()


def test_a_stream_that_the_breaker_stopped_continues_after_resume() -> None:
    """Programs can try what a broken producer does to them."""
    application = InProcess(streams=STREAMS, learners=LEARNERS, breaker={"in_a_row": 3})
    for number in range(3):
        application._sender.send("examples", b"pumps", b"?", number + 1)
    application.run()
    application.send_example("pumps", "a", [1, 2])
    application.run()
    application.resume("pumps")
    application.send_example("pumps", "b", [1, 2])
    application.run()
    assert [one.id for one in application.predictions()] == ["b"]
    assert [letter.reason for letter in application.dead_letters()] == ["wrong-schema"] * 3 + ["stream-stopped"]
