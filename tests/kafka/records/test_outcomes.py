"""Each way in which a record can end: sent through Kafka, and found where it belongs.

A case is a separate stream (named after the case) with its own stretch of time; one run processes all cases. The fate
of every input offset is read from the topics: an outcome, a dead letter, a mark, or still open.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.backends.retention import FOREVER
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction, Reason, Side
from stream_app.serialization import codec
from stream_app.verify.verify import verify
from tests.kafka.records.outcome_cases import (
    CASE_MS,
    CASES,
    CORRECTIONS,
    EXAMPLES,
    FEATURES,
    JOIN_CASES,
    LABELS,
    LEAD_MS,
    MAX_PENDING,
    MAX_RECORD_BYTES,
    MAX_WAITING,
    ODD_ROWS,
    TTL_MS,
    Row,
)
from tests.support.kafka.application import App, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import run_to
from tests.support.kafka.records import example, label
from tests.support.rows import Read, Sent

pytestmark = pytest.mark.kafka


SECTIONS: Mapping[str, Section] = {
    "streams": {name: {"features": FEATURES} for name in (*JOIN_CASES, "odd")},
    "join": {
        "ttl_ms": TTL_MS,
        "max_clock_lead_ms": LEAD_MS,
        "max_pending_per_stream": MAX_PENDING,
        "max_waiting_per_stream": MAX_WAITING,
    },
    "limits": {"max_record_bytes": MAX_RECORD_BYTES},
    "metrics": {"every_labels": 1_000},
}


def _of_case(name: str, number: int, start_ms: int, cases: Mapping[str, Sequence[Row]] | None = None) -> list[Row]:
    """Return the records of a case, with the name of its stream and its times."""
    rows = []
    for sent, fate in (cases or CASES)[name]:
        value, key = sent.value, sent.key
        if not key:
            record = codec.decode_one(value or b"")
            assert isinstance(record, Example | Label | Mark)
            moved = {"stream": name}
            if isinstance(record, Mark) and record.time_ms is not None:
                moved["time_ms"] = record.time_ms + start_ms + number * CASE_MS  # type: ignore[assignment]
            value = codec.encode_unchecked(
                type(record)(**{**{f: getattr(record, f) for f in record.__slots__}, **moved})
            )
            key = name.encode()
        rows.append((sent._replace(time_ms=sent.time_ms + start_ms + number * CASE_MS, value=value, key=key), fate))
    return rows


@dataclass
class Story:
    """Everything that was sent, and everything that was published, by case."""

    sent: dict[str, list[tuple[Sent, int, str]]] = field(default_factory=dict)
    fates: dict[tuple[Side, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    dead: dict[tuple[Side, int], Read] = field(default_factory=dict)
    outcomes: dict[str, list[tuple[Outcome, Read]]] = field(default_factory=lambda: defaultdict(list))
    predictions: dict[str, list[tuple[Prediction, Read]]] = field(default_factory=lambda: defaultdict(list))
    metrics: dict[str, list[tuple[Metric, Read]]] = field(default_factory=lambda: defaultdict(list))

    def send(self, app: App, cases: Mapping[str, Sequence[Row]]) -> None:
        """Send the cases in order; offsets count each side's records."""
        next_offset = [0, 0]
        for name, rows in cases.items():
            self.sent[name] = []
            for record, fate in rows:
                self.sent[name].append((record, next_offset[record.side], fate))
                next_offset[record.side] += 1
        app.send([record for rows in cases.values() for record, _ in rows])

    def read(self, app: App) -> None:
        """Read the outputs."""
        topics = app.config.topics
        outputs = app.outputs(0)
        for read in outputs["predictions"]:
            prediction = codec.decode_one(read.value or b"")
            assert isinstance(prediction, Prediction)
            self.predictions[prediction.stream].append((prediction, read))
        for read in outputs["metrics"]:
            metric = codec.decode_one(read.value or b"")
            assert isinstance(metric, Metric)
            self.metrics[metric.stream].append((metric, read))
        for read in outputs["outcomes"]:
            outcome = codec.decode_one(read.value or b"")
            assert isinstance(outcome, Outcome)
            self.outcomes[outcome.stream].append((outcome, read))
            for side, offset in ((EXAMPLES, outcome.example_offset), (LABELS, outcome.label_offset)):
                if offset is not None:
                    self.fates[side, offset].append(outcome.outcome)
        for read in outputs["dead-letters"]:
            headers = dict(read.headers)
            name = (headers["__connect.errors.topic"] or b"").decode()
            place = Side((topics.examples, topics.labels).index(name)), int(headers["__connect.errors.offset"] or b"")
            self.fates[place].append((headers["areba.reason"] or b"").decode())
            self.dead[place] = read


def _open_fate(record: Sent) -> str:
    decoded = codec.decode_one(record.value or b"")
    return {Example: "pending", Label: "waiting", Mark: "mark"}[type(decoded)]


@pytest.fixture(scope="module")
def story(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Run all cases."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, f"t{uuid.uuid4().hex[:8]}-", tmp_path_factory.mktemp("outcomes"), SECTIONS)
    app.create_topics(FOREVER)
    start_ms = int(time.time() * 1000) - CASE_MS * (len(CASES) + 1)
    result = Story()
    result.send(app, {name: _of_case(name, number, start_ms) for number, name in enumerate(CASES)})
    run_to(app.config, app.input_ends())
    result.read(app)
    check_exactly_once(app)
    return result


@pytest.mark.parametrize("case", CASES)
def test_every_input_record_has_exactly_one_outcome(story: Story, case: str) -> None:
    """Every input offset has exactly one outcome, with the name that the documentation gives it."""
    for record, offset, fate in story.sent[case]:
        found = story.fates[record.side, offset] or [_open_fate(record)]
        assert found == [fate], f"{record.side.name.lower()} offset {offset}"


@pytest.mark.parametrize("case", JOIN_CASES)
def test_every_example_is_predicted_once(story: Story, case: str) -> None:
    """An accepted example has one prediction of the champion, with its time, in every case; a refused one has none."""
    taken = [
        (codec.decode_one(record.value or b"").id, record.time_ms, record.key)  # type: ignore[union-attr]
        for record, _, fate in story.sent[case]
        if record.side is EXAMPLES and fate in {"joined", "unlabelled", "evicted", "pending"}
    ]
    found = [(prediction.id, prediction.event_time_ms, read.key) for prediction, read in story.predictions[case]]
    assert found == taken
    assert all(prediction.champion for prediction, _ in story.predictions[case])


def test_reasons_are_all_met() -> None:
    """A reason that no case has was never tested; `bad-time`, `bad-column` and `moved-stream` have separate tests."""
    met = {fate for rows in CASES.values() for _, fate in rows}
    assert {reason.text for reason in Reason} - met == {"bad-time", "bad-column", "stream-stopped", "moved-stream"}


@pytest.mark.parametrize(("case", "delay_ms"), [("example-then-label", 50), ("label-then-example", -50)])
def test_joined_has_the_champions_prediction_and_the_delay(story: Story, case: str, delay_ms: int) -> None:
    """A reader of outcomes sees the prediction, the true class and the delay without joining topics."""
    [(prediction, _)] = story.predictions[case]
    [(outcome, _)] = story.outcomes[case]
    [(one, first, _), (cause, second, _)] = story.sent[case]
    offsets = (first, second) if one.side is EXAMPLES else (second, first)
    expected = (
        case,
        "a",
        "joined",
        1,
        prediction.learner,
        prediction.score,
        prediction.probability,
        prediction.predicted_class,
        delay_ms,
        *offsets,
        cause.time_ms,
    )
    assert tuple(getattr(outcome, name) for name in Outcome.__slots__) == expected


def test_dead_letters_are_untouched(story: Story) -> None:
    """Key, value and headers can be sent again unchanged; headers of Kafka Connect name origin and reason."""
    count = 0
    for name in ODD_ROWS:
        [(record, offset, fate)] = story.sent[name]
        read = story.dead[record.side, offset]
        assert (read.key, read.value) == (record.key, record.value), name
        assert read.headers[: len(record.headers)] == record.headers, name
        added = dict(read.headers[len(record.headers) :])
        assert (added["__connect.errors.topic"] or b"").decode().endswith(("examples", "labels")[record.side])
        assert added["__connect.errors.partition"] == b"0"
        assert added["__connect.errors.offset"] == str(offset).encode()
        assert added["__connect.errors.exception.class.name"] == f"areba.{fate}".encode()
        assert f"offset {offset}".encode() in (added["__connect.errors.exception.message"] or b"")
        assert added["areba.event_time_ms"] == str(record.time_ms).encode(), name
        count += 1
    assert count == len(ODD_ROWS)


def test_a_label_that_waited_is_untouched_too(story: Story) -> None:
    """Its dead letter comes long after the record, but has key, value and offset of the label."""
    (record, offset, _), _ = story.sent["orphan-by-expiry"]
    read = story.dead[LABELS, offset]
    assert (read.key, read.value) == (record.key, record.value)
    assert dict(read.headers)["areba.event_time_ms"] == str(record.time_ms).encode()


def test_an_advance_pair_flushes_metrics(story: Story) -> None:
    """A finite stream ends with its last figures, one record for each learner; a single mark publishes nothing."""
    metrics = [metric for metric, _ in story.metrics["advance-pair"]]
    assert [(metric.learner, metric.champion) for metric in metrics] == [("areba", True), ("baseline", False)]
    assert all((m.examples, m.unlabelled, m.pending, m.labelled) == (3, 2, 1, 0) for m in metrics)
    assert not story.metrics["lone-advance"]


def test_promote_changes_the_champion_from_there_on(story: Story) -> None:
    """The outcome, too, names the prediction that counted when the example came."""
    predictions = [(p.id, p.learner) for p, _ in story.predictions["promoted"]]
    assert predictions == [("a", "areba"), ("b", "baseline")]
    assert [(o.id, o.learner) for o, _ in story.outcomes["promoted"]] == predictions
    champions = {metric.learner: metric.champion for metric, _ in story.metrics["promoted"]}
    assert champions == {"areba": False, "baseline": True}


def test_a_promoted_threshold_decides_from_there_on(story: Story) -> None:
    """Each prediction says what decided its class, and an outcome has the class that was decided."""
    predictions = [(p.id, p.threshold_kind, p.threshold) for p, _ in story.predictions["decides"]]
    assert predictions == [("a", "majority", None), ("b", "score", 0.0), ("c", "score", 0.0)]
    classes = {p.id: p.predicted_class for p, _ in story.predictions["decides"]}
    assert (classes["b"], classes["c"]) == (1, 1)
    assert [(o.id, o.predicted_class) for o, _ in story.outcomes["decides"]] == [("a", classes["a"]), ("b", 1)]


def test_corrections(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """With `corrections: correct` a label with a higher revision replaces the class, and `areba verify` accepts it."""
    assert kafka.bootstrap_servers is not None
    join = {"ttl_ms": TTL_MS, "max_clock_lead_ms": LEAD_MS, "corrections": "correct"}
    streams = {name: {"features": FEATURES} for name in CORRECTIONS}
    app = App(kafka.bootstrap_servers, prefix, tmp_path, {"streams": streams, "join": join, "predictions": "all"})
    app.create_topics(FOREVER)
    start_ms = int(time.time() * 1000) - CASE_MS * (len(CORRECTIONS) + 1)
    cases = {name: _of_case(name, number, start_ms, CORRECTIONS) for number, name in enumerate(CORRECTIONS)}
    story = Story()
    story.send(app, cases)
    run_to(app.config, app.input_ends())
    story.read(app)
    check_exactly_once(app)
    for name in CORRECTIONS:
        for record, offset, fate in story.sent[name]:
            assert (story.fates[record.side, offset] or [_open_fate(record)]) == [fate], name
    corrected = [outcome for outcome, _ in story.outcomes["of-a-joined-example"] if outcome.outcome == "correction"]
    assert [(outcome.label, outcome.example_offset, outcome.delay_ms) for outcome in corrected] == [(0, None, None)]
    waited = [(outcome.outcome, outcome.label) for outcome, _ in story.outcomes["of-a-label-that-waits"]]
    assert waited == [("correction", 0), ("joined", 0)]
    metrics = [metric for metric, _ in story.metrics["of-a-joined-example"]]
    windows = [(metric.labelled, metric.main_window) for metric in metrics]
    figures = [(labelled, window.positive_total, window.negative_total) for labelled, window in windows]
    assert figures == [(2, 0.0, 1.99)] * len(metrics), "a negative label has come since its own"
    assert metrics
    assert verify(app.cluster, app.config).findings == ()


def test_a_record_without_time(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Event time is the only clock, so a record without a timestamp is a dead letter, and does not move stream time."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, {"streams": {"s": {"features": 1}}})
    app.create_topics(FOREVER)
    now = int(time.time() * 1000) - 10_000
    rows = [
        (example("s", "a", [1.0], now), "joined"),
        (example("s", "b", [1.0], -1), "bad-time"),
        (label("s", "a", 1, -5), "bad-time"),
        (label("s", "a", 1, now + 1), "joined"),
    ]
    story = Story()
    story.send(app, {"all": rows})
    run_to(app.config, app.input_ends())
    story.read(app)
    check_exactly_once(app)
    for record, offset, fate in story.sent["all"]:
        assert story.fates[record.side, offset] == [fate]
    for side, offset in ((EXAMPLES, 1), (LABELS, 0)):
        assert abs(story.dead[side, offset].time_ms) > now, "the log's own time, which retention counts from"


def test_on_the_fly(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """With `unknown_streams: model` a new stream has a model from its first example, up to a limit; traces are copied.

    Also tested: `predictions: all` publishes the challengers' predictions, and the first example sets the dimension.
    """
    assert kafka.bootstrap_servers is not None
    sections: Mapping[str, Section] = {
        "unknown_streams": "model",
        "predictions": "all",
        "limits": {"max_streams_per_task": 2},
        "metrics": {"every_labels": 1},
    }
    app = App(kafka.bootstrap_servers, prefix, tmp_path, sections)
    app.create_topics(FOREVER)
    now = int(time.time() * 1000) - 10_000
    trace = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    rows = [
        (example("new", "a", [1.0, 2.0, 3.0], now)._replace(headers=(("other", b"x"), trace)), "joined"),
        (example("new", "b", [1.0], now + 1), "wrong-dimension"),
        (example("newer", "a", [1.0], now + 2), "pending"),
        (example("newest", "a", [1.0], now + 3), "unknown-stream"),
        (label("new", "a", 1, now + 4)._replace(headers=(trace, ("other", b"y"))), "joined"),
    ]
    story = Story()
    story.send(app, {"all": rows})
    run_to(app.config, app.input_ends())
    story.read(app)
    check_exactly_once(app)
    for record, offset, fate in story.sent["all"]:
        assert (story.fates[record.side, offset] or [_open_fate(record)]) == [fate]
    found = [(p.stream, p.learner, p.champion, read.headers) for p, read in story.predictions["new"]]
    assert found == [("new", "areba", True, (trace,)), ("new", "baseline", False, (trace,))]
    assert [read.headers for _, read in story.outcomes["new"]] == [(trace,)]
    assert [read.headers for _, read in story.metrics["new"]] == [(trace,)] * 2
