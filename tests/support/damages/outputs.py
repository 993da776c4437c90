"""Damage of predictions, outcomes and dead letters."""

from dataclasses import replace

from stream_app.records import Header, Prediction
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import SENT_BACK, Resend
from stream_app.verify.results import Code
from tests.support.damages.log import ANY, Found, example_at, missing, next_score, outcome_where, prediction_where
from tests.support.verified_log import TOPICS, Log, Stored, processed, put


def a_lost_prediction(log: Log) -> Found:
    """Lose a prediction of the champion."""
    offset, prediction = prediction_where(log, lambda record: record.champion and record.id == "sine-40")
    put(log, TOPICS.predictions, offset, None)
    return [
        (Code.MISSING_PREDICTION, TOPICS.examples, example_at(log, "sine-40"), f"learner {prediction.learner} "),
        missing(TOPICS.predictions, offset, f"stream sine, id sine-40, learner {prediction.learner}, which is missing"),
    ]


def a_doubled_prediction(log: Log) -> Found:
    """Repeat the predictions of an example: its customer gets two answers."""
    offset, _ = prediction_where(log, lambda record: record.champion and record.id == "sea-50")
    records = log.records[TOPICS.predictions]
    records[offset + 2 : offset + 2] = records[offset : offset + 2]
    return [
        (
            Code.UNEXPECTED_PREDICTION,
            TOPICS.predictions,
            offset + 2,
            "belongs to no example, or to an example that has",
        ),
        (
            Code.NOT_WRITTEN_BY_RERUN,
            TOPICS.predictions,
            offset + 2,
            "the record of stream sea, id sea-50, learner areba",
        ),
    ]


def two_predictions_swapped(log: Log) -> Found:
    """Swap the predictions of two examples of a stream, on whose order a subscriber relies."""
    records = log.records[TOPICS.predictions]
    place = next(place for place in range(20, 200, 2) if records[place].key == records[place + 2].key == b"slow")
    records[place : place + 4] = [*records[place + 2 : place + 4], *records[place : place + 2]]
    return [(Code.MISPLACED_PREDICTION, TOPICS.predictions, place, "comes too early; it belongs to ")]


def a_truncated_tail(log: Log) -> Found:
    """Lose the last records, as a broker can."""
    gone = log.records[TOPICS.predictions][-2:]
    del log.records[TOPICS.predictions][-2:]
    last = codec.decode_one(gone[0].value or b"")
    assert isinstance(last, Prediction)
    end = len(log.records[TOPICS.predictions]) - 1
    return [
        (Code.WRONG_RECORD_COUNT, TOPICS.progress, None, "the commit records tell of "),
        missing(TOPICS.predictions, end + 1, f"stream {last.stream}, id {last.id}"),
    ]


def a_bit_of_a_score(log: Log) -> Found:
    """Change a bit of the champion's score; the outcome still has the right score."""
    offset, prediction = prediction_where(log, lambda record: record.champion and record.id == "sine-40")
    put(log, TOPICS.predictions, offset, replace(prediction, score=next_score(prediction.score)))
    outcome, _ = outcome_where(log, lambda record: record.outcome == "joined" and record.id == "sine-40")
    return [
        (Code.WRONG_SCORE, TOPICS.outcomes, outcome, f"the champion's at {TOPICS.predictions}[0] offset {offset} is "),
        (
            Code.NOT_REPRODUCED,
            TOPICS.predictions,
            offset,
            "the record of stream sine, id sine-40, learner areba is not",
        ),
    ]


def a_bit_of_a_challengers_score(log: Log) -> Found:
    """Change a bit that no other record repeats: only a fresh run can find it."""
    offset, prediction = prediction_where(log, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, replace(prediction, score=next_score(prediction.score)))
    name = f"the record of stream sea, id sea-50, learner {prediction.learner} is not that of a fresh run: score "
    return [(Code.NOT_REPRODUCED, TOPICS.predictions, offset, name)]


def a_prediction_of_another_learner(log: Log) -> Found:
    """Change the name of the learner that predicted."""
    offset, prediction = prediction_where(log, lambda record: record.champion and record.id == "sine-40")
    put(log, TOPICS.predictions, offset, replace(prediction, learner="nobody"))
    return [
        (Code.WRONG_PREDICTION, TOPICS.predictions, offset, f"learner is nobody, must be {prediction.learner}"),
        (
            Code.NOT_REPRODUCED,
            TOPICS.predictions,
            offset,
            "the record of stream sine, id sine-40, learner nobody is not",
        ),
    ]


def two_champions(log: Log) -> Found:
    """Mark a challenger's prediction as the champion's: a subscriber gets two answers."""
    offset, prediction = prediction_where(log, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, replace(prediction, champion=True))
    return [(Code.WRONG_PREDICTION, TOPICS.predictions, offset, "champion is True, must be False")]


def an_aborted_transaction_is_shown(log: Log) -> Found:
    """Repeat the records of a transaction, as a reader sees that is not read_committed."""
    records = log.records[TOPICS.predictions]
    records[60:60] = records[40:60]
    first = codec.decode_one(records[60].value or b"")
    assert isinstance(first, Prediction)
    return [
        (Code.UNEXPECTED_PREDICTION, TOPICS.predictions, 60, "belongs to no example, or to an example that has its"),
        (Code.WRONG_RECORD_COUNT, TOPICS.progress, None, "the commit records tell of "),
    ]


def an_output_of_another_partition(log: Log) -> Found:
    """Add a record of another task's stream, as a worker could that owns the wrong task."""
    record = replace(prediction_where(log, lambda record: record.champion)[1], stream="elsewhere", id="1")
    log.records[TOPICS.predictions].insert(30, Stored(1_500, b"elsewhere", codec.encode(record)))
    return [
        (Code.UNEXPECTED_PREDICTION, TOPICS.predictions, 30, "belongs to no example"),
        (
            Code.NOT_WRITTEN_BY_RERUN,
            TOPICS.predictions,
            30,
            "the record of stream elsewhere, id 1, learner areba is not",
        ),
    ]


def a_prediction_with_another_key(log: Log) -> Found:
    """Change the key of a prediction: a subscriber that filters by stream misses it."""
    offset, _ = prediction_where(log, lambda record: record.champion and record.id == "sine-40")
    log.records[TOPICS.predictions][offset] = replace(log.records[TOPICS.predictions][offset], key=b"sea")
    return [(Code.WRONG_PREDICTION, TOPICS.predictions, offset, "key is b'sea', must be the stream; it belongs to ")]


def a_lost_trace(log: Log) -> Found:
    """Remove the header that ties a prediction to the request for it."""
    offset = next(n for n, stored in enumerate(log.records[TOPICS.predictions]) if stored.headers)
    log.records[TOPICS.predictions][offset] = replace(log.records[TOPICS.predictions][offset], headers=())
    return [
        (Code.WRONG_PREDICTION, TOPICS.predictions, offset, "headers are not the trace header"),
        (Code.NOT_REPRODUCED, TOPICS.predictions, offset, "the record of stream "),
    ]


def a_lost_header(log: Log) -> Found:
    """Remove the header by which the outcome of an example finds its tenant."""
    offset, _ = outcome_where(log, lambda record: record.outcome == "joined" and record.id == "sea-50")
    headers = log.records[TOPICS.outcomes][offset].headers
    left = tuple(header for header in headers if header[0] != "tenant")
    assert len(left) < len(headers)
    return _with_headers(log, offset, left)


def the_header_of_another(log: Log) -> Found:
    """Publish the outcome of an example without a label with the headers of another example."""
    offset, _ = outcome_where(log, lambda record: record.outcome == "unlabelled" and record.stream == "sea")
    headers = log.records[TOPICS.outcomes][offset].headers
    return _with_headers(log, offset, (*headers[:-1], ("tenant", b"west")))


def _with_headers(log: Log, offset: int, headers: tuple[Header, ...]) -> Found:
    """Give an outcome other headers."""
    log.records[TOPICS.outcomes][offset] = replace(log.records[TOPICS.outcomes][offset], headers=headers)
    return [
        (Code.WRONG_OUTCOME, TOPICS.outcomes, offset, "headers are not the trace header"),
        (Code.NOT_REPRODUCED, TOPICS.outcomes, offset, "the record of stream "),
    ]


def a_changed_outcome(log: Log) -> Found:
    """Publish another class than the label has."""
    offset, outcome = outcome_where(log, lambda record: record.outcome == "joined" and record.id == "sine-40")
    put(log, TOPICS.outcomes, offset, replace(outcome, label=1 - (outcome.label or 0)))
    return [
        (Code.WRONG_OUTCOME, TOPICS.outcomes, offset, "label is 1, must be 0"),
        (Code.WRONG_METRIC, TOPICS.metrics, ANY, "predictions and labels give"),
    ]


def a_lost_outcome(log: Log) -> Found:
    """Lose the only record that reports how an example ended."""
    offset, outcome = outcome_where(log, lambda record: record.outcome == "joined" and record.stream == "sea")
    put(log, TOPICS.outcomes, offset, None)
    text = f"the outcome joined with the label at {TOPICS.labels}[0] offset {outcome.label_offset}"
    return [(Code.MISSING_OUTCOME, TOPICS.examples, outcome.example_offset, text)]


def a_label_in_two_outcomes(log: Log) -> Found:
    """Let two outcomes name the same label, which every report would count twice."""
    offset, outcome = outcome_where(log, lambda record: record.outcome == "joined" and record.stream == "sine")
    other, victim = outcome_where(
        log,
        lambda record: record.outcome == "joined" and record.stream == "sine" and record.id != outcome.id,
    )
    put(log, TOPICS.outcomes, other, replace(victim, label_offset=outcome.label_offset))
    del offset
    text = f"label_offset is {outcome.label_offset}, must be {victim.label_offset}"
    return [(Code.WRONG_OUTCOME, TOPICS.outcomes, other, text)]


def an_outcome_at_another_time(log: Log) -> Found:
    """Change the event time of an outcome, by which subscribers form windows."""
    offset, outcome = outcome_where(log, lambda record: record.outcome == "joined" and record.stream == "sine")
    put(log, TOPICS.outcomes, offset, replace(outcome, event_time_ms=outcome.event_time_ms + 1))
    name = f"the record of stream sine, id {outcome.id}, learner {outcome.learner}"
    return [
        (Code.WRONG_OUTCOME, TOPICS.outcomes, offset, "event_time_ms is "),
        (Code.NOT_REPRODUCED, TOPICS.outcomes, offset, f"{name} is not that of a fresh run: event_time_ms"),
    ]


def an_outcome_with_another_key(log: Log) -> Found:
    """Change the key of an outcome: a table built from the topic counts it for another stream."""
    offset, outcome = outcome_where(log, lambda record: record.outcome == "joined" and record.stream == "sine")
    log.records[TOPICS.outcomes][offset] = replace(log.records[TOPICS.outcomes][offset], key=b"sea")
    return [
        (
            Code.WRONG_OUTCOME,
            TOPICS.outcomes,
            offset,
            f"key is b'sea', must be the stream (stream sine, id {outcome.id})",
        )
    ]


def an_end_that_became_a_repeat(log: Log) -> Found:
    """Turn the outcome `unlabelled` into `duplicate`, which hides that the label is missing."""
    offset, outcome = outcome_where(log, lambda record: record.outcome == "unlabelled" and record.stream == "sine")
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="duplicate"))
    text = f"outcome is duplicate, must be unlabelled (stream sine, id {outcome.id})"
    return [(Code.WRONG_OUTCOME, TOPICS.outcomes, offset, text)]


def dead_letter_where(log: Log, reason: bytes, topic: str = TOPICS.examples) -> tuple[int, int]:
    """Return the offset of the first such dead letter, and the offset of its input record."""
    for offset, stored in enumerate(log.records[TOPICS.dead_letters]):
        headers = dict(stored.headers)
        if (headers["areba.reason"], headers["__connect.errors.topic"]) == (reason, topic.encode()):
            return offset, int(headers["__connect.errors.offset"] or b"")
    raise AssertionError(reason)


def a_lost_dead_letter(log: Log) -> Found:
    """Lose a dead letter, the only trace of its input record."""
    offset, origin = dead_letter_where(log, b"undecodable")
    del log.records[TOPICS.dead_letters][offset]
    return [(Code.MISSING_DEAD_LETTER, TOPICS.examples, origin, "the dead letter undecodable")]


def a_changed_dead_letter(log: Log) -> Found:
    """Change the value of a dead letter, so that the original record cannot be sent back."""
    offset, origin = dead_letter_where(log, b"wrong-dimension")
    log.records[TOPICS.dead_letters][offset] = replace(log.records[TOPICS.dead_letters][offset], value=b"x")
    return [
        (
            Code.WRONG_DEAD_LETTER,
            TOPICS.dead_letters,
            offset,
            f"value differ from the input record; it belongs to {TOPICS.examples}[0] offset {origin} ",
        )
    ]


def a_dead_letter_with_another_reason(log: Log) -> Found:
    """Give a dead letter a reason that its record could have, but does not have."""
    offset, origin = dead_letter_where(log, b"conflicting-example")
    stored = log.records[TOPICS.dead_letters][offset]
    headers = [*stored.headers[:-2], ("areba.reason", b"wrong-dimension"), stored.headers[-1]]
    log.records[TOPICS.dead_letters][offset] = replace(stored, headers=tuple(headers))
    text = (
        f"reason is wrong-dimension, must be conflicting-example; it belongs to {TOPICS.examples}[0] offset {origin} "
    )
    return [(Code.WRONG_DEAD_LETTER, TOPICS.dead_letters, offset, text)]


def a_label_with_another_reason(log: Log) -> Found:
    """Give a dead letter the reason `late-label`, although its example was joined."""
    offset, origin = dead_letter_where(log, b"conflicting-label", TOPICS.labels)
    stored = log.records[TOPICS.dead_letters][offset]
    headers = [*stored.headers[:-2], ("areba.reason", b"late-label"), stored.headers[-1]]
    log.records[TOPICS.dead_letters][offset] = replace(stored, headers=tuple(headers))
    text = f"reason is late-label, must be conflicting-label; it belongs to {TOPICS.labels}[0] offset {origin} "
    return [(Code.WRONG_DEAD_LETTER, TOPICS.dead_letters, offset, text)]


def _sent_back(log: Log, times: int, marks: int) -> tuple[int, int]:
    """Send a dead letter back this often, with this many marks; return the first new input and the last dead letter."""
    for number in range(times):
        resend = Resend(TOPICS.dead_letters, 0, 3, TOPICS.examples, 0, 17, 1, number)
        log.records[TOPICS.examples].append(Stored(9_000 + number, b"\xff", b"garbage", tuple(resend.headers())))
    first = len(log.records[TOPICS.examples]) - times
    for name in (TOPICS.predictions, TOPICS.outcomes, TOPICS.metrics, TOPICS.dead_letters, TOPICS.progress):
        log.records[name] = []
    processed(log, 97, 1.0)
    letters = log.records[TOPICS.dead_letters]
    letters += [Stored(1, None, None, ((SENT_BACK, b"3"),)) for _ in range(marks)]
    return first, len(letters) - 1


def a_dead_letter_sent_back_twice(log: Log) -> Found:
    """Send a dead letter back twice, although the tool promises to do it once."""
    first, _ = _sent_back(log, 2, 1)
    text = f"is the dead letter {TOPICS.dead_letters}[0] offset 3, sent back a second time"
    return [(Code.SENT_BACK_TWICE, TOPICS.examples, first + 1, f"{text}: {TOPICS.examples}[0] offset {first}")]


def a_dead_letter_sent_back_without_a_mark(log: Log) -> Found:
    """Send a dead letter back without a mark: the next run of the tool would send it again."""
    first, _ = _sent_back(log, 1, 0)
    text = f"is the dead letter {TOPICS.dead_letters}[0] offset 3, but no record there says that it was sent back"
    return [(Code.SENT_BACK_UNMARKED, TOPICS.examples, first, text)]


def a_dead_letter_marked_twice(log: Log) -> Found:
    """Mark a dead letter twice, as if two runs of the tool had sent it."""
    _, last = _sent_back(log, 1, 2)
    return [
        (
            Code.SENT_BACK_TWICE,
            TOPICS.dead_letters,
            last,
            f"says that offset 3 was sent back, as offset {last - 1} does",
        )
    ]


DAMAGES = (
    a_lost_prediction,
    a_doubled_prediction,
    two_predictions_swapped,
    a_truncated_tail,
    a_bit_of_a_score,
    a_bit_of_a_challengers_score,
    a_prediction_of_another_learner,
    two_champions,
    an_aborted_transaction_is_shown,
    an_output_of_another_partition,
    a_prediction_with_another_key,
    a_lost_trace,
    a_lost_header,
    the_header_of_another,
    a_changed_outcome,
    a_lost_outcome,
    a_label_in_two_outcomes,
    an_outcome_at_another_time,
    an_outcome_with_another_key,
    an_end_that_became_a_repeat,
    a_lost_dead_letter,
    a_changed_dead_letter,
    a_dead_letter_with_another_reason,
    a_label_with_another_reason,
    a_dead_letter_sent_back_twice,
    a_dead_letter_sent_back_without_a_mark,
    a_dead_letter_marked_twice,
)
