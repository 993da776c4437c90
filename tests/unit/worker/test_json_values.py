"""A worker with values in JSON: hostile values, a restore, `areba verify`, and the commands that read topics."""

import json
import random
from itertools import islice

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.reading import Row
from stream_app.errors import ConfigurationError
from stream_app.monitor.tail import Found, document
from stream_app.records import Side
from stream_app.serialization import codec
from stream_app.verify.verify import verify
from tests.support.formats.json_values import CONFLUENT_SECTION, JSON, SECTION, damaged, good_values
from tests.support.world import World, all_at, make_config, started, take_turns

HOSTILE = 400


def _world() -> World:
    config = make_config(serialization=SECTION, breaker={"in_a_row": 1_000_000, "share": 1.0})
    return World(config)


def test_hostile_values_stop_nothing() -> None:
    """Each becomes a dead letter or an outcome, `areba verify` agrees, and the records around them are processed."""
    world, draw = _world(), random.Random(1)
    for side, topic in ((Side.EXAMPLES, "examples"), (Side.LABELS, "labels")):
        for value in islice(good_values(draw, side), HOSTILE):
            world.put(topic, 0, b"s0", damaged(draw, damaged(draw, value).replace(b'"pumps"', b'"s0"')), 1)
    world.send(20)
    member = started(world.worker())
    ends = HOSTILE + 20
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(ends, ends), (20, 20)])
    reasons = {dict(headers)["areba.reason"] for _, _, _, headers in world.rows("dead-letters", 0)}
    assert reasons >= {b"undecodable", b"wrong-dimension", b"wrong-key"}
    messages = [dict(headers)["__connect.errors.exception.message"] for *_, headers in world.rows("dead-letters", 0)]
    assert any(message.endswith(b"undecodable, not JSON") for message in messages)
    assert len(world.rows("predictions", 0)) >= 20
    assert verify(world.cluster, world.config).ok


def test_a_restore_continues_with_the_same_bytes() -> None:
    """`areba verify` computes every output again, and compares the digest of the bytes with the commits."""
    world = _world()
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 10))
    before = world.outputs()
    world.send(20, first=10)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 30))
    assert {place: rows[: len(before[place])] for place, rows in world.outputs().items()} == before
    found = verify(world.cluster, world.config)
    assert found.ok
    assert len(world.rows("predictions", 0)) == 30
    for _, value, _, _ in world.rows("predictions", 0):
        assert b"NaN" not in value
        json.loads(value)


def test_a_new_word_for_a_class_is_taken_over() -> None:
    """The change is recorded, so `areba verify` reads earlier labels without it, and later ones with it."""
    world = _world()
    world.put("examples", 0, b"s0", b'{"stream":"s0","id":"x","features":[1]}', 1)
    value = b'{"stream":"s0","id":"x","label":"fraud"}'
    world.put("labels", 0, b"s0", value, 2)
    member = started(world.worker())
    take_turns(member, until=lambda: bool(member.tasks) and member.tasks[0].offsets == (1, 1))
    world.put("labels", 0, b"s0", value, 3)
    changed = make_config(serialization={**SECTION, "label_classes": {"fraud": 1}})
    again = started(world.worker(changed))
    take_turns(again, until=lambda: bool(again.tasks) and again.tasks[0].offsets == (1, 2))
    (letter,) = world.rows("dead-letters", 0)
    message = dict(letter[3])["__connect.errors.exception.message"].decode()
    assert message.endswith('bad-label, label "fraud" is not in serialization.label_classes')
    outcomes = [json.loads(value) for _, value, _, _ in world.rows("outcomes", 0)]
    assert [(one["outcome"], one["label"]) for one in outcomes] == [("joined", 1)]
    assert verify(world.cluster, changed).ok


def test_json_after_schema_ids_gives_the_results_of_json() -> None:
    """Only the headers of the values differ; `areba verify` reads them."""
    outputs = []
    for section in (SECTION, CONFLUENT_SECTION):
        world = World(make_config(serialization=section))
        world.send(20)
        member = started(world.worker())
        take_turns(member, until=all_at(member, 20))
        outputs.append([value for topic in ("predictions", "outcomes") for _, value, _, _ in world.rows(topic, 0)])
        assert verify(world.cluster, world.config).ok
    plain, framed = outputs
    assert [value[5:] for value in framed] == plain
    assert {value[:4] for value in framed} == {bytes(4)}


def test_another_form_is_refused() -> None:
    """A subscriber would meet JSON in the middle of a topic of Avro."""
    world = World()
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 10))
    changed = started(world.worker(make_config(serialization=SECTION)))
    with pytest.raises(ConfigurationError, match="wire_format: avro_single_object -> json"):
        take_turns(changed, until=all_at(changed, 11))


def test_tail_shows_the_record() -> None:
    """The application's own topics, which are Avro, can be read with the same settings."""
    world = _world()
    world.send(5)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 5))
    for topic, field in (("predictions", "score"), ("examples", "features")):
        key, value, time_ms, headers = next(iter(world.rows(topic, 0)))
        row = Row(0, time_ms, key, value, headers)
        assert field in document(Found(TopicPartition(topic, 0), row), JSON)["value"]
    for record in world.progress(0):
        assert codec.decode_one(codec.encode(record), JSON) == record
