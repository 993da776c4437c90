"""Is every mutant found, and by which seed?"""

from collections.abc import Mapping
from concurrent.futures import as_completed
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.simulation.many import last_line, pool, run_seed
from tests.simulation.mutants import MUTANTS

MAX_SEEDS = 1_000
"""Tried on each mutant: what comes so rarely that these do not meet it is not tested."""

MAX_TEXT_CHARACTERS = 150
"""Shown of what a seed said."""


class Hunted(NamedTuple):
    """How it went with one mutant; `seed` None: it was not found."""

    name: str
    seed: int | None
    wrong: str


def hunt_one(name: str, seeds: range, sections: Mapping[str, Any]) -> Hunted:
    """Run seeds until one finds it."""
    for seed in seeds:
        result = run_seed(seed, sections, mutant=name)
        if result.wrong:
            return Hunted(name, seed, result.wrong)
    return Hunted(name, None, "")


def hunt(seeds: range, sections: Mapping[str, Any], processes: int, console: Console) -> bool:
    """All mutants over processes, with a bar and a table; whether each was found."""
    found: dict[str, Hunted] = {}
    with Progress(console=console) as bar, pool(processes) as executor:
        task = bar.add_task("mutants", total=len(MUTANTS))
        for future in as_completed([executor.submit(hunt_one, name, seeds, sections) for name in MUTANTS]):
            hunted = future.result()
            found[hunted.name] = hunted
            seen = f"found by seed {hunted.seed}" if hunted.wrong else "NOT FOUND"
            bar.console.print(f"{hunted.name}: {seen}", highlight=False)
            bar.advance(task)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("mutant", "what is wrong", "seed", "what the seed says"):
        table.add_column(heading, overflow="fold")
    for name, mutant in MUTANTS.items():
        hunted = found[name]
        text = last_line(hunted.wrong)[:MAX_TEXT_CHARACTERS] if hunted.wrong else "NOT FOUND"
        seed = "" if hunted.seed is None else str(hunted.seed)
        table.add_row(name, mutant.what, seed, text, style="" if hunted.wrong else "bold red")
    console.print(table, markup=False)
    missed = [name for name, hunted in found.items() if hunted.seed is None]
    console.print(f"{len(MUTANTS) - len(missed)} of {len(MUTANTS)} mutants found", highlight=False)
    return not missed
