"""How well each method holds up with outliers: writes `study/outliers.md`.

    python -m study.outliers            # seconds

The stream has two standard normal features, of which the first decides: positive above 1.3 (10 %), after a drift at
example 2,000 below -1.3. Each label comes right after its example. An outlier replaces one feature of an example; its
label stays that of the true value. G-mean has the fading factor 0.999.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import LearnerSettings
from stream_app.learners.api import Operations
from stream_app.learners.factory import build
from stream_app.records import ID_WORDS, Operation
from study.cli import run_without_options

LENGTH, DRIFT, OUTLIER_AT = 6_000, 2_000, 1_000
SEEDS = 5
FADING = 0.999
PAGE = Path(__file__).parent / "outliers.md"

METHODS = ("areba", "qbr", "sliding", "baseline", "adaptive_cs", "oob", "uob")
LEARNERS: Sequence[LearnerSettings] = (
    LearnerSettings(method="relay"),
    *(LearnerSettings.model_validate({"method": name, "scaler": "standard"}) for name in METHODS),
    *(LearnerSettings.model_validate({"method": name}) for name in METHODS),
)


class Fault(NamedTuple):
    """What is wrong with the features.

    Attributes:
        name: Of the column.
        size: The outlier.
        share: The share of values that are outliers; 0: one value, at `OUTLIER_AT`.
        at: The example of the only outlier.
    """

    name: str
    size: float = 0.0
    share: float = 0.0
    at: int = OUTLIER_AT


FAULTS: Sequence[Fault] = (
    Fault("none"),
    *(Fault(f"one {size:g}", size) for size in (9999.0, 1e10, 3.4e38)),
    Fault("first is 1e10", 1e10, at=0),
    *(Fault(f"{share:.0%} {size:g}", size, share) for share in (0.01, 0.02) for size in (1e2, 1e4, 1e10)),
)


def stream(fault: Fault, seed: int) -> tuple[Floats, NDArray[np.int8]]:
    """Return features float32 `[n, 2]` and labels int8 `[n]`."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(LENGTH, 2)).astype(np.float32)
    labels = features[:, 0] > 1.3
    labels[DRIFT:] = features[DRIFT:, 0] < -1.3
    if fault.share:
        features[random.random((LENGTH, 2)) < fault.share] = fault.size
    elif fault.size:
        features[fault.at, 0] = fault.size
    return features, labels.astype(np.int8)


def gmean(settings: LearnerSettings, fault: Fault, seed: int) -> float:
    """Return the G-mean at the end of a stream.

    Raises:
        ValueError: A score is not between 0 and 1.
    """
    features, labels = stream(fault, seed)
    learner = build("learner", settings, 2, bytes([seed]) * 32)
    codes = np.tile(np.array([Operation.PREDICT, Operation.LEARN], np.uint8), LENGTH)
    classes = np.column_stack([np.full(LENGTH, -1, np.int8), labels]).reshape(-1)
    operations = Operations(codes, np.repeat(np.arange(LENGTH, dtype=np.int32), 2), classes)
    answers = learner.run(operations, features, np.zeros((LENGTH, ID_WORDS), np.uint64))
    if not ((answers.scores[::2] >= 0) & (answers.scores[::2] <= 1)).all():
        raise ValueError(f"{settings.method}, {fault.name}: a score is not between 0 and 1")
    weights = FADING ** np.arange(LENGTH - 1, -1, -1)
    right = (answers.labels[::2] == labels) * weights
    recalls = [right[labels == label].sum() / weights[labels == label].sum() for label in (0, 1)]
    return float(np.sqrt(recalls[0] * recalls[1]))


def mean_gmean(settings: LearnerSettings, fault: Fault) -> float:
    """Return the mean over the seeds."""
    return float(np.mean([gmean(settings, fault, seed) for seed in range(1, SEEDS + 1)]))


def table() -> Sequence[str]:
    """Return the lines of the table."""
    lines = [
        f"| method | scaler | {' | '.join(fault.name for fault in FAULTS)} |",
        f"| --- | --- |{' --- |' * len(FAULTS)}",
    ]
    for settings in LEARNERS:
        figures = " | ".join(f"{mean_gmean(settings, fault):.2f}" for fault in FAULTS)
        scaler = "its own" if settings.method == "relay" else settings.scaler
        lines.append(f"| {settings.method} | {scaler} | {figures} |")
    return lines


def main() -> None:
    """Replace the table of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index("| method |")], text[text.index("\n\n", text.index("| method |")) :]
    PAGE.write_text(before + "\n".join(table()) + after, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_without_options(__doc__, main, "study/outliers.md has the table"))
