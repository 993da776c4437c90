"""`areba verify` checks the chain of commit records and the committed offsets."""

from dataclasses import replace

import pytest

from stream_app.backends.base import Committed, TopicPartition
from stream_app.records import (
    Act,
    Commit,
)
from stream_app.serialization import codec
from stream_app.verify.results import Code
from tests.support.verified_log import (
    TOPICS,
    Log,
    Stored,
    findings,
    places,
    put,
    text_of,
)


def test_a_gap_in_the_commit_records(log: Log) -> None:
    """Without one link, the recorded ranges cannot be processed again."""
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
    """Without it, the settings of the first records are unknown."""
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


def test_committed_offsets_that_were_reset(log: Log) -> None:
    """An operator moved the group's offsets."""
    log.offsets[TopicPartition(TOPICS.examples, 0)] = Committed(10, "")
    text = text_of(findings(log), Code.WRONG_COMMITTED_OFFSETS)
    assert "the committed offsets of examples and labels do not belong together" in text


def test_a_group_that_was_reset_to_an_offset(log: Log) -> None:
    """Kafka's own tool commits both offsets, without our metadata."""
    for topic in (TOPICS.examples, TOPICS.labels):
        log.offsets[TopicPartition(topic, 0)] = Committed(10, "")
    text = text_of(findings(log), Code.WRONG_COMMITTED_OFFSETS)
    assert f"{TOPICS.examples}[0]: the committed offset has no metadata of areba; was the group reset?" in text


def test_a_group_whose_offsets_are_gone(log: Log) -> None:
    """Offsets expire when the group had no member for a week; then nothing records what was processed."""
    log.offsets.clear()
    assert (Code.WRONG_COMMITTED_OFFSETS, TOPICS.progress, 1) in places(findings(log))
