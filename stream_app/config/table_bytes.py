"""What the rows of the join's tables take, by the settings of their stream.

These are functions of the settings and the number of features only, since results depend on them: where the tables of a
task take more than `join.max_table_bytes_per_task`, the oldest rows are given up.
"""

from typing import NamedTuple

from stream_app.config.learner_settings import is_own
from stream_app.config.methods import METHOD_FACTS
from stream_app.config.task_settings import MAX_PASSED_BYTES, StreamSettings, TaskSettings
from stream_app.records import ID_WORDS

ID_BYTES = 8 * ID_WORDS
_SLOT_BYTES = ID_BYTES + 70
"""A row of the join beside its features: id, hashes, times, offset, class, and its places in the heaps."""
_CLOSED_BYTES = ID_BYTES + 34
"""A closed example: id, hashes, class, revision, outcome, time."""
_CORRECTION_BYTES = 48
"""With `corrections` = `correct`, a closed example's place among the labels and what was predicted."""
TABLE_BYTES = 64
"""An id's share of the hash table: 16 bytes, of which at least a quarter is used after growing."""
_COST_BYTES = 8
"""The costs of an example, in a stream with `costs`."""
_SCORE_BYTES = 9
"""One learner's score, probability and class."""
ARRIVAL_BYTES = 8
"""When an example came, as RELAY keeps it."""
_PASSED_OBJECT_BYTES, _HEADER_OBJECT_BYTES = 200, 160
"""The headers that an example passes on as Python objects, and each of them, beside names and values."""
LABEL_BYTES = 300
"""A waiting label as Python objects, beside what its key, value and headers hold."""
_COPIES = 2
"""Everything counts twice: tables double as they fill, so that a row takes at most the place of two; and the copy of a
label or header that a snapshot needs, while it is made, takes no more than the place that rows do not need."""
_BYTES_OF_RECORD, _LONGEST_INTERVAL = 1 << 16, 5_000
"""See `interval_of`. It is less than a levelling can close, so that a pool whose bound was lowered becomes smaller."""


class RowBytes(NamedTuple):
    """What a pending example, a waiting label and a closed id count.

    An example includes the place that it will need once it is closed. A label counts its own bytes besides, twice.
    """

    pending: int
    waiting: int
    closed: int


def slot_bytes(stream: StreamSettings, features: int) -> int:
    """Return the bytes of a row with an example or a label of this many features."""
    learners = stream.learners.values()
    copies = 1 + sum(learner.scaler != "none" for learner in learners)
    methods = [METHOD_FACTS[learner.method] for learner in learners if not is_own(learner.method)]
    size = 4 * features * copies + _SLOT_BYTES + _SCORE_BYTES * len(learners)
    size += _COST_BYTES if stream.costs is not None else 0
    return size + ARRIVAL_BYTES * sum(facts.keeps_arrivals for facts in methods)


def closed_bytes(settings: TaskSettings) -> int:
    """Return the bytes of a row with a closed id."""
    return _CLOSED_BYTES + (_CORRECTION_BYTES if settings.join.corrections == "correct" else 0)


def passed_bytes(settings: TaskSettings) -> int:
    """Return the most bytes of the headers that one pending example keeps."""
    if not settings.pass_headers:
        return 0
    return MAX_PASSED_BYTES + _PASSED_OBJECT_BYTES + _HEADER_OBJECT_BYTES * len(settings.pass_headers)


def row_bytes(stream: StreamSettings, settings: TaskSettings, features: int) -> RowBytes:
    """Return the bytes of the rows of a stream; its number of features is 0 as long as it is not known."""
    slot = _COPIES * slot_bytes(stream, features) + TABLE_BYTES
    closed = _COPIES * closed_bytes(settings)
    return RowBytes(slot + closed + _COPIES * passed_bytes(settings), slot + LABEL_BYTES, closed + TABLE_BYTES)


def pending_bytes(stream: StreamSettings, settings: TaskSettings) -> int:
    """Return what all pending examples of a stream count at `join.max_pending_per_stream`, without unknown features."""
    return settings.join.max_pending_per_stream * row_bytes(stream, settings, stream.features or 0).pending


def interval_of(bound: int) -> int:
    """Return the number of records between two levellings of a pool with this bound.

    It is a record for every 64 KiB, so that what comes in between is a small part of the bound, and at most 5,000.
    """
    return min(max(1, bound // _BYTES_OF_RECORD), _LONGEST_INTERVAL)
