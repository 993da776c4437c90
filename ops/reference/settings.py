"""The settings: names, defaults, values and meanings from the configuration's classes."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ops.reference.text import sentence, table
from stream_app.config import METHOD_FACTS, Config, LearnerSettings, has_setting
from stream_app.config.values import Settings

VARIABLES = {
    "AREBA__SECTION__KEY": "Overrides `section.key` of the configuration file (`AREBA_SECTION__KEY` works, too). In "
    "settings of a client one underscore stands for a dot: `AREBA__KAFKA__ALL__SASL_PASSWORD` is "
    "`kafka.all.sasl.password`.",
    "AREBA_LOG_LEVEL": "Level of the log: `DEBUG`, `INFO` (the default), `WARNING`, `ERROR` or `CRITICAL`.",
    "AREBA_CONFIG": "The configuration file of `areba` commands without `-c`; then the commands that areba prints work "
    "as they are.",
    "AREBA_CACHE_DIR": "Folder of the compiled code; by default `areba` in the user's cache. No other user may write "
    "to it.",
    "AREBA_DATA_DIR": "Folder with the publishers' own data files, for `areba-replay` and the study.",
}


def attributes_of(documented: type) -> Mapping[str, str]:
    """Read the `Attributes:` section of a class's docstring: the text of each attribute by its name."""
    docstring = inspect.getdoc(documented) or ""
    found: dict[str, str] = {}
    name = ""
    for line in docstring.partition("Attributes:\n")[2].splitlines():
        if start := re.match(r"    (\w+): (.*)", line):
            name = start[1]
            found[name] = start[2]
        elif name and line.startswith("        "):
            found[name] += " " + line.strip()
        elif line.strip():
            break
    return found


def values(schema: Mapping[str, Any]) -> str:
    """Say which values a setting takes."""
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice.get("type") != "null"]
    schema = choices[0] if choices else schema
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    least = schema.get("ge", schema.get("minimum", schema.get("gt", schema.get("exclusiveMinimum"))))
    most = schema.get("le", schema.get("maximum", schema.get("lt", schema.get("exclusiveMaximum"))))
    kind = {"integer": "integer", "number": "number", "string": "text", "object": "map", "array": "list"}
    text = kind.get(schema.get("type", ""), "")
    is_above = "gt" in schema or "exclusiveMinimum" in schema
    is_below = "lt" in schema or "exclusiveMaximum" in schema
    if least is not None:
        text += f" {'above' if is_above else 'from'} {_number(least)}"
    if most is not None:
        text += f" {'and below' if is_below else 'to' if not is_above else 'up to'} {_number(most)}"
    return text


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)


def settings_section() -> Iterator[str]:
    """Yield a table of each section of the configuration file, of learners, and of the environment."""
    heads = ("setting", "default", "values", "change", "meaning")
    properties = Config.model_json_schema()["properties"]
    defaults = Config().model_dump(mode="json")
    meanings = attributes_of(Config)
    top = []
    for name, section in sections():
        if section is None:
            cells = (_top_default(name, defaults[name]), values(properties[name]), _change(Config, name))
            top.append((f"`{name}`", *cells, sentence(meanings[name])))
            continue
        yield f"### `{name}`\n"
        own = attributes_of(section)
        rows = []
        for key, schema in section.model_json_schema()["properties"].items():
            default = "the host's name" if key == "instance" else _default(defaults[name][key])
            rows.append((f"`{key}`", default, values(schema), _change(section, key), sentence(own[key])))
        yield from table(heads, rows)
    yield "### At the top of the file\n"
    yield from table(heads, top)
    yield from _learner_settings()


def sections() -> Iterator[tuple[str, type[Settings] | None]]:
    """Yield the names at the top of the file; those of a section with its class."""
    for name, field in Config.model_fields.items():
        kind = field.annotation
        yield name, kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _change(section: type[Settings], name: str) -> str:
    return "" if name in {"learners", "streams"} else f"`{section.change_of(name)}`"


def _default(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else f"`{json.dumps(value)}`"


def _top_default(name: str, value: object) -> str:
    return "`areba`, `baseline`" if name == "learners" else _default(value)


def _learner_settings() -> Iterator[str]:
    meanings = attributes_of(LearnerSettings)
    yield "### A learner\n"
    yield "The settings of an entry of `learners`. A setting that the method does not have is an error.\n"
    rows = []
    for key, field in LearnerSettings.model_json_schema()["properties"].items():
        having = [f"`{method}`" for method, facts in METHOD_FACTS.items() if key in facts.settings]
        lacking = [f"`{method}`" for method in METHOD_FACTS if not has_setting(method, key)]
        every = f"all but {', '.join(lacking)}" if lacking else "all"
        methods = "your own" if key == "options" else ", ".join(having) or every
        default = _default(field["default"]) if "default" in field else "`{}`" if key == "options" else "required"
        rows.append(
            (f"`{key}`", default, values(field), methods, _change(LearnerSettings, key), sentence(meanings[key]))
        )
    yield from table(("setting", "default", "values", "methods", "change", "meaning"), rows)
    yield "Environment variables:\n"
    yield from table(("variable", "meaning"), ((f"`{name}`", text) for name, text in VARIABLES.items()))
