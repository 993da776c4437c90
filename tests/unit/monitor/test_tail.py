"""What `areba tail` prints, over the in-process log."""

import json
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from stream_app.errors import ConfigurationError, TopicError
from stream_app.monitor import tail as module
from stream_app.monitor.tail import TOPIC_NAMES, Wanted, arriving, document, newest, topic_named
from stream_app.records import Example, Mark, MarkKind, Prediction
from stream_app.serialization.codec import decode_one, encode, encode_unchecked
from tests.support.world import World, started, take_turns, world_after


@pytest.fixture
def world() -> World:
    """Return a world whose worker has processed 20 examples and labels of each partition."""
    return world_after(20)


def _places(world: World, topic: str, wanted: Wanted) -> list[tuple[int, int]]:
    found, _ = newest(world.cluster, topic_named(world.config.topics, topic), wanted)
    return [(one.place.partition, one.row.timestamp_ms) for one in found]


def test_the_newest_come_in_the_order_of_event_time(world: World) -> None:
    """A user who asks for the last three records means the last of all partitions."""
    world.put("examples", 0, b"s0", encode(Example("s0", "x", [1.0])), 500)
    assert _places(world, "examples", Wanted(limit=3)) == [(0, 191), (1, 191), (0, 500)]
    assert _places(world, "examples", Wanted(limit=0)) == []
    assert len(_places(world, "examples", Wanted(limit=1_000))) == 41
    assert len(_places(world, "examples", Wanted())) == 41


def test_a_stream_and_a_time(world: World) -> None:
    """Records of other streams, and older ones, would bury what a user looks for."""
    assert _places(world, "examples", Wanted(frozenset({"s1"}), 181)) == [(1, 181), (1, 191)]
    assert _places(world, "examples", Wanted(frozenset({"s1"}), 181, 1)) == [(1, 191)]
    assert _places(world, "examples", Wanted(frozenset({"s2"}))) == []
    world.put("examples", 1, b"s1", encode(Example("s1", "old", [1.0])), 7)
    assert _places(world, "examples", Wanted(frozenset({"s1"}), 191)) == [(1, 191)], "an old record after a new one"


def test_few_records_of_a_stream_are_found_far_from_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that fell silent must not look as if it had never had records."""
    monkeypatch.setattr(module, "FIRST_SPAN", 2)
    world.put("examples", 1, b"s0", encode(Example("s0", "y", [1.0])), 500)
    assert _places(world, "examples", Wanted(frozenset({"s0"}), limit=2)) == [(0, 191), (1, 500)]


def test_new_records_follow_without_a_gap(world: World) -> None:
    """A record that comes between the two reads must be printed, and only once."""
    topic = topic_named(world.config.topics, "labels")
    found, ends = newest(world.cluster, topic, Wanted(limit=1))
    assert [one.row.offset for one in found] == [19]
    world.send(3, first=20, partitions=[1])
    places = [
        (one.place.partition, one.row.offset) for one in islice(arriving(world.cluster, ends, Wanted(), print), 3)
    ]
    assert places == [(1, 20), (1, 21), (1, 22)]


def test_every_topic_has_documents(world: World) -> None:
    """A document that is no JSON, or has no place, is of no use to a script."""
    world.put("examples", 0, b"s0", b"nonsense \xff", 500)
    world.put("examples", 0, b"s0", encode_unchecked(Example("s0", "nan", [float("nan")])), 501)
    world.put("labels", 0, b"s0", encode(Mark("s0", MarkKind.ADVANCE, time_ms=5)), 502)
    worker = started(world.worker())
    take_turns(worker, until=lambda: any(task.offsets == (22, 21) for task in worker.tasks))
    types = {}
    for name in TOPIC_NAMES:
        found, _ = newest(world.cluster, topic_named(world.config.topics, name), Wanted(limit=1_000))
        documents = [json.loads(json.dumps(document(one), allow_nan=False)) for one in found]
        assert documents, name
        assert all({"topic", "partition", "offset", "timestamp_ms", "key", "type"} <= one.keys() for one in documents)
        types[name] = {one["type"] for one in documents}
        if name == "dead-letters":
            bad, nan = documents
            assert (bad["reason"], bad["origin"]["offset"], bad["type"]) == ("wrong-schema", 20, None)
            assert bad["base64"] == "bm9uc2Vuc2Ug/w=="
            assert (nan["reason"], nan["value"]["features"]) == ("not-finite", ["nan"])
        if name == "examples":
            assert documents[2]["value"] == {"stream": "s0", "id": "1", "features": [1.0]}
    assert types == {
        "examples": {"Example", None},
        "labels": {"Label", "Mark"},
        "predictions": {"Prediction"},
        "outcomes": {"Outcome"},
        "metrics": {"Metric"},
        "dead-letters": {"Example", None},
        "progress": {"Commit", "Act"},
    }


def test_a_number_is_as_short_as_it_was_written(world: World) -> None:
    """A float32 that is printed as a double looks like noise: 0.30000001192092896."""
    numbers = {"score": np.float32(0.7), "probability": np.float32(0.1), "threshold": np.float32(0.3)}
    [found], _ = newest(world.cluster, world.config.topics.predictions, Wanted(limit=1))
    prediction = decode_one(found.row.value or b"")
    assert isinstance(prediction, Prediction)
    changed = replace(prediction, **{name: float(number) for name, number in numbers.items()})  # type: ignore[arg-type]
    row = found.row._replace(value=encode(changed))
    shown = document(found._replace(row=row))["value"]
    assert {name: shown[name] for name in numbers} == {"score": 0.7, "probability": 0.1, "threshold": 0.3}


def test_names_of_topics(world: World) -> None:
    """A typing error must not end in an empty output."""
    topics = world.config.topics
    assert topic_named(topics, "dead-letters") == topic_named(topics, topics.dead_letters) == topics.dead_letters
    for wrong in ("metric", "changelog", topics.changelog):
        with pytest.raises(ConfigurationError):
            topic_named(topics, wrong)
    world.broker.delete_topic(topics.metrics)
    with pytest.raises(TopicError):
        newest(world.cluster, topics.metrics, Wanted())
