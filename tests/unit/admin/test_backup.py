"""All models of an application are saved, and continue in another one with another number of tasks."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stream_app.admin.learner_list import documents
from stream_app.admin.models import Application, rebuild
from stream_app.admin.saved_models import backup as module
from stream_app.admin.saved_models.backup import MANIFEST, export_all, read_backup
from stream_app.admin.saved_models.export_models import ID_DIGITS, file_name
from stream_app.admin.saved_models.import_backup import import_all
from stream_app.backends.partitioner import partition_of
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.progress_records import IMPORT, Act
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.snapshot.model_file import ModelFile
from stream_app.verify.verify import verify
from tests.support import world as worlds
from tests.support.world import MAX_POLL_INTERVAL_S, World, all_beyond, make_config, started, take_turns

pytestmark = pytest.mark.slow

STREAMS = ("s0", "S0", "pumps", "größe/ä", "a.b", "..", "x" * 200)
"""Names that a file system ignores the case of, forbids, or finds too long."""

CONFIG: dict[str, Any] = {
    "streams": {name: {"features": 1} for name in STREAMS},
    "learners": {"areba": {"method": "areba", "scaler": "standard"}, "two": {"method": "baseline"}},
}


def _application(name: str = "app", **sections: object) -> World:
    config = make_config(application={"id": name})
    data = {**config.model_dump(exclude_unset=True, mode="json"), **CONFIG, **sections}
    return World(type(config).model_validate(data, context={}))


def _send(world: World, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        for stream in STREAMS:
            task, key = partition_of(stream.encode(), worlds.PARTITIONS), stream.encode()
            example = Example(stream, str(number), [float(number % 3)])
            world.put("examples", task, key, codec.encode(example), 10 * number + 1)
            world.put("labels", task, key, codec.encode(Label(stream, str(number), number % 2)), 10 * number + 15)


def _run(world: World, count: int, first: int = 0) -> None:
    """Let a worker process examples and labels of every stream, and stop it."""
    _send(world, count, first)
    member = started(world.worker())
    ends = [len(world.rows("examples", task)) for task in range(worlds.PARTITIONS)]
    take_turns(
        member,
        until=lambda: (
            len(member.tasks) == worlds.PARTITIONS
            and all(task.offsets == (ends[task.number],) * 2 for task in member.tasks)
        ),
    )
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)


def _digests(world: World) -> dict[str, str]:
    """Return the digests of all models, by stream and learner, as `areba state list` sees them."""
    found: dict[str, str] = {}
    for task in range(worlds.PARTITIONS):
        with suppress(StateError):  # a task that has no stream
            found |= rebuild(world.application(), task, None).task.model_digests()
    return found


@pytest.fixture
def world() -> World:
    """Return an application that has run, with seven streams of two learners in two tasks."""
    world = _application()
    _run(world, 12)
    return world


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    """Return a backup of the application."""
    [*export_all(world.application(), tmp_path / "backup")]
    return tmp_path / "backup"


def test_one_file_for_each_model_of_every_name(world: World, tmp_path: Path) -> None:
    """A second stream that overwrote the file of the first would be missing on the day of the restore."""
    lines = [*export_all(world.application(), tmp_path / "backup")]
    assert len(lines) == 2 * len(STREAMS) + 1
    backup = read_backup(tmp_path / "backup")
    assert {(one.stream, one.learner) for one in backup.models} == {(s, n) for s in STREAMS for n in CONFIG["learners"]}
    assert len({one.file.lower() for one in backup.models}) == 2 * len(STREAMS), "also where case is ignored"
    for one in backup.models:
        source = ModelFile.read(str(tmp_path / "backup" / one.file)).source
        assert (source["stream"], source["learner"], source["digest"]) == (one.stream, one.learner, one.digest)
        assert len(Path(one.file).name.encode()) < 255
        assert one.champion == (one.learner == "areba")
    assert file_name("s0", "areba") == "s0.areba.safetensors"
    assert file_name("a.b", "c") != file_name("a", "b.c")
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0, "models hold examples of persons"


def test_a_listed_digest_is_of_the_model_alone(folder: Path) -> None:
    """How many examples waited for a label at once, which depends on when records came, must not change it."""
    other = _application("other")
    [*import_all(other.application(), folder)]
    for task in range(worlds.PARTITIONS):
        listed = documents(other.config, task, rebuild(other.application(), task, None))
        found = {(one["stream"], one["learner"]): one["digest"] for one in listed}
        saved = [one for one in read_backup(folder).models if one.task == task]
        assert found == {(one.stream, one.learner): one.digest[:ID_DIGITS] for one in saved}


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_new_application_with_another_number_of_tasks(
    world: World, folder: Path, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that has grown continues with all models: each in the task of its stream, at the first record."""
    before = _digests(world)
    monkeypatch.setattr(worlds, "PARTITIONS", partitions)
    other = _application("other")
    lines = [*import_all(other.application(), folder)]
    assert f"{2 * len(STREAMS)} of {2 * len(STREAMS)} models" in lines[-1]
    assert _digests(other) == before, "listed before the first start"
    for task in range(partitions):
        seeds = [one for one in other.progress(task) if isinstance(one, Act) and one.kind == IMPORT]
        assert len(seeds) == 2 * sum(partition_of(name.encode(), partitions) == task for name in STREAMS)
    written = [other.rows("progress", task) for task in range(partitions)]
    again = [*import_all(other.application(), folder)]
    assert all("is there already" in line for line in again[:-1])
    assert [other.rows("progress", task) for task in range(partitions)] == written, "repeated after an interruption"
    _run(other, 3, first=12)
    member = started(other.worker())
    take_turns(member, until=all_beyond(member, 0))
    for task in range(partitions):
        first = [codec.decode_one(value) for _, value, _, _ in other.rows("predictions", task)]
        assert all(one.model_version > 0 for one in first)  # type: ignore[union-attr]
    report = verify(other.cluster, other.config)
    assert report.ok, report.findings


def test_models_of_this_application_are_not_replaced_unasked(world: World, folder: Path) -> None:
    """A restore into the wrong application would lose a week of learning."""
    _run(world, 6, first=12)
    newer = _digests(world)
    written = [world.rows("progress", task) for task in range(worlds.PARTITIONS)]
    lines: list[str] = []
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        lines.extend(import_all(world.application(), folder))
    lines = [*import_all(world.application(), folder, overwrite=True, dry_run=True)]
    assert [world.rows("progress", task) for task in range(worlds.PARTITIONS)] == written
    assert _digests(world) == newer
    [*import_all(world.application(), folder, overwrite=True)]
    assert _digests(world) != newer
    member = started(world.worker())
    take_turns(member, until=all_beyond(member, 1))
    for one in read_backup(folder).models:
        assert any(one.digest in line for line in lines)
    assert verify(world.cluster, world.config).ok


def test_an_import_names_the_models_that_do_not_fit(folder: Path) -> None:
    """One learner that has changed must not hold the models of all others back, nor be forgotten silently."""
    changed = {**CONFIG["learners"], "two": {"method": "baseline", "hidden": [3]}}
    other = _application("other", learners=changed)
    lines: list[str] = []
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        lines.extend(import_all(other.application(), folder))
    kept = {name for name in _digests(other) if name.endswith("/areba")}
    seeds = [one for task in range(worlds.PARTITIONS) for one in other.progress(task) if one.kind == IMPORT]  # type: ignore[union-attr]
    assert len(seeds) == len(kept) == len(STREAMS)


def test_a_file_of_another_model_is_refused(folder: Path) -> None:
    """Files that were copied one over the other would give a stream the model of another stream."""
    one, two = [model for model in read_backup(folder).models if model.learner == "areba"][:2]
    (folder / one.file).write_bytes((folder / two.file).read_bytes())
    other = _application("other")
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        [*import_all(other.application(), folder)]
    texts = [one.text for task in range(worlds.PARTITIONS) for one in other.progress(task) if one.kind == IMPORT]  # type: ignore[union-attr]
    imported = {(json.loads(text)["stream"], json.loads(text)["learner"]) for text in texts}
    assert len(imported) == 2 * len(STREAMS) - 1
    assert (one.stream, one.learner) not in imported


def test_a_backup_is_replaced_only_by_a_complete_one(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tonight's export that fails must leave yesterday's backup, and no command deletes the files of others."""
    before = (folder / MANIFEST).read_bytes()
    with pytest.raises(ConfigurationError):
        [*export_all(world.application(), folder)]
    real = rebuild

    def fails(application: Application, task: int, at: tuple[int, int] | None) -> object:
        if task:
            raise StateError("inputs were deleted", ErrorCode.INPUTS_DELETED)
        return real(application, task, at)

    _run(world, 3, first=12)
    with monkeypatch.context() as patched:
        patched.setattr(module, "rebuild", fails)
        with pytest.raises(StateError):
            [*export_all(world.application(), folder, overwrite=True)]
        assert (folder / MANIFEST).read_bytes() == before
        partial = folder.parent / "partial"
        with pytest.raises(StateError):
            [*export_all(world.application(), partial)]
        assert {one.task for one in read_backup(partial).models} == {0}
        assert len(read_backup(partial).left_out) == 1
        with pytest.raises(StateError):
            [*import_all(_application("other").application(), partial)]
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError):
        [*export_all(world.application(), folder, overwrite=True)]
    (folder / "notes.txt").unlink()
    [*export_all(world.application(), folder, overwrite=True)]
    assert (folder / MANIFEST).read_bytes() != before
    (folder / MANIFEST).unlink()
    with pytest.raises(ConfigurationError):
        [*import_all(_application("other").application(), folder)]
    with pytest.raises(ConfigurationError):
        [*export_all(world.application(), folder, overwrite=True)]
    assert {path.name for path in folder.parent.iterdir()} == {"backup", "partial"}, "nothing unfinished is left"


def test_a_stream_that_was_in_two_tasks(world: World, tmp_path: Path) -> None:
    """Only one of its models can continue: the model of the task that the stream belongs to."""
    home = partition_of(b"pumps", worlds.PARTITIONS)
    world.put("examples", 1 - home, b"pumps", codec.encode(Example("pumps", "astray", [1.0])), 5)
    member = started(world.worker())
    ends = [len(world.rows("examples", task)) for task in range(worlds.PARTITIONS)]
    take_turns(
        member, until=lambda: all(task.offsets[0] == ends[task.number] for task in member.tasks) and bool(member.tasks)
    )
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    [*export_all(world.application(), tmp_path / "backup")]
    models = [one for one in read_backup(tmp_path / "backup").models if one.stream == "pumps"]
    assert {one.task for one in models} == {0, 1}
    other = _application("other")
    lines: list[str] = []
    with pytest.raises(StateError):
        lines.extend(import_all(other.application(), tmp_path / "backup"))
    own = {one.digest for one in models if one.task == home}
    assert all(any(digest in line for line in lines) for digest in own)
    assert sum("pumps/" in line and "left out" in line for line in lines) == 2


def test_an_application_without_models_replaces_no_backup(folder: Path) -> None:
    """A daily command that is run for the wrong application would otherwise delete the only backup, with status 0."""
    before = (folder / MANIFEST).read_bytes()
    with pytest.raises(StateError) as caught:
        [*export_all(_application("empty").application(), folder, overwrite=True)]
    assert caught.value.code is ErrorCode.NOT_FOUND
    assert (folder / MANIFEST).read_bytes() == before


def test_an_empty_backup_is_refused(world: World, tmp_path: Path) -> None:
    """Otherwise an import of nothing would look like a success."""
    [*export_all(_application("empty").application(), tmp_path / "empty")]
    with pytest.raises(ConfigurationError):
        [*import_all(world.application(), tmp_path / "empty")]
