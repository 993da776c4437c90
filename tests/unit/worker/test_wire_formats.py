"""A worker with values in Confluent's format: equal results, recorded schema ids, a registry that does not answer."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from stream_app.config import TaskSettings
from stream_app.errors import ConfigurationError
from stream_app.progress_records import CONFIGURATION, Act
from stream_app.records import Example
from stream_app.serialization import codec
from stream_app.serialization.avro import HEADER_BYTES
from stream_app.serialization.registered_schemas import Registered, new_schemas, size_of
from stream_app.serialization.wire_format import CONFLUENT_HEADER_BYTES
from stream_app.serialization.writer_schema import MAX_SCHEMA_BYTES, MAX_SCHEMAS_BYTES, kept_text
from stream_app.testing import InProcess
from stream_app.verify.verify import verify
from tests.support.formats.wire_formats import CONFLUENT, SCHEMA_IDS, SECTION, UNKNOWN_ID, reframed
from tests.support.formats.writers import CHARGEBACK, PAYMENT, WRITER_ID, record, written
from tests.support.world import PARTITIONS, World, all_at, make_config, started, take_turns

NEW_ID = 70_000
"""Another id of our schema of examples in the registry."""

PLAIN = codec.encode(Example("s0", "new", [1.0]))
NEW = b"\x00" + NEW_ID.to_bytes(4, "big") + PLAIN[HEADER_BYTES:]


@dataclass
class _Registry:
    """A registry that knows some schemas, and counts how often it was asked."""

    is_away: bool = False
    asked: list[Sequence[int]] = field(default_factory=list)
    known: dict[int, Registered] = field(default_factory=lambda: {NEW_ID: Registered("example.v1")})

    def registered(self, schema_ids: Sequence[int]) -> Mapping[int, Registered] | None:
        self.asked.append(tuple(schema_ids))
        return None if self.is_away else {one: self.known[one] for one in schema_ids if one in self.known}


def _world() -> World:
    return World(make_config(serialization=SECTION))


def _bodies(outputs: Mapping[tuple[str, int], Sequence[tuple[Any, ...]]], header_bytes: int) -> dict[Any, Any]:
    """Return the outputs without the headers of their values."""
    return {
        place: [(key, value[header_bytes:], headers) for key, value, headers in rows] for place, rows in outputs.items()
    }


def test_the_formats_give_equal_results() -> None:
    """Order, scores and models do not depend on how values begin; commits differ in their digests only."""
    worlds = []
    for section in ({}, SECTION):
        world = World(make_config(serialization=section))
        world.send(30)
        member = started(world.worker())
        take_turns(member, until=all_at(member, 30))
        worlds.append((world, [task.live.model_digest() for task in member.tasks]))
    (single, models), (confluent, same_models) = worlds
    assert _bodies(single.outputs(), HEADER_BYTES) == _bodies(confluent.outputs(), CONFLUENT_HEADER_BYTES)
    assert models == same_models
    predictions = [value for _, value, _, _ in confluent.rows("predictions", 0)]
    assert len(predictions) == 30
    assert {value[:5] for value in predictions} == {b"\x00" + SCHEMA_IDS["prediction.v1"][0].to_bytes(4, "big")}
    for world in (single, confluent):
        assert verify(world.cluster, world.config).ok


def test_a_new_schema_id_is_recorded_and_never_asked_for_again() -> None:
    """A restore without a registry reads the record as the first run did, bit for bit."""
    world, registry = _world(), _Registry()
    world.send(10)
    member = started(world.worker(schemas=registry))
    take_turns(member, until=all_at(member, 10))
    world.put("examples", 0, b"s0", NEW, 1_000)
    world.send(10, first=101)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(21, 20), (20, 20)])
    assert registry.asked == [(NEW_ID,)]
    assert world.rows("dead-letters", 0) == []
    settings = _configurations(world)
    assert [one.schema_ids["example.v1"] for one in settings] == [
        SCHEMA_IDS["example.v1"],
        (*SCHEMA_IDS["example.v1"], NEW_ID),
    ]
    before = world.outputs()
    again = started(world.worker())  # without a registry
    world.send(5, first=201)
    take_turns(again, until=lambda: [task.offsets for task in again.tasks] == [(26, 25), (25, 25)])
    after = world.outputs()
    assert {place: rows[: len(before[place])] for place, rows in after.items()} == before
    assert len(_configurations(world)) == 2, "the id stays recorded"
    assert verify(world.cluster, world.config).ok


def _configurations(world: World) -> list[TaskSettings]:
    """Return the configurations that the first task has recorded."""
    acts = [one for one in world.progress(0) if isinstance(one, Act) and one.kind == CONFIGURATION]
    return [TaskSettings.from_json(act.text) for act in acts]


def test_an_id_of_another_schema_is_a_dead_letter() -> None:
    """The dead letter names the schema id, and the records around it are processed."""
    world, registry = _world(), _Registry()
    world.put("examples", 0, b"s0", b"\x00" + UNKNOWN_ID.to_bytes(4, "big") + PLAIN[HEADER_BYTES:], 1)
    world.put("examples", 1, b"s1", PLAIN, 1)
    world.send(10)
    member = started(world.worker(schemas=registry))
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(11, 10)] * PARTITIONS)
    assert registry.asked == [(UNKNOWN_ID,)]
    found = []
    for number in range(PARTITIONS):
        [(_, _, _, headers)] = world.rows("dead-letters", number)
        found.append({name: value.decode() for name, value in headers})
    assert [one["areba.reason"] for one in found] == ["wrong-schema"] * 2
    messages = [one["__connect.errors.exception.message"] for one in found]
    assert f"schema id {UNKNOWN_ID}" in messages[0]
    assert "looks like Avro single-object encoding" in messages[1]
    assert verify(world.cluster, world.config).ok


def _payment(id_: str, features: Sequence[float] = (1.0,)) -> bytes:
    shop = {"city": "x"}
    content = {"stream": "s0", "id": id_, "features": features, "booked": 1, "shop": shop, "previous": None}
    return written(PAYMENT, content)


def test_a_schema_of_another_writer() -> None:
    """Its records are learned as ours, between ours; a restore needs no registry, and gives the same bytes."""
    text = kept_text(json.dumps(PAYMENT))
    world, registry = _world(), _Registry(known={WRITER_ID: Registered("", text)})
    world.send(10)
    member = started(world.worker(schemas=registry))
    take_turns(member, until=all_at(member, 10))
    world.put("examples", 0, b"s0", _payment("new"), 1_000)
    world.send(10, first=101)
    world.put("examples", 0, b"s0", _payment("newer", [1e39]), 3_000)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(22, 20), (20, 20)])
    assert registry.asked == [(WRITER_ID,)]
    assert [settings.writer_schemas for settings in _configurations(world)] == [{}, {str(WRITER_ID): text}]
    predictions = [codec.decode_one(value, CONFLUENT) for _, value, *_ in world.rows("predictions", 0)]
    assert "new" in {prediction.id for prediction in predictions}  # type: ignore[union-attr]
    [(_, _, _, headers)] = world.rows("dead-letters", 0)
    assert dict(headers)["areba.reason"] == b"not-finite"
    before = world.outputs()
    again = started(world.worker())  # without a registry
    world.put("examples", 0, b"s0", _payment("newest"), 3_000)
    take_turns(again, until=lambda: [task.offsets for task in again.tasks] == [(23, 20), (20, 20)])
    after = world.outputs()
    assert {place: rows[: len(before[place])] for place, rows in after.items()} == before
    assert len(world.rows("dead-letters", 0)) == 1
    assert len(_configurations(world)) == 2, "the schema stays recorded"
    assert verify(world.cluster, world.config).ok


def test_a_schema_that_does_not_resolve_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The log and each dead letter say which field is the reason; nothing else stops, and nothing is lost."""
    others = record(("stream", "string"), ("id", "long"), ("features", {"type": "array", "items": "float"}))
    world, registry = _world(), _Registry(known={WRITER_ID: Registered("", kept_text(json.dumps(others)))})
    value = written(others, {"stream": "s0", "id": 7, "features": [1.0]})
    world.put("examples", 0, b"s0", value, 1)
    world.put("examples", 0, b"s0", value, 2)
    world.send(10)
    member = started(world.worker(schemas=registry))
    with caplog.at_level(logging.INFO, "areba"):
        take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(12, 10), (10, 10)])
    assert registry.asked == [(WRITER_ID,)], "a schema does not change under its id"
    refused = 'field "id" has the type long, and string or bytes is wanted'
    letters = [(value, dict(headers)) for _, value, _, headers in world.rows("dead-letters", 0)]
    assert [letter for letter, _ in letters] == [value] * 2
    for _, headers in letters:
        assert headers["areba.reason"] == b"wrong-schema"
        assert refused in headers["__connect.errors.exception.message"].decode()
    assert any(refused in line.getMessage() for line in caplog.records)
    again = started(world.worker())  # without a registry
    world.send(5, first=101)
    take_turns(again, until=lambda: [task.offsets for task in again.tasks] == [(17, 15), (15, 15)])
    assert verify(world.cluster, world.config).ok


def test_another_registry_with_other_writers_is_refused() -> None:
    """The id would read old records in another way."""
    section = {**SECTION, "writer_schemas": {str(WRITER_ID): json.dumps(PAYMENT)}}
    world = World(make_config(serialization=section))
    world.put("examples", 0, b"s0", _payment("new"), 1)
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(11, 10), (10, 10)])
    assert world.rows("dead-letters", 0) == []
    other = {**SECTION, "writer_schemas": {str(WRITER_ID): json.dumps(CHARGEBACK)}}
    changed = started(world.worker(make_config(serialization=other)))
    with pytest.raises(ConfigurationError, match=f"{WRITER_ID} was the id of another schema"):
        take_turns(changed, until=all_at(changed, 12))


def test_schemas_of_other_writers_are_bounded() -> None:
    """Somebody who registers a schema for each record must not fill the memory of a worker."""
    texts = {number: Registered("", "x" * MAX_SCHEMA_BYTES) for number in range(50)}
    values = [b"\x00" + number.to_bytes(4, "big") for number in texts]
    new = new_schemas(values, CONFLUENT, lambda ids: {one: texts[one] for one in ids})
    assert new is not None
    assert 0 < size_of(new.writers) <= MAX_SCHEMAS_BYTES
    more = new_schemas(values, CONFLUENT, lambda ids: {one: texts[one] for one in ids}, size_of(new.writers))
    assert more == ({}, {})


def test_a_registry_that_is_away_stops_the_task_alone() -> None:
    """Nothing is lost and nothing is decided without an answer; the other tasks continue."""
    world, registry = _world(), _Registry(is_away=True)
    world.put("examples", 0, b"s0", NEW, 1)
    world.send(10)
    member = started(world.worker(schemas=registry))
    take_turns(member, until=lambda: len(member.tasks) == 2 and member.tasks[1].offsets == (10, 10))
    assert member.tasks[0].offsets == (0, 0)
    assert registry.asked
    registry.is_away = False
    take_turns(member, until=lambda: member.tasks[0].offsets == (11, 10))
    assert world.rows("dead-letters", 0) == []
    assert len(world.rows("predictions", 0)) == 11
    assert verify(world.cluster, world.config).ok


def test_another_format_is_refused() -> None:
    """A subscriber would meet unreadable values in the middle of a topic."""
    world = World()
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 10))
    changed = started(world.worker(make_config(serialization=SECTION)))
    with pytest.raises(ConfigurationError, match="wire_format: avro_single_object -> confluent"):
        take_turns(changed, until=all_at(changed, 11))


def test_another_registry_is_refused() -> None:
    """The same schema id with another meaning would decode old records in another way."""
    world = _world()
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 10))
    swapped = {**SCHEMA_IDS, "example.v1": SCHEMA_IDS["label.v1"], "label.v1": SCHEMA_IDS["example.v1"]}
    changed = started(world.worker(make_config(serialization={**SECTION, "schema_ids": swapped})))
    with pytest.raises(ConfigurationError, match="another schema registry"):
        take_turns(changed, until=all_at(changed, 11))


def test_in_process() -> None:
    """A user's own tests send and read the configured format."""
    application = InProcess(streams={"pumps": {"features": 1}}, serialization=SECTION)
    application.send_example("pumps", "1", [0.5])
    application.send_label("pumps", "1", 1)
    application.end_stream("pumps")
    application.run()
    assert [one.outcome for one in application.outcomes()] == ["joined"]
    [row] = application.rows(application.config.topics.predictions)
    value = row.value or b""
    assert value == reframed(codec.encode(codec.decode_one(value, CONFLUENT)))
    assert application.metrics()
