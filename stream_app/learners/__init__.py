"""The methods, one file each, and the registry that makes a learner of a configuration."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from stream_app.config import LearnerSettings
from stream_app.errors import ConfigurationError
from stream_app.learners.areba import Areba
from stream_app.learners.base import LEARN, PREDICT, REPORT, REPORT_COLUMNS, Answers, Learner, Operations
from stream_app.learners.baseline import Baseline
from stream_app.learners.online import Method, OnlineLearner
from stream_app.network import AutogradModel, DenseNetwork, compiled_network, load_module, random_generator

__all__ = [
    "LEARN",
    "METHODS",
    "PREDICT",
    "REPORT",
    "REPORT_COLUMNS",
    "Answers",
    "Learner",
    "LearnerSettings",
    "Operations",
    "build",
]

METHODS: Mapping[str, Callable[[LearnerSettings, int], Method]] = MappingProxyType(
    {
        "areba": lambda settings, features: Areba(settings.budget, settings.theta, features),
        "baseline": lambda _settings, _features: Baseline(),
    }
)
"""By the name that a configuration uses: the method, of its settings and the number of features."""


def build(name: str, settings: LearnerSettings, features: int, seed: bytes) -> Learner:
    """A new learner.

    Args:
        name: The learner's, for errors.
        settings: Its method and numbers.
        features: Numbers in an example.
        seed: 32 bytes, the SHA-256 of application, stream and learner; equal seeds give equal bits.

    Raises:
        ConfigurationError: There is no such method or network, or the network cannot be trained repeatably.
    """
    if settings.method not in METHODS:
        raise ConfigurationError(f"learner {name}: no method {settings.method}; there are {', '.join(METHODS)}")
    method = METHODS[settings.method](settings, features)
    generator = random_generator(seed)
    if settings.network == "dense":
        dense = DenseNetwork(features, settings.hidden, generator)
        model = compiled_network(dense, settings.learning_rate, settings.l2, method.batch_rows)
        return OnlineLearner(method, model, features, scaled=settings.scaler == "standard")
    try:
        module = load_module(settings.network, features, generator)
        autograd = AutogradModel(module, features, settings.learning_rate, settings.l2)
    except ConfigurationError as error:
        raise ConfigurationError(f"learner {name}: {line}" for line in error.lines) from error
    return OnlineLearner(method, autograd, features, scaled=settings.scaler == "standard")
