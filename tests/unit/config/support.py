"""Load a configuration from text."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from stream_app.config import Config, load
from stream_app.errors import ConfigurationError

FIVE_STREAMS = "streams: {a: {}, b: {}, c: {}, d: {}, e: {}}"
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "ops" / "areba.yaml"


def read(folder: Path, text: str | bytes, environment: Mapping[str, str] | None = None) -> Config:
    """Write text to the file `areba.yaml`, and load it."""
    path = folder / "areba.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path, environment or {})


def faults(folder: Path, text: str | bytes, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of the error that a user sees, without the folder's name."""
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text, environment)
    assert all("\n" not in line for line in caught.value.lines)
    return [line.replace(f"{folder}/", "") for line in caught.value.lines]
