"""The queue between the client and the merge: what goes in comes out once, in order, and is counted."""

import numpy as np
import pytest

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.live.buffers import WaitingRecords
from stream_app.record_columns import RawRecords
from stream_app.records import Header

PLACE = TopicPartition("examples", 0)


def _fetched(
    *offsets: int,
    at_end: bool = False,
    headers: dict[int, tuple[Header, ...]] | None = None,
    position: int | None = None,
) -> Fetched:
    records = RawRecords.of(
        np.array(offsets, np.int64),
        np.array(offsets, np.int64) * 10,
        [f"k{offset}".encode() for offset in offsets],
        [f"v{offset}".encode() for offset in offsets],
        headers or {},
    )
    after_records = offsets[-1] + 1 if offsets else 0
    return Fetched(PLACE, records, at_end=at_end, position=after_records if position is None else position)


@pytest.mark.parametrize("portions", [[10], [1] * 10, [3, 4, 3], [9, 1]])
def test_every_record_comes_out_once(portions: list[int]) -> None:
    """Records come back in order, however they were fetched and taken; headers stay with their records."""
    waiting = WaitingRecords()
    trace = (("traceparent", b"x"),)
    waiting.add(_fetched(0, 1, 2, 3, headers={2: trace}))
    waiting.add(_fetched(4))
    waiting.add(_fetched(5, 6, 8, 9, 12, headers={0: trace, 4: trace}))
    values: list[bytes | None] = []
    with_headers: list[int] = []
    for portion in portions:
        taken = waiting.take(portion)
        assert len(taken) == portion
        assert taken.timestamps.tolist() == [10 * offset for offset in taken.offsets.tolist()]
        assert taken.offsets.flags.writeable
        with_headers += [int(taken.offsets[row]) for row in sorted(taken.headers)]
        values += taken.values
    assert values == [f"v{offset}".encode() for offset in (0, 1, 2, 3, 4, 5, 6, 8, 9, 12)]
    assert with_headers == [2, 5, 12]
    assert (len(waiting), waiting.bytes) == (0, 0)


def test_taking_nothing() -> None:
    """A batch may have records of one side only."""
    assert len(WaitingRecords().take(0)) == 0


def test_rows_below() -> None:
    """A recorded range is complete once everything below its end was read; markers leave gaps, also at the end."""
    waiting = WaitingRecords()
    assert waiting.rows_below(3) is None
    waiting.add(_fetched(0, 1, 2))
    waiting.add(_fetched(5, 6))
    assert [waiting.rows_below(end) for end in (1, 3, 5, 6, 7)] == [1, 3, 3, 4, 5]
    assert waiting.rows_below(8) is None
    waiting.add(_fetched(at_end=True, position=8))
    assert waiting.rows_below(8) == 5
    waiting.take(2)
    assert waiting.rows_below(6) == 2


def test_position() -> None:
    """A batch ends where the next record begins, or where the client is: a marker at the end is not unread."""
    waiting = WaitingRecords()
    assert waiting.position == -1
    waiting.add(_fetched(0, 1, position=3))
    waiting.add(_fetched(5, at_end=True, position=7))
    positions = [waiting.position]
    for _ in range(3):
        taken = waiting.take(1)
        positions.append(waiting.position)
    waiting.put_back(taken)
    assert [*positions, waiting.position] == [0, 1, 5, 7, 5]


def test_the_end_is_news_not_memory() -> None:
    """The buffer is at its end until a poll returns records that are not the last."""
    waiting = WaitingRecords()
    assert not waiting.at_end
    waiting.add(_fetched(0, at_end=True))
    assert waiting.at_end
    waiting.add(_fetched(1))
    assert not waiting.at_end
    waiting.add(_fetched(at_end=True, position=3))
    assert waiting.at_end
    assert waiting.fetched_to == 3
    waiting.clear()
    assert (waiting.at_end, waiting.fetched_to, len(waiting)) == (False, -1, 0)


def test_bytes_count_keys_values_and_headers() -> None:
    """The memory limit must count all parts of a record."""
    waiting = WaitingRecords()
    waiting.add(_fetched(0))
    small = waiting.bytes
    assert small > 0
    waiting.clear()
    waiting.add(_fetched(0, headers={0: (("blob", bytes(100_000)),)}))
    assert waiting.bytes > small + 100_000


def test_times() -> None:
    """The merge gets the timestamps of at most this many records."""
    waiting = WaitingRecords()
    assert waiting.times(5).tolist() == []
    waiting.add(_fetched(0, 1))
    waiting.add(_fetched(2, 3, 4))
    assert waiting.times(4).tolist() == [0, 10, 20, 30]
    assert waiting.times(9).tolist() == [0, 10, 20, 30, 40]
