"""The lanes of configured streams: what contradicts them, and how many there are by the names of the lanes."""

from collections.abc import Iterable, Iterator, Mapping

from stream_app.lanes import lane_names, read_lane
from stream_app.records import MAX_STREAM_BYTES


def lane_conflicts(lanes: Mapping[str, int | None]) -> Iterator[tuple[str, str]]:
    """Yield each stream whose lanes cannot be, and what is wrong.

    Args:
        lanes: The number of lanes of each configured stream; None: it has none.
    """
    for stream, number in lanes.items():
        names = () if number is None else lane_names(stream, number)
        longest = max((len(name.encode()) for name in names), default=0)
        if longest > MAX_STREAM_BYTES:
            yield stream, f"the names of its lanes have up to {longest} bytes; at most {MAX_STREAM_BYTES} are allowed"
        for name in names:
            if name in lanes:
                yield stream, f"one of its lanes is {name!r}, which is also a configured stream"


def lanes_by_stream(names: Iterable[str]) -> Mapping[str, int | None]:
    """Return the number of lanes of each stream, by the names that records have; None: the stream has none."""
    lanes = {name: read_lane(name) for name in names}
    return {lane.stream if lane else name: lane.lanes if lane else None for name, lane in lanes.items()}
