"""The streams on which `relay_members` and the attempts in `relay.md` were developed: seeds 1000 and up."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.synthetic import Drift
from study.run.experiment import StreamChoice
from study.run.streams import made
from study.unseen_streams import Made, made_of

FIRST_SEED = 1000


def _stream(features: NDArray[np.float64], clean: NDArray[np.bool_], flipped: NDArray[np.bool_] | None = None) -> Made:
    own = clean.astype(np.int8)
    sent = own if flipped is None else np.where(flipped, 1 - own, own).astype(np.int8)
    return Made(np.ascontiguousarray(features, np.float32), sent, own)


def _synthetic(choice: StreamChoice) -> Callable[[int], Made]:
    return lambda seed: made_of(made(choice, seed), choice)


def noisy_linear(seed: int) -> Made:
    """Return 900 examples in 30 dimensions, 6 % positive: two clouds, two deviations apart along twelve features."""
    count, width, relevant = 900, 30, 12
    random = np.random.default_rng([7, seed])
    positive = random.random(count) < 0.06
    direction = np.zeros(width)
    direction[:relevant] = random.normal(size=relevant)
    direction /= np.linalg.norm(direction)
    noise = random.normal(size=(count, width))
    return _stream(noise + np.where(positive[:, None], 2.0 * direction, 0.0), positive)


def turning_hyperplane(noise: float) -> Callable[[int], Made]:
    """Return the maker of 10,000 examples in ten dimensions, 5 % positive, whose border turns by half a circle."""

    def maker(seed: int) -> Made:
        count, width = 10_000, 10
        random = np.random.default_rng([8, seed])
        plane, _ = np.linalg.qr(random.normal(size=(width, 2)))
        angle = np.arange(count) / count * np.pi
        features = random.normal(size=(count, width))
        height = (features @ plane[:, 0]) * np.cos(angle) + (features @ plane[:, 1]) * np.sin(angle)
        return _stream(features, height > 1.645, random.random(count) < noise)

    return maker


def rare_overlapping(seed: int) -> Made:
    """Return 50,000 examples in 30 dimensions, 0.25 % positive; both classes have heavy tails, and a fifth is hard."""
    count, width, relevant = 50_000, 30, 12
    random = np.random.default_rng([9, seed])
    positive = random.random(count) < 0.0025
    features = random.standard_t(4, size=(count, width))
    centre = random.normal(size=width)
    centre[relevant:] *= 0.1
    rows = int(positive.sum())
    hard = (random.random(rows) < 0.2)[:, None]
    tails = random.standard_t(4, size=(rows, width))
    features[positive] = np.where(hard, 0.5 * centre, 2.0 * centre) + tails * np.where(hard, 1.0, 1.5)
    return _stream(features, positive)


def _choices() -> Mapping[str, StreamChoice]:
    choices = {}
    for source in ("sine", "circle"):
        for percent in (10, 1):
            choices[f"{source}-{percent}-wide"] = StreamChoice(source=source, imbalance=percent, features=30)
            choices[f"{source}-{percent}-posterior"] = StreamChoice(
                source=source, imbalance=percent, drift=Drift.POSTERIOR
            )
        choices[f"{source}-1-noise"] = StreamChoice(source=source, imbalance=1, noise=0.1)
    return choices | {f"{source}-1": StreamChoice(source=source, imbalance=1) for source in ("circle", "sea")}


STREAMS: Mapping[str, Callable[[int], Made]] = {
    **{name: _synthetic(choice) for name, choice in _choices().items()},
    "noisy-linear": noisy_linear,
    "turning-hyperplane": turning_hyperplane(0.0),
    "turning-hyperplane-noise": turning_hyperplane(0.05),
    "rare-overlapping": rare_overlapping,
}
"""The makers, which get a seed. Names end with what the stream has: 28 features of noise, a drift, false labels."""
