"""Streams as text: a data set, a synthetic stream or a file, with options.

fraud                                          a complete data set
fraud:stream=fraud-eu,limit=5000               its first examples, as a stream of another name
sine:drift=posterior,length=5000,interval_ms=100
payments.csv:limit=5000                        a file of one's own
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from stream_app.errors import ConfigurationError, DataSetError
from stream_app.producers import datasets
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.files.layout import ANY_INPUT, FileOptions, StreamInput
from stream_app.producers.files.source import Reading, read_file
from stream_app.producers.synthetic import CONCEPTS, SPEC_KEYS, parse_spec, synthetic

COMMON_KEYS = ("stream", "limit", "interval_ms")

NO_READING = Reading(options=FileOptions())
"""How a file is read about which nothing is said."""


def any_input(_stream: str) -> StreamInput:
    """Say nothing about a stream."""
    return ANY_INPUT


@dataclass(frozen=True, slots=True)
class Source:
    """A requested stream.

    Attributes:
        stream: The name of the stream.
        data: Its examples and classes.
        interval_ms: Event time from one example to the next; None: not given.
        lanes: The number of its lanes in the configuration; None: it has none.
    """

    stream: str
    data: DataSet
    interval_ms: int | None
    lanes: int | None = None


def parse_source(
    text: str,
    data_dir: Path | None = None,
    limit: int | None = None,
    reading: Reading = NO_READING,
    stream: str | None = None,
    input_of: Callable[[str], StreamInput] = any_input,
) -> Source:
    """Load, make or read the stream that a text describes.

    Args:
        text: A stream as in the module's docstring.
        data_dir: As in `datasets.load`.
        limit: The largest number of examples, unless the text gives a limit; of a file, of its first rows.
        reading: How a file is read.
        stream: The name of the stream; None: as the text says.
        input_of: Says what the configuration says about a stream; may raise `ConfigurationError`.

    Raises:
        ConfigurationError: An option does not fit the file, or the data the configuration.
        DataSetError: A name, key or value is unknown (the message names the nearest), or the data cannot be loaded.
    """
    name, rest = (text, "") if Path(text).is_file() else text.partition(":")[::2]
    options = [option.partition("=") for option in rest.split(",") if option]
    common = {key: value for key, _, value in options if key in COMMON_KEYS}
    own = [(key, value) for key, _, value in options if key not in COMMON_KEYS]
    limit = _positive(text, "limit", common["limit"]) if "limit" in common else limit
    interval_ms = _positive(text, "interval_ms", common["interval_ms"]) if "interval_ms" in common else None
    stream = stream or common.get("stream") or (stream_of(Path(name)) if is_file_name(name) else name)
    configured = input_of(stream)
    if is_file_name(name):
        _refuse_unknown(text, own, COMMON_KEYS)
        data = read_file(Path(name), replace(reading, limit=limit), configured)
    elif name in CONCEPTS:
        _refuse_unknown(text, own, (*SPEC_KEYS, *COMMON_KEYS))
        data = synthetic(parse_spec(f"{name}:" + ",".join(f"{key}={value}" for key, value in own)))
    else:
        datasets.find(name, CONCEPTS)
        _refuse_unknown(text, own, COMMON_KEYS)
        data = datasets.load(name, data_dir)
    if configured.columns and data.values is None:
        raise ConfigurationError(f"{text}: has arrays of features, and the stream {stream} has columns")
    return Source(stream, data if limit is None else data.prefix(limit), interval_ms, configured.lanes)


def is_file_name(name: str) -> bool:
    """Return whether a name is that of a file: no data set or synthetic stream has a dot or a slash in its name."""
    return "." in name or "/" in name


def stream_of(path: Path) -> str:
    """Return the stream of a file about which no name is given: the file's name up to the first dot."""
    return path.name.partition(".")[0] or path.name


def _refuse_unknown(text: str, options: list[tuple[str, str]], known: tuple[str, ...]) -> None:
    for key, _ in options:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise DataSetError(f"{text}: no option {key}; {hint}")


def _positive(text: str, key: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise DataSetError(f"{text}: {key}={value} is not a whole number above 0")
    return int(value)
