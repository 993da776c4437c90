"""`areba inspect`."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_OPTION, TASKS_OPTION
from stream_app.terminal import Terminal, say


@click.command("inspect")
@CONFIG_OPTION
@TASKS_OPTION
@JSON_OPTION
def inspect_application(path: Path, tasks: Sequence[int], *, as_json: bool) -> None:
    """Show the progress and the problems of each task.

    The command reads only the topics and the group; it contacts no worker. It prints a line for each problem, which
    begins with the problem's code and names the command that helps. With a problem, the exit status is 1.

    \b
    Examples:
      areba inspect -c my.yaml
      areba inspect -c my.yaml --task 3
      areba inspect -c my.yaml --json | jq -r '.problems[].code'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from rich.progress import track  # noqa: PLC0415  (only this command needs it)

    from stream_app.admin.inspect_tasks import inspect  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    application = open_application(path)
    console = Terminal(stderr=True)
    is_hidden = not console.is_interactive  # otherwise rich writes an empty line
    watched = partial(track, description="looking at tasks", console=console, transient=True, disable=is_hidden)
    found = inspect(application.cluster, application.config, tasks, watched)
    if as_json:
        for line in found.to_json().splitlines():
            say(line)
    else:
        Terminal().print(found.table())
        for line in (*map(str, found.problems()), *found.notes()):
            say(line)
    sys.exit(0 if found.ok else 1)
