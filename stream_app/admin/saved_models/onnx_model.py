"""A learner's dense network as an ONNX model: features as they come in, the score out.

The graph standardizes the features as the learner does, in float64, or limits them; each layer is a `Gemm`, and the
scores of an ensemble are averaged. It knows nothing of columns: the names of the features are in the metadata.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ConfigurationError
from stream_app.snapshot.model_file import DEVIATIONS, LARGEST, Layers, ModelFile

OPSET = 21
"""The version of ONNX's operators, of 2024: runtimes from onnxruntime 1.18 on read it."""

IR_VERSION = 10
"""The version of the file format that goes with it."""

LEAK = 0.01
"""The slope of LeakyReLU below 0."""


def onnx_model(file: ModelFile) -> bytes:
    """Return the model: input `features`, float32 `[n, d]`, output `score`, float32 `[n]`.

    Raises:
        ConfigurationError: The package `onnx` is missing, or the learner's network is not a dense network.
    """
    try:
        import onnx  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise ConfigurationError("--format onnx needs the package onnx: pip install 'areba[onnx]'") from error
    networks = file.layers()
    if not networks:
        raise ConfigurationError(
            f"learner {file.source['learner']}: only networks of areba's own (network: dense) can be written as ONNX"
        )
    graph = _Graph(onnx)
    inputs = _add_inputs(graph, file)
    scores = [_add_network(graph, layers, inputs, f"{number}.") for number, layers in enumerate(networks)]
    mean = graph.add("Mean", scores, "mean_score") if len(scores) > 1 else scores[0]
    graph.add("Squeeze", [mean, graph.constant("last_axis", np.array([1]))], "score")
    model = graph.model(file.features)
    onnx.helper.set_model_props(
        model, {**file.source, "features": str(file.features), "feature_names": json.dumps(file.names)}
    )
    content: bytes = model.SerializeToString(deterministic=True)
    return content


class _Graph:
    """Collects the nodes and constants of a graph."""

    def __init__(self, onnx: Any) -> None:  # noqa: ANN401  (the package, which has no types)
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        self._constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name

    def add(self, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        """Add a node with one output; return the name of the output."""
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def model(self, features: int) -> Any:  # noqa: ANN401  (as above)
        """Return the checked model."""
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        inputs = helper.make_tensor_value_info("features", kind, ["n", features])
        outputs = helper.make_tensor_value_info("score", kind, ["n"])
        graph = helper.make_graph(self._nodes, "areba", [inputs], [outputs], self._constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="areba")
        self._onnx.checker.check_model(model, full_check=True)
        return model


def _add_inputs(graph: _Graph, file: ModelFile) -> str:
    """Add what happens to features before the first layer."""
    scaling = file.scaling()
    if scaling is None:
        low, high = (
            graph.constant(name, np.array(end, np.float32)) for name, end in (("low", -LARGEST), ("high", LARGEST))
        )
        return graph.add("Clip", ["features", low, high], "inputs")
    mean, factor = scaling
    wide = graph.add("Cast", ["features"], "wide", to=11)  # 11: float64
    distance = graph.add("Sub", [wide, graph.constant("mean", mean)], "distance")
    scaled = graph.add("Mul", [distance, graph.constant("factor", factor)], "scaled")
    low, high = (
        graph.constant(name, np.array(end, np.float64)) for name, end in (("low", -DEVIATIONS), ("high", DEVIATIONS))
    )
    limited = graph.add("Clip", [scaled, low, high], "limited")
    return graph.add("Cast", [limited], "inputs", to=1)  # 1: float32


def _add_network(graph: _Graph, layers: Layers, inputs: str, prefix: str) -> str:
    """Add the layers of one network; return the name of its score, float32 `[n, 1]`."""
    values = inputs
    for number, (weights, biases) in enumerate(layers):
        if number:
            values = graph.add("LeakyRelu", [values], f"{prefix}{number}.input", alpha=LEAK)
        constants = [
            graph.constant(f"{prefix}{number}.weight", np.ascontiguousarray(weights)),
            graph.constant(f"{prefix}{number}.bias", biases),
        ]
        values = graph.add("Gemm", [values, *constants], f"{prefix}{number}.output", transB=1)
    return graph.add("Sigmoid", [values], f"{prefix}score")
