"""No command ends in a traceback: what a user did wrong is one line, and status 2."""

import sys
from pathlib import Path

import pytest

from stream_app.admin import models
from stream_app.admin.models import Place
from stream_app.cli import main
from stream_app.config import Config


def _ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with status 2."""
    monkeypatch.setattr(sys, "argv", ["areba", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_a_level_that_there_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """31 lines of traceback for a typing error."""
    monkeypatch.setenv("AREBA_LOG_LEVEL", "loud")
    line = _ends(monkeypatch, capsys, "topics", "check", "-c", "nowhere.yaml")
    assert line.startswith("AREBA_LOG_LEVEL: there is no level 'LOUD'")


def test_a_file_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is named."""

    def export(_place: object, _stream: str, _learner: str, file: Path, *_: object) -> str:
        file.write_bytes(b"")
        return ""

    monkeypatch.setattr(main, "_place", lambda _: None)
    monkeypatch.setattr(models, "export", export)
    file = tmp_path / "no" / "folder"
    line = _ends(monkeypatch, capsys, "state", "export", "s", "l", str(file), "-c", "x.yaml")
    assert line == f"{file}: No such file or directory"


def test_an_empty_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It was taken for all defaults, and waited for a broker."""
    file = tmp_path / "areba.yaml"
    file.touch()
    assert _ends(monkeypatch, capsys, "run", "-c", str(file)).startswith(f"{file}: is empty")


class _NoTopics:
    """A cluster without topics."""

    def topics(self, _: object) -> dict[str, object]:
        return {}


def test_an_application_that_has_no_topics(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Tools looked for the number of partitions in nothing."""
    monkeypatch.setattr(main, "_place", lambda _: Place(Config(), _NoTopics(), None))  # type: ignore[arg-type]
    line = _ends(monkeypatch, capsys, "explain", "s0", "1", "-c", "x.yaml")
    assert line.startswith("areba-progress: the topic does not exist")
