"""AREBA with a budget of 20: predict and learn, microseconds an example, ours against eager Torch."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, at_most, faster, median_cpu_us
from producers.datasets import DataSet, load
from producers.synthetic import SyntheticSpec, synthetic
from stream_app.learners import LEARN, PREDICT, Learner, LearnerSettings, Operations, build
from stream_app.network import require_one_thread
from stream_app.records import ID_WORDS, Floats

# isort: split
import torch

BATCH = 1000
"""Examples of one call: what a worker has at hand under load."""

BUDGET = 20


@dataclass(frozen=True, slots=True)
class Stream:
    """Examples in order, and how the paper's network learns them.

    Attributes:
        name: What it is.
        examples: float32 `[n, d]`.
        labels: int8 `[n]`.
        learning_rate: Of Adam.
        hidden: Units of the hidden layers.
        l2: Regularisation of the hidden weights.
    """

    name: str
    examples: Floats
    labels: NDArray[np.int8]
    learning_rate: float = 0.01
    hidden: tuple[int, ...] = (8,)
    l2: float = 0.0


def of(data: DataSet, count: int) -> Stream:
    """The first examples of a data set, in order, with the network that the paper gives it."""
    part = data.prefix(count)
    return Stream(data.name, part.features, part.labels, data.learning_rate, data.hidden, data.l2)


def ours(stream: Stream) -> Learner:
    """The learner that a configuration would make for this stream."""
    settings = LearnerSettings(
        method="areba", budget=BUDGET, learning_rate=stream.learning_rate, hidden=stream.hidden, l2=stream.l2
    )
    return build("areba", settings, stream.examples.shape[1], bytes(32))


def learn(learner: Learner, stream: Stream, start: int, stop: int) -> None:
    """Predict and learn these examples, each before the next one comes, in batches."""
    for first in range(start, stop, BATCH):
        part = slice(first, min(first + BATCH, stop))
        labels = stream.labels[part]
        count = len(labels)
        operations = Operations(
            np.tile(np.array([PREDICT, LEARN], np.uint8), count),
            np.repeat(np.arange(count, dtype=np.int32), 2),
            np.column_stack([np.full(count, -1, np.int8), labels]).reshape(-1),
        )
        learner.run(operations, stream.examples[part], np.zeros((count, ID_WORDS), np.uint64))


class EagerAreba:
    """AREBA as one writes it with Torch: a deque a class, autograd, the fused Adam."""

    def __init__(self, stream: Stream) -> None:
        torch.manual_seed(0)
        widths = (stream.examples.shape[1], *stream.hidden)
        layers: list[torch.nn.Module] = []
        for inputs, units in pairwise(widths):
            layers += [torch.nn.Linear(inputs, units), torch.nn.LeakyReLU(0.01)]
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 1))
        for layer in self.model:
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.kaiming_normal_(layer.weight)
        self.penalised = [layer.weight for layer in layers if isinstance(layer, torch.nn.Linear)]
        self.l2 = stream.l2
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=stream.learning_rate, eps=1e-7, fused=True)
        self.loss = torch.nn.BCEWithLogitsLoss()
        self.queues: tuple[deque[torch.Tensor], deque[torch.Tensor]] = deque(maxlen=1), deque(maxlen=1)
        self.sizes = [0.0, 0.0]

    def predict(self, example: torch.Tensor) -> float:
        """P(class 1)."""
        with torch.no_grad():
            return torch.sigmoid(self.model(example[None])).item()

    def learn(self, example: torch.Tensor, label: int) -> None:
        """The paper's algorithm 2."""
        self.sizes = [0.99 * size + (0.01 if label == kind else 0.0) for kind, size in enumerate(self.sizes)]
        self.queues[label].append(example)
        self.queues = self._adapted()
        negatives, positives = self.queues
        examples = torch.stack([*positives, *negatives])
        targets = torch.zeros(len(examples))
        targets[: len(positives)] = 1.0
        self.optimizer.zero_grad()
        loss = self.loss(self.model(examples).squeeze(1), targets)
        if self.l2:
            for weights in self.penalised:
                loss = loss + self.l2 * weights.square().sum()
        loss.backward()
        self.optimizer.step()

    def _adapted(self) -> tuple[deque[torch.Tensor], deque[torch.Tensor]]:
        capacities = [queue.maxlen or 1 for queue in self.queues]
        if not all(self.queues):
            present = 0 if self.queues[0] else 1
            capacities[present] = min(BUDGET, capacities[present] + 1)
        else:
            minority = 1 if self.sizes[0] > self.sizes[1] else 0
            if len(self.queues[minority]) == capacities[minority]:
                if capacities[minority] < BUDGET // 2:
                    capacities[1 - minority] = capacities[minority]
                    capacities[minority] += 1
                elif capacities[minority] == BUDGET // 2:
                    capacities[1 - minority] = capacities[minority]
        if capacities == [queue.maxlen for queue in self.queues]:
            return self.queues
        return deque(self.queues[0], capacities[0]), deque(self.queues[1], capacities[1])


def eager(stream: Stream) -> Callable[[int, int], int]:
    """Predict and learn examples from one index to another, one by one; how many they were."""
    model = EagerAreba(stream)
    examples, labels = torch.from_numpy(stream.examples), stream.labels.tolist()

    def run(start: int, stop: int) -> int:
        for k in range(start, stop):
            model.predict(examples[k])
            model.learn(examples[k], labels[k])
        return stop - start

    return run


def compare(stream: Stream, *, warm: int, ours_steps: int, eager_steps: int, repetitions: int) -> tuple[float, float]:
    """Median microseconds an example, ours and eager Torch's, over the same stretches of the stream where both reach.

    Args:
        stream: At least `warm` and `repetitions` times `ours_steps` long.
        warm: Examples that both learn before the clock runs: the queues are full then.
        ours_steps: Examples of one repetition.
        eager_steps: The same for eager Torch.
        repetitions: How many times.
    """
    learner, reference = ours(stream), eager(stream)
    learn(learner, stream, 0, warm)
    reference(0, warm)
    ours_at, eager_at = iter(range(warm, 1 << 30, ours_steps)), iter(range(warm, 1 << 30, eager_steps))

    def run_ours() -> int:
        start = next(ours_at)
        learn(learner, stream, start, start + ours_steps)
        return ours_steps

    def run_eager() -> int:
        start = next(eager_at)
        return reference(start, start + eager_steps)

    ours_us = median_cpu_us(run_ours, repetitions)
    return ours_us, median_cpu_us(run_eager, repetitions)


def converged(stream: Stream) -> tuple[float, float]:
    """Median microseconds an example at the steps 50,000 to 60,000 and 1,000 to 11,000, a thousand at a time."""
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


def rows() -> list[Row]:
    """The rows of the table that are about learners."""
    require_one_thread()
    name = "predict and learn, AREBA_20, against eager Torch with fused Adam"
    sine, fraud = of(synthetic(SyntheticSpec("sine", length=60_000)), 60_000), of(load("fraud"), 60_000)
    small = [
        faster(
            f"{name}: {stream.name}",
            stream.examples.shape[1],
            *compare(stream, warm=5_000, ours_steps=5_000, eager_steps=1_000, repetitions=9),
            times,
        )
        for stream, times in ((sine, 300.0), (fraud, 200.0))
    ]
    mnist = of(load("mnist"), 1_500)
    large = at_most(
        f"{name}: {mnist.name}, 784-512-512-1",
        mnist.examples.shape[1],
        *compare(mnist, warm=500, ours_steps=100, eager_steps=50, repetitions=9),
        0.5,
    )
    what = "a converged stream, examples 50,000 to 60,000 against 1,000 to 11,000"
    forest = of(load("forest"), 60_000)
    late = [
        at_most(f"{what}: {stream.name}", stream.examples.shape[1], *converged(stream), 1.3)
        for stream in (sine, forest)
    ]
    late_us, early_us = converged(fraud)
    unequal = f"{what}: {fraud.name}, whose queue of positives is not full at first"
    late.append(Row(unequal, 30, late_us, early_us, late_us / early_us, "printed", None))
    return [*small, large, *late]


if __name__ == "__main__":
    for row in rows():
        print(row.as_json())
