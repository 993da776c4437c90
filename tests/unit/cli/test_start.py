"""Before a worker joins the group: the lock around compiling, the wait for brokers, and restarts of the process."""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_app.cli import checks, restart, warm_up
from stream_app.cli.restart import ProcessRestarts
from stream_app.config import Config
from stream_app.errors import ConfigurationError, FencedError, OutageError, RestartNeededError, UnknownOutcomeError
from stream_app.jit.cache import base_folder

# isort: split
import numba  # after `stream_app.jit`, which sets its environment

DEADLINE_S = 30.0

HOUR_S = 3600.0


@pytest.fixture
def held_lock() -> Iterator[Path]:
    """Hold the lock as another process does that compiles."""
    lock = base_folder() / "lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield lock


def test_a_worker_with_nothing_to_compile_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, held_lock: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker would be blocked for 70 s while another checkout of the same sources is compiling."""
    del held_lock
    monkeypatch.setattr(warm_up, "_rehearse", lambda _: None)
    caplog.set_level(logging.INFO)
    end = time.monotonic() + DEADLINE_S
    warm_up.warm_up(Config().task_settings(), lambda: time.monotonic() > end)
    assert "compiled seconds=" in caplog.text


@pytest.mark.slow
def test_waiting_for_the_lock_is_logged(
    monkeypatch: pytest.MonkeyPatch, held_lock: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A user would see a worker that hangs, and not know which process it waits for."""

    def missing(_: object) -> None:
        raise warm_up.NotCompiledError("a function")

    monkeypatch.setattr(warm_up, "_rehearse", missing)
    begin = time.monotonic()
    warm_up.warm_up(
        Config().task_settings(), lambda: str(held_lock) in caplog.text or time.monotonic() - begin > DEADLINE_S
    )
    assert caplog.text.count(str(held_lock)) == 1
    assert time.monotonic() - begin > warm_up.LOCK_REPORT_S


def test_code_that_is_not_in_the_cache_is_noticed() -> None:
    """A worker would compile without the lock, at the same time as all others on the machine."""

    def ours(number: int) -> int:
        return number + 1

    ours.__module__ = "stream_app.somewhere"
    compile_with: Any = numba.njit(ours)
    with pytest.raises(warm_up.NotCompiledError, match="somewhere"), warm_up.refusing_to_compile():
        compile_with(1)
    assert compile_with(1) == 2


class _Cluster:
    """A cluster of which no broker answers; `silence` is the client's reason."""

    no_answer_text = "no Kafka broker answers at nowhere: injected"

    def broker_count(self, _: float) -> int:
        return 0


def test_the_wait_for_a_broker_is_logged_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the reason in the log, a wrong password looks like a broker that is down."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(checks, "time", clock)
    config = Config.model_validate({"worker": {"start_timeout_ms": 21_000}})
    with pytest.raises(ConfigurationError, match="injected"):
        checks.wait_for_topics(config, _Cluster(), lambda: False, restarted=False)  # type: ignore[arg-type]
    assert caplog.text.count("injected") == 5
    assert now[0] == 21.0
    end_s = now[0] + HOUR_S
    found = checks.wait_for_topics(config, _Cluster(), lambda: now[0] > end_s, restarted=True)  # type: ignore[arg-type]
    assert found is None, "a process that restarted itself had the right address"


def test_restarts_back_off() -> None:
    """Without pauses, ten restarts in 30 s would use up the restarts of an hour."""
    restarts, pauses = ProcessRestarts(), []
    for number in range(9):
        pauses.append(restarts.pause_s(float(number)))
        restarts = restarts.and_now(float(number), UnknownOutcomeError("x"))
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert restarts.pause_s(2 * restart.BACK_OFF_WINDOW_S) == 0


@pytest.mark.parametrize("error", [OutageError("x"), UnknownOutcomeError("x"), FencedError("x")])
def test_outages_do_not_use_up_restarts(monkeypatch: pytest.MonkeyPatch, error: RestartNeededError) -> None:
    """A rolling restart of a large cluster would end the workers."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append(command))
    full = ProcessRestarts(by_errors=(time.time() - restart.BACK_OFF_WINDOW_S - 1,))
    if not isinstance(error, OutageError):
        with pytest.raises(type(error)):
            restart.restart_process(("x",), full, 1, lambda: False, error)
        return
    restart.restart_process(("x",), full, 1, lambda: False, error)
    [command] = commands
    assert sum(part.startswith("--restarted-at=") for part in command) == 1
    assert sum(part.startswith("--outage-at=") for part in command) == 1


def test_a_pause_ends_when_asked_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker would wait for up to a minute after SIGTERM."""
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it started again"))
    now = time.time()
    with pytest.raises(UnknownOutcomeError):
        restart.restart_process(("x",), ProcessRestarts((now,) * 7), 10, lambda: True, UnknownOutcomeError("x"))
    assert time.time() - now < DEADLINE_S
