"""The survey's generators: their classes are those of River's implementations of the same definitions.

River exchanges the two features of Sine, and its class 1 of Sine and Agrawal is MOA's first class.
"""

from typing import Any

import numpy as np
import pytest

from stream_app.producers.datasets.base import DataSet
from study import generators
from study.generators import models, rules
from study.generators.clusters import cluster_of, inside
from study.generators.text import polarities
from study.generators.text import text as messages

synth = pytest.importorskip("river.datasets.synth", reason="the optional extra `study` is not installed")

NAMES = ("sea", "sine", "mixed", "asset", "agrawal", "hyperplane", "random_rbf", "random_tree", "clusters", "text")
ROWS = 2_000


def _uniforms(columns: int) -> Any:  # noqa: ANN401  (float64 `[ROWS, columns]`)
    return np.random.default_rng(0).random((ROWS, columns))


def _made(name: str, length: int = 3_000, share: float = 0.1, seed: int = 0, **options: Any) -> DataSet:  # noqa: ANN401
    data: DataSet = getattr(generators, name)(length, share, seed, options)
    return data


@pytest.mark.parametrize("concept", [1, 2, 3, 4])
def test_sea_and_sine_have_the_published_classes(concept: int) -> None:
    """With another rule, the figures would not be comparable with any other study on SEA and SINE."""
    points = 10.0 * _uniforms(3)
    theirs = synth.SEA(variant=concept - 1)
    expected = points[:, 0] + points[:, 1] > theirs._threshold
    assert (rules.labels_of_sea(concept, points) == expected).all()
    points = _uniforms(2)
    rule = synth.Sine(classification_function=concept - 1)._functions[concept - 1]
    assert rules.labels_of_sine(concept, points).tolist() == [not rule(y, x) for x, y in points]


@pytest.mark.parametrize("concept", [1, 2])
def test_mixed_has_the_published_classes(concept: int) -> None:
    """As above, for the two functions of Mixed."""
    points = _uniforms(4)
    points[:, :2] = points[:, :2] < 0.5
    rule = synth.Mixed(classification_function=concept - 1)._functions[concept - 1]
    assert rules.labels_of_mixed(concept, points).tolist() == [bool(rule(*point)) for point in points]


@pytest.mark.parametrize("concept", [1, 2, 3, 4])
def test_agrawal_has_the_published_classes(concept: int) -> None:
    """As above, for four of the five functions that the survey uses; River's fifth compares loans with salaries."""
    numbers = rules.LOWEST + _uniforms(6) * (rules.HIGHEST - rules.LOWEST)
    numbers[:, rules.AGE] = np.floor(numbers[:, rules.AGE])
    level = np.random.default_rng(1).integers(0, rules.LEVELS, ROWS)
    rule = synth.Agrawal(classification_function=concept - 1)._classification_functions[concept - 1]
    expected = [
        not rule(row[0], row[1], row[2], education, 0, 0, row[3], row[4], row[5])
        for row, education in zip(numbers.tolist(), level.tolist(), strict=True)
    ]
    assert rules.labels_of_agrawal(concept, numbers, level).tolist() == expected


def test_the_fifth_function_of_agrawal_decides_by_the_loan() -> None:
    """As above: at 30 years with a salary of 60,000, loans from 100,000 to 300,000 are group A."""
    loans = (99_000.0, 100_000.0, 300_000.0, 301_000.0)
    numbers = np.array([[60_000.0, 10_000.0, 30.0, 100_000.0, 1.0, loan] for loan in loans])
    assert rules.labels_of_agrawal(5, numbers, np.zeros(4, np.int64)).tolist() == [True, False, False, True]
    numbers[:, rules.SALARY] = 20_000.0
    assert rules.labels_of_agrawal(5, numbers, np.zeros(4, np.int64)).tolist() == [True, True, False, False]


def test_an_offer_is_interesting_if_it_fulfils_an_alternative() -> None:
    """A wrong code would make the asset's concepts unlearnable, or another concept."""
    offer = np.array([[rules.BROWN, rules.VERY_LOW, 5, 5, rules.HIGH], [rules.BROWN, rules.VERY_LOW, 5, 5, rules.LOW]])
    assert rules.labels_of_asset(1, offer).tolist() == [False, True]
    assert rules.labels_of_asset(2, np.array([[0, rules.HIGH, 8, rules.VERY_HIGH, rules.HIGH]])).tolist() == [False]


def test_a_tree_splits_a_nominal_feature_once_on_a_path() -> None:
    """Otherwise a leaf could never be reached, and the tree would be simpler than the published one."""
    stack: list[tuple[models.Node, tuple[int, ...]]] = [(models.tree_of(1), ())]
    depths = []
    while stack:
        node, path = stack.pop()
        if not node.children:
            depths.append(len(path))
        elif node.column < models.NOMINALS:
            assert node.column not in path
            assert len(node.children) == models.VALUES
        stack += [(child, (*path, node.column)) for child in node.children]
    assert models.FIRST_LEAF_LEVEL <= min(depths) <= max(depths) == models.MAX_DEPTH


@pytest.mark.parametrize("name", NAMES)
def test_a_longer_stream_begins_with_the_shorter(name: str) -> None:
    """A prefix on which settings are chosen is the beginning of the stream; other seeds give other examples."""
    long, short = _made(name, 1_500), _made(name, 900)
    assert np.array_equal(long.features[:900], short.features)
    assert np.array_equal(long.labels[:900], short.labels)
    assert not np.array_equal(_made(name, 900, seed=1).features, short.features)
    assert abs(long.labels.mean() - 0.1) < 0.03
    assert np.isfinite(long.features).all()


def test_the_sentiment_of_a_message_is_that_of_most_of_its_polar_words() -> None:
    """A message with one polar word has that word's class; with words of one polarity alone, the class follows."""
    features, negative = messages(2, ("x",), 5_000)
    polarity = polarities(2)
    has_positive, has_negative = (np.any(features[:, polarity == sign], axis=1) for sign in (1, -1))
    alone = np.logical_xor(has_positive, has_negative)
    assert 0.1 < alone.mean() < 0.9
    assert np.array_equal(negative[alone], has_negative[alone])
    assert np.logical_or(has_positive, has_negative).all(), "every message has a sentiment"


def test_the_rare_class_becomes_the_frequent_one() -> None:
    """A share for each example is what makes such a stream."""
    shares = np.repeat([0.02, 0.98], 2_000)
    data = generators.sine(4_000, shares, 0, {})
    assert [round(float(part.mean()), 1) for part in (data.labels[:2_000], data.labels[2_000:])] == [0.0, 1.0]
    assert rules.labels_of_sine(1, data.features.astype(np.float64)).tolist() == (data.labels == 1).tolist()


def test_concepts_follow_one_another() -> None:
    """Without the drift a stream that is called drifting would be stationary."""
    points = _made("sine", 2_000, 0.5, concepts=[1, 2])
    wrong = rules.labels_of_sine(1, points.features.astype(np.float64)) != (points.labels == 1)
    assert not wrong[:1_000].any()
    assert wrong[1_000:].mean() > 0.99
    slow = _made("sine", 2_000, 0.5, concepts=[1, 2], width=1_000)
    wrong = rules.labels_of_sine(1, slow.features.astype(np.float64)) != (slow.labels == 1)
    assert 0.02 < wrong[:1_000].mean() < 0.5 < wrong[1_000:].mean() < 0.98


def test_positives_lie_where_their_kind_says() -> None:
    """Difficult positives must be difficult: borderline ones around the cluster, rare ones far away in threes."""
    centre, radii, border = cluster_of(1)
    safe = _made("clusters")
    assert inside(safe.features[safe.labels == 1].astype(np.float64), centre, radii).all()
    assert not inside(safe.features[safe.labels == 0].astype(np.float64), centre, radii * 0.999).any()
    borderline = _made("clusters", borderline=1.0)
    points = borderline.features[borderline.labels == 1].astype(np.float64)
    assert not inside(points, centre, radii * 0.999).any()
    assert inside(points, centre, (radii + border) * 1.001).all()
    rare = _made("clusters", rare=1.0)
    triples = rare.features[rare.labels == 1][:99].reshape(33, 3, -1)
    assert (np.abs(np.diff(triples, axis=1)) <= 0.0201).all()
    assert (np.abs(triples[1:, 0] - triples[:-1, 2]).max(axis=1) > 0.03).mean() > 0.9
