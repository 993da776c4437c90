"""Changes of a function, of which mutants are made; `+` joins two changes.

A change finds its place in the function by the names there, not by the lines, so that most refactorings leave it as it
is. It must fit exactly one place of the function (`mutant.apply`).
"""

import ast
from collections.abc import Callable

Rewrite = Callable[[ast.AST], ast.AST | list[ast.stmt] | None]
"""Returns what takes the place of a node; None where the node stays."""

Change = tuple[Rewrite, ...]


def instead(name: str, text: str) -> Change:
    """Replace the statement that calls `name`, or assigns to it; `{}` in the text is the statement."""

    def rewrite(node: ast.AST) -> list[ast.stmt] | None:
        if isinstance(node, ast.Assign | ast.Expr | ast.Return):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if _calls(node.value, name) or any(_is(target, name) for target in targets):
                return ast.parse(text.replace("{}", ast.unparse(node))).body
        return None

    return (rewrite,)


def drop(name: str) -> Change:
    """Leave out the statement that calls `name`, or assigns to it."""
    return instead(name, "pass")


def assign(name: str, value: str) -> Change:
    """Assign another value to `name`."""
    return instead(name, f"{name} = {value}")


def returns(value: str) -> Change:
    """Let the function only return this value."""

    def rewrite(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse(f"return {value}").body
            return node
        return None

    return (rewrite,)


def condition(name: str, value: str) -> Change:
    """Replace the condition of an `if` that mentions `name`."""

    def rewrite(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.If | ast.IfExp) and _mentions(node.test, name):
            node.test = _expression(value)
            return node
        return None

    return (rewrite,)


def loop(name: str, value: str) -> Change:
    """Let a loop over something that mentions `name` run over something else."""

    def rewrite(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.For | ast.comprehension) and _mentions(node.iter, name):
            node.iter = _expression(value)
            return node
        return None

    return (rewrite,)


def argument(name: str, place: int | str, value: str) -> Change:
    """Give another argument, by its place or keyword, to the call of `name`."""

    def rewrite(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or not _calls(node, name):
            return None
        if isinstance(place, int):
            node.args[place] = _expression(value)
        else:
            others = [keyword for keyword in node.keywords if keyword.arg != place]
            node.keywords = [*others, ast.keyword(place, _expression(value))]
        return node

    return (rewrite,)


def without(name: str) -> Change:
    """Leave out the operand of `and` or `or` that mentions `name`."""

    def rewrite(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.BoolOp):
            kept = [operand for operand in node.values if not _mentions(operand, name)]
            if len(kept) == len(node.values) - 1:
                return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)
        return None

    return (rewrite,)


def replace(old: str, new: str) -> Change:
    """Replace an expression by another."""
    return (lambda node: _expression(new) if _is(node, old) else None,)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.expr) and ast.unparse(node) == ast.unparse(_expression(text))


def _calls(node: ast.AST | None, name: str) -> bool:
    """Say whether this is a call of `name`, which may be the end of a dotted name."""
    return isinstance(node, ast.Call) and f".{ast.unparse(node.func)}".endswith(f".{name}")


def _mentions(node: ast.AST, name: str) -> bool:
    return any(name in {getattr(one, "id", None), getattr(one, "attr", None)} for one in ast.walk(node))
