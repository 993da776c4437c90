"""What the learners of a task share, which never run at the same time: buffers, templates and a generator."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from stream_app.jit.memory import SharedBuffers
from stream_app.learners.networks.dense import random_generator
from stream_app.learners.online import OnlineLearner

MAX_TEMPLATES = 64
"""The most templates that are kept: a task whose streams all have different settings gains nothing from more."""

MAX_TEMPLATE_BYTES = 1 << 16
"""The largest template that is kept: the weights of a larger network take longer to draw than all the rest."""


@dataclass(slots=True)
class LearnerResources:
    """What the learners of a task share.

    Attributes:
        buffers: Arrays that carry nothing from one operation to the next.
        templates: Learners without weights, by the settings that decide how they are made, oldest first.
        generator: Draws the weights of one learner after the other, see `networks.dense.reseed`.
    """

    buffers: SharedBuffers = field(default_factory=dict)
    templates: dict[Hashable, OnlineLearner] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: random_generator(bytes(32)))

    def template(self, key: Hashable, make: Callable[[], OnlineLearner]) -> OnlineLearner:
        """Return the template of a key; make it if there is none, and keep it if it is small."""
        template = self.templates.get(key)
        if template is None:
            template = make()
            if template.allocated_bytes <= MAX_TEMPLATE_BYTES:
                if len(self.templates) == MAX_TEMPLATES:
                    del self.templates[next(iter(self.templates))]
                self.templates[key] = template
        return template
