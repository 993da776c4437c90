"""Grids: a file that declares an experiment for each of its streams and each combination of settings.

    streams: {sine: {source: sine, imbalance: 1}, credit: {source: credit}}
    grid: {learning_rate: [0.1, 0.01], scaler: [none, standard]}

This declares eight experiments, `FILE-sine.0.1-none` and so on. A combination applies to all methods.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

from stream_app.errors import ConfigurationError

MAX_EXPERIMENTS = 1_000
"""Most experiments of a file; more are a mistake."""


def expanded(data: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the content of a file for each of its streams and each combination of its grid.

    Args:
        data: The content of a file, and its `name`.
        where: The place that an error names.

    Raises:
        ConfigurationError: `streams` or `grid` does not have the form above.
    """
    rest = {key: value for key, value in data.items() if key not in ("streams", "grid")}
    streams, grid = data.get("streams"), data.get("grid") or {}
    if streams is None and not grid:
        return [rest]
    if not isinstance(streams, dict) or not streams or not all(isinstance(one, dict) for one in streams.values()):
        raise ConfigurationError(f"{where}: streams: must be a mapping from names to streams")
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise ConfigurationError(f"{where}: grid: must be a mapping from settings to lists of values")
    combinations = list(product(*grid.values()))
    if len(streams) * len(combinations) > MAX_EXPERIMENTS:
        raise ConfigurationError(f"{where}: declares more than {MAX_EXPERIMENTS} experiments")
    return [
        _one(rest, name, stream, dict(zip(grid, values, strict=True)))
        for name, stream in streams.items()
        for values in combinations
    ]


def _one(rest: Mapping[str, Any], name: str, stream: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    suffix = f".{'-'.join(str(value) for value in settings.values())}" if settings else ""
    stream = dict(stream)
    own: dict[str, Any] = {key: stream.pop(key) for key in ("title", "repetitions", "seed", "varies") if key in stream}
    title = own.pop("title", name)
    return {
        **rest,
        **own,
        "name": f"{rest['name']}-{name}{suffix}",
        "title": f"{title}{', ' if settings else ''}{', '.join(f'{key} {value}' for key, value in settings.items())}",
        "stream": stream,
        "settings": {**(rest.get("settings") or {}), **settings},
    }
