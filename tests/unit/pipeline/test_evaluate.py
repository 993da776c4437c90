"""Prequential figures, from which dashboards and the paper's curves are made."""

import math

import numpy as np
import pytest

from stream_app.errors import ErrorCode, StateError
from stream_app.pipeline.prequential import COLUMNS, REPORT_COLUMNS, Prequential
from stream_app.records import MetricWindow


def test_sums_fade_only_at_a_label_of_their_own_class() -> None:
    """If a rare class faded at every label, the majority's labels would drown its recall; computed by hand."""
    [sums] = Prequential([0.5]).run(
        np.array([1, 0, 0, 1, 0], np.int8),
        np.array([1, 0, 1, 0, 0], np.int8),
    )
    assert COLUMNS == ("positive_correct", "positive_total", "negative_correct", "negative_total")
    assert sums.tolist() == [
        [1.0, 1.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.5, 1.5, 1.0, 1.0],
        [0.5, 1.5, 0.5, 1.5],
        [0.5, 1.5, 1.25, 1.75],
    ]


def test_figures_are_unknown_until_both_classes_were_seen() -> None:
    """A G-mean of 0 or 1 before the first positive label would be read as a result."""
    prequential = Prequential()
    assert _scores(prequential.main_window) == (None, None, None)
    [only_negatives] = prequential.run(np.zeros(3, np.int8), np.zeros(3, np.int8))
    assert only_negatives[-1, 3] > 2
    assert _scores(prequential.main_window) == (None, None, None)
    prequential.run(np.array([0], np.int8), np.array([1], np.int8))
    assert _scores(prequential.main_window) == (0.0, 1.0, 0.0)
    prequential.run(np.array([1], np.int8), np.array([1], np.int8))
    recall, specificity, gmean = _scores(prequential.main_window)
    assert recall == pytest.approx(1 / 1.99)
    assert specificity == 1.0
    assert gmean == pytest.approx(math.sqrt(1 / 1.99))


def test_without_fading_the_figures_are_plain_rates() -> None:
    """Factor 1 is for users who want the confusion matrix of the complete stream."""
    random = np.random.default_rng(1)
    predicted, labels = (random.integers(0, 2, 500).astype(np.int8) for _ in range(2))
    recall, specificity = (predicted[labels == 1] == 1).mean(), (predicted[labels == 0] == 0).mean()
    prequential = Prequential([1.0])
    prequential.run(predicted, labels)
    assert _scores(prequential.main_window) == (recall, specificity, math.sqrt(recall * specificity))


def _scores(window: MetricWindow) -> tuple[float | None, float | None, float | None]:
    return window.recall, window.specificity, window.gmean


def test_windows_do_not_depend_on_each_other() -> None:
    """A second window is a setting: it must not change the first, and has the figures that it would have alone."""
    random = np.random.default_rng(3)
    predicted, labels = (random.integers(0, 2, 300).astype(np.int8) for _ in range(2))
    factors = (0.99, 0.5, 1.0)
    together = Prequential(factors)
    after = together.run(predicted, labels)
    for fading, sums, last in zip(factors, after, together.sums(), strict=True):
        [alone] = Prequential([fading]).run(predicted, labels)
        assert sums.tobytes() == alone.tobytes()
        assert last.tobytes() == alone[-1].tobytes()


@pytest.mark.parametrize("cut", [1, 7, 200])
def test_cuts_and_a_restored_state_give_the_same_bits(cut: int) -> None:
    """Metrics are compared byte for byte after a crash; the cut of a batch must not show in them."""
    random = np.random.default_rng(2)
    predicted, labels = (random.integers(0, 2, 200).astype(np.int8) for _ in range(2))
    factors = (0.99, 0.9)
    scores = random.random(200).astype(np.float32)
    once = Prequential(factors, 0.999)
    whole = once.run(predicted, labels, scores)
    parts, prequential = [], Prequential(factors, 0.999)
    for start in range(0, 200, cut):
        restored = Prequential(factors, 0.999)
        restored.load(prequential.arrays())
        prequential = restored
        rows = slice(start, start + cut)
        parts.append(prequential.run(predicted[rows], labels[rows], scores[rows]))
    assert np.concatenate(parts, axis=1).tobytes() == whole.tobytes()
    assert prequential.sums().tobytes() == whole[:, -1].tobytes()
    assert prequential.report().tobytes() == once.report().tobytes()
    assert prequential.report().shape == (len(factors), len(REPORT_COLUMNS))


def test_a_damaged_state_of_a_metric_is_refused() -> None:
    """A snapshot of something else must not become a metric."""
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        Prequential().load({})
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        Prequential().load({"prequential_sums": np.zeros((1, 3))})
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        Prequential().load({"prequential_sums": np.zeros((2, 136))})
    damaged = np.zeros((1, 136))
    damaged[0, 1] = 1.0
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        Prequential().load({"prequential_sums": damaged})


@pytest.mark.parametrize("fading", [0.0, -1.0, 1.01])
def test_a_factor_out_of_range_is_refused(fading: float) -> None:
    """With a factor above 1 the sums would grow without bound."""
    with pytest.raises(ValueError, match="fading"):
        Prequential([0.5, fading])
