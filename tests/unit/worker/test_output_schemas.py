"""Outputs by version 1 and by version 2 of their schemas: the switch is recorded, exact after a crash, and verified."""

import pytest

from stream_app.config import Config, TaskSettings
from stream_app.records import CONFIGURATION, Act, Metric, Prediction
from stream_app.serialization import codec
from stream_app.serialization.avro import HEADER_BYTES, catalogue
from stream_app.serialization.wire_format import single_object
from stream_app.verify.verify import verify
from tests.support.world import PARTITIONS, World, _all_at, _config, _started, _turns

BEFORE, AFTER = 10, 20


def _versioned(version: int) -> Config:
    learners = {"learners": {"baseline": {"method": "baseline"}}}
    return _config(serialization={"output_schemas": version}, **learners)


def _versions(world: World, topic: str) -> list[int]:
    """Return the versions of the schemas of a topic's values, task by task."""
    values = [value for number in range(PARTITIONS) for _, value, _, _ in world.rows(topic, number)]
    return [catalogue()[value[:HEADER_BYTES]].version for value in values]


@pytest.mark.parametrize("killed", [False, True])
def test_an_application_switches_and_nothing_else_changes(killed: bool) -> None:
    """Subscribers meet version 2 at one offset, and `areba verify` makes both versions again."""
    old, new = World(_versioned(1)), World(_versioned(2))
    for world in (old, new):
        world.send(BEFORE)
        first = _started(world.worker())
        if killed:
            _turns(first, until=_all_at(first, BEFORE))  # its last snapshot is older than its last commit
        else:
            first.run(_all_at(first, BEFORE))
    assert set(_versions(old, "predictions")) == {1}
    before = old.outputs()
    for world in (old, new):
        world.send(AFTER - BEFORE, first=BEFORE)
        member = _started(world.worker(_versioned(2)))
        _turns(member, until=_all_at(member, AFTER))
    after = old.outputs()
    assert {place: rows[: len(before[place])] for place, rows in after.items()} == before
    assert _versions(old, "predictions") == ([1] * BEFORE + [2] * (AFTER - BEFORE)) * PARTITIONS
    assert set(_versions(old, "metrics")) == {1, 2}
    assert set(_versions(new, "predictions")) == set(_versions(new, "metrics")) == {2}
    for number in range(PARTITIONS):
        one, two = (
            [codec.decode_one(value) for _, value, _, _ in world.rows("predictions", number)] for world in (old, new)
        )
        assert one == two, "readers see the same records"
    acts = [one for one in old.progress(0) if isinstance(one, Act) and one.kind == CONFIGURATION]
    assert [TaskSettings.from_json(act.text).output_schemas for act in acts] == [1, 2]
    assert verify(old.cluster, _versioned(2)).ok


def test_a_configuration_of_an_older_version_means_version_1() -> None:
    """An application of an older version continues with the bytes that it has written so far."""
    text = _versioned(2).task_settings().to_json().replace('"output_schemas":2,', "")
    assert TaskSettings.from_json(text).output_schemas == 1


def test_a_learner_without_queues_has_none() -> None:
    """A queue of length 0 and no queue are not the same."""
    world = World(_versioned(2))
    world.send(BEFORE)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, BEFORE))
    metrics = [codec.decode_one(value) for _, value, _, _ in world.rows("metrics", 0)]
    assert metrics
    for metric in metrics:
        assert isinstance(metric, Metric)
        assert (metric.positive_queue, metric.negative_capacity) == (None, None)


def test_version_1_is_written_and_read() -> None:
    """A reader of both versions gets equal records, but for queues that version 1 cannot leave out."""
    prediction = Prediction("s", "1", "areba", champion=True, score=0.5, predicted_class=1, model_version=3)
    one, two = (codec.encode(prediction, single_object(output_schemas=version)) for version in (1, 2))
    assert one[:HEADER_BYTES] != two[:HEADER_BYTES]
    assert one[HEADER_BYTES:] == two[HEADER_BYTES:]
    assert codec.decode_one(one) == codec.decode_one(two) == prediction
