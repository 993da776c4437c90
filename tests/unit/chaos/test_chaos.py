"""The parts of `make chaos` that need no Kafka: its schedule, its reading of logs, its record."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos import record
from tests.chaos.commits import first_commits_ms
from tests.chaos.members import Life, lines_of, state_of
from tests.chaos.plan import Kind, waves
from tests.chaos.trial import Result

NAMES = ("one", "two", "three")

RESULT = Result(
    seed=3,
    number=0,
    kills=50,
    faults={"broker SIGKILL": 5, "worker SIGKILL": 45},
    stages={"live": 40, "saving": 5},
    duration_s=100.0,
    commits=1_000,
    aborted=4,
    restarts=1,
    records=20_000,
    outputs=30_000,
    snapshots=90,
    changelog=[500, 40],
    first_commits_ms=[900, 1_100],
    cores=2,
)


def _log(*texts: str) -> str:
    return "\n".join(f"2026-11-21 15:00:{second:02d},000 INFO areba.worker {text}" for second, text in enumerate(texts))


@pytest.mark.parametrize("kills", [1, 2, 3, 30, 51])
def test_a_seed_is_a_schedule(kills: int) -> None:
    """A failure can be run again by its seed, and the number of kills is the requested one."""
    made = list(waves("7/0", NAMES, kills))
    assert sum(wave.kills for wave in made) == kills
    assert made == list(waves("7/0", NAMES, kills))
    assert all(wave.kills for wave in made), "a wave without a kill would never end"
    if kills > 20:
        assert made != list(waves("8/0", NAMES, kills))
        assert {fault.kind for wave in made for chain in wave.faults.values() for fault in chain} == set(Kind)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), "starting"),
        (("compiled seconds=0.1",), "joining"),
        (("compiled seconds=0.1", "assigned tasks=0,2"), "restoring"),
        (("assigned tasks=none",), "idle"),
        (("assigned tasks=0,2", "restored task=0 sequence=1 reprocessed=0 snapshot=-1"), "restoring"),
        (("assigned tasks=0", "restored task=0 sequence=1 reprocessed=0 snapshot=-1"), "live"),
        (("assigned tasks=0", "restored task=0 sequence=1", "snapshot-taken task=0 sequence=9 bytes=5"), "saving"),
        (
            ("assigned tasks=0", "restored task=0 sequence=1", "snapshot-taken task=0", "snapshot-complete task=0"),
            "live",
        ),
        (("assigned tasks=0", "restored task=0 sequence=1", "revoked tasks=0"), "joining"),
        (
            ("assigned tasks=0", "restored task=0 sequence=1", "restarting the process in 0 s (restarts=1): fenced"),
            "starting",
        ),
    ],
)
def test_the_record_has_the_state_of_each_killed_worker(texts: tuple[str, ...], expected: str) -> None:
    """The record counts kills by this state: ten thousand kills of starting workers would prove nothing."""
    assert state_of(_log(*texts)).name == expected


def test_the_first_commit_is_the_workers_own() -> None:
    """The commits of the previous or the next owner of a task say nothing about how fast this worker was."""
    log = _log("compiled seconds=0.1", "assigned tasks=1", "restored task=1 sequence=4")
    start_s = next(lines_of(log)).time_s
    before, own, after = (int((start_s + seconds) * 1000) for seconds in (1.5, 2.25, 9.0))
    assert first_commits_ms([Life(start_s, start_s + 5, log)], [[], [before, own, after]]) == [2_250]
    assert first_commits_ms([Life(start_s, start_s + 5, log)], [[], [before, after]]) == []


def test_the_record_is_read_back_and_added_up(tmp_path: Path) -> None:
    """A thousand kills are the sum of several runs, each of which may have been stopped."""
    for number in range(3):
        record.append(tmp_path, replace(RESULT, number=number))
    assert list(record.read(tmp_path)) == [replace(RESULT, number=number) for number in range(3)]
    page = record.page(list(record.read(tmp_path)))
    for line in (
        "| kills (SIGKILL) | 150 |",
        "| worker SIGKILL | 135 |",
        "| saving | 15 |",
        "| commits per kill | 20.0 |",
    ):
        assert line in page.splitlines()
