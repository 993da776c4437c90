"""Columns that a stream gets later: the features of each, and what the learners keep."""

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pytest

from stream_app.config import METHOD_FACTS, LearnerSettings, TaskSettings
from stream_app.pipeline.task import Task
from stream_app.records import Example, Label, Prediction, Side, Value
from stream_app.serialization import codec
from stream_app.verify.reference_state import Record
from tests.column_oracle import ColumnOracle
from tests.support.columns import COLUMNS, draw_values, stream_with_columns
from tests.support.rows import columns as raw
from tests.support.snapshots import Changelog, exported
from tests.support.tasks import PARTITION, TOPICS, settings_of_task

GROWN: Mapping[str, Any] = {
    "first": {"missing": "mean"},
    **COLUMNS,
    "amount": {"missing": "mean"},
    "country": {"category": {"most": 5}, "missing": "mean"},
    "city": {"category": {"most": 9}, "missing": "mean"},
    "last": {"category": {"most": 2}, "missing": "mean"},
}


def task_settings(columns: Mapping[str, Any], **chosen: Any) -> TaskSettings:  # noqa: ANN401  (settings of any type)
    """Return the settings of a task with one stream."""
    return settings_of_task(streams={"a": stream_with_columns(columns, **chosen)}, predictions="all")


def record(number: int, meaning: Example | Label) -> Record:
    """Return the record of an example or a label."""
    side = Side.LABELS if isinstance(meaning, Label) else Side.EXAMPLES
    return Record(side, number, number + 1 + side, meaning, b"a", codec.encode_unchecked(meaning), ())


def drawn(count: int, seed: int) -> list[dict[str, Value]]:
    """Return values of examples."""
    draw = Random(seed)
    return [draw_values(draw) for _ in range(count)]


def send(task: Task, values: list[dict[str, Value]], first: int) -> list[list[float]]:
    """Let examples come, each with its label afterwards; return the features of each."""
    found = []
    for number, each in enumerate(values, first):
        task.step(raw([record(number, Example("a", f"e{number}", values=each))]), raw([]))
        join = task.stream("a").join.arrays()
        found.append(join["features"][int(np.argmax(join["arrivals"]))].tolist())
        task.step(raw([]), raw([record(number, Label("a", f"e{number}", int(isinstance(each["city"], int))))]))
    return found


def scores(task: Task, values: dict[str, Value], number: int = 1000) -> list[float]:
    """Return the score of each learner for an example."""
    outputs = task.step(raw([record(number, Example("a", f"e{number}", values=values))]), raw([]))
    made = [codec.decode_one(value or b"") for value in outputs.topics["predictions"].values]
    return [one.score for one in made if isinstance(one, Prediction)]


def test_features_are_those_of_the_oracle() -> None:
    """If a feature moved, the weights that belong to it would be those of another one."""
    before, after = task_settings(COLUMNS), task_settings(GROWN)
    oracle, task = ColumnOracle(before.streams["a"]), Task(PARTITION, before, TOPICS)
    first, then = drawn(150, 1), drawn(150, 2)
    expected = [oracle.prepare(values) for values in first]
    np.testing.assert_allclose(send(task, first, 0), expected, rtol=1e-6, atol=1e-7)
    task.apply_settings(after)
    oracle.grow(after.streams["a"])
    draw = Random(3)
    for values in then:
        if draw.random() < 0.5:
            values |= {"first": draw.gauss(0, 1), "last": draw.choice("abc")}
    expected = [oracle.prepare(values) for values in then]
    found = send(task, then, 150)
    assert len(found[0]) == after.streams["a"].features
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", METHOD_FACTS)
@pytest.mark.parametrize("hidden", [(), (3,), (4, 2)])
def test_the_first_prediction_is_the_same(method: str, hidden: tuple[int, ...]) -> None:
    """What a learner knows must not change with a column, or every added column would be a restart."""
    fixed = METHOD_FACTS[method].decides
    chosen: dict[str, Any] = {"method": method}
    chosen |= {key: value for key, value in {"hidden": hidden, "scaler": "standard"}.items() if key not in fixed}
    learners = {"one": LearnerSettings(**chosen)}
    before = task_settings(COLUMNS, learners=learners)
    more = {**COLUMNS, "new": {"missing": "mean"}, "kind": {"category": {"most": 3}, "missing": "mean"}}
    same, grown = Task(PARTITION, before, TOPICS), Task(PARTITION, before, TOPICS)
    for task in (same, grown):
        send(task, drawn(120, 1), 0)
    grown.apply_settings(task_settings(more, learners=learners))
    value = drawn(1, 5)[0]
    one, two = scores(same, value), scores(grown, {**value, "new": 1e6, "kind": "x"})
    if METHOD_FACTS[method].predictor is None:
        assert one == two
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_new_features_are_learned() -> None:
    """A column without effect for ever would be worse than a restart: nobody would see it."""
    learners = {"one": LearnerSettings(method="areba", hidden=(4,), scaler="standard", learning_rate=0.1)}
    before: Mapping[str, Any] = {"noise": {}}
    after = {**before, "sign": {"missing": "mean"}}
    task = Task(PARTITION, task_settings(before, learners=learners), TOPICS)
    draw = Random(1)
    number = 0

    def teach(count: int) -> None:
        nonlocal number
        for _ in range(count):
            sign = draw.choice([-1.0, 1.0])
            values: dict[str, Value] = {"noise": draw.gauss(0, 1)}
            if number >= 100:
                values["sign"] = sign
            task.step(raw([record(number, Example("a", f"e{number}", values=values))]), raw([]))
            task.step(raw([]), raw([record(number, Label("a", f"e{number}", int(sign > 0)))]))
            number += 1

    teach(100)
    task.apply_settings(task_settings(after, learners=learners))
    teach(300)
    positive, negative = (scores(task, {"noise": 0.0, "sign": sign}, 1000 + int(sign))[0] for sign in (1.0, -1.0))
    assert positive - negative > 0.5


def test_a_snapshot_has_the_state() -> None:
    """A worker that restarts after the change must continue with the same bits."""
    before, after = task_settings(COLUMNS), task_settings(GROWN)
    task = Task(PARTITION, before, TOPICS)
    send(task, drawn(60, 1), 0)
    for number, values in enumerate(drawn(5, 9), 500):  # these wait
        task.step(raw([record(number, Example("a", f"e{number}", values=values))]), raw([]))
    log = Changelog(before)
    task = log.relay(task)
    task.apply_settings(after)
    relayed = log.relay(task)
    labels = [record(number, Label("a", f"e{number}", number % 2)) for number in range(500, 505)]
    for each in (task, relayed):
        each.step(raw([]), raw(labels))
        send(each, drawn(40, 3), 600)
    assert exported(task) == exported(relayed)


def test_own_networks_start_again() -> None:
    """Their weights cannot be told apart by feature; a state of another shape would stop the worker."""
    own = LearnerSettings(method="baseline", network="tests.unit.learners.test_network:Affine")
    learners = {"one": LearnerSettings(method="areba"), "two": own}
    task = Task(PARTITION, task_settings(COLUMNS, learners=learners), TOPICS)
    send(task, drawn(20, 1), 0)
    task.apply_settings(task_settings(GROWN, learners=learners))
    send(task, drawn(20, 2), 20)
    arrays = task.stream("a").learners[1].arrays()
    assert arrays["updates"].tolist() == [20]
