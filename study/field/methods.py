"""The rows of the table: learners of the application, River's as learners of the study, and three programs of MOA."""

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.learners.api import Operations
from stream_app.learners.factory import build
from stream_app.producers.datasets.base import DataSet
from stream_app.records import ID_WORDS, Operation
from study import moa
from study.field.thresholds import decisions_of
from study.run.runs import same_seed

CHUNK = 10_000
"""Examples of a call of a learner. No result depends on it."""

HALF_SUFFIX, KAPPA_SUFFIX = "_half", "_kappa"

MOA_TIMEOUT_S = 3_000


class Predicted(NamedTuple):
    """What a method said about n examples, each before it learned the example.

    Attributes:
        classes: int8 `[n]`.
        scores: float32 `[n]`; None: the method only gives classes.
        seconds: CPU time.
    """

    classes: NDArray[np.int8]
    scores: NDArray[np.float32] | None
    seconds: float


class _Answered(NamedTuple):
    classes: NDArray[np.int8]
    scores: NDArray[np.float32]
    seconds: float


Rows = Mapping[str, Predicted]
"""By the name of a row of the table."""

Run = Callable[[DataSet, bytes], Rows]
"""Runs a method on a stream, with weights from 32 bytes. It is pickled for the processes that run it."""


def run_learner(name: str, settings: LearnerSettings, data: DataSet, seed: bytes) -> Rows:
    """Run a learner of the application; return its own classes, and those that its calibrated probability decides.

    Args:
        name: The name of its row.
        settings: The learner's.
        data: The stream.
        seed: 32 bytes.
    """
    own = _run(settings, data, seed)
    decisions = decisions_of(own.scores, data.labels)
    return {
        name: Predicted(own.classes, own.scores, own.seconds),
        name + HALF_SUFFIX: Predicted(decisions.half, decisions.probabilities, own.seconds),
        name + KAPPA_SUFFIX: Predicted(decisions.kappa, decisions.probabilities, own.seconds),
    }


def _run_named(name: str, data: DataSet, seed: bytes) -> Rows:
    return run_learner(name, LEARNERS[name], data, seed)


def run_river(name: str, data: DataSet, seed: bytes) -> Rows:
    """Run a model of River, which is a learner of the study."""
    return {name: Predicted(*_run(RIVER[name], data, seed))}


def _run(settings: LearnerSettings, data: DataSet, seed: bytes) -> _Answered:
    learner = build("learner", settings, data.dimension, seed)
    classes, scores = np.empty(len(data), np.int8), np.empty(len(data), np.float32)
    ids = np.zeros((len(data), ID_WORDS), np.uint64)
    ids[:, 0] = np.arange(len(data))
    seconds = 0.0
    for part, operations in _parts(data.labels):
        start_s = time.process_time()
        answers = learner.run(operations, data.features[part], ids[part])
        seconds += time.process_time() - start_s
        predicts = operations.codes == Operation.PREDICT
        classes[part], scores[part] = answers.labels[predicts], answers.scores[predicts]
    return _Answered(classes, scores, seconds)


def _parts(labels: NDArray[np.int8]) -> Iterator[tuple[slice, Operations]]:
    """Yield parts of a stream with their operations: each example is predicted, and then its label is learned."""
    for first in range(0, len(labels), CHUNK):
        own = labels[first : first + CHUNK]
        codes = np.tile(np.array([Operation.PREDICT, Operation.LEARN], np.uint8), len(own))
        slots = np.repeat(np.arange(len(own), dtype=np.int32), 2)
        classes = np.stack([np.full(len(own), -1, np.int8), own], axis=1).reshape(-1)
        yield slice(first, first + len(own)), Operations(codes, slots, classes)


def run_moa(name: str, line: str, classpath: str, data: DataSet, _seed: bytes) -> Rows:
    """Run a method of MOA, which has its own seed.

    Raises:
        ArebaError: MOA failed, or did not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        arff = Path(folder) / "stream.arff"
        moa.write_arff(data, arff)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = moa.predict(classpath, line, arff, Path(folder), MOA_TIMEOUT_S)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {name: Predicted(moa.read_predictions(output, data.labels), None, seconds)}


def _river(model: str, sampling: str) -> LearnerSettings:
    return LearnerSettings(method=f"study.river_models:{model}", options={"sampling": sampling})


LEARNERS: Mapping[str, LearnerSettings] = {
    "relay": LearnerSettings(method="relay"),
    "areba_20": LearnerSettings(method="areba", budget=20),
    "areba_100_scaled": LearnerSettings(method="areba", budget=100, scaler="standard"),
    "qbr_100_scaled": LearnerSettings(method="qbr", budget=100, scaler="standard"),
    "oob_scaled": LearnerSettings(method="oob", scaler="standard"),
    "uob_scaled": LearnerSettings(method="uob", scaler="standard"),
    "sliding_scaled": LearnerSettings(method="sliding", scaler="standard"),
}
"""The application's learners. Each has two more rows, `_half` and `_kappa`: classes from the calibrated probability."""

RIVER: Mapping[str, LearnerSettings] = {
    "river_lr_over": _river("LogisticRegression", "over"),
    "river_arf_under": _river("AdaptiveRandomForest", "under"),
    "river_arf_over": _river("AdaptiveRandomForest", "over"),
}
"""Slow methods, which run on `SLOW_STREAMS` alone."""

MOA_LINES: Mapping[str, str] = {
    "calmid": "moa.classifiers.active.CALMID",
    "rose": moa.METHODS["rose"],
    "csarf": moa.METHODS["csarf"],
}
"""The survey's command lines; CALMID chooses itself which labels it learns. Slow, too."""

FAST: Mapping[str, Run] = {name: partial(_run_named, name) for name in LEARNERS}
"""What runs on every stream, by name."""


def slow_methods(classpath: str) -> Mapping[str, Run]:
    """Return what runs on the named subset; without a class path, all but MOA's."""
    river = {name: partial(run_river, name) for name in RIVER}
    lines = MOA_LINES if classpath else {}
    return {**river, **{name: partial(run_moa, name, line, classpath) for name, line in lines.items()}}


def own_method(name: str, settings: LearnerSettings) -> Run:
    """Return a method of a user, which is a learner of the application."""
    return partial(_run_own, name, settings.method)


def _run_own(name: str, path: str, data: DataSet, seed: bytes) -> Rows:
    return run_learner(name, LearnerSettings(method=path), data, seed)


def seed_of_method(stream: str, seed: int) -> bytes:
    """Return what the weights are drawn from: equal networks begin alike, whatever the share of positives."""
    return same_seed(f"study-{seed}", stream.rpartition("-")[0], "")
