"""The references: every method as people usually write it with Torch: with autograd, the fused Adam and deques."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.learners.networks.autograd import require_one_thread  # before Torch: it sets the number of threads

# isort: split
import torch

BUDGET, WINDOW, ENSEMBLE = 20, 100, 20
THETA = 0.99


@dataclass(frozen=True, slots=True)
class Stream:
    """Examples in order, and the settings with which the paper's network learns them.

    Attributes:
        name: The name of the stream.
        examples: float32 `[n, d]`.
        labels: int8 `[n]`.
        learning_rate: The learning rate of Adam.
        hidden: Units of the hidden layers.
        l2: Weight of the L2 penalty on the hidden layers' weights.
    """

    name: str
    examples: Floats
    labels: NDArray[np.int8]
    learning_rate: float = 0.01
    hidden: tuple[int, ...] = (8,)
    l2: float = 0.0


class Network:
    """The paper's network."""

    def __init__(self, stream: Stream) -> None:
        require_one_thread()
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

    def predict(self, example: torch.Tensor) -> float:
        """Return the probability of class 1."""
        with torch.no_grad():
            return float(torch.sigmoid(self.model(example[None])).item())

    def step(self, examples: torch.Tensor, targets: torch.Tensor, weight: float = 1.0) -> None:
        """Take one step of Adam."""
        self.optimizer.zero_grad()
        loss = weight * self.loss(self.model(examples).squeeze(1), targets)
        if self.l2:
            for weights in self.penalised:
                loss = loss + self.l2 * weights.square().sum()
        loss.backward()
        self.optimizer.step()


Queue = deque[torch.Tensor]


class Method:
    """The parts that all methods share; without overrides it is the Baseline."""

    networks = 1

    def __init__(self, stream: Stream) -> None:
        torch.manual_seed(0)
        self.models = [Network(stream) for _ in range(self.networks)]
        self.sizes = [0.0, 0.0]

    def predict(self, example: torch.Tensor) -> float:
        """Return the probability of class 1."""
        return sum(model.predict(example) for model in self.models) / len(self.models)

    def grow(self, label: int) -> None:
        """Update the decayed class sizes with a label."""
        self.sizes = [THETA * size + (1 - THETA if label == kind else 0.0) for kind, size in enumerate(self.sizes)]

    def learn(self, example: torch.Tensor, label: int) -> None:
        """Take one step on the example alone."""
        self.models[0].step(example[None], torch.tensor([float(label)]))


class Sliding(Method):
    """A window of the newest examples of both classes."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.examples, self.labels = Queue(maxlen=WINDOW), deque[float](maxlen=WINDOW)

    def learn(self, example: torch.Tensor, label: int) -> None:
        """Take one step on the window."""
        self.examples.append(example)
        self.labels.append(float(label))
        self.models[0].step(torch.stack(list(self.examples)), torch.tensor(list(self.labels)))


class Qbr(Method):
    """A queue for each class."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.queues: tuple[Queue, Queue] = Queue(maxlen=1), Queue(maxlen=1)

    def learn(self, example: torch.Tensor, label: int) -> None:
        """Take one step on both queues."""
        self.grow(label)
        self.queues[label].append(example)
        capacities = self.capacities(label)
        if capacities != [queue.maxlen for queue in self.queues]:
            self.queues = Queue(self.queues[0], capacities[0]), Queue(self.queues[1], capacities[1])
        negatives, positives = self.queues
        examples = torch.stack([*positives, *negatives])
        targets = torch.zeros(len(examples))
        targets[: len(positives)] = 1.0
        self.models[0].step(examples, targets)

    def capacities(self, label: int) -> list[int]:
        """Return the capacities of the queues after a label: a full queue may grow up to B / 2."""
        capacities = [queue.maxlen or 1 for queue in self.queues]
        if len(self.queues[label]) == capacities[label] < BUDGET // 2:
            capacities[label] += 1
        return capacities


class Areba(Qbr):
    """Queues that adapt to each other: the paper's algorithm 2."""

    def capacities(self, label: int) -> list[int]:  # noqa: ARG002  (QBR's argument)
        """Return the capacities as lines 19 to 45 of the algorithm adapt them."""
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
        return capacities


class AdaptiveCs(Method):
    """A cost for each class."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.costs = [1.0, 19.0]
        self.count = 0

    def learn(self, example: torch.Tensor, label: int) -> None:
        """Take one step on the example alone, weighted by the cost of its class."""
        self.grow(label)
        if self.count % 250 == 0 and all(self.sizes) and self.sizes[0] != self.sizes[1]:
            minority = 1 if self.sizes[1] < self.sizes[0] else 0
            self.costs = [1.0, 1.0]
            self.costs[minority] = min(50.0, self.sizes[1 - minority] / self.sizes[minority])
        self.count += 1
        self.models[0].step(example[None], torch.tensor([float(label)]), self.costs[label])


class Bagging(Method):
    """A number of steps on each label that is drawn from Poisson's distribution: OOB, or UOB with `under`."""

    under = False

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.random = np.random.default_rng(0)

    def learn(self, example: torch.Tensor, label: int) -> None:
        """Take as many steps on the example alone as each network draws."""
        self.grow(label)
        own, other = self.sizes[label], self.sizes[1 - label]
        rate = 1.0
        if own and other and (own > other if self.under else own < other):
            rate = other / own
        examples, target = example[None], torch.tensor([float(label)])
        for model, steps in zip(self.models, self.random.poisson(rate, len(self.models)).tolist(), strict=True):
            for _ in range(steps):
                model.step(examples, target)


class Oob(Bagging):
    """Oversampling-based online bagging with an ensemble."""

    networks = ENSEMBLE


class Uob(Oob):
    """Undersampling-based online bagging with an ensemble."""

    under = True


METHODS: dict[str, Callable[[Stream], Method]] = {
    "areba": Areba,
    "qbr": Qbr,
    "baseline": Method,
    "sliding": Sliding,
    "adaptive_cs": AdaptiveCs,
    "oob": Oob,
    "uob": Uob,
    "oob_single": Bagging,
}


def eager(stream: Stream, method: str) -> Callable[[int, int], int]:
    """Return a function that predicts and learns the examples of a range of indices, and returns their number."""
    model = METHODS[method](stream)
    examples, labels = torch.from_numpy(stream.examples), stream.labels.tolist()

    def run(start: int, stop: int) -> int:
        for k in range(start, stop):
            model.predict(examples[k])
            model.learn(examples[k], labels[k])
        return stop - start

    return run


def names() -> Sequence[str]:
    """Return the names of the methods in the order of the table."""
    return tuple(METHODS)
