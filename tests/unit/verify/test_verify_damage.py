"""`areba verify` is as good as what it finds: a log is damaged in one way after the other, and each must be named.

The history is that of a real task with real learners, with every fault that an input can have. A finding has to name
the check and the record: topic, partition, offset. The undamaged log has none.
"""

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from stream_app.backends.base import Committed, TopicPartition
from stream_app.records import Commit, Example, Metric, Outcome, Prediction
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import DEAD_LETTER_HEADERS, SENT_BACK, Replay
from stream_app.verify import verify
from stream_app.verify.results import Code
from tests.support.verified_log import CONFIG, TOPICS, Log, Stored, inputs, processed, put, where

Found: TypeAlias = Sequence[tuple[Code, str, int | None, str]]
"""Code, topic and offset of findings that must be there, and what their text contains."""


def _log() -> Log:
    log = Log()
    log.records[TOPICS.examples], log.records[TOPICS.labels] = inputs(1)
    return processed(log, 97, 1.0)


@pytest.fixture(scope="module")
def true_log() -> Log:
    """A history in which nothing is off; not to be changed."""
    return _log()


@pytest.fixture
def log(true_log: Log) -> Log:
    """A copy, to damage it."""
    return Log({name: list(records) for name, records in true_log.records.items()}, dict(true_log.offsets))


ANY = -1
"""In place of an offset: the damage shows at some record of the topic."""


def _missing(topic: str, offset: int, text: str) -> tuple[Code, str, None, str]:
    return Code.MISSING_FROM_TOPIC, topic, None, f"after offset {offset - 1} a fresh run writes the record of {text}"


def _prediction(log: Log, test: Callable[[Prediction], bool]) -> tuple[int, Prediction]:
    offset, record = where(log, TOPICS.predictions, test)
    assert isinstance(record, Prediction)
    return offset, record


def _outcome(log: Log, test: Callable[[Outcome], bool]) -> tuple[int, Outcome]:
    offset, record = where(log, TOPICS.outcomes, test)
    assert isinstance(record, Outcome)
    return offset, record


def _example_at(log: Log, id_: str) -> int:
    return next(
        offset
        for offset, stored in enumerate(log.records[TOPICS.examples])
        if isinstance(example := _example(stored), Example) and example.id == id_
    )


def _commit(log: Log, offset: int) -> Commit:
    record = codec.decode_one(log.records[TOPICS.progress][offset].value or b"")
    assert isinstance(record, Commit)
    return record


def _next_score(score: float) -> float:
    """The float32 beside it: one bit."""
    (bits,) = struct.unpack("<I", struct.pack("<f", score))
    (result,) = struct.unpack("<f", struct.pack("<I", bits ^ 1))
    return float(result)


# Predictions ----------------------------------------------------------------------------------------------------------


def a_lost_prediction(log: Log) -> Found:
    """The champion's."""
    offset, prediction = _prediction(log, lambda record: record.champion and record.id == "sine-40")
    put(log, TOPICS.predictions, offset, None)
    return [
        (Code.MISSING_PREDICTION, TOPICS.examples, _example_at(log, "sine-40"), f"learner {prediction.learner} "),
        _missing(
            TOPICS.predictions, offset, f"stream sine, id sine-40, learner {prediction.learner}, which is missing"
        ),
    ]


def a_doubled_prediction(log: Log) -> Found:
    """A customer is answered twice."""
    offset, _ = _prediction(log, lambda record: record.champion and record.id == "sea-50")
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
    """Of one stream: its order is what a subscriber builds on."""
    records = log.records[TOPICS.predictions]
    place = next(place for place in range(20, 200, 2) if records[place].key == records[place + 2].key == b"slow")
    records[place : place + 4] = [*records[place + 2 : place + 4], *records[place : place + 2]]
    return [(Code.MISPLACED_PREDICTION, TOPICS.predictions, place, "comes too early; it belongs to ")]


def a_truncated_tail(log: Log) -> Found:
    """A broker lost the last records."""
    gone = log.records[TOPICS.predictions][-2:]
    del log.records[TOPICS.predictions][-2:]
    last = codec.decode_one(gone[0].value or b"")
    assert isinstance(last, Prediction)
    end = len(log.records[TOPICS.predictions]) - 1
    return [
        (Code.WRONG_RECORD_COUNT, TOPICS.progress, None, "the commit records tell of "),
        _missing(TOPICS.predictions, end + 1, f"stream {last.stream}, id {last.id}"),
    ]


def a_bit_of_a_score(log: Log) -> Found:
    """The champion's; the outcome still has the true one."""
    offset, prediction = _prediction(log, lambda record: record.champion and record.id == "sine-40")
    put(log, TOPICS.predictions, offset, replace(prediction, score=_next_score(prediction.score)))
    outcome, _ = _outcome(log, lambda record: record.outcome == "joined" and record.id == "sine-40")
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
    """No other record tells it again: only a fresh run knows."""
    offset, prediction = _prediction(log, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, replace(prediction, score=_next_score(prediction.score)))
    name = f"the record of stream sea, id sea-50, learner {prediction.learner} is not that of a fresh run: score "
    return [(Code.NOT_REPRODUCED, TOPICS.predictions, offset, name)]


def a_prediction_of_another_learner(log: Log) -> Found:
    """The name of the one that answered."""
    offset, prediction = _prediction(log, lambda record: record.champion and record.id == "sine-40")
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
    """A subscriber who takes the champion's has two."""
    offset, prediction = _prediction(log, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, replace(prediction, champion=True))
    return [(Code.WRONG_PREDICTION, TOPICS.predictions, offset, "champion is True, must be False")]


def an_aborted_round_is_shown(log: Log) -> Found:
    """A reader that is not read_committed, or a transaction that was ended wrongly: a round is there twice."""
    records = log.records[TOPICS.predictions]
    records[60:60] = records[40:60]
    first = codec.decode_one(records[60].value or b"")
    assert isinstance(first, Prediction)
    return [
        (Code.UNEXPECTED_PREDICTION, TOPICS.predictions, 60, "belongs to no example, or to an example that has its"),
        (Code.WRONG_RECORD_COUNT, TOPICS.progress, None, "the commit records tell of "),
    ]


def an_output_of_another_partition(log: Log) -> Found:
    """Written by who thought that it owned this task."""
    record = replace(_prediction(log, lambda record: record.champion)[1], stream="elsewhere", id="1")
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
    """Who reads one stream by its key does not see the answer."""
    offset, _ = _prediction(log, lambda record: record.champion and record.id == "sine-40")
    log.records[TOPICS.predictions][offset] = replace(log.records[TOPICS.predictions][offset], key=b"sea")
    return [(Code.WRONG_PREDICTION, TOPICS.predictions, offset, "key is b'sea', must be the stream; it belongs to ")]


def a_lost_trace(log: Log) -> Found:
    """The header that ties a prediction to the request that asked for it."""
    offset = next(n for n, stored in enumerate(log.records[TOPICS.predictions]) if stored.headers)
    log.records[TOPICS.predictions][offset] = replace(log.records[TOPICS.predictions][offset], headers=())
    return [
        (Code.WRONG_PREDICTION, TOPICS.predictions, offset, "headers are not the trace header"),
        (Code.NOT_REPRODUCED, TOPICS.predictions, offset, "the record of stream "),
    ]


# Outcomes -------------------------------------------------------------------------------------------------------------


def a_changed_outcome(log: Log) -> Found:
    """Another class than the label told."""
    offset, outcome = _outcome(log, lambda record: record.outcome == "joined" and record.id == "sine-40")
    put(log, TOPICS.outcomes, offset, replace(outcome, label=1 - (outcome.label or 0)))
    return [
        (Code.WRONG_OUTCOME, TOPICS.outcomes, offset, "label is 1, must be 0"),
        (Code.WRONG_METRIC, TOPICS.metrics, ANY, "predictions and labels give"),
    ]


def a_lost_outcome(log: Log) -> Found:
    """The end of an example that nobody was told."""
    offset, outcome = _outcome(log, lambda record: record.outcome == "joined" and record.stream == "sea")
    put(log, TOPICS.outcomes, offset, None)
    text = f"the outcome joined with the label at {TOPICS.labels}[0] offset {outcome.label_offset}"
    return [(Code.MISSING_OUTCOME, TOPICS.examples, outcome.example_offset, text)]


def a_label_in_two_outcomes(log: Log) -> Found:
    """It would count twice in every report."""
    offset, outcome = _outcome(log, lambda record: record.outcome == "joined" and record.stream == "sine")
    other, victim = _outcome(
        log,
        lambda record: record.outcome == "joined" and record.stream == "sine" and record.id != outcome.id,
    )
    put(log, TOPICS.outcomes, other, replace(victim, label_offset=outcome.label_offset))
    del offset
    text = f"label_offset is {outcome.label_offset}, must be {victim.label_offset}"
    return [(Code.WRONG_OUTCOME, TOPICS.outcomes, other, text)]


def an_outcome_at_another_time(log: Log) -> Found:
    """Event time is part of the record: windows of a subscriber are cut by it."""
    offset, outcome = _outcome(log, lambda record: record.outcome == "joined" and record.stream == "sine")
    records = log.records[TOPICS.outcomes]
    records[offset] = replace(records[offset], timestamp_ms=records[offset].timestamp_ms + 1)
    name = f"the record of stream sine, id {outcome.id}, learner {outcome.learner}"
    return [
        (Code.WRONG_OUTCOME, TOPICS.outcomes, offset, "timestamp is "),
        (Code.NOT_REPRODUCED, TOPICS.outcomes, offset, f"{name} is not that of a fresh run: timestamp_ms"),
    ]


def an_outcome_with_another_key(log: Log) -> Found:
    """The key is the stream: a table that is made of the topic would have it under another one."""
    offset, outcome = _outcome(log, lambda record: record.outcome == "joined" and record.stream == "sine")
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
    """An example that was answered, and given up without a label, is called a repeat: nobody misses its label."""
    offset, outcome = _outcome(log, lambda record: record.outcome == "unlabelled" and record.stream == "sine")
    put(log, TOPICS.outcomes, offset, replace(outcome, outcome="duplicate"))
    text = f"outcome is duplicate, must be unlabelled (stream sine, id {outcome.id})"
    return [(Code.WRONG_OUTCOME, TOPICS.outcomes, offset, text)]


# Dead letters ---------------------------------------------------------------------------------------------------------


def _dead(log: Log, reason: bytes, topic: str = TOPICS.examples) -> tuple[int, int]:
    """Its offset, and that of the input record that it was."""
    for offset, stored in enumerate(log.records[TOPICS.dead_letters]):
        headers = dict(stored.headers)
        if (headers["areba.reason"], headers["__connect.errors.topic"]) == (reason, topic.encode()):
            return offset, int(headers["__connect.errors.offset"] or b"")
    raise AssertionError(reason)


def a_lost_dead_letter(log: Log) -> Found:
    """Nothing is lost silently."""
    offset, origin = _dead(log, b"undecodable")
    del log.records[TOPICS.dead_letters][offset]
    return [(Code.MISSING_DEAD_LETTER, TOPICS.examples, origin, "the dead letter undecodable")]


def a_changed_dead_letter(log: Log) -> Found:
    """It could not be sent back as it came."""
    offset, origin = _dead(log, b"wrong-dimension")
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
    """Possible for this record, but not what it was."""
    offset, origin = _dead(log, b"conflicting-example")
    stored = log.records[TOPICS.dead_letters][offset]
    headers = [*stored.headers[:-1], (DEAD_LETTER_HEADERS[-1], b"wrong-dimension")]
    log.records[TOPICS.dead_letters][offset] = replace(stored, headers=tuple(headers))
    text = (
        f"reason is wrong-dimension, must be conflicting-example; it belongs to {TOPICS.examples}[0] offset {origin} "
    )
    return [(Code.WRONG_DEAD_LETTER, TOPICS.dead_letters, offset, text)]


def a_label_with_another_reason(log: Log) -> Found:
    """Late, says the dead letter; but its example had its label."""
    offset, origin = _dead(log, b"conflicting-label", TOPICS.labels)
    stored = log.records[TOPICS.dead_letters][offset]
    headers = [*stored.headers[:-1], (DEAD_LETTER_HEADERS[-1], b"late-label")]
    log.records[TOPICS.dead_letters][offset] = replace(stored, headers=tuple(headers))
    text = f"reason is late-label, must be conflicting-label; it belongs to {TOPICS.labels}[0] offset {origin} "
    return [(Code.WRONG_DEAD_LETTER, TOPICS.dead_letters, offset, text)]


def _sent_back(log: Log, times: int, marks: int) -> tuple[int, int]:
    """A dead letter among the last inputs of this log, sent back so often, with so many records that say so."""
    for number in range(times):
        replay = Replay(TOPICS.dead_letters, 0, 3, TOPICS.examples, 0, 17, 1, number)
        log.records[TOPICS.examples].append(Stored(9_000 + number, b"\xff", b"garbage", tuple(replay.headers())))
    first = len(log.records[TOPICS.examples]) - times
    for name in (TOPICS.predictions, TOPICS.outcomes, TOPICS.metrics, TOPICS.dead_letters, TOPICS.progress):
        log.records[name] = []
    processed(log, 97, 1.0)
    letters = log.records[TOPICS.dead_letters]
    letters += [Stored(1, None, None, ((SENT_BACK, b"3"),)) for _ in range(marks)]
    return first, len(letters) - 1


def a_dead_letter_sent_back_twice(log: Log) -> Found:
    """Each once is the promise of the tool."""
    first, _ = _sent_back(log, 2, 1)
    text = f"is the dead letter {TOPICS.dead_letters}[0] offset 3, sent back a second time"
    return [(Code.SENT_BACK_TWICE, TOPICS.examples, first + 1, f"{text}: {TOPICS.examples}[0] offset {first}")]


def a_dead_letter_sent_back_without_a_mark(log: Log) -> Found:
    """The next run of the tool would send it again."""
    first, _ = _sent_back(log, 1, 0)
    text = f"is the dead letter {TOPICS.dead_letters}[0] offset 3, but no record there says that it was sent back"
    return [(Code.SENT_BACK_UNMARKED, TOPICS.examples, first, text)]


def a_dead_letter_marked_twice(log: Log) -> Found:
    """Two runs of the tool both believe that they have sent it."""
    _, last = _sent_back(log, 1, 2)
    return [
        (
            Code.SENT_BACK_TWICE,
            TOPICS.dead_letters,
            last,
            f"says that offset 3 was sent back, as offset {last - 1} does",
        )
    ]


# Progress -------------------------------------------------------------------------------------------------------------


def a_lost_commit_record(log: Log) -> Found:
    """Nobody can re-process along the recorded ranges."""
    del log.records[TOPICS.progress][3]
    return [
        (Code.WRONG_SEQUENCE, TOPICS.progress, 3, "sequence 4 follows 2"),
        (Code.WRONG_RANGE, TOPICS.progress, 3, "sequence 4 starts at "),
    ]


def a_doubled_commit_record(log: Log) -> Found:
    """The same range twice."""
    log.records[TOPICS.progress].insert(4, log.records[TOPICS.progress][3])
    return [
        (Code.WRONG_SEQUENCE, TOPICS.progress, 4, "sequence 3 follows 3"),
        (Code.WRONG_RANGE, TOPICS.progress, 4, "sequence 3 starts at "),
    ]


def a_forged_digest(log: Log) -> Found:
    """In the middle: the last one, which the offsets name, is as it should be."""
    commit = _commit(log, 3)
    log.records[TOPICS.progress][3] = Stored(0, None, codec.encode(replace(commit, digest=b"x" * 32)))
    return [(Code.WRONG_DIGEST, TOPICS.progress, 3, "sequence 3: digest 7878787878787878, a fresh run has ")]


def a_range_that_overlaps(log: Log) -> Found:
    """A record that two rounds claim."""
    commit = _commit(log, 3)
    changed = replace(commit, examples_start=commit.examples_start - 1)
    log.records[TOPICS.progress][3] = Stored(0, None, codec.encode(changed))
    text = f"sequence 3 starts at {changed.examples_start} of {TOPICS.examples}, the commit before it ended at "
    return [(Code.WRONG_RANGE, TOPICS.progress, 3, text)]


def offsets_of_another_history(log: Log) -> Found:
    """The committed offsets name a digest that is not that of the commit record."""
    for place, committed in list(log.offsets.items()):
        words = committed.metadata.split()
        log.offsets[place] = Committed(committed.offset, " ".join([*words[:2], "0" * 64]))
    return [
        (
            Code.WRONG_DIGEST,
            TOPICS.progress,
            None,
            f"sequence {len(log.records[TOPICS.progress]) - 1}: its digest is not",
        )
    ]


def offsets_that_were_moved(log: Log) -> Found:
    """With what is stored beside them kept: the next records would be skipped, or read again."""
    place = TopicPartition(TOPICS.examples, 0)
    committed = log.offsets[place]
    log.offsets[place] = Committed(committed.offset - 1, committed.metadata)
    labels = log.offsets[TopicPartition(TOPICS.labels, 0)].offset
    text = f"ends at {committed.offset}/{labels}, committed are {committed.offset - 1}/{labels}"
    return [
        (
            Code.WRONG_COMMITTED_OFFSETS,
            TOPICS.progress,
            None,
            f"sequence {len(log.records[TOPICS.progress]) - 1} {text}",
        )
    ]


# Metrics and models ---------------------------------------------------------------------------------------------------


def _metric(log: Log, learner: str) -> tuple[int, Metric]:
    offset, record = where(log, TOPICS.metrics, lambda metric: metric.learner == learner and bool(metric.gmean))
    assert isinstance(record, Metric)
    return offset, record


def a_bit_of_a_gmean(log: Log) -> Found:
    """The figure that decides which learner is promoted."""
    offset, metric = _metric(log, "baseline")
    other = math.nextafter(metric.gmean or 0, 2)
    put(log, TOPICS.metrics, offset, replace(metric, gmean=other))
    text = f"{metric.stream}/baseline: gmean is {other}, predictions and labels give {metric.gmean}"
    return [(Code.WRONG_METRIC, TOPICS.metrics, offset, text)]


def a_changed_sum(log: Log) -> Found:
    """What a dashboard adds up over streams."""
    offset, metric = _metric(log, "areba")
    put(log, TOPICS.metrics, offset, replace(metric, positive_correct=metric.positive_correct + 1))
    return [
        (
            Code.WRONG_METRIC,
            TOPICS.metrics,
            offset,
            f"{metric.stream}/areba: positive_correct is {metric.positive_correct + 1}, ",
        )
    ]


def a_changed_queue_length(log: Log) -> Found:
    """Of the learner's inside, which no other topic tells."""
    offset, metric = _metric(log, "areba")
    put(log, TOPICS.metrics, offset, replace(metric, positive_queue=metric.positive_queue + 1))
    text = f"positive_queue {metric.positive_queue + 1}, not {metric.positive_queue}"
    return [
        (
            Code.NOT_REPRODUCED,
            TOPICS.metrics,
            offset,
            f"the record of stream {metric.stream}, learner areba is not that of a fresh run: {text}",
        )
    ]


def a_lost_metric(log: Log) -> Found:
    """A point that is missing in a curve."""
    offset, metric = _metric(log, "baseline")
    put(log, TOPICS.metrics, offset, None)
    return [_missing(TOPICS.metrics, offset, f"stream {metric.stream}, learner baseline, which is missing")]


def two_metrics_swapped(log: Log) -> Found:
    """A curve that goes back in time."""
    records = log.records[TOPICS.metrics]
    first, metric = _metric(log, "baseline")
    second = next(
        offset
        for offset in range(first + 1, len(records))
        if isinstance(later := codec.decode_one(records[offset].value or b""), Metric)
        and (later.stream, later.learner) == (metric.stream, metric.learner)
        and later.labelled > metric.labelled
    )
    records[first], records[second] = records[second], records[first]
    return [(Code.DECREASED_METRIC, TOPICS.metrics, second, f"counts of {metric.stream}/baseline went back")]


def a_metric_too_much(log: Log) -> Found:
    """Behind the last one: a curve ends twice."""
    log.records[TOPICS.metrics].append(log.records[TOPICS.metrics][-1])
    last = len(log.records[TOPICS.metrics]) - 1
    return [(Code.NOT_WRITTEN_BY_RERUN, TOPICS.metrics, last, "the record of stream ")]


def an_input_that_was_changed_afterwards(log: Log) -> Found:
    """Features that are not those that were predicted: a fresh run comes to other scores, and another model."""
    offset, prediction = _prediction(log, lambda record: record.champion and record.id == "sine-40")
    place, stored = next(
        (place, stored)
        for place, stored in enumerate(log.records[TOPICS.examples])
        if stored.key == b"sine" and isinstance(one := _example(stored), Example) and one.id == "sine-40"
    )
    changed = replace(_example(stored), features=[0.25, 0.75])
    log.records[TOPICS.examples][place] = replace(stored, value=codec.encode(changed))
    name = f"the record of stream sine, id sine-40, learner {prediction.learner} is not that of a fresh run: score"
    return [(Code.NOT_REPRODUCED, TOPICS.predictions, offset, name)]


def _example(stored: Stored) -> Any:  # noqa: ANN401  (any record, or none)
    try:
        return codec.decode_one(stored.value or b"")
    except Exception:  # noqa: BLE001  (some are damaged on purpose)
        return None


DAMAGES = (
    a_lost_prediction,
    a_doubled_prediction,
    two_predictions_swapped,
    a_truncated_tail,
    a_bit_of_a_score,
    a_bit_of_a_challengers_score,
    a_prediction_of_another_learner,
    two_champions,
    an_aborted_round_is_shown,
    an_output_of_another_partition,
    a_prediction_with_another_key,
    a_lost_trace,
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
    a_lost_commit_record,
    a_doubled_commit_record,
    a_forged_digest,
    a_range_that_overlaps,
    offsets_of_another_history,
    offsets_that_were_moved,
    a_bit_of_a_gmean,
    a_changed_sum,
    a_changed_queue_length,
    a_lost_metric,
    two_metrics_swapped,
    a_metric_too_much,
    an_input_that_was_changed_afterwards,
)


def test_the_undamaged_log_has_no_finding(log: Log) -> None:
    """Whoever is warned of nothing does not look the next time; every metric and the models were compared."""
    report = verify.verify(log, CONFIG, rerun=True)
    assert list(report.findings) == []
    assert list(report.notes) == []
    assert report.models.keys() == {0}
    again = verify.verify(log, CONFIG, rerun=True, models=report.models)
    assert again.ok


@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.__name__ for damage in DAMAGES])
def test_damage_is_found_and_named(log: Log, damage: Callable[[Log], Found]) -> None:
    """By the check that is about it, with topic, partition and offset; not by a count that is off somewhere."""
    expected = damage(log)
    findings = verify.verify(log, CONFIG, rerun=True).findings
    for code, topic, offset, text in expected:
        assert any(
            (finding.code, finding.topic) == (code, topic) and offset in (ANY, finding.offset) and text in finding.text
            for finding in findings
        ), ((code, topic, offset, text), findings[:10])


def test_other_final_models_are_named(log: Log) -> None:
    """A worker that ended with another model than a fresh one: its next predictions would be others."""
    wrong = verify.verify(log, CONFIG, rerun=True, models={0: "0" * 64})
    (finding,) = wrong.findings
    assert (finding.code, finding.topic) == (Code.WRONG_MODELS, TOPICS.progress)
    assert finding.text.startswith(f"the final models have digest {'0' * 64}, those of a fresh run ")


def test_one_damage_is_not_many(log: Log) -> None:
    """The comparison goes on behind it: an operator must see the one record, not a thousand that follow."""
    offset, prediction = _prediction(log, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, replace(prediction, score=_next_score(prediction.score)))
    assert len(verify.verify(log, CONFIG, rerun=True).findings) == 1


def test_a_group_at_work_is_run_again_as_far_as_it_had_come(log: Log) -> None:
    """Outputs behind the committed offsets that were asked for are no fault."""
    half = len(log.records[TOPICS.progress]) // 2
    commit = _commit(log, half)
    metadata = f"1 {commit.sequence} {commit.digest.hex()}"
    ends = {TOPICS.examples: commit.examples_end, TOPICS.labels: commit.labels_end}
    late = Log(log.records, {TopicPartition(topic, 0): Committed(end, metadata) for topic, end in ends.items()})
    asked = itertools.count()

    def move_on() -> None:
        if next(asked) == 0:
            late.offsets = log.offsets

    late.after_read = move_on
    report = verify.verify(late, CONFIG, rerun=True)
    assert list(report.findings) == []
    assert report.models[0] != verify.verify(log, CONFIG, rerun=True).models[0]


def test_inputs_that_retention_took_are_a_note_of_the_fresh_run(log: Log) -> None:
    """The audit names the missing inputs; a hundred differences that follow from them would hide that."""
    log.records[TOPICS.labels] = [
        replace(stored, offset=offset) for offset, stored in enumerate(log.records[TOPICS.labels])
    ][3:]
    report = verify.verify(log, CONFIG, rerun=True)
    assert f"partition 0: was not run again to its end: {TOPICS.labels} starts at offset 3" in report.notes
    assert {finding.code for finding in report.findings} == {Code.DELETED_RECORDS}
