"""Apply a mutant: a process imports the changed source of one file; the file itself does not change."""

import ast
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stream_app.jit.cache import PACKAGE, base_folder, folder_of, is_compiled_in, sources_of
from tests.simulation.mutants.changes import Change, Rewrite

ROOT = Path(__file__).parents[3]


class Mutant(NamedTuple):
    """One way to break the code.

    Attributes:
        what: The fault that the mutant causes.
        place: The module, and after a colon the function or method: `stream_app.worker.rounds:Rounds.settle`; without
            a colon, the complete module.
        change: The change of that function.
        seed: The seed of the simulation that found it last, which is tried first; None if no hunt has named it here.
        tests: The tests that must fail, below `tests`, with spaces between them; if there are none, a seed must fail.
    """

    what: str
    place: str
    change: Change
    seed: int | None = None
    tests: str = ""

    @property
    def path(self) -> Path:
        """The file that is changed."""
        return (ROOT / self.place.partition(":")[0].replace(".", "/")).with_suffix(".py")

    @property
    def is_of_compiled_code(self) -> bool:
        """Whether compiled code contains code of the file, so that a hunt compiles for a minute or more."""
        return is_compiled_in(self.path)

    @property
    def is_quick(self) -> bool:
        """Whether a hunt takes seconds: it compiles nothing, and a test or a seed is known."""
        return not self.is_of_compiled_code and (self.seed is not None or bool(self.tests))


def apply(mutant: Mutant) -> str:
    """Return the changed source of the mutant's file.

    Raises:
        LookupError: There is no such function, or a change fits no place of it, or several.
    """
    tree = ast.parse(mutant.path.read_text())
    function: ast.AST = tree
    for name in filter(None, mutant.place.partition(":")[2].split(".")):
        found = [node for node in getattr(function, "body", ()) if getattr(node, "name", "") == name]
        if not found:
            raise LookupError(f"there is no {mutant.place}")
        function = found[0]
    for rewrite in mutant.change:
        changer = _Changer(rewrite)
        changer.visit(function)
        if changer.places != 1:
            raise LookupError(f"{mutant.what}: the change fits {changer.places} places of {mutant.place}")
    return ast.unparse(ast.fix_missing_locations(tree))


class _Changer(ast.NodeTransformer):
    """Rewrites the nodes of a tree, and counts how many."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        self.places = 0

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """Rewrite a node, or what is in it."""
        new = self._rewrite(node)
        if new is None:
            return self.generic_visit(node)
        self.places += 1
        return new


def _copy_unaffected(path: Path, folder: Path) -> None:
    """Copy the compiled code of all files that do not include this one."""
    for source in PACKAGE.rglob("*.py"):
        if is_compiled_in(source) and path not in sources_of(source):
            kept = folder_of(source)
            shutil.copytree(kept, folder / kept.relative_to(base_folder().parent))


@contextmanager
def mutated(mutant: Mutant) -> Iterator[dict[str, str]]:
    """Yield the environment in which a Python process, and each that it starts, runs a mutant (`site`).

    The cache finds compiled code by the contents of a file, which do not change here. So a mutant of compiled code
    gets its own cache, with the code of all files that do not include it.
    """
    paths = (str(Path(__file__).parent / "site"), str(ROOT), os.environ.get("PYTHONPATH", ""))
    with tempfile.TemporaryDirectory(prefix="areba-mutant-") as folder:
        file = Path(folder) / mutant.path.name
        file.write_text(apply(mutant))
        changes = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "AREBA_TEST_MUTATION": f"{mutant.path}{os.pathsep}{file}",
        }
        if mutant.is_of_compiled_code:
            _copy_unaffected(mutant.path, Path(folder))
            changes["AREBA_CACHE_DIR"] = folder
        yield {**os.environ, **changes}
