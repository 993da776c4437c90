"""Which predictions the page names, and what it says of probabilities."""

import random

import pytest

from stream_app.dashboard.decisions import MAX_SHOWN, StreamDecisions
from stream_app.records import Outcome, Prediction, ThresholdKind

SEED = 3


def _predict(decisions: StreamDecisions, id_: str, probability: float, *, champion: bool = True) -> None:
    decided = int(probability > 0.5)
    numbers = (0.7, probability, decided, 1, 1_000)
    decisions.add_prediction(Prediction("s", id_, "areba", champion, *numbers, ThresholdKind.PROBABILITY.text, 0.5))


def _settle(decisions: StreamDecisions, id_: str, probability: float, label: int) -> None:
    decided = int(probability > 0.5)
    decisions.add_outcome(Outcome("s", id_, "joined", label, "areba", 0.7, probability, decided, 5, 0, 0, 2_000))


def _correct(decisions: StreamDecisions, id_: str, label: int) -> None:
    decisions.add_outcome(Outcome("s", id_, "correction", label, None, None, None, None, None, None, 1, 3_000))


@pytest.mark.parametrize("outcome_first", [True, False])
def test_an_alert_says_whether_it_was_right(outcome_first: bool) -> None:
    """Two topics have no common order: a reader may see an outcome before its prediction."""
    decisions = StreamDecisions()
    for id_, label in (("a", 1), ("b", 0)):
        if outcome_first:
            _settle(decisions, id_, 0.9, label)
        _predict(decisions, id_, 0.9)
        if not outcome_first:
            _settle(decisions, id_, 0.9, label)
    _predict(decisions, "open", 0.8)
    _predict(decisions, "quiet", 0.1)
    _predict(decisions, "challenger", 0.9, champion=False)
    assert [(one.id, one.label) for one in decisions.alerts()] == [("open", None), ("b", 0), ("a", 1)]
    _correct(decisions, "b", 1)
    assert decisions.alerts()[1].label == 1


def test_what_was_missed() -> None:
    """The examples that were let pass are those that a person learns from; a corrected label takes one back."""
    decisions = StreamDecisions()
    _settle(decisions, "missed", 0.2, 1)
    _settle(decisions, "caught", 0.9, 1)
    _settle(decisions, "genuine", 0.2, 0)
    _settle(decisions, "mistaken", 0.3, 1)
    assert [one.id for one in decisions.missed()] == ["mistaken", "missed"]
    _correct(decisions, "mistaken", 0)
    assert [(one.id, one.probability) for one in decisions.missed()] == [("missed", 0.2)]


def test_only_the_newest_are_kept() -> None:
    """A page that is left open for a month must not take the machine's memory."""
    decisions = StreamDecisions()
    for number in range(10 * MAX_SHOWN):
        _predict(decisions, f"alert-{number}", 0.9)
        _settle(decisions, f"missed-{number}", 0.1, 1)
        _settle(decisions, f"early-{number}", 0.9, 1)
    assert [one.id for one in decisions.alerts()] == [f"alert-{10 * MAX_SHOWN - 1 - k}" for k in range(MAX_SHOWN)]
    assert len(decisions.missed()) == len(decisions._early) == MAX_SHOWN


def test_reliability_is_the_share_of_class_1_by_probability() -> None:
    """A probability that says 30 % while 60 % are positive must be seen."""
    draws = random.Random(SEED)
    decisions = StreamDecisions()
    for number in range(20_000):
        probability = draws.random() ** 3
        truth = 2 * probability if 0.2 < probability <= 0.5 else probability
        _settle(decisions, str(number), probability, int(draws.random() < truth))
    groups = {group.high: group for group in decisions.reliability()}
    assert sum(group.labels for group in groups.values()) == pytest.approx(2_000, rel=0.01)
    for high, factor in ((0.05, 1.0), (0.2, 1.0), (0.5, 2.0), (0.8, 1.0), (1.0, 1.0)):
        group = groups[high]
        assert group.probability is not None
        assert group.share is not None
        assert group.low < group.probability <= group.high
        assert group.share == pytest.approx(factor * group.probability, abs=0.08)


def test_without_labels_nothing_is_said() -> None:
    """A share of nothing is not 0."""
    assert {(group.labels, group.share) for group in StreamDecisions().reliability()} == {(0.0, None)}
