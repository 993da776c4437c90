"""Time to predict and learn an example: each method against eager Torch, and ensembles against one network."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.eager import ENSEMBLE, Stream, eager
from benchmarks.rows import Row, at_most, below, faster, median_cpu_us
from benchmarks.strict import StrictAreba
from stream_app.config import LearnerSettings
from stream_app.learners.api import Learner, Operations
from stream_app.learners.factory import build
from stream_app.learners.method import RunningMethod
from stream_app.learners.method_state import new_tables
from stream_app.learners.methods.baseline import BASELINE
from stream_app.learners.networks.autograd import DenseNetwork, compiled_networks, require_one_thread
from stream_app.learners.networks.dense import random_generator
from stream_app.learners.online import OnlineLearner
from stream_app.learners.registry import new_method
from stream_app.producers.datasets import DataSet, load
from stream_app.producers.synthetic import SyntheticSpec, synthetic
from stream_app.records import ID_WORDS, Operation

BATCH = 1000
"""Examples of one call: as many as a worker has buffered under load."""


def of(data: DataSet, count: int) -> Stream:
    """Return the first examples of a data set, in order, with the network that the paper uses for it."""
    part = data.prefix(count)
    return Stream(data.name, part.features, part.labels, data.learning_rate, data.hidden, data.l2)


def ours(stream: Stream, method: str = "areba") -> Learner:
    """Return the learner that a configuration would create for this stream."""
    settings = LearnerSettings(method=method, learning_rate=stream.learning_rate, hidden=stream.hidden, l2=stream.l2)
    return build(method, settings, stream.examples.shape[1], bytes(32))


def learn(learner: Learner, stream: Stream, start: int, stop: int) -> None:
    """Predict and learn these examples in batches; each example is learned before the next is predicted."""
    for first in range(start, stop, BATCH):
        part = slice(first, min(first + BATCH, stop))
        labels = stream.labels[part]
        count = len(labels)
        operations = Operations(
            np.tile(np.array([Operation.PREDICT, Operation.LEARN], np.uint8), count),
            np.repeat(np.arange(count, dtype=np.int32), 2),
            np.column_stack([np.full(count, -1, np.int8), labels]).reshape(-1),
        )
        learner.run(operations, stream.examples[part], np.zeros((count, ID_WORDS), np.uint64))


def compare(
    stream: Stream, method: str, *, warm: int, ours_steps: int, eager_steps: int, repetitions: int
) -> tuple[float, float]:
    """Return the median microseconds per example, ours and eager Torch's; both start at the same example of the stream.

    Args:
        stream: A stream of at least `warm` + `repetitions` * `ours_steps` examples.
        method: The name of the method.
        warm: Examples that both learn before the measurement, which fill the queues.
        ours_steps: Examples of one repetition.
        eager_steps: Examples of one repetition of eager Torch.
        repetitions: The number of repetitions.
    """
    steps = (ours_steps, eager_steps)
    return _medians(ours(stream, method), eager(stream, method), stream, warm, steps, repetitions)


def _medians(
    learner: Learner,
    reference: Callable[[int, int], int],
    stream: Stream,
    warm: int,
    steps: tuple[int, int],
    repetitions: int,
) -> tuple[float, float]:
    """Return the median microseconds per example of a learner and of a reference, over repetitions of these steps."""
    learn(learner, stream, 0, warm)
    reference(0, warm)
    ours_steps, reference_steps = steps
    ours_at, reference_at = iter(range(warm, 1 << 30, ours_steps)), iter(range(warm, 1 << 30, reference_steps))

    def run_ours() -> int:
        start = next(ours_at)
        learn(learner, stream, start, start + ours_steps)
        return ours_steps

    def run_reference() -> int:
        start = next(reference_at)
        return reference(start, start + reference_steps)

    ours_us = median_cpu_us(run_ours, repetitions)
    return ours_us, median_cpu_us(run_reference, repetitions)


def against_strict(stream: Stream, warm: int, steps: int, repetitions: int) -> tuple[float, float]:
    """Return the median microseconds per example, ours and those of `strict.StrictAreba`, over the same examples."""
    return _medians(ours(stream), StrictAreba(stream), stream, warm, (steps, steps), repetitions)


def relay(stream: Stream, most_us: float) -> Row:
    """Measure RELAY with its defaults when both of its queues have grown; it has no counterpart in eager Torch."""
    features = stream.examples.shape[1]
    learner = build("relay", LearnerSettings(method="relay"), features, bytes(32))
    learn(learner, stream, 0, 10_000)
    position = iter(range(10_000, len(stream.labels), 5_000))

    def run() -> int:
        start = next(position)
        learn(learner, stream, start, start + 5_000)
        return 5_000

    return below(f"predict and learn, RELAY: {stream.name}", features, median_cpu_us(run, 9), "us", most_us)


def converged(stream: Stream) -> tuple[float, float]:
    """Return the median microseconds per example of the steps 50,000 to 60,000 and of 1,000 to 11,000."""
    learner = ours(stream)
    position = 0

    def thousand() -> int:
        nonlocal position
        learn(learner, stream, position, position + BATCH)
        position += BATCH
        return BATCH

    thousand()
    early = median_cpu_us(thousand, 10)
    while position < 50_000:
        thousand()
    return median_cpu_us(thousand, 10), early


class Effort(NamedTuple):
    """The size of a measurement: examples before it, examples of a repetition (ours, eager Torch's), repetitions."""

    warm: int
    ours: int
    eager: int
    times: int


ONE, WINDOW, MANY = Effort(500, 2_000, 200, 5), Effort(500, 1_000, 200, 5), Effort(200, 500, 20, 5)
ONE_WIDE, WINDOW_WIDE, MANY_WIDE = Effort(20, 60, 30, 5), Effort(110, 20, 20, 3), Effort(2, 4, 2, 3)


def others(streams: Sequence[Stream], wide: Stream) -> list[Row]:
    """Measure all methods but AREBA on streams with the small network, and on one with the paper's large network."""
    table = []
    for method, small, large in (
        ("qbr", ONE, ONE_WIDE),
        ("baseline", ONE, ONE_WIDE),
        ("sliding", WINDOW, WINDOW_WIDE),
        ("adaptive_cs", ONE, ONE_WIDE),
        ("oob_single", ONE, ONE_WIDE),
        ("oob", MANY, MANY_WIDE),
        ("uob", MANY, MANY_WIDE),
    ):
        for stream, effort in (*((stream, small) for stream in streams), (wide, large)):
            times = {"warm": effort.warm, "ours_steps": effort.ours, "eager_steps": effort.eager}
            own, reference = compare(stream, method, **times, repetitions=effort.times)
            name = f"predict and learn, {method}, against eager Torch with fused Adam: {stream.name}"
            name += "" if len(stream.hidden) == 1 else f", {stream.examples.shape[1]}-512-512-1"
            table.append(Row(name, stream.examples.shape[1], own, reference, reference / own, "printed", None))
    return table


def networks(stream: Stream, count: int) -> Learner:
    """Return an ensemble of this size in which each network takes one step per label, since every draw is 1."""
    features, generator = stream.examples.shape[1], random_generator(bytes(32))
    plain = BASELINE._replace(make=lambda _settings, width, _seed: RunningMethod(new_tables(width, networks=count)))
    method = new_method(plain, LearnerSettings(method="baseline"), features, bytes(32))
    members = [DenseNetwork(features, stream.hidden, generator) for _ in range(count)]
    compiled = compiled_networks(members, stream.learning_rate, stream.l2, method.examples)
    return OnlineLearner(method, compiled, features, scaled=False)


def ensemble(stream: Stream, steps: int, repetitions: int) -> tuple[float, float]:
    """Return the median microseconds per example of an ensemble of 20 networks, and of one network."""
    figures = []
    for count in (ENSEMBLE, 1):
        learner = networks(stream, count)
        learn(learner, stream, 0, steps)

        def run(learner: Learner = learner) -> int:
            learn(learner, stream, 0, steps)
            return steps

        figures.append(median_cpu_us(run, repetitions))
    return figures[0], figures[1]


def rows() -> list[Row]:
    """Return the rows of the table that are about learners."""
    require_one_thread()
    name = "predict and learn, AREBA_20, against eager Torch with fused Adam"
    sine, fraud = of(synthetic(SyntheticSpec("sine", length=60_000)), 60_000), of(load("fraud"), 60_000)
    small = [
        faster(
            f"{name}: {stream.name}",
            stream.examples.shape[1],
            *compare(stream, "areba", warm=5_000, ours_steps=5_000, eager_steps=1_000, repetitions=9),
            times,
        )
        for stream, times in ((sine, 300.0), (fraud, 200.0))
    ]
    mnist = of(load("mnist"), 1_500)
    large = at_most(
        f"{name}: {mnist.name}, 784-512-512-1",
        mnist.examples.shape[1],
        *compare(mnist, "areba", warm=500, ours_steps=100, eager_steps=50, repetitions=9),
        0.5,
    )
    pictures = Stream(f"{mnist.name}, 784-8-1", mnist.examples, mnist.labels)
    once = f"an ensemble of {ENSEMBLE}, each network updated once, against one network"
    ensembles = [
        at_most(f"{once}: {stream.name}", stream.examples.shape[1], *ensemble(stream, steps, 9), 8.0)
        for stream, steps in ((sine, 2_000), (fraud, 1_000), (pictures, 200))
    ]
    own, reference = ensemble(mnist, 10, 3)
    text = f"{once}: {mnist.name}, 784-512-512-1, 160 MB of parameters and moments"
    ensembles.append(Row(text, 784, own, reference, own / reference, "printed", None))
    plain = "predict and learn, AREBA_20, against a page of plain Numba in strict order"
    strict = [
        at_most(f"{plain}: {stream.name}", stream.examples.shape[1], *against_strict(stream, 5_000, 5_000, 9), 1.25)
        for stream in (sine, fraud)
    ]
    replays = [relay(sine, 3.0), relay(fraud, 6.0)]
    return [*small, *strict, *replays, large, *others((sine, fraud), mnist), *ensembles, *late(sine, fraud)]


def late(sine: Stream, fraud: Stream) -> list[Row]:
    """Compare the speed late in a stream, when the model has converged, with the speed at its beginning."""
    what = "a converged stream, examples 50,000 to 60,000 against 1,000 to 11,000"
    forest = of(load("forest"), 60_000)
    table = [
        at_most(f"{what}: {stream.name}", stream.examples.shape[1], *converged(stream), 1.3)
        for stream in (sine, forest)
    ]
    late_us, early_us = converged(fraud)
    unequal = f"{what}: {fraud.name}, whose queue of positives is not full at first"
    return [*table, Row(unequal, 30, late_us, early_us, late_us / early_us, "printed", None)]


if __name__ == "__main__":
    for row in rows():
        print(row.as_json())
