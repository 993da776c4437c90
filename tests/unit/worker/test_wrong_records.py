"""Records that are wrong within a stream, misplaced, or of no stream: each is reported, and stops no other record."""

import logging
from collections.abc import Sequence

import numpy as np
import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.problems import ProblemCode
from stream_app.admin.recent.tails import WINDOW_MS
from stream_app.backends.partitioner import Placement, partition_of
from stream_app.config import LearnerSettings, LimitSettings, StreamSettings
from stream_app.live.buffers import NO_RECORDS
from stream_app.pipeline.outputs import DeadCount, Outputs
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label, Mark, MarkKind, Reason, Side
from stream_app.serialization import codec
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from stream_app.worker.reports.metrics import MISPLACED_RECORDS, MISPLACED_STREAMS
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.tasks import settings_of_task
from tests.support.world import World, all_at, make_config, reaches, started, take_turns

TIME_MS = 1_700_000_000_000

ANY = {"unknown_streams": "model"}


def _task(**settings: object) -> Task:
    stream = StreamSettings(champion="areba", learners={"areba": LearnerSettings(method="areba", budget=4)})
    known = {"streams": {"s": stream}, "default_stream": stream, **settings}
    return Task(0, settings_of_task(**known), ("examples", "labels"))


def _raw(records: Sequence[Example | Label | Mark], key: object = ..., first: int = 0) -> RawRecords:
    """Return records in offset order, a millisecond apart, with `key` or, by default, the key of their stream."""
    offsets = np.arange(first, first + len(records), dtype=np.int64)
    keys = [record.stream.encode() if key is ... else key for record in records]
    return RawRecords.of(offsets, offsets + TIME_MS, keys, [codec.encode_unchecked(record) for record in records])  # type: ignore[arg-type]


def _reasons(outputs: Outputs) -> list[str]:
    letters = outputs.topics["dead-letters"]
    return [str(dict(letters.headers[row])["areba.reason"], "utf-8") for row in range(len(letters))]  # type: ignore[arg-type]


# Keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, b"", b"x0", b"t", b"s\x00", b"\xff"])
def test_a_key_that_is_not_the_stream(key: bytes | None) -> None:
    """Key = id spread one stream over all partitions, with a model in each, and nothing said so."""
    task = _task(streams={}, **ANY)
    examples = _raw([Example("s", "x0", [1.0]), Mark("s", MarkKind.ADVANCE, time_ms=1)], key)
    outputs = task.step(examples, _raw([Label("s", "x0", 1)], key))
    assert _reasons(outputs) == ["wrong-key"] * 3
    assert not len(outputs.topics["predictions"])
    assert task.stream_names == (), "a record with a wrong key opens no stream"
    assert list(outputs.topics["dead-letters"].keys) == [key] * 3
    assert [side.malformed.tolist() for side in outputs.judged] == [[True, True], [True]]
    again = task.step(_raw([Example("s", "x0", [1.0])]), NO_RECORDS)
    assert len(again.topics["predictions"]) == 1


def test_one_wrong_key_among_right_ones() -> None:
    """The others of its batch are what they would be without it, new streams and known ones alike."""
    task = _task(**ANY)
    records = [Example(name, f"{name}{number}", [1.0]) for number in range(3) for name in ("s", "new", "newer")]
    raw = _raw(records)
    list(raw.keys)
    keys = list(raw.keys)
    keys[4] = b"s"
    outputs = task.step(RawRecords.of(raw.offsets, raw.timestamps, keys, raw.values), NO_RECORDS)
    assert len(outputs.topics["predictions"]) == 8
    assert outputs.dead == [DeadCount(Reason.WRONG_KEY, "new", Side.EXAMPLES, 1, 4)]
    assert task.stream_names == ("s", "new", "newer")


# The breaker ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dimension", "nan", "long id", "key", "schema", "time"])
def test_each_kind_of_malformed_record_counts_for_its_stream(kind: str) -> None:
    """A deployment that sends one feature more makes a dead letter of every record; somebody must be called."""
    sound = Example("s0", "a", [1.0])
    key, time_ms, value = {
        "dimension": (b"s0", 100, codec.encode(Example("s0", "a", [1.0, 2.0]))),
        "nan": (b"s0", 100, codec.encode_unchecked(Example("s0", "a", [float("nan")]))),
        "long id": (b"s0", 100, codec.encode_unchecked(Example("s0", "x" * 65, [1.0]))),
        "key": (b"elsewhere", 100, codec.encode(sound)),
        "schema": (b"s0", 100, b"{}"),
        "time": (b"s0", 0, codec.encode(sound)),
    }[kind]
    world = World(make_config(breaker={"in_a_row": 3}))
    member = started(world.worker())
    world.send(2)
    for _ in range(3):
        world.put("examples", 0, key, value, time_ms)
    take_turns(member, until=lambda: any(task.offsets == (5, 2) for task in member.tasks))
    world.send(1, first=20)
    take_turns(member, until=lambda: any(task.offsets == (6, 3) for task in member.tasks))
    assert member.tasks[0].live.task.stopped == {"s0": "3 malformed examples in a row (limit 3)"}
    assert not member.tasks[1].live.task.stopped


def test_late_and_repeated_records_are_not_malformed() -> None:
    """Late, repeated and contradictory records are ordinary, and say nothing about the producer's format."""
    world = World(make_config(breaker={"in_a_row": 3}))
    member = started(world.worker())
    world.send(2)
    for number in range(6):
        world.put("examples", 0, b"s0", codec.encode(Example("s0", "0", [float(number + 5)])), 100)
        world.put("labels", 0, b"s0", codec.encode(Label("s0", "0", 1)), 100)
    take_turns(member, until=lambda: any(task.offsets == (8, 8) for task in member.tasks))
    world.send(1, first=20)
    take_turns(member, until=lambda: any(task.offsets == (9, 9) for task in member.tasks))
    assert not member.tasks[0].live.task.stopped


def test_a_limit_that_was_lowered_is_read_again() -> None:
    """A dead letter that its topic no longer takes would abort the same transaction forever."""
    world = World()
    member = started(world.worker())
    world.send(2)
    take_turns(member, until=all_at(member, 2))
    world.broker.alter_topic(world.config.topics.dead_letters, {"max.message.bytes": "1000"})
    world.put("examples", 0, b"s0", b"{" * 5_000, 100)
    take_turns(member, until=lambda: reaches(member, (3, 2)))
    [(_, value, _, headers)] = world.rows("dead-letters", 0)
    assert len(value or b"") < 1_000
    assert dict(headers)["areba.reason"] == b"wrong-schema"


def test_sound_labels_do_not_hide_unreadable_examples() -> None:
    """Each example that cannot be read has its label; a count over both topics never came to three in a row."""
    world = World(make_config(breaker={"in_a_row": 3}))
    member = started(world.worker())
    for number in range(3):
        world.put("examples", 0, b"s0", b'{"json": 1}', 10 * number + 1)
        world.put("labels", 0, b"s0", codec.encode(Label("s0", str(number), 1)), 10 * number + 5)
    take_turns(member, until=lambda: any(task.offsets == (3, 3) for task in member.tasks))
    world.send(1, first=20)
    take_turns(member, until=lambda: any(task.offsets == (4, 4) for task in member.tasks))
    assert member.tasks[0].live.task.stopped == {"s0": "3 malformed examples in a row (limit 3)"}


def test_dead_letters_are_counted() -> None:
    """A log line and a metric need reason, stream, input and place of what was refused, without reading it back."""
    task = _task()
    examples = _raw([Example("s", "a", [1.0]), *[Example("s", f"w{n}", [1.0, 2.0]) for n in range(3)]])
    values = [*examples.values, b"garbage", codec.encode(Example("nobody", "x", [1.0]))]
    keys = [*examples.keys, b"s", b"nobody"]
    offsets = np.arange(6, dtype=np.int64)
    outputs = task.step(RawRecords.of(offsets, offsets + TIME_MS, keys, values), _raw([Label("s", "a", 5)]))
    assert set(outputs.dead) == {
        DeadCount(Reason.WRONG_DIMENSION, "s", Side.EXAMPLES, 3, 3),
        DeadCount(Reason.WRONG_SCHEMA, None, Side.EXAMPLES, 1, 4),
        DeadCount(Reason.UNKNOWN_STREAM, "nobody", Side.EXAMPLES, 1, 5),
        DeadCount(Reason.BAD_LABEL, "s", Side.LABELS, 1, 0),
    }
    assert task.step(_raw([Example("s", "b", [1.0])], first=6), NO_RECORDS).dead == []


# Streams that are not configured --------------------------------------------------------------------------------------


def test_labels_and_marks_alone_open_no_stream() -> None:
    """Labels with unknown stream names must not use up the streams of a task."""
    task = _task(streams={}, limits=LimitSettings(max_streams_per_task=10), **ANY)
    junk = [Label(f"junk{number}", "a", 1) for number in range(10)]
    marks = [Mark(f"mark{number}", MarkKind.ADVANCE, time_ms=1) for number in range(10)]
    outputs = task.step(_raw(marks), _raw(junk))
    assert task.stream_names == ()
    assert _reasons(outputs) == ["unknown-stream"] * 20
    assert len(task.step(_raw([Example("s", "x", [1.0])]), NO_RECORDS).topics["predictions"]) == 1


def test_a_label_opens_a_stream_that_is_configured() -> None:
    """Their number is bounded, and a label may come first."""
    task = _task()
    assert _reasons(task.step(NO_RECORDS, _raw([Label("s", "x", 1)]))) == []
    outputs = task.step(_raw([Example("s", "x", [1.0])], first=10), NO_RECORDS)
    assert len(outputs.topics["outcomes"]) == 1


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_labels_before_the_first_example(cuts: Sequence[int]) -> None:
    """Where a batch was cut must not decide whether a label was too early."""
    sequence: list[Example | Label] = [
        Label("s", "a", 1),
        Label("s", "b", 1),
        Example("s", "a", [1.0]),
        Label("s", "a", 1),
    ]
    task, found = _task(streams={}, **ANY), []
    for start, end in zip((0, *cuts), (*cuts, len(sequence)), strict=True):
        sides = []
        for kind in (Example, Label):
            rows = [number for number in range(start, end) if isinstance(sequence[number], kind)]
            raw = _raw([sequence[number] for number in rows])
            offsets = np.array(rows, np.int64)
            sides.append(RawRecords.of(offsets, offsets + TIME_MS, raw.keys, raw.values))
        outputs = task.step(*sides)
        found += [*_reasons(outputs), *["outcome"] * len(outputs.topics["outcomes"])]
    assert found == ["unknown-stream", "unknown-stream", "outcome"]


# Partitions -----------------------------------------------------------------------------------------------------------


def _elsewhere(partition: int, partitions: int = 2) -> str:
    """Return the name of a stream that belongs to this partition."""
    return next(f"e{n}" for n in range(100) if partition_of(b"e%d" % n, partitions) == partition)


def test_misplaced_records_are_counted() -> None:
    """Known streams and those without a model; each key is hashed once."""
    right, wrong, other = _elsewhere(0), _elsewhere(1), "?"
    other_place = partition_of(other.encode(), 2)
    placement = Placement(0, 2)
    names = [right, wrong]
    assert placement.misplaced(names[:1], np.array([5]), {}) is None
    found = placement.misplaced(names, np.array([5, 3]), {})
    assert found == (3, 1, wrong, 1)
    assert placement.misplaced(names, np.array([5, 0]), {}) is None
    unknown = placement.misplaced(names, np.array([0, 0]), {other: 2, wrong: 1})
    assert unknown is not None
    assert unknown.records == 1 + 2 * (other_place == 1)
    assert Placement(0, 1).misplaced(names, np.array([5, 3]), {other: 1}) is None


def _split_world() -> tuple[World, Worker, Observer]:
    """Build a stream with two producers, of which only one chooses partitions as Java does."""
    stream = _elsewhere(1)
    world = World(make_config(streams={stream: {}}, worker={"snapshot_after_ms": 0}))
    observer = Observer(world.clock, publishes=True)
    member = started(world.worker(observer=observer))
    for partition in range(2):
        for number in range(3):
            value = codec.encode(Example(stream, f"{partition}-{number}", [1.0]))
            world.put("examples", partition, stream.encode(), value, 10 * number + 1)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(3, 0)] * 2)
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    return world, member, observer


def test_a_misplaced_stream_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Labels that never meet their examples look like late labels: the cause is reported at the first record."""
    with caplog.at_level(logging.WARNING):
        world, member, observer = _split_world()
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("misplaced")]
    assert len(lines) == 1
    assert lines[0].startswith("misplaced task=0 ")
    assert "partitioner=murmur2_random" in lines[0]
    values = observer.figures.values()
    assert values[MISPLACED_RECORDS] == {("0",): 3.0, ("1",): 0.0}
    assert values[MISPLACED_STREAMS] == {("0",): 1.0, ("1",): 0.0}
    assert (len(member.tasks), world.config.application.id) == (2, "app")


def test_a_stream_in_two_partitions_is_found() -> None:
    """Two models of one stream, under one name: `inspect` ends with status 1, and `verify` with a finding."""
    world, member, _ = _split_world()
    stream = _elsewhere(1)
    found = inspect(world.cluster, world.config)
    assert (found.ok, found.input_tails.split()) == (False, {stream: [0, 1]})
    assert all(view.ok for view in found.tasks)
    [problem] = found.problems()
    assert (problem.code, problem.stream) == (ProblemCode.SPLIT_STREAM, stream)
    assert "partitioner=murmur2_random" in problem.text
    assert inspect(world.cluster, world.config, [1]).ok, "the partition of its key"
    report = verify(world.cluster, world.config)
    assert [finding.code for finding in report.findings] == [Code.SPLIT_STREAM]

    value = codec.encode(Example(stream, "later", [1.0]))
    world.put("examples", 1, stream.encode(), value, 30 + WINDOW_MS)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(3, 0), (4, 0)])
    assert inspect(world.cluster, world.config).ok, "all of its producers choose the same partition by now"


def test_verify_knows_wrong_keys() -> None:
    """Such records are counted, each under the stream that its value names."""
    world = World(make_config())
    member = started(world.worker())
    world.send(3)
    for key in (None, b"7", b"\xff"):
        world.put("examples", 0, key, codec.encode(Example("s0", "k", [1.0])), 40)
        world.put("labels", 0, key, codec.encode(Label("s0", "k", 1)), 40)
    take_turns(member, until=lambda: any(task.offsets == (6, 6) for task in member.tasks))
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings
    assert report.figures["s0"].example_dead_letters == {"wrong-key": 3}
    assert report.figures["s0"].label_dead_letters == {"wrong-key": 3}
