"""A saved model continues in this application or another; each later restore yields the same bits."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from stream_app.admin.models import Application, rebuild
from stream_app.admin.saved_models.export_models import export
from stream_app.admin.saved_models.import_model import import_model
from stream_app.backends.partitioner import partition_of
from stream_app.config import Config
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.lanes import lane_names
from stream_app.pipeline.stream_state import without_seen
from stream_app.pipeline.task import Task
from stream_app.progress_records import IMPORT, Act, Commit
from stream_app.serialization import codec
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.snapshot.model_file import ModelFile, digest_of
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, all_at, make_config, started, take_turns

SAVED = {"learners": {"areba": {"method": "areba", "scaler": "standard"}, "baseline": {"method": "baseline"}}}


def _ran(config: Config, count: int = 40) -> tuple[World, Worker]:
    world = World(config)
    world.send(count)
    member = started(world.worker(config))
    take_turns(member, until=all_at(member, count))
    return world, member


def _application(world: World, config: Config | None = None) -> Application:
    return world.application(config)


def _import(application: Application, file: Path, learner: str = "areba", stream: str = "s0") -> str:
    return "\n".join(import_model(application, file, stream, learner, 0))


def _kill(world: World) -> None:
    """Advance the clock until the group has noticed that its members are dead."""
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)


def _digests(member: Worker) -> Mapping[str, str]:
    """Return the digests of the models of task 0, by stream and learner."""
    [task] = [owned.live.task for owned in member.tasks if owned.number == 0]
    return task.model_digests()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Export the model that an application has trained on forty examples."""
    world, _ = _ran(make_config(**SAVED))
    path = tmp_path / "model.safetensors"
    export(_application(world), "s0", "areba", path, 0, None)
    return path


def test_a_new_application_begins_with_the_imported_model(saved: Path) -> None:
    """A fraud desk opens a second country with the model of the first; each restore begins with the same state."""
    config = make_config(application={"id": "second"}, **SAVED)
    world = World(config)
    line = _import(_application(world), saved)
    assert line.startswith("s0/areba of task 0 continues from digest ")
    member = started(world.worker(config))
    take_turns(member, until=all_at(member, 0))
    held = member.tasks[0].live.task
    state = {name: array for name, array in held.stream("s0").learners[0].arrays().items() if name != "seen"}
    assert line.endswith(digest_of(state)) or "seen" in held.stream("s0").learners[0].arrays()
    assert state["updates"].sum() > 0
    assert held.stream("s0").learners[1].arrays()["updates"].sum() == 0, "the other one is new"
    world.send(10)
    take_turns(member, until=all_at(member, 10))
    predictions = [codec.decode_one(value) for _, value, _, _ in world.rows("predictions", 0)]
    assert predictions[0].model_version > 0  # type: ignore[union-attr]
    _kill(world)
    again = started(world.worker(config))
    take_turns(again, until=all_at(again, 10))
    assert _digests(again) == _digests(member)
    assert rebuild(_application(world), 0, None).task.model_digests() == _digests(member)
    report = verify(world.cluster, config)
    assert report.ok, report.findings


def test_a_stopped_application_continues_with_the_imported_model(saved: Path) -> None:
    """A saved model replaces a bad one; pending examples keep their predictions, and restores apply the import."""
    config = make_config(**SAVED)
    world, member = _ran(config, 60)
    _kill(world)
    before = _digests(member)
    _import(_application(world), saved)
    acts = [record for record in world.progress(0) if isinstance(record, Act)]
    assert [act.kind for act in acts] == ["configuration", IMPORT]
    for _ in range(2):
        member = started(world.worker(config))
        take_turns(member, until=all_at(member, 60))
        after = _digests(member)
        assert after["s0/areba"] != before["s0/areba"]
        assert after["s0/baseline"] == before["s0/baseline"]
        _kill(world)
    world.send(10, first=60)
    member = started(world.worker(config))
    take_turns(member, until=all_at(member, 70))
    assert verify(world.cluster, config).ok
    point = [record for record in world.progress(0) if isinstance(record, Commit) and record.examples_end <= 60][-1]
    earlier = rebuild(_application(world), 0, (point.examples_end, point.labels_end))
    assert earlier.task.model_digests() == before, "before it was imported"


def test_a_challenger_that_only_the_file_has(saved: Path) -> None:
    """The configuration that names it is recorded first."""
    config = make_config(**SAVED)
    world, _ = _ran(config)
    _kill(world)
    more = make_config(learners={**SAVED["learners"], "saved": {"method": "areba", "scaler": "standard"}})
    assert "learners.saved: is new" in _import(_application(world, more), saved, learner="saved")
    kinds = [record.kind for record in world.progress(0) if isinstance(record, Act)]
    assert kinds == ["configuration", "configuration", IMPORT]
    member = started(world.worker(more))
    take_turns(member, until=all_at(member, 40))
    digests = _digests(member)
    assert digests["s0/saved"] == digests["s0/areba"]


def test_a_model_that_does_not_fit_is_refused(saved: Path) -> None:
    """A refused command writes nothing, and its error says why."""
    config = make_config(**SAVED)
    world, _ = _ran(config)
    before = world.rows("progress", 0)
    with pytest.raises(StateError, match=r"workers are running.*\[in-use"):
        _import(_application(world), saved)
    _kill(world)
    for learner, text in (("baseline", "its settings differ"), ("none", "has no such learner")):
        with pytest.raises(StateError, match=text):
            _import(_application(world), saved, learner=learner)
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        _import(_application(world), saved, stream="unheard-of")
    with pytest.raises(ConfigurationError, match=r"metrics.fading_factors"):
        _import(_application(world, make_config(metrics={"fading_factors": [0.5]}, **SAVED)), saved)
    saved.write_bytes(saved.read_bytes()[:-9])
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        _import(_application(world), saved)
    assert world.rows("progress", 0) == before


def test_a_damaged_act_is_refused(saved: Path) -> None:
    """A learner must not start from a state that was changed on its way."""
    config = make_config(application={"id": "second"}, **SAVED)
    world = World(config)
    _import(_application(world), saved)
    (text,) = [record.text for record in world.progress(0) if isinstance(record, Act) and record.kind == IMPORT]
    assert ImportedModel.from_text(text).learner == "areba"
    task = Task(0, config.task_settings(), ("examples", "labels"))
    plain = json.loads(text)
    content = plain["content"]
    damaged = [
        "{}",
        "[]",
        text[:-1],
        json.dumps({**plain, "content": content[4:]}),
        json.dumps({**plain, "content": content[:-4]}),
        json.dumps({**plain, "content": "é"}),
        json.dumps({**plain, "features": 99_999_999_999}),
    ]
    for number, each in enumerate(damaged):
        with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
            task.apply(Act(1 + number, IMPORT, "0", each))


def test_all_lanes_continue_from_one_model(saved: Path) -> None:
    """A stream that gets lanes would otherwise learn everything again, in each lane."""
    config = make_config(**SAVED, streams={"clicks": {"features": 1, "lanes": 3}})
    world = World(config)
    lines = list(import_model(_application(world), saved, "clicks", "areba", None))
    names = lane_names("clicks", 3)
    homes = {name: partition_of(name.encode(), PARTITIONS) for name in names}
    digest = lines[0].rpartition(" ")[2]
    assert lines == [f"{name}/areba of task {homes[name]} continues from digest {digest}" for name in names]
    wanted, file = digest_of(without_seen(ModelFile.read(str(saved)).state)), saved.with_name("again.safetensors")
    for name in names:
        export(_application(world), name, "areba", file, None, None)
        assert digest_of(without_seen(ModelFile.read(str(file)).state)) == wanted
