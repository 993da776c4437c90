"""`areba inspect` says what goes wrong within streams, from tails of the outputs: dead letters, and missing labels."""

import pytest
from rich.console import Console

from stream_app.admin import recent_outputs
from stream_app.admin.dead_letters.record import RecordId
from stream_app.admin.dead_letters.replay import replay
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.dead_letters.show import show_letter
from stream_app.admin.inspect_tasks import inspect
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.worker.worker import Worker
from tests.support.world import World, _config, _started, _turns

HOUR_MS = 3_600_000


def _example(world: World, stream: str, id_: str, time_ms: int, features: int = 1) -> None:
    value = codec.encode(Example(stream, id_, [1.0] * features))
    world.put("examples", 0, stream.encode(), value, time_ms)


def _label(world: World, stream: str, id_: str, time_ms: int) -> None:
    world.put("labels", 0, stream.encode(), codec.encode(Label(stream, id_, 1)), time_ms)


def _process(world: World, member: Worker) -> None:
    """Let a worker process everything that was sent."""
    _turns(member, until=lambda: len(member.tasks) > 0)
    read = [world.broker.read(place, 0, 10**6)[0].offsets for place in member.tasks[0].inputs]
    ends = tuple(int(offsets[-1]) + 1 if len(offsets) else 0 for offsets in read)
    _turns(member, until=lambda: bool(member.tasks) and member.tasks[0].offsets == ends)


def test_all_records_of_a_stream_become_dead_letters() -> None:
    """What a user would lose: 6,000 of 6,000 records, with `inspect` at status 0, lag 0, state running."""
    world = World()
    member = _started(world.worker())
    for number in range(30):
        _example(world, "s0", str(number), 10 * number + 1, features=2)
        _label(world, "s0", str(number), 10 * number + 5)
    _example(world, "nobody\x1b[31m", "1", 310)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert not found.ok
    counts = {one.reason: one for one in found.tasks[0].recent.dead}
    assert {reason: one.records for reason, one in counts.items()} == {"wrong-dimension": 30, "unknown-stream": 1}
    lines = list(found.problems())
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    place = RecordId(*map(int, lines[0].rpartition("areba dlq show ")[2].split(":")))
    assert any("wrong-dimension" in line for line in show_letter(world.cluster, world.config, place).texts())
    assert inspect(world.cluster, world.config, [1]).ok


def test_dead_letters_that_were_looked_after() -> None:
    """Dead letters that were sent back, or are an hour old in event time, are no problem, at any wall-clock time."""
    world = World()
    member = _started(world.worker())
    _example(world, "s0", "wrong", 1_000, features=2)
    _example(world, "s0", "right", 2_000)
    _process(world, member)
    assert not inspect(world.cluster, world.config, [0]).ok

    def opened(name: str) -> EmbeddedTransaction:
        transaction = EmbeddedTransaction(world.broker, name)
        transaction.initialise()
        return transaction

    replay(world.cluster, world.config, world.clock, Selection(), opened)
    assert inspect(world.cluster, world.config, [0]).ok
    _process(world, member)
    assert not inspect(world.cluster, world.config, [0]).ok, "it came back"
    world.clock.advance(100 * HOUR_MS / 1000)
    assert not inspect(world.cluster, world.config, [0]).ok
    _example(world, "s0", "later", 2_000 + HOUR_MS)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert (found.ok, found.tasks[0].recent.dead) == (True, ())


def test_what_is_in_the_nature_of_the_data_is_counted_alone() -> None:
    """Late labels and stray garbage are no alarm: the status would never be 0 again."""
    world = World(_config(join={"ttl_ms": 1_000, "max_clock_lead_ms": 0}))
    member = _started(world.worker())
    _example(world, "s0", "1", 1)
    _example(world, "s0", "2", 5_000)
    _label(world, "s0", "1", 5_001)
    world.put("examples", 0, b"s0", b"garbage", 5_002)
    _process(world, member)
    found = inspect(world.cluster, world.config, [0])
    assert {one.reason for one in found.tasks[0].recent.dead} == {"late-label", "wrong-schema"}
    assert found.ok


def _usual(world: World, stream: str, count: int, first: int = 0, *, labelled: bool = True) -> None:
    for number in range(first, first + count):
        _example(world, stream, str(number), 100 * number + 1)
        if labelled:
            _label(world, stream, str(number), 100 * number + 1_001)


def test_labels_that_stopped() -> None:
    """`inspect` names a stream without labels, with both figures, until labels come again."""
    config = _config(
        streams={"s0": {"features": 1}, "well": {"features": 1}}, worker={"max_batch_records": 500}, metrics={}
    )
    world = World(config)
    member = _started(world.worker())
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
    [line] = found.problems()
    assert "stream 's0': no label was joined for " in line
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
    config = _config(
        streams={"s0": {"features": 1}, "busy": {"features": 1}},
        worker={"max_batch_records": 500},
        join={"ttl_ms": 10 * HOUR_MS},
    )
    world = World(config)
    member = _started(world.worker())
    _usual(world, "s0", 150)
    _process(world, member)
    for number in range(150, 400):
        _usual(world, "busy", 1, first=number)
        _usual(world, "s0", 1, first=number, labelled=False)
    _process(world, member)
    assert set(inspect(world.cluster, world.config, [0]).tasks[0].recent.missing()) == {"s0"}


def test_the_share_of_unlabelled() -> None:
    """As it is configured."""
    for allowed, ok in ((0.5, False), (1.0, True)):
        world = World(
            _config(
                worker={"max_unlabelled_share": allowed, "max_batch_records": 500},
                join={"ttl_ms": 1_000, "max_clock_lead_ms": 0},
            )
        )
        member = _started(world.worker())
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
    member = _started(world.worker())
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
