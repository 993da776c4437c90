"""`areba verify` must find and name whatever is off: each test breaks one thing that would cost a user his trust."""

import io
import random
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from producers.faults import Faults
from producers.label_delay import parse_label_delay
from producers.plan import Plan, StreamPlan
from producers.replay import replay
from producers.sources import parse_source
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Committed, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.config import Config
from stream_app.errors import ConfigurationError, TopicError
from stream_app.pipeline import stream as stream_module
from stream_app.records import (
    Act,
    Commit,
    Example,
    Label,
    Mark,
    MarkKind,
    Metric,
    Outcome,
    Prediction,
    Reason,
    Side,
)
from stream_app.recovery.commit_point import CommitPoint
from stream_app.serialization import codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.left_out import Fields, fitted
from stream_app.terminal import Terminal
from stream_app.verify import verify
from stream_app.verify.metrics_check import Recount, change_fault
from stream_app.verify.output_checks import Output
from stream_app.verify.results import MAX_FINDINGS, Code
from stream_app.verify.topic_reader import read_value
from tests.support.verified_log import (
    CONFIG,
    CORRECTING,
    SHORT_LIVED,
    TOPICS,
    Log,
    Stored,
    encoded,
    findings,
    history,
    lines,
    oracle,
    places,
    processed,
    put,
    text_of,
    where,
)


@pytest.fixture(scope="module")
def true_log() -> Log:
    """A history in which nothing is off; not to be changed."""
    return history()


@pytest.fixture
def log(true_log: Log) -> Log:
    """A copy, to break something in it."""
    return Log({name: list(records) for name, records in true_log.records.items()}, dict(true_log.offsets))


@pytest.mark.parametrize(("seed", "batch", "kept"), [(1, 97, 1.0), (2, 7, 1.0), (3, 100_000, 1.0), (4, 50, 0.6)])
def test_a_true_history_has_no_finding(seed: int, batch: int, kept: float) -> None:
    """A checker that cries wolf is not looked at any more: all faults, all cuts, and a group that is behind."""
    report = verify.verify(history(seed, batch, kept), CONFIG)
    assert list(report.findings) == []
    assert report.ok
    sine = report.figures["sine"]
    assert sine.predictions["areba"] == sine.predictions["baseline"] == sine.champion_predictions > 60
    assert min(sine.joined, sine.example_duplicates, sine.label_duplicates) > 0
    assert sine.example_marks == (kept == 1.0)
    assert sine.example_dead_letters["wrong-dimension"] == sine.example_dead_letters["not-finite"] == 1
    assert sine.label_dead_letters["bad-label"] == sine.label_dead_letters["unknown-learner"] == 1
    assert report.figures["nobody"].example_dead_letters == {"unknown-stream": 1}
    if kept == 1.0:
        assert min(report.figures["slow"].evicted, report.figures["sea"].unlabelled, sine.unlabelled) > 0
        both = sine.label_dead_letters + report.figures["sea"].label_dead_letters
        assert {"late-label", "orphan-label", "conflicting-label"} <= both.keys()


def test_the_report_is_shown(log: Log) -> None:
    """The operator reads this: the verdict, each stream, each reason."""
    out = io.StringIO()
    verify.verify(log, CONFIG).show(Terminal(file=out, width=120))
    text = out.getvalue()
    assert "all records are accounted for (1 partitions" in text
    assert "dead letters of sine from examples: bad-id 1" in text
    put(log, TOPICS.predictions, 4, None)
    out = io.StringIO()
    verify.verify(log, CONFIG).show(Terminal(file=out, width=120))
    assert "4 findings (1 partitions" in out.getvalue()
    assert f"missing-prediction {TOPICS.examples}[0] offset" in out.getvalue()


def test_a_lost_prediction(log: Log) -> None:
    """A customer got no answer."""
    offset, found = where(log, TOPICS.predictions, lambda record: record.champion and record.id == "sine-40")
    assert isinstance(found, Prediction)
    del log.records[TOPICS.predictions][offset : offset + 2]  # the challenger's too
    wrong = findings(log)
    missing = text_of(wrong, Code.MISSING_PREDICTION)
    assert missing.count(f"missing-prediction {TOPICS.examples}[0] offset ") == 2
    assert missing.count("(stream sine, id sine-40)") == 2
    assert "stream sine: off by +1: examples" in text_of(wrong, Code.WRONG_TOTALS)


def test_a_lost_challenger_prediction(log: Log) -> None:
    """A comparison of learners would be of different examples."""
    offset, _ = where(log, TOPICS.predictions, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, None)
    found = findings(log)
    assert [finding.code for finding in found] == [Code.MISSING_PREDICTION, Code.WRONG_RECORD_COUNT]
    assert "learner baseline (stream sea, id sea-50)" in str(found[0])


def test_a_doubled_prediction(log: Log) -> None:
    """A customer was answered twice: the promise is exactly once."""
    offset, _ = where(log, TOPICS.predictions, lambda record: record.champion and record.id == "sea-50")
    records = log.records[TOPICS.predictions]
    records[offset + 2 : offset + 2] = records[offset : offset + 2]
    found = findings(log)
    assert (Code.UNEXPECTED_PREDICTION, TOPICS.predictions, offset + 2) in places(found)
    assert "(stream sea, id sea-50, learner areba)" in text_of(found, Code.UNEXPECTED_PREDICTION)


def test_an_invented_prediction(log: Log) -> None:
    """An answer to a question that nobody asked."""
    records = log.records[TOPICS.predictions]
    record = codec.decode_one(records[10].value or b"")
    assert isinstance(record, Prediction)
    records.append(replace(records[10], value=codec.encode(replace(record, id="ghost"))))
    assert (Code.UNEXPECTED_PREDICTION, TOPICS.predictions, len(records) - 1) in places(findings(log))


def test_swapped_predictions(log: Log) -> None:
    """Order within a stream is what a subscriber builds on."""
    records = log.records[TOPICS.predictions]
    place = next(
        place
        for place in range(20, 200, 2)
        if records[place].key == records[place + 2].key == b"slow" and records[place].value != records[place + 2].value
    )
    records[place : place + 4] = [*records[place + 2 : place + 4], *records[place : place + 2]]
    found = places(findings(log))
    assert found == {(Code.MISPLACED_PREDICTION, TOPICS.predictions, place + more) for more in (0, 1)}


def test_a_prediction_at_another_time(log: Log) -> None:
    """Event time is the only clock."""
    records = log.records[TOPICS.predictions]
    records[8] = replace(records[8], timestamp_ms=records[8].timestamp_ms + 1)
    (found,) = findings(log)
    assert (found.code, found.topic, found.offset) == (Code.WRONG_PREDICTION, TOPICS.predictions, 8)
    assert f"timestamp is {records[8].timestamp_ms}, must be {records[8].timestamp_ms - 1}" in found.text


def test_a_doubled_outcome(log: Log) -> None:
    """A label that counts twice."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined")
    assert isinstance(outcome, Outcome)
    records = log.records[TOPICS.outcomes]
    records.insert(offset + 1, records[offset])
    found = findings(log)
    assert (Code.UNEXPECTED_OUTCOME, TOPICS.outcomes, offset + 1) in places(found)
    text = text_of(found, Code.UNEXPECTED_OUTCOME)
    assert f"joined does not follow from {TOPICS.examples}[0] offset {outcome.example_offset}" in text
    assert outcome.id in text


def test_a_lost_outcome(log: Log) -> None:
    """An example whose end nobody was told, though its label is there."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.stream == "sea")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    found = findings(log)
    assert (Code.MISSING_OUTCOME, TOPICS.examples, outcome.example_offset) in places(found)
    text = text_of(found, Code.MISSING_OUTCOME)
    assert f"outcome joined with the label at {TOPICS.labels}[0] offset {outcome.label_offset}" in text
    assert f"id {outcome.id})" in text


def test_a_lost_closing(log: Log) -> None:
    """An example that should have been given up is pending for ever."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "unlabelled")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    found = findings(log)
    assert (Code.MISSING_OUTCOME, TOPICS.examples, outcome.example_offset) in places(found)
    assert "the outcome unlabelled" in text_of(found, Code.MISSING_OUTCOME)


@pytest.mark.parametrize(
    ("change", "code", "expected"),
    [
        ({"label": 1}, Code.WRONG_OUTCOME, "label is 1, must be 0"),
        ({"delay_ms": -77}, Code.WRONG_OUTCOME, "delay_ms is -77, must be "),
        ({"score": 0.125}, Code.WRONG_SCORE, f"score is 0.125, the champion's at {TOPICS.predictions}[0] offset "),
        ({"learner": "nobody"}, Code.WRONG_OUTCOME, "learner is nobody, must be areba"),
        ({"id": "sine-1"}, Code.WRONG_OUTCOME, "id is sine-1, must be sine-40"),
        ({"label_offset": None}, Code.WRONG_OUTCOME, "label_offset is None, must be "),
    ],
)
def test_a_changed_outcome(log: Log, change: dict[str, object], code: Code, expected: str) -> None:
    """Whoever scores the learners by outcomes would score something that did not happen."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.id == "sine-40")
    assert isinstance(outcome, Outcome)
    assert outcome.label == 0
    put(log, TOPICS.outcomes, offset, replace(outcome, **change))  # type: ignore[arg-type]
    found = findings(log)
    assert (code, TOPICS.outcomes, offset) in places(found)
    assert expected in text_of(found, code)


def test_a_duplicate_that_is_none(log: Log) -> None:
    """Calling a new example a duplicate would hide that it was lost."""
    offset, prediction = where(log, TOPICS.predictions, lambda record: record.id == "sine-9")
    del log.records[TOPICS.predictions][offset : offset + 2]
    assert isinstance(prediction, Prediction)
    offset, outcome = where(
        log, TOPICS.outcomes, lambda record: record.id == "sine-9" and record.outcome == "unlabelled"
    )
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="duplicate", learner=None, score=None))
    found = places(findings(log))
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in found
    assert (Code.MISSING_PREDICTION, TOPICS.examples, outcome.example_offset) in found


def test_a_repeat_that_was_taken_as_new(log: Log) -> None:
    """A retry of a producer must not train the model twice."""
    offset, outcome = where(
        log,
        TOPICS.outcomes,
        lambda record: record.outcome == "duplicate" and record.example_offset and record.stream == "sea",
    )
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="evicted"))
    found = findings(log)
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(found)
    assert "outcome is evicted, must be duplicate" in text_of(found, Code.WRONG_OUTCOME)


@pytest.mark.parametrize("batch", [1, 2, 5_000])
def test_a_label_that_waited_for_an_example_that_came_too_late(batch: int) -> None:
    """An id that was forgotten and is used again is no damage: a false alarm makes people deaf to true ones."""
    short = Config.model_validate({**CONFIG.model_dump(), "join": SHORT_LIVED})
    log = Log()
    log.records[TOPICS.examples] = [
        encoded(Example("sine", name, [0.5, 0.5]), time_ms)
        for name, time_ms in (("a", 1_000), ("b", 1_400), ("a", 1_300))
    ]
    log.records[TOPICS.labels] = [encoded(Label("sine", "a", 1), time_ms) for time_ms in (1_010, 1_390)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_module, "build", oracle)
        processed(log, batch, 1.0, short)
    reasons = [dict(stored.headers)["areba.reason"] for stored in log.records[TOPICS.dead_letters]]
    assert reasons == [b"late-label"]
    assert verify.verify(log, short).findings == ()


@pytest.fixture(scope="module")
def corrected() -> Log:
    """A history with corrections; not to be changed."""
    return history(config=CORRECTING)


@pytest.mark.parametrize("batch", [1, 7, 97, 5_000])
def test_corrections_have_no_finding(batch: int) -> None:
    """Of labels that wait and of joined examples, told by revisions, wherever a batch was cut."""
    log = history(3, batch, config=CORRECTING)
    report = verify.verify(log, CORRECTING)
    assert report.findings == ()
    assert not [note for note in report.notes if "not counted again" in note], "the metrics were"
    assert sum(figures.corrections for figures in report.figures.values()) > 20
    kinds = [outcome.outcome for outcome in map(_decoded, log.records[TOPICS.outcomes]) if isinstance(outcome, Outcome)]
    assert kinds.count("correction") == sum(figures.corrections for figures in report.figures.values())


def _decoded(stored: Stored) -> object:
    return codec.decode_one(stored.value or b"")


@pytest.mark.parametrize(
    ("negatives", "positive", "right"),
    [(1.99, 0.0, True), (1.0, 1.0, True), (2.0, 0.0, False), (1.99, 1.0, False)],
)
def test_metrics_before_or_after_a_correction(negatives: float, positive: float, right: bool) -> None:
    """A mark publishes metrics without a label, and nothing says which corrections came before it."""
    outcomes = [
        Outcome("s", "a", "joined", 1, "one", 0.25, 0, 0, 0),
        Outcome("s", "b", "joined", 0, "one", 0.25, 0, 1, 1),
        Outcome("s", "a", "correction", 0, None, None, None, None, 2),
    ]
    predictions = [Prediction("s", name, "one", True, 0.25, 0, 0) for name in "ab"]
    asked = [Output(offset, 0, b"s", prediction) for offset, prediction in enumerate(predictions)]
    settled = [Output(offset, 0, b"s", outcome) for offset, outcome in enumerate(outcomes)]
    metric = replace(
        _changed(0),
        stream="s",
        learner="one",
        labelled=2,
        positive_correct=0.0,
        positive_total=positive,
        negative_correct=negatives,
        negative_total=negatives,
        recall=0.0 if positive else None,
        specificity=1.0 if positive else None,
        gmean=0.0 if positive else None,
    )
    recount = Recount(0.99, asked, settled, max_closed=10, closed_ttl_ms=10**9)
    assert (recount.fault(metric) is None) == right
    assert recount.unknown == 0


def codes(log: Log) -> set[Code]:
    """Return the codes of all findings."""
    return {finding.code for finding in findings(log)}


def _configured(config: Config) -> Stored:
    """Return the progress record of these settings."""
    return Stored(0, None, codec.encode(Act(0, "configuration", "0", config.task_settings().to_json())))


def test_corrections_that_are_none(corrected: Log) -> None:
    """A lower revision must not take back a class, and without the policy nothing may."""
    log = Log({name: list(records) for name, records in corrected.records.items()}, dict(corrected.offsets))
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "correction")
    configured = log.records[TOPICS.progress][0]
    log.records[TOPICS.progress][0] = _configured(CONFIG)
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(findings(log))
    log.records[TOPICS.progress][0] = configured
    refusing = history()
    refusing.records[TOPICS.progress][0] = _configured(CORRECTING)
    assert Code.UNEXPECTED_DEAD_LETTER in codes(refusing)
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "correction")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, label=1 - (outcome.label or 0)))
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(findings(log, CORRECTING))
    assert outcome.label_offset is not None
    label = _decoded(log.records[TOPICS.labels][outcome.label_offset])
    assert isinstance(label, Label)
    put(log, TOPICS.outcomes, offset, outcome)
    stored = log.records[TOPICS.labels][outcome.label_offset]
    low = replace(stored, value=codec.encode(replace(label, revision=0)))
    log.records[TOPICS.labels][outcome.label_offset] = low
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(findings(log, CORRECTING))


def test_an_eviction_without_need() -> None:
    """A bound that is not reached must not cost an example its label."""
    log = history(5, batch=7)
    offset, outcome = where(
        log, TOPICS.outcomes, lambda record: record.outcome == "unlabelled" and record.stream == "sine"
    )
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="evicted"))
    (found,) = findings(log)
    assert (found.code, found.topic, found.offset) == (Code.WRONG_OUTCOME, TOPICS.outcomes, offset)
    assert "outcome is evicted, must be unlabelled" in found.text


def test_a_closing_before_its_time(log: Log) -> None:
    """A label that is on time must not find its example gone."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.id == "sea-149")
    assert isinstance(outcome, Outcome)
    early = replace(outcome, outcome="unlabelled", label=None, label_offset=None, delay_ms=None)
    put(log, TOPICS.outcomes, offset, early)
    found = findings(log)
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(found)
    assert "outcome is unlabelled, must be joined" in text_of(found, Code.WRONG_OUTCOME)


def test_an_example_of_the_very_time_of_a_mark_that_was_left_open() -> None:
    """A pair of marks closes up to its time, and that time too: such an example must have its outcome."""
    mark = encoded(Mark("sine", MarkKind.ADVANCE, time_ms=1_020), 1_030)
    examples = [encoded(Example("sine", str(number), [0.5, 0.5]), 1_000 + 10 * number) for number in range(3)]
    log = Log()
    log.records[TOPICS.examples], log.records[TOPICS.labels] = [*examples, mark], [mark]
    processed(log, 97, 1.0)
    assert findings(log) == ()
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.id == "2")
    assert isinstance(outcome, Outcome)
    assert outcome.outcome == "unlabelled"
    put(log, TOPICS.outcomes, offset, None)
    assert (Code.MISSING_OUTCOME, TOPICS.examples, 2) in places(findings(log))


def test_a_missing_dead_letter(log: Log) -> None:
    """Nothing is lost silently, above all not what could not be read."""
    offset = next(
        offset
        for offset, stored in enumerate(log.records[TOPICS.dead_letters])
        if dict(stored.headers)["areba.reason"] == b"undecodable"
    )
    where_from = dict(log.records[TOPICS.dead_letters][offset].headers)["__connect.errors.offset"]
    del log.records[TOPICS.dead_letters][offset]
    found = findings(log)
    assert (Code.MISSING_DEAD_LETTER, TOPICS.examples, int(where_from or b"")) in places(found)
    assert "the dead letter undecodable" in text_of(found, Code.MISSING_DEAD_LETTER)


def test_a_changed_dead_letter(log: Log) -> None:
    """A dead letter is sent again after the mend: its bytes must be those that came."""
    records = log.records[TOPICS.dead_letters]
    records[0] = replace(records[0], value=b"other")
    records[1] = replace(records[1], headers=(("mine", b"1"), *records[1].headers))
    first, second = findings(log)
    assert places([first, second]) == {(Code.WRONG_DEAD_LETTER, TOPICS.dead_letters, offset) for offset in (0, 1)}
    assert first.text.startswith("value differ from the input record")
    assert second.text.startswith("headers differ from the input record")


def test_a_dead_letter_that_left_its_value_out(log: Log) -> None:
    """What it says of the value must be true of the input record; then there is no finding."""
    records, limit = log.records[TOPICS.dead_letters], 10
    one, two = (
        fitted(Fields(stored.key, stored.value, stored.headers[:-6]), stored.headers[-6:], limit)
        for stored in records[:2]
    )
    records[0] = replace(records[0], key=one.key, value=one.value, headers=tuple(one.headers))
    assert verify.verify(log, CONFIG).ok
    wrong = tuple((name, b"00" if name == "areba.value.sha256" else value) for name, value in two.headers)
    records[1] = replace(records[1], key=two.key, value=two.value, headers=wrong)
    (found,) = findings(log)
    assert (found.code, found.offset) == (Code.WRONG_DEAD_LETTER, 1)
    assert found.text.startswith("value differ from the input record")


@pytest.mark.parametrize(
    ("name", "value", "code", "expected"),
    [
        ("areba.reason", b"bad-time", Code.WRONG_DEAD_LETTER, "reason is bad-time, must be "),
        ("areba.reason", b"whatever", Code.WRONG_DEAD_LETTER, "reason is whatever, must be "),
        ("__connect.errors.offset", b"99999", Code.WRONG_DEAD_LETTER, "offset 99999, must name "),
        ("__connect.errors.topic", b"elsewhere", Code.WRONG_DEAD_LETTER, "names elsewhere[0] "),
        ("__connect.errors.offset", b"x", Code.UNREADABLE_RECORD, "lacks the headers of a dead letter"),
    ],
)
def test_a_dead_letter_that_points_elsewhere(log: Log, name: str, value: bytes, code: Code, expected: str) -> None:
    """Its headers are how an operator finds the cause."""
    records = log.records[TOPICS.dead_letters]
    headers = tuple((key, value if key == name else text) for key, text in records[3].headers)
    records[3] = replace(records[3], headers=headers)
    found = findings(log)
    assert (code, TOPICS.dead_letters, 3) in places(found)
    assert expected in text_of(found, code)


def test_a_doubled_dead_letter(log: Log) -> None:
    """Sent again after the mend, it would be there twice."""
    log.records[TOPICS.dead_letters].insert(4, log.records[TOPICS.dead_letters][3])
    assert (Code.UNEXPECTED_DEAD_LETTER, TOPICS.dead_letters, 4) in places(findings(log))


def test_a_well_formed_example_that_was_refused(log: Log) -> None:
    """The breaker and the operator would blame the producer."""
    offset, prediction = where(log, TOPICS.predictions, lambda record: record.id == "sine-9")
    assert isinstance(prediction, Prediction)
    del log.records[TOPICS.predictions][offset : offset + 2]
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.id == "sine-9")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    original = log.records[TOPICS.examples][outcome.example_offset or 0]
    fields = {
        "__connect.errors.topic": TOPICS.examples,
        "__connect.errors.partition": "0",
        "__connect.errors.offset": str(outcome.example_offset),
        "__connect.errors.exception.class.name": "x",
        "__connect.errors.exception.message": "x",
        "areba.reason": "conflicting-example",
    }
    headers = (*original.headers, *((key, text.encode()) for key, text in fields.items()))
    place = next(
        place
        for place, stored in enumerate(log.records[TOPICS.dead_letters])
        if stored.timestamp_ms > original.timestamp_ms
    )
    log.records[TOPICS.dead_letters].insert(place, replace(original, headers=headers))
    found = findings(log)
    assert (Code.UNEXPECTED_DEAD_LETTER, TOPICS.dead_letters, place) in places(found)
    assert "conflicting-example does not follow from" in text_of(found, Code.UNEXPECTED_DEAD_LETTER)


@pytest.mark.parametrize("topic", [TOPICS.predictions, TOPICS.outcomes, TOPICS.metrics, TOPICS.dead_letters])
def test_a_truncated_output(log: Log, topic: str) -> None:
    """Records that a broker lost at the tail."""
    del log.records[topic][-2:]
    text = text_of(findings(log), Code.WRONG_RECORD_COUNT)
    assert f"{topic} {len(log.records[topic])}" in text


def test_truncated_inputs(log: Log) -> None:
    """A producer that deleted what the group had committed: re-processing is impossible from now on."""
    del log.records[TOPICS.examples][-5:]
    end = len(log.records[TOPICS.examples])
    text = text_of(findings(log), Code.DELETED_RECORDS)
    assert f"{TOPICS.examples}[0]: ends at offset {end}, but the records below {end + 5} were there once" in text
    log.records[TOPICS.labels] = [
        replace(stored, offset=offset) for offset, stored in enumerate(log.records[TOPICS.labels])
    ][3:]
    assert f"{TOPICS.labels}[0]: starts at offset 3" in text_of(findings(log), Code.DELETED_RECORDS)


def test_a_gap_in_the_commit_records(log: Log) -> None:
    """Without one link nobody can re-process along the recorded ranges."""
    del log.records[TOPICS.progress][2]
    found = places(findings(log))
    assert {(Code.WRONG_SEQUENCE, TOPICS.progress, 2), (Code.WRONG_RANGE, TOPICS.progress, 2)} <= found


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"records": 1}, Code.WRONG_RECORD_COUNT),
        ({"examples_start": 1}, Code.WRONG_RANGE),
        ({"digest": b"x" * 32}, Code.WRONG_DIGEST),
    ],
)
def test_a_changed_commit_record(log: Log, change: dict[str, object], code: Code) -> None:
    """The chain is what recovery is checked against."""
    last = len(log.records[TOPICS.progress]) - 1
    commit = codec.decode_one(log.records[TOPICS.progress][last].value or b"")
    assert isinstance(commit, Commit)
    put(log, TOPICS.progress, last, replace(commit, **change))  # type: ignore[arg-type]
    assert [finding.code for finding in findings(log)] == [code]


def test_a_lost_configuration(log: Log) -> None:
    """Without it nobody knows under which settings the first records were processed."""
    del log.records[TOPICS.progress][0]
    expected = {(code, TOPICS.progress, 0) for code in (Code.WRONG_SEQUENCE, Code.MISSING_CONFIGURATION)}
    assert places(findings(log)) == expected


def test_resumed_tasks_have_no_finding(log: Log) -> None:
    """An operator who resumes twice has done no harm."""
    last = len(log.records[TOPICS.progress])
    acts = [Act(last - 1, "resume", "0", ""), Act(last, "resume", "0", "")]
    log.records[TOPICS.progress] += [Stored(0, None, codec.encode(act)) for act in acts]
    assert findings(log) == ()


def test_a_lost_last_commit_record(log: Log) -> None:
    """Offsets without their commit record are half a transaction."""
    last = len(log.records[TOPICS.progress]) - 1
    del log.records[TOPICS.progress][last]
    text = text_of(findings(log), Code.WRONG_SEQUENCE)
    assert f"{TOPICS.progress}[0]: ends at sequence {last - 1}; {last} is committed" in text


def test_metrics_that_count_too_much(log: Log) -> None:
    """A dashboard that tells of labels which never came."""
    last = len(log.records[TOPICS.metrics]) - 1
    metric = codec.decode_one(log.records[TOPICS.metrics][last].value or b"")
    assert isinstance(metric, Metric)
    put(log, TOPICS.metrics, last, replace(metric, labelled=10_000))
    text = text_of(findings(log), Code.WRONG_METRIC)
    assert f"{TOPICS.metrics}[0] offset {last}: labelled of {metric.stream}/{metric.learner} is 10,000" in text


def _changed(at: int, **figures: float | None) -> Metric:
    """The metric after `at` labels of a learner that became worse at label 40, which was flagged at label 60."""
    change = {"change_flagged": 60, "change_began": 40, "gmean_before": 0.5, "labels_to_recover": 25, "changes": 1}
    sums = dict.fromkeys(("positive_correct", "positive_total", "negative_correct", "negative_total"), 1.0)
    names = [each.name for each in fields(Metric) if each.name not in {*change, *sums}]
    values = dict.fromkeys(names, 0) | {"stream": "s", "learner": "l", "labelled": at} | sums | change | figures
    return Metric(**values)  # type: ignore[arg-type]


NO_CHANGE: dict[str, float | None] = {
    **dict.fromkeys(("change_flagged", "change_began", "gmean_before", "labels_to_recover")),
    "changes": 0,
}


@pytest.mark.parametrize(
    ("metric", "before", "fault"),
    [
        (_changed(100), None, None),
        (_changed(100), _changed(80, labels_to_recover=None), None),
        (_changed(100), _changed(50, **NO_CHANGE), None),
        (_changed(100, changes=2, change_flagged=95, change_began=90, labels_to_recover=5), _changed(80), None),
        (_changed(100, **NO_CHANGE), None, None),
        (_changed(100, changes=0), None, "is described"),
        (_changed(50), None, "flagged at 60, begun at 40, of 50 labels"),
        (_changed(100, change_began=61), None, "begun at 61"),
        (_changed(100, change_flagged=None), None, "flagged at None"),
        (_changed(100, labels_to_recover=61), None, "recovered in 61 of the 60"),
        (_changed(100, **NO_CHANGE), _changed(80), "0 after 1"),
        (_changed(100, gmean_before=0.6), _changed(80), "is another"),
        (_changed(100, changes=2), _changed(80), "a new one was flagged at 60"),
        (_changed(100), _changed(70, **NO_CHANGE), "not yet there after 70"),
    ],
)
def test_changes_that_cannot_be(metric: Metric, before: Metric | None, fault: str | None) -> None:
    """Who decides by the figures on changes has to know that they hang together."""
    found = change_fault(metric, before)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_a_change_out_of_nowhere(log: Log) -> None:
    """The figures on changes are looked at in every metric of the history."""
    offset, metric = where(log, TOPICS.metrics, lambda record: record.changes == 0)
    assert isinstance(metric, Metric)
    put(log, TOPICS.metrics, offset, replace(metric, change_flagged=3))
    assert (Code.WRONG_CHANGE, TOPICS.metrics, offset) in places(findings(log))


def test_committed_offsets_that_were_reset(log: Log) -> None:
    """Somebody moved the group by hand."""
    log.offsets[TopicPartition(TOPICS.examples, 0)] = Committed(10, "")
    text = text_of(findings(log), Code.WRONG_COMMITTED_OFFSETS)
    assert "the committed offsets of examples and labels do not belong together" in text


def test_a_group_that_was_reset_to_an_offset(log: Log) -> None:
    """By Kafka's own tool: both offsets, without what we store beside them."""
    for topic in (TOPICS.examples, TOPICS.labels):
        log.offsets[TopicPartition(topic, 0)] = Committed(10, "")
    text = text_of(findings(log), Code.WRONG_COMMITTED_OFFSETS)
    assert f"{TOPICS.examples}[0]: the committed offset has no metadata of areba; was the group reset?" in text


def test_a_group_whose_offsets_are_gone(log: Log) -> None:
    """They expire when no member of the group was there for a week; then nothing tells what was processed."""
    log.offsets.clear()
    assert (Code.WRONG_COMMITTED_OFFSETS, TOPICS.progress, 1) in places(findings(log))


def test_a_value_that_is_no_record(log: Log) -> None:
    """Another program writes to our topic."""
    log.records[TOPICS.outcomes].append(Stored(1, b"sine", b"hello"))
    log.records[TOPICS.predictions].append(Stored(1, b"sine", codec.encode(Label("sine", "1", 1))))
    found = findings(log)
    for topic in (TOPICS.outcomes, TOPICS.predictions):
        assert (Code.UNREADABLE_RECORD, topic, len(log.records[topic]) - 1) in places(found)
    assert "is a Label, which has no place here" in text_of(found, Code.UNREADABLE_RECORD)


def test_a_group_at_work_is_not_blamed(log: Log) -> None:
    """Checked while it runs: outputs newer than the committed offsets that were asked for are no fault."""
    half = len(log.records[TOPICS.progress]) // 2
    commit = codec.decode_one(log.records[TOPICS.progress][half].value or b"")
    assert isinstance(commit, Commit)
    metadata = CommitPoint(commit.sequence, commit.digest).metadata()
    ends = {TOPICS.examples: commit.examples_end, TOPICS.labels: commit.labels_end}
    late = Log(log.records, {TopicPartition(topic, 0): Committed(end, metadata) for topic, end in ends.items()})

    def move_on() -> None:
        late.offsets = log.offsets

    late.after_read = move_on
    report = verify.verify(late, CONFIG)
    assert list(report.findings) == []
    assert "the group is at work" in report.notes[0]


def test_an_application_that_never_ran() -> None:
    """Empty topics are no finding."""
    report = verify.verify(Log(), CONFIG)
    assert report.ok
    assert report.figures == {}


def test_many_findings_are_counted_not_kept(log: Log) -> None:
    """A log full of errors must not fill the memory of the tool that reads it."""
    log.records[TOPICS.predictions] = [
        replace(log.records[TOPICS.predictions][0], key=b"x") for _ in range(2 * MAX_FINDINGS)
    ]
    report = verify.verify(log, CONFIG)
    assert len(report.findings) == MAX_FINDINGS < report.finding_count


def test_missing_topics_are_named() -> None:
    """A wrong prefix in the configuration is the likeliest error."""
    log = Log()
    del log.records[TOPICS.outcomes]
    with pytest.raises(TopicError, match=f"{TOPICS.outcomes}: there is no such topic"):
        verify.verify(log, CONFIG)


def test_values_are_judged_as_the_batch_decoder_judges_them() -> None:
    """Two decoders, written apart: where they differ, one of them is wrong about a user's data."""
    draw = random.Random(3)
    good = [
        codec.encode(record)
        for record in (
            Example("sine", "a", [1.0, 2.0]),
            Example("sine", "é" * 32, [float("inf"), float("-inf")]),
            Example("sine", "é" * 33, [1.0]),
            Example("", "a", [1.0]),
            Example("sine", "a", []),
            Example("sine", "a", [1.0] * 6),
            Label("sine", "a", 1, 3),
            Label("sine", "a", 1, -1),
            Mark("sine", MarkKind.ADVANCE, time_ms=5),
            Mark("sine", MarkKind.ADVANCE, time_ms=-5),
            Mark("sine", MarkKind.PROMOTE, learner=""),
            Mark("sine", MarkKind.PROMOTE, learner="a"),
        )
    ]
    values: list[bytes | None] = [None, b"", *good]
    for value in good:
        for _ in range(30):
            changed = bytearray(value)
            changed[draw.randrange(len(changed))] = draw.randrange(256)
            values.append(bytes(changed[: draw.randrange(5, len(changed) + 1)] if draw.random() < 0.3 else changed))
    limits = DecodeLimits(max_record_bytes=80, max_features=5)
    for side in Side:
        decoded = decode(values, side, limits)
        for row, sent in enumerate(values):
            ours = read_value(sent, side, limits.max_record_bytes, limits.max_features)
            assert (ours if isinstance(ours, Reason) else 0) == decoded.reasons[row], (side, sent)


@dataclass(frozen=True)
class Replay:
    """Streams that were sent to an in-process log, and the manifest of that."""

    broker: EmbeddedBroker
    path: Path

    def report(self) -> verify.Report:
        """What `verify` says; no worker ever ran."""
        return verify.verify(EmbeddedCluster(self.broker), CONFIG, [self.path])

    def entries(self, topic: str) -> list[Any]:
        """All entries of the topic's one partition, to break something in them."""
        return self.broker._logs[TopicPartition(topic, 0)].entries


def replayed(folder: Path, faults: Faults) -> Replay:
    """Two short streams with late labels and with these faults."""
    broker = EmbeddedBroker(ManualClock())
    for topic in topic_plan.plan(TOPICS, 1):
        broker.create_topic(topic)
    sources = [parse_source(name) for name in ("sine:length=120,imbalance=20", "sea:length=90,imbalance=20")]
    plan = Plan(
        tuple(
            StreamPlan(source.stream, source.data, parse_label_delay("uniform:1ev-30ev"), 0.1, faults)
            for source in sources
        )
    )
    manifest = replay(plan, EmbeddedSender(broker), broker.clock)
    path = folder / "manifest.json"
    manifest.save(path)
    return Replay(broker, path)


def test_what_was_sent_is_there(tmp_path: Path) -> None:
    """The replayer's word and the topics agree, whatever faults it made on purpose."""
    faults = Faults(duplicates=0.1, dropped=0.1, conflicting_labels=0.1, garbage=0.1)
    report = replayed(tmp_path, faults).report()
    assert list(report.findings) == []
    assert [note.split(": ")[1] for note in report.notes] == [
        f"{len(replayed(tmp_path, faults).entries(topic))} records of the manifests are not yet processed"
        for topic in (TOPICS.examples, TOPICS.labels)
    ]


def test_records_out_of_order_have_no_digest(tmp_path: Path) -> None:
    """The order of sending cannot be told from the topics then; all else is checked."""
    report = replayed(tmp_path, Faults(out_of_order=0.2)).report()
    assert list(report.findings) == []
    assert report.notes[-1] == "manifest.json: its digest was not checked: it sent records out of order"


def test_a_record_that_was_sent_and_is_not_there(tmp_path: Path) -> None:
    """Lost between the replayer and us, whatever the broker said."""
    sent = replayed(tmp_path, Faults())
    for topic, place in ((TOPICS.examples, 31), (TOPICS.labels, 47)):
        del sent.entries(topic)[place]
    text = lines(sent.report())
    assert re.search(r"manifest\.json: stream (sine|sea): examples missing: [0-9a-f]{10}-\d+$", text, re.MULTILINE)
    assert re.search(r"manifest\.json: stream (sine|sea): distinct labels: \d+ found, \d+ sent", text)


def test_a_record_that_is_there_twice(tmp_path: Path) -> None:
    """A retry of a producer that was not idempotent."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.examples)
    entries[40] = entries[39]._replace(offset=40)
    text = lines(sent.report())
    assert re.search(r"examples missing: [0-9a-f]{10}-\d+$", text, re.MULTILINE)
    assert re.search(r"examples too many: [0-9a-f]{10}-\d+", text)


def test_a_record_with_other_bytes(tmp_path: Path) -> None:
    """All counts are right, the features are not what was sent."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.examples)
    example = codec.decode_one(entries[5].value)
    assert isinstance(example, Example)
    entries[5] = entries[5]._replace(value=codec.encode(replace(example, features=[0.0, *example.features[1:]])))
    (finding,) = sent.report().findings
    assert finding.code == Code.WRONG_MANIFEST_DIGEST
    assert re.fullmatch(r"manifest\.json: digest [0-9a-f]{64} on the topics, [0-9a-f]{64} was sent", finding.text)


def test_missing_marks(tmp_path: Path) -> None:
    """Without its closing marks a finite stream stays open for a day."""
    sent = replayed(tmp_path, Faults())
    entries = sent.entries(TOPICS.labels)
    places = [place for place, entry in enumerate(entries) if isinstance(codec.decode_one(entry.value), Mark)]
    del entries[places[0]]
    assert "closing marks of labels: 0 found, 1 sent" in lines(sent.report())


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    """The file's name is told, not a traceback."""
    path = tmp_path / "manifest.json"
    for text in ("{}", "[]", "\0", '{"format": 1}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=r"manifest\.json: no manifest of a replay"):
            verify.verify(Log(), CONFIG, [path])
    path.write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="a manifest of format 2"):
        verify.verify(Log(), CONFIG, [path])
    with pytest.raises(ConfigurationError, match=r"nowhere\.json: No such file"):
        verify.verify(Log(), CONFIG, [tmp_path / "nowhere.json"])
