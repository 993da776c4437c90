"""No command ends in a traceback: a mistake of the user becomes one line and exit status 2."""

import io
import sys
from pathlib import Path

import pytest

from stream_app.admin.models import Application
from stream_app.admin.saved_models import export_models
from stream_app.cli import clients, main
from stream_app.cli.commands import run
from stream_app.config import Config


def _ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that ends with status 2, and return the one line that it prints."""
    monkeypatch.setattr(sys, "argv", ["areba", *arguments])
    monkeypatch.setattr(run, "end_process", sys.exit)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_an_unknown_log_level(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error in the log level would end in 31 lines of traceback."""
    monkeypatch.setenv("AREBA_LOG_LEVEL", "loud")
    line = _ends(monkeypatch, capsys, "topics", "check", "-c", "nowhere.yaml")
    assert line.startswith("AREBA_LOG_LEVEL: there is no level 'LOUD'")


def test_a_file_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without its name in the message, a user would not know which file to look at."""

    def export(_application: object, _stream: str, _learner: str, file: Path, *_: object, as_onnx: bool) -> str:
        assert not as_onnx
        file.write_bytes(b"")
        return ""

    monkeypatch.setattr(clients, "open_application", lambda _: None)
    monkeypatch.setattr(export_models, "export", export)
    file = tmp_path / "no" / "folder"
    line = _ends(monkeypatch, capsys, "state", "export", "s", "l", str(file), "-c", "x.yaml")
    assert line == f"{file}: No such file or directory"


def test_an_empty_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An empty file would be taken for all defaults, and the worker would wait for a broker on this machine."""
    file = tmp_path / "areba.yaml"
    file.touch()
    assert _ends(monkeypatch, capsys, "run", "-c", str(file)).startswith(f"{file}: is empty")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_name_that_the_output_cannot_encode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str) -> None:
    """With another locale than UTF-8, one name of a stream would end each table in a traceback."""
    file = tmp_path / "areba.yaml"
    file.write_text("application: {id: app, instance: w}\nstreams: {Größe-泵: {features: 2}}\n", encoding="utf-8")
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "argv", ["areba", "config", "-c", str(file)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    output.seek(0)
    shown = "Größe-泵".encode(encoding, "backslashreplace").decode(encoding)
    assert shown in output.read()


class _NoTopics:
    """A cluster that has no topics."""

    def topics(self, _: object) -> dict[str, object]:
        return {}


def test_an_application_that_has_no_topics(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A tool that is pointed at the wrong cluster would end in a `KeyError` of the missing topic."""
    monkeypatch.setattr(clients, "open_application", lambda _: Application(Config(), _NoTopics(), None, None))  # type: ignore[arg-type]
    line = _ends(monkeypatch, capsys, "explain", "s0", "1", "-c", "x.yaml")
    assert line.startswith("areba-progress: the topic does not exist")
