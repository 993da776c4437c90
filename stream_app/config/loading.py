"""Read the configuration: the file, then the environment over it, then validation.

The file has sections (`join: {ttl_ms: ...}`). A variable `AREBA__JOIN__TTL_MS` (or `AREBA_JOIN__TTL_MS`) overrides the
file: sections and keys in capitals, joined by two underscores. In a section of settings of a client (of Kafka or of the
schema registry), one underscore stands for a dot (`AREBA__KAFKA__ALL__SASL_PASSWORD` is `kafka.all.sasl.password`).
Names of streams and
learners match in any case, with an underscore for a hyphen or a dot.

A variable for a setting of a client may end with `_FILE`; then it holds the path of a file that has the value.
A container's secret is such a file: a password in the environment can be read in the list of processes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import TypeAdapter, ValidationError

from stream_app.config.client_settings import CLIENT_SECTIONS, is_own_file_setting, redact
from stream_app.config.decision_settings import Threshold, ThresholdSettings, decision_conflicts
from stream_app.config.learner_settings import METHODS
from stream_app.config.messages import SettingPath, annotation_at, is_structure, message
from stream_app.config.settings import Config, ConflictsError
from stream_app.config.yaml_file import (
    Document,
    Fault,
    Place,
    PlainLoader,
    beginning_of,
    dotted,
    plain_data,
    problem_of,
    read_file,
)
from stream_app.errors import ConfigurationError
from stream_app.records import ThresholdKind

_FILE_SUFFIX = "_FILE"

MAX_VALUE_BYTES = 1 << 16
"""Largest file with the value of one setting; a private key with its certificates takes some kB."""

DEFAULT = "default"
"""The source of a setting that neither the file nor the environment has."""


class Effective(NamedTuple):
    """A setting in force: its dotted path, its value, and the source of the value.

    `source` is `file:line`, the name of a variable, or `DEFAULT`.
    """

    setting: str
    value: object
    source: str


def load(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read the file, apply the settings of the environment over it, and validate the result.

    Args:
        path: The YAML file; None takes the defaults.
        environment: Variables; those whose names do not look like settings are ignored.

    Raises:
        ConfigurationError: Settings are wrong: one line for each of them, all at once. Or the file cannot be read or
            is not YAML: one line.
    """
    return _load(path, environment)[0]


def effective(path: Path | None, environment: Mapping[str, str]) -> list[Effective]:
    """Return all settings in force, with stars for secrets; raise as `load` does.

    What a stream does not override is left out: there the settings of `learners` hold.
    """
    config, document = _load(path, environment)
    leaves = _leaves(redact(config.model_dump(mode="json")), (), document.data)
    found = (Effective(dotted(key), value, document.source(key) or DEFAULT) for key, value in leaves)
    return [one for one in found if not (one.setting.startswith("streams.") and one.source == DEFAULT)]


def read_threshold(text: str, stream: str, config: Config) -> ThresholdSettings:
    """Return a threshold for a stream from the text that its setting would have: `costs`, or `probability: 0.3`.

    Raises:
        ConfigurationError: The stream cannot have it; the message is that of the setting. Or the text says nothing,
            which in a file means `majority`.
    """
    path = ("streams", stream, "threshold")
    try:
        value = _parsed(path, text)
        threshold: ThresholdSettings = TypeAdapter(Threshold).validate_python(value)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"threshold: not YAML: {problem_of(error)}") from error
    except ValidationError as error:
        faults = [(tuple(map(str, one["loc"])), one) for one in error.errors(include_url=False)]
        lines = [f"{dotted((path[-1], *at))}: {message(Config, (*path, *at), one)}" for at, one in faults]
        raise ConfigurationError(lines) from error
    overrides = config.stream_settings(stream)
    costs, columns = (None, {}) if overrides is None else (overrides.costs, overrides.columns)
    lines = [
        f"threshold: {text}" for setting, text in decision_conflicts(threshold, costs, columns) if setting == path[-1]
    ]
    if threshold.kind is ThresholdKind.MAJORITY and value != ThresholdKind.MAJORITY.text:
        lines.append("threshold: is empty; for the class that the learner gives, write majority")
    if lines:
        raise ConfigurationError(lines)
    return threshold


def _leaves(data: Mapping[str, Any], path: SettingPath, written: object) -> Iterator[tuple[SettingPath, object]]:
    """Yield the path and the value of everything that is not a section; an empty section is a value.

    A word that was written for a section, such as `threshold: costs`, is a value, too.
    """
    for name, value in data.items():
        own = written.get(name) if isinstance(written, Mapping) else None
        if isinstance(value, Mapping) and isinstance(own, str):
            yield (*path, name), own
        elif isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, name), own)
        else:
            yield (*path, name), value


def _load(path: Path | None, environment: Mapping[str, str]) -> tuple[Config, Document]:
    document = Document(path)
    if path is not None:
        read_file(document, path)
    _read_environment(document, environment)
    config = _validated(document)
    if config is None or document.faults:
        raise ConfigurationError(document.lines())
    return config, document


def _validated(document: Document) -> Config | None:
    """Validate the document, and return None after adding its faults.

    Wrong settings are removed and the rest is validated again, so that conflicts between settings are found as well.
    """
    try:
        return Config.model_validate(document.data)
    except ValidationError as error:
        _explain(document, error)
        for details in error.errors(include_url=False):
            _remove(document.data, tuple(map(str, details["loc"])))
    if not document.data.get("learners"):
        document.data.pop("learners", None)
    try:
        Config.model_validate(document.data)
    except ValidationError as error:
        _explain(document, error)
    return None


def _remove(data: dict[str, Any], path: SettingPath) -> None:
    """Remove a wrong setting; a wrong method is replaced by a right one, since learners need one."""
    here = data
    for name in path[:-1]:
        below = here.get(name)
        if not isinstance(below, dict) or (path[-1] == "[key]" and name == path[-2]):
            here.pop(name, None)
            return
        here = below
    if path and path[-1] == "method":
        here["method"] = METHODS[0]
    elif path:
        here.pop(path[-1], None)


def _read_environment(document: Document, environment: Mapping[str, str]) -> None:
    """Put the settings of the environment into the document."""
    given: dict[str, str] = {}
    for number, variable in enumerate(sorted(environment)):
        rest = variable.removeprefix("AREBA__")
        if rest == variable:
            rest = variable.removeprefix("AREBA_")
            if rest == variable or "__" not in rest:  # AREBA_DATA_DIR, for example, is not a setting
                continue
        rank = (2, number)
        setting = _setting_of_file(rest)
        is_file = setting != rest
        earlier = given.get(setting)
        value = environment[variable]
        if earlier is not None and (is_file or earlier.endswith(_FILE_SUFFIX)):
            document.faults.append(Fault(rank, f"{variable}: is the same setting as {earlier}; set only one of them"))
            continue
        if earlier is not None and environment[earlier] != value:
            document.faults.append(Fault(rank, f"{variable}: differs from {earlier}, which is the same setting"))
        given[setting] = variable
        if is_file:
            try:
                value = _value_in(Path(value))
            except ConfigurationError as error:
                document.faults.append(Fault(rank, f"{variable}: {error}"))
                continue
        _put(document, (rank, variable), setting.lower().split("__"), value)


def _setting_of_file(rest: str) -> str:
    """Return a variable's setting without `_FILE`, if the variable holds a path; else return it as it is."""
    section, _, name = rest.lower().rpartition("__")
    setting = rest.removesuffix(_FILE_SUFFIX)
    if section not in CLIENT_SECTIONS or setting == rest or is_own_file_setting(name.replace("_", ".")):
        return rest
    return setting


def _value_in(file: Path) -> str:
    """Return the text of a file without the end of its last line.

    Raises:
        ConfigurationError: The file cannot be read, is not regular, is too large, is empty or is not UTF-8. The error
            does not show what the file holds.
    """
    try:
        raw = beginning_of(file, MAX_VALUE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigurationError(f"{file}: cannot be read: {reason or type(error).__name__}") from None
    if len(raw) > MAX_VALUE_BYTES:
        raise ConfigurationError(f"{file}: larger than {MAX_VALUE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: not UTF-8") from None
    if not text:
        raise ConfigurationError(f"{file}: is empty")
    return text


def _put(document: Document, place: Place, parts: list[str], text: str) -> None:
    """Put one setting of the environment into the document; `parts` are its sections and its key."""
    if "__".join(parts[:2]) in CLIENT_SECTIONS and len(parts) > 2:
        parts = [*parts[:2], ".".join(parts[2:]).replace("_", ".")]
    here = document.data
    path: SettingPath = ()
    for number, part in enumerate(parts):
        name = _as_written(here, part, path)
        path = (*path, name)
        if not name:
            document.faults.append(Fault(place[0], f"{place[1]}: not of the form AREBA__SECTION__KEY"))
            return
        if number < len(parts) - 1:
            if here.get(name) is None:
                here[name] = {}
                document.places.setdefault(path, place)
            here = here[name]
            if not isinstance(here, dict):
                return  # validation reports what is there instead of a section
    document.places = {key: value for key, value in document.places.items() if key[: len(path)] != path}
    document.places[path] = place
    try:
        here[path[-1]] = _parsed(path, text)
    except yaml.YAMLError as error:
        here.pop(path[-1], None)
        document.add_fault(path, f"not YAML: {problem_of(error)}")


def _as_written(here: Mapping[str, Any], part: str, path: SettingPath) -> str:
    """Return the name of a stream or learner as the file has it: variables have capitals and underscores only."""
    if part in here or not (path and path[-1] in {"streams", "learners"}):
        return part
    alike = [name for name in here if name.lower().replace("-", "_").replace(".", "_") == part]
    return alike[0] if len(alike) == 1 else part


def _parsed(path: SettingPath, text: str) -> Any:  # noqa: ANN401  (plain data)
    """Return the value of a variable: text as it is, a list or mapping from YAML's short form (`[512, 512]`)."""
    if not is_structure(annotation_at(Config, path)):
        return text
    loader = PlainLoader(text)
    try:
        node = loader.get_single_node()
        own = Document(None)
        value = None if node is None else plain_data(own, loader, node, path)
        if own.faults:
            raise yaml.MarkedYAMLError(problem=own.faults[0].line)
        return value
    finally:
        loader.dispose()


def _explain(document: Document, error: ValidationError) -> None:
    """Add a fault for each error of a validation."""
    for details in error.errors(include_url=False):
        path = tuple(str(part) for part in details["loc"])
        if path and path[-1] == "[key]":
            path = path[:-1]
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, ConflictsError):
            for conflict in cause.conflicts:
                document.add_fault(conflict.path, conflict.message)
        else:
            document.add_fault(path, message(Config, path, details))
