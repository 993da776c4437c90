"""Damage of progress, metrics and models."""

import math
from dataclasses import replace

from stream_app.records import Example, Metric
from stream_app.serialization import codec
from stream_app.verify.results import Code
from tests.support.damages.log import Found, commit_at, decoded_or_none, missing, prediction_where
from tests.support.formats.metrics import with_main_window
from tests.support.verified_log import TOPICS, Log, Stored, put, where


def a_lost_commit_record(log: Log) -> Found:
    """Lose a commit record, without which the recorded ranges cannot be replayed."""
    del log.records[TOPICS.progress][3]
    return [
        (Code.WRONG_SEQUENCE, TOPICS.progress, 3, "sequence 4 follows 2"),
        (Code.WRONG_RANGE, TOPICS.progress, 3, "sequence 4 starts at "),
    ]


def a_doubled_commit_record(log: Log) -> Found:
    """Repeat a commit record and thus its range."""
    log.records[TOPICS.progress].insert(4, log.records[TOPICS.progress][3])
    return [
        (Code.WRONG_SEQUENCE, TOPICS.progress, 4, "sequence 3 follows 3"),
        (Code.WRONG_RANGE, TOPICS.progress, 4, "sequence 3 starts at "),
    ]


def a_forged_digest(log: Log) -> Found:
    """Change a digest in the middle; the last one, which the offsets name, is right."""
    commit = commit_at(log, 3)
    log.records[TOPICS.progress][3] = Stored(0, None, codec.encode(replace(commit, digest=b"x" * 32)))
    return [(Code.WRONG_DIGEST, TOPICS.progress, 3, "sequence 3: digest 7878787878787878, a fresh run has ")]


def a_range_that_overlaps(log: Log) -> Found:
    """Let two commits claim the same record."""
    commit = commit_at(log, 3)
    changed = replace(commit, examples_start=commit.examples_start - 1)
    log.records[TOPICS.progress][3] = Stored(0, None, codec.encode(changed))
    text = f"sequence 3 starts at {changed.examples_start} of {TOPICS.examples}, the commit before it ended at "
    return [(Code.WRONG_RANGE, TOPICS.progress, 3, text)]


def metric_where(log: Log, learner: str) -> tuple[int, Metric]:
    """Return the offset and the first metric of this learner that has a G-mean."""
    offset, record = where(
        log, TOPICS.metrics, lambda metric: metric.learner == learner and bool(metric.main_window.gmean)
    )
    assert isinstance(record, Metric)
    return offset, record


def a_bit_of_a_gmean(log: Log) -> Found:
    """Change a bit of the G-mean, which decides which learner is promoted."""
    offset, metric = metric_where(log, "baseline")
    gmean = metric.main_window.gmean
    other = math.nextafter(gmean or 0, 2)
    put(log, TOPICS.metrics, offset, with_main_window(metric, gmean=other))
    text = (
        f"{metric.stream}/baseline: gmean with the fading factor 0.99 is {other}, predictions and labels give {gmean}"
    )
    return [(Code.WRONG_METRIC, TOPICS.metrics, offset, text)]


def a_changed_sum(log: Log) -> Found:
    """Change a sum, which dashboards add up over streams."""
    offset, metric = metric_where(log, "areba")
    last = metric.windows[-1]
    changed = replace(last, positive_correct=last.positive_correct + 1)
    put(log, TOPICS.metrics, offset, replace(metric, windows=(*metric.windows[:-1], changed)))
    figure = f"positive_correct with the fading factor {last.fading_factor:g} is {changed.positive_correct}, "
    return [(Code.WRONG_METRIC, TOPICS.metrics, offset, f"{metric.stream}/areba: {figure}")]


def a_changed_queue_length(log: Log) -> Found:
    """Change a figure of a learner's state, which no other topic reports."""
    offset, metric = metric_where(log, "areba")
    longer = (metric.positive_queue or 0) + 1
    put(log, TOPICS.metrics, offset, replace(metric, positive_queue=longer))
    text = f"positive_queue {longer}, not {metric.positive_queue}"
    return [
        (
            Code.NOT_REPRODUCED,
            TOPICS.metrics,
            offset,
            f"the record of stream {metric.stream}, learner areba is not that of a fresh run: {text}",
        )
    ]


def a_lost_metric(log: Log) -> Found:
    """Lose a metric, and so a point of a curve."""
    offset, metric = metric_where(log, "baseline")
    put(log, TOPICS.metrics, offset, None)
    return [missing(TOPICS.metrics, offset, f"stream {metric.stream}, learner baseline, which is missing")]


def two_metrics_swapped(log: Log) -> Found:
    """Swap two metrics, so that a curve goes back in time."""
    records = log.records[TOPICS.metrics]
    first, metric = metric_where(log, "baseline")
    second = next(
        offset
        for offset in range(first + 1, len(records))
        if isinstance(later := codec.decode_one(records[offset].value or b""), Metric)
        and (later.stream, later.learner) == (metric.stream, metric.learner)
        and later.labelled > metric.labelled
    )
    records[first], records[second] = records[second], records[first]
    return [(Code.DECREASED_METRIC, TOPICS.metrics, second, f"counts of {metric.stream}/baseline went back")]


def a_repeated_metric(log: Log) -> Found:
    """Repeat the last metric."""
    log.records[TOPICS.metrics].append(log.records[TOPICS.metrics][-1])
    last = len(log.records[TOPICS.metrics]) - 1
    return [(Code.NOT_WRITTEN_BY_RERUN, TOPICS.metrics, last, "the record of stream ")]


def an_input_that_was_changed_afterwards(log: Log) -> Found:
    """Change the features of a predicted example: a fresh run gives other scores and another model."""
    offset, prediction = prediction_where(log, lambda record: record.champion and record.id == "sine-40")
    place, stored = next(
        (place, stored)
        for place, stored in enumerate(log.records[TOPICS.examples])
        if stored.key == b"sine" and isinstance(one := decoded_or_none(stored), Example) and one.id == "sine-40"
    )
    changed = replace(decoded_or_none(stored), features=[0.25, 0.75])
    log.records[TOPICS.examples][place] = replace(stored, value=codec.encode(changed))
    name = f"the record of stream sine, id sine-40, learner {prediction.learner} is not that of a fresh run: score"
    return [(Code.NOT_REPRODUCED, TOPICS.predictions, offset, name)]


DAMAGES = (
    a_lost_commit_record,
    a_doubled_commit_record,
    a_forged_digest,
    a_range_that_overlaps,
    a_bit_of_a_gmean,
    a_changed_sum,
    a_changed_queue_length,
    a_lost_metric,
    two_metrics_swapped,
    a_repeated_metric,
    an_input_that_was_changed_afterwards,
)
