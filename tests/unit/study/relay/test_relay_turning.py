"""Streams whose concepts turn, move or return, and what RELAY's page says about them."""

import numpy as np
import pytest

from study.relay.turning import (
    DEVELOPMENT,
    NAMES,
    REPETITIONS,
    RESULTS,
    STREAMS,
    figures_of,
    lines_of,
    lines_of_development,
)
from study.relay.turning_streams import KINDS, LENGTH, turning_stream
from study.relay.unseen_streams import Made
from study.relay.verdicts import learners_of, read_results
from tests.support.documents import ROOT


@pytest.mark.parametrize("kind", KINDS)
def test_streams_have_the_share_of_positives_that_they_are_named_after(kind: str) -> None:
    """Otherwise a row of the table would be about another imbalance than it says."""
    stream, again, other = (turning_stream(kind, 5, 0, seed) for seed in (1000, 1000, 1001))
    assert stream.labels.mean() == pytest.approx(0.05, abs=0.005)
    assert np.isfinite(stream.features).all()
    assert stream.features.tobytes() == again.features.tobytes() != other.features.tobytes()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "borderline"])
def test_concepts_change(kind: str) -> None:
    """A stream whose concept stays would say nothing about methods that forget."""
    stream = turning_stream(kind, 5, 0, 1000)
    positive, eighth = stream.labels == 1, np.arange(LENGTH) // 2_500
    means = [stream.features[positive & (eighth == part)].mean(axis=0) for part in (1, 6)]
    spread = stream.features[positive].std(axis=0)
    count = np.count_nonzero(positive & (eighth == 1))
    assert np.abs((means[0] - means[1]) / np.maximum(spread, 0.1)).max() > 4 / np.sqrt(count)


def test_the_first_step_with_both_classes_is_the_first_that_counts() -> None:
    """Otherwise a learner that never predicts a positive would get credit for the time before the first."""
    labels = np.array([0, 0, 0, 1, 0, 1], np.int8)
    stream = Made(np.zeros((6, 1), np.float32), labels, labels)
    assert figures_of(np.zeros(6, np.int8), stream) == (0.0, 0.0)
    assert figures_of(labels, stream) == (1.0, 1.0)


def test_the_page_has_the_table_of_the_committed_figures() -> None:
    """Otherwise the page would say something about RELAY that no committed figure shows."""
    pytest.importorskip("scipy")
    scores = read_results(RESULTS)
    assert set(scores) == set(STREAMS)
    assert all(score.final.shape == (REPETITIONS, len(NAMES)) for score in scores.values())
    tried = read_results(DEVELOPMENT)
    page = (ROOT / "study" / "relay.md").read_text(encoding="utf-8").splitlines()
    assert set(lines_of(scores)) <= set(page)
    assert set(lines_of_development(tried, learners_of(DEVELOPMENT))) <= set(page)
