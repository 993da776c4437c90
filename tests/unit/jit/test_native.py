"""The cache of compiled code: the sources that its digest covers."""

import ast
import builtins
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import stream_app
from stream_app.jit.cache import sources_digest, sources_of

PACKAGE = Path(stream_app.__file__).parent

DECORATORS = frozenset({"compiled", "inlined", "compiled_without_refcounts", "inlined_without_refcounts"})


class Module(NamedTuple):
    """A source file: the names that each top-level name uses, the origin of imported names, and what is compiled."""

    uses: Mapping[str, frozenset[str]]
    imported: Mapping[str, str]
    compiled: frozenset[str]


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _bindings(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _names(target)
    elif isinstance(node, ast.AnnAssign):
        yield from _names(node.target)


def _is_compiled(node: ast.stmt) -> bool:
    """Say whether one of our decorators compiles the function, or Numba's intrinsic does."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(DECORATORS & _names(one) or "intrinsic" in ast.dump(one) for one in node.decorator_list)


def _read(path: Path) -> Module:
    uses: dict[str, frozenset[str]] = {}
    imported: dict[str, str] = {}
    compiled = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imported |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        for name in _bindings(node):
            uses[name] = uses.get(name, frozenset()) | _names(node)
        if _is_compiled(node) and isinstance(node, ast.FunctionDef):
            compiled.add(node.name)
    return Module(uses, imported, frozenset(compiled))


def _needed(module: Module) -> Iterator[str]:
    """Yield the full names that compiled code of this module uses from other modules, also through its constants."""
    open_, seen = list(module.compiled), set(module.compiled)
    while open_:
        name = open_.pop()
        if name in module.imported:
            yield module.imported[name]
        for used in module.uses.get(name, frozenset()) - seen - vars(builtins).keys():
            seen.add(used)
            open_.append(used)


def _source_of(full_name: str) -> Path | None:
    """Return our file that a full name comes from: the module itself, or the module that defines it."""
    parts = full_name.split(".")
    for end in (len(parts), len(parts) - 1):
        base = PACKAGE.parent.joinpath(*parts[:end])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if parts[0] == PACKAGE.name and path.exists():
                return path
    return None


def test_the_digest_covers_all_that_is_compiled_in() -> None:
    """If the digest left a file out, a changed constant of it would keep its old value on machines with a cache."""
    missing = set()
    compiled = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        module = _read(path)
        compiled += len(module.compiled)
        if module.compiled:
            covered = set(sources_of(path))
            needed = {source for name in _needed(module) if (source := _source_of(name)) is not None}
            missing |= {f"{path.relative_to(PACKAGE)} compiles in {source}" for source in needed - covered}
    assert not missing
    assert compiled > 100, "this test has lost sight of what is compiled"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a copy of the sources that a test may change."""
    copy = tmp_path / "stream_app"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("records.py", "join_and_learn"),
        ("learners/networks/simd.py", "join_and_learn"),
        ("learners/api.py", "join_and_learn"),
        ("join/constants.py", "join_and_learn"),
        ("join/rules.py", "join_and_learn"),
        ("schemas/outcome.v1.avsc", "join_and_learn"),
    ],
)
def test_an_edit_recompiles_what_compiles_it_in(name: str, step: str, package: Path) -> None:
    """The compiled step calls each of these files: without a new digest it would run their old code."""
    caller = Path("pipeline", "steps", f"{step}.py")
    with (package / name).open("a", encoding="utf-8") as file:
        file.write("ANOTHER = 1\n")
    assert sources_digest(sources_of(package / caller, package)) != sources_digest(sources_of(PACKAGE / caller))


def test_an_edit_recompiles_nothing_else(package: Path) -> None:
    """Compiling everything takes minutes; an edit of a kernel must not recompile the join."""
    with (package / "learners" / "networks" / "kernels.py").open("a", encoding="utf-8") as file:
        file.write("ANOTHER = 1\n")
    join = Path("join", "rules.py")
    assert sources_digest(sources_of(package / join, package)) == sources_digest(sources_of(PACKAGE / join))


def test_checkouts_with_equal_sources_share_compiled_code(package: Path) -> None:
    """An image is built in one folder and run in another, and a second checkout need not compile."""
    for name in ("join/rules.py", "pipeline/steps/join_and_learn.py"):
        assert sources_digest(sources_of(package / name, package)) == sources_digest(sources_of(PACKAGE / name))


def test_the_environment_is_set_before_numba_is_imported() -> None:
    """Numba reads it once. Otherwise it keeps compiled code beside its source, and misses an edit of another file."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        is_set = path == PACKAGE / "jit" / "environment.py"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            is_set = is_set or any(name.startswith(f"{PACKAGE.name}.jit") for name in names)
            if not is_set and any(name.partition(".")[0] in {"numba", "llvmlite"} for name in names):
                wrong.append(str(path.relative_to(PACKAGE)))
    assert wrong == []
