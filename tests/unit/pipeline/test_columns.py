"""Examples with values by column: their features, faults, and what a stream learns of its columns."""

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from stream_app.config import JoinSettings, TaskSettings
from stream_app.errors import StateError
from stream_app.pipeline.preparation import kernel
from stream_app.pipeline.task import Task
from stream_app.records import Example, Label, Mark, MarkKind, Side, Value
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.snapshot.segments import Book
from stream_app.verify.reference_state import Record
from tests.column_oracle import ColumnOracle, fnv1a
from tests.support.columns import draw_values, stream_with_columns
from tests.support.rows import columns as raw
from tests.support.snapshots import Changelog
from tests.support.tasks import PARTITION, TOPICS, Run, reason_of, run, settings_of_task

NUMBER: Mapping[str, Any] = {"amount": {}}


def task_settings(**chosen: Any) -> TaskSettings:  # noqa: ANN401  (settings of any type)
    """Return the settings of a task whose stream `a` has columns, and `b` none."""
    stream = stream_with_columns(**chosen)
    plain = stream.model_copy(update={"columns": {}, "missing_values": (), "features": 2})
    return settings_of_task(streams={"a": stream, "b": plain}, join=JoinSettings(ttl_ms=100), predictions="all")


def example(number: int, values: Mapping[str, Value] | Sequence[float], stream: str = "a", id_: str = "") -> Record:
    """Return the record of an example."""
    own = id_ or f"id-{number}"
    has_values = isinstance(values, Mapping)
    meaning = Example(stream, own, values=values) if has_values else Example(stream, own, values)  # type: ignore[arg-type]
    value = codec.encode_unchecked(meaning)
    return Record(Side.EXAMPLES, number, number + 1, meaning, stream.encode(), value, ())


def label(number: int) -> Record:
    """Return the record of a label."""
    meaning = Label("a", f"id-{number}", int(number % 5 == 0))
    return Record(Side.LABELS, number, number + 3, meaning, b"a", codec.encode(meaning), ())


def drawn(count: int, seed: int = 1) -> list[Record]:
    """Return examples that fit their columns; half-way, other categories become frequent."""
    draw = Random(seed)
    return [example(number, draw_values(draw, number > count // 2)) for number in range(count)]


def prepared(task: Task, records: Sequence[Record]) -> Sequence[Sequence[float]]:
    """Return the features with which each example waits for its label."""
    found = []
    for record in records:
        task.step(raw([record]), raw([]))
        join = task.stream("a").join.arrays()
        found.append(join["features"][int(np.argmax(join["arrivals"]))].tolist())
    return found


def test_features_are_those_of_the_oracle() -> None:
    """A wrong mean, place or angle would be learned, and nobody would see it."""
    records = drawn(400)
    settings = task_settings()
    oracle, task = ColumnOracle(settings.streams["a"]), Task(PARTITION, settings, TOPICS)
    meanings = [record.meaning for record in records]
    expected = [oracle.prepare(one.values or {}) for one in meanings if isinstance(one, Example)]
    found = prepared(task, records)
    assert len(found[0]) == settings.streams["a"].features
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_features_do_not_depend_on_cuts_and_snapshots() -> None:
    """A worker that restarts anywhere must give the bits of one that never did."""
    settings, examples = task_settings(), drawn(150)
    labels = [label(number) for number in range(150)]
    whole = run(settings, [(examples, labels)])
    for size in (1, 7, 40):
        pieces = [(examples[at : at + size], labels[at : at + size]) for at in range(0, 150, size)]
        # the merge of a piece needs both sides: labels come 3 ms later, so each piece has only what has come by then
        cut = run(settings, [(one, []) for one, _ in pieces])
        again = run(settings, [(one, []) for one, _ in pieces], Changelog(settings).relay)
        assert cut.models == again.models
        assert cut.rows == again.rows == run(settings, [(examples, [])]).rows
    assert len(whole.rows["outcomes"]) == 150


def test_a_lost_state_is_found() -> None:
    """If a snapshot lacked what was learned of columns, a restored worker would learn other features."""
    settings, examples = task_settings(), drawn(60)

    def forget(task: Task) -> Task:
        preparation = task.stream("a").preparation
        assert preparation is not None
        for array in preparation.arrays().values():
            array[...] = -1 if array.dtype == np.int32 else 0
        return task

    one, two = (
        run(settings, [(examples[:30], []), (examples[30:], [])]),
        run(settings, [(examples[:30], []), (examples[30:], [])], forget),
    )
    assert one.rows != two.rows
    assert {name for name in one.models if "(columns)" in name}
    assert one.models != two.models


def test_an_erasure_and_new_learners_keep_what_columns_have_learned() -> None:
    """An erase mark, or a change of the configuration, must not move the categories to other features."""
    settings = task_settings()
    task = Task(PARTITION, settings, TOPICS)
    task.step(raw(drawn(50)), raw([]))
    before = {name: array.copy() for name, array in _learned(task).items()}
    mark = Mark("a", MarkKind.ERASE, digests=id_digest("a", "id-3"))
    task.step(raw([Record(Side.EXAMPLES, 50, 60, mark, b"a", codec.encode(mark), ())]), raw([]))
    other = stream_with_columns(learners={"one": {"method": "baseline"}}, missing_values=())
    task.apply_settings(settings.model_copy(update={"streams": {**settings.streams, "a": other}}))
    assert {name: array.tolist() for name, array in _learned(task).items()} == {
        name: array.tolist() for name, array in before.items()
    }
    task.step(raw(drawn(10, seed=2)), raw([]))


def _learned(task: Task) -> Mapping[str, Any]:
    preparation = task.stream("a").preparation
    assert preparation is not None
    return preparation.arrays()


# Categories -----------------------------------------------------------------------------------------------------------


def places(categories: Sequence[Value], most: int) -> Sequence[int]:
    """Return the place of each of these categories; `most` are the others."""
    settings = task_settings(columns={"c": {"category": {"most": most}}})
    records = [example(number, {"c": one}) for number, one in enumerate(categories)]
    found = prepared(Task(PARTITION, settings, TOPICS), records)
    assert all(sum(one) == 1 and len(one) == most + 1 for one in found)
    return [one.index(1.0) for one in found]


def test_the_first_categories_take_the_places() -> None:
    """The number of features is fixed from the start, and a category has its feature from its first example on."""
    assert places(["a", "b", "a", "c", "b", "d"], 2) == [0, 1, 0, 2, 1, 2]


def test_a_category_that_becomes_frequent_takes_the_place_of_the_rarest() -> None:
    """After a drift, the categories of today have features; a tie changes nothing."""
    assert places(["a", "a", "b", "c", "c", "c", "b"], 2) == [0, 0, 1, 2, 1, 1, 2]


def test_categories_that_come_once_move_no_place() -> None:
    """An id in a column must not take the features from the frequent categories."""
    rare = [f"id-{number}" for number in range(200)]
    mixed = [one for each in rare for one in (each, "DE")]
    assert set(places(["DE", *mixed], 3)[1:][1::2]) == {0}
    assert set(places(["DE", "FR", "IT", *rare], 3)[3:]) == {3}


def test_counts_are_halved() -> None:
    """A category of today must be able to take the place of one that was frequent a year ago."""
    settings = task_settings(columns={"c": {"category": {"most": 1}}})
    task = Task(PARTITION, settings, TOPICS)
    task.step(raw([example(number, {"c": "old"}) for number in range(5)]), raw([]))
    preparation = task.stream("a").preparation
    assert preparation is not None
    _learned(task)["seen"][0] = 99_999
    task.step(raw([example(number + 5, {"c": "new"}) for number in range(3)]), raw([]))
    assert preparation.arrays()["counts"].tolist() == [2, 2]
    assert preparation.feature_names() == ("c=old", "c: others")
    task.step(raw([example(8, {"c": "new"})]), raw([]))
    assert preparation.feature_names() == ("c=new", "c: others")


def test_the_hash_is_fnv1a() -> None:
    """Whoever uses an exported model computes the feature of a category from its name."""
    assert fnv1a(b"foobar") == 0x85944171F73967E8  # of the authors' test vectors
    settings = task_settings(columns={"c": {"category": {"hashed": 1000}}})
    [found] = prepared(Task(PARTITION, settings, TOPICS), [example(0, {"c": "foobar"})])
    assert found.index(1.0) == (0x85944171 ^ 0xF73967E8) % 1000


# Faults ---------------------------------------------------------------------------------------------------------------

FAULTS: Mapping[str, tuple[Mapping[str, Value] | Sequence[float], str]] = {
    "unknown": ({"amount": 1.0, "amont": 2.0}, "bad-column, column 'amont' is not a column of the stream"),
    "absent": ({}, "bad-column, column 'amount' is missing"),
    "null": ({"amount": None}, "bad-column, column 'amount' is missing"),
    "nan": ({"amount": math.nan}, "bad-column, column 'amount' is missing"),
    "mark": ({"amount": "n/a"}, "bad-column, column 'amount' is missing"),
    "text": ({"amount": "12"}, "bad-column, column 'amount' has text; its values are numbers"),
    "infinite": ({"amount": -math.inf}, "bad-column, column 'amount' is infinite, or too large for float32"),
    "large": ({"amount": 3.5e38}, "bad-column, column 'amount' is infinite, or too large for float32"),
    "fraction": (
        {"amount": 1.0, "c": 0.5},
        "bad-column, column 'c' is not a whole number; a category is text or a whole number",
    ),
    "array": ([1.0, 2.0, 3.0], "wrong-dimension, it has an array of features; the stream has columns"),
    "odd name": ({"\n" * 5_000: 1.0}, f"bad-column, column {chr(0xFFFD) * 64!r} is not a column of the stream"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_column(name: str) -> None:
    """Whoever sends the examples must know what to correct; a refused example teaches nothing."""
    values, expected = FAULTS[name]
    columns = {"amount": {}, "c": {"category": {"most": 1}, "missing": "mean"}}
    settings = task_settings(columns=columns)
    task = Task(PARTITION, settings, TOPICS)
    before = {name: array.copy() for name, array in _learned_after(task, []).items()}
    outputs = task.step(raw([example(0, values)]), raw([]))
    [letter] = outputs.topics["dead-letters"].headers.values()
    message = dict(letter)["__connect.errors.exception.message"] or b""
    assert message.decode() == f"eu.examples[{PARTITION}] offset 0: {expected}"
    assert outputs.judged[Side.EXAMPLES].malformed.tolist() == [True]
    assert all((before[each] == array).all() for each, array in _learned_after(task, []).items())


def _learned_after(task: Task, records: Sequence[Record]) -> Mapping[str, Any]:
    """Return what a task has learned of its columns after these records, and a sound one."""
    task.step(raw(records), raw([]))
    if "a" not in task.stream_names:
        task.step(raw([example(99, {"amount": 1.0}, id_="first")]), raw([]))
    return _learned(task)


def test_values_for_a_stream_without_columns() -> None:
    """The two forms of examples must not be mixed up."""
    outputs = Task(PARTITION, task_settings(), TOPICS).step(raw([example(0, {"x": 1.0}, "b")]), raw([]))
    [letter] = outputs.topics["dead-letters"].headers.values()
    assert b"wrong-dimension, it has values by column; the stream has no columns" in (letter[-3][1] or b"")


def outcomes_of(values: Sequence[Mapping[str, Value]]) -> Run:
    """Run a task over examples that have the same id."""
    settings = task_settings(columns={**NUMBER, "c": {"category": {"most": 1}, "missing": "mean"}})
    return run(settings, [([example(number, one, id_="same")], []) for number, one in enumerate(values)])


def test_a_repetition_is_recognised_by_the_values() -> None:
    """A producer that sends again must not make dead letters, although the features of a repetition may differ."""
    same: list[dict[str, Value]] = [{"amount": 1, "c": None}, {"amount": 1.0}, {"c": math.nan, "amount": True}]
    result = outcomes_of(same)
    assert (len(result.rows["outcomes"]), len(result.rows["dead-letters"])) == (2, 0)
    other = outcomes_of([{"amount": 1, "c": "x"}, {"amount": 1, "c": "y"}, {"amount": 2, "c": "x"}, {"amount": 1}])
    assert [reason_of(row) for row in other.rows["dead-letters"]] == ["conflicting-example"] * 3


# State ----------------------------------------------------------------------------------------------------------------


def _too_long(arrays: dict[str, Any]) -> None:
    arrays["lengths"][0] = 65


def _no_place(arrays: dict[str, Any]) -> None:
    arrays["taken"][0] = 3


def _twice(arrays: dict[str, Any]) -> None:
    arrays["taken"][1] = arrays["taken"][0]


def _too_many(arrays: dict[str, Any]) -> None:
    arrays["used"][2] = 7


def _shape(arrays: dict[str, Any]) -> None:
    arrays["means"] = arrays["means"][1:]


def _absent(arrays: dict[str, Any]) -> None:
    del arrays["counts"]


@pytest.mark.parametrize("damage", [_too_long, _no_place, _twice, _too_many, _shape, _absent])
def test_a_damaged_state_is_refused(damage: Callable[[dict[str, Any]], None]) -> None:
    """Compiled code takes these numbers as indices: a wrong one would change the memory of something else."""
    task = Task(PARTITION, task_settings(), TOPICS)
    task.step(raw(drawn(30)), raw([]))
    preparation = task.stream("a").preparation
    assert preparation is not None
    arrays = {name: array.copy() for name, array in preparation.arrays().items()}
    preparation.load(arrays)
    damage(arrays)
    with pytest.raises(StateError, match="columns"):
        preparation.load(arrays)


def test_a_snapshot_has_the_state() -> None:
    """What only memory has is gone after a crash."""
    task = Task(PARTITION, task_settings(), TOPICS)
    task.step(raw(drawn(5)), raw([]))
    [state] = [one for one in task.states() if one.name == "a"]
    names = {name for name in state.core_state() if name.startswith("columns.")}
    assert names == {f"columns.{name}" for name in _learned(task)}
    assert len(Book().draft(task.take_states(), "1")) == 1


def test_circle() -> None:
    """The end of a period is next to its beginning, to the last digits of float32."""
    pairs = [kernel.circle_at.py_func(turns) for turns in np.linspace(-3, 3, 1001)]  # type: ignore[attr-defined]
    angles = 2 * np.pi * np.linspace(-3, 3, 1001)
    np.testing.assert_allclose(pairs, np.column_stack([np.sin(angles), np.cos(angles)]), atol=1e-12)
    assert kernel.circle_at.py_func(1e300) == (0.0, 1.0)  # type: ignore[attr-defined]
