"""Settings: what a user may write, what he is told when it is wrong, and what must never be told."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from stream_app.config import (
    REFUSED_SETTINGS,
    Config,
    JoinSettings,
    LearnerSettings,
    LimitSettings,
    MetricSettings,
    Running,
    StreamSettings,
    TaskSettings,
    changes,
    load,
    settings,
)
from stream_app.errors import ConfigurationError, StateError

FIVE_STREAMS = "streams: {a: {}, b: {}, c: {}, d: {}, e: {}}"
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "ops" / "areba.yaml"


def read(folder: Path, text: str | bytes, environment: Mapping[str, str] | None = None) -> Config:
    """Load this text as the file `areba.yaml`."""
    path = folder / "areba.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path, environment or {})


def wrong(folder: Path, text: str | bytes, environment: Mapping[str, str] | None = None) -> list[str]:
    """The lines that a user sees, without the folder's name."""
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text, environment)
    assert all("\n" not in line for line in caught.value.lines)
    return [line.replace(f"{folder}/", "") for line in caught.value.lines]


class TestFile:
    """What the YAML file may hold."""

    def test_nothing_is_needed(self, tmp_path: Path) -> None:
        """A first try needs no file, and a section whose lines are all commented out is an empty one."""
        assert load(None, {}) == read(tmp_path, "# nothing\njoin:\nstreams:\nkafka: {all: }\n")
        assert load(None, {}).task_settings().default_stream.champion == "areba"

    @pytest.mark.parametrize("text", ["", "# nothing\n", "null\n"])
    def test_an_empty_file_is_a_mistake(self, tmp_path: Path, text: str) -> None:
        """Taken for all defaults, it made a worker wait for a broker that nobody had named."""
        assert wrong(tmp_path, text) == ["areba.yaml: is empty; ops/areba.yaml shows every setting"]

    def test_the_example_shows_every_setting_and_its_default(self) -> None:
        """People copy ops/areba.yaml: a default that is not the real one, or a missing key, would mislead them."""
        text = EXAMPLE.read_text()
        given, default = load(EXAMPLE, {}), load(None, {})
        assert given.model_copy(update={"streams": {}}) == default.model_copy(update={"streams": {}})
        for key in _all_keys(Config):
            assert re.search(rf"\b{key}:", text), f"{key} is not in the example"

    def test_streams_resolve_over_learners(self, tmp_path: Path) -> None:
        """A stream's own settings hold for all its learners, and those of one learner of it go before them."""
        task = read(
            tmp_path,
            """
            learners:
              first: {method: areba, budget: 40}
              second: {method: qbr}
            streams:
              fraud: {features: 30, learning_rate: 1e-4, champion: second}
              mnist: {hidden: [512, 512], budget: 10, learners: {first: {budget: 20, l2: 0.01}}}
            """,
        ).task_settings()
        fraud, mnist = task.streams["fraud"], task.streams["mnist"]
        assert (fraud.features, fraud.champion, mnist.features, mnist.champion) == (30, "second", None, "first")
        assert [settings.learning_rate for settings in fraud.learners.values()] == [0.0001, 0.0001]
        assert fraud.learners["first"].budget == 40
        assert (mnist.learners["first"].budget, mnist.learners["second"].budget) == (20, 10)
        assert (mnist.learners["first"].l2, mnist.learners["second"].l2) == (0.01, 0.0)
        assert mnist.learners["second"].hidden == (512, 512)
        assert list(task.default_stream.learners) == ["first", "second"]
        assert task.default_stream.learners["first"] == LearnerSettings(method="areba", budget=40)

    def test_names_are_made_of_the_settings(self, tmp_path: Path) -> None:
        """Fencing, the group and the topics hang on these names."""
        settings = read(tmp_path, "application: {id: desk, instance: w-1}\nkafka: {topic_prefix: eu.}\n")
        assert settings.transactional_id == "desk/w-1"
        assert (settings.group_id, settings.log_reader_group_id) == ("desk", "desk/log-reader")
        assert settings.topics.dead_letters == "eu.dead-letters"
        assert (settings.topics.changelog, settings.topics.progress) == ("eu.desk-changelog", "eu.desk-progress")

    def test_two_applications_share_inputs_and_no_output(self, tmp_path: Path) -> None:
        """Another application.id is the way out of a refused setting; its predictions are not to mix with the old."""
        old = read(tmp_path, "application: {id: fraud}\nkafka: {topic_prefix: bank.}\n").topics
        document = "application: {id: next}\nkafka: {topic_prefix: bank., output_prefix: bank.next.}\n"
        new = read(tmp_path, document).topics
        assert new[:2] == old[:2] == ("bank.examples", "bank.labels")
        assert not set(new[2:]) & set(old[2:])
        assert new.predictions == "bank.next.predictions"
        assert (new.changelog, new.progress) == ("bank.next-changelog", "bank.next-progress")
        fed = read(tmp_path, "kafka: {topic_prefix: bank., input_prefix: ''}\n").topics
        assert (fed.examples, fed.labels, fed.predictions) == ("examples", "labels", "bank.predictions")

    def test_no_two_applications_or_tools_share_a_name(self, tmp_path: Path) -> None:
        """A process whose name is another's fences it, and aborts what it has open."""
        names: list[str] = []
        for name, instance in [
            ("fraud", "eu-w1"),
            ("fraud-eu", "w1"),
            ("fraud", "dlq-replay"),
            ("fraud", "log-reader"),
        ]:
            settings = read(tmp_path, f"application: {{id: {name}, instance: {instance}}}\n")
            names.append(settings.transactional_id)
            assert settings.log_reader_group_id not in {"fraud", "fraud-eu", "fraud-log-reader"}
        assert len({*names, settings.replay_transactional_id}) == len(names) + 1
        for setting in ("id", "instance"):
            with pytest.raises(ConfigurationError, match=setting):
                read(tmp_path, f"application: {{{setting}: fraud/eu}}\n")

    def test_client_settings_are_text_as_written(self, tmp_path: Path) -> None:
        """The client reads text; YAML would make 83 of the password 0123 and True of the word yes."""
        settings = read(tmp_path, "kafka: {all: {sasl.password: 0123, a: yes, b: 1e3, c: false, d: 1_0}}")
        assert settings.kafka.all == {"sasl.password": "0123", "a": "yes", "b": "1e3", "c": "false", "d": "1_0"}

    def test_nothing_changes_once_loaded(self) -> None:
        """Settings are read by several stages; a change in one place would make results depend on it."""
        settings = load(None, {})
        with pytest.raises(ValidationError, match="frozen"):
            settings.join.ttl_ms = 1
        with pytest.raises(TypeError, match="item assignment"):
            settings.learners["areba"] = LearnerSettings(method="areba")  # type: ignore[index]

    def test_methods_can_be_passed_in(self, tmp_path: Path) -> None:
        """The registry of learners lies above this module and may know more methods."""
        path = tmp_path / "areba.yaml"
        path.write_text("learners: {mine: {method: mine}}")
        task = load(path, {}, methods=("mine",)).task_settings()
        assert task.default_stream.learners["mine"].method == "mine"
        assert TaskSettings.from_json(task.to_json(), methods=("mine",)).to_json() == task.to_json()


class TestWrongSettings:
    """Every wrong setting is told at once, in one line: where, which, what, and what was probably meant."""

    def test_all_at_once(self, tmp_path: Path) -> None:
        """Nobody wants to start a worker ten times to find ten typing errors."""
        lines = wrong(
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
        """They would do nothing, and the user would think they did."""
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
        plain = "may hold text, numbers, true, false, null, lists and maps only"
        assert wrong(tmp_path, text) == [
            f"areba.yaml:2: learners.base.budget: the method baseline {has_not} areba, qbr)",
            "areba.yaml:3: learners.window.windw: unknown setting; did you mean learners.window.window?",
            f"areba.yaml:3: learners.window.theta: the method sliding {has_not} {of_sizes})",
            f"areba.yaml:4: learners.bagging.ensemble_size: the method oob_single {has_not} oob, uob)",
            "areba.yaml:5: learners.mine.learning_rate: a learner of your own has only options",
            f"areba.yaml:6: learners.areba.options: the method areba {has_not} learners of your own)",
            "areba.yaml:8: streams.one.cost: no learner's method has such a setting",
            f"areba.yaml:8: streams.one.learners.window.theta: the method sliding {has_not} {of_sizes})",
            f"areba.yaml:8: streams.one.learners.mine.options: {plain}",
        ]

    def test_a_streams_setting_goes_to_the_methods_that_have_it(self, tmp_path: Path) -> None:
        """One line for all learners of a stream, whatever their methods."""
        learners = "{a: {method: areba}, b: {method: baseline}, c: {method: oob}, d: {method: 'm:C', options: {r: 1}}}"
        stream = "streams: {s: {theta: 0.9, learning_rate: 0.5, ensemble_size: 5, learners: {d: {options: {r: 2}}}}}"
        task = read(tmp_path, f"learners: {learners}\n{stream}").task_settings()
        default, own = task.default_stream.learners, task.streams["s"].learners
        assert [own[name].theta for name in "abcd"] == [0.9, 0.99, 0.9, 0.99]
        assert [own[name].learning_rate for name in "abcd"] == [0.5, 0.5, 0.5, 0.01]
        assert (own["c"].ensemble_size, default["c"].ensemble_size) == (5, 20)
        assert (own["d"].options, default["d"].options) == ({"r": 2}, {"r": 1})

    def test_keys_twice_and_keys_that_are_no_text(self, tmp_path: Path) -> None:
        """YAML would silently keep the last of two, and read the stream `no` as False."""
        assert wrong(tmp_path, "join: {ttl_ms: 1}\nstreams:\n  no: {}\n  1: {}\njoin: {ttl_ms: 2}\n") == [
            "areba.yaml:3: streams.no: a key must be text: put it in quotes",
            "areba.yaml:4: streams.1: a key must be text: put it in quotes",
            "areba.yaml:5: join: is set twice, first in areba.yaml:1",
        ]

    def test_text_that_yaml_reads_as_something_else(self, tmp_path: Path) -> None:
        """An instance called 7 is no text; the line says what to do about it."""
        lines = wrong(tmp_path, "application: {id: 7, instance: }\nkafka: {bootstrap_servers: [a, b]}\n")
        assert lines == [
            "areba.yaml:1: application.id: must be text: put it in quotes, is 7",
            "areba.yaml:1: application.instance: must be text, is empty",
            "areba.yaml:2: kafka.bootstrap_servers: must be text, is a list",
        ]

    @pytest.mark.parametrize("name", sorted(REFUSED_SETTINGS))
    def test_settings_that_carry_a_guarantee(self, tmp_path: Path, name: str) -> None:
        """`acks: 1` would lose records and say nothing; the reason says why it is refused."""
        lines = wrong(tmp_path, f"kafka:\n  producer: {{linger.ms: 5, {name}: x}}\n")
        assert lines == [f"areba.yaml:2: kafka.producer.{name}: not for users to set: {REFUSED_SETTINGS[name]}"]

    def test_every_number_has_bounds(self) -> None:
        """A number without a bound is a buffer, a wait or a loop without one."""
        for key, schema in _numbers(Config.model_json_schema()):
            assert {"minimum", "exclusiveMinimum", "ge", "gt"} & schema.keys(), key
            assert {"maximum", "exclusiveMaximum", "le", "lt"} & schema.keys(), key

    def test_names(self, tmp_path: Path) -> None:
        """Names become record keys and labels of metrics; whatever is in them, an error stays on its line."""
        lines = wrong(tmp_path, 'learners: {a b: {method: areba}}\nstreams:\n  "": {}\n  "a\\nb": {}\n')
        about = "a stream's name has 1 to 249 bytes and no control characters"
        assert lines == [
            "areba.yaml:1: learners.a b: must match ^[a-zA-Z0-9._-]{1,64}$, is 'a b'",
            f"areba.yaml:3: streams.'': {about}",
            f"areba.yaml:4: streams.'a\\nb': {about}",
        ]

    def test_how_many(self, tmp_path: Path) -> None:
        """A task needs a learner, and room for the streams that are configured."""
        assert wrong(tmp_path, "learners: {}\nstreams: [a]\nkafka: {all: 7}") == [
            "areba.yaml:1: learners: needs at least 1",
            "areba.yaml:2: streams: must be a section with names below it, is a list",
            "areba.yaml:3: kafka.all: must be a section with names below it, is 7",
        ]
        assert wrong(tmp_path, "streams: {a: {}, b: {}}\nlimits: {max_streams_per_task: 1}") == [
            "areba.yaml:2: limits.max_streams_per_task: must allow the 2 configured streams, is 1"
        ]
        assert wrong(tmp_path, "worker: {buffer_bytes: 100000}") == [
            "areba.yaml:1: worker.buffer_bytes: must be at least limits.max_record_bytes (1000000), is 100000"
        ]

    def test_long_values_are_cut(self, tmp_path: Path) -> None:
        """A wrong value of a megabyte must not fill the screen."""
        (line,) = wrong(tmp_path, f"unknown_streams: {'x' * 1000}")
        assert len(line) < 200


class TestUnreadable:
    """A file that is no YAML of ours gives one line with the place."""

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("join:\n  ttl_ms: [1\n", "areba.yaml: line 3, column 1: "),
            ("join:\n\tttl_ms: 1\n", "areba.yaml: line 2, column 1: "),
            ("join: {a: 1}\nx: !!python/object/apply:os.system [ls]\n", "areba.yaml: line 2, column 4: "),
            ("x: !!python/name:os.system\n", "areba.yaml: line 1, column 4: "),
            ("a: &a [1]\nb: *a\n", "areba.yaml: line 2, column 4: aliases"),
            ("a: " + "[" * 5000, "areba.yaml: line 1, column 19: more than 16 levels deep"),
            ("a: 1\n---\nb: 1\n", "areba.yaml: line 2, column 1: "),
            (b"join: {}\n# caf\xe9\n", "areba.yaml: line 2, column 6: not UTF-8"),
            ("join: {}\nx: \x07\n", "areba.yaml: line 2, column 4: special characters are not allowed"),
            ("- join\n", "areba.yaml: must be sections"),
            ("x: 2024-99-99\n", "areba.yaml: "),
            (b"# " + b"x" * settings.MAX_FILE_BYTES, "areba.yaml: larger than 8388608 bytes"),
        ],
    )
    def test_place_and_problem(self, tmp_path: Path, text: str | bytes, line: str) -> None:
        """The line and column are where an editor has to go."""
        lines = wrong(tmp_path, text)
        assert len(lines) == 1
        assert lines[0].startswith(line)

    def test_no_such_file(self, tmp_path: Path) -> None:
        """A missing file or a folder is a wrong setting as well: exit status 2."""
        for path, reason in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
            with pytest.raises(ConfigurationError, match=re.escape(f"{path}: cannot be read: {reason}")) as caught:
                load(path, {})
            assert caught.value.exit_code == 2


class TestEnvironment:
    """Variables go before the file."""

    def test_over_the_file(self, tmp_path: Path) -> None:
        """One image, several deployments: the file is in the image, the difference in the environment."""
        settings = read(
            tmp_path,
            "join: {ttl_ms: 5}\nstreams: {fraud-eu: {features: 3}, Sine: {}}\nlearners: {a: {method: areba}}\n",
            {
                "AREBA__JOIN__TTL_MS": "7",
                "AREBA__APPLICATION__INSTANCE": "007",
                "AREBA__KAFKA__BOOTSTRAP_SERVERS": "[::1]:9092",
                "AREBA__PREDICTIONS": "all",
                "AREBA__STREAMS__FRAUD_EU__LEARNING_RATE": "1e-4",
                "AREBA__STREAMS__SINE__LEARNERS__A__HIDDEN": "[16, 16]",
                "AREBA__STREAMS__NEW": "{features: 2}",
                "AREBA__LEARNERS__B__METHOD": "baseline",
                "AREBA__KAFKA__TOPIC_PREFIX": "",
                "AREBA_DATA_DIR": "/data",
                "PATH": "/bin",
            },
        )
        assert (settings.join.ttl_ms, settings.predictions) == (7, "all")
        assert settings.application.instance == "007"
        assert settings.kafka.bootstrap_servers == "[::1]:9092"
        task = settings.task_settings()
        assert task.streams["fraud-eu"].features == 3
        assert task.streams["fraud-eu"].learners["a"].learning_rate == 0.0001
        assert task.streams["Sine"].learners["a"].hidden == (16, 16)
        assert task.streams["new"].features == 2
        assert list(task.default_stream.learners) == ["a", "b"]

    def test_client_settings(self) -> None:
        """Variables cannot have dots; a password belongs there and is text whatever it looks like."""
        settings = load(None, {"AREBA__KAFKA__ALL__SASL_PASSWORD": "0123", "AREBA_KAFKA__PRODUCER__LINGER_MS": "5"})
        assert settings.kafka.all == {"sasl.password": "0123"}
        assert settings.kafka.producer == {"linger.ms": "5"}
        with pytest.raises(ConfigurationError, match=r"AREBA__KAFKA__ALL__ACKS: kafka\.all\.acks: not for users"):
            load(None, {"AREBA__KAFKA__ALL__ACKS": "1"})

    def test_short_form(self) -> None:
        """AREBA_KAFKA__BOOTSTRAP_SERVERS is the same setting; two values for one are an error, not a guess."""
        assert load(None, {"AREBA_KAFKA__BOOTSTRAP_SERVERS": "b:1"}).kafka.bootstrap_servers == "b:1"
        both = {"AREBA_KAFKA__BOOTSTRAP_SERVERS": "b:1", "AREBA__KAFKA__BOOTSTRAP_SERVERS": "c:1"}
        with pytest.raises(ConfigurationError, match="which is the same setting"):
            load(None, both)

    def test_keys_twice(self) -> None:
        """The short form of YAML in a variable follows the rules of the file."""
        with pytest.raises(ConfigurationError, match=r"AREBA__STREAMS: streams: not YAML: .*x: is set twice"):
            load(None, {"AREBA__STREAMS": "{x: {}, x: {features: 2}}"})
        assert load(None, {"AREBA__KAFKA__ALL": "{a: 0123}"}).kafka.all == {"a": "0123"}

    @pytest.mark.parametrize("variable", ["AREBA__", "AREBA____X", "AREBA__JOIN__"])
    def test_not_a_setting(self, variable: str) -> None:
        """A slip of the underscores is told, not ignored."""
        with pytest.raises(ConfigurationError, match=f"{variable}: not of the form AREBA__SECTION__KEY"):
            load(None, {variable: "1"})

    def test_only_what_is_passed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Loading is pure: the process's own environment does not matter."""
        monkeypatch.setenv("AREBA__JOIN__TTL_MS", "5")
        assert load(None, {}).join.ttl_ms != 5

    def test_wrong_settings_name_the_variable(self) -> None:
        """The user must find the place to mend."""
        with pytest.raises(ConfigurationError) as caught:
            load(None, {"AREBA__JOIN": "5", "AREBA__STREAMS__X__FEATURE": "3", "AREBA__PREDICTIONS": "al"})
        assert caught.value.lines == (
            "AREBA__JOIN: join: must be a section with settings below it, is 5",
            "AREBA__PREDICTIONS: predictions: must be 'champion' or 'all', is 'al'; did you mean all?",
            "AREBA__STREAMS__X__FEATURE: streams.x.feature: unknown setting; did you mean streams.x.features?",
        )


class TestSecrets:
    """A secret never reaches a log."""

    def test_shown_nowhere(self, tmp_path: Path) -> None:
        """Configuration is logged at start and shown by tools; passwords are stars there, and whole for the client."""
        secrets = ("sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "my.TOKEN")
        settings = read(
            tmp_path, "kafka: {all: {" + ", ".join(f"{name}: hush" for name in secrets) + ", client.id: me}}"
        )
        shown = f"{settings!r} {settings} {settings.kafka!r} {settings.kafka} {settings.redacted()}"
        assert "hush" not in shown
        assert shown.count("***") == 5 * len(secrets)
        assert "me" in shown
        assert settings.kafka.all["sasl.password"] == "hush"
        assert "hush" not in settings.task_settings().to_json()

    def test_not_in_error_lines(self, tmp_path: Path) -> None:
        """A password beside a mistake is as secret as any other."""
        for text in (
            "kafka: {all: {sasl.password: [hush]}}",
            "kafka: {sasl.password: hush}",
            "streams: {password: hush}",
        ):
            assert "hush" not in "".join(wrong(tmp_path, text))


class TestTaskSettings:
    """The stored part, which decides what a running application may take over."""

    def test_one_text_for_equal_settings(self, tmp_path: Path) -> None:
        """The text is stored and compared: the order of keys and spelling of numbers must not matter, a value must."""
        one = read(
            tmp_path, "join: {ttl_ms: 5, closed_ttl_ms: 6}\nstreams: {a: {l2: 1}, b: {features: 2}}"
        ).task_settings()
        two = read(
            tmp_path, "streams: {b: {features: 2}, a: {l2: 1.0}}\njoin: {closed_ttl_ms: 6, ttl_ms: 5}"
        ).task_settings()
        assert one.to_json() == two.to_json()
        assert " " not in one.to_json()
        assert TaskSettings.from_json(one.to_json()) == one
        assert TaskSettings.from_json(one.to_json()).to_json() == one.to_json()
        assert list(json.loads(one.to_json())) == sorted(json.loads(one.to_json()))

    def test_corrections_are_fixed_and_stored_texts_without_them_are_read(self, tmp_path: Path) -> None:
        """An application that ran before there were any goes on; what a later label did could not be told twice."""
        first = read(tmp_path, "streams: {a: {}}").task_settings()
        plain = json.loads(first.to_json())
        assert plain["join"].pop("corrections") == "first"
        assert TaskSettings.from_json(json.dumps(plain)) == first
        correct = read(tmp_path, "join: {corrections: correct}\nstreams: {a: {}}").task_settings()
        [refusal] = changes(first, correct, {}).refused
        assert refusal.startswith("join.corrections: first -> correct would change results: set it back, or start")
        assert "did you mean correct?" in "".join(wrong(tmp_path, "join: {corrections: corect}"))

    def test_order_of_learners_is_kept(self, tmp_path: Path) -> None:
        """Outputs leave with learners in configured order."""
        task = read(tmp_path, "learners: {z: {method: areba}, a: {method: baseline}}\nstreams: {s: {}}").task_settings()
        again = TaskSettings.from_json(task.to_json())
        assert list(again.streams["s"].learners) == list(again.default_stream.learners) == ["z", "a"]

    def test_nothing_of_the_process_is_in_it(self) -> None:
        """An instance's name, brokers and batch sizes may differ between the workers of one application."""
        environment = {
            "AREBA__APPLICATION__INSTANCE": "x",
            "AREBA__WORKER__MAX_BATCH_RECORDS": "7",
            "AREBA__BREAKER__SHARE": "1",
        }
        assert load(None, environment).task_settings() == load(None, {}).task_settings()

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", "null", "7", '{"application_id":"a","default_stream":3}', "[" * 100_000]
    )
    def test_damaged_text(self, text: str) -> None:
        """The progress topic may hold anything; a task is parked, the process does not crash."""
        with pytest.raises(StateError, match="the stored configuration cannot be read"):
            TaskSettings.from_json(text)

    def test_damaged_learners(self) -> None:
        """A learner without its name, or of a method that this version does not have, is told."""
        text = load(None, {}).task_settings().to_json()
        for old, new in (('"name":"areba",', ""), ('"method":"areba"', '"method":"abera"')):
            assert old in text
            with pytest.raises(StateError):
                TaskSettings.from_json(text.replace(old, new))

    def test_a_learner_stores_what_it_has(self, tmp_path: Path) -> None:
        """And an older version's text, which stored the rest as well, is still read."""
        text = "learners: {a: {method: baseline}, b: {method: sliding}, c: {method: 'm:C', options: {x: [1, {y: 2}]}}}"
        task = read(tmp_path, text).task_settings()
        stored = json.loads(task.to_json())["default_stream"]["learners"]
        common = {"name", "method", "learning_rate", "hidden", "l2", "scaler", "network"}
        assert [set(learner) for learner in stored] == [common, common | {"window"}, {"name", "method", "options"}]
        older = task.to_json().replace('"method":"baseline"', '"method":"baseline","budget":20,"theta":0.99')
        assert TaskSettings.from_json(older).to_json() == task.to_json()


FRAUD = Running(features=30, champion="areba", awaited=frozenset({"areba"}))
"""A stream that runs, as `BASE` has it."""


class TestChanges:
    """What a running application does with each setting of a changed file: taken over, begun afresh, or refused."""

    def between(
        self, folder: Path, old: str, new: str, running: Mapping[str, Running] | None = None
    ) -> settings.Changes:
        """Changes from one text to another."""
        one, two = (read(folder, text or "{}").task_settings() for text in (old, new))
        return changes(one, two, running if running is not None else dict.fromkeys(one.streams, FRAUD))

    def test_nothing(self, tmp_path: Path) -> None:
        """A restart with the same file changes nothing."""
        base = "streams: {fraud: {features: 30}, sine: {}}"
        assert self.between(tmp_path, base, base) == settings.Changes((), ())

    @pytest.mark.parametrize(
        ("old", "new", "line"),
        [
            ("", "streams: {x: {features: 3}}", "streams.x: is new"),
            ("", "predictions: all", "predictions: champion -> all holds from now on"),
            ("", "unknown_streams: model", "unknown_streams: dead-letter -> model holds from now on"),
            ("", "metrics: {every_labels: 2}", "metrics.every_labels: 100 -> 2 holds from now on"),
            ("", "metrics: {change_detector: ddm}", "metrics.change_detector: hddm -> ddm holds from now on"),
            ("", "limits: {max_streams_per_task: 4}", "limits.max_streams_per_task: 100 -> 4 holds from now on"),
            ("streams: {a: {}}", "streams: {a: {features: 30}}", "features: None -> 30 (streams: a) holds from now on"),
            ("streams: {a: {features: 30}}", "streams: {a: {}}", "features: 30 -> None (streams: a) holds from now on"),
            (
                "streams: {a: {}}",
                "learners: {areba: {method: areba}, baseline: {method: baseline}, new: {method: qbr}}\nstreams: {a: }",
                "learners.new: is new (streams: a) begins here",
            ),
            (
                "streams: {a: {}}",
                "learners: {areba: {method: areba}}\nstreams: {a: {}}",
                "learners.baseline: was removed (streams: a) is dropped here",
            ),
            (
                "streams: {a: {champion: areba}}",
                "learners: {baseline: {method: baseline}, areba: {method: areba}}\nstreams: {a: {champion: areba}}",
                "learners: areba, baseline -> baseline, areba (streams: a) holds from now on",
            ),
            (
                "streams: {a: {}}",
                "streams: {a: {learners: {areba: {l2: 0.5}}}}",
                "learners.areba.l2: 0.0 -> 0.5 (streams: a) holds from now on",
            ),
            (
                "streams: {a: {}}",
                "streams: {a: {learners: {areba: {hidden: [9]}}}}",
                "learners.areba.hidden: [8] -> [9] (streams: a) starts afresh",
            ),
            (
                "streams: {a: {}}",
                "learners: {areba: {method: qbr}, baseline: {method: baseline}}\nstreams: {a: {}}",
                "learners.areba.method: areba -> qbr (streams: a) starts afresh",
            ),
            (
                FIVE_STREAMS,
                "learners: {areba: {method: areba, budget: 40}, baseline: {method: baseline}}\n" + FIVE_STREAMS,
                "learners.areba.budget: 20 -> 40 (streams: a, b, c and 2 more) starts afresh",
            ),
        ],
    )
    def test_taken_over(self, tmp_path: Path, old: str, new: str, line: str) -> None:
        """An operator tries a challenger, or another rate, on what runs: he reads what becomes of each setting."""
        found = self.between(tmp_path, old, new)
        assert not found.refused
        assert line in found.taken_over

    @pytest.mark.parametrize(
        ("old", "new", "line", "way_out"),
        [
            ("", "join: {ttl_ms: 5}", "join.ttl_ms: 86400000 -> 5", "application.id"),
            ("", "join: {corrections: correct}", "join.corrections: first -> correct", "application.id"),
            ("", "metrics: {fading_factor: 0.9}", "metrics.fading_factor: 0.99 -> 0.9", "application.id"),
            ("", "limits: {max_features: 40}", "limits.max_features: 10000 -> 40", "application.id"),
            ("", "limits: {max_record_bytes: 400}", "limits.max_record_bytes: 1000000 -> 400", "application.id"),
            ("", "application: {id: b}", "application_id: areba -> b", "application.id"),
            ("streams: {a: {}}", "streams: {}", "streams.a: was removed", "application.id"),
            ("streams: {a: {}}", "streams: {a: {features: 3}}", "features: None -> 3 (streams: a)", "stream name"),
            (
                "streams: {a: {}}",
                "streams: {a: {champion: baseline}}",
                "champion: areba -> baseline (streams: a)",
                "areba promote STREAM baseline",
            ),
            (
                "streams: {a: {champion: areba}}",
                "learners: {baseline: {method: baseline}}\nstreams: {a: {}}",
                "learners.areba: was removed (streams: a)",
                "promote another one first",
            ),
        ],
    )
    def test_refused(self, tmp_path: Path, old: str, new: str, line: str, way_out: str) -> None:
        """What state would not fit names the setting, both values and the way out."""
        found = self.between(tmp_path, old, new)
        [refusal] = [text for text in found.refused if text.startswith(line)]
        assert way_out in refusal

    def test_a_champion_whose_predictions_wait(self, tmp_path: Path) -> None:
        """Outcomes name the learner that predicted: it may go when the last of its examples is closed."""
        old = "streams: {a: {champion: areba}}"
        new = "learners: {baseline: {method: baseline}}\nstreams: {a: {}}"
        promoted = FRAUD._replace(champion="baseline")
        [refusal] = self.between(tmp_path, old, new, {"a": promoted}).refused
        assert refusal.startswith("learners.areba: was removed (streams: a) but examples that it predicted")
        assert not self.between(tmp_path, old, new, {"a": promoted._replace(awaited=frozenset())}).refused

    def test_a_champion_that_was_promoted(self, tmp_path: Path) -> None:
        """Once the mark did it, the file may say it too."""
        old, new = "streams: {a: {champion: areba}}", "streams: {a: {champion: baseline}}"
        assert not self.between(tmp_path, old, new, {"a": FRAUD._replace(champion="baseline")}).refused

    def test_all_at_once(self, tmp_path: Path) -> None:
        """As with wrong settings: every line of them."""
        found = self.between(tmp_path, "", "join: {ttl_ms: 5}\nlimits: {max_features: 4}\nmetrics: {fading_factor: 1}")
        assert [line.split(":")[0] for line in found.refused] == [
            "join.ttl_ms",
            "metrics.fading_factor",
            "limits.max_features",
        ]

    def test_learners_that_no_stream_uses(self, tmp_path: Path) -> None:
        """With every stream configured, the defaults of others change nothing."""
        old = "streams: {a: {l2: 0.1}}"
        new = "learners: {areba: {method: areba, l2: 0.5}, baseline: {method: baseline, l2: 0.5}}\n" + old
        assert self.between(tmp_path, old, new) == settings.Changes((), ())

    def test_a_stream_that_runs_already(self, tmp_path: Path) -> None:
        """A model made on the fly is configured later like any other."""
        old = "unknown_streams: model"
        found = self.between(tmp_path, old, old + "\nstreams: {a: {l2: 1}}", {"a": FRAUD})
        assert "learners.areba.l2: 0.0 -> 1.0 (streams: a) holds from now on" in found.taken_over

    def test_every_setting_has_an_outcome(self) -> None:
        """The page on changes tells of each; one that is added later is not forgotten."""
        page = (ROOT / "docs" / "changes.md").read_text()
        task = TaskSettings.model_fields.keys() - {"streams", "default_stream", "application_id"}
        names = {name for name in task if name not in ("join", "metrics", "limits")}
        for section in (JoinSettings, MetricSettings, LimitSettings, LearnerSettings, StreamSettings):
            names |= set(section.model_fields)
        assert not {name for name in names if f"`{name}`" not in page}


def _all_keys(model: type[BaseModel]) -> set[str]:
    keys = set()
    for name, field in model.model_fields.items():
        keys.add(name)
        nested = settings._bare(field.annotation)
        for below in (nested, *(settings._bare(argument) for argument in getattr(nested, "__args__", ()))):
            if isinstance(below, type) and issubclass(below, BaseModel):
                keys |= _all_keys(below)
    return keys


def _numbers(schema: object, key: str = "") -> list[tuple[str, dict[str, object]]]:
    if isinstance(schema, list):
        return [found for item in schema for found in _numbers(item, key)]
    if not isinstance(schema, dict):
        return []
    found = [(key, schema)] if schema.get("type") in {"integer", "number"} else []
    return found + [below for name, item in schema.items() for below in _numbers(item, f"{key}.{name}")]
