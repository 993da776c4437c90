"""Lanes: several streams in place of one that is hotter than a core, each with a model of its own.

The id of an example decides its lane, so that its label goes there, too. Every client of Kafka has the hash, murmur2:

    lane   murmur2(id) without its highest bit, mod the number of lanes
    name   `clicks.3of8.1` for lane 3 of 8 of the stream `clicks`; the last number is the smallest from 0 on with which
           murmur2(name) without its highest bit, mod 8, is 3

The name of a stream decides its partition, by the same hash. Without the last number, eight lanes would fall on five of
eight partitions, on average; with it, they are spread evenly if one of both numbers divides the other.
"""

import re
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from stream_app.key_partition import murmur2, positive

MIN_LANES, MAX_LANES = 2, 64

_NAME = re.compile(r"(.+)\.(0|[1-9][0-9]?)of([1-9][0-9]?)\.(0|[1-9][0-9]{0,4})", re.DOTALL)


class Lane(NamedTuple):
    """What the name of a lane says.

    Attributes:
        stream: The stream that has the lanes.
        number: Which lane it is, from 0 on.
        lanes: How many lanes the stream has.
    """

    stream: str
    number: int
    lanes: int


@lru_cache(maxsize=1_024)
def lane_names(stream: str, lanes: int) -> tuple[str, ...]:
    """Return the names of the streams that are the lanes of a stream, by the numbers of the lanes.

    Raises:
        ValueError: The number of lanes is not from `MIN_LANES` to `MAX_LANES`.
    """
    if not MIN_LANES <= lanes <= MAX_LANES:
        raise ValueError(f"a stream has {MIN_LANES} to {MAX_LANES} lanes, not {lanes}")
    return tuple(_lane_name(stream, number, lanes) for number in range(lanes))


def _lane_name(stream: str, number: int, lanes: int) -> str:
    names = (f"{stream}.{number}of{lanes}.{attempt}" for attempt in count())
    return next(name for name in names if _place(name.encode(), lanes) == number)


def _place(key: bytes, places: int) -> int:
    return positive(murmur2(key)) % places


def lane_number(id_: str, lanes: int) -> int:
    """Return the number of the lane to which the example and the label of an id go, from 0 on."""
    return _place(id_.encode(), lanes)


def lane_of(stream: str, lanes: int, id_: str) -> str:
    """Return the lane of an id: the name of the stream to which the example and the label of this id are sent.

    Args:
        stream: The stream, as the configuration has it.
        lanes: Its setting `lanes`.
        id_: The id of the example.

    Raises:
        ValueError: The number of lanes is not from 2 to 64.
    """
    return lane_names(stream, lanes)[lane_number(id_, lanes)]


def read_lane(name: str) -> Lane | None:
    """Return what the name of a lane says; None: it is no name of a lane."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    lane = Lane(match[1], int(match[2]), int(match[3]))
    is_lane = lane.number < lane.lanes and MIN_LANES <= lane.lanes <= MAX_LANES
    return lane if is_lane and _lane_name(*lane) == name else None


def stream_of(name: str) -> str:
    """Return the stream that a record's stream is a lane of, or this stream itself if it is no lane."""
    lane = read_lane(name)
    return name if lane is None else lane.stream
