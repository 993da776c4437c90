"""AREBA: adaptive rebalancing (Malialis, Panayiotou, Polycarpou 2020, algorithm 2), followed to the letter.

Each class has a queue of its most recently labelled examples. On a label, in this order: both class sizes decay and
that of its class grows; the example enters its queue, from which the oldest leaves if it was full; the capacities
adapt, and a lower one drops the oldest at once; the network takes one step on all that both queues hold.

What this means where one might not expect it (B is the budget):

- While one class has never been seen, the other's capacity grows by one a label, up to B. A queue that has held an
  example is never empty again, so this does not come back.
- The first example of a missing minority makes the capacities 2 (its own) and 1: the majority falls from up to B
  examples to its newest. From there both grow each time the minority's queue is full, the majority one behind, until
  the minority has B / 2; one more example of the minority gives the majority B / 2 too.
- Only the minority's queue decides, and it must be full. A class that stays away keeps its examples, however old; as
  long as it is the minority and its queue is not full, nothing adapts.
- Of equal sizes, the negative class is the minority. When the minority changes, nothing adapts until the new one's
  queue is full. If its capacity is below B / 2 then, it grows by one and the other is set one below it, even where
  that is less than it had.
- Strictly alternating classes keep one example each, whatever B: a second one enters, but now the other class is the
  minority with a full queue, and grows to 2 at the price of this one's falling to 1.
- A capacity above B / 2 stays while its class is the minority. With B = 2 and the classes n, p, p, p, n the queues
  hold three examples. No queue holds more than B, both together at most B + 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app import kernels
from stream_app.lanes import Address, address
from stream_app.learners.base import LEARN, PREDICT, REPORT_WIDTH
from stream_app.learners.online import Batch, Desk, Scaler, State, opened, see
from stream_app.native import compiled
from stream_app.records import ID_WORDS, Floats, Longs, Words

NEGATIVE, POSITIVE = 0, 1


class Memory(NamedTuple):
    """Both queues; where an array has two elements, the first is the negative class's.

    Attributes:
        budget: B.
        theta: Decay of the class sizes.
        width: Numbers in an example.
        sizes: float64 `[2]`, the decayed class sizes s_n and s_p.
        capacities: int64 `[2]`.
        lengths: int64 `[2]`, examples held.
        firsts: int64 `[2]`, the oldest example's place in its ring of B rows.
        examples: float32 `[2 * B * width]`, the ring of negatives, then that of positives.
        ids: uint64 `[2 * B, ID_WORDS]`, the same rows.
        starts: int64 `[2 * B]`, scratch: where the rows to learn from begin in `examples`.
        targets: float32, scratch: their classes.
    """

    budget: int
    theta: float
    width: int
    sizes: NDArray[np.float64]
    capacities: Longs
    lengths: Longs
    firsts: Longs
    examples: Floats
    ids: Words
    starts: Longs
    targets: Floats


class Queues(NamedTuple):
    """A `Memory` opened inside compiled code: addresses of its arrays."""

    budget: int
    theta: float
    width: int
    sizes: Address
    capacities: Address
    lengths: Address
    firsts: Address
    examples: Address
    ids: Address
    starts: Address
    targets: Address


@compiled
def _opened(memory: Memory) -> Queues:
    return Queues(
        memory.budget,
        memory.theta,
        memory.width,
        address(memory.sizes),
        address(memory.capacities),
        address(memory.lengths),
        address(memory.firsts),
        address(memory.examples),
        address(memory.ids),
        address(memory.starts),
        address(memory.targets),
    )


@compiled
def _wrapped(place: int, budget: int) -> int:
    """A place in a ring; a division would take longer than the rest of a small step."""
    return place - budget if place >= budget else place


@compiled
def _append(memory: Queues, desk: Desk, slot: int, label: int) -> None:
    """Behind the newest of its class; in a full ring that place is the oldest's."""
    budget = memory.budget
    if memory.lengths[label] == memory.capacities[label]:
        _drop_oldest(memory, label)
    row = label * budget + _wrapped(memory.firsts[label] + memory.lengths[label], budget)
    for i in range(memory.width):
        memory.examples[row * memory.width + i] = desk.seen[slot * memory.width + i]
    for word in range(ID_WORDS):
        memory.ids[row * ID_WORDS + word] = desk.ids[slot * ID_WORDS + word]
    memory.lengths[label] += 1


@compiled
def _drop_oldest(memory: Queues, label: int) -> None:
    memory.firsts[label] = _wrapped(memory.firsts[label] + 1, memory.budget)
    memory.lengths[label] -= 1


@compiled
def _set_capacity(memory: Queues, label: int, capacity: int) -> None:
    memory.capacities[label] = capacity
    while memory.lengths[label] > capacity:
        _drop_oldest(memory, label)


@compiled
def _adapt(memory: Queues) -> None:
    """Lines 19 to 45 of the algorithm."""
    lengths, capacities = memory.lengths, memory.capacities
    if lengths[NEGATIVE] == 0 or lengths[POSITIVE] == 0:
        present = NEGATIVE if lengths[POSITIVE] == 0 else POSITIVE
        if capacities[present] < memory.budget:
            _set_capacity(memory, present, capacities[present] + 1)
        return
    minority = POSITIVE if memory.sizes[NEGATIVE] > memory.sizes[POSITIVE] else NEGATIVE
    majority = 1 - minority
    if lengths[minority] < capacities[minority]:
        return
    half = memory.budget // 2
    if capacities[minority] < half:
        _set_capacity(memory, minority, capacities[minority] + 1)
        _set_capacity(memory, majority, capacities[minority] - 1)
    elif capacities[minority] == half:
        _set_capacity(memory, majority, capacities[minority])


@compiled
def admit(memory: Queues, desk: Desk, slot: int, label: int) -> int:
    """Lines 13 to 45: take a labelled example in; how many there are to learn from (`starts`, `targets`)."""
    for k in range(2):
        memory.sizes[k] = memory.theta * memory.sizes[k] + (1.0 - memory.theta if k == label else 0.0)
    _append(memory, desk, slot, label)
    _adapt(memory)
    count = 0
    for k in (POSITIVE, NEGATIVE):
        for age in range(memory.lengths[k]):
            row = k * memory.budget + _wrapped(memory.firsts[k] + age, memory.budget)
            memory.starts[count] = row * memory.width
            memory.targets[count] = k
            count += 1
    return count


@compiled
def _report(memory: Queues, reports: Address, at: int) -> None:
    for k in (POSITIVE, NEGATIVE):
        reports[at + 2 - k] = memory.sizes[k]
        reports[at + 4 - k] = memory.lengths[k]
        reports[at + 6 - k] = memory.capacities[k]


@compiled
def _run(batch: Batch, scaler: Scaler, network: kernels.Network, memory: Memory) -> None:
    codes, scores, versions, reports = batch.codes, batch.scores, batch.versions, address(batch.reports)
    desk, core, queues = opened(batch, scaler), kernels.opened(network), _opened(memory)
    reported = kernels.ORIGIN
    for k in range(len(codes)):
        slot = desk.slots[k]
        versions[k] = core.updates[0]
        if codes[k] == PREDICT:
            see(desk, slot)
            scores[k] = kernels.predict(core, desk.seen, slot * desk.width)
        elif codes[k] == LEARN:
            count = admit(queues, desk, slot, desk.labels[k])
            kernels.learn(core, queues.examples, queues.starts, queues.targets, count)
        else:
            reports[reported] = core.updates[0]
            _report(queues, reports, reported)
            reported += REPORT_WIDTH


@compiled
def _admit_slot(memory: Memory, batch: Batch, scaler: Scaler, slot: int, label: int) -> int:
    return admit(_opened(memory), opened(batch, scaler), slot, label)


@compiled
def _report_row(memory: Memory, row: NDArray[np.float64]) -> None:
    _report(_opened(memory), address(row), kernels.ORIGIN)


class Areba:
    """The method's state. Capacities are those of the pseudocode, so `batch_rows` is 2 B.

    Args:
        budget: B, even and at least 2.
        theta: Decay of the class sizes, between 0 and 1.
        features: Numbers in an example.
    """

    def __init__(self, budget: int, theta: float, features: int) -> None:
        if budget < 2 or budget % 2:
            raise ValueError(f"AREBA's budget is even and at least 2, not {budget}")
        rows = 2 * budget
        self.batch_rows = rows
        self._memory = Memory(
            budget=budget,
            theta=theta,
            width=features,
            sizes=np.zeros(2),
            capacities=np.ones(2, np.int64),
            lengths=np.zeros(2, np.int64),
            firsts=np.zeros(2, np.int64),
            examples=np.zeros(rows * features, np.float32),
            ids=np.zeros((rows, ID_WORDS), np.uint64),
            starts=np.zeros(rows, np.int64),
            targets=np.zeros(-(-rows // kernels.WIDTH) * kernels.WIDTH, np.float32),
        )

    def run(self, batch: Batch, scaler: Scaler, network: kernels.Network) -> None:
        """See `online.Method`."""
        _run(batch, scaler, network, self._memory)

    def admit(self, batch: Batch, scaler: Scaler, operation: int) -> tuple[Floats, Floats]:
        """See `online.Method`."""
        memory = self._memory
        count = _admit_slot(memory, batch, scaler, batch.slots[operation], batch.labels[operation])
        return memory.examples.reshape(-1, memory.width)[memory.starts[:count] // memory.width], memory.targets[
            :count
        ].copy()

    def report(self, row: NDArray[np.float64]) -> None:
        """See `online.Method`."""
        _report_row(self._memory, row)

    def _rows(self, label: int) -> Longs:
        """The rows of one queue, oldest first."""
        memory = self._memory
        ages: Longs = np.arange(memory.lengths[label], dtype=np.int64)
        rows: Longs = label * memory.budget + (memory.firsts[label] + ages) % memory.budget
        return rows

    def arrays(self) -> State:
        """Class sizes, capacities (negative first), and each queue's examples and ids, oldest first."""
        memory = self._memory
        examples = memory.examples.reshape(-1, memory.width)
        arrays: dict[str, NDArray[np.generic]] = {
            "class_sizes": memory.sizes.copy(),
            "capacities": memory.capacities.copy(),
        }
        for label, name in ((NEGATIVE, "negative"), (POSITIVE, "positive")):
            arrays[f"{name}_examples"] = examples[self._rows(label)]
            arrays[f"{name}_ids"] = memory.ids[self._rows(label)]
        return arrays

    def fits(self, arrays: State) -> bool:
        """See `online.Method`."""
        memory = self._memory
        capacities = arrays["capacities"]
        if arrays["class_sizes"].shape != (2,) or capacities.shape != (2,):
            return False
        for label, name in ((NEGATIVE, "negative"), (POSITIVE, "positive")):
            held = len(arrays[f"{name}_examples"])
            if arrays[f"{name}_examples"].shape != (held, memory.width) or held > capacities[label]:
                return False
            if arrays[f"{name}_ids"].shape != (held, ID_WORDS) or not 1 <= capacities[label] <= memory.budget:
                return False
        return True

    def load(self, arrays: State) -> None:
        """See `online.Method`."""
        memory = self._memory
        memory.sizes[...] = arrays["class_sizes"]
        memory.capacities[...] = arrays["capacities"]
        memory.firsts[...] = 0
        for label, name in ((NEGATIVE, "negative"), (POSITIVE, "positive")):
            memory.lengths[label] = len(arrays[f"{name}_examples"])
            memory.examples.reshape(-1, memory.width)[self._rows(label)] = arrays[f"{name}_examples"]
            memory.ids[self._rows(label)] = arrays[f"{name}_ids"]
