"""`make chaos`: see the package. The exit status is 1 if any written record is wrong."""

import logging
import math
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ops.keeper import unless_interrupted
from stream_app.errors import ArebaError
from stream_app.terminal import Terminal
from tests.chaos import record
from tests.chaos.members import ChaosError
from tests.chaos.trial import run_trial

DEFAULT_FOLDER = Path(".local/chaos")

PAGE = Path("docs/chaos.md")

TRIAL_KILLS = 50
"""Kills per cluster; then everything is checked. It limits what is processed again, and what an abort loses."""


def _terminated(*_: int | FrameType | None) -> NoReturn:
    sys.exit(143)


def _tell(progress: Progress, bar: TaskID, before: int, kills: int) -> None:
    progress.update(bar, completed=before + kills)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kills", type=click.IntRange(1), default=30, show_default=True, help="SIGKILLs, in trials of 50.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Decides on the schedule.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Of the record; trials that it has are not run again. A failed trial leaves its logs and topics there.",
)
@click.option("--plain", is_flag=True, help="Start each worker in an interpreter of its own: slow, and all of a start.")
@click.option("--report", is_flag=True, help=f"Only write {PAGE} from the record in the folder.")
def main(*, kills: int, seed: int, folder: Path, plain: bool, report: bool) -> None:
    """Kill workers and brokers of a real Kafka N times, then check that no reader of the topics can notice it."""
    if report:
        _write_page(folder)
        return
    signal.signal(signal.SIGTERM, _terminated)
    logging.basicConfig(level=logging.CRITICAL)  # clients report every broker that was killed
    folder.mkdir(parents=True, exist_ok=True)
    console = Terminal(stderr=True)
    done = {(result.seed, result.number): result for result in record.read(folder)}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("kills", total=kills)
        before = 0
        for number in range(math.ceil(kills / TRIAL_KILLS)):
            wanted = min(TRIAL_KILLS, kills - number * TRIAL_KILLS)
            known = done.get((seed, number))
            if known is None or known.kills < wanted:
                progress.update(bar, description=f"seed {seed}, trial {number}")
                place = folder / f"seed-{seed}-trial-{number}"
                shutil.rmtree(place, ignore_errors=True)  # left by a run that was stopped
                tell = partial(_tell, progress, bar, before)
                try:
                    with unless_interrupted(place):
                        known = run_trial(place, seed, number, wanted, tell, forked=not plain)
                except (ChaosError, AssertionError, ArebaError) as problem:
                    console.print(f"seed {seed}, trial {number}: {problem}", markup=False, highlight=False)
                    console.print(f"logs and topics: {place}", markup=False, highlight=False)
                    sys.exit(1)
                record.append(folder, known)
                console.print(
                    f"seed {seed}, trial {number}: {known.kills} kills, {known.commits:,} commits, "
                    f"{known.outputs:,} outputs as they must be ({known.duration_s:.0f} s)",
                    highlight=False,
                )
            before += known.kills
            progress.update(bar, completed=before)
    click.echo(f"{before} kills left no trace (seed {seed}, record in {folder / record.FILE})")


def _write_page(folder: Path) -> None:
    PAGE.write_text(record.page(list(record.read(folder))), encoding="utf-8")
    PAGE.with_suffix(".jsonl").write_text((folder / record.FILE).read_text(encoding="utf-8"), encoding="utf-8")
    click.echo(f"written: {PAGE}")


if __name__ == "__main__":
    main()
