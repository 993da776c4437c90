"""The synthetic streams of the paper (section on data sets): Sine, Circle and Sea, with imbalance, drift and noise.

Each example has separate random words. They determine first its class (positive with the probability of the imbalance),
then, by rejection, a uniform point of the region of that class. Thus example i depends neither on the length of the
stream nor on how the stream is cut into pieces. Points are multiples of 2**-24, and the sine comes from
`arithmetic`, so the bytes are the same on every machine.

A drift at step t changes the examples from number t (the paper's equations for the three kinds of drift):
    prior       p(y=1) from p to 1 - p
    likelihood  p(x1 < threshold | y=0) from 0.9 to 0.1
    posterior   the two regions are exchanged; p(y=1) stays
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers.arithmetic import sine_of_turns
from stream_app.producers.datasets.base import DEFAULT_INTERVAL_MS, DataSet
from stream_app.producers.draws import Draws

CONCEPTS = ("sine", "circle", "sea")

LIKELIHOOD_THRESHOLDS: Mapping[str, float] = {"sine": 0.6, "circle": 0.4, "sea": 0.5}
"""x1 below which negatives are common before a likelihood drift (the authors' program)."""

COMMON_SHARE = 0.9
"""The share of negatives on the common side of the threshold."""

LEARNING_RATE = 0.01

MAX_LENGTH = 100_000_000
"""The most examples of one stream; they take 1.7 GB of memory."""

CHUNK_EXAMPLES = 65_536
"""Examples generated at a time, so that the working arrays stay in the processor's cache."""

MAX_ROUNDS = 1_000
"""Rounds of rejection. The smallest region is 12.5 % of the square: all rounds fail with probability 1e-58."""

GRID_BITS = 24
"""Coordinates are multiples of 2**-24: exact in float32."""


class Drift(StrEnum):
    """The probability that a drift changes."""

    NONE = "none"
    PRIOR = "prior"
    LIKELIHOOD = "likelihood"
    POSTERIOR = "posterior"


SPEC_KEYS: Mapping[str, Callable[[str], int | float | Drift]] = {
    "length": int,
    "imbalance": float,
    "drift": Drift,
    "drift_at": int,
    "noise": float,
    "seed": int,
}
"""The options of a stream as text, and the function that parses each value."""


@dataclass(frozen=True, slots=True)
class SyntheticSpec:
    """A synthetic stream.

    Attributes:
        concept: `sine`, `circle` or `sea`.
        length: The number of examples.
        imbalance: p(y=1) in percent, before a drift changes it.
        drift: The kind of drift.
        drift_at: The number of the first example after the drift; None: the middle of the stream.
        noise: The share of labels that are sent with the other class.
        seed: The seed of all random numbers.
    """

    concept: str
    length: int = 5_000
    imbalance: float = 1.0
    drift: Drift = Drift.NONE
    drift_at: int | None = None
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.concept not in CONCEPTS:
            raise DataSetError(f"{self.concept}: no such synthetic stream; known: {', '.join(CONCEPTS)}")
        if not 1 <= self.length <= MAX_LENGTH:
            raise DataSetError(f"{self.concept}: length: {self.length} must be from 1 to {MAX_LENGTH}")
        if not 0.0 < self.imbalance < 100.0:
            raise DataSetError(f"{self.concept}: imbalance: {self.imbalance:g} must be a percentage between 0 and 100")
        if not 0.0 <= self.noise < 1.0:
            raise DataSetError(f"{self.concept}: noise: {self.noise:g} must be from 0 to below 1")
        if self.drift_at is not None and (self.drift is Drift.NONE or not 0 < self.drift_at < self.length):
            raise DataSetError(f"{self.concept}: drift_at={self.drift_at} needs a drift, and an example of the stream")

    @property
    def drift_step(self) -> int | None:
        """The number of the first example after the drift; None: no drift."""
        if self.drift is Drift.NONE:
            return None
        return self.length // 2 if self.drift_at is None else self.drift_at


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive examples: features float32 `[n, 2]`, classes as sent and true classes int8 `[n]`."""

    features: NDArray[np.float32]
    labels: NDArray[np.int8]
    clean_labels: NDArray[np.int8]


def parse_spec(text: str) -> SyntheticSpec:
    """Parse a stream such as `sine:drift=posterior,imbalance=1,length=5000,drift_at=2500,seed=7`.

    Raises:
        DataSetError: A key or a value is unknown; the message names it and the nearest key.
    """
    concept, _, options = text.partition(":")
    values: dict[str, int | float | Drift] = {}
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        if key not in SPEC_KEYS:
            near = difflib.get_close_matches(key, SPEC_KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(SPEC_KEYS)}"
            raise DataSetError(f"{text}: no option {key}; {hint}")
        try:
            values[key] = SPEC_KEYS[key](value)
        except ValueError:
            known = f"; known: {', '.join(Drift)}" if key == "drift" else ""
            raise DataSetError(f"{text}: {key}={value} is not a value of {key}{known}") from None
    return SyntheticSpec(concept, **values)  # type: ignore[arg-type]  # each value went through the type of its key


def spec_text(spec: SyntheticSpec) -> str:
    """Return the text that `parse_spec` reads, without options that have their default."""
    given = {
        field.name: getattr(spec, field.name)
        for field in fields(spec)
        if field.name != "concept" and getattr(spec, field.name) != field.default
    }
    options = ",".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in given.items()
    )
    return f"{spec.concept}:{options}" if options else spec.concept


def in_positive_region(concept: str, x1: NDArray[np.float64], x2: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether points of the unit square are positive before any drift, bool `[n]`.

    Sine: below sin(x1) with x1 in [0, 2 pi] and x2 in [-1, 1]. Circle: within 0.2 of (0.4, 0.5). Sea: x1 + x2 <= 7 with
    both in [0, 10]. Here all coordinates are scaled to [0, 1].
    """
    if concept == "sine":
        return 2.0 * x2 - 1.0 < sine_of_turns(x1)
    if concept == "circle":
        across, up = x1 - 0.4, x2 - 0.5
        return across * across + up * up <= 0.04
    return x1 + x2 <= 0.7


def generate(spec: SyntheticSpec, start: int, count: int) -> Piece:
    """Return the examples start .. start + count - 1 of a stream; its `length` does not matter.

    Raises:
        DataSetError: No point of a region was found, because the region is too small.
    """
    pieces = [
        _generate_chunk(spec, first, min(CHUNK_EXAMPLES, start + count - first))
        for first in range(start, start + count, CHUNK_EXAMPLES)
    ]
    return Piece(
        features=np.concatenate([piece.features for piece in pieces]),
        labels=np.concatenate([piece.labels for piece in pieces]),
        clean_labels=np.concatenate([piece.clean_labels for piece in pieces]),
    )


def _draws(spec: SyntheticSpec, purpose: str | int) -> Draws:
    return Draws("synthetic", spec.concept, spec.seed, purpose)


def _generate_chunk(spec: SyntheticSpec, start: int, count: int) -> Piece:
    step = spec.drift_step
    drifted = np.arange(start, start + count) >= step if step is not None else np.zeros(count, np.bool_)
    share = np.float64(spec.imbalance) / 100.0
    shares = np.where(drifted, 1.0 - share, share) if spec.drift is Drift.PRIOR else np.full(count, share)
    positive = _draws(spec, "class").uniforms(start, count) < shares
    features = _points(spec, start, positive, drifted)
    noisy = _draws(spec, "noise").uniforms(start, count) < spec.noise
    return Piece(features, (positive ^ noisy).astype(np.int8), positive.astype(np.int8))


def _points(
    spec: SyntheticSpec, start: int, positive: NDArray[np.bool_], drifted: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return for each example the first candidate in its region; each candidate of each example has separate words."""
    count = len(positive)
    wanted_region = positive ^ drifted if spec.drift is Drift.POSTERIOR else positive
    low_shares = np.where(drifted, 1.0 - COMMON_SHARE, COMMON_SHARE)
    wanted_low = _draws(spec, "side").uniforms(start, count) < low_shares
    any_side = positive if spec.drift is Drift.LIKELIHOOD else np.ones(count, np.bool_)
    threshold = LIKELIHOOD_THRESHOLDS[spec.concept]

    points = np.empty((count, 2))
    pending = np.arange(count)
    for candidate in range(MAX_ROUNDS):
        first, last = int(pending[0]), int(pending[-1]) + 1
        words = _draws(spec, candidate).words(2 * (start + first), 2 * (last - first)).reshape(-1, 2)[pending - first]
        drawn = (words >> np.uint64(64 - GRID_BITS)).astype(np.float64) * 2.0**-GRID_BITS
        fits = in_positive_region(spec.concept, drawn[:, 0], drawn[:, 1]) == wanted_region[pending]
        fits &= any_side[pending] | ((drawn[:, 0] < threshold) == wanted_low[pending])
        points[pending[fits]] = drawn[fits]
        pending = pending[~fits]
        if not len(pending):
            return points.astype(np.float32)
    raise DataSetError(f"{spec.concept}: no point was found for example {start + int(pending[0])}")


def synthetic(spec: SyntheticSpec) -> DataSet:
    """Return the stream as a data set."""
    piece = generate(spec, 0, spec.length)
    return DataSet(
        name=spec_text(spec),
        features=piece.features,
        labels=piece.labels,
        clean_labels=piece.clean_labels if spec.noise else None,
        preprocessing="2 features in [0, 1), multiples of 2**-24.",
        source="synthetic",
        learning_rate=LEARNING_RATE,
        drift_kind=None if spec.drift is Drift.NONE else str(spec.drift),
        drift_step=spec.drift_step,
        interval_ms=DEFAULT_INTERVAL_MS,
    )
