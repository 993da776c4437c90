"""Probabilities mean what they say, and are those of a plain program, also after corrections."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.errors import ErrorCode, StateError
from stream_app.join.score_bins import BIN_CENTRES, BINS, score_bins
from stream_app.pipeline.calibration import Calibration
from stream_app.producers.synthetic import parse_spec, synthetic
from stream_app.testing import InProcess

FADING = 0.999
EVERY, PRIOR = 32, 0.01


def _error(probabilities: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """Return the expected calibration error, over 15 groups of equal size."""
    groups = np.array_split(np.argsort(probabilities, kind="stable"), 15)
    gaps = [abs(probabilities[group].mean() - labels[group].mean()) * len(group) for group in groups]
    return float(sum(gaps) / len(labels))


@pytest.mark.slow(20)
@pytest.mark.parametrize("share", [1, 10])
def test_probabilities_are_calibrated(share: int) -> None:
    """Whoever weighs costs by a probability that is five times too high blocks five customers too many."""
    data = synthetic(parse_spec(f"sine:imbalance={share},length=14000"))
    application = InProcess(
        streams={"s": {"features": 2, "learning_rate": 0.01}}, learners={"areba": {"method": "areba"}}
    )
    for number, (features, label) in enumerate(zip(data.features.tolist(), data.labels.tolist(), strict=True)):
        application.send_example("s", str(number), features)
        application.send_label("s", str(number), label)
    application.run()
    predictions, labels = application.predictions(), data.labels.astype(float)
    probabilities = np.array([prediction.probability for prediction in predictions])
    scores = np.array([prediction.score for prediction in predictions])
    assert _error(scores[10_000:], labels[10_000:]) > 0.015
    assert _error(probabilities[10_000:], labels[10_000:]) < 0.01
    assert application.metrics()[-1].calibration_error == pytest.approx(0, abs=0.015)


class _Plain:
    """The calibration, from its definition: every example that was labelled, with its weight."""

    def __init__(self) -> None:
        self.examples: list[tuple[int, float]] = []  # bin and probability
        self.labels: list[int] = []
        self.map = list(BIN_CENTRES)

    def counts(self) -> NDArray[np.float64]:
        """Return the weight of the labels of each class in each bin, `[2, BINS]`, the newest label having weight 1."""
        counts = np.zeros((2, BINS))
        for age, ((row, _), label) in enumerate(zip(reversed(self.examples), reversed(self.labels), strict=True)):
            counts[label, row] += FADING**age
        return counts

    def learn(self, row: int, probability: float, label: int) -> None:
        """Add a label; every 32nd makes a new map."""
        self.examples.append((row, probability))
        self.labels.append(label)
        if len(self.labels) % EVERY == 0:
            zeros, ones = self.counts()
            weights = zeros + ones + PRIOR
            shares = (ones + PRIOR * BIN_CENTRES) / weights
            for row_ in range(BINS):  # isotonic regression as a minimum of maxima
                upper = [
                    max(
                        np.average(shares[first : last + 1], weights=weights[first : last + 1])
                        for first in range(row_ + 1)
                    )
                    for last in range(row_, BINS)
                ]
                self.map[row_] = min(upper)

    def probability(self, score: float) -> float:
        """Interpolate between the centres of the bins, in the part of a bin that lies below the score."""
        row = int(score_bins(np.array([score], np.float32))[0])
        near = score if row < 32 else 1 - score
        distance = 31 - row if row < 32 else row - 32
        low = (0.25 if distance % 2 else 0.375) * 2.0 ** -(distance // 2)
        part = min(max((near - low) / (0.125 * 2.0 ** -(distance // 2)), 0.0), 1.0)
        place = min(max(row + (part if row < 32 else 1 - part) - 0.5, 0.0), BINS - 1.0)
        return float(np.interp(place, np.arange(BINS), self.map))

    def error(self) -> float:
        """Return the calibration error over groups of bins."""
        counts, gaps = self.counts(), np.zeros(BINS)
        for age, ((row, probability), label) in enumerate(
            zip(reversed(self.examples), reversed(self.labels), strict=True)
        ):
            gaps[row] += FADING**age * (probability - label)
        shares = np.cumsum(counts.sum(0)) / counts.sum()
        groups = np.floor(np.concatenate([[0.0], shares[:-1]]) * 15 + 1e-9)
        return float(sum(abs(gaps[groups == group].sum()) for group in set(groups)) / counts.sum())


def test_probabilities_are_those_of_a_plain_program() -> None:
    """The compiled code shares nothing with the definition; corrections move an example, and nothing else."""
    draws = random.Random(3)
    application = InProcess(
        streams={"s": {"features": 1, "learning_rate": 0.05}},
        learners={"areba": {"method": "areba"}},
        join={"corrections": "correct"},
        metrics={"every_labels": 40, "prevalence_fading_factor": FADING},
    )
    sent: list[tuple[str, int]] = []
    for number in range(400):
        label = int(draws.random() < 0.2)
        application.send_example("s", str(number), [draws.gauss(1.5 * label, 1.0)])
        application.send_label("s", str(number), label)
        sent.append((str(number), label))
        if number % 9 == 8:
            id_ = str(number - draws.randrange(8))
            label = 1 - next(known for name, known in reversed(sent) if name == id_)
            application.send_label("s", id_, label, revision=len(sent))
            sent.append((id_, label))
    application.run()
    plain, given = _Plain(), {prediction.id: prediction for prediction in application.predictions()}
    seen: dict[str, int] = {}
    errors = []
    for id_, label in sent:
        prediction = given[id_]
        if id_ in seen:
            plain.labels[seen[id_]] = label
            continue
        assert prediction.probability == pytest.approx(plain.probability(prediction.score), rel=1e-5, abs=1e-9)
        seen[id_] = len(plain.labels)
        plain.learn(int(score_bins(np.array([prediction.score], np.float32))[0]), prediction.probability, label)
        if len(plain.labels) % 40 == 0:
            errors.append(plain.error())
    assert [metric.calibration_error for metric in application.metrics()] == pytest.approx(errors, rel=1e-4)
    scored = {outcome.id: outcome.probability for outcome in application.outcomes() if outcome.outcome == "joined"}
    assert scored == {id_: prediction.probability for id_, prediction in given.items()}


def test_a_damaged_calibration_is_refused() -> None:
    """A probability above 1, or NaN, would reach the decisions of others."""
    for change in (
        {"calibration": np.zeros(3)},
        {},
        {"calibration": np.full(258, 2.0)},
        {"calibration": np.zeros(258)},
    ):
        with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
            Calibration().load(change)
    calibration = Calibration()
    calibration.load(Calibration().arrays())
    assert calibration.error is None
