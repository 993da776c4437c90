"""Event time alone decides whether labels have stopped coming."""

import logging
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from stream_app.backends.clock import ManualClock
from stream_app.config import Config
from stream_app.pipeline.task import Task
from stream_app.pipeline.watched.label_flow import ENOUGH, WINDOW, LabelFlow, flow_of
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label, Metric
from stream_app.serialization import codec
from stream_app.serialization.codec import decode_one
from stream_app.task_state import TaskState
from stream_app.worker.reports import metrics
from stream_app.worker.reports.events import RoundEnded
from stream_app.worker.reports.log import NAMED_STREAMS, WARNING_INTERVAL_S
from stream_app.worker.reports.observer import Observer
from stream_app.worker.stream_watch import MissingLabels
from tests.support.world import World, make_config, started, take_turns

TTL_MS = 60_000
DELAY_MS = 1_000


class _Fed:
    """A task with one stream, fed example by example."""

    def __init__(self, config: Config | None = None) -> None:
        chosen = config or make_config(join={"ttl_ms": TTL_MS, "max_clock_lead_ms": 0, "closed_ttl_ms": TTL_MS})
        self.task = Task(0, chosen.task_settings(), ("examples", "labels"))
        self._offsets = [0, 0]

    def feed(self, examples: Iterable[tuple[int, int]], labels: Iterable[tuple[int, int]] = ()) -> LabelFlow:
        """Process examples and labels given by number and time; return the flow of labels then."""
        self.task.step(
            self._raw(0, [(codec.encode(Example("s0", str(number), [1.0])), time) for number, time in examples]),
            self._raw(1, [(codec.encode(Label("s0", str(number), number % 2)), time) for number, time in labels]),
        )
        return flow_of(self.task.stream("s0").join)

    def _raw(self, side: int, rows: Sequence[tuple[bytes, int]]) -> RawRecords:
        offsets = np.arange(len(rows), dtype=np.int64) + self._offsets[side]
        self._offsets[side] += len(rows)
        times = np.array([time for _, time in rows], np.int64)
        return RawRecords.of(offsets, times, [b"s0"] * len(rows), [value for value, _ in rows])


def _usual(fed: _Fed, count: int, interval_ms: int = 100, every: int = 1, delay_ms: int = DELAY_MS) -> int:
    """Process an example each interval and a label for each `every`-th example; return the last event time."""
    examples = [(number, (number + 1) * interval_ms) for number in range(count)]
    labels = [(number, time + delay_ms) for number, time in examples if number % every == 0]
    fed.feed(examples, [label for label in labels if label[1] <= examples[-1][1]])
    return examples[-1][1]


def test_labels_that_stop() -> None:
    """It is reported when twice the usual delay has passed, with both figures, and ends when a label is joined."""
    fed = _Fed()
    now_ms = _usual(fed, 2 * ENOUGH)
    number = 2 * ENOUGH
    seen = []
    for step in range(40):
        now_ms += 100
        flow = fed.feed([(number + step, now_ms)])
        seen.append(flow.problem(1.0) is not None)
    assert flow.usual_delay_ms == pytest.approx(DELAY_MS, rel=0.032)
    assert flow.silence_ms == 4_000
    first = seen.index(True)
    assert seen == [False] * first + [True] * (40 - first)
    assert (first + 1) * 100 == pytest.approx(2 * DELAY_MS, rel=0.1)
    assert fed.feed([], [(number, now_ms)]).problem(1.0) is None


def test_streams_with_few_examples_or_labels_are_silent_and_well() -> None:
    """A permanent alarm is useless: silence counts only where labels would have come by now."""
    sparse = _Fed(make_config(join={"max_clock_lead_ms": 0}))
    now_ms = 0
    for number in range(2 * ENOUGH):
        now_ms += 3_600_000
        assert sparse.feed([(number, now_ms)]).problem(1.0) is None
        assert sparse.feed([], [(number, now_ms + 5)]).problem(1.0) is None
    assert sparse.feed([(number + 1, now_ms + 3_600_000)]).problem(1.0) is None
    assert sparse.feed([(number + 2, now_ms + 7_200_000)]).problem(1.0) is None, "one label may be missing"
    lost = [sparse.feed([(number + 3 + more, now_ms + (3 + more) * 3_600_000)]).problem(1.0) for more in range(3)]
    assert lost[-1] is not None

    few = _Fed()
    now_ms = _usual(few, 20_000, interval_ms=10, every=100, delay_ms=50)
    number = 20_000
    while (flow := few.feed([(number, now_ms := now_ms + 10)])).problem(1.0) is None:
        number += 1
        assert number < 40_000
    assert flow.silence_ms is not None
    assert flow.silence_ms > 5 * 100 * 10, "five labels and more were due: a label comes for each hundredth example"


def test_a_new_stream_has_no_usual_delay() -> None:
    """A stream whose labels take a day has no usual delay on its first day."""
    fed = _Fed()
    flow = fed.feed([(number, 10 * number + 1) for number in range(500)])
    assert (flow.silence_ms, flow.problem(1.0)) == (None, None)
    assert fed.feed([], [(0, 5_000)]).problem(1.0) is None
    assert fed.feed([(500 + number, 6_000 + number) for number in range(500)]).problem(1.0) is None


def test_examples_after_a_pause_whose_labels_are_read_later() -> None:
    """Two topics are read in turn: a burst after minutes of silence is no sign that labels have stopped."""
    fed = _Fed()
    now_ms = _usual(fed, 2 * ENOUGH, delay_ms=1) + 400_000
    burst = [(2 * ENOUGH + number, now_ms + number) for number in range(500)]
    assert fed.feed(burst).problem(1.0) is None
    assert fed.feed([], [(number, time + 1) for number, time in burst]).problem(1.0) is None
    gone = fed.feed([(1_000 + number, now_ms + 1_000 + 10 * number) for number in range(300)])
    assert gone.problem(1.0) is not None, "and two seconds of it are"


def test_labels_without_delay() -> None:
    """Without a delay, the next example must not raise an alarm."""
    fed = _Fed()
    for number in range(2 * ENOUGH):
        assert fed.feed([(number, 100 * number + 1)]).problem(1.0) is None
        fed.feed([], [(number, 100 * number + 1)])


def test_too_many_unlabelled_examples_are_reported() -> None:
    """The flow reports it if too many examples end without a label, even if some labels come."""
    fed = _Fed()
    now_ms = _usual(fed, 4 * WINDOW, interval_ms=100, every=4)
    flow = fed.feed([(4 * WINDOW, now_ms + 100)])
    assert flow.unlabelled_share == pytest.approx(0.75, abs=0.01)
    assert flow.problem(0.5) is not None
    assert flow.problem(0.8) is None
    assert flow.problem(1.0) is None


def test_long_after_all_is_forgotten() -> None:
    """Closed examples are dropped after some time, but the fact that labels have stopped is not."""
    fed = _Fed()
    now_ms = _usual(fed, 2 * ENOUGH)
    number = 2 * ENOUGH
    for step in range(60):
        flow = fed.feed([(number + step, now_ms := now_ms + TTL_MS // 10)])
    assert flow.silence_ms is not None
    assert flow.silence_ms >= TTL_MS
    assert flow.problem(1.0) is not None


def _send(world: World, first: int, count: int, *, labelled: bool = True) -> None:
    for number in range(first, first + count):
        world.put("examples", 0, b"s0", codec.encode(Example("s0", str(number), [1.0])), 100 * number + 1)
        if labelled:
            world.put("labels", 0, b"s0", codec.encode(Label("s0", str(number), number % 2)), 100 * number + 201)


def _flow(observer: Observer) -> dict[str, float]:
    """Return the metrics of the stream."""
    found = {metric.name: values.get(("0", "s0")) for metric, values in observer.figures.values().items()}
    return {name: value for name, value in found.items() if value is not None}


def test_a_worker_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A worker reports it in metrics and with one warning, also after it takes over the task; outputs do not change."""
    caplog.set_level(logging.INFO)
    world = World(make_config(worker={"max_batch_records": 50, "snapshot_after_ms": 0}))
    observer = Observer(world.clock, publishes=True)
    member = started(world.worker(observer=observer))
    _send(world, 0, 150)
    take_turns(member, until=lambda: any(task.offsets == (150, 150) for task in member.tasks))
    world.clock.advance(2)
    member.turn()
    member.turn()
    flow = _flow(observer)
    assert flow["areba_labels_missing"] == 0
    published = [decode_one(value) for _, value, *_ in world.rows("metrics", 0)]
    delays = [one.delay_ms_p99 for one in published if isinstance(one, Metric)]
    assert flow["areba_label_delay_p99_seconds"] == (delays[-1] or 0) / 1000

    _send(world, 150, 50, labelled=False)
    take_turns(member, until=lambda: any(task.offsets == (200, 150) for task in member.tasks))
    for _ in range(3):
        world.clock.advance(2)
        member.turn()
    assert _flow(observer)["areba_labels_missing"] == 1
    assert _flow(observer)["areba_label_silence_seconds"] == pytest.approx(4.8, abs=0.3)
    lines = [record for record in caplog.records if record.getMessage().startswith("labels")]
    assert [(line.levelno, "'s0': no label was joined for" in line.getMessage()) for line in lines] == [
        (logging.WARNING, True)
    ]

    again = Observer(world.clock, publishes=True)
    other = started(world.worker(observer=again))
    take_turns(other, until=lambda: len(other.tasks) == 2 and all(task.state is TaskState.LIVE for task in other.tasks))
    for _ in range(2):
        world.clock.advance(2)
        other.turn()
    assert _flow(again)["areba_labels_missing"] == 1
    _send(world, 200, 1)
    take_turns(other, until=lambda: any(task.offsets == (201, 151) for task in other.tasks))
    world.clock.advance(WARNING_INTERVAL_S)
    other.turn()
    other.turn()
    assert _flow(again)["areba_labels_missing"] == 0
    assert "labels task=0 stream='s0': they are coming again" in caplog.messages


def test_labels_that_meet_no_example() -> None:
    """Wrong ids: the labels wait, and nothing else would be said for as long as `join.ttl_ms`."""
    fed = _Fed()
    flow = fed.feed(
        [(number, 100 * number + 1) for number in range(ENOUGH + 20)],
        [(number + (1_000_000 if number >= 10 else 0), 100 * number + 50) for number in range(ENOUGH + 19)],
    )
    assert (flow.unmatched, flow.matched) == (ENOUGH - 1, 0), "the labels of the last second may be early"
    assert flow.problem(1.0) is None
    flow = fed.feed([(ENOUGH + 20, 100 * (ENOUGH + 40))])
    assert (flow.unmatched, flow.matched) == (ENOUGH + 9, 0)
    assert flow.problem(1.0) is not None
    later = [(number, 100 * number + 1) for number in range(ENOUGH + 50, 3 * ENOUGH + 50)]
    flow = fed.feed(later, [(number, time + 5) for number, time in later])
    assert flow.matched > flow.unmatched, "the ids were corrected"
    assert flow.problem(1.0) is None


@pytest.mark.parametrize(("is_labelled", "counted"), [(True, 1), (False, 0)])
def test_a_table_that_is_almost_full(is_labelled: bool, counted: int, caplog: pytest.LogCaptureFixture) -> None:
    """Before examples are evicted whose labels come later: a line, and an alert unless no label ever came."""
    world = World(make_config(join={"max_pending_per_stream": 20}))
    observer = Observer(world.clock, publishes=True)
    member = started(world.worker(observer=observer))
    _send(world, 0, 1, labelled=is_labelled)
    _send(world, 1, 18, labelled=False)
    take_turns(member, until=lambda: any(task.offsets == (19, is_labelled) for task in member.tasks))
    for _ in range(3):
        world.clock.advance(2)
        member.turn()
    lines = [message for message in caplog.messages if message.startswith("table-near-bound")]
    assert len(lines) == 1
    assert "join.max_pending_per_stream" in lines[0]
    assert observer.figures.values()[metrics.CROWDED_STREAMS]["0",] == counted


def test_one_warning_for_many_streams(caplog: pytest.LogCaptureFixture) -> None:
    """A producer of labels that stops affects all its streams: that is one line, not ten thousand."""
    world = World()
    observer = Observer(world.clock)
    missing = MissingLabels(observer)
    silent = LabelFlow(10_000, 1_000, 1.0, 100, None)
    for number in range(500):
        missing.look(0, f"s{number}", silent.problem(1.0), 100)
    observer.emit(RoundEnded(0.0))
    missing.look(0, "later", silent.problem(1.0), 100)
    observer.emit(RoundEnded(0.0))
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.endswith(f"and of {500 - NAMED_STREAMS} more streams")
    world.clock.advance(WARNING_INTERVAL_S)
    observer.emit(RoundEnded(0.0))
    assert "'later'" in caplog.records[-1].getMessage()


def test_labels_that_were_forgotten_have_not_come_again(caplog: pytest.LogCaptureFixture) -> None:
    """The log said "they are coming again" of a stream without any label, once its closed ids were forgotten."""
    observer = Observer(ManualClock())
    missing = MissingLabels(observer)
    with caplog.at_level(logging.INFO):
        assert missing.look(0, "s0", "100.0% of the newest examples ended without a label", 0)
        observer.emit(RoundEnded(0.0))
        assert missing.look(0, "s0", None, 0)
        assert not any("coming again" in message for message in caplog.messages)
        assert not missing.look(0, "s0", None, 1)
    assert any("coming again" in message for message in caplog.messages)
    assert missing.look(0, "s0", "silent", 5)
    observer.emit(RoundEnded(WARNING_INTERVAL_S))
    caplog.clear()
    assert not missing.look(0, "s0", None, 0), "the stream was reset"
    assert not caplog.messages
