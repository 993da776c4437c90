"""`areba config`: the settings in force, and what a new file would change."""

import json
import os
import sys
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_LINES_OPTION, JSON_OPTION
from stream_app.config import effective
from stream_app.terminal import Terminal, say, simple_table


@click.group()
def config() -> None:
    """Show the settings in force, and check a new file."""


@config.command("show")
@CONFIG_OPTION
@JSON_LINES_OPTION
def show_command(path: Path, *, as_json: bool) -> None:
    """Show each setting with its value and the source of the value.

    The source is a line of the file, an environment variable, or `default`. Secrets are shown as stars. Of a stream,
    only those settings are listed that override the settings of `learners`. The exit status is 2 if a setting is wrong.

    \b
    Examples:
      areba config show -c my.yaml
      areba config show -c my.yaml --json | jq 'select(.source != "default")'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    settings = effective(path, os.environ)
    if as_json:
        for one in settings:
            say(json.dumps(one._asdict()))
        return
    table = simple_table("", ("setting", "value", "source"), names=3)
    for one in settings:
        is_text = isinstance(one.value, str) and one.value
        table.add_row(one.setting, str(one.value) if is_text else json.dumps(one.value), one.source)
    Terminal().print(table)


@config.command("check")
@CONFIG_OPTION
@JSON_OPTION
def check_command(path: Path, *, as_json: bool) -> None:
    """Compare a file with the settings that an application runs under.

    Each difference is taken-over (it takes effect after the restart), restarts (a learner starts again without its
    state) or refused (the worker would end with status 2), as docs/changes.md explains. The command only reads the
    topics, so workers may be running. The exit status is 1 if a difference would be refused or a task cannot be
    compared, and 2 if the file itself is wrong.

    \b
    Examples:
      areba config check -c new.yaml
      areba config check -c new.yaml --json | jq '.differences[].effect'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.compare_configuration import compare  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    found = compare(open_application(path))
    for line in [json.dumps(found.to_plain())] if as_json else found.lines():
        say(line)
    sys.exit(0 if found.ok else 1)
