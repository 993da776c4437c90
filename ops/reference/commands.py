"""The commands and their options, from click."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from ops.reference.text import sentence, table

OPTIONS_OF_ALL = {"config", "help", "version"}
"""Options that the page explains once."""


def commands_section(name: str, command: click.Command) -> Iterator[str]:
    """Yield a heading, the help and the options of each command of a group."""
    context = click.Context(command, info_name=name)
    if isinstance(command, click.Group):
        for child in sorted(command.commands):
            yield from commands_section(f"{name} {child}", command.commands[child])
        return
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"#### `{usage.replace(' [OPTIONS]', '')}`\n"
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield _block(paragraph) if paragraph.startswith("\b") else " ".join(paragraph.split()) + "\n"
    rows = [
        (f"`{' '.join(option.opts + option.secondary_opts)}`{_metavar(option)}", _help(option))
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and option.name not in OPTIONS_OF_ALL
        and "--config" not in option.opts
    ]  # fmt: skip
    if rows:
        yield from table(("option", "meaning"), rows)


def _block(paragraph: str) -> str:
    """Return a paragraph whose lines click does not join: its first line is a heading, the others are commands."""
    heading, *lines = paragraph.removeprefix("\b").strip("\n").splitlines()
    return "\n".join([f"{heading.strip()}\n", "```sh", *map(str.strip, lines), "```\n"])


def _metavar(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return " " + ", ".join(f"`{choice}`" for choice in option.type.choices)
    return f" {option.metavar}" if option.metavar else ""


def _help(option: click.Option) -> str:
    parts = [sentence(option.help)] if option.help else []
    if option.required:
        parts.append("Required.")
    if isinstance(option.type, click.IntRange | click.FloatRange):
        parts.append(sentence(f"values: {option.type._describe_range()}"))  # noqa: SLF001  (click's help uses it)
    if isinstance(option.default, str | int | float | Path) and not option.is_flag and option.show_default:
        parts.append(f"Default: `{option.default}`.")
    return " ".join(parts)
