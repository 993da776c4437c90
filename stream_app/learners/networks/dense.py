"""The parameters and optimiser state of networks, and how dense networks are made and their weights drawn. No Torch.

Torch takes half a gigabyte and seconds to import; a worker whose networks are all dense does without it. `autograd` has
the same networks as Torch modules, and all others.
"""

import importlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.errors import ConfigurationError
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.jit.tables import new_table
from stream_app.learners.networks.dense_networks import CHUNK, WIDTH, DenseNetworks, parameter_count, work_size

_TRUNCATED_DEVIATION = 0.87962566103423978
"""The standard deviation of a standard normal number truncated at 2; a truncated draw is divided by it."""


def random_generator(seed: bytes) -> np.random.Generator:
    """Return Philox, a counter-based generator: the first half of a 32-byte seed is the key, the second the counter."""
    if len(seed) != 32:
        raise ValueError(f"a seed has 32 bytes, not {len(seed)}")
    key, counter = int.from_bytes(seed[:16], "little"), int.from_bytes(seed[16:], "little")
    return np.random.Generator(np.random.Philox(key=key, counter=counter << 128))


def truncated_normal(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return standard normal numbers, those beyond 2 rejected; only + - * / decide, so all machines draw the same."""
    kept: list[NDArray[np.float64]] = []
    missing = size
    while missing > 0:
        candidates = 4.0 * generator.random(2 * missing + 16) - 2.0
        chances = generator.random(len(candidates))
        kept.append(candidates[: _keep(candidates, chances)][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty(0)


@compiled_without_refcounts
def _keep(candidates: NDArray[np.float64], chances: NDArray[np.float64]) -> int:
    """Move the candidates that are kept to the front; return how many there are."""
    count = 0
    for k in range(len(candidates)):
        x = 0.5 * candidates[k] * candidates[k]
        if chances[k] < _falling_exponential(x):
            candidates[count] = candidates[k]
            count += 1
    return count


@compiled_without_refcounts
def _falling_exponential(x: float) -> float:
    """Return e**-x for 0 <= x <= 2, to 1e-14: the series at x / 16, squared four times."""
    series = 1.0
    for term in range(10, 0, -1):
        series = 1.0 - (x / 16.0) / term * series
    for _ in range(4):
        series = series * series
    return series


def dense_weights(widths: Sequence[int], generator: np.random.Generator) -> Floats:
    """Return the parameters of a new dense network, float32 `[p]`: by layer weights (inputs by units), then biases.

    Weights are He-normal (He et al. 2015; cut at two deviations and corrected for the cut, as Keras does), biases zero.

    Args:
        widths: Inputs, hidden units..., 1.
        generator: Draws the weights.
    """
    layers: list[Floats] = []
    for inputs, units in pairwise(widths):
        deviation = math.sqrt(2.0 / inputs) / _TRUNCATED_DEVIATION
        layers.append((deviation * truncated_normal(generator, inputs * units)).astype(np.float32))
        layers.append(np.zeros(units, np.float32))
    return np.concatenate(layers)


class Training(NamedTuple):
    """Parameters and optimiser state of n networks with p parameters each, one network after the other.

    Attributes:
        parameters: float32 `[n * p]`.
        first: float32 `[n * p]`, Adam's moving mean of the gradients.
        second: float32 `[n * p]`, Adam's moving mean of their squares.
        powers: float64 `[n * 2]`, the running products beta1**t and beta2**t.
        updates: int64 `[n]`, steps taken.
    """

    parameters: Floats
    first: Floats
    second: Floats
    powers: NDArray[np.float64]
    updates: Longs

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays by the names of a snapshot, not copied."""
        return {
            "updates": self.updates,
            "beta_powers": self.powers,
            "parameters": self.parameters,
            "first_moments": self.first,
            "second_moments": self.second,
        }

    def of(self, number: int) -> "Training":
        """Return the memory of one of the networks, as views."""
        size = len(self.parameters) // len(self.updates)
        part = slice(number * size, (number + 1) * size)
        powers = self.powers[2 * number : 2 * number + 2]
        return Training(
            self.parameters[part], self.first[part], self.second[part], powers, self.updates[number : number + 1]
        )


def new_training(networks: int, parameters: int) -> Training:
    """Return the memory of this many networks with this many parameters each, as before the first step."""
    size = networks * parameters
    return Training(
        parameters=np.zeros(size, np.float32),
        first=np.zeros(size, np.float32),
        second=np.zeros(size, np.float32),
        powers=np.ones(2 * networks),
        updates=np.zeros(networks, np.int64),
    )


def networks_of(
    training: Training, widths: tuple[int, ...], learning_rate: float, l2: float, examples: int
) -> DenseNetworks:
    """Return the dense networks of this memory, with buffers for steps on at most this many examples.

    Networks of another kind have the number of inputs as their only width: methods can copy and average their memory.
    """
    count = len(training.updates)
    at_once = max(examples, count)
    return new_table(
        DenseNetworks,
        networks=count,
        elements=len(training.parameters) // count,
        inputs=widths[0],
        layers=len(widths) - 1,
        eight=len(widths) == 3 and widths[1] == WIDTH,
        widths=np.array(widths),
        parameters=training.parameters,
        first=training.first,
        second=training.second,
        powers=training.powers,
        rates=np.array([learning_rate, l2]),
        updates=training.updates,
        start=1,
        places=at_once,
        work=work_size(widths, at_once),
        work_elements=work_size(widths, at_once),
        sums=at_once * CHUNK,
    )


def blank_networks(
    widths: tuple[int, ...], count: int, learning_rate: float, l2: float, examples: int
) -> DenseNetworks:
    """Return dense networks of these widths (inputs, hidden units..., 1), all weights 0; see `networks_of`."""
    return networks_of(new_training(count, parameter_count(widths)), widths, learning_rate, l2, examples)


def class_at(path: str, what: str) -> type:
    """Import a user's own class, `package.module:Class`.

    Args:
        path: Its module and name.
        what: What errors call it.

    Raises:
        ConfigurationError: There is no such class, or importing its module failed.
    """
    place, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(place), name)
    except Exception as error:  # a user's module may raise anything
        raise ConfigurationError(f"{what} {path}: {error}") from error
    if not isinstance(found, type):
        raise ConfigurationError(f"{what} {path}: not a class")
    return found
