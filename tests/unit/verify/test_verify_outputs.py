"""`areba verify` names each lost, doubled, moved or changed prediction and outcome."""

from dataclasses import replace

import pytest

from stream_app.records import (
    Outcome,
    Prediction,
)
from stream_app.serialization import codec
from stream_app.verify.results import Code
from tests.support.verified_log import (
    TOPICS,
    Log,
    findings,
    places,
    put,
    text_of,
    where,
)

pytestmark = pytest.mark.slow


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
    """A prediction belongs to no example."""
    records = log.records[TOPICS.predictions]
    record = codec.decode_one(records[10].value or b"")
    assert isinstance(record, Prediction)
    records.append(replace(records[10], value=codec.encode(replace(record, id="ghost"))))
    assert (Code.UNEXPECTED_PREDICTION, TOPICS.predictions, len(records) - 1) in places(findings(log))


def test_swapped_predictions(log: Log) -> None:
    """Subscribers rely on the order within a stream."""
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
    prediction = codec.decode_one(log.records[TOPICS.predictions][8].value or b"")
    assert isinstance(prediction, Prediction)
    put(log, TOPICS.predictions, 8, replace(prediction, event_time_ms=prediction.event_time_ms + 1))
    (found,) = findings(log)
    assert (found.code, found.topic, found.offset) == (Code.WRONG_PREDICTION, TOPICS.predictions, 8)
    assert f"event_time_ms is {prediction.event_time_ms + 1}, must be {prediction.event_time_ms}" in found.text


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
    """No outcome reports the end of an example, although its label is there."""
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "joined" and record.stream == "sea")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, None)
    found = findings(log)
    assert (Code.MISSING_OUTCOME, TOPICS.examples, outcome.example_offset) in places(found)
    text = text_of(found, Code.MISSING_OUTCOME)
    assert f"outcome joined with the label at {TOPICS.labels}[0] offset {outcome.label_offset}" in text
    assert f"id {outcome.id})" in text


def test_a_lost_closing(log: Log) -> None:
    """An example that should have been given up is pending forever."""
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
        ({"predicted_class": 1}, Code.WRONG_SCORE, f"predicted_class is 1, the champion's at {TOPICS.predictions}[0] "),
        ({"learner": "nobody"}, Code.WRONG_OUTCOME, "learner is nobody, must be areba"),
        ({"id": "sine-1"}, Code.WRONG_OUTCOME, "id is sine-1, must be sine-40"),
        ({"label_offset": None}, Code.WRONG_OUTCOME, "label_offset is None, must be "),
    ],
)
def test_a_changed_outcome(log: Log, change: dict[str, object], code: Code, expected: str) -> None:
    """A score that is computed from outcomes would count something that did not happen."""
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
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="duplicate", learner=None, score=None, probability=None))
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
