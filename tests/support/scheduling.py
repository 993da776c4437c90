"""The order in which pytest-xdist runs the tests: the longest first, Kafka tests in parallel with tests that compute.

A test on a real Kafka waits for brokers and worker processes most of the time, while most other tests compute all the
time. Two queues keep the processors busy without making every Kafka test compete with several computing tests: one
worker of pytest-xdist starts with the tests that compute, the others with the Kafka tests. A worker whose queue is
empty takes from the other queue.
"""

from collections.abc import Mapping

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

COMPUTING_WORKERS = 1
"""Workers of pytest-xdist that start with tests that compute. The Kafka tests keep the other core of two busy."""

SLOW_S = 10.0
"""The assumed duration of a test that is marked `slow` without a number of seconds."""


def expected_s(item: pytest.Item) -> float:
    """Return how long a test may take: the seconds of its mark `slow`, or 0."""
    mark = item.get_closest_marker("slow")
    if mark is None:
        return 0.0
    return float(mark.args[0]) if mark.args else SLOW_S


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests in place, the longest first; tests of one group stay together, at the place of their sum."""
    sums: dict[str, float] = {}
    for item in items:
        sums[_unit(item)] = sums.get(_unit(item), 0.0) + expected_s(item)
    items.sort(key=lambda item: -sums[_unit(item)])


def _unit(item: pytest.Item) -> str:
    """Return the unit of tests that run in one worker, one after the other: their group, or the test."""
    mark = item.get_closest_marker("xdist_group")
    return item.nodeid if mark is None else f"@{mark.args[0]}"


def needs_kafka(node_id: str) -> bool:
    """Say whether a test, given by its node id, runs on a real Kafka."""
    return node_id.startswith("tests/kafka/") or "[kafka" in node_id


class LongestFirst(LoadGroupScheduling):  # type: ignore[misc]  # pytest-xdist publishes no types
    """A scheduler that keeps the order of the tests and binds at most one test in advance to a worker.

    The schedulers of pytest-xdist bind up to three tests in advance. A test of a minute that is bound after a test of
    five minutes would then wait although other workers have nothing to do.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the first unit of its queue, or of the other queue if its own is empty.

        A worker that has just begun its first unit, one of the longest, gets the last unit of its queue: what is bound
        to it must wait for that long unit.
        """
        computes = self.nodes.index(node) < COMPUTING_WORKERS
        assigned = self.assigned_work[node]
        has_begun = bool(assigned) and not any(any(unit.values()) for unit in assigned.values())
        scopes = [scope for scope, unit in self.workqueue.items() if _is_of_kafka(unit) != computes]
        if scopes:
            self.workqueue.move_to_end(scopes[-1 if has_begun else 0], last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker one more unit when it has at most one test left, which it cannot begin before."""
        if node.shutting_down:
            return
        if not self.workqueue:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)


def _is_of_kafka(unit: Mapping[str, bool]) -> bool:
    """Say whether the tests of a unit run on a real Kafka."""
    return any(map(needs_kafka, unit))
