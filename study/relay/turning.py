"""RELAY and its rivals where concepts turn, move or return: `python -m study.relay.turning run`, then `report`.

The streams are the six kinds of `turning_streams`, each with 1 and 5 % positives, and with labels at once and 1,000
examples late. The learners run without the worker. A repetition's seed is its number; development had seeds from
1000 on, and an evaluation of RELAY without its short memory had 0 to 9. The G-mean is scored from the first step on by
which both classes have come, and never starts again.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.learners.factory import build
from stream_app.learners.methods.relay.state import WITH_SHORT
from stream_app.terminal import say
from study.relay.turning_streams import KINDS, turning_stream
from study.relay.unseen import operations_of, predicted_by, relay_without
from study.relay.unseen_streams import AREBA_20, Made
from study.relay.verdicts import FOLDER, Score, better_and_worse, learners_of, read_results, verdicts, write_results
from study.report.scores import average_from_both, curves_of, first_of_both

RESULTS = FOLDER / "relay_turning.csv"

DEVELOPMENT = RESULTS.with_name("relay_turning_development.csv")
"""What was tried, on streams of seeds from 1000 on."""

FIRST, REPETITIONS = 10, 10
"""The first repetition, and how many there are."""

LEARNERS: Mapping[str, LearnerSettings] = {
    "areba_20": AREBA_20,
    "areba_100": LearnerSettings(method="areba", budget=100, scaler="standard"),
    "qbr_100": LearnerSettings(method="qbr", budget=100, scaler="standard"),
    "oob": LearnerSettings(method="oob", scaler="standard"),
    "relay": LearnerSettings(method="relay"),
}
"""The learners; all but AREBA_20 have standardised features. RELAY also runs without its short memory."""

NAMES = ("RELAY without", "AREBA_20", "AREBA_100, scaled", "QBR_100, scaled", "OOB, scaled", "RELAY")

STREAMS: Mapping[str, tuple[str, int, int]] = {
    f"{kind}, {percent} %{', late' if delay else ''}": (kind, percent, delay)
    for delay, kind, percent in product((0, 1_000), KINDS, (1, 5))
}
"""The streams by their names: a kind, the percentage of positives, and the delay of labels."""


def figures_of(predicted: NDArray[np.int8], stream: Made) -> tuple[float, float]:
    """Return the G-mean at the end, and its mean over all steps from the first one by which both classes have come."""
    first = first_of_both(stream.clean)
    curve = curves_of(predicted, stream.clean, first=first).gmean
    return float(curve[-1]), average_from_both(curve, stream.clean)


def score(name: str, repetitions: int) -> Score:
    """Return the figures of a stream, float64 `[repetitions, learners]`, in the order of `NAMES`."""
    kind, percent, delay = STREAMS[name]
    rows = []
    for number in range(FIRST, FIRST + repetitions):
        stream = turning_stream(kind, percent, delay, number)
        steps, width = operations_of(stream), stream.features.shape[1]
        seed = hashlib.sha256(f"{name} {number}".encode()).digest()
        learners = [relay_without(WITH_SHORT, width, seed)]
        learners += [build(method, settings, width, seed) for method, settings in LEARNERS.items()]
        rows.append([figures_of(predicted_by(learner, stream, steps), stream) for learner in learners])
    figures = np.array(rows)
    return Score(figures[:, :, 0], figures[:, :, 1])


def lines_of(scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield two Markdown tables: the means of `NAMES` on each stream, and how RELAY compares with each."""
    yield f"| stream: end, average | {' | '.join(NAMES)} |"
    yield f"| --- |{' --- |' * len(NAMES)}"
    for name, own in scores.items():
        means = zip(own.final.mean(axis=0), own.average.mean(axis=0), strict=True)
        yield f"| {name} | {' | '.join(f'{end:.3f}, {average:.3f}' for end, average in means)} |"
    ends, averages = (np.mean([own[place].mean(axis=0) for own in scores.values()], axis=0) for place in range(2))
    yield f"| mean | {' | '.join(f'{end:.3f}, {average:.3f}' for end, average in zip(ends, averages, strict=True))} |"
    yield ""
    yield "| RELAY against | end: better, worse, higher | average: better, worse, higher |"
    yield "| --- | --- | --- |"
    for place, name in enumerate(NAMES[:-1]):
        cells = []
        for figure in range(2):
            found = verdicts([own[figure][:, [place, -1]] for own in scores.values()])
            better, worse = better_and_worse(found)
            cells.append(f"{better}, {worse}, {sum(one.means[1] > one.means[0] for one in found)}")
        yield f"| {name} | {' | '.join(cells)} |"


def lines_of_development(scores: Mapping[str, Score], learners: Sequence[str]) -> Iterator[str]:
    """Yield a Markdown table of what was tried: the means over the streams, and those of the hyperplane and STAGGER."""
    yield "| end, average | mean | hyperplane, 1 % | hyperplane, 5 % | stagger, 1 % | stagger, 5 % |"
    yield "| --- | --- | --- | --- | --- | --- |"
    means = {name: np.stack(own).mean(axis=1) for name, own in scores.items()}
    columns = [np.mean(list(means.values()), axis=0)]
    columns += [own for name, own in means.items() if name.startswith(("hyperplane", "stagger"))]
    for place, learner in enumerate(learners):
        cells = ["{:.3f}, {:.3f}".format(*own[:, place]) for own in columns]
        yield f"| {learner} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m study.relay.turning", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("command", choices=("run", "report", "development"))
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="repetitions of a stream")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV file of the figures")
    given = parser.parse_args(arguments)
    if given.command == "run":
        scores = {}
        for name in STREAMS:
            scores[name] = score(name, given.repetitions)
            say(f"{name}: {given.repetitions}")
        write_results(scores, given.results, NAMES, first=FIRST)
        return 0
    if given.command == "development":
        lines = lines_of_development(read_results(DEVELOPMENT), learners_of(DEVELOPMENT))
    else:
        lines = lines_of(read_results(given.results))
    for line in lines:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
