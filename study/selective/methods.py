"""The methods that are compared: those of the application, and two that were made for such labels."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.learners.api import Learner, Operations
from stream_app.learners.factory import build
from stream_app.producers.datasets.base import DataSet
from stream_app.records import ID_WORDS, Operation
from study.run.runs import same_seed
from study.selective.fake_negatives import FakeNegatives
from study.selective.world import Method, Steps

MakeMethod = Callable[[DataSet, bytes], Method]
"""Makes a new method for a stream from a seed of 32 bytes."""


class OneLearner:
    """A learner of the application, or one of your own (docs/own_learner.md); it learns every label.

    Args:
        settings: The learner's.
        data: The stream; its labels are not read.
        seed: 32 bytes.
    """

    def __init__(self, settings: LearnerSettings, data: DataSet, seed: bytes) -> None:
        self._features = data.features
        self._ids = _ids(len(data))
        self._learner = build("learner", settings, data.dimension, seed)

    def run(self, steps: Steps) -> NDArray[np.int8]:
        """Do the steps; see `Method`."""
        labels: NDArray[np.int8] = self._learner.run(steps.operations, self._features, self._ids).labels
        return labels[steps.predicts]


class _Member:
    """A learner of a pair, and how many labels it has learned."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._labels = 0

    def run(
        self, steps: Steps, own: NDArray[np.bool_], features: NDArray[np.float32], ids: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Learn the labels that are its own; return its scores, and whether it had learned anything before each."""
        operations, predicts = steps.operations, steps.predicts
        kept = predicts | own
        part = Operations(operations.codes[kept], operations.slots[kept], operations.labels[kept])
        scores = self._learner.run(part, features, ids).scores[part.codes == Operation.PREDICT]
        labels = self._labels + np.cumsum(own)
        self._labels = int(labels[-1])
        return scores, labels[predicts] > 0


class ChecksAndLate:
    """One learner of the labels that checks show, and one of all other labels; their scores are averaged.

    So do Dal Pozzolo, Boracchi, Caelen, Alippi and Bontempi (*Credit card fraud detection: a realistic modeling and a
    novel learning strategy*, TNNLS 2018): alerts are checked at once and differ from the other examples, so that
    learning both together drowns the few checks. A learner without a label is left out of the mean.

    Args:
        settings: Of both learners.
        data: The stream; its labels are not read.
        seed: 32 bytes; both learners begin with the same weights.
    """

    def __init__(self, settings: LearnerSettings, data: DataSet, seed: bytes) -> None:
        self._features = data.features
        self._ids = _ids(len(data))
        self._members = [_Member(build("learner", settings, data.dimension, seed)) for _ in range(2)]

    def run(self, steps: Steps) -> NDArray[np.int8]:
        """Do the steps; see `Method`."""
        others = ~steps.checked & ~steps.predicts
        found = [
            member.run(steps, own, self._features, self._ids)
            for member, own in zip(self._members, (steps.checked, others), strict=True)
        ]
        scores = np.array([own for own, _ in found], np.float64)
        learned = np.array([own for _, own in found])
        learned |= ~learned.any(axis=0)  # before the first label, both count
        mean = (scores * learned).sum(axis=0) / learned.sum(axis=0)
        classes: NDArray[np.int8] = (mean > 0.5).astype(np.int8)
        return classes


def _ids(count: int) -> NDArray[np.uint64]:
    ids = np.zeros((count, ID_WORDS), np.uint64)
    ids[:, 0] = np.arange(count)
    return ids


AREBA_20 = LearnerSettings(method="areba", budget=20)
RELAY = LearnerSettings(method="relay")

METHODS: Mapping[str, MakeMethod] = {
    "areba_20": partial(OneLearner, AREBA_20),
    "areba_100_scaled": partial(OneLearner, LearnerSettings(method="areba", budget=100, scaler="standard")),
    "qbr_100": partial(OneLearner, LearnerSettings(method="qbr", budget=100)),
    "oob": partial(OneLearner, LearnerSettings(method="oob")),
    "uob": partial(OneLearner, LearnerSettings(method="uob")),
    "relay": partial(OneLearner, RELAY),
    "relay_2000": partial(OneLearner, RELAY.model_copy(update={"replay_per_class": 2_000})),
    "baseline": partial(OneLearner, LearnerSettings(method="baseline")),
    "pair_areba_20": partial(ChecksAndLate, AREBA_20),
    "pair_relay": partial(ChecksAndLate, RELAY),
    "fnw": partial(FakeNegatives, False),
    "fnw_share": partial(FakeNegatives, True),
}
"""By name, with the settings of the study: the learners of the application, pairs of them, and fake negatives."""


def own_method(_name: str, settings: LearnerSettings) -> MakeMethod:
    """Return a method of a user, which is a learner of the application."""
    return partial(OneLearner, settings)


def seed_of_method(stream: str, seed: int) -> bytes:
    """Return what a method's weights are drawn from: that of the study, so that equal networks begin alike."""
    return same_seed(f"study-{seed}", stream.partition("-")[0], "")
