"""The table in docs/changes.md that says what a change of each setting does."""

from collections.abc import Iterator
from pathlib import Path

from ops.reference.example import MARKS
from ops.reference.settings import sections
from ops.reference.text import table
from stream_app.config import Config, LearnerSettings
from stream_app.config.values import Change

PAGE = Path(__file__).parents[2] / "docs" / "changes.md"

_BEGIN = "<!-- `python -m ops.reference` writes this table -->\n"
_END = "<!-- the end of the table -->\n"


def changes_page() -> str:
    """Return the page with the table of the present settings."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    return before + _BEGIN + "\n".join(_table()) + "\n" + _END + after


def _table() -> Iterator[str]:
    settings = list(_settings())
    rows = []
    for change, text in MARKS.items():
        rows.append((f"`{change}`", text, ", ".join(f"`{name}`" for name, does in settings if does is change)))
    yield from table(("mark", "what happens", "settings"), rows)


def _settings() -> Iterator[tuple[str, Change]]:
    """Yield each setting with what its change does; a section whose settings all do the same is one entry."""
    for name, section in sections():
        if section is not None:
            marks = {key: section.change_of(key) for key in section.model_fields}
            if len(set(marks.values())) == 1:
                yield name, section.change_of(next(iter(marks)))
            else:
                yield from ((f"{name}.{key}", change) for key, change in marks.items())
        elif name not in {"learners", "streams"}:
            yield name, Config.change_of(name)
    yield from ((key, LearnerSettings.change_of(key)) for key in LearnerSettings.model_fields)
