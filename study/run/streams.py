"""The data of one repetition: features, the labels that are sent, and the clean labels, which decide the scores."""

from dataclasses import replace
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.datasets.base import DataSet
from stream_app.producers.datasets.files import data_dir_from_environment
from stream_app.producers.draws import Draws
from stream_app.producers.synthetic import Drift, Piece, SyntheticSpec, generate, synthetic
from study.run.experiment import Run, StreamChoice
from study.run.preparations import mnist_drawn, prepared

DEFAULT_LENGTH = 5_000
"""The length of the paper's short streams."""

DEFAULT_IMBALANCE = 1.0


def data_seed(run: Run, repetition: int) -> int:
    """Return the seed of a repetition's data."""
    return run.experiment.seed + (0 if run.varies == "weights" else repetition)


def application_id(run: Run, repetition: int) -> str:
    """Return the application id of a repetition; the seed of its learners depends on it and on the stream."""
    return f"study-{run.experiment.seed + (0 if run.varies == 'data' else repetition)}"


def length_of(choice: StreamChoice) -> int | None:
    """Return the number of examples that the file gives; None: as many as the data set has."""
    return choice.length or (DEFAULT_LENGTH if choice.is_synthetic else None)


def source_of(choice: StreamChoice) -> str:
    """Return `synthetic`, or for a data set `published` (from its publisher's files) or `shipped`."""
    if choice.is_synthetic:
        return "synthetic"
    return "shipped" if data_dir_from_environment() is None else "published"


def data_of(run: Run, repetition: int) -> DataSet:
    """Return the data of a repetition.

    Raises:
        DataSetError: A file of a data set is missing or damaged.
    """
    choice = run.experiment.stream
    seed = data_seed(run, repetition)
    if choice.is_generated:
        return generated(choice, seed)
    if choice.is_synthetic:
        return made(choice, seed)
    folder = data_dir_from_environment()
    if choice.source == "mnist" and run.varies != "weights" and folder is not None:
        data = mnist_drawn(choice.scaling, folder, seed)
    else:
        data = prepared(choice.source, choice.scaling, choice.rows, folder)
        if run.varies != "weights":
            order = Draws("study", choice.source, seed).shuffled(len(data))
            data = replace(data, features=data.features[order], labels=data.labels[order])
    return data if choice.length is None else data.prefix(choice.length)


def generated(choice: StreamChoice, seed: int) -> DataSet:
    """Return the stream of a generator: `function(length, p(y=1), seed, options)`."""
    module, _, function = choice.source.partition(":")
    data: DataSet = getattr(import_module(module), function)(
        choice.length or DEFAULT_LENGTH, (choice.imbalance or DEFAULT_IMBALANCE) / 100.0, seed, choice.options
    )
    return data


def made(choice: StreamChoice, seed: int) -> DataSet:
    """Make a synthetic stream, with recurring drift and additional features if the choice asks for them."""
    length = length_of(choice) or DEFAULT_LENGTH
    spec = SyntheticSpec(
        choice.source,
        length,
        choice.imbalance or DEFAULT_IMBALANCE,
        Drift.NONE if choice.drift_every else choice.drift,
        None if choice.drift_every else choice.drift_step,
        choice.noise,
        seed,
    )
    data = synthetic(spec)
    if choice.drift_every:
        data = _swapped(data, spec, choice.resets(length))
    if choice.features > data.dimension:
        data = replace(data, features=_widened(data.features, choice, seed))
    return data


def _swapped(data: DataSet, spec: SyntheticSpec, steps: tuple[int, ...]) -> DataSet:
    """Exchange the regions at each step: every second stretch comes from a stream that has drifted since example 1."""
    drifted = replace(spec, drift=Drift.POSTERIOR, drift_at=1)
    features = data.features.copy()
    for start, end in zip(steps[::2], (*steps[1::2], spec.length), strict=False):
        piece: Piece = generate(drifted, start, end - start)
        features[start:end] = piece.features
    return replace(data, features=features)


def _widened(features: NDArray[np.float32], choice: StreamChoice, seed: int) -> NDArray[np.float32]:
    """Add features of uniform noise on [0, 1) to the two features that matter."""
    count, own = features.shape
    more = choice.features - own
    noise = Draws("study", "wide", choice.source, seed).uniforms(0, count * more).astype(np.float32)
    return np.hstack([features, noise.reshape(count, more)])
