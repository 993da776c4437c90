"""Makes the learners of a configuration, and holds what the learners of a task share."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from stream_app.config import LearnerSettings, is_own
from stream_app.errors import ConfigurationError
from stream_app.jit.tables import SharedBuffers
from stream_app.learners.api import Learner
from stream_app.learners.method import LearningMethod
from stream_app.learners.methods.custom import build_own
from stream_app.learners.networks.dense import blank_networks, dense_weights, random_generator
from stream_app.learners.online import OnlineLearner
from stream_app.learners.poisson import new_generator
from stream_app.learners.registry import METHODS, new_method

_MAX_TEMPLATES = 64
"""The most templates that are kept: a task whose streams all have different settings gains nothing from more."""

_MAX_TEMPLATE_BYTES = 1 << 18
"""The largest template that is kept, so that all take at most 17 MB; RELAY with 30 features has 136 kB."""


@dataclass(slots=True)
class LearnerResources:
    """What the learners of a task share.

    Attributes:
        buffers: Arrays that carry nothing from one operation to the next.
        templates: Learners without weights, by the settings that decide how they are made, oldest first.
        generator: Draws the weights of one learner after the other, see `_reseed`.
    """

    buffers: SharedBuffers = field(default_factory=dict)
    templates: dict[Hashable, OnlineLearner] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: random_generator(bytes(32)))

    def template(self, key: Hashable, make: Callable[[], OnlineLearner]) -> OnlineLearner:
        """Return the template of a key; make it on first use, and keep it if it is small."""
        template = self.templates.get(key)
        if template is None:
            template = make()
            if template.allocated_bytes <= _MAX_TEMPLATE_BYTES:
                if len(self.templates) == _MAX_TEMPLATES:
                    del self.templates[next(iter(self.templates))]
                self.templates[key] = template
        return template


def build(
    name: str,
    settings: LearnerSettings,
    features: int,
    seed: bytes,
    resources: LearnerResources | None = None,
    *,
    is_loaded: bool = False,
) -> Learner:
    """Make a new learner.

    Args:
        name: The learner's, for errors.
        settings: Its method, network and numbers.
        features: Numbers in an example.
        seed: 32 bytes, the SHA-256 of application, stream and learner; equal seeds give equal bits.
        resources: What learners share that never run at the same time; without it, nothing is shared.
        is_loaded: Whether a stored state follows, so that no initial weights have to be drawn.

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
        return build_dense(METHODS[settings.method], settings, features, None if is_loaded else seed, resources)
    method, scaled = new_method(METHODS[settings.method], settings, features, seed), settings.scaler == "standard"
    count, rates = method.tables.state.networks, (settings.learning_rate, settings.l2)
    generator = random_generator(seed)
    try:
        from stream_app.learners.networks import autograd  # noqa: PLC0415  (Torch takes seconds and half a gigabyte; most do without)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        text = f"learner {name}: network {settings.network} needs the package torch: pip install 'areba[torch]'"
        raise ConfigurationError(text) from error
    try:
        modules = [autograd.load_module(settings.network, features, generator) for _ in range(count)]
        models = autograd.AutogradModels(modules, features, *rates)
        if method.is_alike:
            models.training.parameters.reshape(count, -1)[:] = models.training.of(0).parameters
    except ConfigurationError as error:
        raise type(error)(f"learner {name}: {line}" for line in error.lines) from error
    return OnlineLearner(method, models, features, scaled=scaled, buffers=resources.buffers)


def build_dense(
    method: LearningMethod, settings: LearnerSettings, features: int, seed: bytes | None, resources: LearnerResources
) -> OnlineLearner:
    """Make a new learner of dense networks; see `build`. Resources belong to one method of each name.

    Without a seed, all weights are zero.
    """
    widths = (features, *settings.hidden, 1)
    model = resources.template((features, *settings.key), lambda: _without_weights(method, settings, widths, resources))
    if seed is None:
        return model.blank_copy()
    generator = _reseed(resources.generator, seed)
    if model.is_alike:
        weights = [dense_weights(widths, generator)] * model.networks
    else:
        weights = [dense_weights(widths, generator) for _ in range(model.networks)]
    return model.copy_with(np.concatenate(weights), new_generator(seed) if model.draws_numbers else None)


def _without_weights(
    method: LearningMethod, settings: LearnerSettings, widths: tuple[int, ...], resources: LearnerResources
) -> OnlineLearner:
    """Make a learner of dense networks whose weights are zero."""
    made = new_method(method, settings, widths[0], bytes(32))
    model = blank_networks(widths, made.tables.state.networks, settings.learning_rate, settings.l2, made.examples)
    return OnlineLearner(made, model, widths[0], scaled=settings.scaler == "standard", buffers=resources.buffers)


def _reseed(generator: np.random.Generator, seed: bytes) -> np.random.Generator:
    """Give a `random_generator` another seed, which takes a tenth of the time of a new generator; return it."""
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
