"""Check one task from a state on: progress, and every output, digest and model against a run from that state.

The reference join and the recount of metrics need all records from the first on, so they are left out here. The run of
all stages compares every byte of every output, and so every outcome and every metric.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from stream_app.config import Config
from stream_app.records import Act, Commit
from stream_app.verify.partition.deleted import Horizon
from stream_app.verify.progress_check import ProgressCheck
from stream_app.verify.results import Code, Findings
from stream_app.verify.second_run.checkpoint import Ended, ended
from stream_app.verify.second_run.partition_rows import open_rerun
from stream_app.verify.second_run.rerun import Rerun
from stream_app.verify.second_run.start import Start
from stream_app.verify.topic_reader import PartitionReader


class _ContinuedFindings(NamedTuple):
    """What was found, apart from the findings.

    Attributes:
        commits: Number of commit records after the state.
        records: Number of the outputs that they describe.
        end: The input offsets at which the check ended.
        ended: What a checkpoint holds; None where the run ended early.
        models: Digest of all models after the run; None where the run ended early.
        stopped: Why the run ended early; None if it did not.
        horizons: Where the output topics begin by now.
        lacks_outputs: Whether outputs of the commits after the state were deleted.
    """

    commits: int
    records: int
    end: tuple[int, int]
    ended: Ended | None
    models: str | None
    stopped: str | None
    horizons: Sequence[Horizon]
    lacks_outputs: bool


class ContinuedCheck:
    """The check of one task from a state on."""

    def __init__(
        self, config: Config, partition: int, start: Start, reader: PartitionReader, findings: Findings
    ) -> None:
        self._config = config
        self._partition = partition
        self._start = start
        self._reader = reader
        self._findings = findings

    def run(self, last: Commit | None, is_running: Callable[[], bool]) -> _ContinuedFindings:
        """Check everything between the state and the last commit.

        Args:
            last: The last commit; None before the first commit.
            is_running: Says whether the group has committed more since: then further outputs are not unexpected.
        """
        topics, start = self._config.topics, self._start
        inputs = (topics.examples, topics.labels)
        progress = ProgressCheck(topics.progress, inputs, self._partition, last, self._findings, start.commit)
        horizons, lacks_outputs = self._reader.horizons(topics, start.progress_offset)
        rerun = open_rerun(self._reader, self._config, self._partition, self._findings, start, horizons)
        commits = records = 0
        for step in progress.steps(self._records()):
            if isinstance(step.record, Commit):
                commits += 1
                records += step.record.records
            rerun.take(step.offset, step.record)
        self._check_ends(inputs, progress.ends)
        rerun.finish(running=is_running())
        state, models = rerun.state(), rerun.models()
        where = None if state is None else ended(self._partition, state, start.since, rerun.output_ends())
        end, found = _end(rerun, start, progress.ends), tuple(horizons.values())
        return _ContinuedFindings(commits, records, end, where, models, rerun.stopped, found, lacks_outputs)

    def _records(self) -> Iterator[tuple[int, Commit | Act]]:
        """Yield the records of progress after the state; compare the state's commit record while it is there."""
        topic, start = self._config.topics.progress, self._start
        is_found = self._reader.watermarks(topic).low > start.progress_offset
        for row, record in self._reader.decoded(topic, (Commit, Act), start.progress_offset):
            if not isinstance(record, Commit | Act):  # for the type checker
                continue
            if row.offset > start.progress_offset:
                yield row.offset, record
            elif isinstance(record, Commit) and _link(record) == _link(start.commit):
                is_found = True
        if not is_found:
            text = f"is not the commit record of sequence {start.commit.sequence} that was checked before"
            self._findings.add(Code.WRONG_DIGEST, topic, self._partition, start.progress_offset, text)

    def _check_ends(self, inputs: tuple[str, str], ends: tuple[int, int]) -> None:
        """Find inputs whose end is gone."""
        for topic, end in zip(inputs, ends, strict=True):
            high = self._reader.watermarks(topic).high
            if high < end:
                text = f"ends at offset {high}, but the records below {end} were there once"
                self._findings.add(Code.DELETED_RECORDS, topic, self._partition, None, text)


def _link(commit: Commit) -> tuple[int, bytes, int, int]:
    return commit.sequence, commit.digest, commit.examples_end, commit.labels_end


def _end(rerun: Rerun, start: Start, ends: tuple[int, int]) -> tuple[int, int]:
    """Return the input offsets that the run has reached."""
    return ends if rerun.stopped is None else start.ends
