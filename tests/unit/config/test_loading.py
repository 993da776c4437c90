"""Load the file and the environment."""

import re
from pathlib import Path

import pytest

from stream_app.config import (
    load,
)
from stream_app.config.yaml_file import MAX_FILE_BYTES
from stream_app.errors import ConfigurationError
from tests.unit.config.support import faults, read


class TestUnreadable:
    """A file that is not YAML of the right form gives one line with the place."""

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
            (b"# " + b"x" * MAX_FILE_BYTES, "areba.yaml: larger than 8388608 bytes"),
        ],
    )
    def test_place_and_problem(self, tmp_path: Path, text: str | bytes, line: str) -> None:
        """The line and column are where an editor has to go."""
        lines = faults(tmp_path, text)
        assert len(lines) == 1
        assert lines[0].startswith(line)

    def test_no_such_file(self, tmp_path: Path) -> None:
        """A missing file or a folder is a wrong setting as well: exit status 2."""
        for path, reason in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
            with pytest.raises(ConfigurationError, match=re.escape(f"{path}: cannot be read: {reason}")) as caught:
                load(path, {})
            assert caught.value.exit_code == 2


class TestEnvironment:
    """Variables override the file."""

    def test_over_the_file(self, tmp_path: Path) -> None:
        """One image serves several deployments: the file is in the image, the differences are in the environment."""
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
        """Names of variables cannot have dots; a value such as a password is text, whatever it looks like."""
        settings = load(None, {"AREBA__KAFKA__ALL__SASL_PASSWORD": "0123", "AREBA_KAFKA__PRODUCER__LINGER_MS": "5"})
        assert settings.kafka.all == {"sasl.password": "0123"}
        assert settings.kafka.producer == {"linger.ms": "5"}
        with pytest.raises(ConfigurationError, match=r"AREBA__KAFKA__ALL__ACKS: kafka\.all\.acks: cannot be set"):
            load(None, {"AREBA__KAFKA__ALL__ACKS": "1"})

    def test_short_form(self) -> None:
        """AREBA_KAFKA__BOOTSTRAP_SERVERS is the same setting; two values for one setting are an error."""
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
        """A variable with misplaced underscores is reported, not ignored."""
        with pytest.raises(ConfigurationError, match=f"{variable}: not of the form AREBA__SECTION__KEY"):
            load(None, {variable: "1"})

    def test_only_what_is_passed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Loading is pure: the process's own environment does not matter."""
        monkeypatch.setenv("AREBA__JOIN__TTL_MS", "5")
        assert load(None, {}).join.ttl_ms != 5

    def test_wrong_settings_name_the_variable(self) -> None:
        """The user must find the place to correct."""
        with pytest.raises(ConfigurationError) as caught:
            load(None, {"AREBA__JOIN": "5", "AREBA__STREAMS__X__FEATURE": "3", "AREBA__PREDICTIONS": "al"})
        assert caught.value.lines == (
            "AREBA__JOIN: join: must be a section with settings below it, is 5",
            "AREBA__PREDICTIONS: predictions: must be 'champion' or 'all', is 'al'; did you mean all?",
            "AREBA__STREAMS__X__FEATURE: streams.x.feature: unknown setting; did you mean streams.x.features?",
        )
