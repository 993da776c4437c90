"""What the check of one task needs besides a run of all stages if it begins with a state.

The reference join and the recount of metrics need all records from the first on, so they are left out there. The run of
all stages compares every byte of every output, and so every outcome and every metric.
"""

from collections.abc import Iterator

from stream_app.config import Topics
from stream_app.progress_records import Act, Commit
from stream_app.verify.results import Code, Findings
from stream_app.verify.second_run.start import Start
from stream_app.verify.topic_reader import PartitionReader


def progress_after(
    reader: PartitionReader, topic: str, partition: int, start: Start, findings: Findings
) -> Iterator[tuple[int, Commit | Act]]:
    """Yield the records of progress after a state; compare the state's commit record while it is there."""
    is_found = reader.watermarks(topic).low > start.progress_offset
    for row, record in reader.decoded(topic, (Commit, Act), start.progress_offset):
        if not isinstance(record, Commit | Act):  # for the type checker
            continue
        if row.offset > start.progress_offset:
            yield row.offset, record
        elif isinstance(record, Commit) and _link(record) == _link(start.commit):
            is_found = True
    if not is_found:
        text = f"is not the commit record of sequence {start.commit.sequence} that was checked before"
        findings.add(Code.WRONG_DIGEST, topic, partition, start.progress_offset, text)


def check_ends(reader: PartitionReader, topics: Topics, partition: int, ends: tuple[int, int], found: Findings) -> None:
    """Find inputs whose end is gone."""
    for topic, end in zip(topics.inputs, ends, strict=True):
        high = reader.watermarks(topic).high
        if high < end:
            text = f"ends at offset {high}, but the records below {end} were there once"
            found.add(Code.DELETED_RECORDS, topic, partition, None, text)


def _link(commit: Commit) -> tuple[int, bytes, int, int]:
    return commit.sequence, commit.digest, commit.examples_end, commit.labels_end
