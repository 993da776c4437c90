"""Runs the repetitions that are missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stream_app.producers.datasets.base import DataSet
from stream_app.terminal import Terminal
from study.run.parallel import progress_bar
from study.selective.methods import MakeMethod, seed_of_method
from study.selective.policies import POLICIES, LabelPolicy
from study.selective.results import Repetition, read_results, write_results
from study.selective.scoring import Figures, figures_of
from study.selective.streams import ALL_STREAMS, resets_of, seeds_of
from study.selective.world import predictions_of


class Asked(NamedTuple):
    """What is to be run: every combination of these.

    Attributes:
        streams: Names of `ALL_STREAMS`.
        policies: Names of `POLICIES`.
        methods: The methods, by name.
        seeds: How many seeds, from 0 on; None: those of the page.
    """

    streams: Sequence[str]
    policies: Sequence[str]
    methods: Mapping[str, MakeMethod]
    seeds: int | None

    def repetitions(self) -> list[Repetition]:
        """Return all repetitions; those of a stream and a seed follow one another, and the first seed is done first."""
        seeds = {stream: self.seeds or seeds_of(stream) for stream in self.streams}
        return [
            Repetition(stream, policy, method, seed)
            for seed in range(max(seeds.values()))
            for stream in self.streams
            if seed < seeds[stream]
            for policy in self.policies
            for method in self.methods
        ]


def measure(make: MakeMethod, data: DataSet, policy: LabelPolicy, seed: bytes, resets: Sequence[int]) -> Figures:
    """Return the figures of one repetition.

    Args:
        make: Makes the method.
        data: The stream.
        policy: Decides which labels the method is shown.
        seed: 32 bytes for the method.
        resets: Where the sums of G-mean restart.
    """
    truth = data.labels if data.clean_labels is None else data.clean_labels
    predicted = predictions_of(make(data, seed), np.ascontiguousarray(truth), policy)
    return figures_of(predicted, truth, resets, policy.first_scored)


def run_missing(asked: Asked, path: Path, console: Terminal, *, again: bool = False) -> int:
    """Run what the file does not have, and write it after all methods of a policy; return how many were run.

    Args:
        asked: What is to be run.
        path: The CSV file.
        console: Where the progress is shown.
        again: Forget first what the file has of this, since a method has changed.
    """
    finished = read_results(path)
    wanted = asked.repetitions()
    if again:
        for repetition in wanted:
            finished.pop(repetition, None)
    missing = [repetition for repetition in wanted if repetition not in finished]
    with progress_bar(console) as progress:
        bar = progress.add_task("repetitions", total=len(missing))
        made: tuple[tuple[str, int], DataSet] | None = None
        for number, (stream, policy, method, seed) in enumerate(missing):
            if made is None or made[0] != (stream, seed):
                made = (stream, seed), ALL_STREAMS[stream](seed)
            figures = measure(
                asked.methods[method], made[1], POLICIES[policy], seed_of_method(stream, seed), resets_of(stream)
            )
            finished[missing[number]] = figures
            if number + 1 == len(missing) or missing[number + 1][:2] != (stream, policy):
                write_results(finished, path)
            progress.update(bar, advance=1, description=f"{stream}, {policy}, {method}")
    return len(missing)
