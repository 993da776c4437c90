"""Dead letters are visible: in the log, at most one line a minute for each reason, and in the metrics."""

import logging
import re
from functools import partial

import pytest

from stream_app.admin.dead_letters.record import RecordId
from stream_app.admin.dead_letters.show import show_letter
from stream_app.backends.clock import ManualClock
from stream_app.errors import TransactionAbortedError
from stream_app.pipeline.outputs import DeadCount
from stream_app.records import Example, Label, Reason, Side
from stream_app.serialization import codec
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.figures import Figures
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from stream_app.worker.reports.observer import Observer
from tests.support.world import FailingTransaction, World, reaches, started, take_turns

WARNING = re.compile(
    r"dead-letters reason=(\S+) count=(\d+) last: task=(\d+) stream=(.+) (examples|labels) offset=(\d+); look: (.+)"
)


def _wrong(world: World, count: int, first: int = 0) -> None:
    """Return examples of another dimension than the stream's, each with its label."""
    for number in range(first, first + count):
        example = codec.encode(Example("s0", str(number), [1.0, 2.0]))
        world.put("examples", 0, b"s0", example, 10 * number + 1)
        world.put("labels", 0, b"s0", codec.encode(Label("s0", str(number), 1)), 10 * number + 2)


def _warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    found = [WARNING.fullmatch(record.getMessage()) for record in caplog.records if record.levelno == logging.WARNING]
    return [match.groups() for match in found if match is not None]


def test_a_stream_of_the_wrong_dimension(caplog: pytest.LogCaptureFixture) -> None:
    """What a user would lose: all of the records, with every page green and not a line in the log."""
    world = World()
    observer = Observer(world.clock)
    member = started(world.worker(observer=observer))
    _wrong(world, 12)
    take_turns(member, until=lambda: reaches(member, (12, 12)))
    for _ in range(20):
        member.turn()
    [(reason, _, task, stream, side, offset, command)] = _warnings(caplog)
    assert (reason, task, stream, side) == ("wrong-dimension", "0", "'s0'", "examples")
    counts = observer.figures.values()[metrics.DEAD_LETTERS]
    assert counts["0", "wrong-dimension"] == 12
    assert sum(counts.values()) == len(world.rows("dead-letters", 0))
    partition, dead_offset = map(int, command.removeprefix("areba dlq show ").split(":"))
    shown = "\n".join(show_letter(world.cluster, world.config, RecordId(partition, dead_offset)).texts())
    assert f"examples[0] offset {offset}" in shown
    assert "wrong-dimension" in shown


def test_one_warning_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A broken producer does not fill the disk with lines; nothing that it sent is left out of the counts."""
    world = World()
    observer = Observer(world.clock)
    member = started(world.worker(observer=observer))
    sent = 0
    for _ in range(5):
        _wrong(world, 6, first=sent)
        sent += 6
        take_turns(member, until=partial(reaches, member, (sent, sent)))
        world.clock.advance(WARNING_INTERVAL_S / 3)
    assert len(_warnings(caplog)) == 2
    world.clock.advance(WARNING_INTERVAL_S)
    member.turn()
    found = _warnings(caplog)
    assert len(found) == 3
    assert sum(int(count) for _, count, *_ in found) == sent
    assert found[-1][5] == str(sent - 1)
    world.clock.advance(10 * WARNING_INTERVAL_S)
    member.turn()
    assert len(_warnings(caplog)) == 3, "nothing new"


def test_only_what_was_committed_counts(caplog: pytest.LogCaptureFixture) -> None:
    """An aborted batch is processed again: its dead letters would count twice."""
    world = World()
    _wrong(world, 5)
    failing = FailingTransaction(world.broker, dict.fromkeys((1, 2), TransactionAbortedError))
    observer = Observer(world.clock)
    member = started(world.worker(transaction=failing, observer=observer))
    take_turns(member, until=lambda: reaches(member, (5, 5)))
    assert observer.figures.values()[metrics.DEAD_LETTERS]["0", "wrong-dimension"] == 5
    again = Observer(world.clock)
    restored = started(world.worker(observer=again))
    take_turns(restored, until=lambda: reaches(restored, (5, 5)))
    assert not any(again.figures.values()[metrics.DEAD_LETTERS].values()), "the worker before has counted them"
    assert len(_warnings(caplog)) == 1


@pytest.mark.parametrize("name", ["\x1b[31mred", "\u202egnp.exe", "a\nWARNING forged", None])
def test_names_of_records_are_escaped(name: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """A record cannot write control characters to an operator's terminal, or forge a line of the log."""
    observer = Observer(ManualClock())
    observer.emit(events.Assigned([0]))
    observer.emit(events.DeadLettersWritten(0, [DeadCount(Reason.UNKNOWN_STREAM, name, Side.EXAMPLES, 1, 7)], {}))
    [(*_, stream, _, offset, command)] = _warnings(caplog)
    assert (stream, offset) == ("unknown" if name is None else repr(name), "7")
    assert command == "areba dlq show --reason unknown-stream"
    assert caplog.records[-1].getMessage().isprintable()


def test_figures_of_a_lost_task_are_removed() -> None:
    """Another worker reports it then, but counters stay; a name that would move a cursor is escaped here, too."""
    figures = Figures()
    for task in (1, 11):
        figures.add(metrics.DEAD_LETTERS, 2, reason="late-label", task=task)
        figures.set(metrics.LABEL_SILENCE, 1.5, task=task, stream="a\x1b[31m")
    figures.drop_task(1)
    assert figures.values()[metrics.DEAD_LETTERS] == {("1", "late-label"): 2.0, ("11", "late-label"): 2.0}
    assert figures.values()[metrics.LABEL_SILENCE] == {("11", repr("a\x1b[31m")): 1.5}


def test_counters_never_fall_in_a_rebalance() -> None:
    """A task that is revoked and assigned again has the totals that it had: Prometheus takes a fall for a restart."""
    observer = Observer(ManualClock())
    observer.emit(events.Assigned([0]))
    observer.emit(events.DeadLettersWritten(0, [DeadCount(Reason.LATE_LABEL, "s0", Side.LABELS, 3, 7)], {}))
    before = observer.figures.values()[metrics.DEAD_LETTERS]["0", "late-label"]
    observer.emit(events.Revoked([0]))
    assert observer.figures.values()[metrics.DEAD_LETTERS]["0", "late-label"] == before > 0
    observer.emit(events.Assigned([0]))
    assert observer.figures.values()[metrics.DEAD_LETTERS]["0", "late-label"] == before
