"""A threshold of alerts: a given share of the examples is class 1, whatever the scores are."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from stream_app.arrays import Floats
from stream_app.config import ThresholdSettings
from stream_app.errors import StateError
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.jit.memory import doubles_at
from stream_app.join.score_bins import BIN_EDGES, BINS, score_bins
from stream_app.pipeline.alert_share import AlertShare, carry_over, threshold_of_share
from stream_app.records import Prediction
from stream_app.verify.reference_alerts import AlertThresholds, bin_of, score_at
from stream_app.verify.reference_state import Predicted

FADING = 0.9995
COUNT = 20_000
DRAW = np.random.default_rng(1)
SCORES = {
    "even": DRAW.random(COUNT),
    "near 0": DRAW.beta(0.05, 3, COUNT),
    "near 1": 1 - DRAW.beta(0.05, 3, COUNT),
    "drifting": np.clip(DRAW.normal(0.2 + 0.5 * np.arange(COUNT) / COUNT, 0.1), 0, 1),
    "rare": np.where(DRAW.random(COUNT) < 0.005, 0.9, 0.1),
    "always 0.3": np.full(COUNT, 0.3),
    "always 0.5": np.full(COUNT, 0.5),
    "always 1": np.ones(COUNT),
}


@compiled_without_refcounts
def _decide(address: int, share: float, scores: Floats, thresholds: Floats) -> None:
    own = doubles_at(address)
    for k in range(len(scores)):
        thresholds[k] = threshold_of_share(own, share, FADING, scores[k])
        carry_over(own, share, 1 if scores[k] > thresholds[k] else 0)


def thresholds_of(scores: Floats, share: float, state: AlertShare | None = None) -> Floats:
    """Return the threshold of each score."""
    thresholds = np.empty(len(scores), np.float32)
    _decide((state or AlertShare()).address, share, scores, thresholds)
    return thresholds


def predictions_of(scores: Floats, thresholds: Floats, share: float) -> Sequence[tuple[Predicted, Prediction]]:
    """Return what `verify` compares: the events of the reference join, and the predictions."""
    wanted = ThresholdSettings(alerts=share)
    found = []
    for number, (score, threshold) in enumerate(zip(scores.tolist(), thresholds.tolist(), strict=True)):
        event = Predicted(number, "s", str(number), "areba", True, 0, number, wanted, number=number + 1, fading=FADING)
        decided = {"threshold_kind": "alerts", "threshold": threshold, "predicted_class": int(score > threshold)}
        content = Prediction("s", str(number), "areba", True, score, score, 0, 0, number)
        found.append((event, replace(content, **decided)))
    return found


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("name", SCORES)
def test_the_share_is_met(name: str, share: float) -> None:
    """Who can look at one example in a hundred must get that many, also of a network that is sure of everything."""
    scores = SCORES[name].astype(np.float32)
    alerts = scores > thresholds_of(scores, share)
    assert alerts.mean() == pytest.approx(share, rel=0.05)
    assert alerts[:200].sum() <= 2 * 200 * share


def test_alerts_have_the_highest_scores() -> None:
    """The share must not be filled with any examples: against the quantile of the last scores, by plain NumPy."""
    scores = SCORES["even"].astype(np.float32)
    thresholds = thresholds_of(scores, 0.05)
    exact = [np.quantile(scores[n - 4_000 : n], 0.95) for n in range(8_000, COUNT, 500)]
    assert thresholds[8_000:COUNT:500] == pytest.approx(exact, abs=0.02)


def test_a_score_of_zero_is_no_alert() -> None:
    """Nothing is below a score of 0, and the alerts that were missed are not made up for without end."""
    scores = np.append(np.zeros(5_000), SCORES["even"][:5_000]).astype(np.float32)
    alerts = scores > thresholds_of(scores, 0.01)
    assert not alerts[:5_000].any()
    assert alerts[5_000:].sum() > 20


@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("name", SCORES)
def test_verify_computes_the_same_thresholds(name: str, share: float) -> None:
    """The reference must accept every true threshold, or operators learn to ignore it."""
    scores = SCORES[name][:3_000].astype(np.float32)
    check = AlertThresholds()
    pairs = predictions_of(scores, thresholds_of(scores, share), share)
    assert [fault for event, found in pairs if (fault := check.fault(event, found))] == []
    assert check.unknown == 0


def test_verify_finds_a_wrong_threshold_once() -> None:
    """One record was changed, so one is named; what follows from it is not known."""
    scores = SCORES["even"][:1_000].astype(np.float32)
    pairs = list(predictions_of(scores, thresholds_of(scores, 0.1), 0.1))
    event, found = pairs[500]
    pairs[500] = event, replace(found, threshold=(found.threshold or 0) - 0.001)
    check = AlertThresholds()
    faults = [fault for event, found in pairs if (fault := check.fault(event, found))]
    assert len(faults) == 1
    assert re.match(r"threshold is 0\.\d+, the scores so far give 0\.\d+", faults[0])
    assert check.unknown == 499


def test_verify_knows_nothing_after_a_gap() -> None:
    """Where predictions were deleted, the counts are not known until the next threshold."""
    scores = SCORES["even"][:300].astype(np.float32)
    pairs = predictions_of(scores, thresholds_of(scores, 0.1), 0.1)
    check = AlertThresholds()
    assert [
        fault for event, found in (*pairs[:100], *pairs[110:], *pairs) if (fault := check.fault(event, found))
    ] == []
    assert check.unknown == 190


def test_the_reference_has_the_same_bins() -> None:
    """Both sides must agree where a bin begins, to the last bit."""
    edges = BIN_EDGES.astype(np.float32)
    near = np.concatenate([np.nextafter(edges, np.float32(0)), edges, np.nextafter(edges, np.float32(1))])
    assert [*map(bin_of, near.tolist())] == score_bins(near).tolist()
    assert [*map(score_at, range(BINS + 1))] == pytest.approx(BIN_EDGES.tolist(), rel=1e-15)


def test_the_state_continues_with_the_same_bits() -> None:
    """A restore decides as before."""
    scores = SCORES["near 1"].astype(np.float32)
    first, second = AlertShare(), AlertShare()
    whole = thresholds_of(scores, 0.1, first)
    begin = AlertShare()
    thresholds_of(scores[:7_777], 0.1, begin)
    second.load(begin.arrays())
    assert thresholds_of(scores[7_777:], 0.1, second).tobytes() == whole[7_777:].tobytes()


@pytest.mark.parametrize(("at", "value"), [(0, 0.0), (1, 33.0), (1, np.nan), (5, -1.0), (5, np.inf)])
def test_a_state_that_cannot_be_is_refused(at: int, value: float) -> None:
    """A damaged snapshot must not decide anything."""
    state = dict(AlertShare().arrays())
    state["alert_scores"][at] = value
    with pytest.raises(StateError, match="alerts"):
        AlertShare().load(state)
