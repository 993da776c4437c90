"""The states of a task: a state with two names cannot be looked up, and its alert never fires."""

import logging
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from ops.reference.worker import meanings_of
from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.inspection import TaskView
from stream_app.backends.clock import ManualClock
from stream_app.task_state import INSPECTED, REPORTED, TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.health import TaskHealth
from stream_app.worker.reports.http import values_of
from stream_app.worker.reports.observer import Observer
from tests.support.damages.world import stopped_world
from tests.support.world import TickingClock, World, all_at, make_config, started, take_turns

DOCS = Path(__file__).parents[2] / "docs"


def test_no_place_has_words_of_its_own() -> None:
    """The worker, the pages and `inspect` use one enumeration of states, and can show no others."""
    assert get_type_hints(vars(OwnedTask)["state"].fget)["return"] is TaskState
    assert get_type_hints(TaskHealth)["state"] is TaskState
    assert get_type_hints(TaskView)["state"] is TaskState
    assert {*REPORTED, *INSPECTED} == {*TaskState}


def test_a_restore_shows_its_states(caplog: pytest.LogCaptureFixture) -> None:
    """An operator sees the step of a restore by the same word in the log, in `/ready` and in `/metrics`."""
    caplog.set_level(logging.INFO)
    world = World(make_config(worker={"max_batch_records": 1, "snapshot_after_ms": 0}))
    world.send(30)
    first = started(world.worker())
    take_turns(first, until=all_at(first, 30))
    take_turns(first, until=lambda: not any(task.is_saving for task in first.tasks))
    world.use(TickingClock())
    observer = Observer(world.clock, publishes=True)
    again = started(world.worker(observer=observer))
    seen: list[str] = []

    def done() -> bool:
        health = observer.health()
        for line, (number, task) in zip(health.ready_text().splitlines(), sorted(health.tasks.items()), strict=False):
            assert re.match(rf"task {number}: {task.state}\b", line)
            shown = values_of(health)[metrics.TASK_STATE]
            assert [labels[1] for labels, value in shown.items() if labels[0] == str(number) and value] == [task.state]
            seen.append(task.state)
        return all_at(again, 30)()

    take_turns(again, until=done)
    assert {*seen} <= {*REPORTED}
    assert {"loading", "reprocessing", "live"} <= {*seen}
    logged = {fields["state"] for one in caplog.records if "state" in (fields := getattr(one, "fields", {}))}
    assert logged <= {state for state in TaskState if state.is_restoring}


def test_the_label_of_the_metric_has_the_words_of_a_worker() -> None:
    """A dashboard that lists the states of the documentation shows each of them."""
    observer = Observer(ManualClock(), publishes=True)
    observer.emit(events.Assigned([0]))
    shown = values_of(observer.health())[metrics.TASK_STATE]
    assert [state for _, state in shown] == [*REPORTED]
    assert {state for (_, state), value in shown.items() if value} == {TaskState.ASSIGNED}


def test_inspect_shows_its_states() -> None:
    """`inspect` does not claim a state that topics do not show."""
    world, _ = stopped_world()
    states = [view.state for view in inspect(world.cluster, world.config).tasks]
    assert states == [TaskState.RUNNING, TaskState.RUNNING]
    assert {*states} <= {*INSPECTED}


def test_the_documents_list_exactly_these_states() -> None:
    """A state that an operator meets and no page explains would cost a night."""
    glossary, operations, reference = (
        (DOCS / name).read_text(encoding="utf-8") for name in ("glossary.md", "operations.md", "reference.md")
    )
    entry = glossary.partition("\n**State** (`task_state.TaskState`).")[2].partition("\n\n")[0]
    assert [word for word in re.findall(r"`([^`]+)`", entry) if not word.startswith("areba ")] == [*TaskState]
    table = operations.partition("### States of a task")[2].partition("\n##")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(word for cell in first_cells for word in re.findall(r"`(\w+)`", cell)) == sorted(TaskState)
    assert [*meanings_of(TaskState)] == [*TaskState]
    table = reference.partition("\n## Task states\n")[2].partition("\n##")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*TaskState]
