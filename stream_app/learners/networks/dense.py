"""The memory of networks that are trained here, and the dense ones that compiled code trains. No Torch.

Torch takes half a gigabyte and seconds to import; a worker whose networks are all dense does without it. `autograd` has
the same networks as Torch modules, and any others.
"""

import importlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ConfigurationError
from stream_app.jit.compiler import bare
from stream_app.learners.networks import kernels
from stream_app.records import Floats, Longs

TRUNCATED_DEVIATION = 0.87962566103423978
"""The standard deviation of a standard normal number that is cut at 2: what a truncated draw is divided by."""


def random_generator(seed: bytes) -> np.random.Generator:
    """Philox, keyed by the first half of a 32-byte seed and started at the second: counter-based, no hidden state."""
    if len(seed) != 32:
        raise ValueError(f"a seed has 32 bytes, not {len(seed)}")
    key, counter = int.from_bytes(seed[:16], "little"), int.from_bytes(seed[16:], "little")
    return np.random.Generator(np.random.Philox(key=key, counter=counter << 128))


def seeded_anew(generator: np.random.Generator, seed: bytes) -> np.random.Generator:
    """Make of a `random_generator` that of another seed, which costs a tenth of a new generator."""
    generator.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {
            "key": np.frombuffer(seed[:16], "<u8").astype(np.uint64),
            "counter": np.array([0, 0, *np.frombuffer(seed[16:], "<u8")], np.uint64),
        },
        "buffer": np.zeros(4, np.uint64),
        "buffer_pos": 4,  # nothing is left in the buffer
        "has_uint32": 0,
        "uinteger": 0,
    }
    return generator


def truncated_normal(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Standard normal numbers, those beyond 2 rejected; only + - * / decide, so the same on any machine."""
    kept: list[NDArray[np.float64]] = []
    missing = size
    while missing > 0:
        candidates = 4.0 * generator.random(2 * missing + 16) - 2.0
        chances = generator.random(len(candidates))
        kept.append(candidates[: _keep(candidates, chances)][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty(0)


@bare
def _keep(candidates: NDArray[np.float64], chances: NDArray[np.float64]) -> int:
    """Move the candidates that are kept to the front; how many they are."""
    count = 0
    for k in range(len(candidates)):
        x = 0.5 * candidates[k] * candidates[k]
        if chances[k] < _falling_exponential(x):
            candidates[count] = candidates[k]
            count += 1
    return count


@bare
def _falling_exponential(x: float) -> float:
    """e**-x for 0 <= x <= 2, to 1e-14: the series at x / 16, squared four times."""
    series = 1.0
    for term in range(10, 0, -1):
        series = 1.0 - (x / 16.0) / term * series
    for _ in range(4):
        series = series * series
    return series


def dense_weights(widths: Sequence[int], generator: np.random.Generator) -> Floats:
    """The parameters of a new dense network, float32 `[p]`: of each layer the weights (inputs by units), then biases.

    Weights are He-normal (He et al. 2015; cut at two deviations and corrected for the cut, as Keras does), biases zero.

    Args:
        widths: Inputs, hidden units..., 1.
        generator: Where the weights come from.
    """
    layers: list[Floats] = []
    for inputs, units in pairwise(widths):
        deviation = math.sqrt(2.0 / inputs) / TRUNCATED_DEVIATION
        layers.append((deviation * truncated_normal(generator, inputs * units)).astype(np.float32))
        layers.append(np.zeros(units, np.float32))
    return np.concatenate(layers)


class Training(NamedTuple):
    """The memory of n networks with p parameters each, one behind the other.

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
        """By the names of a snapshot, as views: what is written into them is the networks'."""
        return {
            "updates": self.updates,
            "beta_powers": self.powers,
            "parameters": self.parameters,
            "first_moments": self.first,
            "second_moments": self.second,
        }

    def of(self, number: int) -> "Training":
        """The memory of one of them."""
        size = len(self.parameters) // len(self.updates)
        part = slice(number * size, (number + 1) * size)
        powers = self.powers[2 * number : 2 * number + 2]
        return Training(
            self.parameters[part], self.first[part], self.second[part], powers, self.updates[number : number + 1]
        )


def new_training(networks: int, parameters: int) -> Training:
    """The memory of so many networks with so many parameters each; all moments and counts at their beginnings."""
    size = networks * parameters
    return Training(
        parameters=np.zeros(size, np.float32),
        first=np.zeros(size, np.float32),
        second=np.zeros(size, np.float32),
        powers=np.ones(2 * networks),
        updates=np.zeros(networks, np.int64),
    )


def compiled(
    training: Training, widths: tuple[int, ...], learning_rate: float, l2: float, examples: int
) -> kernels.Network:
    """What compiled code needs to train the dense networks of this memory, with at most so many examples a step."""
    at_once = max(examples, len(training.updates))
    return kernels.Network(
        widths=np.array(widths, np.int64),
        parameters=training.parameters,
        first=training.first,
        second=training.second,
        powers=training.powers,
        rates=np.array([learning_rate, l2]),
        updates=training.updates,
        start=np.zeros(1, np.int64),
        places=np.zeros(at_once, np.int64),
        work=np.zeros(kernels.work_size(widths, at_once), np.float32),
        sums=np.zeros(at_once * kernels.CHUNK),
    )


def blank_networks(
    widths: tuple[int, ...], count: int, learning_rate: float, l2: float, examples: int
) -> kernels.Network:
    """So many dense networks of these widths (inputs, hidden units..., 1), all weights 0; see `compiled`."""
    return compiled(new_training(count, kernels.parameter_count(widths)), widths, learning_rate, l2, examples)


def class_at(path: str, what: str) -> type:
    """A user's own class, `package.module:Class`.

    Args:
        path: Where it is.
        what: The word for it in errors.

    Raises:
        ConfigurationError: There is none, or importing its module failed.
    """
    place, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(place), name)
    except Exception as error:  # a user's module may raise anything
        raise ConfigurationError(f"{what} {path}: {error}") from error
    if not isinstance(found, type):
        raise ConfigurationError(f"{what} {path}: not a class")
    return found
