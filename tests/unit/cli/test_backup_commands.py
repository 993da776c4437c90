"""`areba state export --all` and `import --all` as a scheduled job calls them: lines and exit statuses."""

from pathlib import Path

import pytest

from tests.support.world import MAX_POLL_INTERVAL_S, World
from tests.unit.cli.conftest import Run


def test_a_nightly_backup(run: Run, world: World, tmp_path: Path) -> None:
    """A job that fails must say so by its status, and its mail must name what it did."""
    folder = str(tmp_path / "backup")
    status, out, err = run("state", "export", "--all", folder)
    assert (status, len(out), err) == (0, 5, [])
    status, out, err = run("state", "export", "--all", folder)
    assert (status, out, len(err)) == (2, [], 1)
    assert run("state", "export", "--all", folder, "--overwrite")[0] == 0
    assert run("state", "import", "--all", folder)[0] == 3, "workers are running"
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    status, out, err = run("state", "import", "--all", folder)
    assert (status, err) == (0, [])
    assert sum("there already" in line for line in out) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("state", "export", "s0", "areba"),
        ("state", "export", "--all", "folder", "--task", "0"),
        ("state", "export", "s0", "areba", "file", "--overwrite"),
        ("state", "import", "--overwrite"),
        ("state", "import", "--all", "."),
    ],
)
def test_calls_that_mean_nothing(run: Run, arguments: tuple[str, ...]) -> None:
    """An export of one learner that a script believes to be of all would be missed on the day of the restore."""
    status, out, err = run(*arguments)
    assert (status, out) == (2, [])
    assert err
