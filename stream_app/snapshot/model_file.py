"""The state of a learner as a safetensors file, which Torch can load, and which can be imported and compared.

    state.*        the whole state, as in a snapshot, without what is kept of pending examples
    model.*        dense networks, with the names of `torch.nn.Sequential` (an ensemble: model.0.*, model.1.*, ...);
                   of RELAY's networks the one that predicts, with its feature gates in the weights of the first layer
    columns.*      what was learned of the columns of the stream, as in a snapshot; of a stream without columns nothing
    input.mean, input.deviation    with which RELAY, or a learner that has a scaler, standardizes the features

The metadata have the columns of the stream (`columns`), and the name of each feature (`feature_names`): of a category
with a feature of its own, `country=DE`. Without columns, features have numbers as names.

Load a dense network with one hidden layer of 8 units, without a scaler, in plain Torch:

    from safetensors.torch import load_file
    model = torch.nn.Sequential(torch.nn.Linear(30, 8), torch.nn.LeakyReLU(0.01), torch.nn.Linear(8, 1))
    tensors = load_file("champion.safetensors")
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    score = torch.sigmoid(model(features))
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stream_app.config import METHOD_FACTS, LearnerSettings
from stream_app.errors import StateError
from stream_app.snapshot.format import Arrays, Columns, named, without_prefix
from stream_app.snapshot.imported_state import NO_COLUMNS, SavedColumns

STATE, MODEL, INPUT, COLUMNS = "state.", "model.", "input.", "columns."

FORMAT = "areba model 1"

DEVIATIONS, LARGEST = 5.0, 1e6
"""Limits of a standardized feature, and of a feature that enters a network as it comes."""

Layers: TypeAlias = list[tuple[NDArray[np.float32], NDArray[np.float32]]]
"""Weights `[units, inputs]` and biases `[units]` of each layer of a network."""


class ModelFile(NamedTuple):
    """A learner's state, and where it was exported from.

    Attributes:
        state: The learner's arrays, in the order in which the learner lists them.
        settings: The learner's settings.
        features: Number of features of an example.
        source: Application, stream, learner, task, offsets and digest, for people.
        columns: The columns of its stream.
        feature_names: The names of the features; empty without columns.
    """

    state: Columns
    settings: LearnerSettings
    features: int
    source: Mapping[str, str]
    columns: SavedColumns = NO_COLUMNS
    feature_names: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """The name of each feature: of a stream without columns its number."""
        return list(self.feature_names) or [str(number) for number in range(self.features)]

    def layers(self) -> Sequence[Layers]:
        """Return the layers of each network that predicts; empty: the learner has no dense network.

        RELAY's feature gates are in the weights of the first layer.
        """
        if self.settings.network != "dense" or "parameters" not in self.state:
            return []
        widths = (self.features, *self.settings.hidden, 1)
        parameters = np.array(self.state["parameters"]).reshape(len(self.state["updates"]), -1)
        predictor = METHOD_FACTS[self.settings.method].predictor
        if predictor is not None:
            parameters = parameters[predictor : predictor + 1]
        if "gates" in self.state:
            first = parameters[0, : self.features * widths[1]].reshape(self.features, widths[1])
            first *= np.asarray(self.state["gates"])[:, None]
        return [_layers(network, widths) for network in parameters]

    def scaling(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return what `scaling_of` returns for the learner's state."""
        return scaling_of(self.state)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        tensors = {f"{STATE}{name}": array for name, array in self.state.items()}
        networks = self.layers()
        for network, layers in enumerate(networks):
            prefix = f"{MODEL}{network}." if len(networks) > 1 else MODEL
            for layer, (weights, biases) in enumerate(layers):
                tensors[f"{prefix}{2 * layer}.weight"] = weights
                tensors[f"{prefix}{2 * layer}.bias"] = biases
        scaling = self.scaling()
        if scaling is not None:
            mean, factor = scaling
            deviation = np.divide(1.0, factor, out=np.full_like(factor, np.inf), where=factor > 0)
            tensors |= {f"{INPUT}mean": mean.astype(np.float32), f"{INPUT}deviation": deviation.astype(np.float32)}
        tensors |= named(COLUMNS, self.columns.state)
        metadata = {
            **self.source,
            "format": FORMAT,
            "settings": self.settings.model_dump_json(),
            "features": str(self.features),
            "order": json.dumps(list(self.state)),
            "columns": self.columns.text,
            "feature_names": json.dumps(self.names),
        }
        return save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, metadata=metadata)

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a file that `ModelFile.to_bytes` made.

        Raises:
            StateError: The file cannot be read, or is not such a file.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
            if metadata.pop("format", None) != FORMAT:
                raise StateError(f"{path}: not a file of `areba state export`")
            order = json.loads(metadata.pop("order"))
            state = {name: tensors[f"{STATE}{name}"] for name in order}
            settings = LearnerSettings.model_validate_json(metadata.pop("settings"))
            columns = SavedColumns(metadata.pop("columns"), without_prefix(tensors, COLUMNS))
            names = json.loads(metadata.pop("feature_names"))
            return cls(state, settings, int(metadata.pop("features")), metadata, columns, names)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as problem:
            raise StateError(f"{path}: not a file of `areba state export` ({problem})") from None


def scaling_of(state: Arrays) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return mean and inverse deviation, float64 `[features]`, of a learner that standardizes; otherwise None.

    A feature that never varied has the inverse deviation 0, so that its standardized value is 0.
    """
    if "scaler.mean" not in state:
        return None
    mean, variance = (np.asarray(state[f"scaler.{name}"], np.float64) for name in ("mean", "variance"))
    deviation = np.sqrt(variance)
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return mean, factor


def digest_of(state: Arrays) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of a state, hexadecimal; equal states have equal digests."""
    digest = hashlib.sha256()
    for name, array in state.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _layers(parameters: NDArray[Any], widths: Sequence[int]) -> Layers:
    """Return weights `[units, inputs]` and biases `[units]` of each layer of one network."""
    start, layers = 0, []
    for inputs, units in pairwise(widths):
        weights = parameters[start : start + inputs * units].reshape(inputs, units)
        start += inputs * units
        layers.append((weights.T, parameters[start : start + units]))
        start += units
    return layers
