"""Drift without labels: a change of the inputs is published before any label, and nothing else is."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.config import Config, TaskSettings
from stream_app.pipeline.outputs import Outputs
from stream_app.pipeline.steps.metric_rows import metric_rows
from stream_app.pipeline.task import Task
from stream_app.record_columns import MetricRows, RawRecords
from stream_app.records import Metric
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples
from stream_app.testing import InProcess
from stream_app.verify.results import Code
from stream_app.verify.verify import verify

STREAM = "s"
REFERENCE, WINDOW = 500, 200
NO_LABELS = RawRecords.of(np.zeros(0, np.int64), np.zeros(0, np.int64), [], [])
DRIFT = {"reference_examples": REFERENCE, "window_examples": WINDOW}


def examples_of(count: int, shift: float = 0.0, since: int = 0) -> NDArray[np.float32]:
    """Return examples: normal, log-normal, 0/1 with 3 % and with 97 % of 1, constant; the first shifts from `since`."""
    random = np.random.default_rng(1)
    columns = [random.normal(size=count), random.lognormal(sigma=2, size=count)]
    columns += [(random.random(count) < share).astype(float) for share in (0.03, 0.97)]
    features = np.stack([*columns, np.full(count, 3.0)], axis=1)
    features[since:, 0] += shift
    return features.astype(np.float32)


def run(features: NDArray[np.float32], delay: int = 0, cuts: Sequence[int] = (), **settings: object) -> InProcess:
    """Return an application that has taken the examples; labels come so many examples later, or with 0 none at all.

    After each of `cuts` examples, the worker crashes and is restored.
    """
    application = InProcess(
        streams={STREAM: {"features": features.shape[1], "drift": {**DRIFT, **settings}}},
        learners={"areba": {"method": "areba"}, "baseline": {"method": "baseline"}},
        metrics={"every_labels": 300},
    )
    for number, row in enumerate(features.tolist()):
        application.send_example(STREAM, str(number), row)
        if delay and number >= delay:
            application.send_label(STREAM, str(number - delay), int(features[number - delay, 1] > 1))
        if number in cuts:
            application.run()
            application.crash()
    application.run()
    return application


def champions(application: InProcess) -> list[Metric]:
    """Return the metrics of the champion."""
    return [metric for metric in application.metrics() if metric.champion]


def plain_index(reference: NDArray[np.float64], window: NDArray[np.float64]) -> float:
    """Return PSI over bins that each end at a value of the reference."""
    ordered = np.sort(reference)
    edges = []
    for k in range(1, 10):
        place = k * len(ordered) // 10
        first, end = (int(np.searchsorted(ordered, ordered[place], side)) for side in ("left", "right"))
        inner = [cut for cut in (first, end) if 0 < cut < len(ordered)]
        edges += [ordered[min(inner, key=lambda cut: abs(cut - place)) - 1]] if inner else []
    edges = edges or [np.nextafter(ordered[0], -np.inf), ordered[0]]
    shares = [
        np.bincount(np.searchsorted(edges, sample), minlength=10)[:10] / len(sample) for sample in (reference, window)
    ]
    p, q = ((each + 1e-4) / (1 + 1e-3) for each in shares)
    return float(np.sum((q - p) * np.log(q / p)))


def test_the_figures_are_those_of_a_plain_program() -> None:
    """A wrong index hides a change, or wakes somebody for nothing."""
    features = examples_of(1_500, 1.0, 1_000)
    found = champions(run(features))
    assert [metric.examples for metric in found] == list(range(WINDOW, 1_501, WINDOW))
    assert [metric.drift_examples for metric in found] == [None, None, None, 800, 1_000, 1_200, 1_400]
    for metric in found[3:]:
        window = features[metric.examples - WINDOW : metric.examples].astype(float)
        indices = [
            plain_index(one, two) for one, two in zip(features[:REFERENCE].T.astype(float), window.T, strict=True)
        ]
        assert metric.largest_feature_psi == pytest.approx(max(indices), abs=1e-12)
        assert metric.largest_feature == int(np.argmax(indices))
        assert metric.features_drifted == sum(index > 0.25 for index in indices)
        assert metric.score_psi is None, "without labels the learner has learned nothing yet"


def test_a_shift_is_flagged_without_a_label_and_calm_is_not() -> None:
    """This is what it is for: the labels of a day come in the evening, the broken feed in the morning."""
    shifted, calm = (champions(run(examples_of(3_000, shift, 2_000))) for shift in (2.0, 0.0))
    assert [metric.features_drifted for metric in shifted if metric.examples > 2_000] == [1] * 5
    assert {metric.largest_feature for metric in shifted if metric.examples > 2_000} == {0}
    assert not any(metric.features_drifted for metric in (*calm, *(m for m in shifted if m.examples <= 2_000)))
    assert shifted[-1].labelled == 0


@pytest.mark.parametrize("value", [2.0, 4.0])
def test_a_constant_that_changes_is_flagged(value: float) -> None:
    """A column that was always the same and no longer is says that a producer has changed."""
    features = examples_of(1_000)
    features[800:, 4] = value
    last = champions(run(features))[-1]
    assert (last.largest_feature, last.features_drifted) == (4, 1)


def test_scores_have_a_reference_once_the_learner_has_learned() -> None:
    """The scores of a learner that learns its first labels move without any drift."""
    found = champions(run(examples_of(3_000, 3.0, 2_400), delay=40))
    known = [metric for metric in found if metric.score_psi is not None]
    assert known[0].drift_examples == 1_400, "after 500 labels, 500 scores, and a whole window"
    assert found[-1].score_psi != known[0].score_psi


def test_restarts_and_cuts_change_nothing() -> None:
    """A worker that is killed within a reference or a window must continue as if nothing had been."""
    features = examples_of(1_600, 1.0, 1_000)
    whole, cut = (run(features, 40, cuts) for cuts in ((), (100, 499, 500, 650, 1_150, 1_399, 1_400)))
    assert [row.value for row in cut.rows("metrics")] == [row.value for row in whole.rows("metrics")]


def test_verify_computes_the_figures_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong figure about drift would be believed: nothing else contradicts it."""
    features = examples_of(1_600, 1.0, 1_200)
    application = run(features, 40)
    assert any(metric.score_psi for metric in champions(application))
    assert verify(application._cluster, application.config).findings == ()
    for name, wrong in (
        ("drift_examples", 1),
        ("score_psi", 0.5),
        ("largest_feature_psi", 0.5),
        ("largest_feature", 3),
        ("features_drifted", 4),
    ):

        def damage(*given: object, name: str = name, wrong: float = wrong) -> MetricRows:
            metrics = metric_rows(*given)  # type: ignore[arg-type]
            metrics.rows[name] = wrong
            return metrics

        with monkeypatch.context() as patch:
            patch.setattr("stream_app.pipeline.stream_set.metric_rows", damage)
            damaged = run(features, 40)
        found = verify(damaged._cluster, damaged.config).findings
        assert found, name
        assert {finding.code for finding in found} == {Code.WRONG_METRIC}
        assert any(name in finding.text for finding in found)


def test_another_setting_takes_a_new_reference() -> None:
    """A change that is accepted is the new normal, once somebody says so."""
    task = Task(0, _settings(0), ("examples", "labels"))
    features = examples_of(2_400, 3.0, 1_000)
    for begin in range(0, 1_600, 100):
        outputs = task.step(_range(features, begin, begin + 100), NO_LABELS)
    assert _last(outputs).features_drifted == 1
    task.apply_settings(_settings(1))
    for begin in range(1_600, 2_400, 100):
        outputs = task.step(_range(features, begin, begin + 100), NO_LABELS)
    assert (_last(outputs).drift_examples, _last(outputs).features_drifted) == (2_400, 0)


def _settings(reference: int) -> TaskSettings:
    stream = {"features": 5, "drift": {**DRIFT, "reference": reference}}
    data = {"application": {"id": "app", "instance": "w"}, "streams": {STREAM: stream}}
    return Config.model_validate(data, context={}).task_settings()


def _range(features: NDArray[np.float32], begin: int, end: int) -> RawRecords:
    values = encode_examples(STREAM, [str(number) for number in range(begin, end)], features[begin:end])
    return RawRecords.of(
        np.arange(begin, end), np.arange(begin + 1, end + 1), [STREAM.encode()] * (end - begin), values
    )


def _last(outputs: Outputs) -> Metric:
    metric = codec.decode_one(outputs.topics["metrics"].values[-1] or b"")
    assert isinstance(metric, Metric)
    return metric
