"""`areba inspect` says what goes wrong within streams, from tails of the outputs: dead letters, and missing labels."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from stream_app.admin import inspect_tasks
from stream_app.admin.dead_letters.record import RecordId
from stream_app.admin.dead_letters.resend import resend
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.dead_letters.show import show_letter
from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.problems import ProblemCode
from stream_app.admin.recent import outputs as recent_outputs
from stream_app.backends.clock import ManualClock
from stream_app.backends.partitioner import partition_of
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.worker.worker import Worker
from tests.support.world import World, make_config, started, take_turns

HOUR_MS = 3_600_000


def _example(world: World, stream: str, id_: str, time_ms: int, features: int = 1) -> None:
    value = codec.encode(Example(stream, id_, [1.0] * features))
    world.put("examples", 0, stream.encode(), value, time_ms)


def _label(world: World, stream: str, id_: str, time_ms: int) -> None:
    world.put("labels", 0, stream.encode(), codec.encode(Label(stream, id_, 1)), time_ms)


def _process(world: World, member: Worker) -> None:
    """Let a worker process everything that was sent."""
    take_turns(member, until=lambda: len(member.tasks) > 0)
    ends = tuple(world.broker.watermarks(place).high for place in member.tasks[0].inputs)
    take_turns(member, until=lambda: bool(member.tasks) and member.tasks[0].offsets == ends)


def test_all_records_of_a_stream_become_dead_letters() -> None:
    """What a user would lose: 6,000 of 6,000 records, with `inspect` at status 0, lag 0, state running."""
    world = World()
    member = started(world.worker())
    for number in range(30):
        _example(world, "s0", str(number), 10 * number + 1, features=2)
        _label(world, "s0", str(number), 10 * number + 5)
    _example(world, "nobody\x1b[31m", "1", 310)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert not found.ok
    counts = {one.reason: one for one in found.tasks[0].recent.dead}
    assert {reason: one.records for reason, one in counts.items()} == {"wrong-dimension": 30, "unknown-stream": 1}
    lines = list(map(str, found.tasks[0].problems()))
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    place = RecordId(*map(int, lines[0].rpartition("areba dlq show ")[2].split(":")))
    assert any("wrong-dimension" in line for line in show_letter(world.cluster, world.config, place).texts())
    assert inspect(world.cluster, world.config, [1]).ok


def test_dead_letters_that_were_looked_after() -> None:
    """Dead letters that were sent back, or are an hour old in event time, are no problem, at any wall-clock time."""
    world = World()
    member = started(world.worker())
    _example(world, "s0", "wrong", 1_000, features=2)
    _example(world, "s0", "right", 2_000)
    _process(world, member)
    assert not inspect(world.cluster, world.config, [0]).ok

    resend(world.application(), Selection())
    assert inspect(world.cluster, world.config, [0], clock=world.clock).ok
    _process(world, member)
    assert not inspect(world.cluster, world.config, [0]).ok, "it came back"
    world.clock.advance(100 * HOUR_MS / 1000)
    assert not inspect(world.cluster, world.config, [0]).ok
    _example(world, "s0", "later", 2_000 + HOUR_MS)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert (found.ok, found.tasks[0].recent.dead) == (True, ())


def test_late_labels_are_counted_and_are_no_alarm() -> None:
    """A late label is no alarm: the status would never be 0 again."""
    world = World(make_config(join={"ttl_ms": 1_000, "max_clock_lead_ms": 0}))
    member = started(world.worker())
    _example(world, "s0", "1", 1)
    _example(world, "s0", "2", 5_000)
    _label(world, "s0", "1", 5_001)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert {one.reason for one in found.tasks[0].recent.dead} == {"late-label"}
    assert found.ok


def _usual(world: World, stream: str, count: int, first: int = 0, *, labelled: bool = True) -> None:
    for number in range(first, first + count):
        _example(world, stream, str(number), 100 * number + 1)
        if labelled:
            _label(world, stream, str(number), 100 * number + 1_001)


def test_labels_that_stopped() -> None:
    """`inspect` names a stream without labels, with both figures, until labels come again."""
    config = make_config(
        streams={"s0": {"features": 1}, "well": {"features": 1}}, worker={"max_batch_records": 500}, metrics={}
    )
    world = World(config)
    member = started(world.worker())
    for stream in ("s0", "well"):
        _usual(world, stream, 150)
    _process(world, member)
    assert inspect(world.cluster, world.config, [0]).ok
    for number in range(150, 200):
        _usual(world, "s0", 1, first=number, labelled=False)
        _usual(world, "well", 1, first=number)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert not found.ok
    [problem] = found.problems()
    assert (problem.code, problem.task, problem.stream) == (ProblemCode.LABELS_MISSING, 0, "s0")
    flow = found.tasks[0].recent.labels["s0"]
    assert flow.silence_ms == 19_901 - 15_901
    assert flow.usual_delay_ms == pytest.approx(1_000, rel=0.04)
    assert set(found.tasks[0].recent.missing()) == {"s0"}
    _label(world, "s0", "199", 21_000)
    _process(world, member)
    assert inspect(world.cluster, world.config, [0]).ok


def test_labels_that_stopped_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last join and its last metrics lie before the tails: busy neighbours do not hide a stream."""
    monkeypatch.setattr(recent_outputs, "TAIL_RECORDS", 60)
    config = make_config(
        streams={"s0": {"features": 1}, "busy": {"features": 1}},
        worker={"max_batch_records": 500},
        join={"ttl_ms": 10 * HOUR_MS},
    )
    world = World(config)
    member = started(world.worker())
    _usual(world, "s0", 150)
    _process(world, member)
    for number in range(150, 400):
        _usual(world, "busy", 1, first=number)
        _usual(world, "s0", 1, first=number, labelled=False)
    _process(world, member)
    assert set(inspect(world.cluster, world.config, [0]).tasks[0].recent.missing()) == {"s0"}


def test_inspect_counts_unlabelled_examples_as_configured() -> None:
    """As it is configured."""
    for allowed, ok in ((0.5, False), (1.0, True)):
        world = World(
            make_config(
                worker={"max_unlabelled_share": allowed, "max_batch_records": 500},
                join={"ttl_ms": 1_000, "max_clock_lead_ms": 0},
            )
        )
        member = started(world.worker())
        for number in range(300):
            _example(world, "s0", str(number), 100 * number + 1)
            if number % 4 == 0:
                _label(world, "s0", str(number), 100 * number + 51)
        _process(world, member)
        found = inspect(world.cluster, world.config, [0])
        share = found.tasks[0].recent.labels["s0"].unlabelled_share
        assert share == pytest.approx(0.75, abs=0.02)
        assert found.ok == ok


def test_the_table_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """80 columns, with the counts in them."""
    world = World()
    member = started(world.worker())
    for number in range(12):
        _example(world, "s0", str(number), 10 * number + 1, features=2)
    _process(world, member)
    Console(width=80).print(inspect(world.cluster, world.config).table())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    [row] = [line.split() for line in lines if line.split()[:1] == ["0"]]
    heads = next(line for line in lines if "task" in line).split()
    assert row[heads.index("dead")] == "12"
    assert row[heads.index("silent")] == "0"
    explained = {line.split(":")[0].strip() for line in lines if ":" in line}
    assert {"dead", "new"} <= explained, "task 1 has no records"


def test_the_table_explains_new_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    """A user who has just started sees this word first."""
    world = World()
    Console(width=80).print(inspect(world.cluster, world.config).table())
    lines = capsys.readouterr().out.splitlines()
    assert {"dead", "new"} & {line.split(":")[0].strip() for line in lines if ":" in line} == {"new"}


# What the log, `verify` and the alerts know ---------------------------------------------------------------------------


def test_labels_alone_in_another_partition() -> None:
    """Labels by another partitioner make no output at all: five of six streams never learned, with status 0."""
    world = World()
    member = started(world.worker())
    for number in range(5):
        world.put("examples", 0, b"s0", codec.encode(Example("s0", str(number), [1.0])), 10 * number + 1)
        world.put("labels", 1, b"s0", codec.encode(Label("s0", str(number), 1)), 10 * number + 5)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(5, 0), (0, 5)])
    found = inspect(world.cluster, world.config)
    assert not found.ok
    assert found.input_tails.split() == {"s0": [0, 1]}
    assert [(one.code, one.stream) for one in found.problems()] == [(ProblemCode.SPLIT_STREAM, "s0")]


def test_labels_with_wrong_ids_are_said_within_a_hundred() -> None:
    """They would wait for 30 days, and the stream would learn nothing, with status 0."""
    world = World(make_config(worker={"max_batch_records": 500}))
    member = started(world.worker())
    for number in range(110):
        _example(world, "s0", str(number), 100 * number + 1)
        _label(world, "s0", str(number) if number < 5 else f"wrong-{number}", 100 * number + 5)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0], clock=world.clock)
    assert [(one.code, one.stream) for one in found.tasks[0].problems()] == []
    for number in range(110, 130):
        _example(world, "s0", str(number), 100 * number + 1)
        _label(world, "s0", f"wrong-{number}", 100 * number + 5)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0], clock=world.clock)
    assert [(one.code, one.stream) for one in found.tasks[0].problems()] == [(ProblemCode.LABELS_MISSING, "s0")]
    flow = found.tasks[0].recent.labels["s0"]
    assert (flow.matched, flow.unmatched) == (5, 115)
    for number in range(130, 300):  # the producer is corrected; the old labels still wait
        _example(world, "s0", str(number), 100 * number + 1)
        _label(world, "s0", str(number), 100 * number + 5)
    _process(world, member)
    assert inspect(world.cluster, world.config, [0], clock=world.clock).ok


def test_labels_beyond_the_recent_outcomes_are_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of `outcomes` covers fewer labels than the end of `labels` has."""
    monkeypatch.setattr(recent_outputs, "TAIL_RECORDS", 300)
    world = World(make_config(worker={"max_batch_records": 500}, join={"ttl_ms": 1_000, "max_clock_lead_ms": 0}))
    member = started(world.worker())
    for number in range(400):
        _example(world, "s0", str(number), 100 * number + 1)
        if number % 2:
            _label(world, "s0", str(number), 100 * number + 5)
    _process(world, member)
    flow = inspect(world.cluster, world.config, [0], clock=world.clock).tasks[0].recent.labels["s0"]
    assert flow.matched >= 100
    assert flow.unmatched == 0


def test_a_foreign_partitioner_that_all_producers_share() -> None:
    """Examples and labels meet, so nothing is lost yet; the log warns, and the command has to agree."""
    world = World()
    member = started(world.worker())
    stream = next(f"e{n}" for n in range(100) if partition_of(b"e%d" % n, 2) == 1)
    _example(world, stream, "1", 1_000)
    _label(world, stream, "1", 1_005)
    _process(world, member)
    problems = [one for one in inspect(world.cluster, world.config).problems() if one.stream == stream]
    assert ProblemCode.MISPLACED in {one.code for one in problems}
    assert "murmur2_random" in str(problems[-1])


def test_event_times_that_retention_reaches_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker deletes such records soon after they come, read or not."""
    world = World()
    world.clock.advance(30 * 86_400)
    now_ms = world.clock.now_ms()
    monkeypatch.setattr(inspect_tasks, "retention_of", lambda _: 20 * 86_400_000)
    member = started(world.worker())
    _example(world, "s0", "1", now_ms - 19 * 86_400_000)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0], clock=world.clock)
    assert ProblemCode.OLD_EVENT_TIMES in {one.code for one in found.tasks[0].recent.problems()}
    _example(world, "s0", "2", now_ms)
    _process(world, member)
    assert list(inspect(world.cluster, world.config, [0], clock=world.clock).tasks[0].recent.problems()) == []


def test_one_stream_is_dead_while_the_other_is_sound() -> None:
    """4 % of the records of a task, and all of one stream."""
    world = World(make_config(streams={"s0": {"features": 1}, "t": {"features": 1}}))
    member = started(world.worker())
    for number in range(60):
        _example(world, "s0", str(number), 10 * number + 1)
        _label(world, "s0", str(number), 10 * number + 5)
    for number in range(3):
        world.put("examples", 0, b"t", b'{"json": 1}', 10 * number + 601)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert not found.ok
    [one] = found.tasks[0].recent.dead
    assert (one.stream, one.reason, one.records) == ("t", "wrong-schema", 3)
    [problem] = [problem for problem in found.tasks[0].problems() if problem.stream == "t"]
    assert problem.code is ProblemCode.DEAD_LETTERS
    assert "areba dlq show 0:" in problem.text


@pytest.mark.parametrize(("conflicts", "is_most"), [(30, True), (5, False)])
def test_an_id_that_is_the_entitys(conflicts: int, is_most: bool) -> None:
    """All examples of a sensor but the first were lost, and the command called that normal."""
    world = World()
    member = started(world.worker())
    for number in range(conflicts + 1):
        value = codec.encode(Example("s0", "sensor-17", [float(number)]))
        world.put("examples", 0, b"s0", value, 10 * number + 1)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    [one] = found.tasks[0].recent.dead
    assert (one.reason, one.records, one.needs_attention) == ("conflicting-example", conflicts, is_most)
    assert found.ok is not is_most


def test_an_empty_week_is_no_fault() -> None:
    """Nobody wants to be called because a shop was closed; how old the newest records are is said all the same."""
    world = World()
    member = started(world.worker())
    _example(world, "s0", "1", 1_000)
    _label(world, "s0", "1", 1_005)
    _process(world, member)
    week = ManualClock()
    week.advance(7 * 86_400)
    found = inspect(world.cluster, world.config, clock=week)
    notes = list(found.notes())
    assert all("days ago" in line for line in notes)
    assert not [problem for problem in found.problems() if problem.stream == "s0"]
    assert inspect(World().cluster, world.config, clock=week).notes() is not None


def test_the_alert_and_the_command_have_one_rule() -> None:
    """Two rules for one thing leave an operator with an alert that no command explains."""
    rules = (Path(__file__).parents[3] / "ops" / "prometheus" / "rules.yml").read_text(encoding="utf-8")
    [left_out] = re.findall(r'areba_dead_letters_total\{reason!~"([^"]+)"', rules)
    assert set(left_out.split("|")) == set(recent_outputs.ORDINARY)
