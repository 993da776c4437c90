"""What every command writes on a terminal passes here: text is shown, never obeyed.

Streams, ids, header names and reasons come from records that nobody checked. A terminal obeys escape bytes in them, a
line feed forges a line of ours, and rich takes `[/a]` for markup. So no command writes by itself: `say` has one line,
`Terminal` has tables and progress, `LogFormatter` has the log. All three use `printable`.
"""

import logging
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import HighlighterType, JustifyMethod, OverflowMethod
    from rich.style import Style


def printable(text: str) -> str:
    """Put Python's escape in the place of each character that cannot be seen: ESC is four visible characters."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def say(line: object, *, err: bool = False) -> None:
    """Write one line, to standard output or standard error."""
    click.echo(printable(str(line)), err=err)


class Terminal(Console):
    """A rich console on which any text, also in a table's cell, is but text: no markup, no emoji, no highlighting."""

    def render_str(  # noqa: D102  (rich's)
        self,
        text: str,
        *,
        style: "str | Style" = "",
        justify: "JustifyMethod | None" = None,
        overflow: "OverflowMethod | None" = None,
        emoji: bool | None = None,  # noqa: ARG002
        markup: bool | None = None,  # noqa: ARG002
        highlight: bool | None = None,  # noqa: ARG002
        highlighter: "HighlighterType | None" = None,  # noqa: ARG002
    ) -> Text:
        return Text(printable(text), style=style, justify=justify, overflow=overflow)


class LogFormatter(logging.Formatter):
    """A line for each record of the log, whatever its message quotes."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's)
        """The line, but for a traceback, which comes after it."""
        record.message = printable(record.message)
        return super().formatMessage(record)
