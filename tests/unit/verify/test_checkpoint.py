"""`areba verify --checkpoint`: runs that follow one another cover all of history, although inputs expire."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stream_app.backends.base import Fetched, LogReader, TopicPartition
from stream_app.cli import clients
from stream_app.cli.main import cli
from stream_app.config import Config
from stream_app.errors import ConfigurationError
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.support.verified_log import CONFIG as OTHER
from tests.support.verified_log import Log, history
from tests.unit.verify.application import SECTIONS, VerifiedApplication, another_score

pytestmark = pytest.mark.slow


def _another_digest(value: bytes) -> bytes:
    record = codec.decode_one(value)
    assert isinstance(record, Commit)
    return codec.encode(replace(record, digest=b"x" * 32))


@pytest.fixture
def application() -> VerifiedApplication:
    """Return an application that has processed one day."""
    made = VerifiedApplication()
    made.day()
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the checkpoint."""
    return tmp_path / "daily.checkpoint"


def test_daily_runs_cover_all_of_history(application: VerifiedApplication, path: Path) -> None:
    """An operator checks each day, and retention takes what is older than a day."""
    first = application.verify(path)
    assert (first.findings, first.is_partial) == ((), False)
    whole = first.commits
    for day in range(2):
        low = application.expire()
        application.day()
        report = application.verify(path)
        assert (report.findings, report.is_partial) == ((), False)
        scope = report.scopes[0]
        assert (scope.since, scope.start, scope.low) == ((0, 0), low, low), day
        assert scope.end == scope.committed > low
        assert 0 < report.commits <= whole + 1
    assert report.scope_line().endswith("100 % of the history")
    assert report.verdict().startswith("all records ")


def test_a_run_of_nothing_new_ends_where_it_began(application: VerifiedApplication, path: Path) -> None:
    """A cron job also runs on a day without records."""
    application.verify(path)
    content = path.read_bytes()
    report = application.verify(path)
    assert (report.ok, report.is_partial, report.commits) == (True, False, 0)
    assert path.read_bytes() == content


def test_models_of_a_continued_run_are_those_of_a_whole_run(application: VerifiedApplication, path: Path) -> None:
    """The final models are compared with the workers' own on any day."""
    application.verify(path)
    application.day()
    assert application.verify(path).models == application.verify().models


def test_commits_that_come_while_outputs_are_read_are_no_finding(
    application: VerifiedApplication, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daily check of 64 partitions, while records came, reported the newest outputs of some of them."""
    application.day()
    assert application.verify(path).ok
    cluster, days = application._cluster, [application.day]
    open_reader = cluster.reader

    def reader(partition: TopicPartition, *, committed: bool = True) -> LogReader:
        made = open_reader(partition, committed=committed)
        poll = made.poll

        def late(max_records: int, timeout_s: float) -> Fetched | None:
            while partition.topic == application.config.topics.predictions and days:
                days.pop()()
            return poll(max_records, timeout_s)

        monkeypatch.setattr(made, "poll", late)
        return made

    monkeypatch.setattr(cluster, "reader", reader)
    assert list(application.verify(path).findings) == []
    assert not days


def test_damage_after_the_checkpoint_is_found_each_day(application: VerifiedApplication, path: Path) -> None:
    """A finding must not be lost by the next run: the checkpoint stays where it was."""
    application.verify(path)
    before = path.read_bytes()
    application.expire()
    end = len(application.predictions())
    application.day()
    topic = application.config.topics.predictions
    offset = [row.offset for row in application.rows(topic)][end + 30]
    application.change(topic, offset, another_score)
    for _ in range(2):
        report = application.verify(path)
        assert [(finding.code, finding.offset) for finding in report.findings] == [(Code.NOT_REPRODUCED, offset)]
        assert path.read_bytes() == before


def test_a_commit_record_that_was_changed_after_the_check(application: VerifiedApplication, path: Path) -> None:
    """The checked history must be the history that the task continued."""
    application.verify(path)
    application.expire()
    topic = application.config.topics.progress
    last = next(row.offset for row in application.rows(topic) if isinstance(codec.decode_one(row.value or b""), Commit))
    application.day()
    application.change(topic, last, _another_digest)
    found = {(finding.code, finding.offset) for finding in application.verify(path).findings}
    assert found == {(Code.WRONG_DIGEST, last)}


def test_inputs_that_expired_before_they_were_checked(application: VerifiedApplication, path: Path) -> None:
    """A cron job that did not run for longer than the retention: these records can no longer be checked."""
    application.verify(path)
    before = path.read_bytes()
    application.day()
    application.expire()
    report = application.verify(path)
    assert {finding.code for finding in report.findings} == {Code.DELETED_RECORDS}
    assert path.read_bytes() == before


def test_without_a_checkpoint_the_oldest_snapshot_is_the_start(application: VerifiedApplication, path: Path) -> None:
    """After the first retention, a run says which share it covered instead of being red forever."""
    for partition in application._inputs:
        application._broker.delete_before(partition, 5)
    report = application.verify(path)
    scope = report.scopes[0]
    assert report.findings == ()
    assert report.is_partial
    assert (5, 5) < scope.since == scope.start < scope.end == scope.committed
    share = math.floor(1_000 * (1 - sum(scope.since) / sum(scope.committed))) / 10
    assert report.verdict().startswith("all checked records ")
    assert f" {share:g} %" in report.verdict()
    assert f" {share:g} %" in report.scope_line()
    application.day()
    chained = application.verify(path)
    assert (chained.ok, chained.scopes[0].since, chained.scopes[0].start) == (True, scope.since, scope.end)
    assert chained.is_partial, "the inputs between offset 5 and the snapshot are still there, and were never checked"
    application.expire()
    final = application.verify(path)
    assert not final.is_partial
    assert final.verdict().startswith("all checked records "), "not all records of the history"


def test_damage_after_the_oldest_snapshot_is_found(application: VerifiedApplication) -> None:
    """A run from a snapshot compares each byte as any other run does."""
    for partition in application._inputs:
        application._broker.delete_before(partition, 5)
    offset = application.newest_prediction()
    application.change(application.config.topics.predictions, offset, another_score)
    found = [(finding.code, finding.offset) for finding in application.verify().findings]
    assert found == [(Code.NOT_REPRODUCED, offset)]


def test_outputs_after_skipped_inputs_are_compared(application: VerifiedApplication) -> None:
    """An operator accepted a gap: what came after it is checked as before, from the first snapshot after the gap on."""
    gap_ends = application.skip_unprocessed()
    application.day()
    report = application.verify()
    scope = report.scopes[0]
    assert report.findings == ()
    assert gap_ends <= scope.start < scope.end == scope.committed
    offset = application.newest_prediction()
    application.change(application.config.topics.predictions, offset, another_score)
    found = [(finding.code, finding.offset) for finding in application.verify().findings]
    assert found == [(Code.NOT_REPRODUCED, offset)]


@pytest.mark.parametrize("at", [5, 40, 200, -1])
def test_a_damaged_file_is_refused_and_kept(application: VerifiedApplication, path: Path, at: int) -> None:
    """A run that began from the start instead would hide that the chain is broken."""
    application.verify(path)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        application.verify(path)
    assert raised.value.exit_code == 2
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"[]", b"{}", b'{"format": 1}', b'{"format": 2}\n[]\n', b"[" * 100_000]
)
def test_a_file_of_another_kind_is_refused_and_kept(path: Path, content: bytes) -> None:
    """A user gave the name of another file."""
    path.write_bytes(content)
    with pytest.raises(ConfigurationError):
        verify(Log(), OTHER, rerun=True, checkpoint=path)
    assert path.read_bytes() == content


def test_a_missing_directory_is_named_before_the_run(path: Path) -> None:
    """A run of hours must not end without its checkpoint."""
    with pytest.raises(ConfigurationError):
        verify(Log(), OTHER, rerun=True, checkpoint=path / "missing" / "file")


def test_the_file_of_another_application_is_refused(application: VerifiedApplication, path: Path) -> None:
    """Two applications on one machine, and a name that was copied; then a topic that was created again."""
    application.verify(path)
    header, _, rest = path.read_bytes().partition(b"\n")
    for change in ({"application": "other"}, {"progress": "other"}, {"topic_ids": ["drawn", "again"]}):
        path.write_bytes(json.dumps(json.loads(header) | change).encode() + b"\n" + rest)
        with pytest.raises(ConfigurationError):
            application.verify(path)


def test_a_crash_leaves_the_last_checkpoint_whole(
    application: VerifiedApplication, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: yesterday's file is still there, and no half of today's."""
    application.verify(path)
    before = path.read_bytes()
    application.day()

    def full(number: int) -> None:
        raise OSError(28, f"No space left on device {number}")

    monkeypatch.setattr("stream_app.verify.second_run.checkpoint.os.fsync", full)
    with pytest.raises(ConfigurationError):
        application.verify(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_exit_status_says_whether_all_that_is_left_was_covered(
    application: VerifiedApplication, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cron job mails nothing but its exit status and the first line."""
    file = path.parent / "areba.yaml"
    file.write_text(yaml.safe_dump(dict(SECTIONS)), encoding="utf-8")
    monkeypatch.setattr(clients, "connect", lambda _: application._cluster)

    def status(*options: str) -> int:
        result = CliRunner().invoke(cli, ["verify", "-c", str(file), *options])
        assert result.stdout.startswith("checked ")
        return result.exit_code

    checkpoint = ("--checkpoint", str(path))
    assert status(*checkpoint) == 0
    for partition in application._inputs:
        application._broker.delete_before(partition, 5)
    assert (status(), status("--partial"), status(*checkpoint)) == (1, 0, 0)
    application.change(application.config.topics.predictions, application.newest_prediction(), another_score)
    assert status("--partial") == 1


def test_a_checkpoint_needs_a_second_run(path: Path) -> None:
    """The state in the file belongs to the second run."""
    with pytest.raises(ConfigurationError):
        verify(history(), OTHER, checkpoint=path)
    assert not path.exists()


def test_a_configuration_after_the_last_commit(application: VerifiedApplication, path: Path) -> None:
    """An act that no commit follows yet belongs to the next run."""
    application.config = Config.model_validate(application.config.model_dump() | {"metrics": {"every_labels": 10}})
    application.crash()
    application.verify(path)
    application.day()
    report = application.verify(path)
    assert (report.findings, report.is_partial) == ((), False)
