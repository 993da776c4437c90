"""Mixtures of RELAY with other members."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from study.relay import verdicts
from study.relay_members import MEMBERS, MIXTURES, RESULTS, Mixture, mixed, read, scores_by, threshold
from study.unseen_streams import Made

pytest.importorskip("scipy")

EVEN = Mixture({"relay": 1.0, "short": 1.0})


def _stream(count: int = 400) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    random = np.random.default_rng(3)
    labels = (random.random(count) < 0.2).astype(np.int8)
    right = np.where(labels == 1, 0.9, 0.1)
    return np.stack([right, 1.0 - right]), labels


@pytest.mark.parametrize("delay", [0, 7])
def test_mixture_follows_the_member_that_is_right(delay: int) -> None:
    """Otherwise the study would judge members by a mixture that does not prefer the better one."""
    scores, labels = _stream()
    found = mixed(scores, labels, delay, EVEN)
    assert ((found[100:] > 0.5) == (labels[100:] == 1)).all()
    assert found[0] == pytest.approx(0.5)


@pytest.mark.parametrize("delay", [0, 7])
def test_mixture_knows_no_label_before_it_has_come(delay: int) -> None:
    """Otherwise the study would report figures that no learner can reach."""
    scores, labels = _stream()
    changed, at = labels.copy(), 50
    changed[at] = 1 - changed[at]
    before, after = (mixed(scores, own, delay, EVEN) for own in (labels, changed))
    moved_before, moved_after = (threshold(own, delay) for own in (labels, changed))
    assert (before[: at + delay + 1] == after[: at + delay + 1]).all()
    assert before[at + delay + 1] != after[at + delay + 1]
    assert (moved_before[: at + delay + 1] == moved_after[: at + delay + 1]).all()
    assert moved_before[at + delay + 1] != moved_after[at + delay + 1]


def test_moved_threshold_ends_near_a_half() -> None:
    """Otherwise the attempt for the first positives would change all later predictions, too."""
    lowered = threshold(np.ones(1_001, np.int8), 0)
    assert lowered[0] == pytest.approx(0.3)
    assert lowered[10] == pytest.approx(0.4)
    assert lowered[1_000] == pytest.approx(0.5, abs=0.002)


def test_members_learn_and_differ() -> None:
    """Otherwise a member could be RELAY under another name, and its study would be void."""
    random = np.random.default_rng(4)
    labels = (random.random(600) < 0.2).astype(np.int8)
    features = (random.normal(size=(600, 3)) + 2.0 * labels[:, None]).astype(np.float32)
    stream, seed = Made(features, labels, labels), bytes(32)
    scores = {name: scores_by(one, stream, seed) for name, one in MEMBERS.items()}
    again = scores_by(LearnerSettings(method="relay"), stream, seed)
    assert (scores["relay"] == again).all()
    for name, one in scores.items():
        right = (one > 0.5) == (labels == 1)
        assert min(right[300:][labels[300:] == k].mean() for k in range(2)) > 0.8, name
        assert name == "relay" or (one != scores["relay"]).any()
    assert all(set(mixture.priors) <= set(MEMBERS) for mixture in MIXTURES.values())


def test_the_registered_rule_keeps_the_linear_member_alone() -> None:
    """Otherwise relay.md would say something about the members that the committed figures do not show."""
    figures = read(RESULTS, "unseen")
    assert len(figures) == 36
    means = {name: np.mean([own[name][:, 1].mean() for own in figures.values()]) for name in MIXTURES}
    for name in ("relay_short", "relay_linear", "all"):
        found = verdicts([np.column_stack([own["relay"][:, 1], own[name][:, 1]]) for own in figures.values()])
        counts = [sum(one.result == result for one in found) for result in ("better", "worse")]
        assert means[name] > means["relay"]
        assert counts == [3 if name == "relay_short" else 9, 0]
    assert means["all"] == max(means["relay_short"], means["relay_linear"], means["all"])
    assert means["all"] - means["relay_linear"] < 0.002 < means["all"] - means["relay_short"]


def test_with_gates_both_members_pass() -> None:
    """Otherwise relay.md would say something about the members beside gates that the committed figures do not show."""
    figures = read(RESULTS.with_name("relay_members_gated.csv"), "unseen")
    assert len(figures) == 36
    means = {name: np.mean([own[name][:, 1].mean() for own in figures.values()]) for name in MIXTURES}
    found = {
        name: verdicts([np.column_stack([own["relay"][:, 1], own[name][:, 1]]) for own in figures.values()])
        for name in ("relay_linear", "all", "slow")
    }
    counts = {
        name: [sum(one.result == result for one in own) for result in ("better", "worse")]
        for name, own in found.items()
    }
    assert counts == {"relay_linear": [4, 0], "all": [5, 0], "slow": [6, 6]}
    assert means["relay"] < means["relay_linear"] < means["all"] - 0.002
