"""Load the file and the environment."""

import os
import re
import traceback
from pathlib import Path
from unittest import mock

import pytest

from stream_app.config import (
    load,
)
from stream_app.config.loading import MAX_VALUE_BYTES
from stream_app.config.yaml_file import MAX_FILE_BYTES
from stream_app.errors import ConfigurationError
from tests.unit.config.support import faults, read

SECRET = "correct-horse-battery"  # noqa: S105  (of no account)


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
        """Names of variables cannot have dots; a value such as a password is text, even if it looks like a number."""
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

    def test_secret_in_a_file(self, tmp_path: Path) -> None:
        """A container's secret is a file; the end of the line that an editor adds does not belong to a password."""
        file = tmp_path / "password"
        file.write_text(f"{SECRET}\r\n")
        for name in ("AREBA__KAFKA__ALL__SASL_PASSWORD_FILE", "AREBA_KAFKA__ALL__SASL_PASSWORD_FILE"):
            config = load(None, {name: str(file)})
            assert config.kafka.all == {"sasl.password": SECRET}
            assert SECRET not in repr(config)
        file.write_text("line 1\nline 2\n\n")
        key = load(None, {"AREBA__KAFKA__PRODUCER__SSL_KEY_PEM_FILE": str(file)})
        assert key.kafka.producer == {"ssl.key.pem": "line 1\nline 2\n"}

    def test_settings_that_end_with_file(self) -> None:
        """A stream may be called `my_file`, and librdkafka itself has settings whose values are paths."""
        name = "sasl.oauthbearer.assertion.private.key.file"
        variable = f"AREBA__KAFKA__ALL__{name.upper().replace('.', '_')}"
        assert load(None, {variable: "/no/such/file"}).kafka.all == {name: "/no/such/file"}
        streams = load(None, {"AREBA__STREAMS__MY_FILE": "{features: 2}"}).streams
        assert streams["my_file"].features == 2

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (None, "cannot be read: No such file or directory"),
            (b"", "is empty"),
            (b"\n", "is empty"),
            (f"{SECRET}\xff".encode("latin-1"), "not UTF-8"),
            (SECRET.encode() * 10_000, f"larger than {MAX_VALUE_BYTES} bytes"),
        ],
    )
    def test_wrong_secret_file(self, tmp_path: Path, content: bytes | None, reason: str) -> None:
        """The line names the variable and the file, but nothing from the file."""
        file = tmp_path / "password"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigurationError) as caught:
            load(None, {"AREBA__KAFKA__ALL__SASL_PASSWORD_FILE": str(file), "AREBA__JOIN__TTL_MS": "no"})
        assert f"AREBA__KAFKA__ALL__SASL_PASSWORD_FILE: {file}: {reason}" in caught.value.lines
        assert len(caught.value.lines) == 2
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    def test_unreadable_secret_file(self, tmp_path: Path) -> None:
        """A folder, or a file that belongs to another user, gives the reason of the operating system."""
        variable = "AREBA__KAFKA__ALL__SASL_PASSWORD_FILE"
        with pytest.raises(ConfigurationError) as caught:
            load(None, {variable: str(tmp_path)})
        assert caught.value.lines == (f"{variable}: {tmp_path}: cannot be read: Is a directory",)
        denied = PermissionError(13, "Permission denied")
        with (
            mock.patch.object(Path, "open", side_effect=denied),
            pytest.raises(ConfigurationError) as caught,
        ):
            load(None, {variable: "/run/secrets/password"})
        assert caught.value.lines == (f"{variable}: /run/secrets/password: cannot be read: Permission denied",)

    def test_a_pipe_without_a_writer(self, tmp_path: Path) -> None:
        """A worker would wait for it in silence, for ever."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        variable = "AREBA__KAFKA__ALL__SASL_PASSWORD_FILE"
        for path, environment in ((None, {variable: str(pipe)}), (pipe, {})):
            with pytest.raises(ConfigurationError, match=f"{pipe}: cannot be read: Not a regular file"):
                load(path, environment)

    def test_secret_given_twice(self, tmp_path: Path) -> None:
        """With two sources, it is unclear which password is used, even if they agree today."""
        file = tmp_path / "password"
        file.write_text(SECRET)
        for plain, of_file in (("AREBA__", "AREBA__"), ("AREBA_", "AREBA__"), ("AREBA__", "AREBA_")):
            name = "KAFKA__ALL__SASL_PASSWORD"
            with pytest.raises(ConfigurationError) as caught:
                load(None, {f"{plain}{name}": SECRET, f"{of_file}{name}_FILE": str(file)})
            (line,) = caught.value.lines
            assert {f"{plain}{name}", f"{of_file}{name}_FILE"} <= set(re.findall(r"AREBA\w+", line))
            assert SECRET not in line

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
