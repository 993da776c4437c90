"""Baseline: one step on each labelled example alone, with no memory and nothing against imbalance or drift."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app import kernels
from stream_app.lanes import address
from stream_app.learners.base import LEARN, PREDICT, REPORT_WIDTH
from stream_app.learners.online import Batch, Scaler, State, opened, see
from stream_app.native import compiled
from stream_app.records import Floats, Longs


class Memory(NamedTuple):
    """Scratch for compiled code: where the one example begins, and its class."""

    start: Longs
    target: Floats


@compiled
def _run(batch: Batch, scaler: Scaler, network: kernels.Network, memory: Memory) -> None:
    codes, scores, versions, reports = batch.codes, batch.scores, batch.versions, address(batch.reports)
    desk, core = opened(batch, scaler), kernels.opened(network)
    starts, targets = address(memory.start), address(memory.target)
    reported = kernels.ORIGIN
    for k in range(len(codes)):
        slot = desk.slots[k]
        versions[k] = core.updates[0]
        if codes[k] == PREDICT:
            see(desk, slot)
            scores[k] = kernels.predict(core, desk.seen, slot * desk.width)
        elif codes[k] == LEARN:
            starts[0] = slot * desk.width
            targets[0] = np.float32(desk.labels[k])
            kernels.learn(core, desk.seen, starts, targets, kernels.SINGLE)
        else:
            reports[reported] = core.updates[0]
            reported += REPORT_WIDTH


class Baseline:
    """The method; it has no state of its own."""

    batch_rows = 1

    def __init__(self) -> None:
        self._memory = Memory(np.zeros(1, np.int64), np.zeros(kernels.WIDTH, np.float32))

    def run(self, batch: Batch, scaler: Scaler, network: kernels.Network) -> None:
        """See `online.Method`."""
        _run(batch, scaler, network, self._memory)

    def admit(self, batch: Batch, scaler: Scaler, operation: int) -> tuple[Floats, Floats]:  # noqa: ARG002  (the protocol's argument)
        """See `online.Method`."""
        start = int(batch.slots[operation]) * batch.width
        return batch.seen[None, start : start + batch.width].copy(), batch.labels[operation : operation + 1].astype(
            np.float32
        )

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
