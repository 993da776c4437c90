"""`areba state export --all`: the models of all tasks in one folder, with a manifest that lists them.

    manifest.json                      written last: a folder without it is not a backup
    task-0/fraud.areba.safetensors     one file for each learner of each stream

The folder gets its name when it is complete, so an interrupted export leaves an earlier backup as it was. One task is
in memory at a time.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from stream_app.admin.models import Application, rebuild
from stream_app.admin.saved_models.export_models import export_task
from stream_app.backends.base import pair
from stream_app.errors import ConfigurationError, ErrorCode, StateError

FORMAT = "areba backup 1"

MANIFEST = "manifest.json"


class SavedModel(NamedTuple):
    """A learner of a backup.

    Attributes:
        stream: Name of its stream.
        learner: Its name.
        task: Number of the task that it was exported from.
        champion: Whether it was the champion of its stream.
        file: Its file, relative to the backup.
        digest: The digest of its state.
    """

    stream: str
    learner: str
    task: int
    champion: bool
    file: str
    digest: str


@dataclass(frozen=True, slots=True)
class Backup:
    """What the manifest of a backup says.

    Attributes:
        application: The application's id.
        partitions: Its number of tasks.
        models: The learners that the backup has, task by task.
        left_out: Why tasks are missing, one line each; empty if the backup is complete.
    """

    application: str
    partitions: int
    models: tuple[SavedModel, ...]
    left_out: tuple[str, ...]

    def to_json(self) -> str:
        """Return the content of the manifest."""
        plain = {"format": FORMAT, **asdict(self), "models": [model._asdict() for model in self.models]}
        return json.dumps(plain, indent=1)


def read_backup(folder: Path) -> Backup:
    """Read the manifest of a backup.

    Raises:
        ConfigurationError: The folder has no manifest, or something else in its place.
    """
    path = folder / MANIFEST
    try:
        plain = json.loads(path.read_text())
        if plain["format"] != FORMAT:
            raise ConfigurationError(f"{path}: not a manifest of `areba state export --all`")
        models = tuple(_saved_model(one) for one in plain["models"])
        return Backup(str(plain["application"]), int(plain["partitions"]), models, tuple(map(str, plain["left_out"])))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such file, so {folder} is not a whole backup") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise ConfigurationError(f"{path}: not a manifest of `areba state export --all` ({problem!r})") from None


def _saved_model(plain: dict[str, Any]) -> SavedModel:
    model = SavedModel(**plain)
    if Path(model.file).is_absolute() or ".." in Path(model.file).parts:
        raise ValueError(f"{model.file} is not below the folder")
    return model


def export_all(application: Application, folder: Path, *, overwrite: bool = False) -> Iterator[str]:
    """Write every learner of the application to a folder; yield a line for each learner and each task without any.

    Args:
        application: The application; its workers may be running.
        folder: The folder, which must be new or empty.
        overwrite: Whether a backup in it may be replaced.

    Raises:
        ConfigurationError: The folder has something else in it.
        StateError: Tasks could not be rebuilt, as their lines say. A new folder has the models of the other tasks; an
            earlier backup stays as it was. It also stays if no task has a model now.
        UnknownOutcomeError: The broker did not answer in time.
    """
    target = folder.absolute()
    has_backup = _check_target(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))  # only this user can read it
    try:
        models: list[SavedModel] = []
        left_out: list[str] = []
        partitions = application.partitions()
        for task in range(partitions):
            yield from _export_task(application, task, unfinished, models, left_out)
        backup = Backup(application.config.application.id, partitions, tuple(models), tuple(left_out))
        (unfinished / MANIFEST).write_text(backup.to_json())
        if not models and has_backup:
            raise StateError(f"{folder}: the earlier backup stays, since no task has a model", ErrorCode.NOT_FOUND)
        if left_out and has_backup:
            raise StateError(f"{folder}: the earlier backup stays, since {_tasks(left_out, partitions)} left out")
        _move(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    yield f"{folder}: {len(models):,} models of {partitions} tasks"
    if left_out:
        raise StateError(f"{folder}: the backup is not complete, since {_tasks(left_out, partitions)} left out")


def _tasks(left_out: Sequence[str], partitions: int) -> str:
    return f"{len(left_out)} of {partitions} tasks {'was' if len(left_out) == 1 else 'were'}"


def _export_task(
    application: Application, task: int, folder: Path, models: list[SavedModel], left_out: list[str]
) -> Iterator[str]:
    try:
        rebuilt = rebuild(application, task, None)
    except StateError as problem:
        if problem.code is ErrorCode.NOT_FOUND:
            yield f"task {task}: has no models yet"
        else:
            left_out.append(f"task {task}: left out: {problem}")
            yield left_out[-1]
        return
    before = len(models)
    for written in export_task(application.config, task, rebuilt, folder / f"task-{task}"):
        source = written.file.source
        file = str(written.path.relative_to(folder))
        models.append(SavedModel(source["stream"], source["learner"], task, written.champion, file, source["digest"]))
        yield f"task {task}: {source['stream']}/{source['learner']}, digest {source['digest']}"
    if len(models) == before:
        yield f"task {task}: has no models yet, at offsets {pair(rebuilt.offsets)}"


def _check_target(folder: Path, *, overwrite: bool) -> bool:
    """Say whether a folder has a backup that will be replaced.

    Raises:
        ConfigurationError: It has something that must not be replaced.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not overwrite:
        raise ConfigurationError(f"{folder}: is not empty; --overwrite replaces an earlier backup")
    if not folder.is_dir() or folder.is_symlink():
        raise ConfigurationError(f"{folder}: is not a folder")
    expected = {MANIFEST, *(model.file for model in read_backup(folder).models)}
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    if foreign := sorted(found - expected):
        raise ConfigurationError(f"{folder}: {foreign[0]} does not belong to the backup, so it is not replaced")
    return True


def _move(unfinished: Path, folder: Path) -> None:
    """Give a finished backup its name, and delete the one that had it."""
    if not folder.exists():
        unfinished.rename(folder)
        return
    former = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    folder.replace(former)  # an empty folder
    unfinished.rename(folder)
    shutil.rmtree(former)
