"""Runs the repetitions that are missing, those of the first seed first."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stream_app.terminal import Terminal
from study.field.methods import FAST, HALF_SUFFIX, KAPPA_SUFFIX, MOA_LINES, RIVER, Run, seed_of_method
from study.field.results import Finished, Repetition, Row, read_results, write_results
from study.field.scoring import measures_of
from study.field.streams import SLOW_STREAMS, all_streams
from study.run.parallel import each_finished, progress_bar

SEEDS = 5
"""Repetitions of the fast methods: seed s gives both the data and the first weights. Slow methods have one."""


class Asked(NamedTuple):
    """Methods on one stream with one seed, which share its data.

    Attributes:
        stream: The name of the stream.
        seed: The seed.
        methods: Names of methods.
    """

    stream: str
    seed: int
    methods: tuple[str, ...]


def rows_of(method: str) -> tuple[str, ...]:
    """Return the names of the rows that a method fills."""
    gives_classes_alone = method in RIVER or method in MOA_LINES
    return (method,) if gives_classes_alone else (method, method + HALF_SUFFIX, method + KAPPA_SUFFIX)


def fast_work(names: Sequence[str], seeds: int, methods: Iterable[str] = FAST) -> list[Asked]:
    """Return these methods on these streams; all streams of a seed come before the next seed."""
    return [Asked(name, seed, tuple(methods)) for seed in range(seeds) for name in names]


def slow_work(names: Sequence[str], methods: Iterable[str]) -> list[Asked]:
    """Return slow methods on those of these streams that are in the subset; all streams of a method together."""
    chosen = [name for name in names if name in SLOW_STREAMS]
    return [Asked(name, 0, (method,)) for method in methods for name in chosen]


def missing(work: Sequence[Asked], finished: Finished) -> list[Asked]:
    """Return the work without the methods whose rows are all there."""
    left = []
    for asked in work:
        methods = tuple(
            method
            for method in asked.methods
            if any(Repetition(asked.stream, row, asked.seed) not in finished for row in rows_of(method))
        )
        if methods:
            left.append(asked._replace(methods=methods))
    return left


def measure(asked: Asked, methods: Mapping[str, Run]) -> Finished:
    """Return the rows of this work; `methods` has its methods by name."""
    data = all_streams()[asked.stream](asked.seed)
    return {
        Repetition(asked.stream, name, asked.seed): Row(
            measures_of(own.classes, own.scores, data.labels), own.seconds / len(data) * 1e6
        )
        for method in asked.methods
        for name, own in methods[method](data, seed_of_method(asked.stream, asked.seed)).items()
    }


def run_missing(
    work: Sequence[Asked], path: Path, jobs: int, methods: Mapping[str, Run], console: Terminal, *, again: bool = False
) -> int:
    """Run what the file does not have, and write each result as soon as it is there; return how many rows are new.

    Args:
        work: What is to be run.
        path: The CSV file.
        jobs: The number of processes.
        methods: All methods of the work, by name.
        console: Where the progress is shown.
        again: Forget first what the file has of this, since a method has changed.
    """
    finished = read_results(path)
    if again:
        stale = {Repetition(one.stream, row, one.seed) for one in work for name in one.methods for row in rows_of(name)}
        finished = {one: row for one, row in finished.items() if one not in stale}
    before, left = len(finished), missing(work, finished)
    with progress_bar(console) as progress:
        bar = progress.add_task("streams", total=len(left))
        for asked, rows in each_finished(left, partial(measure, methods=methods), jobs):
            finished |= rows
            write_results(finished, path)
            progress.update(bar, advance=1, description=f"{asked.stream}, seed {asked.seed}")
    return len(finished) - before
