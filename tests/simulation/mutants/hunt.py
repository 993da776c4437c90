"""Find out whether every mutant is found, and by which seed or test."""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.mutant import ROOT, mutated

MAX_SEEDS = 1_000
"""Seeds that are tried on each mutant: a fault that is too rare for them is not tested."""

MAX_HUNT_S = 1_800
"""Time for one mutant; a thousand seeds take two minutes, and compiling everything takes two more."""

MAX_TEXT_CHARACTERS = 150
"""Characters that are shown of the message of a seed or test."""

SAYS = re.compile(r"^(?:seed (?P<seed>\d+): |FAILED (?P<test>.+?)(?: - |$))(?P<text>.*)$", re.MULTILINE)
"""Matches the line of the simulation, or of pytest's summary, that says what failed."""


class Hunted(NamedTuple):
    """The result of the hunt for one mutant; an empty `found_by` means that it was not found."""

    name: str
    found_by: str
    text: str


def hunt_one(name: str, max_seeds: int, settings: str) -> Hunted:
    """Run the mutant's tests, or its seed and then others, until one of them finds the mutant."""
    mutant = MUTANTS[name]
    tests = ["pytest", "-q", "-x", "-p", "no:cacheprovider", *(f"tests/{test}" for test in mutant.tests.split())]
    options = ["tests.simulation", "--until-failure", "--processes", "1", "--settings", settings, "--seeds"]
    known = [] if mutant.seed is None else [f"{mutant.seed}:{mutant.seed + 1}"]
    seeds = [[*options, span] for span in (*known, f"0:{max_seeds}")]
    hunted = Hunted(name, "", "")
    with mutated(mutant) as environment:
        for command in [tests] if mutant.tests else seeds:
            hunted = _run(name, command, environment)
            if hunted.found_by:
                break
    return hunted


def _run(name: str, command: Sequence[str], environment: Mapping[str, str]) -> Hunted:
    try:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env={**environment, "COLUMNS": "300"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MAX_HUNT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Hunted(name, "", f"no end after {MAX_HUNT_S} s")
    said = SAYS.search(done.stdout)
    if done.returncode != 1 or said is None:  # status 1: a test or a seed failed; any other status is not a finding
        return Hunted(name, "", "" if done.returncode == 0 else done.stdout[-MAX_TEXT_CHARACTERS:])
    return Hunted(name, f"seed {said['seed']}" if said["seed"] else said["test"].rpartition("/")[2], said["text"])


def hunt(names: Sequence[str], max_seeds: int, settings: str, processes: int, console: Console) -> bool:
    """Hunt mutants in several processes, with a bar and a table; return whether each was found."""
    found: dict[str, Hunted] = {}
    with Progress(console=console) as bar, ThreadPoolExecutor(processes) as executor:
        task = bar.add_task("mutants", total=len(names))
        for future in as_completed([executor.submit(hunt_one, name, max_seeds, settings) for name in names]):
            hunted = future.result()
            found[hunted.name] = hunted
            seen = f"found by {hunted.found_by}" if hunted.found_by else f"NOT FOUND {hunted.text}"
            bar.console.print(f"{hunted.name}: {seen}", markup=False, highlight=False)
            bar.advance(task)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("mutant", "what is wrong", "found by", "what that says"):
        table.add_column(heading, overflow="fold")
    for name in names:
        hunted = found[name]
        style = "" if hunted.found_by else "bold red"
        text = hunted.text[:MAX_TEXT_CHARACTERS]
        table.add_row(name, MUTANTS[name].what, hunted.found_by or "NOT FOUND", text, style=style)
    console.print(table, markup=False)
    missed = [name for name, hunted in found.items() if not hunted.found_by]
    console.print(f"{len(names) - len(missed)} of {len(names)} mutants found", highlight=False)
    return not missed
