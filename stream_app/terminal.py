"""Output to a terminal, in which text from records cannot do harm.

Names of streams, ids, header names and reasons come from records that nobody has checked. Escape characters in them
would control the terminal, a line feed would forge a line of output, and rich would interpret `[/a]` as markup. So no
command writes by itself: `say` writes a line, `Terminal` tables and progress, `LogFormatter` the log. All three escape
the text with `printable`. All tables are made by `simple_table`.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import HighlighterType, JustifyMethod, OverflowMethod
    from rich.style import Style


def printable(text: str) -> str:
    """Return the text with Python's escape for each character that is not printable: ESC becomes four characters."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def say(line: object, *, err: bool = False) -> None:
    """Write one line, to standard output or standard error."""
    click.echo(printable(str(line)), err=err)


class Terminal(Console):
    """A rich console that shows all text, also in cells of tables, without markup, emoji and highlighting."""

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


def simple_table(title: str, headings: Sequence[str], caption: Sequence[str] = (), *, names: int = 1) -> Table:
    """Return an empty table in the style of all commands.

    The first `names` columns hold texts, the others numbers. Where the terminal is too narrow, the widest columns are
    wrapped, and nothing is cut. `caption` has the lines below the table.
    """
    table = Table(
        title=printable(title) or None,
        caption=Text("\n".join(map(printable, caption)), style="table.caption") if caption else None,
        box=box.SIMPLE_HEAD,
        padding=0,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
    )
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < names else "right", overflow="fold")
    return table


class LogFormatter(logging.Formatter):
    """A formatter that writes one line for each log record, whatever its message contains."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's)
        """Return the line; logging appends a traceback after it."""
        record.message = printable(record.message)
        return super().formatMessage(record)
