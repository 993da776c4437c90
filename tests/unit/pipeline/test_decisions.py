"""The threshold of a stream decides the class of its predictions, and nothing that is learned."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stream_app.config import ThresholdSettings, load, threshold_of
from stream_app.errors import ConfigurationError
from stream_app.producers.synthetic import parse_spec, synthetic
from stream_app.records import Metric, Prediction, ThresholdKind
from stream_app.testing import InProcess
from stream_app.verify.verify import verify

STREAM = "s"
DATA = synthetic(parse_spec("sine:imbalance=10,length=1200"))
LEARNERS = {"areba": {"method": "areba"}, "oob": {"method": "oob", "ensemble_size": 3}}


def run(threshold: object, delay: int = 40, cut: int = 0, corrections: str = "first") -> InProcess:
    """Return an application that has taken the data; labels come so many examples later, a crash after `cut` labels."""
    application = InProcess(
        streams={STREAM: {"features": 2, "learning_rate": 0.01, "threshold": threshold}},
        learners=LEARNERS,
        metrics={"fading_factors": [1.0], "prevalence_fading_factor": 1.0, "every_labels": 100},
        predictions="all",
        join={"corrections": corrections},
    )
    for number, features in enumerate(DATA.features.tolist()):
        application.send_example(STREAM, str(number), features)
        if number >= delay:
            application.send_label(STREAM, str(number - delay), int(DATA.labels[number - delay]))
        if cut and number == cut:
            application.run()
            application.crash()
    application.run()
    return application


def of(application: InProcess, learner: str) -> Sequence[Prediction]:
    """Return the predictions of a learner."""
    return [prediction for prediction in application.predictions() if prediction.learner == learner]


def last(application: InProcess, learner: str) -> Metric:
    """Return the last metric of a learner."""
    return next(metric for metric in reversed(application.metrics()) if metric.learner == learner)


@pytest.fixture(scope="module")
def majority() -> InProcess:
    """Return an application without a threshold."""
    return run("majority")


@pytest.mark.parametrize("threshold", [{"score": 0.8}, {"probability": 0.1}])
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_class_follows_and_figures_follow_the_class(
    threshold: dict[str, float], learner: str, majority: InProcess
) -> None:
    """A user who lowers the threshold gets more alerts of the same model, and precision and recall of these alerts."""
    application = run(threshold)
    [(kind, value)] = threshold.items()
    found, before = of(application, learner), of(majority, learner)
    limit = float(np.float32(value))
    for one, other in zip(found, before, strict=True):
        assert (one.score, one.probability, one.model_version) == (other.score, other.probability, other.model_version)
        assert (one.threshold_kind, one.threshold) == (kind, limit)
        assert one.predicted_class == int((one.score if kind == "score" else one.probability) > limit)
        assert (other.threshold_kind, other.threshold) == ("majority", None)
    assert [one.predicted_class for one in found] != [other.predicted_class for other in before]
    metric = last(application, learner)
    labels = DATA.labels[: metric.labelled] == 1
    alerts = np.array([one.predicted_class for one in found[: metric.labelled]]) == 1
    window = metric.main_window
    assert window.recall == pytest.approx(alerts[labels].mean())
    assert window.precision == pytest.approx(labels[alerts].mean())
    assert window.specificity == pytest.approx(1 - alerts[~labels].mean())


def test_the_majority_is_the_class_of_the_learner(majority: InProcess) -> None:
    """Without a threshold, nothing may have another class than before."""
    assert all(one.predicted_class == (one.score > 0.5) for one in of(majority, "areba"))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_share_of_alerts(learner: str, majority: InProcess) -> None:
    """One in ten examples is an alert, the scores are those of before, and `verify` counts the threshold again."""
    application = run({"alerts": 0.1})
    found = of(application, learner)
    assert [one.score for one in found] == [one.score for one in of(majority, learner)]
    assert all(one.threshold_kind == "alerts" and one.threshold is not None for one in found)
    assert all(one.predicted_class == int(one.score > (one.threshold or 0)) for one in found)
    assert np.mean([one.predicted_class for one in found]) == pytest.approx(0.1, rel=0.1)
    report = verify(application._cluster, application.config)
    assert (list(report.findings), list(report.notes)) == ([], [])


@pytest.mark.parametrize("threshold", [{"probability": 0.1}, {"alerts": 0.1}])
def test_a_crash_changes_no_decision(threshold: dict[str, float]) -> None:
    """A restore must decide as before: subscribers have acted on the first answer."""
    whole, cut = (run(threshold, cut=cut, corrections="correct") for cut in (0, 700))
    for topic in ("predictions", "metrics"):
        assert [row.value for row in whole.rows(topic)] == [row.value for row in cut.rows(topic)]


def test_a_correction_knows_the_decided_class() -> None:
    """The figures after a correction are those of the corrected labels, with the class that was decided."""
    application = InProcess(
        streams={STREAM: {"features": 1, "threshold": {"score": 0.0}}},
        learners={"areba": {"method": "areba"}},
        join={"corrections": "correct"},
        metrics={"fading_factors": [1.0], "every_labels": 4},
    )
    for number, label in enumerate((0, 1, 0, 0)):
        application.send_example(STREAM, str(number), [0.5])
        application.send_label(STREAM, str(number), label)
        if number == 2:
            application.send_label(STREAM, "2", 1, revision=1)
    application.run()
    window = application.metrics()[-1].main_window
    assert all(prediction.predicted_class == 1 for prediction in application.predictions())
    sums = window.positive_correct, window.positive_total, window.negative_correct, window.negative_total
    assert sums == (2.0, 2.0, 0.0, 2.0)
    assert [one.outcome for one in application.outcomes()].count("correction") == 1


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{score: 1.5}", "threshold.score: must be at most 1, is 1.5"),
        ("{probability: -0.1}", "threshold.probability: must be at least 0, is -0.1"),
        ("{alerts: 0}", "threshold.alerts: must be more than 0, is 0"),
        ("{alerts: 1%}", "threshold.alerts: "),
        (
            "often",
            "threshold: must be `majority`, `costs`, or a section with `score`, `probability` or `alerts`, is 'often'",
        ),
        ("{score: 0.5, probability: 0.5}", "threshold: must be `majority`, `costs`, or a section with"),
        ("{alarms: 0.5}", "threshold.alarms: unknown setting"),
    ],
)
def test_a_threshold_that_cannot_be_is_refused(written: str, said: str, tmp_path: Path) -> None:
    """A wrong threshold is found when the configuration is read, and not by its alerts."""
    path = tmp_path / "areba.yaml"
    path.write_text(f"streams: {{s: {{threshold: {written}}}}}")
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        load(path, {})


def test_a_threshold_is_read_as_it_was_stored() -> None:
    """The recorded configuration gives the same threshold in each restore."""
    threshold = threshold_of("score", 0.8)
    assert ThresholdSettings.model_validate(threshold.model_dump(mode="json")) == threshold
    assert (threshold.kind, threshold.value, str(threshold)) == (ThresholdKind.SCORE, 0.8, "score 0.8")
    with pytest.raises(ValueError, match="score needs a number"):
        threshold_of("score", None)


AMOUNTS = [1.5, 20.25, 333.125, -7.0, None]


def costly(threshold: object, corrections: str = "first", cut: int = 0) -> InProcess:
    """Return an application whose false negatives cost the amount of the example; a label in ten is corrected."""
    application = InProcess(
        streams={
            STREAM: {
                "columns": {"amount": {"missing": "mean"}, "one": "number", "two": "number"},
                "costs": {"false_positive": 5, "false_negative": "amount"},
                "threshold": threshold,
            }
        },
        learners={"areba": {"method": "areba"}},
        metrics={"fading_factors": [0.9], "prevalence_fading_factor": 0.99, "every_labels": 50},
        join={"corrections": corrections},
    )
    for number, (one, two) in enumerate(DATA.features[:400].tolist()):
        application.send_example(STREAM, str(number), {"amount": AMOUNTS[number % 5], "one": one, "two": two})
        label = int(DATA.labels[number])
        if corrections == "correct" and number % 10 == 3:
            application.send_label(STREAM, str(number), 1 - label)
            application.send_label(STREAM, str(number), label, revision=1)
        else:
            application.send_label(STREAM, str(number), label)
        if cut and number == cut:
            application.run()
            application.crash()
    application.run()
    return application


def cost_of(prediction: Prediction) -> float:
    """Return what a decision costs; a missing or negative amount costs nothing."""
    number, label = int(prediction.id), int(DATA.labels[int(prediction.id)])
    if prediction.predicted_class == label:
        return 0.0
    return 5.0 if label == 0 else max(AMOUNTS[number % 5] or 0.0, 0.0)


def test_with_costs_each_example_has_its_threshold() -> None:
    """A payment of 333 is stopped at a lower probability than a payment of 2, and the metric is what errors cost."""
    application = costly("costs")
    predictions = application.predictions()
    for prediction in predictions:
        amount = max(AMOUNTS[int(prediction.id) % 5] or 0.0, 0.0)
        assert prediction.threshold == pytest.approx(5 / (5 + amount), abs=1e-7)
        assert prediction.threshold_kind == "costs"
        assert prediction.predicted_class == int(prediction.probability > 5 / (5 + amount))
    assert {prediction.predicted_class for prediction in predictions} == {0, 1}
    for metric in application.metrics():
        ages = np.arange(metric.labelled)[::-1]
        costs = [cost_of(prediction) for prediction in predictions[: metric.labelled]]
        assert metric.main_window.cost_per_example == pytest.approx(np.average(costs, weights=0.99**ages))


def test_costs_of_corrected_labels() -> None:
    """An example whose label is corrected costs what it costs with the last label, also after a crash."""
    application, cut = costly("majority", "correct"), costly("majority", "correct", cut=153)
    metric = application.metrics()[-1]
    ages = np.arange(metric.labelled)[::-1]
    costs = [cost_of(prediction) for prediction in application.predictions()[: metric.labelled]]
    assert metric.main_window.cost_per_example == pytest.approx(np.average(costs, weights=0.99**ages))
    for topic in ("predictions", "metrics"):
        assert [row.value for row in application.rows(topic)] == [row.value for row in cut.rows(topic)]


def test_without_costs_there_is_no_cost(majority: InProcess) -> None:
    """A figure of 0 would say that errors are free."""
    assert last(majority, "areba").main_window.cost_per_example is None


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ("{threshold: costs}", "threshold: `costs` needs the costs of the stream"),
        ("{costs: {false_positive: 1, false_negative: amount}}", "costs: there is no column 'amount' of numbers"),
        (
            "{costs: {false_positive: -1, false_negative: 1}}",
            "must be a number from 0 to 1e+09, or the name of a column",
        ),
        ("{costs: {false_positive: 1}}", "costs.false_negative"),
    ],
)
def test_costs_that_cannot_be_are_refused(stream: str, said: str, tmp_path: Path) -> None:
    """A cost that is no number would make every decision wrong."""
    path = tmp_path / "areba.yaml"
    path.write_text(f"streams: {{s: {stream}}}")
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        load(path, {})
