"""The settings: names, defaults, values and meanings from the configuration's classes."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ops.reference.text import sentence, table
from stream_app.config import METHOD_FACTS, Config, has_setting

VARIABLES = {
    "AREBA__SECTION__KEY": "Overrides `section.key` of the configuration file (`AREBA_SECTION__KEY` works, too). In "
    "settings of a client one underscore stands for a dot: `AREBA__KAFKA__ALL__SASL_PASSWORD` is "
    "`kafka.all.sasl.password`.",
    "AREBA_LOG_LEVEL": "Level of the log: `DEBUG`, `INFO` (the default), `WARNING`, `ERROR` or `CRITICAL`.",
    "AREBA_CACHE_DIR": "Folder of the compiled code; by default `areba` in the user's cache. No other user may write "
    "to it.",
    "AREBA_DATA_DIR": "Folder with the publishers' own data files, for `areba-replay` and the study.",
}


def attributes_of(docstring: str) -> Mapping[str, str]:
    """Read the `Attributes:` section of a docstring: the text of each attribute by its name."""
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


MEANINGS: Mapping[str, str] = {
    "application.id": "name of the application: its consumer group, the beginning of the names of its own topics and "
    "transactional ids, and the seed of its models",
    "application.instance": "name of this worker among the workers of the application; keep it over restarts",
    "metrics.every_labels": "labels of a stream between two metric records of a learner",
    "metrics.fading_factor": "fading factor of the prequential sums; 1 never forgets",
    "metrics.change_detector": "method that detects when a learner began to recognise a class worse than before",
    "limits.max_streams_per_task": "most streams of a task; records of further streams become dead letters "
    "`unknown-stream`",
    "limits.max_record_bytes": "largest size of a value in bytes; a larger record becomes a dead letter `too-large`",
    "limits.max_features": "most features of an example; an example with more becomes a dead letter `wrong-dimension`",
    "breaker.in_a_row": "malformed records of one input in a row that stop their stream until `areba resume`",
    "breaker.share": "share of malformed records among all records of a stream in one input that stops the stream",
    "breaker.share_after_records": "records since a stream's first malformed record after which this share counts",
}
"""Settings that the configuration's classes describe in one sentence together."""


def _values(schema: Mapping[str, Any]) -> str:
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
        text += f" {'above' if is_above else 'from'} {least:,}"
    if most is not None:
        text += f" {'and below' if is_below else 'to' if not is_above else 'up to'} {most:,}"
    return text


def settings_section() -> Iterator[str]:
    """Yield a table of each section of the configuration file, of learners, and of the environment."""
    whole = Config.model_json_schema()
    defaults = Config().model_dump(mode="json")
    single = []
    for section, schema in whole["properties"].items():
        if "$ref" not in schema and "allOf" not in schema:
            single.append((section, schema))
            continue
        definition = whole["$defs"][(schema.get("$ref") or schema["allOf"][0]["$ref"]).rpartition("/")[2]]
        meanings = attributes_of(definition.get("description", ""))
        yield f"### `{section}`\n"
        rows = []
        for key, field in definition["properties"].items():
            default = "the host's name" if key == "instance" else _default(defaults[section][key])
            name = f"{section}.{key}"
            meaning = meanings.get(key) or MEANINGS[name]
            rows.append((f"`{key}`", default, _values(field), sentence(meaning)))
        yield from table(("setting", "default", "values", "meaning"), rows)
    yield "### At the top of the file\n"
    yield from table(
        ("setting", "default", "values", "meaning"),
        (
            (f"`{name}`", _top_default(name, defaults[name]), _values(field), sentence(TOP_LEVEL[name]))
            for name, field in single
        ),
    )
    yield from _learner_settings(whole["$defs"])


TOP_LEVEL = {
    "unknown_streams": "what a record of a stream that is not configured becomes: a dead letter, or the first record "
    "of a new model with the learners below",
    "predictions": "whose predictions are published",
    "learners": "the learners by name, at most 16; their order is that of the outputs, and the first is the champion "
    "unless a stream says otherwise",
    "streams": "the streams by name, each with `features`, `champion`, any setting of a learner, and `learners` for "
    "settings of one learner",
}


def _default(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else f"`{json.dumps(value)}`"


def _top_default(name: str, value: object) -> str:
    return "`areba`, `baseline`" if name == "learners" else _default(value)


def _learner_settings(definitions: Mapping[str, Any]) -> Iterator[str]:
    definition = definitions["LearnerSettings"]
    meanings = attributes_of(definition.get("description", ""))
    yield "### A learner\n"
    yield "The settings of an entry of `learners`. A setting that the method does not have is an error.\n"
    rows = []
    for key, field in definition["properties"].items():
        having = [f"`{method}`" for method, facts in METHOD_FACTS.items() if key in facts.settings]
        lacking = [f"`{method}`" for method in METHOD_FACTS if not has_setting(method, key)]
        every = f"all but {', '.join(lacking)}" if lacking else "all"
        methods = "your own" if key == "options" else ", ".join(having) or every
        default = _default(field["default"]) if "default" in field else "`{}`" if key == "options" else "required"
        rows.append((f"`{key}`", default, _values(field), methods, sentence(meanings.get(key, ""))))
    yield from table(("setting", "default", "values", "methods", "meaning"), rows)
    yield "Environment variables:\n"
    yield from table(("variable", "meaning"), ((f"`{name}`", text) for name, text in VARIABLES.items()))
