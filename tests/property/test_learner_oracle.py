"""The engine's learners against plain Python written from the paper (tests/learner_oracle.py), over complete runs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.config import Corrections, JoinSettings, LearnerSettings, StreamSettings, TaskSettings
from stream_app.learners.networks.autograd import AutogradModel, DenseNetwork, flatten
from stream_app.learners.networks.dense import Training, new_training
from stream_app.learners.online import OnlineLearner
from stream_app.learners.registry import METHODS, new_method
from stream_app.pipeline.task import Task
from stream_app.records import Operation, Side
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import ExpectedOutcome, Predicted, Record
from tests.learner_oracle import Kept, Network, Queues
from tests.oracle_checks import SecondOpinion, rows_of
from tests.support.formats.ids import unpack_id
from tests.support.learner_steps import SEED, ids, in_turn, learner, operations, stream
from tests.support.rows import columns
from tests.support.tasks import PARTITION, SMALL, TOPICS, fixed_input

# isort: split
import torch  # after stream_app, which sets the number of its threads


class Inputs(NamedTuple):
    """The inputs of one task."""

    settings: TaskSettings
    examples: list[Record]
    labels: list[Record]


LEARNERS = {
    "a2": LearnerSettings(method="areba", budget=2, hidden=(2,)),
    "a6": LearnerSettings(method="areba", budget=6, theta=0.2, hidden=(2,)),
    "a20": LearnerSettings(method="areba", budget=20, hidden=(2,)),
    "q2": LearnerSettings(method="qbr", budget=2, hidden=(2,)),
    "q20": LearnerSettings(method="qbr", budget=20, hidden=(2,)),
}


KEPT = ("negative_ids", "negative_examples", "positive_ids", "positive_examples")


def settings_with(learners: dict[str, LearnerSettings], join: JoinSettings, count: int) -> Inputs:
    """Return the input that reaches every kind of output, with these learners on both of its streams."""
    chosen, examples, labels = fixed_input(count, join=join)
    streams = StreamSettings(features=2, champion=next(iter(learners)), learners=learners)
    update = {"streams": {"a": streams, "b": streams}, "default_stream": streams}
    return Inputs(chosen.model_copy(update=update), examples, labels)


@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_memories_over_whole_runs(corrections: Corrections) -> None:
    """Queues, capacities, sizes and counts agree in each metric, and at the end the order of the stored examples."""
    roomy = {"corrections": corrections, "max_closed_per_stream": 200, "ttl_ms": 200}
    chosen, examples, labels = settings_with(LEARNERS, SMALL.model_copy(update=roomy), 2_000)
    task, opinion = Task(PARTITION, chosen, TOPICS), SecondOpinion(chosen, TOPICS, PARTITION)
    outputs = task.step(columns(examples), columns(labels))
    opinion.check(examples, labels, {name: list(rows_of(records)) for name, records in outputs.topics.items()})
    memories = {memory for memory in opinion.oracle.memories if memory is not None}
    assert len(memories) > 200
    assert max(memory.positive_queue for memory in memories) == 10
    for (name, which), queues in opinion.oracle.learners.items():
        arrays = {key: task.arrays()[f"{name}/{which}/{key}"] for key in KEPT}
        for own, queue in zip(("negative", "positive"), queues.of, strict=True):
            kept = zip(arrays[f"{own}_ids"], arrays[f"{own}_examples"].tolist(), strict=True)
            assert [Kept(unpack_id(words), tuple(row)) for words, row in kept] == queue.examples


def network_of(arrays: Mapping[str, NDArray[np.generic]], widths: tuple[int, ...], prefix: str = "") -> Network:
    """Return the engine's network in its current state, in double precision."""
    network = Network(widths, arrays[f"{prefix}parameters"].tolist(), 0.01)
    network.first, network.second = (arrays[f"{prefix}{name}_moments"].tolist() for name in ("first", "second"))
    network.updates = int(arrays[f"{prefix}updates"][0])
    return network


def test_scores_of_a_task() -> None:
    """Each published score equals a step in double precision from the kernel's state before the label."""
    chosen, examples, labels = settings_with({"a": LearnerSettings(method="areba")}, SMALL, 700)
    task, opinion = Task(PARTITION, chosen, TOPICS), SecondOpinion(chosen, TOPICS, PARTITION)
    networks: dict[str, Network] = {}
    steps, differences = 0, []
    for record in merge(examples, labels):
        before, batch = task.arrays(), ([record], []) if record.side is Side.EXAMPLES else ([], [record])
        outputs = task.step(columns(batch[0]), columns(batch[1]))
        rows = {name: list(rows_of(records)) for name, records in outputs.topics.items()}
        for event in opinion.check(*batch, rows):
            if isinstance(event, Predicted) and event.stream in networks:
                score = networks[event.stream].score(opinion.oracle.features[event.stream, event.id])
                differences.append(abs(score - opinion.predictions[event.offset, "a"].score))
            elif (
                isinstance(event, ExpectedOutcome)
                and event.outcome == "joined"
                and f"{event.stream}/a/updates" in before
            ):
                networks[event.stream] = network_of(before, (2, 8, 1), f"{event.stream}/a/")
                networks[event.stream].train(opinion.oracle.learners[event.stream, "a"].training_set())
                steps += 1
    assert steps > 200
    assert len(differences) > 300
    assert max(differences) < 1e-5


@pytest.mark.parametrize(("hidden", "features"), [((8,), 30), ((6, 17), 3)], ids=str)
def test_scores_of_other_networks(hidden: tuple[int, ...], features: int) -> None:
    """The same for more inputs, and for the kernel's path for any layers."""
    examples, labels = stream(300, features)
    areba, queues, widths = learner(features, hidden=hidden), Queues("areba", 20), (features, *hidden, 1)
    network, differences = network_of(areba.arrays(), widths), []
    for number, label in enumerate(labels.tolist()):
        row, words = examples[number : number + 1], ids(number + 1)[-1:]
        score = float(areba.run(operations([(Operation.PREDICT, 0, -1)]), row, words).scores[0])
        differences.append(abs(network.score(row[0].tolist()) - score))
        network = network_of(areba.arrays(), widths)
        queues.learn(Kept(str(number), tuple(row[0].tolist())), label)
        network.train(queues.training_set())
        areba.run(operations([(Operation.LEARN, 0, label)]), row, words)
    assert max(differences) < 1e-5


class DoubleNetwork(DenseNetwork):
    """The paper's network in double precision, inputs included."""

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits `[n]`."""
        weights, biases, outgoing, bias = self.layers
        hidden = torch.nn.functional.leaky_relu(examples @ weights + biases, 0.01)
        logits: torch.Tensor = (hidden @ outgoing + bias).squeeze(1)
        return logits


class DoubleModels:
    """The engine's step with autograd in double precision: the network of one method; records the scores."""

    def __init__(self, features: int, learning_rate: float) -> None:
        module, single = DoubleNetwork(features), new_training(1, 0)
        size = len(module.flat)
        doubles: list[Any] = [np.zeros(size) for _ in range(3)]  # the engine's own are float32
        self.training = Training(doubles[0], doubles[1], doubles[2], single.powers, single.updates)
        flatten(module.parameters(), torch.from_numpy(self.training.parameters))
        self.models = [AutogradModel(module, features, learning_rate, 0.0, self.training)]
        self.scores: list[float] = []

    @property
    def refused(self) -> int:
        """The steps that were not taken."""
        return self.models[0].refused

    def predict(self, example: Floats) -> Floats:
        """Return the probability of class 1; record it before the engine rounds it."""
        with torch.inference_mode():
            logit = self.models[0].module(torch.from_numpy(example[None].astype(np.float64)))
        self.scores.append(float(torch.sigmoid(logit)))
        return np.array(self.scores[-1:], np.float32)

    def learn(self, examples: Floats, targets: Floats, weight: float, steps: Longs) -> None:
        """Take one step."""
        assert steps.tolist() == [1]
        self.models[0].learn(examples.astype(np.float64), targets.astype(np.float64), weight)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return the state as views."""
        return self.training.arrays()


def test_a_whole_run_in_double_precision() -> None:
    """With 300 labels, d = 2, rate 0.01 and free-running weights, two correct programs give equal numbers.

    In single precision, the only one of the kernel, rounding errors grow until the numbers differ. So this test runs
    the engine with autograd instead of the kernel: its queues, batches, loss and Adam.
    `tests/unit/learners/test_network.py` compares the kernel with autograd, step by step.
    """
    examples, labels = stream(300, 2)
    models = DoubleModels(2, 0.01)
    network = Network((2, 8, 1), models.training.parameters.tolist(), 0.01)
    queues, settings = Queues("areba", 20), LearnerSettings(method="areba")
    areba = OnlineLearner(new_method(METHODS["areba"], settings, 2, SEED), models, 2, scaled=False)
    scores = []
    for number, label in enumerate(labels.tolist()):
        features = tuple(examples[number].tolist())
        scores.append(network.score(features))
        queues.learn(Kept(str(number), features), label)
        network.train(queues.training_set())
    areba.run(operations(in_turn(labels)), examples, ids(300))
    assert np.ptp(scores) > 0.9, "it has learned"
    assert np.abs(np.array(scores) - models.scores).max() < 1e-9
    assert np.abs(network.parameters - models.training.parameters).max() < 1e-9
    assert models.training.updates.tolist() == [300]
