"""Predictions and outcomes carry chosen headers of their example, however late and however the example ends."""

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from stream_app.backends.clock import ManualClock
from stream_app.config import Config, JoinSettings, LearnerSettings, StreamSettings, TaskSettings
from stream_app.pipeline.outputs import Outputs
from stream_app.pipeline.task import Task
from stream_app.progress_records import ARRIVAL, RESET, Act
from stream_app.records import Example, Header, Label, Mark, MarkKind, Outcome, Side
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.snapshot import segments
from stream_app.verify.reference_state import Record
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from stream_app.worker.reports.observer import Observer
from tests.support.rows import columns
from tests.support.snapshots import Changelog
from tests.support.tasks import PARTITION, TOPICS, settings_of_task

TRACE: Header = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
TENANT: Header = ("tenant", b"north")
OTHER: Header = ("other", b"x")

STREAM = StreamSettings(features=1, champion="one", learners={"one": LearnerSettings(method="baseline", hidden=())})


def settings_with(names: tuple[str, ...] = ("request", "tenant"), **join: object) -> TaskSettings:
    """Return settings under which examples pass on the headers with these names."""
    chosen = JoinSettings.model_validate({"max_clock_lead_ms": 0, "ttl_ms": 100, **join})
    return settings_of_task(join=chosen, pass_headers=names, streams={"a": STREAM}, default_stream=STREAM)


class Running:
    """A task that gets its records one after the other, and keeps what it has published."""

    def __init__(self, settings: TaskSettings) -> None:
        self.task = Task(PARTITION, settings, TOPICS)
        self.changelog = Changelog(settings)
        self.number = 0
        self.predictions: list[Sequence[Header]] = []
        self.outcomes: list[tuple[str, str, Sequence[Header]]] = []

    def example(self, id_: str, *headers: Header, time_ms: int = 0) -> Outputs:
        """Send an example."""
        return self._send(Side.EXAMPLES, Example("a", id_, (0.5,)), headers, time_ms)

    def label(self, id_: str, *headers: Header, label: int = 1, revision: int = 0) -> None:
        """Send a label."""
        self._send(Side.LABELS, Label("a", id_, label, revision), headers)

    def erase(self, id_: str) -> None:
        """Send a mark that erases an id."""
        self._send(Side.EXAMPLES, Mark("a", MarkKind.ERASE, digests=id_digest("a", id_)), ())

    def restart(self) -> None:
        """Continue from a snapshot."""
        self.task = self.changelog.relay(self.task)

    def _send(
        self, side: Side, meaning: Example | Label | Mark, headers: Sequence[Header], time_ms: int = 0
    ) -> Outputs:
        self.number += 1
        value = codec.encode(meaning)
        record = Record(side, self.number, time_ms or self.number, meaning, b"a", value, tuple(headers))
        one, nothing = columns([record]), columns([])
        outputs = self.task.step(*((one, nothing) if side is Side.EXAMPLES else (nothing, one)))
        found = outputs.topics["predictions"]
        self.predictions += [tuple(found.headers.get(row, ())) for row in range(len(found))]
        found = outputs.topics["outcomes"]
        for row in range(len(found)):
            outcome = codec.decode_one(found.values[row] or b"")
            assert isinstance(outcome, Outcome)
            self.outcomes.append((outcome.id, outcome.outcome, tuple(found.headers.get(row, ()))))
        return outputs


@pytest.fixture
def running() -> Running:
    """Return a task that passes on two headers."""
    return Running(settings_with())


def test_a_label_that_comes_later_joins_the_headers_of_its_example(running: Running) -> None:
    """The trace is that of the label, which causes the outcome; the tenant is that of the example."""
    running.example("one", OTHER, TENANT, TRACE)
    running.restart()
    running.label("one", TRACE, ("tenant", b"of the label"))
    running.restart()
    assert running.predictions == [(TRACE, TENANT)]
    assert running.outcomes == [("one", "joined", (TRACE, TENANT))]


def test_a_label_that_waited_gets_the_headers_of_its_example(running: Running) -> None:
    """The headers of the label stay with the label."""
    running.label("one", TRACE, ("tenant", b"of the label"))
    running.restart()
    running.example("one", TENANT)
    assert running.predictions == [(TENANT,)]
    assert running.outcomes == [("one", "joined", (TENANT,))]


def test_examples_that_end_without_a_label_have_their_own_headers() -> None:
    """The record that makes them end has other headers, or none."""
    running = Running(settings_with(max_pending_per_stream=2))
    running.example("one", TENANT)
    running.example("two", ("request", b"2"))
    running.example("three", ("tenant", b"south"))  # evicts the first
    running.restart()
    running.example("late", ("tenant", b"late"), time_ms=1_000)  # closes the others
    running.example("old", ("tenant", b"old"), time_ms=500)
    assert running.outcomes == [
        ("one", "evicted", (TENANT,)),
        ("two", "unlabelled", (("request", b"2"),)),
        ("three", "unlabelled", (("tenant", b"south"),)),
        ("old", "unlabelled", (("tenant", b"old"),)),
    ]


def test_repetitions_and_corrections() -> None:
    """A repeated example has its own headers; a label that repeats or corrects another meets no example any more."""
    running = Running(settings_with(corrections="correct"))
    running.example("one", TENANT)
    running.example("one", ("tenant", b"again"))
    running.label("one", TENANT)
    running.label("one", TENANT)
    running.label("one", TENANT, label=0, revision=1)
    assert running.outcomes == [
        ("one", "duplicate", (("tenant", b"again"),)),
        ("one", "joined", (TENANT,)),
        ("one", "duplicate", ()),
        ("one", "correction", ()),
    ]


def test_what_is_erased_or_reset_ends_with_its_headers_and_leaves_none(running: Running) -> None:
    """Its outcome has them, as each outcome has; no byte of them stays in the state."""
    for id_ in ("one", "two", "three"):
        running.example(id_, ("tenant", f"tenant-of-{id_}".encode()))
    running.restart()
    running.erase("two")
    running.restart()
    written = b"".join(running.changelog.contents[entry.key] for entry in running.changelog.entries)
    assert b"tenant-of-two" not in written
    assert b"tenant-of-three" in written
    running.task.apply(Act(1, RESET, "test", "a"))
    assert running.task.stream("a").passed.allocated_bytes == 0
    running.example("four")
    assert running.outcomes == [
        (id_, "evicted", (("tenant", f"tenant-of-{id_}".encode()),)) for id_ in ("two", "one", "three")
    ]


def test_a_change_of_the_setting_holds_for_examples_from_then_on(running: Running) -> None:
    """What was predicted with a header ends with it, also after a restart."""
    running.example("one", TENANT, OTHER)
    running.task.apply_settings(settings_with(("other",)))
    running.example("two", TENANT, OTHER)
    running.restart()
    running.task.apply_settings(settings_with(()))
    running.example("three", TENANT, OTHER)
    running.restart()
    for id_ in ("one", "two", "three"):
        running.label(id_)
    assert running.predictions == [(TENANT,), (OTHER,), ()]
    assert [headers for _, _, headers in running.outcomes] == running.predictions


def test_segments_with_and_without_headers_are_loaded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows move between segments of a snapshot: each must keep its own headers."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 300)
    running = Running(settings_with(ttl_ms=10_000))
    expected = {}
    for number in range(40):
        headers = [("tenant", b"t" * number), ("request", None)][: number // 5 % 3]
        expected[f"id-{number}"] = tuple(reversed(headers))  # in the order of the setting
        running.example(f"id-{number}", *headers)
        running.restart()
        if number % 3 == 2:
            running.label(f"id-{number - 2}")
    for number in reversed(range(40)):
        if number % 3 or number == 39:
            running.label(f"id-{number}")
    assert {id_: headers for id_, _, headers in running.outcomes} == expected


def test_a_stream_that_moves_takes_the_headers_along(running: Running) -> None:
    """After a repartition, another task publishes the outcome."""
    running.example("one", TENANT)
    moved = running.task.moved("a")
    other = Running(settings_with())
    other.task.apply(Act(1, ARRIVAL, "test", moved.text()))
    other.label("one")
    assert other.outcomes == [("one", "joined", (TENANT,))]


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        ([("tenant", b"a"), ("tenant", b"b")], [("tenant", b"b")]),
        ([("tenant", b"x" * 251)], []),
        ([("tenant", b"a"), ("tenant", b"x" * 251)], []),
        ([("größe", b"x" * 250)], []),
    ],
)
def test_headers_that_are_too_large_or_come_twice_are_dropped(sent: list[Header], passed: list[Header]) -> None:
    """Each output of an example repeats its headers, so a producer must not make them large; drops are counted."""
    running = Running(settings_with(("tenant", "größe")))
    assert running.example("one", *sent).dropped_passed == 1
    assert running.predictions == [tuple(passed)]


def test_all_headers_of_a_record_are_bounded_together() -> None:
    """In the order of the setting, what does not fit is dropped, and what fits after it is kept."""
    names = tuple("abcdef")
    running = Running(settings_with(names))
    sent = [(name, b"x" * 249) for name in "abcde"] + [("f", b"x" * 20)]
    outputs = running.example("one", *sent)
    assert "".join(name for name, _ in running.predictions[0]) == "abcdf"
    assert outputs.dropped_passed == 1
    assert running.example("two", ("a", b"x" * 255), ("g", b"x" * 300)).dropped_passed == 0


def test_without_the_setting_nothing_is_kept() -> None:
    """Headers that nobody chose cost no memory."""
    running = Running(settings_with(()))
    before = running.task.allocated_bytes
    running.example("one", TENANT)
    with_headers = Running(settings_with())
    with_headers.example("one", TENANT)
    assert not running.task.stream("a").passed
    assert with_headers.task.allocated_bytes - running.task.allocated_bytes > len(TENANT[0]) + len(TENANT[1] or b"")
    assert running.task.allocated_bytes >= before


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["traceparent"], "belongs to the trace context"),
        (["tracestate"], "belongs to the trace context"),
        (["areba.reason"], "dead letters have headers of our own"),
        (["__connect.errors.topic"], "dead letters have headers of our own"),
        (["tenant", "tenant"], "'tenant' is named twice"),
        ([f"h{number}" for number in range(9)], "at most 8"),
        ([""], "at least 1"),
    ],
)
def test_names_that_cannot_be_passed_on_are_refused(names: list[str], text: str) -> None:
    """An output would otherwise have two headers of one name, or headers of a dead letter."""
    with pytest.raises(ValidationError, match=text):
        Config.model_validate({"pass_headers": names})


def test_dropped_headers_are_counted_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Traces and passed headers have lines of their own, since they have other causes."""
    clock = ManualClock()
    observer = Observer(clock)
    with caplog.at_level("WARNING"):
        for _ in range(2):
            observer.emit(events.HeadersDropped(1, 5))
            observer.emit(events.TracesDropped(1, 3))
        clock.advance(WARNING_INTERVAL_S)
        observer.emit(events.HeadersDropped(1, 5))
    found = [(record.getMessage().split()[0], getattr(record, "fields", {})["records"]) for record in caplog.records]
    assert found == [("headers-dropped", 5), ("traces-dropped", 3), ("headers-dropped", 10)]
    values = observer.figures.values()[metrics.DROPPED_HEADERS]
    assert values == {("1", "passed"): 15, ("1", "trace"): 6}
