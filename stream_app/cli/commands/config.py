"""`areba config`: the settings in force, and what a new file would change."""

import json
import os
import sys
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION
from stream_app.config import effective
from stream_app.terminal import Terminal, say, simple_table


@click.command()
@CONFIG_OPTION
@click.option("--check", is_flag=True, help="Compare the file with the settings that the application runs under.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, not text: a line for each setting; with --check, one."
)
def config(path: Path, *, check: bool, as_json: bool) -> None:
    """Show the settings, or what a new file changes.

    Each setting has its source: a line of the file, a variable, or `default`. Secrets are shown as stars. Of a stream,
    only those settings are listed that override the settings of `learners`. The exit status is 2 if a setting is wrong.

    With --check, the command compares the file with the settings that the application runs under. Each difference is
    taken-over (it takes effect after the restart), restarts (a learner starts again without its state) or refused (the
    worker would end with status 2), as docs/changes.md explains. The command only reads the topics, so workers may be
    running. The exit status is 1 if a difference would be refused or a task cannot be compared.

    \b
    Examples:
      areba config -c my.yaml
      areba config -c my.yaml --json | jq 'select(.source != "default")'
      areba config --check -c new.yaml
      areba config --check -c new.yaml --json | jq '.differences[].effect'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    if check:
        _check(path, as_json=as_json)
    else:
        _show(path, as_json=as_json)


def _show(path: Path, *, as_json: bool) -> None:
    """Print each setting with its value and the source of the value."""
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


def _check(path: Path, *, as_json: bool) -> None:
    """Print the differences from the settings that the application runs under, and end with the status."""
    from stream_app.admin.compare_configuration import compare  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    found = compare(open_application(path))
    for line in [json.dumps(found.to_plain())] if as_json else found.lines():
        say(line)
    sys.exit(0 if found.ok else 1)
