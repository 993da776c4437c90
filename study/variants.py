"""Networks that differ from the paper's in one thing, to find out what explains a difference to its figures.

They are learners' `network` setting (`study.variants:GlorotNetwork`), trained through autograd.
"""

import math
from itertools import pairwise

import numpy as np
import torch

from stream_app.network import DenseNetwork

HIDDEN = (8,)
"""As in the paper, except for MNIST."""

KERAS_LEAK = 0.3
"""The slope that Keras' LeakyReLU has when none is given; the authors' program gives 0.01."""


class GlorotNetwork(DenseNetwork):
    """Weights uniform as Glorot and Bengio (2010) have them: what Keras' layers do when nothing is said."""

    def __init__(self, features: int) -> None:
        super().__init__(features, HIDDEN)
        with torch.no_grad():
            for number, (inputs, units) in enumerate(pairwise(self.widths)):
                bound = math.sqrt(6.0 / (inputs + units))
                self.layers[2 * number].uniform_(-bound, bound)


class UntruncatedNetwork(DenseNetwork):
    """He-normal weights that are not cut at two deviations: what Torch's `kaiming_normal_` gives."""

    def __init__(self, features: int) -> None:
        super().__init__(features, HIDDEN)
        with torch.no_grad():
            for number, inputs in enumerate(self.widths[:-1]):
                self.layers[2 * number].normal_(0.0, math.sqrt(2.0 / inputs))


class LeakyNetwork(DenseNetwork):
    """A LeakyReLU of slope 0.3."""

    def __init__(self, features: int) -> None:
        seed = int(torch.randint(2**62, ()).item())
        super().__init__(features, HIDDEN, np.random.Generator(np.random.Philox(seed)))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Logits `[n]` of examples `[n, d]`."""
        values = examples
        for layer in range(0, len(self.layers), 2):
            if layer > 0:
                values = torch.nn.functional.leaky_relu(values, KERAS_LEAK)
            values = values @ self.layers[layer] + self.layers[layer + 1]
        return values.squeeze(1)
