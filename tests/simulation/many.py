"""Run thousands of seeds in several processes: report what failed, and how often each kind of fault hit."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing import get_context
from time import perf_counter, process_time
from types import FrameType
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ops.keeper import end_with_parent
from stream_app.worker import rounds
from tests.simulation.checks import Result, simulate
from tests.simulation.faults import MEANINGS, Event, Fault

CHUNK_SEEDS = 20
"""Seeds that a process gets at a time: about a second of work, so that the bar moves."""

CHUNKS_AHEAD = 3
"""Chunks that each process gets in advance: enough that none waits, few enough that a stop is quick."""

MAX_FAILURES = 10
"""Failed seeds after which the run ends: more failures would add nothing."""

SEED_CPU_S = 120
"""A thousand times what a seed takes, and twice the time to compile everything. It ends a seed that loops without a
port call."""

ENOUGH_SEEDS = 2_000
"""In this many seeds, every kind of fault must have hit: the rarest occurs in one seed of a hundred."""

MAX_WRONG_CHARACTERS = 3_000
"""Characters that are shown of the message of one seed."""


@dataclass
class Sum:
    """The sums over many seeds.

    Attributes:
        seeds: The number of seeds.
        failed: The failed seeds, each with its message.
        hits: How often each kind of fault hit.
        events: How often each consequence occurred.
        cpu_s: CPU time of all processes.
        seconds: Wall time from beginning to end.
        virtual_s: Time that passed in the worlds.
    """

    seeds: int = 0
    failed: list[tuple[int, str]] = field(default_factory=list)
    hits: Counter[Fault] = field(default_factory=Counter)
    events: Counter[Event] = field(default_factory=Counter)
    cpu_s: float = 0.0
    seconds: float = 0.0
    virtual_s: float = 0.0

    def add(self, result: Result) -> None:
        """Add the result of one seed."""
        self.seeds += 1
        self.hits += result.hits
        self.events += result.events
        self.virtual_s += result.seconds
        if result.wrong:
            self.failed.append((result.seed, result.wrong[:MAX_WRONG_CHARACTERS]))

    @property
    def never(self) -> list[str]:
        """Faults and consequences that no seed met; empty if the run is too small to say."""
        if self.seeds < ENOUGH_SEEDS:
            return []
        rare = {Event.OUTDATED, Event.UNREPAIRABLE}  # these need two simultaneous faults and do not occur in each run
        events = [kind for kind in Event if kind not in rare]
        missed = [*(kind for kind in Fault if not self.hits[kind]), *(kind for kind in events if not self.events[kind])]
        return list(map(str, missed))


class TooLongError(Exception):
    """A seed took too much CPU time."""


def run_seed(
    seed: int,
    sections: Mapping[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
) -> Result:
    """Run one seed, and end it even if the code under test loops without a port call.

    Args:
        seed: The seed.
        sections: Settings that override all workers' settings, by section.
        say: Receives the lines of the trace.
    """

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError(f"seed {seed} took more than {SEED_CPU_S} s of CPU time")

    rounds.SNAPSHOT_SLICE_S = 0.0  # drafting takes no simulated time: each round drafts one stream
    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, SEED_CPU_S)
    try:
        return simulate(seed, sections, say)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _run_chunk(seeds: Sequence[int], sections: Mapping[str, Any]) -> tuple[list[Result], float]:
    begun_s = process_time()
    results = [run_seed(seed, sections) for seed in seeds]
    return results, process_time() - begun_s


def prepare_process() -> None:
    """Use one thread, ignore Ctrl-C, which is the parent's, and end with the parent however it ends."""
    import torch  # noqa: PLC0415  (in the child, before anything uses it)

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of new processes, which share no state with this one."""
    return ProcessPoolExecutor(processes, get_context("spawn"), prepare_process)


def run_many(
    seeds: range, sections: Mapping[str, Any], processes: int, console: Console, max_failures: int = MAX_FAILURES
) -> Sum:
    """Run seeds in processes, with a progress bar, and end early after `max_failures` failures."""
    total, begun_s = Sum(), perf_counter()
    first = min(CHUNK_SEEDS, len(seeds))  # in this process, so that everything is compiled once
    chunks = iter([seeds[place : place + CHUNK_SEEDS] for place in range(first, len(seeds), CHUNK_SEEDS)])
    with _bar(console) as bar:
        task = bar.add_task("seeds", total=len(seeds), failed=0)

        def take(outcome: tuple[list[Result], float]) -> None:
            total.cpu_s += outcome[1]
            for result in outcome[0]:
                total.add(result)
                if result.wrong:
                    bar.console.print(f"seed {result.seed}: {last_line(result.wrong)}", style="red", highlight=False)
            bar.update(task, completed=total.seeds, failed=len(total.failed))

        take(_run_chunk(seeds[:first], sections))
        if len(total.failed) < max_failures:
            with pool(processes) as executor:
                for outcome in _in_turns(executor, chunks, sections, processes * CHUNKS_AHEAD):
                    take(outcome)
                    if len(total.failed) >= max_failures:
                        break
    total.seconds = perf_counter() - begun_s
    return total


def _in_turns(
    executor: ProcessPoolExecutor, chunks: Iterator[Sequence[int]], sections: Mapping[str, Any], ahead: int
) -> Iterator[tuple[list[Result], float]]:
    """Yield results as they come; at most `ahead` chunks are given out in advance."""
    given: set[Future[tuple[list[Result], float]]] = set()
    while True:
        while len(given) < ahead and (chunk := next(chunks, None)) is not None:
            given.add(executor.submit(_run_chunk, chunk, sections))
        if not given:
            return
        done, given = wait(given, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("failed {task.fields[failed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def last_line(text: str) -> str:
    """Return the last line of a traceback."""
    return text.strip().splitlines()[-1]


def show(total: Sum, console: Console) -> None:
    """Print the counts, the failures, and how to run them again."""
    console.print(_table("fault", total.hits, {kind: MEANINGS[kind] for kind in Fault}))
    console.print(_table("event", total.events, dict.fromkeys(Event, "")))
    speed = f"{1000 * total.cpu_s / max(1, total.seeds):.0f} ms of CPU a seed"
    console.print(
        f"{total.seeds:,} seeds in {total.seconds:.0f} s ({total.seeds / max(total.seconds, 0.001):.0f} a second, "
        f"{speed}); {total.virtual_s / 3600:,.1f} hours passed in them",
        highlight=False,
    )
    for seed, wrong in sorted(total.failed):
        console.rule(f"seed {seed}", style="red")
        console.print(wrong, markup=False, highlight=False, soft_wrap=True)
        console.print(f"again, with a trace: python -m tests.simulation --seed {seed}", highlight=False, style="bold")
    if total.never:
        console.print(f"never hit: {', '.join(total.never)}", style="bold red", highlight=False)
    verdict = f"{len(total.failed)} failed" if total.failed else "all hold"
    console.print(verdict, style="bold red" if total.failed or total.never else "bold green")


def _table(what: str, counts: Mapping[Any, int], meanings: Mapping[StrEnum, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(what, no_wrap=True)
    table.add_column("times", justify="right")
    if any(meanings.values()):
        table.add_column("")
    for kind, meaning in meanings.items():
        row = [str(kind), f"{counts[kind]:,}"]
        table.add_row(*row, *([meaning] if meaning else []), style="" if counts[kind] else "bold red")
    return table


def default_processes() -> int:
    """Return one process per core."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
