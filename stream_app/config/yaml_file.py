"""The YAML file: plain data, and the line of every key.

Only plain YAML is read: no aliases (a few of them can make gigabytes), no tags, limited size and depth.
"""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from stream_app.config.messages import SettingPath, first_line
from stream_app.errors import ConfigurationError

MAX_FILE_BYTES = 1 << 23
"""Largest file. 10,000 streams with every setting take 6 MB."""

MAX_DEPTH = 16
"""Deepest nesting: a configuration needs 5 levels. The parser recurses; the limit protects the interpreter's stack."""

Place: TypeAlias = tuple[tuple[int, ...], str]
"""A rank that sorts the lines of errors, and `file:line` or the name of a variable."""


class Fault(NamedTuple):
    """A wrong setting: the rank of its place (see `Place`), and the line that explains it."""

    rank: tuple[int, ...]
    line: str


def dotted(path: SettingPath) -> str:
    """Return the path as one line of text, even if names contain control characters."""
    return ".".join(name if name and name.isprintable() else repr(name) for name in path)


class Document:
    """The settings of the file and the environment as plain data, with the place that each setting came from.

    Attributes:
        file: The name of the file, for errors.
        data: The settings.
        places: The place of each setting and section, by its path.
        faults: The faults found so far.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = str(file) if file else "defaults"
        self.data: dict[str, Any] = {}
        self.places: dict[SettingPath, Place] = {}
        self.faults: list[Fault] = []

    def add_fault(self, path: SettingPath, message: str) -> None:
        """Add a wrong setting, with its line, or the line of the nearest enclosing section in the file."""
        rank, place = next(self._places_above(path), ((0,), self.file))
        key = f"{dotted(path)}: " if path else ""
        self.faults.append(Fault(rank, f"{place}: {key}{message}"))

    def source(self, path: SettingPath) -> str | None:
        """Return the place of a setting; None if it was not written.

        A value within a list or a short form (`{budget: 20}`) may have no line: then it has the line of the whole.
        """
        here: Any = self.data
        for name in path:
            if not isinstance(here, dict) or name not in here:
                return None
            here = here[name]
        return next((place for _, place in self._places_above(path)), None)

    def _places_above(self, path: SettingPath) -> Iterator[Place]:
        """Yield the places of a setting and of the sections around it that were written, the nearest first."""
        return (self.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.places)

    def lines(self) -> list[str]:
        """Return the line of each fault once: faults of the file in its order, then faults of the variables."""
        return list(dict.fromkeys(fault.line for fault in sorted(self.faults, key=lambda fault: fault.rank)))


_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class PlainLoader(yaml.SafeLoader):
    """A `SafeLoader` that refuses aliases and deep nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401  (PyYAML's type)
        """Return the next node; PyYAML calls this for every node."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read: write it out", problem_mark=mark)
        if self.depth == MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_DEPTH} levels deep", problem_mark=mark)
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def beginning_of(path: Path, size: int) -> bytes:
    """Return the first bytes of a regular file.

    Raises:
        OSError: It cannot be read, or is not regular: a pipe without a writer would be waited for, without an end.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with path.open("rb") as file:
        return file.read(size)


def read_file(document: Document, path: Path) -> None:
    """Read a YAML file into a document.

    Raises:
        ConfigurationError: The file cannot be read, is not regular, is too large, is not UTF-8 or is not YAML.
    """
    try:
        raw = beginning_of(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _position(raw[: error.start].decode("utf-8-sig", "replace"))
        raise ConfigurationError(f"{path}: line {line}, column {column}: not UTF-8") from error
    document.data, document.places = {}, {}
    loader = None
    try:
        loader = PlainLoader(text)
        node = loader.get_single_node()
        _take_root(document, loader, node)
    except yaml.reader.ReaderError as error:
        line, column = _position(text[: error.position])
        raise ConfigurationError(f"{path}: line {line}, column {column}: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigurationError(f"{path}: {where}{problem_of(error)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"{path}: {first_line(error)}") from error
    finally:
        if loader is not None:
            loader.dispose()


def problem_of(error: yaml.YAMLError) -> str:
    """Return the text of an error without the lines of the file, which PyYAML would quote: they may hold a password."""
    if isinstance(error, yaml.MarkedYAMLError):
        return " ".join(f"{error.context or ''} {error.problem or ''}".split())
    return first_line(error)


def _position(text: str) -> tuple[int, int]:
    """Return line and column, from 1, of the place after this text."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _take_root(document: Document, loader: PlainLoader, node: yaml.Node | None) -> None:
    document.places[()] = ((0,), document.file)
    if isinstance(node, yaml.MappingNode):
        document.data = plain_data(document, loader, node, ())
    elif node is None or (isinstance(node, yaml.ScalarNode) and loader.construct_object(node) is None):
        document.add_fault((), "is empty; ops/areba.yaml shows every setting")
    else:
        document.add_fault((), "must be sections, such as `join:`, with settings below them")


def plain_data(document: Document, loader: PlainLoader, node: yaml.Node, path: SettingPath) -> Any:  # noqa: ANN401  (plain data)
    """Return the node with this path as dict, list or scalar, and note the line of every key in the document."""
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_object(node)
        # The client reads text, and a password of 0123 must not become 83.
        return node.value if _is_client_setting(path) and value is not None else value
    if node.tag not in _PLAIN_TAGS:
        mark: Any = node.start_mark
        raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not read", problem_mark=mark)
    if isinstance(node, yaml.SequenceNode):
        return [plain_data(document, loader, item, path) for item in node.value]
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        mark = key_node.start_mark
        name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        here = (*path, name)
        place = ((1, mark.line, mark.column), f"{document.file}:{mark.line + 1}")
        if name in data:
            message = f"{dotted(here)}: is set twice, first in {document.places[here][1]}"
            document.faults.append(Fault(place[0], f"{place[1]}: {message}"))
            continue
        document.places[here] = place
        if not isinstance(key_node, yaml.ScalarNode) or not isinstance(loader.construct_object(key_node), str):
            document.add_fault(here, "a key must be text: put it in quotes")
            continue
        data[name] = plain_data(document, loader, value_node, here)
    return data


def _is_client_setting(path: SettingPath) -> bool:
    """Say whether this is the path of a setting of the Kafka client."""
    return len(path) == 3 and path[0] == "kafka" and path[1] in {"all", "consumer", "producer"}
