"""The figures of a window that people decide by, against their definitions and against scikit-learn."""

from dataclasses import asdict

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from stream_app.join.score_bins import BINS, score_bins
from stream_app.pipeline.prequential import Prequential
from stream_app.records import MetricWindow, Prediction
from stream_app.verify.metrics.windows import answer_of


def _stream(count: int = 3_000) -> tuple[NDArray[np.float32], NDArray[np.int8], NDArray[np.int8]]:
    """Return scores, predicted classes and labels; 4 % are of class 1, whose scores are higher and overlap."""
    random = np.random.default_rng(7)
    labels = (random.random(count) < 0.04).astype(np.int8)
    logits = random.normal(np.where(labels == 1, 0.5, -4.0), 2.0)
    scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
    return scores, (scores > 0.5).astype(np.int8), labels


def _weights(labels: NDArray[np.int8], fading: float, prevalence_fading: float) -> NDArray[np.float64]:
    """Return the weight of each label: a class fades at its own labels, and has its prevalence in all."""
    weights, every = np.empty(len(labels)), max(fading, prevalence_fading) ** np.arange(len(labels))[::-1]
    for label in (0, 1):
        own = labels == label
        faded = fading ** np.arange(own.sum())[::-1]
        weights[own] = faded / faded.sum() * every[own].sum() / every.sum()
    return weights


def _window(fading: float, prevalence_fading: float, count: int = 3_000) -> MetricWindow:
    scores, predicted, labels = _stream(count)
    prequential = Prequential([fading], prevalence_fading)
    prequential.run(predicted, labels, scores)
    return prequential.main_window


@pytest.mark.parametrize(("fading", "prevalence_fading"), [(1.0, 1.0), (0.99, 0.999), (0.995, 0.9)])
def test_figures_are_those_of_weighted_examples(fading: float, prevalence_fading: float) -> None:
    """A precision or an AUC that another program would not confirm is of no use for a decision."""
    scores, predicted, labels = _stream()
    weights = _weights(labels, fading, prevalence_fading)
    window = _window(fading, prevalence_fading)
    right, alarms, positive = predicted == labels, predicted == 1, labels == 1
    hits = weights[positive & alarms].sum()
    chance = weights[positive].sum() * weights[alarms].sum() + weights[~positive].sum() * weights[~alarms].sum()
    bins = score_bins(scores)
    higher = np.sign(bins[positive][:, None].astype(int) - bins[~positive][None].astype(int)) / 2 + 0.5
    area = weights[positive] @ higher @ weights[~positive] / weights[positive].sum() / weights[~positive].sum()
    counts = {bin_: weights * ((bins > bin_) + (bins == bin_) / 2) for bin_ in set(bins.tolist())}
    above = [(counts[bins[k]], weights[k]) for k in np.flatnonzero(positive)]
    average = sum(weight * count[positive].sum() / count.sum() for count, weight in above)
    expected = {
        "prevalence": weights[positive].sum(),
        "precision": hits / weights[alarms].sum(),
        "f1": 2 * hits / (weights[alarms].sum() + weights[positive].sum()),
        "kappa": (weights[right].sum() - chance) / (1 - chance),
        "roc_auc": area,
        "average_precision": average / weights[positive].sum(),
    }
    assert {name: asdict(window)[name] for name in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.99, 0.999), (0.995, 0.9)])
def test_figures_are_those_of_scikit_learn(factors: tuple[float, float]) -> None:
    """The names are the field's, so the numbers must be those of the library that everybody compares with."""
    scores, predicted, labels = _stream()
    weights, bins = _weights(labels, *factors), score_bins(scores)  # by the bins, it sees the ties of the histograms
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        labels, predicted, average="binary", sample_weight=weights
    )
    expected = (
        *(recall, precision, f1),
        metrics.cohen_kappa_score(labels, predicted, sample_weight=weights),
        metrics.roc_auc_score(labels, bins, sample_weight=weights),
    )
    window = _window(*factors)
    assert (window.recall, window.precision, window.f1, window.kappa, window.roc_auc) == pytest.approx(expected)
    average = metrics.average_precision_score(labels, scores, sample_weight=weights)
    assert window.average_precision == pytest.approx(average, abs=0.025)  # the histogram interpolates within a bin


def test_bins_change_the_area_little() -> None:
    """Half octaves must be fine enough that a better model is not hidden in them."""
    scores, _, labels = _stream()
    ranked = labels[np.argsort(-scores, kind="stable")]
    area = 1 - np.cumsum(ranked == 0)[ranked == 1].sum() / (ranked == 1).sum() / (ranked == 0).sum()
    assert _window(1.0, 1.0).roc_auc == pytest.approx(area, abs=0.001)


def test_bins_are_half_octaves_from_both_ends() -> None:
    """`verify` finds the bins by another way; a difference in one bit of a score would be a false finding."""
    edges = np.array([2.0**-n * part for n in range(2, 30) for part in (1.0, 1.5)], np.float32)
    near = np.concatenate([edges, np.nextafter(edges, np.float32(0)), np.array([0, 1e-45, 0.5], np.float32)])
    middle = np.nextafter(np.array([0.5, 0.5, 1.0], np.float32), np.array([0, 1, 0], np.float32))
    scores = np.concatenate([near, 1 - near, middle])
    bins = score_bins(scores)
    assert sorted(set(bins.tolist())) == list(range(BINS))
    assert (np.diff(bins[np.argsort(scores)].astype(int)) >= 0).all()
    for score, found in zip(scores.tolist(), bins.tolist(), strict=True):
        prediction = Prediction("s", "a", "l", True, score, score, int(score > 0.5), 0, 0)
        assert answer_of(prediction).score_bin == found


@pytest.mark.parametrize("fading", [5e-324, 1e-200, 0.3, 0.999])
def test_a_factor_of_any_size_gives_finite_figures(fading: float) -> None:
    """The weight of the newest label grows without bound unless the histogram is divided by it in time."""
    prequential = Prequential([fading], fading)
    scores, predicted, labels = _stream()
    for _ in range(20):
        prequential.run(predicted, labels, scores)
    assert np.isfinite(prequential.arrays()["prequential_sums"]).all()
    assert all(
        0 <= float(value) <= 1
        for name, value in asdict(prequential.main_window).items()
        if value is not None and not name.endswith(("_correct", "_total")) and name != "kappa"
    )


def test_precision_is_unknown_without_an_alarm() -> None:
    """0 of 0 predictions of class 1 is no precision; a recall of 0 is an F1 of 0."""
    prequential = Prequential()
    prequential.run(np.zeros(4, np.int8), np.array([0, 1, 0, 0], np.int8))
    window = prequential.main_window
    assert (window.precision, window.f1, window.kappa, window.roc_auc) == (None, 0.0, 0.0, 0.5)
