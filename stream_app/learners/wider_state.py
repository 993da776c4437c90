"""The state of a learner of more features than it was learned with: what was learned stays, new weights are zero."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.learners.method import State

_OF_NETWORKS = frozenset({"parameters", "first_moments", "second_moments"})
"""The arrays that have, of each network, the weights of its first layer, feature by feature, and then the others."""


class AddedFeatures(NamedTuple):
    """Features that are added to those of a stream.

    Attributes:
        places: int64 `[d]`, the number of each former feature among all features; ascending.
        width: The number of all features, more than d.
    """

    places: Longs
    width: int

    def rows(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return examples, `[n, d]`, with all features: `[n, width]`; the added features are 0."""
        wide = np.zeros((*examples.shape[:-1], self.width), examples.dtype)
        wide[..., self.places] = examples
        return wide

    def state(self, known: State, new: State, units: int) -> dict[str, NDArray[Any]]:
        """Return what a learner of dense networks has learned, as the state of one with all features.

        Args:
            known: The former state.
            new: The state of a new learner with the same settings and all features. What belongs to an added feature
                begins like this, but the weights begin at zero.
            units: The number of units of the first layer.
        """
        return {name: self._array(name, known, array, units) if name in known else array for name, array in new.items()}

    def _array(self, name: str, known: State, new: NDArray[Any], units: int) -> NDArray[Any]:
        array = known[name]
        if name in _OF_NETWORKS:
            return self._parameters(array.reshape(len(known["updates"]), -1), units)
        if array.shape[-1:] != self.places.shape or new.shape[-1:] != (self.width,):
            return array
        if array.ndim > 1:
            return self.rows(array)
        wide = new.copy()
        wide[self.places] = array
        return wide

    def _parameters(self, networks: NDArray[Any], units: int) -> NDArray[Any]:
        """Return the parameters of networks, `[k, n]`, with weights of 0 for each added feature, in one row."""
        first = len(self.places) * units
        weights = networks[:, :first].reshape(len(networks), len(self.places), units)
        wide = self.rows(weights.swapaxes(1, 2)).swapaxes(1, 2)
        return np.concatenate([wide.reshape(len(networks), -1), networks[:, first:]], axis=1).reshape(-1)
