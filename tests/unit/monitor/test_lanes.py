"""A stream with lanes is shown as one: its figures are those of all lanes together."""

import math
import random
from dataclasses import replace

import pytest

from stream_app.config import Config
from stream_app.dashboard.model import STALLED_S, DashboardModel
from stream_app.lanes import lane_names
from stream_app.monitor.figures import LiveFigures, StreamFigures
from stream_app.monitor.lanes import Lanes, sum_of_lanes
from stream_app.monitor.model import LiveModel
from stream_app.progress_records import Commit
from stream_app.records import Outcome, Prediction
from stream_app.testing import InProcess
from tests.support.formats.metrics import metric, window

NAMES = lane_names("clicks", 2)
LANES = Lanes({"clicks": NAMES}, 0.9995)
LABELS = 600


def _model(factory: type[LiveModel] = LiveModel) -> LiveModel:
    return factory([*NAMES, "pumps"], lanes=LANES)


def _clicks(model: LiveModel) -> StreamFigures:
    (found,) = model.figures().only(["clicks"]).streams
    return found


def _names(figures: LiveFigures) -> list[str]:
    return [stream.stream for stream in figures.streams]


def test_the_sums_are_those_of_the_predictions() -> None:
    """A G-mean of lanes that nobody could compute from their outcomes would be a number without meaning."""
    application = InProcess(streams={"clicks": {"features": 1, "lanes": 2}}, metrics={"every_labels": 7})
    draws = random.Random(5)
    for number in range(LABELS):
        is_positive = draws.random() < 0.2
        application.send_example("clicks", str(number), [draws.gauss(1.5 if is_positive else 0.0, 1.0)])
        application.send_label("clicks", str(number), int(is_positive))
    application.end_stream("clicks")
    application.run()
    model = LiveModel(application.config.record_streams, lanes=Lanes.of(application.config))
    for one in application.metrics():
        model.add_metric(one, 0)

    right, total, positives, labels = [0.0, 0.0], [0.0, 0.0], 0.0, 0.0
    for lane in NAMES:
        own_right, own_total, own_positives, own_labels = [0.0, 0.0], [0.0, 0.0], 0.0, 0.0
        for outcome in (one for one in application.outcomes() if one.stream == lane):
            assert outcome.label is not None
            own_right[outcome.label] = 0.99 * own_right[outcome.label] + (outcome.predicted_class == outcome.label)
            own_total[outcome.label] = 0.99 * own_total[outcome.label] + 1
            own_positives, own_labels = 0.9995 * own_positives + outcome.label, 0.9995 * own_labels + 1
        right = [one + more for one, more in zip(right, own_right, strict=True)]
        total = [one + more for one, more in zip(total, own_total, strict=True)]
        positives, labels = positives + own_positives, labels + own_labels
    recall, specificity, share = right[1] / total[1], right[0] / total[0], positives / labels
    champion = _clicks(model).learners[0]
    found = champion.main_window
    assert (champion.stream, champion.learner, champion.champion) == ("clicks", "areba", True)
    assert (champion.labelled, champion.examples, champion.pending) == (LABELS, LABELS, 0)
    assert 0.0 < recall < 1.0
    assert (found.recall, found.specificity) == pytest.approx((recall, specificity))
    assert found.gmean == pytest.approx(math.sqrt(recall * specificity))
    assert found.prevalence == pytest.approx(share)
    hits, alarms = share * recall, share * recall + (1 - share) * (1 - specificity)
    assert (found.precision, found.f1) == pytest.approx((hits / alarms, 2 * hits / (alarms + share)))
    assert found.roc_auc is champion.calibration_error is champion.delay_ms_p50 is None


def test_the_sum_of_one_lane_is_that_lane() -> None:
    """What the sum computes again must be what the worker computed."""
    application = InProcess(streams={"pumps": {"features": 1}}, metrics={"every_labels": 7})
    draws = random.Random(5)
    for number in range(100):
        application.send_example("pumps", str(number), [draws.gauss(0.0, 1.0)])
        application.send_label("pumps", str(number), int(draws.random() < 0.3))
    application.run()
    single = application.metrics()[-1]
    summed = sum_of_lanes("pumps", [single], 0.9995)
    main = single.main_window
    assert summed.main_window.kappa == pytest.approx(main.kappa)
    assert len(summed.windows) == 1
    assert [summed.main_window.gmean, summed.main_window.prevalence] == pytest.approx([main.gmean, main.prevalence])
    assert [summed.main_window.precision, summed.main_window.f1] == pytest.approx([main.precision, main.f1])
    assert (summed.labelled, summed.positive_queue, summed.changes) == (98, single.positive_queue, single.changes)


def test_lanes_that_know_one_class_count() -> None:
    """A lane without positives has negatives that were judged; without it, precision would be too high."""
    with_both = window(0.99, recall=0.5, specificity=1.0, prevalence=0.5, positive_correct=1.0, positive_total=2.0)
    both = replace(metric(100), windows=(replace(with_both, negative_correct=2.0, negative_total=2.0),))
    negative = replace(metric(100), windows=(window(0.99, negative_correct=1.0, negative_total=2.0),))
    unseen = replace(metric(0), windows=(window(0.99),), positive_queue=None)
    found = sum_of_lanes("clicks", [both, negative, unseen], 0.9995)
    assert (found.main_window.recall, found.main_window.specificity) == (0.5, 0.75)
    assert found.main_window.prevalence == pytest.approx(0.25)
    assert (found.positive_queue, found.negative_queue) == (None, 18)
    costly = replace(both, windows=(replace(both.main_window, cost_per_example=3.0),))
    assert sum_of_lanes("clicks", [costly, unseen], 0.9995).main_window.cost_per_example == pytest.approx(3.0)
    assert sum_of_lanes("clicks", [unseen], 1.0).main_window.gmean is None


def test_figures_of_a_stream_are_those_of_its_lanes() -> None:
    """Somebody who watches eight lanes wants one rate, and the lag of the slowest."""
    model = _model()
    for second in range(3):
        model.tick(100.0 + second)
        for name in NAMES:
            model.add_outcome(Outcome(name, "1", "joined", 1, "areba", 0.5, 0.1, 0, 10, 0, 0, 1), 0)
    for number, (name, time_ms) in enumerate(zip(NAMES, (4_000, 9_000), strict=True)):
        model.add_example(name, number, 7, 10_000)
        model.add_prediction(Prediction(name, "1", "areba", True, 0.5, 0.1, 1, 0, time_ms), number)
        model.add_dead_letter(name, "late-label", number)
        model.add_metric(replace(metric(100 + number, stream=name), pending=number + 1), number)
    found = _clicks(model)
    assert (found.lag_ms, found.dead_letters, found.pending, found.task) == (6_000, 2, 3, None)
    assert found.labelled_per_s == 2.0
    assert [learner.labelled for learner in found.learners] == [201]
    assert [_clicks(model).lane_of, *(one.lane_of for one in model.figures().only(NAMES).streams)] == [
        None,
        *["clicks"] * 2,
    ]
    stop = Commit(0, 0, 0, 0, 0, bytes(32), 1, stopped_streams=1, stopped=f'{{"{NAMES[1]}":"rubbish"}}')
    assert not model.is_stopped("clicks")
    model.add_progress(1, stop)
    assert model.is_stopped("clicks")


def test_lanes_are_shown_if_asked() -> None:
    """A table of eight lanes for each stream would hide the other streams."""
    figures = _model().figures()
    assert _names(figures.only(())) == ["clicks", "pumps"]
    assert _names(figures.only((), lanes=True)) == ["clicks", *NAMES, "pumps"]
    assert _names(figures.only(["clicks"], lanes=True)) == ["clicks", *NAMES]
    assert _names(figures.only([NAMES[1]])) == [NAMES[1]]
    assert figures.only(["clicks"]).problems == ()


def test_a_champion_that_not_all_lanes_have_yet() -> None:
    """While `areba promote` writes the marks, the old champion of one lane is not that of the stream."""
    model = _model()
    for name, champion in zip(NAMES, ("areba", "baseline"), strict=True):
        for learner in ("areba", "baseline"):
            model.add_metric(replace(metric(stream=name, learner=learner), champion=learner == champion), 0)
    assert [one.champion for one in _clicks(model).learners] == [False, False]


def test_the_dashboard_has_the_curve_of_the_sum() -> None:
    """The page of a stream without its history would show no drift, and a lane that stands still must be seen."""
    model = _model(DashboardModel)
    assert isinstance(model, DashboardModel)
    for number in range(4):
        for name in NAMES:
            shown = metric(number * 10, stream=name)
            model.add_metric(replace(shown, event_time_ms=1_000 * number), 0)
    columns = model.history("clicks").learners["areba"].columns()
    assert columns[0][-1] == 3_000
    assert columns[1][-1] == pytest.approx(math.sqrt(0.5 * 0.75)), "of the sums, not of the G-means"
    assert model.state("clicks") == "waiting"
    model.tick(0.0)
    for task, name in enumerate(NAMES):
        model.add_example(name, task, 3, 1_000)
    model.add_progress(0, Commit(0, 0, 4, 0, 0, bytes(32), 1))
    model.sample(model.figures().streams, 0)
    model.tick(STALLED_S + 1.0)
    model.sample(model.figures().streams, 0)
    assert [model.state(name) for name in (*NAMES, "clicks")] == ["idle", "stalled", "stalled"]


def test_lanes_of_a_configuration() -> None:
    """The monitor learns of them from the file that it is given."""
    config = Config.model_validate({"streams": {"clicks": {"lanes": 2}, "pumps": {}}})
    assert Lanes.of(config) == Lanes({"clicks": NAMES}, config.metrics.prevalence_fading_factor)
