"""Generators whose classes follow a random model: a hyperplane, centres, a tree. A concept is the model's seed."""

from dataclasses import dataclass

import numpy as np

from stream_app.producers.draws import Draws
from study.generators.rules import one_hot
from study.generators.stream import Booleans, Doubles, Make, standard_normal

FEATURES = 10
HYPERPLANE_NOISE = 0.05
"""Share of labels that are flipped, and the probability that a moving weight turns back (MOA's defaults)."""

TURNS_BACK = 0.1
CENTRES = 50

NOMINALS, NUMERICS, VALUES = 5, 5, 5
MAX_DEPTH, FIRST_LEAF_LEVEL, LEAF_SHARE = 5, 3, 0.15
"""The tree's shape (MOA's defaults)."""


def hyperplane(drifting: int, change: float) -> Make:
    """Return a generator of points of the unit cube, of class 1 if their weighted sum reaches half of all weights.

    Args:
        drifting: The number of weights that move.
        change: The distance that a weight moves in each example; it turns back with the probability 0.1.
    """

    def make(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
        features = Draws("study", *names, "features").uniforms(0, count * FEATURES).reshape(count, FEATURES)
        weights = np.tile(Draws("study", "hyperplane", concept, "model").uniforms(0, FEATURES), (count, 1))
        turns = Draws("study", *names, "turns").uniforms(0, count * FEATURES).reshape(count, FEATURES) < TURNS_BACK
        signs = np.where(np.cumsum(turns[:, :drifting], axis=0) % 2, -1.0, 1.0)
        moves = np.cumsum(change * signs, axis=0)
        weights[1:, :drifting] += moves[:-1]
        labels = (weights * features).sum(axis=1) >= 0.5 * weights.sum(axis=1)
        return features, labels ^ (Draws("study", *names, "noise").uniforms(0, count) < HYPERPLANE_NOISE)

    return make


def random_rbf(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return points at a normal distance, in a random direction, from a centre; see `stream.Make`."""
    model = Draws("study", "random_rbf", concept, "model").uniforms(0, CENTRES * (FEATURES + 3))
    model = model.reshape(CENTRES, FEATURES + 3)
    centres, deviations, weights, classes = model[:, :FEATURES], model[:, -3], model[:, -2], model[:, -1] < 0.5
    width = FEATURES + 3
    table = Draws("study", *names, "features").uniforms(0, count * width).reshape(count, width)
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), table[:, -3], side="right").clip(max=CENTRES - 1)
    directions = 2.0 * table[:, :FEATURES] - 1.0
    directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
    normal = standard_normal(table[:, -2], table[:, -1])
    return centres[chosen] + directions * (normal * deviations[chosen])[:, None], classes[chosen]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a random tree.

    Attributes:
        label: The class of a leaf.
        column: The feature that an inner node splits; numeric features come after the nominal ones.
        threshold: Where a numeric feature is split.
        children: Nodes by the value of a nominal feature, or below and above the threshold; empty: a leaf.
    """

    label: bool
    column: int = 0
    threshold: float = 0.0
    children: tuple["Node", ...] = ()


def tree_of(seed: int) -> Node:
    """Return a random tree. A nominal feature occurs once on a path; a numeric one is split within its bounds."""
    words = iter(Draws("study", "random_tree", seed, "model").uniforms(0, 100_000).tolist())

    def grow(depth: int, nominals: tuple[int, ...], low: tuple[float, ...], high: tuple[float, ...]) -> Node:
        if depth >= MAX_DEPTH or (depth >= FIRST_LEAF_LEVEL and next(words) < LEAF_SHARE):
            return Node(label=next(words) < 0.5)
        place = int(next(words) * (len(nominals) + NUMERICS))
        if place < len(nominals):
            rest = nominals[:place] + nominals[place + 1 :]
            children = tuple([grow(depth + 1, rest, low, high) for _ in range(VALUES)])
            return Node(label=False, column=nominals[place], children=children)
        number = place - len(nominals)
        cut = low[number] + next(words) * (high[number] - low[number])
        below = grow(depth + 1, nominals, low, (*high[:number], cut, *high[number + 1 :]))
        above = grow(depth + 1, nominals, (*low[:number], cut, *low[number + 1 :]), high)
        return Node(label=False, column=NOMINALS + number, threshold=cut, children=(below, above))

    return grow(0, tuple(range(NOMINALS)), (0.0,) * NUMERICS, (1.0,) * NUMERICS)


def random_tree(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return five nominal features as 25, and five numeric ones; see `stream.Make`."""
    width = NOMINALS + NUMERICS
    table = Draws("study", *names, "features").uniforms(0, count * width).reshape(count, width)
    codes = (table[:, :NOMINALS] * VALUES).astype(np.int64)
    labels = np.zeros(count, np.bool_)
    stack = [(tree_of(concept), np.arange(count))]
    while stack:
        node, rows = stack.pop()
        if not node.children:
            labels[rows] = node.label
            continue
        nominal = node.column < NOMINALS
        way = codes[rows, node.column] if nominal else (table[rows, node.column] >= node.threshold).astype(np.int64)
        stack += [(child, rows[way == number]) for number, child in enumerate(node.children)]
    return np.hstack([*(one_hot(codes[:, k], VALUES) for k in range(NOMINALS)), table[:, NOMINALS:]]), labels
