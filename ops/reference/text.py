"""Markdown: tables and sentences."""

from collections.abc import Iterable, Iterator, Sequence


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a full stop."""
    text = " ".join(text.split()).rstrip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
