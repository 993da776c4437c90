"""All of `areba verify`: a true history has no finding, and a log that cannot be read is named."""

import io
import random
from dataclasses import replace

import pytest

from stream_app.errors import ConfigurationError, TopicError
from stream_app.records import (
    Example,
    Label,
    Mark,
    MarkKind,
    Reason,
    Side,
)
from stream_app.serialization import codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.terminal import Terminal
from stream_app.verify import verify
from stream_app.verify.results import MAX_FINDINGS, Code
from stream_app.verify.topic_reader import read_value
from tests.support.verified_log import (
    CONFIG,
    TOPICS,
    Log,
    Stored,
    at_work,
    findings,
    history,
    places,
    put,
    text_of,
)


@pytest.mark.parametrize(("seed", "batch", "kept"), [(1, 97, 1.0), (2, 7, 1.0), (3, 100_000, 1.0), (4, 50, 0.6)])
def test_a_true_history_has_no_finding(seed: int, batch: int, kept: float) -> None:
    """`verify` reports nothing on a healthy application, with all faults of inputs, any cuts, and a group that lags."""
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
    narrow = io.StringIO()
    verify.verify(log, CONFIG).show(Terminal(file=narrow, width=80))
    [labels] = [line for line in narrow.getvalue().splitlines() if "corrections" in line]
    assert labels.split("+")[-1].strip() == "waiting", "all headings are on one line"
    put(log, TOPICS.predictions, 4, None)
    out = io.StringIO()
    verify.verify(log, CONFIG).show(Terminal(file=out, width=120))
    assert "4 findings (1 partitions" in out.getvalue()
    assert f"missing-prediction {TOPICS.examples}[0] offset" in out.getvalue()


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
    assert f"{TOPICS.labels}[0]: offsets 0 to 2 were deleted" in text_of(findings(log), Code.DELETED_RECORDS)


def test_a_value_that_is_no_record(log: Log) -> None:
    """`verify` reports records that another program wrote to a topic of the application."""
    log.records[TOPICS.outcomes].append(Stored(1, b"sine", b"hello"))
    log.records[TOPICS.predictions].append(Stored(1, b"sine", codec.encode(Label("sine", "1", 1))))
    found = findings(log)
    for topic in (TOPICS.outcomes, TOPICS.predictions):
        assert (Code.UNREADABLE_RECORD, topic, len(log.records[topic]) - 1) in places(found)
    assert "is a Label, which has no place here" in text_of(found, Code.UNREADABLE_RECORD)


def test_a_group_at_work_is_not_blamed(log: Log) -> None:
    """Checked while it runs: outputs newer than the last commit that was there at first are no fault."""
    report = verify.verify(at_work(log), CONFIG)
    assert list(report.findings) == []
    assert "the group is at work" in report.notes[0]


def test_an_application_that_never_ran() -> None:
    """Empty topics are no finding."""
    report = verify.verify(Log(), CONFIG)
    assert report.ok
    assert report.figures == {}


def test_a_task_that_does_not_exist_is_an_error(log: Log) -> None:
    """A nightly job for a task that nobody has would find nothing for ever."""
    assert verify.verify(log, CONFIG, tasks=[0]).ok
    with pytest.raises(ConfigurationError):
        verify.verify(log, CONFIG, tasks=[0, 1])


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
    with pytest.raises(TopicError, match=f"{TOPICS.outcomes}: the topic does not exist"):
        verify.verify(log, CONFIG)


def test_values_are_judged_as_the_batch_decoder_judges_them() -> None:
    """Two decoders, written apart: where they differ, one of them is wrong about a user's data."""
    draw = random.Random(3)
    good = [
        codec.encode_unchecked(record)
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
            Mark("sine", MarkKind.DECIDE, threshold_kind="alerts", threshold=0.3),
            Mark("sine", MarkKind.DECIDE, threshold_kind="costs"),
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
            ours = read_value(sent, side, limits)
            assert (ours if isinstance(ours, Reason) else 0) == decoded.reasons[row], (side, sent)
