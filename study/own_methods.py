"""Methods of a user beside those of a benchmark: `--method NAME=package.module:Class`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from stream_app.config import LearnerSettings, is_own
from stream_app.errors import ConfigurationError
from stream_app.learners.factory import build

Method = TypeVar("Method")


def choose_methods(
    texts: Sequence[str],
    known: Mapping[str, Method],
    make_own: Callable[[str, LearnerSettings], Method],
    *,
    is_own_file: bool,
) -> dict[str, Method]:
    """Return the methods that a command line asks for, by name.

    Args:
        texts: Names of known methods, or NAME=package.module:Class for a user's own; empty: all known methods.
        known: The benchmark's methods, by name.
        make_own: Makes a method from its name and settings.
        is_own_file: Whether the figures are written to a file of the user.

    Raises:
        ConfigurationError: There is no method of that name, the name of an own method is taken, its class cannot be
            loaded, or its figures would be written to the benchmark's file.
    """
    chosen = dict(_chosen(text, known, make_own) for text in texts or known)
    if not is_own_file and (own := [name for name in chosen if name not in known]):
        raise ConfigurationError(f"--method {', '.join(own)}: write the figures to a file of yours, --results FILE")
    return chosen


def _chosen(
    text: str, known: Mapping[str, Method], make_own: Callable[[str, LearnerSettings], Method]
) -> tuple[str, Method]:
    name, is_pair, path = text.partition("=")
    if not is_pair:
        if name not in known:
            raise ConfigurationError(f"--method {name}: no such method; there are {', '.join(known)}")
        return name, known[name]
    if name in known:
        raise ConfigurationError(f"--method {text}: {name} is a method of the benchmark; take another name")
    if not name or not is_own(path):
        raise ConfigurationError(f"--method {text}: expected NAME=package.module:Class")
    settings = LearnerSettings(method=path)
    build(name, settings, features=2, seed=bytes(32))  # what cannot be loaded is reported before the first stream
    return name, make_own(name, settings)
