"""The help of each command: what a user reads first."""

from collections.abc import Iterator

import click
import pytest

from stream_app.cli.main import cli

WIDTH = 80


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for child, inner in sorted(command.commands.items()):
            yield from _commands(f"{name} {child}", inner)


COMMANDS = dict(_commands("areba", cli))
GROUPS = [name for name, command in COMMANDS.items() if isinstance(command, click.Group)]


def _help(name: str) -> str:
    # click leaves two columns of a terminal free
    context = click.Context(COMMANDS[name], info_name=name, terminal_width=WIDTH - 2)
    return COMMANDS[name].get_help(context)


@pytest.mark.parametrize("name", GROUPS)
def test_the_list_of_commands_cuts_no_sentence(name: str) -> None:
    """A summary that ends in dots says too little to choose a command."""
    assert "..." not in _help(name).partition("Commands:")[2]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - set(GROUPS)))
def test_every_command_has_examples_and_exit_statuses(name: str) -> None:
    """An operator copies the example, and a script needs the statuses."""
    text = _help(name)
    examples = [line.strip() for line in text.partition("Examples:")[2].partition("Options:")[0].splitlines()]
    assert any(line.split("=")[0].isupper() or line.startswith(f"{name} ") for line in examples if line)
    assert "exit status" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= WIDTH
