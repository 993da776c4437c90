"""Neither a batch's cut nor a state that was saved and loaded changes a bit of any learner."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.records import Operation
from tests.support.learner_steps import ids, learner, operations, run_in_cuts, same_state, stream

KINDS: tuple[dict[str, Any], ...] = (
    {"method": "areba"},
    {"method": "baseline"},
    {"method": "areba", "budget": 2, "theta": 0.2, "hidden": [6, 17], "scaler": "standard", "l2": 0.01},
    {"method": "relay", "replay_per_class": 5},
    {"method": "uob", "ensemble_size": 9, "theta": 0.5, "hidden": [6, 17], "scaler": "standard"},
    {"method": "areba", "network": "tests.unit.learners.test_learners:Net", "scaler": "standard"},
    {"method": "relay", "replay_per_class": 5, "network": "tests.unit.learners.test_learners:Net"},
    {"method": "oob", "ensemble_size": 3, "theta": 0.5, "network": "tests.unit.learners.test_learners:Net"},
)
SLOTS = 24


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Draw histories: each slot predicted once, then perhaps learned, then perhaps corrected; reports anywhere."""
    entries: list[tuple[int, int, int]] = []
    open_slots: list[int] = []
    learned: dict[int, int] = {}
    free = list(range(SLOTS))
    for choice, label in draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=60)):
        if choice < 4 and free:
            open_slots.append(free.pop(0))
            entries.append((Operation.PREDICT, open_slots[-1], -1))
        elif choice < 7 and open_slots:
            entries.append((Operation.LEARN, open_slots.pop(choice % len(open_slots)), label))
            learned[entries[-1][1]] = label
        elif choice < 9 and learned:
            slot = list(learned)[choice * len(learned) // 9]
            learned[slot] = 1 - learned[slot]
            entries.append((Operation.CORRECT, slot, learned[slot]))
        else:
            entries.append((Operation.REPORT, -1, -1))
    return entries


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=25, deadline=None)
@given(entries=histories(), cut=st.integers(1, 20))
def test_a_learner_gives_the_same_bits_for_any_cut_of_batches(
    kind: dict[str, Any], entries: list[tuple[int, int, int]], cut: int
) -> None:
    """The committed outputs of two runs are compared byte for byte, and no two runs cut batches alike."""
    if not entries:
        return
    examples, _ = stream(SLOTS, 3)
    whole, parts = learner(3, **kind), learner(3, **kind)
    one, other = run_in_cuts(whole, entries, examples, len(entries)), run_in_cuts(parts, entries, examples, cut)
    assert one.scores.tobytes() == other.scores.tobytes()
    assert one.labels.tobytes() == other.labels.tobytes()
    assert one.versions.tobytes() == other.versions.tobytes()
    assert one.reports.tobytes() == other.reports.tobytes()
    assert same_state(whole, parts)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=25, deadline=None)
@given(entries=histories(), at=st.integers(0, 60))
def test_a_loaded_learner_continues_to_the_same_bits(
    kind: dict[str, Any], entries: list[tuple[int, int, int]], at: int
) -> None:
    """This is what recovery from a snapshot does."""
    examples, _ = stream(SLOTS, 3)
    first, second = learner(3, **kind), learner(3, **kind)
    first.run(operations(entries[:at]), examples, ids(SLOTS))
    second.run(operations(entries), examples, ids(SLOTS))  # its earlier state must not matter
    second.load(first.arrays())
    assert same_state(first, second)
    answers = [which.run(operations(entries[at:]), examples, ids(SLOTS)) for which in (first, second)]
    assert answers[0].scores.tobytes() == answers[1].scores.tobytes()
    assert answers[0].reports.tobytes() == answers[1].reports.tobytes()
    assert same_state(first, second)


@settings(max_examples=60, deadline=None)
@given(entries=histories(), budget=st.sampled_from([2, 4, 6]), method=st.sampled_from(["areba", "qbr"]))
def test_queues_stay_within_the_budget_and_in_order(
    entries: list[tuple[int, int, int]], budget: int, method: str
) -> None:
    """Corrections move examples between queues; each is where its last label says, with the newest label last."""
    examples, _ = stream(SLOTS, 3)
    which = learner(3, method=method, budget=budget)
    said: dict[int, int] = {}
    for entry in entries:
        which.run(operations([entry]), examples, ids(SLOTS))
        code, slot, label = entry
        kept = [int(words[1]) - 1 for name in ("negative", "positive") for words in which.arrays()[f"{name}_ids"]]
        if code == Operation.LEARN or (code == Operation.CORRECT and slot in kept):
            said.pop(slot, None)
            said[slot] = label
        state = which.arrays()
        held = {
            k: [int(words[1]) - 1 for words in state[f"{name}_ids"]] for k, name in enumerate(("negative", "positive"))
        }
        capacities = state["capacities"].tolist()
        assert all(len(held[k]) <= capacities[k] <= budget for k in held)
        assert sum(capacities) <= budget + 1
        for k, slots in held.items():
            statements = [slot for slot, label in said.items() if label == k]
            assert slots == [slot for slot in statements if slot in slots], "in the order of their labels"
            assert slots == statements[len(statements) - len(slots) :], "the newest of them"
            rows = state[f"{('negative', 'positive')[k]}_examples"]
            assert rows.tobytes() == examples[slots].tobytes()


@pytest.mark.parametrize("kind", KINDS[:4], ids=str)
@pytest.mark.parametrize("cut", [1, 7])
def test_a_long_stream_is_the_same_in_small_batches(kind: dict[str, Any], cut: int) -> None:
    """Batches of 1 and 7 give the same as batches of 1,000, over 2,000 examples with labels that come 40 later."""
    examples, labels = stream(2000, 3)
    entries = [(Operation.PREDICT, slot, -1) for slot in range(40)]
    for slot in range(2000):
        entries.append((Operation.LEARN, slot, int(labels[slot])))
        if slot + 40 < 2000:
            entries.append((Operation.PREDICT, slot + 40, -1))
        if slot % 500 == 0:
            entries.append((Operation.REPORT, -1, -1))
    large, small = learner(3, **kind), learner(3, **kind)
    one, other = run_in_cuts(large, entries, examples, 1000), run_in_cuts(small, entries, examples, cut)
    assert one.scores.tobytes() == other.scores.tobytes()
    assert one.reports.tobytes() == other.reports.tobytes()
    assert same_state(large, small)
    assert np.isfinite(large.arrays()["parameters"]).all()
