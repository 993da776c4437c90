"""The Torch network and its compiled step: two implementations with one result."""

import math

import numpy as np
import pytest

from stream_app.arrays import Floats
from stream_app.errors import ConfigurationError
from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer, address_of, longs_at, pointer_to
from stream_app.jit.tables import descriptor_of, view_of
from stream_app.learners.networks import kernels
from stream_app.learners.networks.activations import sigmoid
from stream_app.learners.networks.autograd import (
    AutogradModel,
    DenseNetwork,
    compiled_networks,
    flatten,
    load_module,
    require_one_thread,
)
from stream_app.learners.networks.dense import random_generator, truncated_normal
from stream_app.learners.networks.dense_networks import ONE, WIDTH, DenseNetworks
from stream_app.learners.networks.simd import load8, store
from stream_app.producers.datasets import RECIPES, load
from stream_app.producers.synthetic import parse_spec, synthetic
from tests.support.learner_steps import SEED, single_step_differences, stream

# isort: split
import torch  # after stream_app, which sets the number of its threads

TOLERANCE = 2e-6
"""Tolerance as a share of the largest magnitude: some thirty float32 roundings."""


class Affine(torch.nn.Module):
    """A user's own module, with logits `[n, 1]`."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(features, 4)
        self.last = torch.nn.Linear(4, 1)

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.last(torch.tanh(self.first(examples)))
        return logits


class WithDropout(Affine):
    """A module that is refused by name."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.dropout = torch.nn.Dropout(0.5)


class WithBatchStatistics(Affine):
    """A module that is refused by name."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.normal = torch.nn.BatchNorm1d(features)


class WithHiddenDropout(Affine):
    """A module that a trial refuses: it has dropout as a function."""

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return logits that differ from call to call."""
        return super().forward(torch.nn.functional.dropout(examples, 0.5, training=True))


class WithMixedExamples(Affine):
    """A module that a trial refuses: the result for an example depends on other examples."""

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits of centred examples."""
        return super().forward(examples - examples.mean(0))


class WithCounter(Affine):
    """A module that a trial refuses: it has state that is not a parameter."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        self.calls += 1
        return super().forward(examples)


class WithTwoOutputs(Affine):
    """A module that is refused, because an example needs exactly one logit."""

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return a column for each class."""
        return super().forward(examples).repeat(1, 2)


def broken(features: int) -> torch.nn.Module:
    """Return no module: this is a function, not a class."""
    return Affine(features)


class Failing(torch.nn.Module):
    """A module that cannot be created."""

    def __init__(self, features: int) -> None:
        raise RuntimeError(f"no {features} features, please")


@compiled
def _sigmoids(values: Floats) -> None:
    place: Pointer = pointer_to(values)
    for k in range(0, len(values), WIDTH):
        store(place, k, sigmoid(load8(place, k)))


def test_our_sigmoid_is_exact_to_float32() -> None:
    """Scores are published, and must not show that the exponential is our own."""
    x = np.concatenate([np.linspace(-79, 79, 100_000), [-1e-30, 0.0, 1e-30, -200.0, 200.0, -np.inf, np.inf, np.nan]])
    found = x.astype(np.float32)
    _sigmoids(found)
    with np.errstate(over="ignore"):
        true = 1.0 / (1.0 + np.exp(-x.astype(np.float32).astype(np.float64)))
    inside = np.abs(x) < 80
    assert (np.abs(found[inside] / true[inside] - 1.0) < 3e-7).all()
    assert found[-5:-1].tolist() == pytest.approx([0.0, 1.0, 0.0, 1.0], abs=1e-34)
    assert math.isnan(found[-1])
    assert found[x == 0.0].tolist() == [0.5]
    assert (found[:-1] >= 1e-38).all(), "a denormal score"


def test_weights_are_he_normal_and_their_cut_is_made_good() -> None:
    """Without the correction, weights would have 0.88 of the deviation with which the paper's networks start."""
    network = DenseNetwork(784, (512, 512), random_generator(SEED))
    assert network.widths == (784, 512, 512, 1)
    for weights, inputs in ((network.layers[0], 784), (network.layers[2], 512)):
        deviation = math.sqrt(2 / inputs)
        assert weights.std().item() == pytest.approx(deviation, rel=0.01)
        assert weights.abs().max().item() <= 2 * deviation / 0.8796 < 1.01 * weights.abs().max().item()
    assert not any(biases.any() for biases in tuple(network.layers)[1::2])


def test_truncated_normal_numbers_have_the_right_shape() -> None:
    """The generator draws by rejection; a mistake in it would still look random."""
    numbers = truncated_normal(random_generator(SEED), 200_000)
    share_within_one = math.erf(1 / math.sqrt(2)) / math.erf(2 / math.sqrt(2))
    assert (np.abs(numbers) < 1).mean() == pytest.approx(share_within_one, abs=0.004)
    assert numbers.std() == pytest.approx(0.87962566, abs=0.003)
    assert numbers.mean() == pytest.approx(0.0, abs=0.006)


def test_equal_seeds_give_equal_weights_on_any_machine() -> None:
    """Recovery starts from the seed. The numbers are fixed: another generator or another order would be noticed."""
    weights = DenseNetwork(2, (8,), random_generator(SEED)).flat
    assert torch.equal(weights, DenseNetwork(2, (8,), random_generator(SEED)).flat)
    assert not torch.equal(weights, DenseNetwork(2, (8,), random_generator(bytes(32))).flat)
    assert weights[:3].tolist() == [0.0871029943227768, 1.6603187322616577, 0.165928915143013]
    with pytest.raises(ValueError, match="32 bytes"):
        random_generator(b"short")


def test_parameters_are_views_of_one_buffer() -> None:
    """The kernel writes to the buffer; if the Torch module had copies, it would keep its initial weights."""
    network = DenseNetwork(3, (8, 5))
    network.flat[:] = torch.arange(len(network.flat))
    assert network.layers[0][1].tolist() == list(range(8, 16)), "inputs by units"
    assert network.layers[1].tolist() == list(range(24, 32))
    assert network.layers[4].tolist() == [[77], [78], [79], [80], [81]]
    module = Affine(3)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    flat = flatten(module.parameters())
    assert torch.equal(flat, torch.cat([parameter.reshape(-1) for parameter in before]))
    flat.zero_()
    assert not any(parameter.any() for parameter in module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "learning_rate", "l2", "hidden"),
    [
        (2, 0.01, 0.0, (8,)),
        (24, 0.01, 0.0, (8,)),
        (30, 0.0001, 0.0, (8,)),
        (43, 0.1, 0.0, (8,)),
        (54, 0.01, 0.01, (8,)),
        (1, 0.01, 0.01, (1,)),
        (1, 0.01, 0.0, ()),
        (54, 0.01, 0.01, ()),
        (6, 0.01, 0.01, (5, 7, 3)),
        (19, 0.01, 0.01, (37, 16)),
    ],
)
def test_a_compiled_step_is_autograds(features: int, learning_rate: float, l2: float, hidden: tuple[int, ...]) -> None:
    """Every step agrees with Torch's, taken from the same state."""
    examples, labels = stream(250, features, zeros=0.3)
    worst = single_step_differences(examples, labels, learning_rate, l2, hidden)
    assert max(worst.values()) < TOLERANCE, worst


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["cervical", "credit", "forest", "fraud", "sine:drift=posterior", "circle:drift=likelihood", "sea:drift=prior"],
)
def test_each_of_5000_compiled_steps_of_a_shipped_stream_is_autograds(name: str) -> None:
    """The same where errors are small, units are near the bend of LeakyReLU, and a drift changes everything."""
    data = (load(name) if name in RECIPES else synthetic(parse_spec(name))).prefix(5000)
    worst = single_step_differences(data.features, data.labels, data.learning_rate, data.l2, data.hidden)
    assert max(worst.values()) < TOLERANCE, worst


@pytest.mark.slow
def test_a_compiled_step_of_the_large_network_is_autograds() -> None:
    """Blocks, chunks and skipped pixels of the 784-512-512-1 network with L2 change nothing."""
    data = load("mnist").prefix(60)
    worst = single_step_differences(data.features, data.labels, data.learning_rate, data.l2, data.hidden)
    assert max(worst.values()) < TOLERANCE, worst


@pytest.mark.slow(5)
def test_adam_and_the_loss_are_torchs_own() -> None:
    """Both of our paths share one Adam and one form of the loss: this compares them with Torch's, step by step."""
    network, reference = DenseNetwork(3, (8,)), DenseNetwork(3, (8,))
    model = AutogradModel(network, 3, 0.01, 0.1)
    optimizer = torch.optim.Adam(reference.parameters(), lr=0.01, eps=1e-7)
    loss_of = torch.nn.BCEWithLogitsLoss()
    random = np.random.default_rng(4)
    for _ in range(30):
        examples = random.standard_normal((5, 3)).astype(np.float32)
        targets = random.integers(0, 2, 5).astype(np.float32)
        model.learn(examples, targets)
        optimizer.zero_grad()
        loss = loss_of(reference(torch.from_numpy(examples)), torch.from_numpy(targets))
        (loss + 0.1 * reference.hidden_weights()[0].square().sum()).backward()
        optimizer.step()
        difference = (network.flat - reference.flat).abs().max() / reference.flat.abs().max()
        assert difference < 1e-5
    assert model.predict(examples[0]) == pytest.approx(torch.sigmoid(reference(torch.from_numpy(examples)))[0].item())


def test_a_feature_that_falls_silent_leaves_no_denormals() -> None:
    """Each denormal would cost many times a normal number, forever: 0.9 times the smallest is rounded up to itself."""
    network = compiled_networks([DenseNetwork(2, (8,))], 0.01, 0.0, 1)
    targets = np.ones(8, np.float32)
    descriptor = descriptor_of(network)
    _learn_often(address_of(descriptor), np.array([1.0, -1.0], np.float32), targets, 10)
    assert network.first[8:16].any()
    _learn_often(address_of(descriptor), np.array([1.0, 0.0], np.float32), targets, 20_000)
    assert not network.first[8:16].any()
    for state in (network.first, network.second, network.powers):
        assert (np.abs(state[state != 0.0]) > 1e-31).all()
    assert network.updates[0] == 20_010


_networks_of = view_of(DenseNetworks)


@compiled
def _learn_often(network: int, examples: Floats, targets: Floats, times: int) -> None:
    view = _networks_of(longs_at(network))
    steps = np.full(1, times)
    view.start[0] = 0
    kernels.learn(view, pointer_to(examples), view.start, pointer_to(targets), ONE, np.float32(1), pointer_to(steps))


def test_a_users_own_module_is_found_and_seeded() -> None:
    """The same seed creates the same model, and does not change the process's random numbers."""
    torch.manual_seed(7)
    untouched = torch.random.get_rng_state()
    one, same, other = (
        load_module(f"{__name__}:Affine", 3, random_generator(seed)) for seed in (SEED, SEED, bytes(32))
    )
    assert torch.equal(torch.random.get_rng_state(), untouched)
    assert isinstance(one, Affine)
    assert torch.equal(flatten(one.parameters()), flatten(same.parameters()))
    assert not torch.equal(flatten(one.parameters()), flatten(other.parameters()))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Missing", "has no attribute"),
        ("broken", "not a class"),
        ("TOLERANCE", "not a class"),
        ("ConfigurationError", "not a torch.nn.Module"),
        ("Failing", "no 3 features, please"),
    ],
)
def test_a_module_that_cannot_be_made_is_a_configuration_error(name: str, reason: str) -> None:
    """The error names the module and the reason at start-up, before any record is read."""
    with pytest.raises(ConfigurationError, match=reason) as caught:
        load_module(f"{__name__}:{name}", 3, random_generator(SEED))
    assert f"{__name__}:{name}" in str(caught.value)


def test_a_package_that_is_not_there_is_a_configuration_error() -> None:
    """A mistake in the path must not cause a traceback."""
    with pytest.raises(ConfigurationError, match="no_such_package"):
        load_module("no_such_package.nets:Net", 3, random_generator(SEED))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (WithDropout, "Dropout is refused"),
        (WithBatchStatistics, "BatchNorm1d is refused"),
        (WithHiddenDropout, "dropout in forward"),
        (WithMixedExamples, "depends on the other examples"),
        (WithCounter, "changes a buffer"),
        (WithTwoOutputs, "one float32 logit an example"),
    ],
)
def test_a_module_that_cannot_be_repeated_is_refused(kind: type[torch.nn.Module], reason: str) -> None:
    """Its bits would differ after a crash, and the task would be parked for a reason that is hard to find."""
    with pytest.raises(ConfigurationError, match=reason):
        AutogradModel(kind(3), 3, 0.01, 0.0)


def test_a_module_for_other_dimensions_is_refused() -> None:
    """The error comes at start-up, with the shape that was tried, and not at the first record."""
    with pytest.raises(ConfigurationError, match=r"cannot predict examples \[n, 4\]"):
        AutogradModel(Affine(3), 4, 0.01, 0.0)


def test_a_second_torch_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over several threads depend on the number of threads."""
    require_one_thread()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    with pytest.raises(ConfigurationError, match="4 threads"):
        require_one_thread()
