"""The errors that a user gets for wrong settings."""

from pathlib import Path

import pytest

from stream_app.config import (
    REFUSED_SETTINGS,
    Config,
)
from stream_app.lanes import lane_names
from tests.unit.config.support import faults, read


class TestWrongSettings:
    """All wrong settings are reported together, one line each: where, which, what, and what was probably meant."""

    def test_all_at_once(self, tmp_path: Path) -> None:
        """A user should not have to start a worker ten times to find ten typing errors."""
        lines = faults(
            tmp_path,
            """\
application: {id: "two words"}
join:
  ttl: 5
  max_clock_lead_ms: -1
  closed_ttl_ms: soon
worker: {commit_interval_ms: 1.5, every_labels: 3}
metrics: 7
breaker: {share: .nan, in_a_row: true}
unknown_streams: drop
prediction: all
learners:
  areba: {method: arebo, budget: 21, hidden: [8, x], scaler: standrad}
  other: {theta: 1.0, l2: [1]}
streams:
  fraud: {features: 20000, champion: arba, learners: {othr: {}}}
  sine: {learning_rate: 0}
""",
            {"AREBA__JOIN__TTL_MS": "0", "AREBA__JION__TTL_MS": "1", "AREBA__LEARNERS__AREBA__HIDDEN": "[8"},
        )
        expected = [
            "areba.yaml:1: application.id: must match ^[a-zA-Z0-9._-]{1,100}$, is 'two words'",
            "areba.yaml:3: join.ttl: unknown setting; did you mean join.ttl_ms?",
            "areba.yaml:4: join.max_clock_lead_ms: must be at least 0, is -1",
            "areba.yaml:5: join.closed_ttl_ms: must be a whole number, is 'soon'",
            "areba.yaml:6: worker.commit_interval_ms: must be a whole number, is 1.5",
            "areba.yaml:6: worker.every_labels: unknown setting; did you mean metrics.every_labels?",
            "areba.yaml:7: metrics: must be a section with settings below it, is 7",
            "areba.yaml:8: breaker.share: must be a finite number, is nan",
            "areba.yaml:8: breaker.in_a_row: must be a number, is True",
            "areba.yaml:9: unknown_streams: must be 'dead-letter' or 'model', is 'drop'",
            "areba.yaml:10: prediction: unknown setting; did you mean predictions?",
            "areba.yaml:12: learners.areba.method: there is no method 'arebo'; did you mean areba?",
            "areba.yaml:12: learners.areba.budget: must be a multiple of 2, is 21",
            "areba.yaml:12: learners.areba.scaler: must be 'none' or 'standard', is 'standrad'; did you mean standard?",
            "areba.yaml:13: learners.other.method: is missing",
            "areba.yaml:13: learners.other.theta: must be less than 1, is 1.0",
            "areba.yaml:13: learners.other.l2: must be a number, is a list",
            "areba.yaml:15: streams.fraud.features: must be at most limits.max_features (10000), is 20000",
            "areba.yaml:15: streams.fraud.champion: there is no learner 'arba'; did you mean areba?",
            "areba.yaml:15: streams.fraud.learners.othr: there is no learner 'othr'; did you mean other?",
            "areba.yaml:16: streams.sine.learning_rate: must be more than 0, is 0",
            "AREBA__JION__TTL_MS: jion: unknown setting; did you mean join?",
            "AREBA__JOIN__TTL_MS: join.ttl_ms: must be at least 1, is '0'",
        ]
        assert [line for line in lines if "HIDDEN" not in line] == expected
        assert next(line for line in lines if "HIDDEN" in line).startswith(
            "AREBA__LEARNERS__AREBA__HIDDEN: learners.areba.hidden: not YAML: while parsing"
        )

    def test_settings_that_a_method_does_not_have(self, tmp_path: Path) -> None:
        """Such a setting would have no effect, and the user would think that it had one."""
        text = """\
learners:
  base: {method: baseline, budget: 20}
  window: {method: sliding, windw: 50, theta: 0.9}
  bagging: {method: oob_single, ensemble_size: 5}
  mine: {method: "my.module:Mine", learning_rate: 0.1}
  areba: {method: areba, options: {x: 1}}
streams:
  one: {cost: 5.0, theta: 0.9, learners: {window: {theta: 0.9, window: 7}, mine: {options: {x: .inf}}}}
"""
        of_sizes = "areba, adaptive_cs, oob, uob, oob_single"
        has_not = "has no such setting (it belongs to"
        plain = "may only hold text, numbers, true, false, null, lists and maps"
        assert faults(tmp_path, text) == [
            f"areba.yaml:2: learners.base.budget: the method baseline {has_not} areba, qbr)",
            "areba.yaml:3: learners.window.windw: unknown setting; did you mean learners.window.window?",
            f"areba.yaml:3: learners.window.theta: the method sliding {has_not} {of_sizes})",
            f"areba.yaml:4: learners.bagging.ensemble_size: the method oob_single {has_not} oob, uob)",
            "areba.yaml:5: learners.mine.learning_rate: a learner of your own has no setting but options",
            f"areba.yaml:6: learners.areba.options: the method areba {has_not} learners of your own)",
            "areba.yaml:8: streams.one.cost: no learner's method has such a setting",
            f"areba.yaml:8: streams.one.learners.window.theta: the method sliding {has_not} {of_sizes})",
            f"areba.yaml:8: streams.one.learners.mine.options: {plain}",
        ]

    def test_a_streams_setting_goes_to_the_methods_that_have_it(self, tmp_path: Path) -> None:
        """One line sets all learners of a stream that have the setting, with any method."""
        learners = "{a: {method: areba}, b: {method: baseline}, c: {method: oob}, d: {method: 'm:C', options: {r: 1}}}"
        stream = "streams: {s: {theta: 0.9, learning_rate: 0.5, ensemble_size: 5, learners: {d: {options: {r: 2}}}}}"
        task = read(tmp_path, f"learners: {learners}\n{stream}").task_settings()
        default, own = task.default_stream.learners, task.streams["s"].learners
        assert [own[name].theta for name in "abcd"] == [0.9, 0.99, 0.9, 0.99]
        assert [own[name].learning_rate for name in "abcd"] == [0.5, 0.5, 0.5, 0.01]
        assert (own["c"].ensemble_size, default["c"].ensemble_size) == (5, 20)
        assert (own["d"].options, default["d"].options) == ({"r": 2}, {"r": 1})

    def test_keys_twice_and_keys_that_are_no_text(self, tmp_path: Path) -> None:
        """YAML would silently keep the last of two equal keys, and read the stream `no` as False."""
        assert faults(tmp_path, "join: {ttl_ms: 1}\nstreams:\n  no: {}\n  1: {}\njoin: {ttl_ms: 2}\n") == [
            "areba.yaml:3: streams.no: a key must be text: put it in quotes",
            "areba.yaml:4: streams.1: a key must be text: put it in quotes",
            "areba.yaml:5: join: is set twice, first in areba.yaml:1",
        ]

    def test_text_that_yaml_reads_as_something_else(self, tmp_path: Path) -> None:
        """An instance called 7 is not text; the error says what to do."""
        lines = faults(tmp_path, "application: {id: 7, instance: }\nkafka: {bootstrap_servers: [a, b]}\n")
        assert lines == [
            "areba.yaml:1: application.id: must be text: put it in quotes, is 7",
            "areba.yaml:1: application.instance: must be text, is empty",
            "areba.yaml:2: kafka.bootstrap_servers: must be text, is a list",
        ]

    @pytest.mark.parametrize("name", sorted(REFUSED_SETTINGS))
    def test_settings_that_carry_a_guarantee(self, tmp_path: Path, name: str) -> None:
        """`acks: 1` would lose records silently; the error says why the setting is refused."""
        lines = faults(tmp_path, f"kafka:\n  producer: {{linger.ms: 5, {name}: x}}\n")
        assert lines == [f"areba.yaml:2: kafka.producer.{name}: cannot be set: {REFUSED_SETTINGS[name]}"]

    def test_every_number_has_bounds(self) -> None:
        """A number without a bound would be a buffer, a wait or a loop without one."""
        for key, schema in _numbers(Config.model_json_schema()):
            assert {"minimum", "exclusiveMinimum", "ge", "gt"} & schema.keys(), key
            assert {"maximum", "exclusiveMaximum", "le", "lt"} & schema.keys(), key

    def test_names(self, tmp_path: Path) -> None:
        """Names become record keys and labels of metrics; an error stays on one line for any name."""
        lines = faults(tmp_path, 'learners: {a b: {method: areba}}\nstreams:\n  "": {}\n  "a\\nb": {}\n')
        about = "a stream's name has 1 to 249 bytes and no control characters"
        assert lines == [
            "areba.yaml:1: learners.a b: must match ^[a-zA-Z0-9._-]{1,64}$, is 'a b'",
            f"areba.yaml:3: streams.'': {about}",
            f"areba.yaml:4: streams.'a\\nb': {about}",
        ]

    def test_lanes_that_cannot_be(self, tmp_path: Path) -> None:
        """Two models under one name would mix, and a name that is too long could not be sent."""
        (taken,) = [name for name in lane_names("clicks", 2) if ".0of2." in name]
        text = f"""\
streams:
  clicks: {{lanes: 2}}
  {taken}: {{}}
  {"n" * 245}: {{lanes: 8}}
  a: {{lanes: 1}}
  b: {{lanes: 65}}
"""
        assert faults(tmp_path, text) == [
            f"areba.yaml:2: streams.clicks.lanes: one of its lanes is '{taken}', which is also a configured stream",
            (
                f"areba.yaml:4: streams.{'n' * 245}.lanes: the names of its lanes have up to 252 bytes; "
                "at most 249 are allowed"
            ),
            "areba.yaml:5: streams.a.lanes: must be at least 2, is 1",
            "areba.yaml:6: streams.b.lanes: must be at most 64, is 65",
        ]
        assert faults(tmp_path, "streams: {a: {lanes: 64}, b: {lanes: 64}}") == [
            "areba.yaml: limits.max_streams_per_task: must allow the 128 configured streams, is 100"
        ]

    def test_how_many(self, tmp_path: Path) -> None:
        """A task needs a learner, and room for the configured streams."""
        assert faults(tmp_path, "learners: {}\nstreams: [a]\nkafka: {all: 7}") == [
            "areba.yaml:1: learners: needs at least 1",
            "areba.yaml:2: streams: must be a section with names below it, is a list",
            "areba.yaml:3: kafka.all: must be a section with names below it, is 7",
        ]
        assert faults(tmp_path, "streams: {a: {}, b: {}}\nlimits: {max_streams_per_task: 1}") == [
            "areba.yaml:2: limits.max_streams_per_task: must allow the 2 configured streams, is 1"
        ]
        assert faults(tmp_path, "worker: {buffer_bytes: 100000}") == [
            "areba.yaml:1: worker.buffer_bytes: must be at least limits.max_record_bytes (1000000), is 100000"
        ]

    def test_long_values_are_cut(self, tmp_path: Path) -> None:
        """A wrong value of a megabyte must not fill the screen."""
        (line,) = faults(tmp_path, f"unknown_streams: {'x' * 1000}")
        assert len(line) < 200


def _numbers(schema: object, key: str = "") -> list[tuple[str, dict[str, object]]]:
    if isinstance(schema, list):
        return [found for item in schema for found in _numbers(item, key)]
    if not isinstance(schema, dict):
        return []
    is_number = schema.get("type") in {"integer", "number"} and "enum" not in schema
    found = [(key, schema)] if is_number else []
    return found + [below for name, item in schema.items() for below in _numbers(item, f"{key}.{name}")]
