"""Generators of the survey on imbalanced streams (Aguiar, Krawczyk and Cano, Machine Learning 2023).

Each function here is a `source` of an experiment: `study.generators:sea`. They follow the published definitions of the
generators, with the parameters of the survey's scripts (repository canoalberto/imbalanced-streams) and the defaults of
MOA that the scripts leave as they are, such as the noise. Numeric features are divided by their largest value, and
nominal ones become one feature for each value. Class 1, the rare one, is MOA's second class, as in the survey.

Options: `concepts`, the functions (or the seeds of random models) one after another, each for an equal part of the
stream; `width`, the number of examples over which one concept replaces the next (1: at once). Some have more.
"""

from collections.abc import Mapping
from typing import Any

from stream_app.producers.datasets.base import DataSet
from study.generators import clusters as clusters_
from study.generators import models, rules
from study.generators import text as text_
from study.generators.stream import Make, Share, balanced

__all__ = ["agrawal", "asset", "clusters", "hyperplane", "mixed", "random_rbf", "random_tree", "sea", "sine", "text"]

Options = Mapping[str, Any]


def agrawal(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return applications for loans (Agrawal, Imielinski and Swami 1993), functions 1 to 5."""
    return _stream("agrawal", rules.agrawal, length, share, seed, options)


def asset(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return negotiations of assets (Enembreck et al. 2007), functions 1 to 5."""
    return _stream("asset", rules.asset, length, share, seed, options)


def hyperplane(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return points on both sides of a hyperplane (Hulten, Spencer and Domingos 2001), static by default.

    More options: `drifting`, the number of weights that move, and `change`, how far in each example.
    """
    drifting, change = int(options.get("drifting", 0)), float(options.get("change", 0.0))
    make = models.hyperplane(drifting, change)
    return _stream("hyperplane", make, length, share, seed, options)


def mixed(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return two Boolean and two numeric features (Gama et al. 2004), functions 1 and 2."""
    return _stream("mixed", rules.mixed, length, share, seed, options)


def random_rbf(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return points around 50 random centres, each of one class; a concept is the seed of the centres."""
    return _stream("random_rbf", models.random_rbf, length, share, seed, options)


def random_tree(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return points with the classes of a random tree (Domingos and Hulten 2000); a concept is the seed of the tree."""
    return _stream("random_tree", models.random_tree, length, share, seed, options)


def sea(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return the SEA concepts (Street and Kim 2001), functions 1 to 4, with 10 % noise in the labels."""
    return _stream("sea", rules.sea, length, share, seed, options)


def sine(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return the SINE concepts (Gama et al. 2004), functions 1 to 4, with two features without meaning."""
    return _stream("sine", rules.sine, length, share, seed, options)


def clusters(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return positives in a cluster, at its border, in rare triples or alone (Brzezinski et al. 2021).

    More options: `borderline`, `rare` and `outlier`, shares of the positives; the rest lies safely in the cluster.
    """
    kinds = [float(options.get(name, 0.0)) for name in ("borderline", "rare", "outlier")]
    return _stream("clusters", clusters_.clusters(*kinds), length, share, seed, options)


def text(length: int, share: Share, seed: int, options: Options) -> DataSet:
    """Return messages with a sentiment, over 100 words (MOA's generator of texts); a concept is a seed."""
    return _stream("text", text_.text, length, share, seed, options)


def _stream(name: str, make: Make, length: int, share: Share, seed: int, options: Options) -> DataSet:
    concepts = tuple(int(one) for one in options.get("concepts", (1,)))
    return balanced(name, make, length, share, seed, concepts=concepts, width=float(options.get("width", 1)))
