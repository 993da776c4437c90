"""The map of the README holds: every file has its place, imports go one way, and the pure core stays pure."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

LAYERS = (
    ("cli",),
    ("start",),
    ("worker", "verify", "promote", "state_tools", "state_import", "reset", "skip", "dead_letters", "rerun"),
    ("inspect_tasks", "label_watch", "pages"),
    ("recent", "health"),
    ("recommit",),
    ("rebuild",),
    ("restore",),
    ("changelog", "partitions"),
    ("kafka", "embedded", "topics", "inputs", "breaker", "observe", "metrics", "reading", "trim", "hanging", "machine"),
    ("settle",),
    ("certificate",),
    ("ports", "terminal"),
    # pure from here on
    ("tally", "letters", "recount", "label_flow", "partitioner"),
    ("books",),
    ("task",),
    ("reconfigure", "leftovers"),
    ("streams",),
    ("stream_state", "snapshot", "model_file", "seed", "gap", "parts"),
    ("stream",),
    ("outputs", "bounds"),
    ("batch",),
    ("evaluate", "change", "learners"),
    ("autograd",),
    ("network",),
    ("kernels",),
    ("lanes",),
    ("join",),
    ("order",),
    ("codec",),
    ("avro",),
    ("addresses",),
    ("memory",),
    ("config",),
    ("state",),
    ("left_out",),
    ("records", "identity"),
    ("native",),
    ("errors",),
)
"""Top to bottom; a module imports from its own line and those below it."""

PURE_FROM = LAYERS.index(("tally", "letters", "recount", "label_flow", "partitioner"))

IMPURE = {
    "asyncio", "confluent_kafka", "fcntl", "logging", "multiprocessing", "os", "random", "signal", "socket",
    "secrets", "subprocess", "threading", "time", "datetime", "requests", "urllib", "pickle",
}  # fmt: skip
"""What would let a clock, a thread, the environment, the network or chance into a result."""

ALLOWED_IMPURE = {
    "native": {"os"},  # the door to the compiler: sets its environment before it is imported
    "config": {"socket"},  # the host's name is the default of application.instance
}


def modules() -> Iterator[tuple[str, Path]]:
    """Every source file of the application, with the name of its place on the map."""
    for path in sorted((ROOT / "stream_app").rglob("*.py")):
        parts = path.relative_to(ROOT / "stream_app").with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], path


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, anywhere in it, but for type checkers alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module in {"stream_app", "producers", "ops"}:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(name: str) -> int | None:
    """Index of the line that has this module."""
    return next((index for index, line in enumerate(LAYERS) if name in line), None)


def test_every_module_has_a_place_and_imports_go_down() -> None:
    """Whoever looks for a line of code finds it by the map; a stage that calls back up would make it a lie."""
    wrong = []
    for name, path in modules():
        layer = layer_of(name)
        if layer is None:
            wrong.append(f"{path.relative_to(ROOT)}: has no place on the map")
            continue
        for imported in imports(path):
            package, _, rest = imported.partition(".")
            if package == "stream_app" and rest and not rest.startswith("__"):
                target = layer_of(rest.split(".")[0])
                if target is not None and target < layer:
                    wrong.append(f"{path.relative_to(ROOT)}: imports {imported}, which is above it")
            elif package == "producers" or (package in {"ops", "study"} and name != "cli"):
                wrong.append(f"{path.relative_to(ROOT)}: imports {imported}")
    assert wrong == []


def test_the_core_is_pure() -> None:
    """No clock, thread, environment or network below the ports: a result could depend on it, and differ next time."""
    wrong = [
        f"{path.relative_to(ROOT)}: imports {imported}"
        for name, path in modules()
        if (layer := layer_of(name)) is not None and layer >= PURE_FROM
        for imported in imports(path)
        if imported.partition(".")[0] in IMPURE - ALLOWED_IMPURE.get(name, set())
    ]
    assert wrong == []


def test_one_file_knows_the_kafka_client() -> None:
    """The contract suite covers what `kafka.py` does; a second user of the client would escape it."""
    users = {
        str(path.relative_to(ROOT))
        for folder in ("stream_app", "producers", "ops", "study")
        for path in (ROOT / folder).rglob("*.py")
        if any(imported.partition(".")[0] == "confluent_kafka" for imported in imports(path))
    }
    assert users == {"stream_app/backends/kafka.py"}


def test_the_readme_has_the_map() -> None:
    """A newcomer reads the map in the README; a file that is missing there cannot be found, one too many misleads."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("## Map")[2].partition("```")[2].partition("```")[0]
    lines = block.partition("stream_app/")[2].partition("\nproducers/")[0]
    in_readme = set(re.findall(r"^ {4}(\w+)(?:\.py|/)", lines, re.MULTILINE))
    assert in_readme == {name for name, _ in modules()}


def test_every_task_of_the_shell_draws_a_key() -> None:
    """Whoever may write to the inputs chooses ids; without a key of its own a task could be slowed down by them."""
    processing = ("restore", "changelog", "rerun", "state_tools")  # the others rehearse, or carry out acts alone
    for name in processing:
        tree = ast.parse((ROOT / "stream_app" / f"{name}.py").read_text())
        made = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and ast.unparse(call.func) == "Task"]
        assert made, name
        for call in made:
            source = ast.unparse(tree)
            assert len(call.args) == 4, f"{name}: {ast.unparse(call)}"
            assert "secrets.token_bytes(HASH_KEY_BYTES)" in source
