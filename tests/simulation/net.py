"""A user's own network, for configurations of the simulation."""

import torch


class Net(torch.nn.Module):
    """A network that is trained through autograd."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(features, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits `[n, 1]`."""
        logits: torch.Tensor = self.layers(examples)
        return logits
