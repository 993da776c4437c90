"""`areba verify` says once for each partition what was deleted, and accuses nobody of what follows from it."""

from collections.abc import Callable
from typing import Any

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from stream_app.verify.results import Code
from stream_app.verify.verify import Report, verify
from tests.unit.verify.application import VerifiedApplication, another_score

pytestmark = pytest.mark.slow

NO_SNAPSHOT = {"worker": {"snapshot_after_ms": 10**9, "snapshot_when_idle_ms": 3_600_000}}
"""A task that never takes a snapshot: its processing costs little, and its inputs are deleted before it is idle."""


def _check(application: VerifiedApplication, **given: Any) -> Report:  # noqa: ANN401  (arguments of `verify`)
    return verify(application._cluster, application.config, **{"rerun": True, **given})


def _delete(application: VerifiedApplication, name: str, before: int | None = None) -> int:
    """Delete the records of a topic below this offset, or all; return the first offset that is left."""
    place = TopicPartition(getattr(application.config.topics, name), 0)
    low, high = application._broker.watermarks(place)
    application._broker.delete_before(place, high if before is None else low + before)
    return application._broker.watermarks(place).low


@pytest.mark.parametrize("rerun", [True, False])
@pytest.mark.parametrize("before", [5, 100, None])
@pytest.mark.parametrize("names", [("examples", "labels"), ("examples",), ("labels",)])
def test_inputs_without_a_snapshot(names: tuple[str, ...], before: int | None, *, rerun: bool) -> None:
    """350,708 findings accused the application of wrong digests, because all inputs had expired."""
    application = VerifiedApplication(**NO_SNAPSHOT)
    application.day()
    lows = {name: _delete(application, name, before) for name in names}
    (finding,) = _check(application, rerun=rerun).findings
    assert finding.code is Code.DELETED_RECORDS
    assert "inputs were deleted: " in finding.text
    for name, low in lows.items():
        assert f"{name}[0]: offsets 0 to {low - 1} were deleted" in finding.text
    accepted = _check(application, rerun=rerun, partial=True)
    assert (accepted.ok, accepted.is_partial) == (True, True)
    assert "100 %" not in accepted.scope_line()


@pytest.mark.parametrize("rerun", [True, False])
def test_inputs_that_were_deleted_before_the_first_commit(*, rerun: bool) -> None:
    """Acknowledged, deleted, never seen: with status 0 and "100 % of the history", nobody would ever learn of it."""
    application = VerifiedApplication()
    for number in range(50):
        application.send_example("fans", f"old-{number}", [0.5])
    low = _delete(application, "examples")
    for has_begun in (False, True):
        if has_begun:
            application.day()
        report = _check(application, rerun=rerun)
        assert [finding.code for finding in report.findings] == [Code.DELETED_RECORDS], has_begun
        assert f"examples[0]: offsets 0 to {low - 1} were deleted" in report.findings[0].text
        assert "100 %" not in report.scope_line()
    report = _check(application, rerun=rerun, partial=True)
    assert report.ok, "everything since the application began is right"
    assert not report.is_partial
    application.change(application.config.topics.predictions, application.newest_prediction(), another_score)
    assert not _check(application, partial=True).ok, "what was not deleted is checked as ever"


def test_inputs_that_were_deleted_between_two_commits() -> None:
    """A worker was down for too long: what it never processed is named, also where a snapshot is left."""
    application = VerifiedApplication(**NO_SNAPSHOT)
    application.day()
    for number in range(20):
        application.send_example("fans", f"unread-{number}", [0.5])
    _delete(application, "examples")
    (finding,) = _check(application).findings
    assert finding.code is Code.DELETED_RECORDS
    assert "20 of these records were never processed" in finding.text


def _straddling(application: VerifiedApplication, name: str) -> int:
    """Return an offset of an output topic in the midst of the records of a commit."""
    progress = application.rows(application.config.topics.progress)
    commits = [record for row in progress if isinstance(record := codec.decode_one(row.value or b""), Commit)]
    chosen = next(commit for commit in commits[1:] if getattr(commit, f"{name}_records") > 2)
    return int(getattr(chosen, f"{name}_start")) + 2


@pytest.mark.parametrize("rerun", [True, False])
@pytest.mark.parametrize("name", ["predictions", "outcomes", "metrics", "dead_letters"])
@pytest.mark.parametrize("where", [lambda *_: None, lambda *_: 1, _straddling])
def test_outputs_that_their_retention_deleted(
    where: Callable[[VerifiedApplication, str], int | None], name: str, *, rerun: bool
) -> None:
    """Outputs are kept for a week, inputs for longer: what is left is compared, and nothing is called missing."""
    application = VerifiedApplication()
    for number in range(5):
        application.send_label("nobody", f"{number}", 1)
    application.day()
    low = _delete(application, name, where(application, name) if name != "dead_letters" else None)
    report = _check(application, rerun=rerun)
    (finding,) = report.findings
    assert finding.code is Code.DELETED_RECORDS
    assert f"{finding.topic}[0]: offsets 0 to {low - 1} were deleted" in finding.text
    assert _check(application, rerun=rerun, partial=True).ok


def test_outputs_that_are_left_are_still_compared() -> None:
    """A wrong record after the deleted records is found, and only that."""
    application = VerifiedApplication()
    application.day()
    _delete(application, "predictions", _straddling(application, "predictions"))
    offset = application.newest_prediction()
    application.change(application.config.topics.predictions, offset, another_score)
    found = {(finding.code, finding.offset) for finding in _check(application, partial=True).findings}
    assert (Code.NOT_REPRODUCED, offset) in found
    own = {(Code.NOT_REPRODUCED, offset), (Code.WRONG_PREDICTION, offset)}  # the class does not follow from the score
    assert found <= {*own, *((Code.WRONG_SCORE, finding[1]) for finding in found)}


def test_outputs_after_a_snapshot_that_were_deleted() -> None:
    """Inputs and outputs have expired: the run begins at the snapshot, and compares what is left."""
    application = VerifiedApplication()
    application.day()
    _delete(application, "labels", 5)
    _delete(application, "examples", 5)
    for name in ("predictions", "outcomes", "metrics"):
        _delete(application, name)
    report = _check(application)
    assert {finding.code for finding in report.findings} == {Code.DELETED_RECORDS}
    assert len(report.findings) == 1
    assert _check(application, partial=True).ok


def test_records_that_are_deleted_during_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention does not wait for a check that takes an hour."""
    application = VerifiedApplication(**NO_SNAPSHOT)
    application.day()
    from stream_app.verify.topic_reader import PartitionReader  # noqa: PLC0415

    rows = PartitionReader.rows

    def late(self: PartitionReader, topic: str, first: int = 0) -> Any:  # noqa: ANN401
        if topic == application.config.topics.labels:
            _delete(application, "labels", 100)
        return rows(self, topic, first)

    monkeypatch.setattr(PartitionReader, "rows", late)
    assert [finding.code for finding in _check(application).findings] == [Code.DELETED_RECORDS]
