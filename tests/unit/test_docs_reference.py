"""The code writes reference.md, a table of changes.md and ops/areba.yaml: stale texts would mislead an operator."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import stream_app
from ops.reference import changes, example
from ops.reference.page import PAGE as PATH
from ops.reference.page import page
from ops.reference.promises import MODULES, public_schemas
from ops.reference.settings import attributes_of
from ops.reference.worker import REASONS, log_events, meanings_of
from stream_app import schemas
from stream_app.errors import ErrorCode
from stream_app.records import Reason

ROOT = Path(__file__).parents[2]

PAGE = PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "text"), [(PATH, page), (example.FILE, example.example), (changes.PAGE, changes.changes_page)]
)
def test_a_generated_text_is_what_the_code_says(path: Path, text: Callable[[], str]) -> None:
    """If it fails, run `python -m ops.reference` and commit the files."""
    assert text() == path.read_text(encoding="utf-8")


def test_every_entry_of_the_reference_has_a_meaning() -> None:
    """A setting, option or metric without an explanation is useless."""
    empty = [line for line in PAGE.splitlines() if re.fullmatch(r"\|.*\|\s*\|", line)]
    reasons = [line for line in empty if not any(f"`{reason.text}`" in line for reason in Reason)]
    assert reasons == []


def test_the_programs_of_the_pages_take_only_what_is_promised() -> None:
    """Users copy these programs: what they import must not go away with a minor version."""
    taken = set()
    pages = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "lost_markers.md"]  # shows a fault
    for path in (ROOT / "README.md", *pages):
        for program in re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for node in ast.walk(ast.parse(program)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stream_app"):
                    taken |= {(node.module, alias.name) for alias in node.names}
                assert not (isinstance(node, ast.Import) and "stream_app" in ast.unparse(node)), path
    assert len(taken) > 5
    assert taken <= {(module, name) for module, names in MODULES.items() for name in names}


def test_a_user_may_rely_on_the_schemas_that_others_read() -> None:
    """Progress and changelog are the application's own; all other records have a promised schema."""
    own = {"act.v1", "commit.v1"}
    assert {f"{name}.v{version}" for name, version in schemas.sources()} == {*public_schemas(), *own}


def test_every_reason_is_explained() -> None:
    """A reason without an explanation does not help the owner of a producer."""
    assert set(REASONS) == set(Reason)


def test_every_code_is_explained_and_used() -> None:
    """An operator looks the code of a problem up, and an unused code would be searched for in vain."""
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(stream_app.__path__[0]).rglob("*.py"))
    assert [code for code in ErrorCode if f"ErrorCode.{code.name}" not in sources] == []
    table = PAGE.partition("\n## Error codes\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [*ErrorCode]
    assert all(meanings_of(ErrorCode).values())


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("A thing.\n\nAttributes:\n    a: One\n        and more.\n    b: Two.\n", {"a": "One and more.", "b": "Two."}),
        ("A thing without any.", {}),
    ],
)
def test_attributes_are_read(docstring: str, found: dict[str, str]) -> None:
    """The meanings come from docstrings: a form that is not parsed would leave the table empty."""
    assert attributes_of(type("Documented", (), {"__doc__": docstring})) == found


def test_all_log_lines_are_found() -> None:
    """An operator who finds a line in the log looks up its first word."""
    names = [name for name, _, _ in log_events()]
    assert len(names) >= 26
    assert {"assigned", "restored", "parked"} <= set(names)
