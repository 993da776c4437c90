"""`areba state`: list, export, import and repair the state of tasks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_LINES_OPTION, TASK_OPTION, TASKS_OPTION
from stream_app.errors import StateError
from stream_app.terminal import Terminal, say

First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")

_AT_OPTION = click.option(
    "--at",
    callback=lambda _context, _option, text: _offsets(text),
    help="EXAMPLES/LABELS: offsets of a commit, as the worker's log shows them; by default the newest commit.",
)


def _offsets(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    examples, slash, labels = text.partition("/")
    if not (slash and examples.isdecimal() and labels.isdecimal()):
        raise click.BadParameter(f"{text!r} is not of the form EXAMPLES/LABELS")
    return int(examples), int(labels)


@click.group()
def state() -> None:
    """List, export, import and repair the committed state of tasks."""


@state.command("list")
@CONFIG_OPTION
@TASKS_OPTION
@_AT_OPTION
@JSON_LINES_OPTION
def list_command(path: Path, tasks: Sequence[int], at: tuple[int, int] | None, *, as_json: bool) -> None:
    """List all streams and learners: method, size, updates, digest.

    The command rebuilds each task: it loads the newest snapshot before the commit, processes the later records again,
    and compares every digest. Models that were imported are listed, also before the first start. A task that has no
    state yet, or cannot be rebuilt, gets a line on standard error; with --at, the exit status is then 3.

    \b
    Examples:
      areba state list -c my.yaml
      areba state list -c my.yaml --task 0 --at 20000/19500
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin import models  # noqa: PLC0415  (see run)
    from stream_app.admin.learner_list import documents, table  # noqa: PLC0415
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    if at is not None and len(tasks) != 1:
        raise click.UsageError("--at needs one --task")
    application = open_application(path)
    for task in tasks or range(application.partitions()):
        try:
            rebuilt = models.rebuild(application, task, at)
        except StateError as problem:
            if at is not None:
                raise
            say(problem, err=True)
            continue
        if as_json:
            for one in documents(application.config, task, rebuilt):
                say(json.dumps(one))
        else:
            Terminal().print(table(application.config, task, rebuilt))


@state.command("export")
@click.argument("stream", required=False)
@click.argument("learner", required=False)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@CONFIG_OPTION
@TASK_OPTION
@_AT_OPTION
@click.option(
    "--format",
    "form",
    type=click.Choice(["safetensors", "onnx"]),
    default="safetensors",
    show_default=True,
    help="onnx: the network and its scaling, for onnxruntime and others; it cannot be imported again.",
)
@click.option("--all", "folder", type=click.Path(path_type=Path, file_okay=False), help="Save all learners here.")
@click.option("--overwrite", is_flag=True, help="With --all: replace an earlier backup in this folder.")
def export_command(
    stream: str | None,
    learner: str | None,
    file: Path | None,
    path: Path,
    task: int | None,
    at: tuple[int, int] | None,
    form: str,
    folder: Path | None,
    *,
    overwrite: bool,
) -> None:
    """Save LEARNER of STREAM in a FILE, or --all in a folder.

    A file of safetensors has the whole state, and plain Torch can read it (see docs/models.md). Workers may be
    running. With --all, each task is rebuilt once, and the folder has a file for each learner and a manifest; it gets
    its name when it is complete. The exit status is 2 if there is no such stream or learner, or the folder is not
    empty; 3 if a task cannot be rebuilt (with --all, the others are saved; an earlier backup stays).

    \b
    Examples:
      areba state export pumps areba champion.safetensors -c my.yaml
      areba state export pumps areba champion.onnx --format onnx -c my.yaml
      areba state export --all backup -c my.yaml
      areba state export --all backup --overwrite -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.saved_models import backup, export_models  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    chosen = _all_or_one(
        folder, ("STREAM", "LEARNER", "FILE"), (stream, learner, file), (task, at), overwrite=overwrite
    )
    as_onnx = form == "onnx"
    if isinstance(chosen, Path):
        if as_onnx:
            raise click.UsageError("--all makes a backup, which needs --format safetensors")
        for line in backup.export_all(open_application(path), chosen, overwrite=overwrite):
            say(line)
    else:
        say(export_models.export(open_application(path), *chosen, task, at, as_onnx=as_onnx))


@state.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.argument("stream", required=False)
@click.argument("learner", required=False)
@CONFIG_OPTION
@TASK_OPTION
@click.option(
    "--all", "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Import a whole backup."
)
@click.option("--overwrite", is_flag=True, help="With --all: replace models that this application has already.")
@click.option("--dry-run", is_flag=True, help="Only print what would be imported.")
def import_command(
    file: Path | None,
    stream: str | None,
    learner: str | None,
    path: Path,
    task: int | None,
    folder: Path | None,
    *,
    overwrite: bool,
    dry_run: bool,
) -> None:
    """Let LEARNER continue from a FILE, or --all from a folder.

    The application must be new, or all of its workers stopped. It may have another number of partitions. Of a stream
    with lanes, LEARNER continues from the file in each lane. With --all, each task gets its models in one transaction,
    and the command can be repeated after an interruption. The exit status is 2 if the folder is no backup; 3 if workers
    are running or a model does not fit (with --all, the other models are imported).

    \b
    Examples:
      areba state import champion.safetensors pumps areba -c new.yaml
      areba state import --all backup --dry-run -c new.yaml
      areba state import --all backup -c new.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.saved_models.import_backup import import_all  # noqa: PLC0415  (see run)
    from stream_app.admin.saved_models.import_model import import_model  # noqa: PLC0415
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    chosen = _all_or_one(folder, ("FILE", "STREAM", "LEARNER"), (file, stream, learner), (task,), overwrite=overwrite)
    if isinstance(chosen, Path):
        lines = import_all(open_application(path), chosen, overwrite=overwrite, dry_run=dry_run)
    else:
        lines = import_model(open_application(path), *chosen, task, dry_run=dry_run)
    for line in lines:
        say(line)


def _all_or_one(
    folder: Path | None,
    names: tuple[str, str, str],
    one: tuple[First | None, Second | None, Third | None],
    others: Sequence[object],
    *,
    overwrite: bool,
) -> Path | tuple[First, Second, Third]:
    """Return what a command works on: the folder of --all, or the arguments that name one learner and its file.

    `others` are the values of options that are not for --all; --overwrite is for --all only.

    Raises:
        UsageError: Both were given, or neither.
    """
    if folder is not None:
        if any(value is not None for value in (*one, *others)):
            raise click.UsageError("--all takes all streams and learners: omit the other arguments, --task and --at")
        return folder
    first, second, third = one
    if first is None or second is None or third is None:
        raise click.UsageError(f"give {names[0]}, {names[1]} and {names[2]}, or --all and a folder")
    if overwrite:
        raise click.UsageError("--overwrite needs --all")
    return first, second, third


@state.command("skip")
@CONFIG_OPTION
@TASKS_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would be lost.")
def skip_command(path: Path, tasks: Sequence[int], *, dry_run: bool) -> None:
    """Let tasks continue without input records that were deleted.

    Each task continues from its newest snapshot, at the first remaining record. The command prints what the task
    forgets and skips. It does not change a task that can be restored. Stop all workers with SIGTERM first, which saves
    the tasks that they have in memory; otherwise the exit status is 3.

    \b
    Examples:
      areba state skip -c my.yaml --dry-run
      areba state skip -c my.yaml --task 2
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.skip import skip  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    for line in skip(open_application(path), tasks, dry_run=dry_run):
        say(line)
