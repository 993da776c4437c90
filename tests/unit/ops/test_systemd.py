"""The unit of systemd says the same about exit statuses, stopping and settings as the code."""

import re
from pathlib import Path

import yaml

from ops import keeper
from stream_app import errors
from stream_app.config import load

ROOT = Path(keeper.__file__).parent.parent

UNIT = ROOT / "ops" / "systemd" / "areba@.service"


def values(name: str) -> list[str]:
    """Return the values that the unit gives to a setting, in their order."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_systemd_restarts_no_worker_that_a_person_must_correct() -> None:
    """A worker with a wrong password that starts every ten seconds locks its account; one that fails must come back."""
    classes = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.ArebaError)}
    by_person = {errors.ConfigurationError.exit_code, errors.FencedAgainError.exit_code}
    by_itself = {one.exit_code for one in classes} - by_person
    assert values("Restart") == ["on-failure"]
    assert [{*map(int, one.split())} for one in values("RestartPreventExitStatus")] == [by_person]
    assert by_itself == {1, errors.StateError.exit_code, errors.RestartNeededError.exit_code}
    rows = dict(re.findall(r"^\| (\d) \| .* \| (.*) \|$", _deploy(), re.MULTILINE))
    assert {*map(int, rows)} == by_person | by_itself - {1}


def test_a_worker_gets_the_time_that_it_needs_to_stop() -> None:
    """A worker that is killed while it saves its tasks needs its inputs again."""
    [seconds] = values("TimeoutStopSec")
    grace = re.search(r"terminationGracePeriodSeconds: (\d+)", (ROOT / "ops/kubernetes/workers.yaml").read_text())
    assert grace is not None
    assert int(seconds) >= int(grace[1])
    assert values("KillSignal") == ["SIGTERM"]


def test_the_settings_of_the_unit_are_settings(tmp_path: Path) -> None:
    """A variable with a misspelt name would have no effect, or stop every worker."""
    environment = dict(
        one.replace("%i", "worker-1").replace("%C", "/var/cache").split("=", 1) for one in values("Environment")
    )
    path = tmp_path / "areba.yaml"
    path.write_text(yaml.safe_dump({"application": {"id": "a", "instance": "b"}, "streams": {"s": {}}}))
    config = load(path, environment)
    assert config.application.instance == "worker-1"
    assert config.worker.start_timeout_ms == int(environment["AREBA__WORKER__START_TIMEOUT_MS"])
    assert environment["AREBA_CACHE_DIR"] == f"/var/cache/{values('CacheDirectory')[0]}"
    assert all(one.startswith("-/etc/areba/") for one in values("EnvironmentFile"))


def _deploy() -> str:
    text = (ROOT / "docs" / "operations.md").read_text()
    return text[text.index("## Deploy") : text.index("### The image")]
