"""`areba verify` decides by the rules of the join which outcomes and dead letters must be there."""

from dataclasses import replace

import pytest

from stream_app.config import Config
from stream_app.pipeline import stream as stream_module
from stream_app.records import (
    Example,
    Label,
    Mark,
    MarkKind,
    Outcome,
    Prediction,
)
from stream_app.serialization.left_out import Fields, fitted
from stream_app.verify import verify
from stream_app.verify.results import Code
from tests.support.verified_log import (
    CONFIG,
    SHORT_LIVED,
    TOPICS,
    Log,
    encoded,
    findings,
    history,
    oracle,
    places,
    processed,
    put,
    text_of,
    where,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("batch", [1, 2, 5_000])
def test_a_label_that_waited_for_an_example_that_came_too_late(batch: int) -> None:
    """An id that was dropped and is used again is no damage: after false alarms, people ignore true ones."""
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
    """A label that is on time must find its example."""
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
    """A dead letter is sent again after the repair, so its bytes must equal the original's."""
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
        fitted(Fields(stored.key, stored.value, stored.headers[:-7]), stored.headers[-7:], limit)
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
    """Sent again after the repair, it would be there twice."""
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
        "areba.event_time_ms": str(original.timestamp_ms),
    }
    headers = (*original.headers, *((key, text.encode()) for key, text in fields.items()))
    place = next(
        place
        for place, stored in enumerate(log.records[TOPICS.dead_letters])
        if int(stored.headers[-1][1] or b"") > original.timestamp_ms
    )
    log.records[TOPICS.dead_letters].insert(place, replace(original, headers=headers))
    found = findings(log)
    assert (Code.UNEXPECTED_DEAD_LETTER, TOPICS.dead_letters, place) in places(found)
    assert "conflicting-example does not follow from" in text_of(found, Code.UNEXPECTED_DEAD_LETTER)
