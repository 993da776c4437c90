"""`areba state`: list, export, import and repair the state of tasks."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_LINES_OPTION, JSON_OPTION, TASK_OPTION, TASKS_OPTION
from stream_app.errors import StateError
from stream_app.terminal import Terminal, say

AT_OPTION = click.option(
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
@JSON_LINES_OPTION
def list_command(path: Path, tasks: Sequence[int], *, as_json: bool) -> None:
    """List all streams and learners: method, size, updates, digest.

    The exit status is 0 even if a task has no state yet; a line on standard error then says so.

    \b
    Examples:
      areba state list -c my.yaml
      areba state list -c my.yaml --task 0 --task 1
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin import models  # noqa: PLC0415  (see run)
    from stream_app.admin.learner_list import documents, table  # noqa: PLC0415
    from stream_app.cli.clients import open_place  # noqa: PLC0415

    place = open_place(path)
    for task in tasks or range(place.partitions()):
        try:
            rebuilt = models.rebuild(place, task, None)
        except StateError as problem:
            say(problem, err=True)
            continue
        if as_json:
            for one in documents(place.config, task, rebuilt):
                say(json.dumps(one))
        else:
            Terminal().print(table(place.config, task, rebuilt))


@state.command("rebuild")
@CONFIG_OPTION
@click.option("--task", type=click.IntRange(0), required=True, help="Number of the task.")
@AT_OPTION
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder in which to save all learners."
)
@JSON_LINES_OPTION
def rebuild_command(path: Path, task: int, at: tuple[int, int] | None, output: Path | None, *, as_json: bool) -> None:
    """Rebuild a task as it was at a commit.

    The command loads the newest snapshot before the commit, processes the later records again, and compares every
    digest. With --json, it prints a document for each learner, with its file. The exit status is 3 if the task cannot
    be rebuilt.

    \b
    Examples:
      areba state rebuild -c my.yaml --task 0
      areba state rebuild -c my.yaml --task 0 --at 20000/19500 -o models
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin import models  # noqa: PLC0415  (see run)
    from stream_app.admin.learner_list import documents, table  # noqa: PLC0415
    from stream_app.cli.clients import open_place  # noqa: PLC0415

    place = open_place(path)
    rebuilt = models.rebuild(place, task, at)
    files = [*models.export_all(place.config, task, rebuilt, output)] if output else []
    if as_json:
        for number, one in enumerate(documents(place.config, task, rebuilt)):  # the files have the same order
            say(json.dumps({**one, "file": files[number] if files else None}))
        return
    Terminal().print(table(place.config, task, rebuilt))
    for file in files:
        say(file)


@state.command("export")
@click.argument("stream")
@click.argument("learner")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@CONFIG_OPTION
@TASK_OPTION
@AT_OPTION
def export_command(
    stream: str, learner: str, file: Path, path: Path, task: int | None, at: tuple[int, int] | None
) -> None:
    """Save LEARNER of STREAM in a FILE that plain Torch can read.

    The format is safetensors (see docs/models.md). The exit status is 2 if there is no such stream or learner.

    \b
    Examples:
      areba state export pumps areba champion.safetensors -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin import models  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_place  # noqa: PLC0415

    say(models.export(open_place(path), stream, learner, file, task, at))


@state.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("stream")
@click.argument("learner")
@CONFIG_OPTION
@TASK_OPTION
def import_command(file: Path, stream: str, learner: str, path: Path, task: int | None) -> None:
    """Let LEARNER of STREAM continue from an exported FILE.

    The application must be new, or all of its workers stopped. The exit status is 3 if workers are running or the model
    does not fit.

    \b
    Examples:
      areba state import champion.safetensors pumps areba -c new.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.import_model import import_model  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_place, open_sender  # noqa: PLC0415

    place = open_place(path)
    with closing(open_sender(place.config)) as sender:
        for line in import_model(place, sender, file, stream, learner, task):
            say(line)


@state.command("diff")
@click.argument("one", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("two", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@JSON_OPTION
def diff_command(one: Path, two: Path, *, as_json: bool) -> None:
    """Compare two exported learners, array by array.

    The exit status is 1 if they differ.

    \b
    Examples:
      areba state diff monday.safetensors tuesday.safetensors
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.compare_models import compare  # noqa: PLC0415  (see run)

    found = compare(one, two)
    for line in [json.dumps(found.to_plain())] if as_json else found.lines():
        say(line)
    sys.exit(0 if found.is_equal else 1)


@state.command("recommit")
@CONFIG_OPTION
@TASKS_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would be committed.")
def recommit_command(path: Path, tasks: Sequence[int], *, dry_run: bool) -> None:
    """Commit offsets again after they were reset or lost.

    Each task continues after its last commit record, with the same bits as without the loss. Correct offsets are not
    changed. Stop all workers first; otherwise the exit status is 3.

    \b
    Examples:
      areba state recommit -c my.yaml --dry-run
      areba state recommit -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.recommit import recommit  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_place  # noqa: PLC0415

    place = open_place(path)
    for line in recommit(place.cluster, place.config, tasks, dry_run=dry_run):
        say(line)


@state.command("skip")
@CONFIG_OPTION
@TASKS_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would be lost.")
def skip_command(path: Path, tasks: Sequence[int], *, dry_run: bool) -> None:
    """Let tasks continue without input records that were deleted.

    Each task continues from its newest snapshot, at the first remaining record. The command prints what the task
    forgets and skips. It does not change a task that can be restored. Stop all workers first; otherwise the exit status
    is 3.

    \b
    Examples:
      areba state skip -c my.yaml --dry-run
      areba state skip -c my.yaml --task 2
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.skip import skip  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_place, open_sender  # noqa: PLC0415

    place = open_place(path)
    with closing(open_sender(place.config)) as sender:
        for line in skip(place, sender, tasks, dry_run=dry_run):
            say(line)
