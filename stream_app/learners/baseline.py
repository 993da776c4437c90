"""Baseline: one step on each labelled example alone, with no memory and nothing against imbalance or drift."""

import numpy as np
from numpy.typing import NDArray

from stream_app import kernels
from stream_app.learners.base import LEARN, PREDICT
from stream_app.learners.online import Batch, Scaler, State, see
from stream_app.native import compiled
from stream_app.records import Floats


@compiled
def _run(batch: Batch, scaler: Scaler, network: kernels.Network) -> None:
    starts = np.zeros(1, np.int64)
    targets = np.zeros(kernels.WIDTH, np.float32)
    reported = 0
    for k in range(len(batch.codes)):
        code, slot = batch.codes[k], batch.slots[k]
        batch.versions[k] = network.updates[0]
        if code == PREDICT:
            see(batch, scaler, slot)
            batch.scores[k] = kernels.predict(network, batch.seen, slot * batch.width)
        elif code == LEARN:
            starts[0] = slot * batch.width
            targets[0] = batch.labels[k]
            kernels.learn(network, batch.seen, starts, targets, 1)
        else:
            batch.reports[reported, 0] = network.updates[0]
            reported += 1


class Baseline:
    """The method; it has no state of its own."""

    batch_rows = 1

    def run(self, batch: Batch, scaler: Scaler, network: kernels.Network) -> None:
        """See `online.Method`."""
        _run(batch, scaler, network)

    def admit(self, batch: Batch, operation: int) -> tuple[Floats, Floats]:
        """See `online.Method`."""
        start = int(batch.slots[operation]) * batch.width
        return batch.seen[None, start : start + batch.width].copy(), batch.labels[operation : operation + 1].astype(np.float32)

    def report(self, row: NDArray[np.float64]) -> None:
        """Nothing but updates, which the caller fills in."""

    def arrays(self) -> State:
        """Nothing."""
        return {}

    def fits(self, arrays: State) -> bool:  # noqa: ARG002  (the protocol's argument)
        """Always."""
        return True

    def load(self, arrays: State) -> None:
        """Nothing."""
