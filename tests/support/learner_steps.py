"""Helpers of the tests of learners: streams, operations, and compiled steps against autograd's, from equal states."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Words
from stream_app.config import LearnerSettings, has_setting
from stream_app.learners.api import Answers, Learner, Operations
from stream_app.learners.factory import build
from stream_app.learners.method import LearningMethod
from stream_app.learners.networks.adam import EPSILON
from stream_app.learners.networks.autograd import AutogradModels, DenseNetwork, compiled_networks
from stream_app.learners.online import OnlineLearner
from stream_app.learners.registry import METHODS, new_method
from stream_app.records import ID_WORDS, Operation

SEED = bytes(range(32))

DECIDED = frozenset({"learning_rate", "l2", "scaler"})
"""Settings that tests give to learners of any method, and that RELAY decides itself."""


class Stream(NamedTuple):
    """Examples float32 `[n, d]` and classes int8 `[n]`, in order."""

    examples: Floats
    labels: NDArray[np.int8]


def stream(count: int, features: int, *, zeros: float = 0.0, positives: float = 0.1) -> Stream:
    """Return a noisy plane; a share of the numbers is zero."""
    random = np.random.default_rng([count, features])
    examples = random.standard_normal((count, features)) * (random.random((count, features)) >= zeros)
    heights = examples @ random.standard_normal(features) + 0.3 * random.standard_normal(count)
    labels = heights > np.quantile(heights, 1 - positives)
    return Stream(examples.astype(np.float32), labels.astype(np.int8))


def operations(entries: Sequence[tuple[int, int, int]]) -> Operations:
    """Return the operations of rows (code, slot, label)."""
    codes, slots, labels = (list(column) for column in zip(*entries, strict=True)) if entries else ([], [], [])
    return Operations(np.array(codes, np.uint8), np.array(slots, np.int32), np.array(labels, np.int8))


def in_turn(labels: NDArray[np.int8], *, reports: bool = False) -> list[tuple[int, int, int]]:
    """Return the rows that predict slot i, learn slot i, and report, one after the other."""
    entries: list[tuple[int, int, int]] = []
    for slot, label in enumerate(labels.tolist()):
        entries += [(Operation.PREDICT, slot, -1), (Operation.LEARN, slot, label)]
        if reports:
            entries.append((Operation.REPORT, -1, -1))
    return entries


def ids(count: int) -> Words:
    """Return distinct ids."""
    words = np.zeros((count, ID_WORDS), np.uint64)
    words[:, 0] = 8
    words[:, 1] = np.arange(count) + 1
    return words


def settings_of(**settings: object) -> LearnerSettings:
    """Return settings, by default of AREBA, without those of `DECIDED` that the method does not have."""
    given = {"method": "areba"} | settings
    method = str(given["method"])
    return LearnerSettings.model_validate(
        {name: value for name, value in given.items() if name not in DECIDED or has_setting(method, name)}
    )


def learner(features: int = 2, seed: bytes = SEED, **settings: object) -> Learner:
    """Return a learner as a configuration creates it, by default AREBA; see `settings_of`."""
    return build("test", settings_of(**settings), features, seed)


def run_in_cuts(which: Learner, entries: Sequence[tuple[int, int, int]], examples: Floats, cut: int) -> Answers:
    """Run the operations, this many per call."""
    answers = [
        which.run(operations(entries[start : start + cut]), examples, ids(len(examples)))
        for start in range(0, len(entries), cut)
    ]
    return Answers(
        np.concatenate([answer.scores for answer in answers]),
        np.concatenate([answer.labels for answer in answers]),
        np.concatenate([answer.versions for answer in answers]),
        np.concatenate([answer.reports for answer in answers]),
    )


def same_state(left: Learner, right: Learner) -> bool:
    """Say whether all arrays are equal, bit for bit."""
    a, b = left.arrays(), right.arrays()
    return list(a) == list(b) and all(a[name].tobytes() == b[name].tobytes() for name in a)


def pair(
    settings: LearnerSettings, features: int, method: LearningMethod | None = None
) -> tuple[OnlineLearner, OnlineLearner]:
    """Return a learner twice: compiled, and with the same networks as modules under autograd.

    Args:
        settings: The learner's.
        features: Numbers in an example.
        method: A form of the method that the settings name; None: as the application has it.
    """
    methods = [new_method(method or METHODS[settings.method], settings, features, SEED) for _ in range(2)]
    networks = [
        [DenseNetwork(features, settings.hidden) for _ in range(method.tables.state.networks)] for method in methods
    ]
    rate, l2, scaled = settings.learning_rate, settings.l2, settings.scaler == "standard"
    compiled = compiled_networks(networks[0], rate, l2, methods[0].examples)
    autograd = AutogradModels(networks[1], features, rate, l2)
    return (
        OnlineLearner(methods[0], compiled, features, scaled=scaled),
        OnlineLearner(methods[1], autograd, features, scaled=scaled),
    )


def single_step_differences(
    examples: Floats,
    labels: NDArray[np.int8],
    learning_rate: float,
    l2: float,
    hidden: tuple[int, ...],
    form: LearningMethod | None = None,
    **settings: object,
) -> dict[str, float]:
    """Walk along a stream, and take each step twice from one state: compiled, and with Torch's autograd.

    Args:
        examples: float32 `[n, d]`.
        labels: int8 `[n]`.
        learning_rate: The learning rate of Adam.
        l2: The weight of the L2 penalty.
        hidden: Units of the hidden layers.
        form: A form of the method, see `pair`.
        settings: Further settings of the learner, by default AREBA with a budget of 20.

    Returns:
        The largest difference of all steps. Of `parameters` and both moments it is a share of the array's largest
        magnitude in that step; of `scores` of the largest score of the stream. In its first step Adam divides each
        gradient by its own magnitude plus eps: a gradient below 100 eps leaves only rounding, so it is not compared.
        `method` counts the arrays of the method itself that differ in any bit.
    """
    count, features = examples.shape
    numbers = {"method": "areba", "learning_rate": learning_rate, "l2": l2, "hidden": hidden}
    fast, slow = pair(settings_of(**(numbers | settings)), features, form)
    worst = dict.fromkeys(("parameters", "first_moments", "second_moments", "method"), 0.0)
    scores = np.zeros((2, count))
    words = ids(1)
    for k in range(count):
        before = fast.arrays()
        slow.load(before)
        step = operations([(Operation.PREDICT, 0, -1), (Operation.LEARN, 0, int(labels[k]))])
        one = np.ascontiguousarray(examples[k : k + 1])
        scores[:, k] = fast.run(step, one, words).scores[0], slow.run(step, one, words).scores[0]
        ours, theirs = fast.arrays(), slow.arrays()
        fresh = np.repeat(before["updates"] == 0, len(ours["parameters"]) // len(before["updates"]))
        tiny = fresh & (np.abs(theirs["first_moments"]) < 0.1 * 100 * EPSILON)
        for name in ("parameters", "first_moments", "second_moments"):
            difference = np.abs(ours[name].astype(np.float64) - theirs[name].astype(np.float64))
            if name == "parameters":
                difference[tiny] = 0.0
            worst[name] = max(worst[name], float(difference.max()) / float(np.abs(theirs[name]).max() or 1.0))
        own = [name for name in ours if name not in worst and name != "beta_powers"]
        worst["method"] += sum(ours[name].tobytes() != theirs[name].tobytes() for name in own)
    return worst | {"scores": float(np.abs(scores[0] - scores[1]).max() / scores[1].max())}
