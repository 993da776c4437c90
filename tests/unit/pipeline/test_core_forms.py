"""Cores that are packed together are the files that each stream gives alone, and are loaded as each is alone."""

from collections.abc import Mapping
from typing import Any

import pytest

from stream_app.pipeline.core_forms import CoreForms
from stream_app.pipeline.outputs import chain_digest
from stream_app.pipeline.stream_state import StreamState
from stream_app.pipeline.task import Task
from stream_app.snapshot import segments, task_loading
from stream_app.snapshot.format import pack
from stream_app.snapshot.segments import Book, whole_core
from tests.support.alike_streams import IN_MEMORY, NOTHING, STREAMS, alike_records, alike_settings, busy_task
from tests.support.snapshots import Changelog, exported


def packed(task: Task) -> list[StreamState]:
    """Return the streams of a task after they were packed together."""
    states = list(task.states())
    task.core_forms.pack(states)
    return states


LEARNERS = {
    "all": {method: {"method": method} for method in IN_MEMORY},
    "small queues": {"areba": {"method": "areba", "budget": 4}, "qbr": {"method": "qbr", "budget": 2}},
    "scaled": {"scaled": {"method": "areba", "scaler": "standard"}, "relay": {"method": "relay"}},
    "wide": {"areba": {"method": "areba", "hidden": [7, 5]}},
}


@pytest.mark.parametrize("turns", [1, 4, 60])
@pytest.mark.parametrize("learners", LEARNERS.values(), ids=LEARNERS)
def test_together_they_are_what_each_is_alone(learners: Mapping[str, Any], turns: int) -> None:
    """A restored stream would have another stream's weights, or half of its queues."""
    task = busy_task(alike_settings(learners), turns)
    states = packed(task)
    assert [state.packed for state in states] == [pack(whole_core(state)) for state in task.states()]


def test_costs_and_corrections_are_packed() -> None:
    """These columns are there only if the settings say so."""
    chosen = alike_settings({"areba": {"method": "areba"}}, costs={"false_positive": 1.0, "false_negative": 20.0})
    chosen = chosen.model_copy(update={"join": chosen.join.model_copy(update={"corrections": "correct"})})
    task = busy_task(chosen, 30)
    assert [state.packed for state in packed(task)] == [pack(whole_core(state)) for state in task.states()]


def test_what_python_keeps_is_packed_alone() -> None:
    """A waiting label is not in the memory that compiled code knows."""
    task = busy_task(alike_settings({"areba": {"method": "areba"}}), 10)
    task.step(NOTHING, alike_records(15, labels=True))
    assert all(stream.packed is None for stream in packed(task))
    others = busy_task(alike_settings({"sliding": {"method": "sliding"}}), 10)
    assert all(stream.packed is None for stream in packed(others))


@pytest.mark.parametrize("bound", ["SEGMENT_BYTES", "RING_ROWS", "CLOSED_ROWS"])
def test_segments_are_the_same(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a blob of its own must not be in the core as well, nor be missing in both."""
    monkeypatch.setattr(segments, bound, {"SEGMENT_BYTES": 300, "RING_ROWS": 3, "CLOSED_ROWS": 4}[bound])
    task = busy_task(alike_settings({"relay": {"method": "relay"}}), 40)
    drafted = Book().draft(packed(task), "1")
    assert drafted == Book().draft(task.states(), "1")
    assert len(drafted) > STREAMS


@pytest.mark.parametrize("turns", [1, 4, 60])
@pytest.mark.parametrize("learners", LEARNERS.values(), ids=LEARNERS)
def test_streams_that_are_loaded_together_continue_alike(
    learners: Mapping[str, Any], turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore must give the models that were saved, to the bit, and their next predictions."""
    loaded: list[int] = []
    load = CoreForms.load

    def counted(*given: Any) -> int:  # noqa: ANN401  (whatever it takes)
        loaded.append(load(*given))
        return loaded[-1]

    monkeypatch.setattr(CoreForms, "load", counted)
    chosen = alike_settings(learners)
    task = busy_task(chosen, turns)
    restored = Changelog(chosen).relay(task)
    assert sum(loaded) == max(0, len(task.stream_names) - 1)  # the first of its kind is loaded alone
    for turn in range(turns, turns + 5):
        batch = alike_records(turn, labels=False), alike_records(max(turn - 3, 0), labels=True)
        one, two = (chain_digest(bytes(32), (0, 0, 0, 0), each.step(*batch)) for each in (task, restored))
        assert one == two
    assert exported(restored) == exported(task)
    assert restored.model_digests() == task.model_digests()


def test_streams_keep_their_order() -> None:
    """The order of the streams decides that of the outputs; some of these streams cannot be loaded together."""
    chosen = alike_settings({"areba": {"method": "areba"}})
    task = busy_task(chosen, 10)
    late = alike_records(15, labels=True)
    task.step(NOTHING, late.rows(1, 2))  # a waiting label
    assert Changelog(chosen).relay(task).stream_names == task.stream_names


def test_the_number_that_are_loaded_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task with thousands of streams is loaded in many parts."""
    monkeypatch.setattr(task_loading, "AT_ONCE", 2)
    chosen = alike_settings({"relay": {"method": "relay"}})
    task = busy_task(chosen, 20)
    assert exported(Changelog(chosen).relay(task)) == exported(task)
