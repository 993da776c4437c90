"""The synthetic streams are the paper's, with the same bytes on every machine."""

import hashlib
import math

import numpy as np
import pytest

from stream_app.errors import DataSetError
from stream_app.producers.arithmetic import exponential, logarithm, normal, sine_of_turns
from stream_app.producers.draws import Draws
from stream_app.producers.synthetic import (
    LIKELIHOOD_THRESHOLDS,
    Drift,
    SyntheticSpec,
    generate,
    in_positive_region,
    parse_spec,
    spec_text,
    synthetic,
)

GOLDEN = {
    "sine:length=5000": "03c94fe98edc878ccbd88dce653e4225af3c4100e4d22214337c204be7998100",
    "sine:length=5000,drift=posterior,seed=7": "c9d0963fc93ddcd8dc3cd791462b8abbbaea7bc7ecb8d6c7e3c090c277dd749f",
    "circle:length=5000,drift=likelihood,imbalance=10": (
        "6f7f3d156afbfda337c68f09397c80659715488723be96323fa31e7e19fe93f8"
    ),
    "sea:length=5000,drift=prior,noise=0.1,imbalance=0.1": (
        "d1e218957578311e9e504007ada833336b38e5f4b9bd3e8fec6e7fb154d94a2f"
    ),
}

CONCEPTS = ("sine", "circle", "sea")


@pytest.mark.parametrize("text", GOLDEN)
def test_a_seed_gives_the_same_bytes_everywhere(text: str) -> None:
    """Results of two machines could not be compared if their streams differed."""
    piece = generate(parse_spec(text), 0, 5_000)
    content = piece.features.astype("<f4").tobytes() + piece.labels.tobytes()
    assert hashlib.sha256(content).hexdigest() == GOLDEN[text]


def test_random_words_are_those_of_philox() -> None:
    """A change of NumPy that gave other words would change every seeded result unnoticed."""
    words = [0x5B891EDCF28A5124, 0xF1393992515E61C7, 0x4239D75E29D78CE8]
    assert Draws("golden", 7).words(5, 3).tolist() == words
    assert Draws("golden", 8).words(5, 3).tolist() != words


@pytest.mark.parametrize(("imbalance", "share"), [(10.0, 0.1), (1.0, 0.01), (0.1, 0.001)])
@pytest.mark.parametrize("concept", CONCEPTS)
def test_imbalance_is_the_share_of_positives(concept: str, imbalance: float, share: float) -> None:
    """The shares are the paper's three levels, within four standard deviations."""
    labels = synthetic(SyntheticSpec(concept, length=200_000, imbalance=imbalance)).labels
    assert abs(labels.mean() - share) < 4 * math.sqrt(share / len(labels))


def _truth(concept: str, x1: float, x2: float) -> bool:
    """Decide the class by the paper's definitions, in its own ranges, with the C library's sine."""
    if concept == "sine":
        return 2 * x2 - 1 < math.sin(2 * math.pi * x1)
    if concept == "circle":
        return math.dist((x1, x2), (0.4, 0.5)) <= 0.2
    return 10 * x1 + 10 * x2 <= 7


@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_point_is_in_the_region_of_its_class(concept: str) -> None:
    """A point on the wrong side would be noise that was not requested."""
    data = synthetic(SyntheticSpec(concept, length=5_000, imbalance=50.0))
    truth = [_truth(concept, float(x1), float(x2)) for x1, x2 in data.features]
    assert (data.labels == truth).all()
    assert data.features.min() >= 0.0
    assert data.features.max() < 1.0
    assert data.clean_labels is None


@pytest.mark.parametrize("concept", CONCEPTS)
def test_points_fill_their_region_evenly(concept: str) -> None:
    """The paper draws uniformly: each quarter of the square gets positives in proportion to the region's area there."""
    data = synthetic(SyntheticSpec(concept, length=40_000, imbalance=50.0))
    axis = (np.arange(1_000) + 0.5) / 1_000
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    region = grid[in_positive_region(concept, grid[:, 0], grid[:, 1])]
    positives = data.features[data.labels == 1]
    for low in (0.0, 0.5):
        for column in (0, 1):
            expected = ((region[:, column] >= low) & (region[:, column] < low + 0.5)).mean()
            found = ((positives[:, column] >= low) & (positives[:, column] < low + 0.5)).mean()
            assert abs(found - expected) < 0.02


def test_prior_drift_turns_the_imbalance_round() -> None:
    """Before the drift 1 % is positive, after it 99 % (the paper's equation for p(y))."""
    labels = synthetic(parse_spec("sine:drift=prior,length=40000,drift_at=10000")).labels
    assert abs(labels[:10_000].mean() - 0.01) < 0.005
    assert abs(labels[10_000:].mean() - 0.99) < 0.005


@pytest.mark.parametrize("concept", CONCEPTS)
def test_likelihood_drift_moves_the_negatives_only(concept: str) -> None:
    """p(x1 < threshold | y=0) goes from 0.9 to 0.1; the border and the positives stay."""
    data = synthetic(SyntheticSpec(concept, length=40_000, imbalance=30.0, drift=Drift.LIKELIHOOD))
    low = data.features[:, 0] < LIKELIHOOD_THRESHOLDS[concept]
    half = np.arange(len(data)) < 20_000
    negative = data.labels == 0
    assert abs(low[half & negative].mean() - 0.9) < 0.01
    assert abs(low[~half & negative].mean() - 0.1) < 0.01
    assert abs(low[half & ~negative].mean() - low[~half & ~negative].mean()) < 0.03
    assert (in_positive_region(concept, *data.features.T.astype(np.float64)) == ~negative).all()


@pytest.mark.parametrize("concept", CONCEPTS)
def test_posterior_drift_swaps_the_regions(concept: str) -> None:
    """What was positive becomes negative; the share of positives stays."""
    data = synthetic(SyntheticSpec(concept, length=40_000, imbalance=10.0, drift=Drift.POSTERIOR, drift_at=15_000))
    inside = in_positive_region(concept, *data.features.T.astype(np.float64))
    assert (inside[:15_000] == data.labels[:15_000]).all()
    assert (inside[15_000:] != data.labels[15_000:]).all()
    assert abs(data.labels[15_000:].mean() - 0.1) < 0.01
    assert (data.drift_kind, data.drift_step) == ("posterior", 15_000)


def test_noise_turns_labels_and_keeps_the_truth() -> None:
    """The study scores against the truth and trains on the labels that were sent."""
    data = synthetic(parse_spec("sea:noise=0.1,length=40000,imbalance=10"))
    assert data.clean_labels is not None
    assert abs((data.labels != data.clean_labels).mean() - 0.1) < 0.01
    assert (data.clean_labels == in_positive_region("sea", *data.features.T.astype(np.float64))).all()


def test_a_prefix_forgets_a_drift_that_it_does_not_reach() -> None:
    """A report must not mark a drift that was never sent."""
    data = synthetic(parse_spec("sine:drift=prior,length=100"))
    assert data.prefix(51).drift_step == 50
    assert data.prefix(50).drift_step is None
    assert data.prefix(50).drift_kind is None


def test_spec_text_reads_back() -> None:
    """The manifest names a stream by this text; it must make the same stream."""
    spec = SyntheticSpec("circle", 100, 0.1, Drift.LIKELIHOOD, 40, 0.25, 9)
    assert parse_spec(spec_text(spec)) == spec
    assert spec_text(parse_spec("sine")) == "sine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sinus", "no such synthetic stream"),
        ("sine:lenght=5", "did you mean length?"),
        ("sine:length=many", "length=many is not a value"),
        ("sine:drift=sudden", "known: none, prior, likelihood, posterior"),
        ("sine:length=0", "length: 0 must be from 1 to"),
        ("sine:imbalance=100", "between 0 and 100"),
        ("sine:noise=1", "noise: 1 must be from 0"),
        ("sine:drift=prior,length=10,drift_at=10", "an example of the stream"),
        ("sine:drift_at=10", "needs a drift"),
    ],
)
def test_wrong_specs_are_refused(text: str, message: str) -> None:
    """A mistyped option that was ignored would give another experiment than the requested one."""
    with pytest.raises(DataSetError, match=message):
        parse_spec(text)


def test_arithmetic_agrees_with_the_c_library() -> None:
    """Our functions replace the library's, and equal them up to the last bits."""
    turns = np.linspace(0, 1, 10_001)
    assert np.abs(sine_of_turns(turns) - np.sin(2 * np.pi * turns)).max() < 1e-15
    powers = np.linspace(-40, 40, 10_001)
    assert np.abs(exponential(powers) / np.exp(powers) - 1).max() < 1e-14
    values = np.exp(powers)
    assert np.abs(logarithm(values) - np.log(values)).max() < 1e-14


def test_normal_numbers_are_normal() -> None:
    """Log-normal delays depend on them: mean 0, deviation 1, 2.5 % beyond 1.96."""
    draws = Draws("test", "normal").uniforms(0, 200_000).reshape(2, -1)
    numbers = normal(draws[0], draws[1])
    assert abs(numbers.mean()) < 0.01
    assert abs(numbers.std() - 1) < 0.01
    assert abs((numbers > 1.96).mean() - 0.025) < 0.002
