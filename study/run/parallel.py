"""Run repetitions in parallel, one process per core, with a progress bar; store each result immediately."""

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ops.keeper import end_with_parent
from stream_app.terminal import Terminal
from study.run.experiment import Experiment, Run, Varies
from study.run.store import Store

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2
"""Repetitions handed to each process in advance: no process waits, and Ctrl-C has few to cancel."""


class Todo(NamedTuple):
    """One repetition to run."""

    run: Run
    repetition: int


def missing(runs: Sequence[Run], store: Store, repetitions: int | None) -> list[Todo]:
    """Return the repetitions that are not finished yet; `repetitions` overrides the experiments' own number."""
    todo = []
    for run in runs:
        finished = set(store.finished(run))
        wanted = run.experiment.repetitions if repetitions is None else repetitions
        todo += [Todo(run, number) for number in range(wanted) if number not in finished]
    return todo


def _initialise() -> None:
    """End silently on Ctrl-C. Importing `stream_app.jit.compiler` has set the threads of Torch and BLAS to one."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # a repetition makes a million tuples that stay alive; collecting garbage took a fifth of its time


class _Packed(NamedTuple):
    """A repetition as it is sent to a process."""

    experiment: str
    varies: Varies
    repetition: int
    name: str


def _work(packed: _Packed, folder: Path, engine: str) -> None:
    from study.run.runs import repeat  # noqa: PLC0415  (Torch and Numba are for the children)

    run = Run(Experiment.model_validate_json(packed.experiment), packed.varies)
    Store(folder, engine).put(run, packed.repetition, repeat(run, packed.repetition))


def progress_bar(console: Terminal) -> Progress:
    """Return a progress bar of repetitions: what is running, how many are done, and the time that is left."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)


def run_all(todo: Sequence[Todo], folder: Path, engine: str, jobs: int, console: Terminal) -> None:
    """Run repetitions and store them.

    Args:
        todo: The repetitions, in the order in which they are run.
        folder: The folder of the store.
        engine: `store.engine_version()`.
        jobs: The number of processes.
        console: Where the progress is shown.

    Raises:
        ArebaError: A repetition failed; finished repetitions are kept.
    """
    with progress_bar(console) as progress:
        bar = progress.add_task("repetitions", total=len(todo))
        packed = [
            _Packed(
                one.run.experiment.model_dump_json(exclude_unset=True), one.run.varies, one.repetition, one.run.name
            )
            for one in todo
        ]
        for done, _ in each_finished(packed, partial(_work, folder=folder, engine=engine), jobs):
            progress.update(bar, advance=1, description=done.name)


def each_finished(items: Iterable[Item], work: Callable[[Item], Result], jobs: int) -> Iterator[tuple[Item, Result]]:
    """Do work in processes, and yield each item with its result once it is done.

    Args:
        items: The work, in the order in which it is begun. They are pickled, as is what `work` returns.
        work: A function of a module, which each process imports.
        jobs: The number of processes.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_initialise)
    rest, under_way = iter(items), dict[Future[Result], Item]()
    try:
        while True:
            while len(under_way) < jobs * AHEAD and (item := next(rest, None)) is not None:
                under_way[pool.submit(_collected, work, item)] = item
            if not under_way:
                break
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _collected(work: Callable[[Item], Result], item: Item) -> Result:
    """Do the work, then collect its garbage, which `_initialise` has left to us."""
    result = work(item)
    gc.collect()
    return result
