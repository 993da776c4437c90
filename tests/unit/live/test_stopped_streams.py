"""A stream that the breaker stopped: an act stops it, a mark lets it continue, and the other streams never notice."""

import numpy as np
import pytest

from stream_app.backends.clock import ManualClock
from stream_app.config import BreakerSettings
from stream_app.live.breaker import Breaker
from stream_app.pipeline.steps.routed import Judged
from stream_app.progress_records import STOP, Act, Commit
from stream_app.records import Example, Label, Mark, MarkKind, Outcome
from stream_app.serialization import codec
from stream_app.snapshot.stops import Stop
from stream_app.task_state import TaskState
from stream_app.verify.verify import verify
from tests.support.damages.world import stopped_world
from tests.support.world import BREAKER, TickingClock, World, make_config, reaches, started, take_turns


def _reasons(world: World, partition: int = 0) -> list[str]:
    return [str(dict(headers)["areba.reason"], "utf-8") for *_, headers in world.rows("dead-letters", partition)]


def test_one_stream_does_not_stop_the_others() -> None:
    """A producer of rubbish stopped every stream of its task until an operator came."""
    world = World(make_config(streams={"s0": {"features": 1}, "s1": {"features": 1}, "t": {"features": 1}}, **BREAKER))
    world.send(3)
    world.garbage(0)
    member = started(world.worker())
    take_turns(member, until=lambda: reaches(member, (6, 3)))
    for number in range(4):
        world.put("examples", 0, b"t", codec.encode(Example("t", str(number), [1.0])), 100 + number)
        world.put("labels", 0, b"t", codec.encode(Label("t", str(number), 1)), 100 + number)
        world.put("examples", 0, b"s0", codec.encode(Example("s0", f"x{number}", [1.0])), 100 + number)
        world.put("labels", 0, b"s0", codec.encode(Label("s0", f"x{number}", 1)), 100 + number)
    take_turns(member, until=lambda: reaches(member, (14, 11)))
    outcomes = [codec.decode_one(value) for _, value, *_ in world.rows("outcomes", 0)]
    joined = [one.stream for one in outcomes if isinstance(one, Outcome)]
    assert joined == ["s0"] * 3 + ["t"] * 4
    assert _reasons(world) == ["wrong-schema"] * 3 + ["stream-stopped"] * 8
    assert member.tasks[0].live.task.stopped == {"s0": "3 malformed examples in a row (limit 3)"}


def test_a_stop_is_an_act_and_ends_with_a_mark() -> None:
    """The commit names the stopped stream until the mark; what comes after the mark is processed as always."""
    world, member = stopped_world()
    acts = [act for act in world.progress(0) if isinstance(act, Act)]
    assert [act.kind for act in acts] == ["configuration", STOP]
    assert Stop.from_text(acts[-1].text) == ("s0", "3 malformed examples in a row (limit 3)")
    last = world.progress(0)[-1]
    assert isinstance(last, Commit)
    assert last.stops == {"s0": "3 malformed examples in a row (limit 3)"}
    world.resume(0)
    world.resume(0)  # two operators
    world.send(2, first=7)
    take_turns(member, until=lambda: reaches(member, (14, 9)))
    last = world.progress(0)[-1]
    assert isinstance(last, Commit)
    assert (last.stopped_streams, last.stops) == (0, {})
    assert _reasons(world) == ["wrong-schema"] * 3 + ["stream-stopped"] * 2
    assert len(world.rows("outcomes", 0)) == 8


def test_pending_examples_of_a_stopped_stream_stay_pending() -> None:
    """The label of an example from before the stop may be sent back, and must still find the example."""
    world = World(make_config(**BREAKER))
    world.put("examples", 0, b"s0", codec.encode(Example("s0", "early", [1.0])), 60)
    world.garbage(0)
    member = started(world.worker())
    take_turns(member, until=lambda: reaches(member, (4, 0)))
    world.put("examples", 0, b"s0", codec.encode(Example("s0", "late", [1.0])), 10**12)
    world.put("labels", 0, b"s0", codec.encode(Label("s0", "early", 1)), 70)
    take_turns(member, until=lambda: reaches(member, (5, 1)))
    world.resume(0, 10**12)
    take_turns(member, until=lambda: reaches(member, (6, 1)))
    world.put("labels", 0, b"s0", codec.encode(Label("s0", "early", 1)), 70)
    take_turns(member, until=lambda: reaches(member, (6, 2)))
    [(_, value, *_)] = world.rows("outcomes", 0)
    found = codec.decode_one(value)
    assert isinstance(found, Outcome)
    assert found.outcome == "joined"


def test_marks_of_a_stopped_stream_wait_in_the_dead_letters() -> None:
    """A promotion in the middle of rubbish would be applied to a stream that nobody looks at."""
    world, member = stopped_world()
    for mark in (Mark("s0", MarkKind.PROMOTE, learner="areba"), Mark("s0", MarkKind.ADVANCE, time_ms=10**15)):
        world.put("examples", 0, b"s0", codec.encode(mark), 100)
    take_turns(member, until=lambda: reaches(member, (12, 7)))
    assert _reasons(world)[-2:] == ["stream-stopped"] * 2


def test_a_configured_stream_that_never_sent_anything_sound_is_stopped() -> None:
    """A producer may be wrong from its first record on."""
    world = World(make_config(**BREAKER))
    world.garbage(0, 4)
    member = started(world.worker())
    take_turns(member, until=lambda: reaches(member, (4, 0)))
    world.send(1)
    take_turns(member, until=lambda: reaches(member, (5, 1)))
    assert member.tasks[0].live.task.stopped == {"s0": "4 malformed examples in a row (limit 3)"}
    world.resume(0)
    world.send(1, first=7)
    take_turns(member, until=lambda: reaches(member, (7, 2)))
    assert not member.tasks[0].live.task.stopped
    assert len(world.rows("outcomes", 0)) == 1


def test_tombstones_are_counted_and_stop_nothing() -> None:
    """A purge in the source's table writes thousands of them; they are no dead letters that somebody has to look at."""
    world = World(make_config(**BREAKER))
    world.send(1)
    for _ in range(10):
        world.put("examples", 0, b"s0", None, 20)
    member = started(world.worker())
    take_turns(member, until=lambda: reaches(member, (11, 1)))
    world.send(1, first=1)
    take_turns(member, until=lambda: reaches(member, (12, 2)))
    assert len(world.rows("outcomes", 0)) == 2
    assert not world.rows("dead_letters", 0)
    report = verify(world.cluster, world.config, rerun=True)
    assert not report.findings
    assert report.figures["s0"].example_tombstones == 10


def test_a_resume_counts_for_the_next_owner() -> None:
    """A stream that was resumed would be stopped again by its first bad record once another worker has restored it."""
    world, member = stopped_world()
    world.resume(0)
    take_turns(member, until=lambda: reaches(member, (11, 7)))
    again = started(world.worker())
    take_turns(again, until=lambda: reaches(again, (11, 7)))
    world.garbage(0, 1)
    world.send(1, first=7)
    take_turns(again, until=lambda: reaches(again, (13, 8)))
    world.send(1, first=8)
    take_turns(again, until=lambda: reaches(again, (14, 9)))
    assert not again.tasks[0].live.task.stopped


@pytest.mark.parametrize("clock", [ManualClock, TickingClock])
def test_a_stop_in_the_past_is_history(clock: type[ManualClock]) -> None:
    """A restore repeats a stop and its resume, wherever a slice ends."""
    world, member = stopped_world()
    world.resume(0)
    world.send(10, first=20)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(21, 17), (17, 17)])
    before = world.outputs()
    models = [task.live.model_digest() for task in member.tasks]
    world.use(clock())
    again = started(world.worker())
    take_turns(again, until=lambda: len(again.tasks) == 2 and all(task.state is TaskState.LIVE for task in again.tasks))
    assert [task.live.model_digest() for task in again.tasks] == models
    assert world.outputs() == before


def test_a_restarted_worker_stays_stopped() -> None:
    """A restart does not resume the stream, and the log names it again."""
    world, _ = stopped_world()
    again = started(world.worker())
    take_turns(again, until=lambda: len(again.tasks) == 2 and all(task.state is TaskState.LIVE for task in again.tasks))
    assert again.tasks[0].live.task.stopped == {"s0": "3 malformed examples in a row (limit 3)"}


def test_a_stop_that_was_due_is_recorded_by_the_next_owner() -> None:
    """The worker dies between the batch that reaches the limit and the batch that would record the stop."""
    world = World(make_config(**BREAKER))
    world.send(2)
    world.garbage(0)
    member = started(world.worker())
    take_turns(member, until=lambda: reaches(member, (5, 2)))
    again = started(world.worker())
    world.send(1, first=2)
    take_turns(again, until=lambda: reaches(again, (6, 3)))
    assert [act.kind for act in world.progress(0) if isinstance(act, Act)] == ["configuration", STOP]


# The counts -----------------------------------------------------------------------------------------------------------


SETTINGS = BreakerSettings(in_a_row=4, share=0.5, share_after_records=20)
NAMES = ("a", "b")


def _side(text: str) -> Judged:
    """Return records by their letters: `x` is malformed, `.` is sound, of stream a; `X` and `:` of stream b."""
    streams = np.array([letter in "X:" for letter in text], np.int32)
    return Judged(streams, np.array([letter in "xX" for letter in text], np.bool_), len(NAMES))


def _counted(*batches: tuple[str, str]) -> Breaker:
    breaker = Breaker(SETTINGS)
    for batch in batches:
        breaker.count(tuple(map(_side, batch)), NAMES)
    return breaker


@pytest.mark.parametrize(
    ("batches", "stops"),
    [
        (["xxx"], False),
        (["xxxx"], True),
        (["xx", "xx"], True),
        (["xx", "", "xx"], True),
        (["xx", ".xx"], False),
        (["xxx.", "xxx"], False),
        (["..xx", "x", "x"], True),
        (["xx.xxxx.x"], True),
        ([".xxxx"], True),
        (["xx." * 6], False),  # 12 of 18: too few to say
        (["xx." * 7], True),  # 14 of 21
        (["x." * 15], False),  # half, not more
        (["." * 1_000, "xx." * 7], True),  # a share is counted from the first malformed record on
        (["x:x:x:x"], True),  # another stream breaks no run
        (["xXxXxX"], False),  # and adds to none
    ],
)
def test_stops(batches: list[str], stops: bool) -> None:
    """A run is counted across batches; a share counts only after enough records."""
    found = [bool(_counted(*[(batch, "") for batch in batches[:end]]).due) for end in range(1, len(batches) + 1)]
    assert found == [False] * (len(batches) - 1) + [stops]


def test_says_why() -> None:
    """The reason names the limit that was exceeded, and both numbers."""
    assert _counted(("..xxxxx", "")).due == {"a": "5 malformed examples in a row (limit 4)"}
    assert _counted(("xxx." * 10, "")).due == {"a": "75.0% of 40 examples malformed (limit 50.0%)"}


def test_each_stream_and_each_input_counts_by_itself() -> None:
    """Sound labels must not hide that no example can be read, and one producer must not stop another's stream."""
    assert not _counted(*[("x", ".")] * 3).due
    assert _counted(*[("x", ".")] * 4).due == {"a": "4 malformed examples in a row (limit 4)"}
    assert _counted(("....", "XXXX")).due == {"b": "4 malformed labels in a row (limit 4)"}
    assert not _counted(("xx", "xx")).due


def test_a_stream_that_was_stopped_counts_from_zero() -> None:
    """After `areba resume`, one bad record must not stop the stream again."""
    breaker = _counted(("xxxxXXX", ""))
    assert dict(breaker.take_due()) == {"a": "4 malformed examples in a row (limit 4)"}
    assert not breaker.due
    breaker.count((_side("xxxX"), _side("")), NAMES)
    assert breaker.due == {"b": "4 malformed examples in a row (limit 4)"}


def test_a_stop_that_is_due_outlives_a_restart() -> None:
    """The stop is recorded with the next batch, and the worker may die before."""
    counts = _counted(("xxxx", ""), (".", "")).counts
    again = Breaker(SETTINGS)
    again.load(counts)
    assert again.due == {"a": "4 malformed examples in a row (limit 4)"}


def test_records_of_no_stream_count_for_none() -> None:
    """Names are chosen by producers: invented names must take no memory."""
    breaker = Breaker(SETTINGS)
    nobody = Judged(np.full(9, -1, np.int32), np.ones(9, np.bool_), len(NAMES))
    breaker.count((nobody, nobody), NAMES)
    assert breaker.counts == ({}, {})
