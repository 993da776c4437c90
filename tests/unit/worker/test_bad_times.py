"""Whatever time a record claims, what it causes is kept for the retention of its topic, and every command sees it.

Kafka deletes a record once its timestamp is older than the retention: a dead letter that took the time of its record
was deleted within minutes, and every command said that all was well.
"""

from collections.abc import Callable, Sequence

import pytest

from stream_app.admin.dead_letters.listing import Listing, list_letters
from stream_app.admin.dead_letters.resend import resend
from stream_app.admin.dead_letters.resend_result import ResendResult
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.dead_letters.show import show_letter
from stream_app.admin.inspect_tasks import inspect
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Example, Label, Outcome, Prediction
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.world import World, make_config, started, take_turns

NOW_MS = 1_700_000_000_000
"""The time of the world's clock at its start."""

WEEK_MS = 604_800_000
HOUR_MS = 3_600_000
RECORDS = 40


def _send(world: World, numbers: Sequence[int], time_of: Callable[[int], int], side: str = "both") -> None:
    """Send examples and labels with the event times that a producer claims."""
    for number in numbers:
        if side != "labels":
            value = codec.encode(Example("s0", str(number), [float(number % 3)]))
            world.put("examples", 0, b"s0", value, time_of(number))
        if side != "examples":
            world.put("labels", 0, b"s0", codec.encode(Label("s0", str(number), number % 2)), time_of(number))


def _process(world: World, member: Worker) -> None:
    """Let the worker process everything that was sent."""
    take_turns(member, until=lambda: len(member.tasks) > 0)
    ends = tuple(world.broker.watermarks(place).high for place in member.tasks[0].inputs)
    take_turns(member, until=lambda: bool(member.tasks) and member.tasks[0].offsets == ends)


def _expire(world: World, retention_ms: int = WEEK_MS) -> None:
    """Delete the outputs whose timestamps are older than the retention, as a broker does at its next check."""
    for topic in OUTPUT_TOPICS:
        name = getattr(world.config.topics, topic.replace("-", "_"))
        world.broker.alter_topic(name, {"retention.ms": str(retention_ms)})
    world.broker.retain()


def _letters(world: World) -> list[DeadLetterRecord]:
    found = (DeadLetterRecord.read(key, value, headers) for key, value, _, headers in world.rows("dead-letters", 0))
    return [letter for letter in found if letter is not None]


def _listed(world: World, since_ms: int | None = None) -> Listing:
    return list_letters(world.cluster, world.config, Selection(since_ms=since_ms), 10)


def _resent(world: World) -> ResendResult:
    return resend(world.application(), Selection())


@pytest.mark.parametrize(
    ("claimed_ms", "kept_ms", "why"), [(0, 0, "timestamp 0"), (-1, -1, "no timestamp"), (NOW_MS, -1, "")]
)
def test_records_without_an_event_time(claimed_ms: int, kept_ms: int, why: str) -> None:
    """2,000 of 2,000 records of a stream were dead letters, and `inspect` ended with status 0, `dlq show` with none."""
    world = World()
    member = started(world.worker())
    _send(world, range(10), lambda number: NOW_MS + number)
    _process(world, member)
    assert inspect(world.cluster, world.config, [0]).ok
    world.clock.advance(2 * HOUR_MS / 1000)
    since_ms = world.clock.now_ms()
    if claimed_ms == NOW_MS:  # an administrator has changed the type of the topic's timestamps
        for name in world.config.topics[:2]:
            world.broker.alter_topic(name, {"message.timestamp.type": "LogAppendTime"})
        why = f"its topic has LogAppendTime ({since_ms})"
    _send(world, range(10, 10 + RECORDS), lambda _: claimed_ms)
    _process(world, member)
    _expire(world)
    letters = _letters(world)
    assert [letter.reason for letter in letters] == ["bad-time"] * 2 * RECORDS
    assert {letter.event_time_ms for letter in letters} == {kept_ms}, "nobody invents a time"
    assert all(letter.message.endswith(f"bad-time, {why}") for letter in letters)
    found = inspect(world.cluster, world.config, [0])
    assert not found.ok
    assert [(one.reason, one.records) for one in found.tasks[0].recent.dead] == [("bad-time", 2 * RECORDS)]
    assert _listed(world, since_ms).counts == {"bad-time": 2 * RECORDS}
    assert "event time   " + ("none" if kept_ms < 0 else "1970-01-01 00:00:00.000 UTC (0 ms)") in list(
        show_letter(world.cluster, world.config, _listed(world).lines[0].record_id).texts()
    )
    assert verify(world.cluster, world.config).ok
    done = _resent(world)
    assert (done.sent.total(), len(done.refused), done.ok) == (0, 1, False)


def test_a_producer_that_gives_seconds() -> None:
    """1,767,225,600 milliseconds are January of 1970. The dead letters of such labels vanished like those times."""
    world = World(make_config(join={"ttl_ms": HOUR_MS, "max_clock_lead_ms": 0}))
    member = started(world.worker())
    _send(world, range(RECORDS), lambda number: NOW_MS + number, "examples")
    _send(world, range(RECORDS, 2 * RECORDS), lambda number: NOW_MS // 1000 + number, "labels")
    _process(world, member)
    _expire(world)
    assert [letter.event_time_ms for letter in _letters(world)] == [NOW_MS // 1000 + n for n in range(RECORDS, 80)]
    assert _listed(world).counts == {"orphan-label": RECORDS}
    assert len(world.rows("predictions", 0)) == RECORDS
    assert verify(world.cluster, world.config).ok


@pytest.mark.parametrize("start_ms", [1, NOW_MS - 10 * 365 * 86_400_000, NOW_MS + HOUR_MS])
def test_outputs_of_any_event_time_are_kept(start_ms: int) -> None:
    """Predictions of a resent year were deleted in the minute in which they were written."""
    world = World()
    member = started(world.worker())
    _send(world, range(RECORDS), lambda number: start_ms + 10 * number)
    _process(world, member)
    _expire(world)
    predictions = [codec.decode_one(value) for _, value, _, _ in world.rows("predictions", 0)]
    outcomes = [codec.decode_one(value) for _, value, _, _ in world.rows("outcomes", 0)]
    expected = [start_ms + 10 * number for number in range(RECORDS)]
    assert [one.event_time_ms for one in predictions if isinstance(one, Prediction)] == expected
    assert [one.event_time_ms for one in outcomes if isinstance(one, Outcome)] == expected
    for topic in OUTPUT_TOPICS:
        for _, _, timestamp_ms, _ in world.rows(topic, 0):
            assert NOW_MS <= -timestamp_ms <= world.clock.now_ms(), "the time of the log"
    assert verify(world.cluster, world.config).ok


def test_a_label_that_waited_keeps_its_own_time_over_a_restore() -> None:
    """Sent back with the time of the record that closed it, it would have a delay that nobody measured."""
    world = World(make_config(join={"ttl_ms": 1_000, "max_clock_lead_ms": 0}))
    member = started(world.worker())
    _send(world, range(5), lambda number: NOW_MS + number, "labels")
    _process(world, member)
    heir = started(world.worker())
    _send(world, [99], lambda _: NOW_MS + 5_000, "examples")
    _process(world, heir)
    letters = _letters(world)
    assert [(letter.reason, letter.event_time_ms) for letter in letters] == [
        ("orphan-label", NOW_MS + number) for number in range(5)
    ]
    assert _resent(world).sent.total() == 5
    assert [time_ms for _, _, time_ms, _ in world.rows("labels", 0)][5:] == [NOW_MS + number for number in range(5)]
    assert verify(world.cluster, world.config).ok
