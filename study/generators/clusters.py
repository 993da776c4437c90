"""Positives in a cluster of a cube of negatives, with borderline, rare and outlying positives (Brzezinski et al. 2021).

The cluster is an ellipsoid; a shell around it is its border. Rare positives come in triples that lie close together,
outside twice the border; outliers are alone there. Negatives are everywhere but in the ellipsoid. Widths and radii are
those of the survey's generator, whose ellipsoid measures distances in another norm than ours (Euclidean).
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.draws import Draws
from study.generators.stream import Booleans, Doubles, Make

FEATURES = 5
RARE_TOGETHER, RARE_STEP = 3, 0.02
"""Rare positives that lie together, and the largest step from one to the next in each feature."""

POSITIVE_SHARE = 0.1
"""Share of the candidates that are positive; the stream takes as many of each class as it needs."""

TRIES = 256
"""Candidates for a point of the ellipsoid, which fills 16 % of its box, or of the border."""


def cluster_of(seed: int) -> tuple[Doubles, Doubles, float]:
    """Return the centre and the radii of a cluster, float64 `[5]`, and the width of its border."""
    words = Draws("study", "clusters", seed, "model").uniforms(0, 2 * FEATURES + 1)
    cap = 0.25 ** (1.0 / FEATURES)
    radii = cap / 2.0 * (1.0 + words[:FEATURES])
    return words[FEATURES:-1] - 0.5, radii, float((0.3 + 0.3 * words[-1]) * radii.mean())


def inside(points: Doubles, centre: Doubles, radii: Doubles) -> Booleans:
    """Return which points `[..., 5]` lie in the ellipsoid."""
    result: Booleans = (((points - centre) / radii) ** 2).sum(axis=-1) < 1.0
    return result


def clusters(borderline: float, rare: float, outlier: float) -> Make:
    """Return a generator; the arguments are shares of the positives."""

    def make(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
        centre, radii, border = cluster_of(concept)
        labels = Draws("study", *names, "side").uniforms(0, count) < POSITIVE_SHARE
        points = 2.0 * Draws("study", *names, "negative").uniforms(0, count * FEATURES).reshape(count, FEATURES) - 1.0
        usable = labels | ~inside(points, centre, radii)
        shares, cluster = (borderline, rare, outlier), (centre, radii, border)
        points[labels] = _positives(np.flatnonzero(labels), names, shares, cluster)
        return points[usable], labels[usable]

    return make


def _positives(
    rows: NDArray[np.int64],
    names: tuple[str | int, ...],
    shares: tuple[float, float, float],
    cluster: tuple[Doubles, Doubles, float],
) -> Doubles:
    """Return the positives of these candidates, float64 `[len(rows), 5]`."""
    centre, radii, border = cluster
    count = int(rows[-1]) + 1 if len(rows) else 0
    kinds = np.searchsorted(np.cumsum(shares), Draws("study", *names, "kind").uniforms(0, count), side="right")[rows]
    points = np.empty((len(rows), FEATURES))
    rare: list[int] = np.flatnonzero(kinds == 1).tolist()
    for place, (row, kind) in enumerate(zip(rows.tolist(), kinds.tolist(), strict=True)):
        words = Draws("study", *names, "positive", row).uniforms(0, TRIES * FEATURES).reshape(TRIES, FEATURES)
        around = 2.0 * words - 1.0
        if kind == 3:
            tries = centre + around * radii
            good = inside(tries, centre, radii)
        elif kind == 0:
            tries = centre + around * (radii + border)
            good = inside(tries, centre, radii + border) & ~inside(tries, centre, radii)
        else:
            tries, good = around, ~inside(around, centre, radii + 2.0 * border)
        points[place] = tries[int(good.argmax())]
    for order, place in enumerate(rare):
        if order % RARE_TOGETHER:
            steps = Draws("study", *names, "step", int(rows[place])).uniforms(0, FEATURES)
            points[place] = points[rare[order - 1]] + RARE_STEP * steps
    return points
