"""Labels that depend on predictions, and figures that rate scores."""

from typing import Any

import numpy as np
import pytest

from stream_app.errors import ConfigurationError
from study.run.checked import BATCH_EXAMPLES, DueLabel, labels_of
from study.run.experiment import Checks, Run, parse
from study.run.ranking import average_precision, brier, rankings_of, recall_at_budget
from study.run.runs import repeat


def _checks(complaint: int | None) -> Checks:
    return Checks(labelled_examples=0, timeout_examples=200, complaint_examples=complaint)


def test_labels_that_follow_a_prediction_miss_no_missed_positive() -> None:
    """A missed positive must not get its true label early: then the experiment would have no missing labels."""
    seen = {
        (predicted, truth, complaint): list(labels_of(7, truth, predicted, _checks(complaint), 49))
        for predicted in (0, 1)
        for truth in (0, 1)
        for complaint in (None, 150, 300)
    }
    for complaint in (None, 150, 300):
        assert seen[1, 1, complaint] == [(49, DueLabel(7, 1, 0, checked=True))]
        assert seen[1, 0, complaint] == [(49, DueLabel(7, 0, 0, checked=True))]
        assert seen[0, 0, complaint] == [(207, DueLabel(7, 0, 0))]
    assert seen[0, 1, None] == [(207, DueLabel(7, 0, 0))]
    assert seen[0, 1, 150] == [(157, DueLabel(7, 1, 0))]
    assert seen[0, 1, 300] == [(207, DueLabel(7, 0, 0)), (307, DueLabel(7, 1, 1))]
    early = Checks(labelled_examples=10, timeout_examples=200)
    assert list(labels_of(7, 1, 0, early, 49)) == [(49, DueLabel(7, 1, 0, checked=True))]


def _run(**checks: Any) -> Run:  # noqa: ANN401  (plain data)
    stream = {"source": "sine", "length": 3_000, "imbalance": 1, "checks": checks}
    methods = {"areba_20": {"method": "areba"}, "baseline": None}
    return Run(parse({"name": "c", "title": "c", "group": "beyond", "stream": stream, "methods": methods}, "c"), "both")


@pytest.mark.slow(20)
def test_a_learner_that_finds_no_positive_example_hears_of_none() -> None:
    """The loop is closed: on this stream the first networks find no positive example, so that they never learn one."""
    nothing = repeat(_run(labelled_examples=0, timeout_examples=100), 1)
    all_ = repeat(_run(labelled_examples=3_000, timeout_examples=100), 1)
    late = np.flatnonzero((nothing.labels == 1) & (np.arange(3_000) >= 1_500))
    assert nothing.classes[0, late].mean() == 0.0
    assert all_.classes[0, late].mean() > 0.3
    first = np.s_[:, :BATCH_EXAMPLES]
    assert (nothing.scores[first] == all_.scores[first]).all(), "no label comes within the first batch"


def test_checks_replace_delay_and_share() -> None:
    """A share of labels that is silently ignored would give a wrong experiment."""
    stream = {"source": "sine", "label_share": 0.5, "checks": {"labelled_examples": 0, "timeout_examples": 100}}
    data = {"name": "c", "title": "c", "group": "beyond", "stream": stream, "methods": {"baseline": None}}
    with pytest.raises(ConfigurationError):
        parse(data, "c")


def test_average_precision_of_a_known_ranking() -> None:
    """Precision 1 at recall 1/2 and 2/3 at recall 1; equal scores have one precision for all of them."""
    labels = np.array([1, 0, 1, 0], np.int8)
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.1], np.float32), labels) == pytest.approx(5 / 6)
    assert average_precision(np.full(4, 0.5, np.float32), labels) == pytest.approx(0.5)


def test_recall_at_the_budget_counts_equal_scores_in_part() -> None:
    """A learner that gives many examples the score 1 must not gain from the order in which they came."""
    labels = np.zeros(1_000, np.int8)
    labels[:10] = 1
    perfect = labels.astype(np.float32)
    assert recall_at_budget(perfect, labels) == 1.0
    assert recall_at_budget(1.0 - perfect, labels) == pytest.approx(0.0)
    assert recall_at_budget(np.zeros(1_000, np.float32), labels) == pytest.approx(0.02)


def test_the_brier_score_and_a_stream_of_one_class() -> None:
    """A stream without positives has no figures, and no division by zero."""
    assert brier(np.array([0.5, 1.0], np.float32), np.array([0, 1], np.int8)) == pytest.approx(0.125)
    assert np.isnan(rankings_of(np.zeros((2, 5), np.float32), np.zeros(5, np.int8))).all()
