"""The chain of digests: it compares a restored task with the original, so it must cover everything."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from stream_app.pipeline.outputs import NOTHING, OUTPUT_TOPICS, Outputs, chain_digest
from stream_app.pipeline.steps.routed import Judged
from stream_app.record_columns import OutputRecords, binary_column

RECORDS = OutputRecords.of(
    [b"a", b"b", None], [b"1", b"22", None], [10, 20, 30], {0: [("one", b"x"), ("two", None)], 2: [("one", b"")]}
)

NONE = Judged(np.zeros(3, np.int32), np.zeros(3, np.bool_), 1)
"""No record is malformed."""

CHANGES: Mapping[str, Callable[[OutputRecords], OutputRecords]] = {
    "a key": lambda records: replace(records, keys=binary_column([b"a", b"c", None])),
    "where a key ends": lambda records: replace(records, keys=binary_column([b"ab", b"", None])),
    "no key": lambda records: replace(records, keys=binary_column([b"a", b"b", b""])),
    "a value": lambda records: replace(records, values=binary_column([b"1", b"23", None])),
    "where a value ends": lambda records: replace(records, values=binary_column([b"12", b"2", None])),
    "no value": lambda records: replace(records, values=binary_column([b"1", b"22", b""])),
    "a header's name": lambda records: replace(records, headers={**records.headers, 2: [("two", b"")]}),
    "a header's value": lambda records: replace(records, headers={**records.headers, 2: [("one", b"y")]}),
    "no value of a header": lambda records: replace(records, headers={**records.headers, 2: [("one", None)]}),
    "the order of headers": lambda records: replace(
        records, headers={**records.headers, 0: [("two", None), ("one", b"x")]}
    ),
    "whose header it is": lambda records: replace(records, headers={0: records.headers[0], 1: records.headers[2]}),
    "no headers": lambda records: replace(records, headers={}),
    "a record less": lambda records: OutputRecords.of(records.keys[:2], records.values[:2], records.timestamps[:2], {}),
}


def digest(topic: str, records: OutputRecords, previous: bytes = bytes(32), end: int = 3) -> bytes:
    """Return the digest of a batch with these records in one topic."""
    topics = {**dict.fromkeys(OUTPUT_TOPICS, NOTHING), topic: records}
    return chain_digest(previous, (0, end, 0, 2), Outputs(topics, (NONE, NONE), {}, (), (), (), np.zeros(0, np.int64)))


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_sees_every_cell(change: str) -> None:
    """A worker that publishes other headers, such as another trace, would pass as correctly restored."""
    digests = {digest(topic, records) for topic in OUTPUT_TOPICS for records in (RECORDS, CHANGES[change](RECORDS))}
    assert len(digests) == 2 * len(OUTPUT_TOPICS)


def test_the_digest_sees_ranges_and_the_link_before() -> None:
    """Two histories with equal outputs must have two digests."""
    changed = {digest("metrics", RECORDS), digest("metrics", RECORDS, end=4), digest("metrics", RECORDS, b"\1" * 32)}
    assert len(changed) == 3
    assert digest("metrics", RECORDS) == digest("metrics", replace(RECORDS, headers=dict(RECORDS.headers)))
