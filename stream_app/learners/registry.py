"""The methods, one file each, and the registry that makes a learner of a configuration."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from stream_app.config import LearnerSettings, is_own
from stream_app.errors import ConfigurationError
from stream_app.learners.api import (
    Learner,
)
from stream_app.learners.custom import build_own
from stream_app.learners.method import Method
from stream_app.learners.methods.adaptive_cs import adaptive_cs
from stream_app.learners.methods.areba import areba
from stream_app.learners.methods.baseline import baseline
from stream_app.learners.methods.oob import oob
from stream_app.learners.methods.qbr import qbr
from stream_app.learners.methods.relay import relay
from stream_app.learners.methods.sliding import sliding
from stream_app.learners.methods.uob import uob
from stream_app.learners.networks.dense import blank_networks, dense_weights, random_generator, reseed
from stream_app.learners.online import OnlineLearner
from stream_app.learners.poisson import new_generator
from stream_app.learners.shared_buffers import LearnerResources

MethodMaker: TypeAlias = Callable[[LearnerSettings, int, bytes], Method]
"""Makes a method of the settings, the number of features and the seed."""

METHODS: Mapping[str, MethodMaker] = MappingProxyType(
    {
        "areba": lambda own, features, _seed: areba(own.budget, own.theta, features),
        "qbr": lambda own, features, _seed: qbr(own.budget, features),
        "baseline": lambda _own, features, _seed: baseline(features),
        "sliding": lambda own, features, _seed: sliding(own.window, features),
        "adaptive_cs": lambda own, features, _seed: adaptive_cs(
            own.cost, own.largest_cost, own.cost_interval_labels, own.theta, features
        ),
        "oob": lambda own, features, seed: oob(own.ensemble_size, own.theta, features, seed),
        "uob": lambda own, features, seed: uob(own.ensemble_size, own.theta, features, seed),
        "oob_single": lambda own, features, seed: oob(1, own.theta, features, seed),
        "relay": lambda own, features, seed: relay(own.replay_per_class, features, seed),
    }
)
"""By the name that a configuration uses."""


def build(
    name: str, settings: LearnerSettings, features: int, seed: bytes, resources: LearnerResources | None = None
) -> Learner:
    """Make a new learner.

    Args:
        name: The learner's, for errors.
        settings: Its method, network and numbers.
        features: Numbers in an example.
        seed: 32 bytes, the SHA-256 of application, stream and learner; equal seeds give equal bits.
        resources: What learners share that never run at the same time; without it, nothing is shared.

    Raises:
        ConfigurationError: There is no such method or network, the network cannot be trained repeatably, or a user's
            own learner cannot be made.
    """
    if is_own(settings.method):
        return build_own(name, settings.method, settings.options, features, seed)
    if settings.method not in METHODS:
        raise ConfigurationError(f"learner {name}: no method {settings.method}; there are {', '.join(METHODS)}")
    resources = resources or LearnerResources()
    if settings.network == "dense":
        return build_dense(METHODS[settings.method], settings, features, seed, resources)
    method, scaled = METHODS[settings.method](settings, features, seed), settings.scaler == "standard"
    count, rates, generator = method.state.networks, (settings.learning_rate, settings.l2), random_generator(seed)
    from stream_app.learners.networks import autograd  # noqa: PLC0415  (Torch takes seconds and half a gigabyte; most do without)

    try:
        modules = [autograd.load_module(settings.network, features, generator) for _ in range(count)]
        models = autograd.AutogradModels(modules, features, *rates)
        if method.is_alike:
            models.training.parameters.reshape(count, -1)[:] = models.training.of(0).parameters
    except ConfigurationError as error:
        raise type(error)(f"learner {name}: {line}" for line in error.lines) from error
    return OnlineLearner(method, models, features, scaled=scaled, buffers=resources.buffers)


def build_dense(
    make: MethodMaker, settings: LearnerSettings, features: int, seed: bytes, resources: LearnerResources
) -> OnlineLearner:
    """Make a new learner of dense networks; see `build`. Resources belong to one maker for each method."""
    widths = (features, *settings.hidden, 1)
    model = resources.template((features, *settings.key), lambda: _without_weights(make, settings, widths, resources))
    generator = reseed(resources.generator, seed)
    if model.is_alike:
        weights = [dense_weights(widths, generator)] * model.networks
    else:
        weights = [dense_weights(widths, generator) for _ in range(model.networks)]
    return model.copy_with(np.concatenate(weights), new_generator(seed) if model.draws_numbers else None)


def _without_weights(
    make: MethodMaker, settings: LearnerSettings, widths: tuple[int, ...], resources: LearnerResources
) -> OnlineLearner:
    """Make a learner of dense networks whose weights are zero."""
    method = make(settings, widths[0], bytes(32))
    model = blank_networks(widths, method.state.networks, settings.learning_rate, settings.l2, method.examples)
    return OnlineLearner(method, model, widths[0], scaled=settings.scaler == "standard", buffers=resources.buffers)
