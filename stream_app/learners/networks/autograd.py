"""Torch models: the dense network as a module, and any other module, trained through autograd.

A module takes float32 `[n, d]` and gives logits, `[n]` or `[n, 1]`; P(class 1) is their sigmoid. Its parameters become
views of one flat float32 buffer, which the compiled steps (`kernels`), the optimiser and a snapshot share. Code that
replaces parameters (`.to()`, `copy.deepcopy`) breaks the link: copy into `flat` instead.

Bits: the compiled path keeps strict IEEE order. Autograd gives equal bits on one kind of machine only, with one Torch
thread (checked), deterministic algorithms and one example a prediction.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.errors import ConfigurationError, OwnCodeError, raised_at
from stream_app.learners.networks import activations, adam  # before Torch: they set the number of threads
from stream_app.learners.networks.dense import (
    Training,
    class_at,
    dense_weights,
    networks_of,
    new_training,
    random_generator,
)
from stream_app.learners.networks.dense_networks import DenseNetworks

# isort: split
import torch

NO_SCORE = np.float32(0.5)
"""P(class 1) where a user's module gives no number."""

_PROBE_ROWS = 4
"""Enough rows for batch statistics to differ from a single row's."""


class DenseNetwork(torch.nn.Module):
    """A fully connected network: LeakyReLU (0.01) between the layers, logits after the last.

    Torch sums in float64 and rounds each layer's sums once, so that autograd's answer does not depend on the order in
    which a library adds; the slope of a unit near 0 would otherwise.

    Args:
        features: Inputs.
        hidden: Units of each hidden layer; without one, the network is logistic regression.
        generator: The source of the weights (`dense.dense_weights`); without one, a fixed seed.

    Attributes:
        widths: Inputs, hidden units..., 1.
        flat: float32 `[p]`, as `dense.dense_weights` gives it; the parameters view it.
    """

    def __init__(
        self, features: int, hidden: Sequence[int] = (8,), generator: np.random.Generator | None = None
    ) -> None:
        super().__init__()
        generator = random_generator(bytes(32)) if generator is None else generator
        self.widths = (features, *hidden, 1)
        self.flat = torch.from_numpy(dense_weights(self.widths, generator))
        self.layers = torch.nn.ParameterList()
        start = 0
        for shape in (shape for inputs, units in pairwise(self.widths) for shape in ((inputs, units), (units,))):
            size = math.prod(shape)
            self.layers.append(torch.nn.Parameter(self.flat[start : start + size].view(shape)))
            start += size

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits `[n]` of examples `[n, d]`."""
        values = examples
        for layer in range(0, len(self.layers), 2):
            if layer > 0:
                values = torch.nn.functional.leaky_relu(values, float(activations.LEAK))
            values = (values.double() @ self.layers[layer].double() + self.layers[layer + 1].double()).float()
        return values.squeeze(1)

    def hidden_weights(self) -> Sequence[torch.Tensor]:
        """Return the weights that L2 regularisation penalises: those of the hidden layers, or of the only layer."""
        return tuple(self.layers)[:-2:2] or (self.layers[0],)


def flatten(parameters: Iterable[torch.nn.Parameter], flat: torch.Tensor | None = None) -> torch.Tensor:
    """Move parameters into one flat float32 buffer (a new buffer, if none is given), and make them views of it."""
    kept = list(parameters)
    if flat is None:
        flat = torch.zeros(sum(parameter.numel() for parameter in kept), dtype=torch.float32)
    start = 0
    for parameter in kept:
        part = flat[start : start + parameter.numel()]
        part.copy_(parameter.data.reshape(-1))
        parameter.data = part.view(parameter.shape)
        start += parameter.numel()
    return flat


def _flat_gradients(parameters: Iterable[torch.nn.Parameter], flat: torch.Tensor) -> torch.Tensor:
    """Return a buffer with the layout of the parameters' buffer, into which autograd adds their gradients."""
    gradients = torch.zeros_like(flat)
    start = 0
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = gradients[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return gradients


def gathered(modules: Sequence[torch.nn.Module]) -> Training:
    """Move the parameters of modules of one shape into one new memory, as before the first step."""
    sizes = {sum(parameter.numel() for parameter in module.parameters()) for module in modules}
    if len(sizes) != 1:
        raise ConfigurationError(f"the networks of an ensemble have {sorted(sizes)} parameters; they must be alike")
    training = new_training(len(modules), sizes.pop())
    for number, module in enumerate(modules):
        flat = flatten(module.parameters(), torch.from_numpy(training.of(number).parameters))
        if isinstance(module, DenseNetwork):
            module.flat = flat
    return training


def compiled_networks(
    networks: Sequence[DenseNetwork], learning_rate: float, l2: float, examples: int
) -> DenseNetworks:
    """Return compiled networks with the parameters of these modules, for steps on at most this many examples."""
    return networks_of(gathered(networks), networks[0].widths, learning_rate, l2, examples)


# Autograd -------------------------------------------------------------------------------------------------------------


@contextmanager
def _naming_module(module: torch.nn.Module) -> Iterator[None]:
    """Turn an error of a user's own module into one that names the module and the place.

    Raises:
        OwnCodeError: There was an error.
    """
    try:
        yield
    except Exception as error:  # a user's code may raise anything
        raise OwnCodeError(f"network {type(module).__name__} failed: {raised_at(error)}") from error


class AutogradModel:
    """Any module, trained one Adam step at a time by Torch autograd, with the arithmetic of `kernels`.

    L2 regularisation holds down what the module's own `hidden_weights()` gives; of a module without one, all
    parameters with two dimensions or more, except the last of them (the output layer).

    Args:
        module: Gives logits `[n]` or `[n, 1]` of examples float32 `[n, d]`.
        features: d.
        learning_rate: Of Adam.
        l2: Times the sum of squared hidden weights, added to the loss.
        training: Where `gathered` moved the module's parameters, checked before; without it, memory of its own.

    Raises:
        ConfigurationError: The module cannot be trained so that equal inputs give equal bits, or Torch has more than
            one thread.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        features: int,
        learning_rate: float,
        l2: float,
        training: Training | None = None,
    ) -> None:
        self.module = module
        if training is None:
            training = gathered([_prepared(module, features)])
        self.training = training
        self.updates = self.training.updates
        self._flat, self._first, self._second = (torch.from_numpy(array) for array in self.training[:3])
        self._gradients = _flat_gradients(module.parameters(), self._flat)
        self._learning_rate, self._l2 = learning_rate, l2
        self._penalised = _hidden_weights(module) if l2 else ()
        self.refused = 0

    def predict(self, example: Floats) -> np.float32:
        """P(class 1) of one example `[d]`; `NO_SCORE` if the module gives no number."""
        with torch.inference_mode(), _naming_module(self.module):
            logit = self.module(torch.from_numpy(example[None])).reshape(())
            score = np.float32(torch.sigmoid(logit).item())
        return NO_SCORE if np.isnan(score) else score

    def learn(self, examples: Floats, targets: Floats, weight: float = 1.0) -> None:
        """One step on examples `[n, d]` of the classes `targets` `[n]`, 0.0 or 1.0, `weight` times the loss.

        A step with a gradient that is not finite is not taken, but counted in `refused`.
        """
        self._gradients.zero_()
        with _naming_module(self.module):
            logits = self.module(torch.from_numpy(examples)).reshape(-1)
            signs = torch.from_numpy(1.0 - 2.0 * targets)
            loss = weight * torch.nn.functional.softplus(signs * logits).mean()
            for weights in self._penalised:
                loss = loss + self._l2 * weights.square().sum()
            loss.backward()
        if torch.isfinite(self._gradients).all():
            self._adam(weight)
        else:
            self.refused += 1

    def _adam(self, weight: float) -> None:
        """Take the step of `adam`, with its limits."""
        powers = self.training.powers
        self.training.updates[0] += 1
        powers *= (adam.BETA1, adam.BETA2)
        powers[powers < adam.POWER_TINY] = 0.0
        size = self._learning_rate / (1.0 - powers[0])
        scale = 1.0 / math.sqrt(1.0 - powers[1])
        gradients, first, second = self._gradients, self._first, self._second
        limit = second.sqrt().mul_(scale * float(adam.SPIKE)).add_(float(adam.LEAST_LIMIT) * max(weight, 1.0))
        limit.clamp_(max=float(adam.LARGEST_GRADIENT))
        torch.maximum(torch.minimum(gradients, limit, out=gradients), limit.neg_(), out=gradients)
        first.mul_(adam.BETA1).add_(gradients, alpha=1.0 - adam.BETA1)
        first.masked_fill_(first.abs() < float(activations.TINY), 0.0)
        gradients.masked_fill_(gradients.abs() < float(adam.TINY_ROOT), 0.0)
        second.mul_(adam.BETA2).addcmul_(gradients, gradients, value=1.0 - adam.BETA2)
        second.masked_fill_(second < float(activations.TINY), 0.0)
        self._flat.sub_(first.mul(size).div_(second.sqrt().mul_(scale).add_(float(adam.EPSILON))))
        self._flat.clamp_(-float(activations.LARGEST), float(activations.LARGEST))

    def buffers(self) -> Mapping[str, NDArray[np.generic]]:
        """Return what the module holds besides parameters, not copied."""
        return {name: buffer.numpy() for name, buffer in self.module.named_buffers()}


class AutogradModels:
    """Modules of one shape, each trained as `AutogradModel` does it, in one memory.

    Args:
        modules: At least one.
        features: d.
        learning_rate: Of Adam.
        l2: As for one.

    Raises:
        ConfigurationError: As for one, or they are not alike.
    """

    def __init__(self, modules: Sequence[torch.nn.Module], features: int, learning_rate: float, l2: float) -> None:
        self.training = gathered([_prepared(module, features) for module in modules])
        self.models = [
            AutogradModel(module, features, learning_rate, l2, self.training.of(number))
            for number, module in enumerate(modules)
        ]

    @property
    def refused(self) -> int:
        """The steps that were not taken since the models were made, because a gradient was not finite."""
        return sum(model.refused for model in self.models)

    def predict(self, example: Floats) -> Floats:
        """P(class 1) of one example `[d]`, by each."""
        return np.array([model.predict(example) for model in self.models], np.float32)

    def learn(self, examples: Floats, targets: Floats, weight: float, steps: Longs) -> None:
        """As many steps of each as `steps` says, on examples `[n, d]`."""
        for model, times in zip(self.models, steps.tolist(), strict=True):
            for _ in range(times):
                model.learn(examples, targets, weight)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return the state as views: a write to them changes the models."""
        buffers = {
            f"buffer.{number}.{name}" if len(self.models) > 1 else f"buffer.{name}": array
            for number, model in enumerate(self.models)
            for name, array in model.buffers().items()
        }
        return self.training.arrays() | buffers


def require_one_thread() -> None:
    """Refuse to continue if sums depend on the number of threads.

    Raises:
        ConfigurationError: Torch has more than one thread.
    """
    threads = torch.get_num_threads()
    if threads != 1:
        raise ConfigurationError(
            f"Torch has {threads} threads, but its sums depend on their number: "
            "import stream_app before torch, and leave torch.set_num_threads alone"
        )


def load_module(path: str, features: int, generator: np.random.Generator) -> torch.nn.Module:
    """Create a user's own module, `package.module:Class`, as `Class(features)`, with Torch's random numbers seeded.

    Raises:
        ConfigurationError: There is no such class, it is no `torch.nn.Module`, or it cannot be made.
    """
    kind = class_at(path, "network")
    if not issubclass(kind, torch.nn.Module):
        raise ConfigurationError(f"network {path}: not a torch.nn.Module")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator.integers(2**63)))
        try:
            return kind(features)
        except Exception as error:  # a user's code may raise anything
            raise OwnCodeError(f"network {path}: {kind.__name__}({features}) failed: {raised_at(error)}") from error


def _prepared(module: torch.nn.Module, features: int) -> torch.nn.Module:
    """Float32 and training; refused if it cannot be trained repeatably.

    Raises:
        ConfigurationError: It cannot, or Torch has more than one thread.
    """
    require_one_thread()
    torch.set_deterministic_debug_mode("error")  # `use_deterministic_algorithms` also imports the compiler, for 2 s
    _refuse_unrepeatable(module.to(torch.float32).train(), features)
    return module


def _hidden_weights(module: torch.nn.Module) -> tuple[torch.Tensor, ...]:
    own = getattr(module, "hidden_weights", None)
    if callable(own):
        return tuple(own())
    return tuple(parameter for parameter in module.parameters() if parameter.dim() >= 2)[:-1]


def _refuse_unrepeatable(module: torch.nn.Module, features: int) -> None:
    """Find out by name and by trial whether a module draws random numbers, mixes examples, or keeps statistics.

    Raises:
        ConfigurationError: It does, or it does not give one logit an example.
    """
    name = type(module).__name__
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd | torch.nn.modules.batchnorm._NormBase):  # noqa: SLF001  (the only common base)
            raise ConfigurationError(
                f"network {name}: {type(part).__name__} is refused: with dropout or batch statistics, a prediction "
                "depends on more than the example and the weights"
            )
    rows = torch.from_numpy(random_generator(bytes(32)).standard_normal((_PROBE_ROWS, features)).astype(np.float32))
    before = [buffer.clone() for buffer in module.buffers()]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            torch.manual_seed(1)
            together = module(rows)
            torch.manual_seed(2)
            again = module(rows)
            alone = module(rows[:1])
        except Exception as error:  # a user's code may raise anything
            raise OwnCodeError(
                f"network {name}: cannot predict examples [n, {features}]: {raised_at(error)}"
            ) from error
    if together.shape not in {(_PROBE_ROWS,), (_PROBE_ROWS, 1)} or together.dtype != torch.float32:
        raise ConfigurationError(
            f"network {name}: gives {together.dtype} {tuple(together.shape)} for {_PROBE_ROWS} examples; "
            "one float32 logit an example is needed"
        )
    if not torch.equal(together, again):
        raise ConfigurationError(f"network {name}: two predictions of one example differ; is there dropout in forward?")
    if not torch.allclose(together[:1].reshape(-1), alone.reshape(-1), rtol=1e-3, atol=1e-5):
        raise ConfigurationError(f"network {name}: a prediction depends on the other examples; batch statistics?")
    if not all(torch.equal(old, new) for old, new in zip(before, module.buffers(), strict=True)):
        raise ConfigurationError(f"network {name}: a prediction changes a buffer; only parameters are learned")
