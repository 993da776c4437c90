"""The house rules that a machine can check: imports between packages, and purity of the core."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from ops.reference.promises import MODULES

ROOT = Path(__file__).parents[2]
APPLICATION = ROOT / "stream_app"

OPEN_TO_ALL = frozenset(
    {
        "arrays",
        "progress_records",
        "records",
        "record_columns",
        "key_partition",
        "lanes",
        "metric_windows",
        "errors",
        "terminal",
        "log_lines",
        "task_state",
        "worker_extra",
        "schemas",
        "__version__",
    }
)

PURE = frozenset(
    {
        "pipeline",
        "learners",
        "join",
        "snapshot",
        "serialization",
        "jit",
        "config",
        "arrays",
        "progress_records",
        "records",
        "record_columns",
        "key_partition",
        "lanes",
        "metric_windows",
        "errors",
        "task_state",
    }
)

PURE_MODULES = frozenset({"monitor/figures.py", "monitor/model.py"})
"""Every front end shares these: a clock in them would give each a different result."""

IMPURE = frozenset({
    "asyncio", "confluent_kafka", "fcntl", "logging", "multiprocessing", "os", "random", "signal", "socket",
    "secrets", "subprocess", "threading", "time", "datetime", "requests", "urllib", "pickle",
})  # fmt: skip
"""Modules that would let a clock, a thread, the environment, the network or chance into a result."""

MAY_BE_IMPURE = {
    "jit": {"os"},  # sets the environment of the compiler before the compiler is imported
    "config": {"socket"},  # the host's name is the default of application.instance
}


FOLDERS = ("stream_app", "producers", "schemas", "ops", "study", "benchmarks", "tests")


def package_of(path: Path) -> str:
    """Name the package, or the module next to the packages, that a file of the application belongs to."""
    return path.relative_to(APPLICATION).with_suffix("").parts[0]


@cache
def nodes(path: Path) -> Sequence[ast.AST]:
    """Return all nodes of a file's syntax tree, which most tests here look at."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports(path: Path) -> Iterator[str]:
    """Yield the full names of all that a file imports, at any depth."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_rule() -> Mapping[str, frozenset[str]]:
    """Read the rule from docs/architecture.md: the packages that each package may import."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = text.partition("```imports\n")[2].partition("```")[0].splitlines()
    assert 0 < len(lines) <= 11
    rule: dict[str, frozenset[str]] = {}
    for line in lines:
        packages, _, allowed = line.partition(":")
        rule |= dict.fromkeys(packages.split(), frozenset(allowed.split()))
    return rule


def test_packages_import_what_the_architecture_allows() -> None:
    """A reader trusts the picture; with one import against it, no package can be understood by itself."""
    rule = import_rule()
    wrong = []
    for path in sorted(APPLICATION.rglob("*.py")):
        package = package_of(path)
        allowed = rule.get(package, frozenset()) | OPEN_TO_ALL | {package}
        for name in imports(path):
            top, _, rest = name.partition(".")
            if (top == "stream_app" and rest.partition(".")[0] not in allowed) or top in {
                "ops",
                "study",
                "tests",
                "benchmarks",
            }:
                wrong.append(f"{path.relative_to(ROOT)}: imports {name}")
    assert wrong == []


def test_the_core_is_pure() -> None:
    """A clock, a thread or chance in the core would make a result that no second run can reproduce."""
    wrong = [
        f"{path.relative_to(ROOT)}: imports {name}"
        for path in sorted(APPLICATION.rglob("*.py"))
        if (package := package_of(path)) in PURE or path.relative_to(APPLICATION).as_posix() in PURE_MODULES
        for name in imports(path)
        if name.partition(".")[0] in IMPURE - MAY_BE_IMPURE.get(package, set())
    ]
    assert wrong == []


def test_the_kafka_client_is_used_in_one_place() -> None:
    """The contract suite covers what `backends.kafka` does; a second user of the client would escape it."""
    users = {
        path.relative_to(ROOT).as_posix()
        for folder in ("stream_app", "producers", "ops", "study")
        for path in (ROOT / folder).rglob("*.py")
        if any(name.partition(".")[0] == "confluent_kafka" for name in imports(path))
    }
    assert users
    assert all(user.startswith("stream_app/backends/kafka") for user in users), users


def test_every_package_says_what_it_is_for() -> None:
    """A reader first opens `__init__.py`: it has five to ten lines, and the public names in it exist."""
    wrong = []
    for folder in sorted(path.parent for path in APPLICATION.rglob("__init__.py")):
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        if folder.parent == APPLICATION and not 4 <= len(docstring.splitlines()) <= 12:
            wrong.append(f"{folder.relative_to(ROOT)}: {len(docstring.splitlines())} lines")
    assert wrong == []


def _module_of(name: str) -> tuple[str, str]:
    """Split the full name of something in the application into its module, without the application, and the rest."""
    parts = name.split(".")[1:]
    for end in range(len(parts), 0, -1):
        place = APPLICATION.joinpath(*parts[:end])
        if place.with_suffix(".py").exists() or (place / "__init__.py").exists():
            return ".".join(parts[:end]), ".".join(parts[end:])
    return "", name


def _used_by(folders: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return what other packages import, by package: modules, or names that the package itself has."""
    used: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        own = package_of(path) if path.is_relative_to(APPLICATION) else ""
        for name in imports(path):
            module, rest = _module_of(name) if name.startswith("stream_app.") else ("", "")
            package, _, inner = module.partition(".")
            if package != own and (inner or rest):
                used.setdefault(package, set()).add(inner or rest)
    return {package: frozenset(names) for package, names in used.items()}


def test_a_package_lists_what_others_use_of_it() -> None:
    """Who changes a module looks there whether others rely on it; a list that nobody checks leads astray."""
    required, allowed = _used_by(["stream_app", "producers"]), _used_by(["ops", "study", "benchmarks"])
    promised = {_module_of(f"{module}.{name}")[0] for module, names in MODULES.items() for name in names}
    wrong = []
    for folder in sorted(path.parent for path in APPLICATION.glob("*/__init__.py") if not path.parent.is_symlink()):
        package = folder.name
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        listed = set(re.findall(r"`([\w.]+)`", docstring.partition("Public:")[2])) - {"__all__"}
        exported = set(getattr(import_module(f"stream_app.{package}"), "__all__", ()))
        used = required.get(package, frozenset()) - exported
        others = allowed.get(package, frozenset()) | {name.partition(".")[2] for name in promised}
        wrong += [f"{package}: {name} is used and not listed" for name in sorted(used - listed)]
        wrong += [f"{package}: {name} is listed and not used" for name in sorted(listed - used - others - exported)]
    assert wrong == []


def test_no_test_module_imports_another() -> None:
    """Shared code of tests is in `tests/support` or next to them; otherwise a change of one test breaks others."""
    wrong = [
        f"{path.relative_to(ROOT)}: imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in imports(path)
        if re.match(r"tests\.(\w+\.)*test_", name)
    ]
    assert wrong == []


def test_no_module_uses_a_private_name_of_another() -> None:
    """Who changes a private name looks at its own file alone, and would break the files that use it."""
    wrong = []
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        imported: set[str] = set()
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FOLDERS:
                imported |= {alias.asname or alias.name for alias in node.names if alias.name.islower()}
                wrong += [f"{path}: imports {alias.name}" for alias in node.names if _is_private(alias.name)]
        wrong += [
            f"{path}: uses {node.value.id}.{node.attr}"
            for node in nodes(path)
            if isinstance(node, ast.Attribute) and _is_private(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id in imported
        ]
    assert wrong == []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_every_task_of_the_shell_draws_a_key() -> None:
    """A writer of the inputs chooses ids, and could slow a task down if the hash had no secret key."""
    wrong = []
    for path in sorted(APPLICATION.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for call in (node for node in nodes(path) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "Task" and len(call.args) == 4:
                assert re.search(r"secrets\.token_bytes\(HASH_KEY_BYTES\)", source), path
                wrong.append(path.name)
    assert len(wrong) >= 4, wrong


def _public_classes(folder: Path) -> dict[str, list[str]]:
    """Return the files that define each public class of a folder."""
    files: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    return files


def test_a_public_class_has_a_name_of_its_own() -> None:
    """Two classes of one name are two things that a reader takes for one."""
    assert {name: paths for name, paths in _public_classes(APPLICATION).items() if len(paths) > 1} == {}


def test_each_term_of_the_glossary_is_one_class_or_function() -> None:
    """A reader who knows the word finds the code; a second class of that name would give the word a second meaning."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*(.+?)\*\* \((?:`(.+?)`|\*word\*)\)\. ", page, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^\*\*", page, re.MULTILINE)), "an entry names neither code nor *word*"
    code = {term: name for term, name in entries if name}
    assert len(set(code.values())) == len(code), "two terms name the same code"
    for term, name in code.items():
        module, _, own_name = name.rpartition(".")
        found = getattr(import_module(module if module.startswith("tests.") else f"stream_app.{module}"), own_name)
        is_code = isinstance(found, type) or callable(found)
        assert is_code, f"{term}: {name} is neither a class nor a function"
    classes = _public_classes(APPLICATION) | _public_classes(ROOT / "producers")
    for term, name in entries:
        own_name = "".join(word.capitalize() for word in re.split(r"[ -]", term))
        assert own_name not in classes or name.endswith(f".{own_name}"), f"{term}: {classes[own_name]} has this name"
