"""A saved model continues in this application or another; each later restore yields the same bits."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from stream_app.admin.import_model import import_model
from stream_app.admin.models import Place, export, rebuild
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.config import Config
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.pipeline.task import Task
from stream_app.records import SEED, Act, Commit
from stream_app.recovery.buffers import NO_RECORDS
from stream_app.serialization import codec
from stream_app.snapshot.imported_state import Seeds
from stream_app.snapshot.model_file import digest_of
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.world import MAX_POLL_INTERVAL_S, World, _all_at, _config, _started, _turns

SAVED = {"learners": {"areba": {"method": "areba", "scaler": "standard"}, "baseline": {"method": "baseline"}}}


def _ran(config: Config, count: int = 40) -> tuple[World, Worker]:
    world = World(config)
    world.send(count)
    member = _started(world.worker(config))
    _turns(member, until=_all_at(member, count))
    return world, member


def _place(world: World, config: Config | None = None) -> Place:
    return Place(config or world.config, world.cluster, world.clock)


def _import(place: Place, world: World, file: Path, learner: str = "areba", stream: str = "s0") -> str:
    return "\n".join(import_model(place, EmbeddedSender(world.broker), file, stream, learner, 0))


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
    world, _ = _ran(_config(**SAVED))
    path = tmp_path / "model.safetensors"
    export(_place(world), "s0", "areba", path, 0, None)
    return path


def test_a_new_application_begins_with_it(saved: Path) -> None:
    """A fraud desk opens a second country with the model of the first; each restore begins with the same state."""
    config = _config(application={"id": "second"}, **SAVED)
    world = World(config)
    line = _import(_place(world), world, saved)
    assert line.startswith("s0/areba of task 0 continues from digest ")
    member = _started(world.worker(config))
    _turns(member, until=_all_at(member, 0))
    held = member.tasks[0].live.task
    state = {name: array for name, array in held.stream("s0").learners[0].arrays().items() if name != "seen"}
    assert line.endswith(digest_of(state)) or "seen" in held.stream("s0").learners[0].arrays()
    assert state["updates"].sum() > 0
    assert held.stream("s0").learners[1].arrays()["updates"].sum() == 0, "the other one is new"
    world.send(10)
    _turns(member, until=_all_at(member, 10))
    predictions = [codec.decode_one(value) for _, value, _, _ in world.rows("predictions", 0)]
    assert predictions[0].model_version > 0  # type: ignore[union-attr]
    _kill(world)
    again = _started(world.worker(config))
    _turns(again, until=_all_at(again, 10))
    assert _digests(again) == _digests(member)
    assert rebuild(_place(world), 0, None).task.model_digests() == _digests(member)
    report = verify(world.cluster, config)
    assert report.ok, report.findings


def test_a_stopped_application_continues_with_it(saved: Path) -> None:
    """A saved model replaces a bad one; pending examples keep their predictions, and restores apply the import."""
    config = _config(**SAVED)
    world, member = _ran(config, 60)
    _kill(world)
    before = _digests(member)
    _import(_place(world), world, saved)
    acts = [record for record in world.progress(0) if isinstance(record, Act)]
    assert [act.kind for act in acts] == ["configuration", SEED]
    for _ in range(2):
        member = _started(world.worker(config))
        _turns(member, until=_all_at(member, 60))
        after = _digests(member)
        assert after["s0/areba"] != before["s0/areba"]
        assert after["s0/baseline"] == before["s0/baseline"]
        _kill(world)
    world.send(10, first=60)
    member = _started(world.worker(config))
    _turns(member, until=_all_at(member, 70))
    assert verify(world.cluster, config).ok
    point = [record for record in world.progress(0) if isinstance(record, Commit) and record.examples_end <= 60][-1]
    earlier = rebuild(_place(world), 0, (point.examples_end, point.labels_end))
    assert earlier.task.model_digests() == before, "before it was imported"


def test_a_challenger_that_only_the_file_has(saved: Path) -> None:
    """The configuration that names it is recorded first."""
    config = _config(**SAVED)
    world, _ = _ran(config)
    _kill(world)
    more = _config(learners={**SAVED["learners"], "saved": {"method": "areba", "scaler": "standard"}})
    assert "learners.saved: is new" in _import(_place(world, more), world, saved, learner="saved")
    kinds = [record.kind for record in world.progress(0) if isinstance(record, Act)]
    assert kinds == ["configuration", "configuration", SEED]
    member = _started(world.worker(more))
    _turns(member, until=_all_at(member, 40))
    digests = _digests(member)
    assert digests["s0/saved"] == digests["s0/areba"]


def test_what_does_not_fit_is_refused(saved: Path) -> None:
    """A refused command writes nothing, and its error says why."""
    config = _config(**SAVED)
    world, _ = _ran(config)
    before = world.rows("progress", 0)
    with pytest.raises(StateError, match=ErrorCode.WORKERS_RUNNING):
        _import(_place(world), world, saved)
    _kill(world)
    for learner, text in (("baseline", "its settings differ"), ("none", "has no such learner")):
        with pytest.raises(StateError, match=text):
            _import(_place(world), world, saved, learner=learner)
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        _import(_place(world), world, saved, stream="unheard-of")
    with pytest.raises(ConfigurationError, match=r"join.ttl_ms"):
        _import(_place(world, _config(join={"ttl_ms": 5}, **SAVED)), world, saved)
    saved.write_bytes(saved.read_bytes()[:-9])
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        _import(_place(world), world, saved)
    assert world.rows("progress", 0) == before


def _in_old_parts(text: str) -> list[str]:
    """Cut a seed as versions before act.v3 did: each part is a separate document."""
    plain = json.loads(text)
    content = base64.b64decode(plain["content"])
    pieces = [content[start : start + 500] for start in range(0, len(content), 500)]
    return [
        json.dumps(
            {**plain, "parts": len(pieces), "part": number, "content": base64.b64encode(piece).decode()},
            separators=(",", ":"),
        )
        for number, piece in enumerate(pieces)
    ]


def test_parts_of_a_seed_that_do_not_belong_together(saved: Path) -> None:
    """A state in parts: one that was cut off counts for nothing, and mixed ones are refused with what is wrong."""
    config = _config(application={"id": "second"}, **SAVED)
    world = World(config)
    _import(_place(world), world, saved)
    (text,) = [record.text for record in world.progress(0) if isinstance(record, Act) and record.kind == SEED]
    texts = _in_old_parts(text)
    assert len(texts) > 3
    seeds = Seeds()
    for text in texts[:-1]:
        assert seeds.add(text) is None
    whole = seeds.add(texts[-1])
    assert whole is not None
    assert whole.learner == "areba"
    assert seeds.parts == []
    assert seeds.add(texts[0]) is None
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        seeds.add(texts[2])
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        seeds.add("{}")
    task = Task(0, config.task_settings(), ("examples", "labels"))
    task.apply(Act(1, SEED, "0", texts[0]))
    task.step(NO_RECORDS, NO_RECORDS)
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        task.apply(Act(2, SEED, "0", texts[1]))
    huge = texts[-1].replace('"features":1,', '"features":99999999999,')
    assert huge != texts[-1]
    for number, text in enumerate(texts[:-1]):
        task.apply(Act(1 + number, SEED, "0", text))
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        task.apply(Act(len(texts), SEED, "0", huge))
    changed = texts[1].replace('"content":"', '"content":"AAAA')
    assert seeds.add(changed) is None
    for text in texts[2:-1]:
        seeds.add(text)
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        seeds.add(texts[-1])
