"""The lanes of a stream: names, the lane of an id, and where the lanes lie."""

import re
from collections import Counter

import pytest

from stream_app.key_partition import partition_of
from stream_app.lanes import Lane, lane_names, lane_number, lane_of, read_lane, stream_of
from stream_app.records import Outcome
from stream_app.testing import InProcess
from tests.support.documents import ROOT


def test_examples_of_the_page_are_right() -> None:
    """A producer in another language is tested with them: with another lane, no label would meet its example."""
    page = (ROOT / "docs" / "lanes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+)` \| (0x[0-9a-f]{8}) \| (\d) \| `(.+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 3
    for id_, _, number, name in rows:
        assert (lane_number(id_, 8), lane_of("clicks", 8, id_)) == (int(number), name)


@pytest.mark.parametrize(("lanes", "partitions"), [(8, 8), (8, 4), (8, 2), (64, 16), (3, 3), (6, 3), (5, 5)])
@pytest.mark.parametrize("stream", ["clicks", "payments-eu", "é"])
def test_lanes_are_spread_evenly(stream: str, lanes: int, partitions: int) -> None:
    """By the hash of plain names, a third of the partitions would have no lane, and one of them three."""
    counts = Counter(partition_of(name.encode(), partitions) for name in lane_names(stream, lanes))
    assert counts == dict.fromkeys(range(partitions), lanes // partitions)
    apart = Counter(partition_of(name.encode(), 4 * lanes) for name in lane_names(stream, lanes))
    assert set(apart.values()) == {1}, "after `areba repartition`, no two lanes share a partition"


def test_names_say_what_they_are() -> None:
    """Whoever reads an output finds the stream; a stream that only looks like a lane keeps its name."""
    for lanes in (2, 8, 64):
        names = lane_names("a.b", lanes)
        assert [read_lane(name) for name in names] == [Lane("a.b", number, lanes) for number in range(lanes)]
        assert {stream_of(name) for name in names} == {"a.b"}
    (own,) = [name for name in (f"clicks.3of8.{last}" for last in range(9)) if stream_of(name) == "clicks"]
    assert own in lane_names("clicks", 8)
    for name in ("clicks", "clicks.8of8.0", "clicks.0of1.0", "clicks.0of65.0", "clicks.03of8.1", ".3of8.1"):
        assert stream_of(name) == name
    with pytest.raises(ValueError, match="a stream has 2 to 64 lanes, not 65"):
        lane_of("clicks", 65, "1")


def test_ids_spread_over_lanes() -> None:
    """A lane with twice its share would be as hot as the stream was."""
    counts = Counter(lane_number(f"e697363476-{number}", 8) for number in range(80_000))
    assert all(9_500 < counts[number] < 10_500 for number in range(8)), counts


def test_examples_and_labels_meet_in_their_lanes() -> None:
    """A label in another lane than its example would wait there until it is a dead letter."""
    application = InProcess(streams={"clicks": {"features": 1, "lanes": 2}, "pumps": {"features": 1}})
    for number in range(40):
        application.send_example("clicks", str(number), [number % 3])
        application.send_label("clicks", str(number), number % 2)
    application.send_example("pumps", "1", [1.0])
    application.end_stream("clicks")
    application.run()
    assert not application.dead_letters()
    outcomes = application.outcomes()
    assert all(isinstance(one, Outcome) and one.outcome == "joined" for one in outcomes)
    assert {one.id: one.stream for one in outcomes} == {str(n): lane_of("clicks", 2, str(n)) for n in range(40)}
    assert {one.stream for one in application.predictions()} == {*lane_names("clicks", 2), "pumps"}


def test_a_producer_that_does_not_know_of_the_lanes_gets_dead_letters() -> None:
    """Its records would begin a ninth model beside the lanes, whose labels never come."""
    application = InProcess(streams={"clicks": {"features": 1, "lanes": 2}})
    application.send_example("clicks.2of3.1", "1", [1.0])
    application.run()
    assert [letter.reason for letter in application.dead_letters()] == ["unknown-stream"]
    assert "clicks" not in application.config.task_settings().streams


def test_erase_finds_the_lane_of_each_id() -> None:
    """An example that stays in its lane is a person's data that was promised to be gone."""
    application = InProcess(streams={"clicks": {"features": 1, "lanes": 2}})
    for number in range(10):
        application.send_example("clicks", str(number), [1.0])
    application.run()
    application.erase("clicks", [str(number) for number in range(6)])
    application.run()
    evicted = [one.id for one in application.outcomes() if one.outcome == "evicted"]
    assert sorted(evicted) == [str(number) for number in range(6)]
    assert len({one.stream for one in application.outcomes()}) == 2
