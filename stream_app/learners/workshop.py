"""What the learners of a task share: scratch, and a blank learner of each kind to make others of."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from stream_app.jit.memory import Scratch
from stream_app.learners.networks.dense import random_generator
from stream_app.learners.online import OnlineLearner

MOST_MODELS = 64
"""Kinds of learners that are kept: a task whose streams are all configured differently gains nothing from more."""

MOST_MODEL_BYTES = 1 << 16
"""Of a kept one. To draw the weights of a larger network takes longer than all the rest."""


@dataclass(slots=True)
class Workshop:
    """For learners that never run at the same time.

    Attributes:
        scratch: Arrays that hold nothing from one operation to the next.
        models: Blank learners by what decides how they are made, oldest first.
        generator: To draw the weights of one learner after the other, see `network.seeded_anew`.
    """

    scratch: Scratch = field(default_factory=dict)
    models: dict[Hashable, OnlineLearner] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: random_generator(bytes(32)))

    def model(self, key: Hashable, make: Callable[[], OnlineLearner]) -> OnlineLearner:
        """The blank learner of this key."""
        model = self.models.get(key)
        if model is None:
            model = make()
            if model.allocated_bytes <= MOST_MODEL_BYTES:
                if len(self.models) == MOST_MODELS:
                    del self.models[next(iter(self.models))]
                self.models[key] = model
        return model
