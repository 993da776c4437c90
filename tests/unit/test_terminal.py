"""No command lets the text of a record control a terminal: a single place writes, and it escapes such text."""

import ast
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table

from stream_app.terminal import LogFormatter, Terminal, printable, say, simple_table

ROOT = Path(__file__).parents[2]

HOSTILE = "evil[/a] [bold]x[/] :skull: \x1b[2J\x1b]0;owned\x07\r\n\x9b31m\u202ename\ud800"

SHOWN = r"evil[/a] [bold]x[/] :skull: \x1b[2J\x1b]0;owned\x07\r\n\x9b31m\u202ename\ud800"


def _check(text: str) -> None:
    """Check that the text is visible, letter by letter, and has no other effect."""
    assert SHOWN in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_every_letter_is_shown() -> None:
    """Invisible characters appear as Python's escapes, all others unchanged; escaping twice changes nothing."""
    assert printable(HOSTILE) == SHOWN
    assert printable(SHOWN) == SHOWN
    assert printable("Größe 42 µm, 温度") == "Größe 42 µm, 温度"


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A line feed in a name must not forge a line."""
    say(HOSTILE)
    say(HOSTILE, err=True)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"{SHOWN}\n", f"{SHOWN}\n")


def test_a_table_is_no_markup() -> None:
    """The name `[/a]` would end `areba verify` with a traceback."""
    out = io.StringIO()
    table = Table(HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row(HOSTILE)
    Terminal(file=out, width=400).print(table)
    Terminal(file=out, width=400).print(HOSTILE, style="red")
    assert out.getvalue().count(SHOWN) == 5
    _check(out.getvalue())


def test_each_line_below_a_table_is_a_line() -> None:
    """Operators read explanations below the table; a name in one of them must not forge another."""
    out = io.StringIO()
    Terminal(file=out, width=400).print(simple_table("t", ["n" * 100], ["one", HOSTILE]))
    assert [line.strip() for line in out.getvalue().splitlines()[-2:]] == ["one", SHOWN]


def test_progress_is_no_markup() -> None:
    """The description of a bar may be a name."""
    out = io.StringIO()
    with Progress(TextColumn("{task.description}", markup=False), console=Terminal(file=out, width=400)) as bars:
        bars.add_task(printable(HOSTILE), total=1)
    _check(out.getvalue())


def test_the_log_has_a_line_for_each_record() -> None:
    """The same applies if a message quotes a name."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("a test")  # noqa: LOG001  (no registry is to keep it)
    logger.addHandler(handler)
    logger.warning("stream %s", HOSTILE)
    assert out.getvalue() == f"WARNING stream {SHOWN}\n"


def _writers(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that write to a terminal directly."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "rich.console":
            yield from (node.lineno for name in node.names if name.name == "Console")
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in {"click.echo", "click.secho", "Console", "rich.print", "sys.stdout.write", "sys.stderr.write"}:
                yield node.lineno
            if name == "TextColumn" and not _is_plain(node):
                yield node.lineno


def _is_plain(column: ast.Call) -> bool:
    """Say whether a column has fixed text, or no markup."""
    return "{" not in ast.unparse(column.args[0]) or any(keyword.arg == "markup" for keyword in column.keywords)


@pytest.mark.parametrize("folder", ["stream_app", "producers", "ops", "study"])
def test_nobody_else_writes(folder: str) -> None:
    """A new command must be as safe as the others."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "terminal.py"
        for line in _writers(ast.parse(path.read_text()))
    ]
    assert not found
