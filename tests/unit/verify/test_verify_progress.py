"""`areba verify` checks the chain of commit records."""

from dataclasses import replace

import pytest

from stream_app.progress_records import Act, Commit
from stream_app.serialization import codec
from stream_app.verify.results import Code
from tests.support.verified_log import (
    TOPICS,
    Log,
    Stored,
    findings,
    places,
    put,
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


def test_an_act_whose_sequence_comes_twice(log: Log) -> None:
    """Brokers refuse all writers but one, so this is damage: the next restore would park the task."""
    last = len(log.records[TOPICS.progress])
    acts = [Act(last, "reset", "0", "s"), Act(last, "reset", "0", "s")]
    log.records[TOPICS.progress] += [Stored(0, None, codec.encode(act)) for act in acts]
    assert places(findings(log)) == {(Code.WRONG_SEQUENCE, TOPICS.progress, last + 1)}


def test_a_lost_last_commit_record(log: Log) -> None:
    """Outputs without their commit record are half a transaction."""
    del log.records[TOPICS.progress][-1]
    assert Code.UNEXPECTED_PREDICTION in {finding.code for finding in findings(log)}
