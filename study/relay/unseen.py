"""RELAY and AREBA_20 on kinds of streams that had no part in RELAY's development: `python -m study.relay.unseen`.

`unseen_streams` has the kinds. The learners run without the worker; labels come directly after their examples, or
`delay` examples later. A repetition's seed is its number. RELAY also runs without one of its mechanisms, which the
application cannot switch off.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.learners.api import Learner, Operations
from stream_app.learners.factory import LearnerResources, build, build_dense
from stream_app.learners.methods.relay.relay import RELAY as METHOD
from stream_app.learners.methods.relay.relay import relay
from stream_app.learners.methods.relay.state import ALL_MECHANISMS, WITH_CHALLENGER, WITH_GATES
from stream_app.records import ID_WORDS, Operation
from stream_app.terminal import say
from study.relay.unseen_streams import Kind, Made, kinds
from study.relay.verdicts import FOLDER, Score, write_results
from study.report.scores import curves_of

RESULTS = FOLDER / "relay_unseen.csv"

RELAY = LearnerSettings(method="relay")

WITHOUT: Mapping[str, int] = {
    "relay": 0,
    "relay_without_challenger": WITH_CHALLENGER,
    "relay_without_gates": WITH_GATES,
}
"""The RELAYs that are compared, and which mechanism each lacks."""

LEARNERS = ("areba_20", *WITHOUT)


def relay_without(mechanism: int, features: int, seed: bytes) -> Learner:
    """Return RELAY with its defaults, without one of the mechanisms of `relay.state.ALL_MECHANISMS`; 0: with all."""
    return build_dense(
        METHOD._replace(make=lambda own, width, start: relay(own, width, start, ALL_MECHANISMS & ~mechanism)),
        RELAY,
        features,
        seed,
        LearnerResources(),
    )


def operations_of(stream: Made) -> Operations:
    """Return the operations: each example is predicted, each label learned `delay` examples later."""

    def entries() -> Iterator[tuple[int, int, int]]:
        for slot in range(len(stream.labels)):
            yield int(Operation.PREDICT), slot, -1
            if slot >= stream.delay:
                yield int(Operation.LEARN), slot - stream.delay, int(stream.labels[slot - stream.delay])

    codes, slots, labels = zip(*entries(), strict=True)
    return Operations(np.array(codes, np.uint8), np.array(slots, np.int32), np.array(labels, np.int8))


def predicted_by(learner: Learner, stream: Made, steps: Operations) -> NDArray[np.int8]:
    """Return the classes that a learner predicts."""
    answers = learner.run(steps, stream.features, np.zeros((len(stream.labels), ID_WORDS), np.uint64))
    predicted: NDArray[np.int8] = answers.labels[steps.codes == Operation.PREDICT]
    return predicted


def score(name: str, kind: Kind, repetitions: int) -> Score:
    """Return the figures of one kind, float64 `[repetitions, learners]`, in the order of `LEARNERS`."""
    rows = []
    for number in range(repetitions):
        stream = kind.make(number)
        steps, width = operations_of(stream), stream.features.shape[1]
        seed = hashlib.sha256(f"{name} {number}".encode()).digest()
        learners = [build("areba_20", kind.areba, width, seed)]
        learners += [relay_without(mechanism, width, seed) for mechanism in WITHOUT.values()]
        row = []
        for learner in learners:
            curve = curves_of(predicted_by(learner, stream, steps), stream.clean, stream.resets).gmean
            row.append((curve[-1], curve.mean()))
        rows.append(row)
    figures = np.array(rows)
    return Score(figures[:, :, 0], figures[:, :, 1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m study.relay.unseen", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--most-repetitions", type=int, default=1 << 30, help="repetitions of a kind at most")
    parser.add_argument("--group", action="append", help="run a group of kinds; without it, all")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV file that is written")
    given = parser.parse_args(arguments)
    known = kinds()
    scores = {}
    for name, kind in known.items():
        if given.group is None or kind.group in given.group:
            scores[name] = score(name, kind, min(kind.repetitions, given.most_repetitions))
            say(f"{name}: {len(scores[name].final)}")
    write_results(scores, given.results, LEARNERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
