"""The complete configuration file: every setting with its default value, made from the configuration's classes."""

import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from ops.reference.settings import attributes_of, sections, values
from ops.reference.text import sentence
from stream_app.config import METHOD_FACTS, Config, LearnerSettings, has_setting
from stream_app.config.values import Change, Settings

FILE = Path(__file__).parents[1] / "areba.yaml"

_WIDTH = 120

MARKS: Mapping[Change, str] = {
    Change.FREE: "no result depends on the setting",
    Change.TAKEN_OVER: "the new value is taken over",
    Change.RESTARTS: "the learner starts again without its former state; the other learners continue",
    Change.FIXED: "the worker refuses the new value",
}

_SAMPLES: Mapping[str, str] = {
    "kafka.all": """security.protocol: sasl_ssl
sasl.mechanism: SCRAM-SHA-512
sasl.username: areba   # the password: AREBA__KAFKA__ALL__SASL_PASSWORD""",
    "kafka.consumer": "session.timeout.ms: 45000",
    "kafka.producer": "compression.type: lz4",
    "serialization.schema_registry": """url: https://registry.example:8081
basic.auth.user.info: areba:...   # or AREBA__SERIALIZATION__SCHEMA_REGISTRY__BASIC_AUTH_USER_INFO_FILE""",
    "serialization.schema_ids": "example.v1: [3]",
    "serialization.writer_schemas": """'70001': '{"type": "record", ...}'""",
    "serialization.label_classes": "fraud: 1",
}
"""Values of maps, which are empty by default."""

_STREAMS = """\
streams:
  fraud:
    features: 30          # by default the number of features of the first example
    learning_rate: 0.0001 # any setting of a learner, here for all learners of the stream
  mnist:
    features: 784
    hidden: [512, 512]
    learning_rate: 0.001
    l2: 0.01
    champion: areba       # the first champion; `areba promote` changes it
    threshold: {score: 0.8}  # when class 1 is predicted; or probability: 0.3, alerts: 0.01; `majority` or `costs`
    # Compare each window of examples with a reference, without labels (docs/drift.md):
    drift: {reference_examples: 2000, window_examples: 1000, threshold: 0.25, reference: 0}
    learners:             # settings for one learner
      areba: {budget: 20}
  forest:
    features: 54
  sine:
    features: 2
  clicks:                 # more examples than a core learns (docs/lanes.md)
    features: 12
    lanes: 8              # eight streams with a model each; the id of an example decides which
  payments:               # examples with values by column, instead of an array of features
    columns:
      amount: number
      age: {missing: mean}                # a missing number becomes the mean; one more feature says so
      country: {category: {most: 50}}     # a feature for each of the 50 most frequent, one for the others
      merchant: {category: {hashed: 32}}  # 32 features; a hash chooses one of them
      weekday: {cyclic: 7}                # sine and cosine, with a period of 7
    costs: {false_positive: 5, false_negative: amount}  # what errors cost: numbers, or columns
    threshold: costs                      # predict the class that is expected to cost less
    missing_values: [-9999, ""]           # marks that stand for a missing value in any column
"""


def example() -> str:
    """Return the text of the file."""
    lines = [
        "# A complete configuration of areba: `areba run -c ops/areba.yaml` (written by `python -m ops.reference`).",
        "#",
        *_wrapped(
            "The file has every setting with its default value, except in `streams`. You may omit every setting that "
            "you do not change. An environment variable overrides the file: AREBA__JOIN__TTL_MS=60000 is join.ttl_ms, "
            "and AREBA__KAFKA__ALL__SASL_PASSWORD is kafka.all.sasl.password (keep passwords out of this file).",
            "",
        ),
        "#",
        "# A mark says what happens when you change a setting of a running application and restart its workers:",
        *(f"#   {_mark(change):<11}{text}" for change, text in MARKS.items()),
        "# docs/changes.md has the details, and says what to do about a refused value.",
    ]
    for name, section in sections():
        if section is not None:
            lines += ["", *_section(name, section)]
        elif name not in {"learners", "streams"}:
            schema = Config.model_json_schema()["properties"][name]
            lines += ["", *_setting("", name, getattr(Config(), name), _comment(Config, name, schema))]
    meanings = attributes_of(Config)
    lines += ["", *_wrapped(sentence(meanings["learners"]), ""), "learners:", *_learners()]
    lines += ["", *_wrapped(sentence(meanings["streams"]), ""), _STREAMS.rstrip("\n")]
    return "\n".join(lines) + "\n"


def _mark(change: Change) -> str:
    return f"[{change}]"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _comment(section: type[Settings], name: str, schema: Mapping[str, object]) -> str:
    """Return the mark of a setting, its meaning, and the values that it takes."""
    meaning = sentence(attributes_of(section)[name])
    taken = values(schema).replace("`", "")
    bounds = f" Values: {taken}." if taken not in {"", "text", "map", "list"} else ""
    return f"{_mark(section.change_of(name))} {meaning}{bounds}"


def _setting(indent: str, name: str, value: object, comment: str) -> Iterator[str]:
    yield from _wrapped(comment, indent)
    yield f"{indent}{name}: {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, str):
        return value or '""'
    return json.dumps(list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value)


def _section(section: str, model: type[Settings]) -> Iterator[str]:
    yield from _wrapped((inspect.getdoc(model) or "").partition("\n\n")[0], "")
    yield f"{section}:"
    defaults = getattr(Config(), section)
    for name, schema in model.model_json_schema()["properties"].items():
        comment = _comment(model, name, schema)
        if name == "instance":  # its default is the name of the host, which differs from machine to machine
            yield from _wrapped(comment, "  ")
            yield "  # instance: worker-1"
            continue
        yield from _setting("  ", name, getattr(defaults, name), comment)
        yield from textwrap.indent(_SAMPLES.get(f"{section}.{name}", ""), "  #   ").splitlines()


def _learners() -> Iterator[str]:
    """Yield the default learners, and the other methods as comments; the first method with a setting explains it."""
    explained: set[str] = set()
    for method in ("areba", *(method for method in METHOD_FACTS if method != "areba")):
        is_default = method in Config().learners
        for line in _learner(method, explained):
            yield line if is_default else f"  # {line[2:]}"
    yield "  # A learner of your own (docs/own_learner.md) has options, which its class receives, and no other setting:"
    yield "  # mine:"
    yield "  #   method: my_package.my_module:MyLearner"
    yield "  #   options: {rate: 0.1}   # [learner] plain YAML, at most 10,000 bytes as JSON"


def _learner(method: str, explained: set[str]) -> Iterator[str]:
    properties = LearnerSettings.model_json_schema()["properties"]
    settings = LearnerSettings(method=method)
    yield f"  {method}:"
    for name, schema in properties.items():
        if not has_setting(method, name) or (name in explained and name not in METHOD_FACTS[method].settings):
            if name == "method":
                yield f"    method: {method}"
            continue
        if name in explained:
            yield f"    {name}: {_value(getattr(settings, name))}"
            continue
        explained.add(name)
        yield from _setting("    ", name, getattr(settings, name), _comment(LearnerSettings, name, schema))
