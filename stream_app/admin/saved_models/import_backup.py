"""`areba state import --all`: let all streams of a new or a stopped application continue from a backup.

The new application may have another number of tasks: the name of a stream decides, as for the stream's records. Each
task gets its models in one transaction, through the one writer of progress. A command that was interrupted can be
run again: models that are there already are not written again.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stream_app.admin.models import Application
from stream_app.admin.progress.writer import progress_writer
from stream_app.admin.saved_models.backup import Backup, SavedModel, read_backup
from stream_app.admin.saved_models.import_model import Rehearsal
from stream_app.backends.partitioner import partition_of
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.pipeline.stream_state import without_seen
from stream_app.pipeline.task import Task
from stream_app.snapshot.format import Arrays
from stream_app.snapshot.model_file import ModelFile, digest_of


def import_all(
    application: Application, folder: Path, *, overwrite: bool = False, dry_run: bool = False
) -> Iterator[str]:
    """Let every learner continue from its file of a backup; yield a line for each of them.

    With `overwrite`, models of this application that have a state of their own are replaced. A dry run only yields the
    lines.

    Raises:
        ConfigurationError: The folder is no backup or has no model, or the configuration has changed in a way that the
            application cannot take over.
        StateError: Workers run, or another command has started: this task and later ones got nothing. Or models were
            left out, as their lines say; the others were imported.
        UnknownOutcomeError: The broker did not answer in time.
    """
    backup = read_backup(folder)
    if not backup.models:
        raise ConfigurationError(f"{folder}: the backup has no model")
    yield from backup.left_out
    misplaced = _misplaced(backup)
    by_task: dict[int, list[SavedModel]] = defaultdict(list)
    for model in backup.models:
        by_task[application.task_of(model.stream, None)].append(model)
    left_out = 0
    with progress_writer(application, dry_run=dry_run) as writer:
        for task, models in sorted(by_task.items()):
            writer.begin(task)
            rehearsal = Rehearsal(application, task)
            lines, refused = _rehearse(rehearsal, folder, models, misplaced, overwrite=overwrite)
            if rehearsal.models:
                writer.write(task, rehearsal.acts)
                yield from (f"task {task}: {line}" for line in rehearsal.taken_over)
            yield from (f"task {task}: {line}" for line in lines)
            left_out += refused
    known, verb = len(backup.models), "would be" if dry_run else "are"
    yield f"{known - left_out:,} of {known:,} models {verb} in {application.config.application.id}"
    if left_out or backup.left_out:
        raise StateError(
            f"{folder}: {left_out:,} models were left out, and {len(backup.left_out)} tasks are missing in the backup"
        )


def _rehearse(
    rehearsal: Rehearsal,
    folder: Path,
    models: Sequence[SavedModel],
    misplaced: Mapping[SavedModel, str],
    *,
    overwrite: bool,
) -> tuple[list[str], int]:
    """Add the models of a task to a rehearsal; return a line for each of them, and how many were left out."""
    there = {} if overwrite else _digests(rehearsal.task)
    lines: list[str] = []
    refused = 0
    for model in models:
        try:
            line = misplaced.get(model) or _add(rehearsal, folder, model, there)
        except StateError as problem:
            line = f"left out: {problem}"
        refused += line.startswith("left out")
        lines.append(f"{model.stream}/{model.learner} {line}")
    return lines, refused


def _add(rehearsal: Rehearsal, folder: Path, model: SavedModel, there: Mapping[tuple[str, str], str]) -> str:
    """Add a model to a rehearsal, and say what becomes of it.

    Raises:
        StateError: The file is damaged, or the model does not fit.
    """
    saved = _read(folder, model)
    known = there.get((model.stream, model.learner))
    if known == _digest(saved.state):
        return f"is there already, digest {model.digest}"
    if known is not None:
        return "left out: this application has a model of its own; --overwrite replaces it"
    rehearsal.add_model(model.stream, model.learner, saved)
    return f"continues from digest {model.digest}{_champion_note(rehearsal.task, model)}"


def _read(folder: Path, model: SavedModel) -> ModelFile:
    saved = ModelFile.read(str(folder / model.file))
    if digest_of(saved.state) != model.digest:
        raise StateError(f"{folder / model.file}: is not the file that the manifest names", ErrorCode.STATE_UNUSABLE)
    return saved


def _misplaced(backup: Backup) -> Mapping[SavedModel, str]:
    """Return why models are left out whose stream was in several tasks: only one of them can continue.

    It is the model of the task to which Java's default partitioner assigns the stream, or of the only task.
    """
    tasks: dict[str, set[int]] = defaultdict(set)
    for model in backup.models:
        tasks[model.stream].add(model.task)
    found: dict[SavedModel, str] = {}
    for model in backup.models:
        home = partition_of(model.stream.encode(), backup.partitions)
        if len(tasks[model.stream]) > 1 and model.task != home:
            others = ", ".join(map(str, sorted(tasks[model.stream])))
            found[model] = (
                f"left out: it is of task {model.task}; the stream was in the tasks {others}, its own is {home}"
            )
    return found


def _digests(task: Task) -> dict[tuple[str, str], str]:
    """Return the digest of each learner that a task has."""
    return {
        (name, learner): _digest(held.arrays())
        for name in task.stream_names
        for learner, held in zip(task.stream(name).learner_names, task.stream(name).learners, strict=False)
    }


def _digest(state: Arrays) -> str:
    return digest_of(without_seen(state))


def _champion_note(task: Task, model: SavedModel) -> str:
    stream = task.stream(model.stream)
    champion = stream.learner_names[stream.join.champion]
    if not model.champion or champion == model.learner:
        return ""
    return f" (it was the champion; here {champion} is, see `areba promote`)"
