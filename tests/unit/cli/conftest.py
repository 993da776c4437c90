"""An application in this process, and the `areba` command that looks at it."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from stream_app.admin.models import Application
from stream_app.cli import clients, main
from stream_app.config import Config, load
from tests.support.world import World, world_after

Run = Callable[..., tuple[int, Sequence[str], Sequence[str]]]

FILE = """
application: {id: app, instance: w}
streams: {s0: {features: 1}, s1: {features: 1}}
metrics: {every_labels: 4}
"""


@pytest.fixture
def world() -> World:
    """Return a world whose worker has processed 20 examples and labels of each partition."""
    return world_after(20)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the configuration file of the application."""
    path = tmp_path / "app.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def run(world: World, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command; it returns the exit status and the lines of both outputs."""

    def connect(_: Config) -> object:
        return world.cluster

    def open_application(path: Path) -> Application:
        return world.application(load(path, {}))

    monkeypatch.setattr(clients, "connect", connect)
    monkeypatch.setattr(clients, "open_application", open_application)

    def run_command(*arguments: str) -> tuple[int, Sequence[str], Sequence[str]]:
        monkeypatch.setattr(sys, "argv", ["areba", *arguments, "-c", str(file)])
        status: int | str | None = 0
        try:
            main.main()
        except SystemExit as ended:
            status = ended.code
        written = capsys.readouterr()
        assert isinstance(status, int)
        return status, written.out.splitlines(), written.err.splitlines()

    return run_command
